/* Fits: what they must do by definition, worked out by hand and by brute force. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "backend/base/rng.h"
#include "sim/fit.h"
#include "tests/base/tap.h"

#define NEAR(a, b) ck_assert_msg(fabs((double)(a) - (double)(b)) <= 1e-9 * (1 + fabs((double)(b))), "%s is %.12g, not %.12g", #a, (double)(a), (double)(b))

START_TEST(monotone_by_hand)
{
  double y[] = {1, 3, 2, 4}, down[] = {4, 2, 3, 1}, falling[] = {3, 2, 1}, one[] = {5}, weighted[] = {4, 1}, weight[] = {1, 3};
  kvl_fit_monotone(y, NULL, 4, true);
  NEAR(y[0], 1);
  NEAR(y[1], 2.5);
  NEAR(y[2], 2.5);
  NEAR(y[3], 4);
  kvl_fit_monotone(down, NULL, 4, false);
  NEAR(down[0], 4);
  NEAR(down[1], 2.5);
  NEAR(down[2], 2.5);
  NEAR(down[3], 1);
  kvl_fit_monotone(falling, NULL, 3, true);
  for (int i = 0; i < 3; i++) {
    NEAR(falling[i], 2);
  }
  kvl_fit_monotone(one, NULL, 1, true);
  NEAR(one[0], 5);
  kvl_fit_monotone(weighted, weight, 2, true);
  NEAR(weighted[0], 1.75);
  NEAR(weighted[1], 1.75);
  kvl_fit_monotone(one, NULL, 0, true);
}
END_TEST

/* Isotonic regression is max over i <= k of min over j >= k of mean(i..j): the other definition, in O(n^3). */
static double max_min(const double *y, uint32_t n, uint32_t k)
{
  double best = -INFINITY;
  for (uint32_t i = 0; i <= k; i++) {
    double least = INFINITY;
    for (uint32_t j = k; j < n; j++) {
      double sum = 0;
      for (uint32_t m = i; m <= j; m++) {
        sum += y[m];
      }
      least = fmin(least, sum / (j - i + 1));
    }
    best = fmax(best, least);
  }
  return best;
}

START_TEST(monotone_is_max_min_of_means)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, 5, "monotone", 0);
  for (int round = 0; round < 300; round++) {
    double y[24], fit[24];
    uint32_t n = 1 + kvl_rng_below(&rng, 24);
    for (uint32_t i = 0; i < n; i++) {
      fit[i] = y[i] = (double)kvl_rng_below(&rng, 50) + (double)i;
    }
    kvl_fit_monotone(fit, NULL, n, true);
    for (uint32_t k = 0; k < n; k++) {
      NEAR(fit[k], max_min(y, n, k));
    }
  }
}
END_TEST

START_TEST(tables_rise_both_ways)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, 6, "table", 0);
  double good[] = {1, 2, 3, 2, 4, 6};
  kvl_fit_monotone_table(good, 2, 3); /* stays as it is */
  NEAR(good[0], 1);
  NEAR(good[3], 2);
  NEAR(good[5], 6);
  for (int round = 0; round < 100; round++) {
    double y[48], before[48];
    uint32_t rows = 1 + kvl_rng_below(&rng, 6), columns = 1 + kvl_rng_below(&rng, 8);
    for (uint32_t i = 0; i < rows * columns; i++) {
      before[i] = y[i] = 100.0 * (i / columns) + 30.0 * (i % columns) + (double)kvl_rng_below(&rng, 60);
    }
    kvl_fit_monotone_table(y, rows, columns);
    for (uint32_t i = 0; i < rows * columns; i++) {
      ck_assert(i % columns == 0 || y[i] >= y[i - 1]);
      ck_assert(i < columns || y[i] >= y[i - columns]);
      ck_assert(fabs(y[i] - before[i]) < 60); /* no further than the noise reached */
    }
  }
}
END_TEST

START_TEST(a_line_with_outliers)
{
  double x[12], y[12];
  struct kvl_fit_line line;
  for (uint32_t i = 0; i < 12; i++) {
    x[i] = (double)(1u << i);
    y[i] = 6.5 + 0.25 * x[i];
  }
  kvl_fit_line(x, y, 12, &line);
  NEAR(line.constant, 6.5);
  NEAR(line.slope, 0.25);
  ck_assert_uint_eq(line.outliers, 0);
  ck_assert_uint_eq(line.used, 12);
  y[3] *= 4; /* something came between */
  y[9] *= 1.6;
  kvl_fit_line(x, y, 12, &line);
  NEAR(line.constant, 6.5);
  NEAR(line.slope, 0.25);
  ck_assert_uint_eq(line.outliers, 2);
  ck_assert_uint_eq(line.used, 10);
}
END_TEST

START_TEST(lines_that_are_none)
{
  struct kvl_fit_line line;
  double x[] = {1, 2, 4, 8}, through[] = {1, 2.2, 4.4, 9.1}, falling[] = {10, 9, 8, 7}, same[] = {3, 3, 3, 3};
  kvl_fit_line(x, through, 4, &line); /* its free constant would be below 0 */
  ck_assert(line.constant >= 0 && line.slope > 1 && line.slope < 1.2);
  kvl_fit_line(x, falling, 4, &line);
  ck_assert(line.slope >= 0 && line.slope < 1e-9);
  ck_assert(line.constant > 6.9 && line.constant < 10.1);
  kvl_fit_line(same, falling, 4, &line);
  NEAR(line.slope, 0);
  kvl_fit_line(x, through, 1, &line);
  NEAR(line.constant + line.slope * 1, 1);
  kvl_fit_line(x, through, 0, &line);
  NEAR(line.constant, 0);
  NEAR(line.slope, 0);
}
END_TEST

START_TEST(residuals)
{
  double fit[] = {110, 90, 100, 150, 1}, measured[] = {100, 100, 100, 100, 0};
  struct kvl_fit_residuals r;
  kvl_fit_residuals(fit, measured, 5, &r); /* what was measured as 0 has no relative error */
  ck_assert_uint_eq(r.n, 4);
  NEAR(r.median, 0.1);
  NEAR(r.p95, 0.5);
  NEAR(r.worst, 0.5);
  kvl_fit_residuals(fit, measured, 0, &r);
  ck_assert_uint_eq(r.n, 0);
  NEAR(kvl_fit_median(measured, 0), 0);
  double odd[] = {3, 1, 2}, even[] = {4, 1, 2, 3};
  NEAR(kvl_fit_median(odd, 3), 2);
  NEAR(kvl_fit_median(even, 4), 2.5);
}
END_TEST

KVL_TAP_MAIN("fit", monotone_by_hand, monotone_is_max_min_of_means, tables_rise_both_ways, a_line_with_outliers, lines_that_are_none, residuals)
