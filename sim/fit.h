/* Fits of measured points: pure functions on arrays, at most KVL_FIT_MAX points. Doubles: what comes of them is rounded into a descriptor once, by hand or by
 * `kvloan calibrate`, and no run computes with them. */
#ifndef KVL_SIM_FIT_H
#define KVL_SIM_FIT_H

#include <stdbool.h>
#include <stdint.h>

enum { KVL_FIT_MAX = 1024 };

/* Monotone regression: the nearest rising (falling) sequence to y in weighted least squares, in place (pool adjacent violators; Ayer et al. 1955).
 * `weight` NULL: all alike. What is monotone already stays as it is. */
void kvl_fit_monotone(double *y, const double *weight, uint32_t n, bool rising);

/* A table of `rows` x `columns`, y[row * columns + column], made rising along both. */
void kvl_fit_monotone_table(double *y, uint32_t rows, uint32_t columns);

/* y = constant + slope x, the sum of squares of the relative errors least, neither below 0. Points further off than 5 times the median error and 10 % are
 * outliers: dropped, and the line is found anew (at most half of the points go). Fewer than two points, or x all the same: slope 0. */
struct kvl_fit_line {
  double constant, slope;
  uint32_t used, outliers;
};
void kvl_fit_line(const double *x, const double *y, uint32_t n, struct kvl_fit_line *line);

/* How far a fit is from what was measured: |fit / measured - 1|. */
struct kvl_fit_residuals {
  uint32_t n;
  double median, p95, worst;
};
void kvl_fit_residuals(const double *fit, const double *measured, uint32_t n, struct kvl_fit_residuals *residuals);

double kvl_fit_median(const double *y, uint32_t n); /* 0 for none */

#endif
