#include "sim/fit.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_ROUNDS = 50 };

void kvl_fit_monotone(double *y, const double *weight, uint32_t n, bool rising)
{
  double mean[KVL_FIT_MAX], heavy[KVL_FIT_MAX];
  uint32_t length[KVL_FIT_MAX], blocks = 0;
  assert(n <= KVL_FIT_MAX);
  for (uint32_t i = 0; i < n; i++) {
    mean[blocks] = rising ? y[i] : -y[i];
    heavy[blocks] = weight == NULL ? 1 : weight[i];
    length[blocks++] = 1;
    while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) { /* the two become one, at their mean */
      double sum = heavy[blocks - 2] + heavy[blocks - 1];
      mean[blocks - 2] = sum > 0 ? (mean[blocks - 2] * heavy[blocks - 2] + mean[blocks - 1] * heavy[blocks - 1]) / sum
                                 : (mean[blocks - 2] + mean[blocks - 1]) / 2;
      heavy[blocks - 2] = sum;
      length[blocks - 2] += length[blocks - 1];
      blocks--;
    }
  }
  for (uint32_t b = 0, at = 0; b < blocks; b++) {
    for (uint32_t i = 0; i < length[b]; i++) {
      y[at++] = rising ? mean[b] : -mean[b];
    }
  }
}

void kvl_fit_monotone_table(double *y, uint32_t rows, uint32_t columns)
{
  double line[KVL_FIT_MAX];
  assert(rows <= KVL_FIT_MAX && columns <= KVL_FIT_MAX);
  for (int round = 0; round < TABLE_ROUNDS; round++) {
    for (uint32_t r = 0; r < rows; r++) {
      kvl_fit_monotone(y + (uint64_t)r * columns, NULL, columns, true);
    }
    for (uint32_t c = 0; c < columns; c++) {
      for (uint32_t r = 0; r < rows; r++) {
        line[r] = y[(uint64_t)r * columns + c];
      }
      kvl_fit_monotone(line, NULL, rows, true);
      for (uint32_t r = 0; r < rows; r++) {
        y[(uint64_t)r * columns + c] = line[r];
      }
    }
  }
  for (uint32_t r = 0; r < rows; r++) { /* what the rounds have left undone is a hair: the larger neighbour rules */
    for (uint32_t c = 0; c < columns; c++) {
      double *here = &y[(uint64_t)r * columns + c];
      double left = c > 0 ? here[-1] : *here, above = r > 0 ? y[(uint64_t)(r - 1) * columns + c] : *here;
      *here = fmax(*here, fmax(left, above));
    }
  }
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double kvl_fit_median(const double *y, uint32_t n)
{
  double sorted[KVL_FIT_MAX];
  assert(n <= KVL_FIT_MAX);
  if (n == 0) {
    return 0;
  }
  memcpy(sorted, y, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, ascending);
  return n % 2 != 0 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Weighted by 1 / y^2. */
static void least_squares(const double *x, const double *y, const bool *out, uint32_t n, struct kvl_fit_line *line)
{
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!out[i] && y[i] > 0) {
      double v = 1 / (y[i] * y[i]);
      w += v;
      wx += v * x[i];
      wy += v * y[i];
      wxx += v * x[i] * x[i];
      wxy += v * x[i] * y[i];
    }
  }
  double spread = w * wxx - wx * wx;
  line->slope = spread > 1e-12 * w * wxx ? (w * wxy - wx * wy) / spread : 0;
  line->constant = w > 0 ? (wy - line->slope * wx) / w : 0;
  if (line->constant < 0) { /* through the origin */
    line->constant = 0;
    line->slope = wxx > 0 ? wxy / wxx : 0;
  }
  if (line->slope < 0) {
    line->slope = 0;
    line->constant = w > 0 ? wy / w : 0;
  }
}

void kvl_fit_line(const double *x, const double *y, uint32_t n, struct kvl_fit_line *line)
{
  bool out[KVL_FIT_MAX] = {false};
  double error[KVL_FIT_MAX];
  assert(n <= KVL_FIT_MAX);
  line->outliers = 0;
  for (;;) {
    least_squares(x, y, out, n, line);
    uint32_t m = 0, worst = n;
    for (uint32_t i = 0; i < n; i++) {
      if (!out[i] && y[i] > 0) {
        error[m++] = fabs((line->constant + line->slope * x[i]) / y[i] - 1);
      }
    }
    double limit = fmax(5 * kvl_fit_median(error, m), 0.1), most = limit;
    for (uint32_t i = 0; i < n; i++) {
      double e = !out[i] && y[i] > 0 ? fabs((line->constant + line->slope * x[i]) / y[i] - 1) : 0;
      if (e > most) {
        most = e;
        worst = i;
      }
    }
    if (worst == n || 2 * (line->outliers + 1) > n) {
      line->used = m;
      return;
    }
    out[worst] = true; /* one at a time: a far one makes others look far */
    line->outliers++;
  }
}

void kvl_fit_residuals(const double *fit, const double *measured, uint32_t n, struct kvl_fit_residuals *r)
{
  double error[KVL_FIT_MAX];
  assert(n <= KVL_FIT_MAX);
  *r = (struct kvl_fit_residuals){.n = 0};
  for (uint32_t i = 0; i < n; i++) {
    if (measured[i] > 0) {
      error[r->n++] = fabs(fit[i] / measured[i] - 1);
    }
  }
  if (r->n > 0) {
    qsort(error, r->n, sizeof *error, ascending);
    r->median = kvl_fit_median(error, r->n);
    r->p95 = error[(uint32_t)((double)(r->n - 1) * 0.95 + 0.5)];
    r->worst = error[r->n - 1];
  }
}
