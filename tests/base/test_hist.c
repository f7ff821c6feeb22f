/* Histogram: percentiles against the sorted samples, exact below 128 and to 1/128 above; counts, extremes and 128-bit sums. */
#include <math.h>
#include <stdlib.h>

#include "backend/base/hist.h"
#include "backend/base/rng.h"
#include "tests/base/tap.h"

enum { SAMPLES = 5000 };

static int ascending(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Nearest rank: the smallest sample with at least permille of all samples at or below it. */
static uint64_t nearest_rank(const uint64_t *sorted, uint64_t count, unsigned permille)
{
  uint64_t rank = (count * permille + 999) / 1000;
  return sorted[rank == 0 ? 0 : rank - 1];
}

static void check_percentiles(unsigned bits)
{
  static uint64_t sample[SAMPLES];
  static struct kvl_hist h;
  struct kvl_rng rng;
  kvl_rng_init(&rng, 11, "hist", bits);
  kvl_hist_init(&h);
  double sum = 0.0;
  for (int i = 0; i < SAMPLES; i++) {
    sample[i] = kvl_rng_next(&rng) >> (64 - bits) >> kvl_rng_below(&rng, bits);
    kvl_hist_add(&h, sample[i], 1);
    sum += (double)sample[i];
  }
  qsort(sample, SAMPLES, sizeof sample[0], ascending);
  for (unsigned permille = 0; permille <= 1000; permille++) {
    uint64_t want = nearest_rank(sample, SAMPLES, permille), got = kvl_hist_percentile(&h, permille);
    uint64_t off = want > got ? want - got : got - want;
    ck_assert_msg(off <= want / 128, "%u bits, %u permille: %llu, not %llu", bits, permille, (unsigned long long)got, (unsigned long long)want);
  }
  ck_assert_uint_eq(h.min, sample[0]);
  ck_assert_uint_eq(h.max, sample[SAMPLES - 1]);
  ck_assert_double_le(fabs(kvl_hist_mean(&h) - sum / SAMPLES), 1e-9 * sum / SAMPLES);
}

START_TEST(percentiles_are_those_of_the_sorted_samples)
{
  const unsigned bits[] = {1, 6, 7, 8, 9, 20, 40, 63, 64};
  for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
    check_percentiles(bits[i]);
  }
}
END_TEST

START_TEST(an_empty_histogram_has_zeros)
{
  static struct kvl_hist h;
  kvl_hist_init(&h);
  kvl_hist_add(&h, 7, 0);
  ck_assert_uint_eq(h.count, 0);
  ck_assert_uint_eq(kvl_hist_percentile(&h, 500), 0);
  ck_assert_double_eq(kvl_hist_mean(&h), 0.0);
}
END_TEST

START_TEST(weights_count_as_repeats)
{
  static struct kvl_hist a, b;
  kvl_hist_init(&a);
  kvl_hist_init(&b);
  for (uint64_t v = 1; v < 2000; v += 13) {
    kvl_hist_add(&a, v, v % 5);
    for (uint64_t i = 0; i < v % 5; i++) {
      kvl_hist_add(&b, v, 1);
    }
  }
  ck_assert_mem_eq(&a, &b, sizeof a);
}
END_TEST

START_TEST(sums_and_extremes_do_not_overflow)
{
  static struct kvl_hist h;
  kvl_hist_init(&h);
  kvl_hist_add(&h, UINT64_MAX, 3);
  kvl_hist_add(&h, UINT64_MAX - 1, UINT32_MAX);
  ck_assert_uint_eq(kvl_hist_percentile(&h, 1000), UINT64_MAX - 1); /* the bucket's midpoint, clamped to the extremes */
  ck_assert_double_le(fabs(kvl_hist_mean(&h) / 0x1p64 - 1.0), 1e-12);
  ck_assert_uint_eq(h.sum_hi, (uint64_t)UINT32_MAX + 2);
}
END_TEST

KVL_TAP_MAIN("hist", percentiles_are_those_of_the_sorted_samples, an_empty_histogram_has_zeros, weights_count_as_repeats,
             sums_and_extremes_do_not_overflow)
