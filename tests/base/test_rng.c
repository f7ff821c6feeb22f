/* Random numbers: the published values of the two generators, streams that stay what they are, and the moments of the distributions. */
#include <math.h>
#include <string.h>

#include "backend/base/rng.h"
#include "tests/base/tap.h"

START_TEST(generators_give_their_published_values)
{
  struct kvl_rng rng = {{1, 2, 3, 4}};
  const uint64_t want[] = {11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u, 607988272756665600u};
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    ck_assert_uint_eq(kvl_rng_next(&rng), want[i]);
  }
  ck_assert_uint_eq(kvl_rng_mix(0), 0xe220a8397b1dcdafu);
  ck_assert_uint_eq(kvl_rng_mix(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
}
END_TEST

/* A stored run must be repeatable by later builds, so these never change. */
START_TEST(streams_are_split_by_seed_purpose_and_index)
{
  const struct {
    uint64_t seed;
    const char *purpose;
    uint64_t index, first, second;
  } want[] = {
    {1, "arrivals", 0, 0x0a7c805682c007b6u, 0xfaadfe38209c91d5u},
    {1, "arrivals", 1, 0xa3cf1acf0518d1d3u, 0xda650221d7c98eedu},
    {2, "arrivals", 0, 0x0f91cff656de9092u, 0x58ecd55da5f52487u},
    {1, "arrival", 0, 0x6d251e02ca7cfe80u, 0x64c4f5b8ab9af819u},
  };
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    struct kvl_rng rng;
    kvl_rng_init(&rng, want[i].seed, want[i].purpose, want[i].index);
    ck_assert_uint_eq(kvl_rng_next(&rng), want[i].first);
    ck_assert_uint_eq(kvl_rng_next(&rng), want[i].second);
  }
}
END_TEST

START_TEST(below_stays_below_and_is_even)
{
  enum { SIDES = 7, THROWS = 70000 };
  struct kvl_rng rng;
  unsigned count[SIDES] = {0};
  kvl_rng_init(&rng, 3, "dice", 0);
  for (int i = 0; i < THROWS; i++) {
    uint32_t side = kvl_rng_below(&rng, SIDES);
    ck_assert_uint_lt(side, SIDES);
    count[side]++;
  }
  for (int side = 0; side < SIDES; side++) { /* 10,000 expected, standard deviation 93 */
    ck_assert_uint_gt(count[side], 9500);
    ck_assert_uint_lt(count[side], 10500);
  }
  ck_assert_uint_eq(kvl_rng_below(&rng, 1), 0);
}
END_TEST

static void check_moments(double (*draw)(struct kvl_rng *rng, double shape), double shape, double mean, double variance)
{
  enum { DRAWS = 40000 };
  struct kvl_rng rng;
  double sum = 0.0, squares = 0.0;
  kvl_rng_init(&rng, 5, "moments", 0);
  for (int i = 0; i < DRAWS; i++) {
    double x = draw(&rng, shape);
    sum += x;
    squares += x * x;
  }
  double m = sum / DRAWS, v = squares / DRAWS - m * m;
  ck_assert_msg(fabs(m - mean) < 0.02 * sqrt(variance) && fabs(v - variance) < 0.05 * variance, "shape %g: mean %g, variance %g", shape, m, v);
}

static double draw_unit(struct kvl_rng *rng, double shape)
{
  double x = kvl_rng_unit(rng);
  ck_assert(x >= 0.0 && x < 1.0);
  return x + shape;
}

static double draw_normal(struct kvl_rng *rng, double shape)
{
  return kvl_rng_normal(rng) + shape;
}

static double draw_exponential(struct kvl_rng *rng, double shape)
{
  return kvl_rng_exponential(rng) + shape;
}

START_TEST(distributions_have_their_moments)
{
  check_moments(draw_unit, 0.0, 0.5, 1.0 / 12.0);
  check_moments(draw_normal, 0.0, 0.0, 1.0);
  check_moments(draw_exponential, 0.0, 1.0, 1.0);
  check_moments(kvl_rng_gamma, 0.25, 0.25, 0.25);
  check_moments(kvl_rng_gamma, 1.0, 1.0, 1.0);
  check_moments(kvl_rng_gamma, 9.5, 9.5, 9.5);
}
END_TEST

KVL_TAP_MAIN("rng", generators_give_their_published_values, streams_are_split_by_seed_purpose_and_index, below_stays_below_and_is_even,
             distributions_have_their_moments)
