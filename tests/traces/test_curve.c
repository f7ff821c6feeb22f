/* The miss curve against naive models: exhaustive search for the clairvoyant bound, plain lists for LRU and FIFO. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "test_util.h"
#include "traces/curve.h"

enum { ROWS = 7, STEPS = 9, TRIALS = 300 };

struct sequence {
  uint32_t steps, count[STEPS];
  int32_t row[STEPS][ROWS];
};

static void random_sequence(struct kvl_rng *rng, struct sequence *q, uint32_t most)
{
  q->steps = 2 + kvl_rng_below(rng, STEPS - 1);
  for (uint32_t t = 0; t < q->steps; t++) {
    int32_t row[ROWS] = {0, 1, 2, 3, 4, 5, 6};
    q->count[t] = kvl_rng_below(rng, most + 1);
    for (uint32_t i = 0; i < q->count[t]; i++) { /* distinct rows in random order */
      uint32_t j = i + kvl_rng_below(rng, ROWS - i);
      int32_t swap = row[i];
      row[i] = row[j];
      row[j] = swap;
      q->row[t][i] = row[i];
    }
  }
}

static struct kvl_miss_curve *curve_of(const struct sequence *q)
{
  struct kvl_miss_curve *curve = kvl_miss_curve_create();
  ck_assert_ptr_nonnull(curve);
  for (uint32_t t = 0; t < q->steps; t++) {
    ck_assert_int_eq(kvl_miss_curve_add(curve, q->row[t], q->count[t]), 0);
  }
  ck_assert_uint_eq(kvl_miss_curve_steps(curve), q->steps);
  return curve;
}

static uint64_t misses(const struct kvl_miss_curve *curve, enum kvl_miss_policy policy, uint32_t hot_rows)
{
  struct kvl_miss_count count;
  ck_assert_int_eq(kvl_miss_curve_replay(curve, policy, hot_rows, 0, 1, &count), 0);
  return count.misses;
}

/* Fewest misses over every sequence of cache contents: all that a step selects must be in, the rest may be anything that was. */
static uint32_t fewest(const struct sequence *q, uint32_t hot_rows)
{
  enum { SETS = 1 << ROWS, FAR = 1000000 };
  static uint32_t cost[SETS], after[SETS];
  for (uint32_t set = 0; set < SETS; set++) {
    cost[set] = set == 0 ? 0 : FAR;
  }
  for (uint32_t t = 0; t < q->steps; t++) {
    uint32_t need = 0;
    for (uint32_t i = 0; i < q->count[t]; i++) {
      need |= 1u << q->row[t][i];
    }
    for (uint32_t set = 0; set < SETS; set++) {
      after[set] = FAR;
    }
    for (uint32_t set = 0; set < SETS; set++) {
      if (cost[set] >= FAR) {
        continue;
      }
      uint32_t total = cost[set] + (uint32_t)__builtin_popcount(need & ~set), spare = set & ~need;
      for (uint32_t keep = spare;; keep = (keep - 1) & spare) {
        uint32_t now = need | keep;
        if ((uint32_t)__builtin_popcount(now) <= hot_rows && total < after[now]) {
          after[now] = total;
        }
        if (keep == 0) {
          break;
        }
      }
    }
    memcpy(cost, after, sizeof cost);
  }
  uint32_t best = FAR;
  for (uint32_t set = 0; set < SETS; set++) {
    best = cost[set] < best ? cost[set] : best;
  }
  return best;
}

/* Order of use (LRU: every use counts, FIFO: only the first) by a running number: hits of a step before its misses, both in order of lane. */
static uint64_t by_list(const struct sequence *q, uint32_t hot_rows, bool touch)
{
  uint64_t when[ROWS] = {0}, clock = 0, total = 0; /* 0: not cached */
  for (uint32_t t = 0; t < q->steps; t++) {
    bool miss[ROWS] = {false}, needed[ROWS] = {false};
    for (uint32_t i = 0; i < q->count[t]; i++) {
      int32_t row = q->row[t][i];
      needed[row] = true;
      miss[i] = when[row] == 0;
      if (!miss[i] && touch) {
        when[row] = ++clock;
      }
    }
    for (uint32_t i = 0; i < q->count[t]; i++) {
      if (!miss[i]) {
        continue;
      }
      uint32_t cached = 0, victim = ROWS;
      for (uint32_t row = 0; row < ROWS; row++) {
        cached += when[row] != 0;
        if (when[row] != 0 && !needed[row] && (victim == ROWS || when[row] < when[victim])) {
          victim = row;
        }
      }
      if (cached == hot_rows) {
        ck_assert_uint_lt(victim, ROWS);
        when[victim] = 0;
      }
      when[q->row[t][i]] = ++clock;
      total++;
    }
  }
  return total;
}

START_TEST(agrees_with_naive_models)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, 7, "miss curve test", 0);
  uint64_t some = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    struct sequence q;
    uint32_t hot_rows = 1 + kvl_rng_below(&rng, 5);
    random_sequence(&rng, &q, hot_rows);
    struct kvl_miss_curve *curve = curve_of(&q);
    uint64_t best = misses(curve, KVL_MISS_CLAIRVOYANT, hot_rows);
    ck_assert_uint_eq(best, fewest(&q, hot_rows));
    ck_assert_uint_eq(misses(curve, KVL_MISS_LRU, hot_rows), by_list(&q, hot_rows, true));
    ck_assert_uint_eq(misses(curve, KVL_MISS_FIFO, hot_rows), by_list(&q, hot_rows, false));
    ck_assert_uint_ge(misses(curve, KVL_MISS_RANDOM, hot_rows), best);
    some += best < misses(curve, KVL_MISS_LRU, hot_rows);
    kvl_miss_curve_destroy(curve);
  }
  ck_assert_uint_gt(some, TRIALS / 20); /* the sequences tell the policies apart */
}
END_TEST

START_TEST(size_of_one_selection)
{
  struct kvl_miss_curve *curve = kvl_miss_curve_create();
  struct kvl_rng rng;
  kvl_rng_init(&rng, 8, "miss curve test", 0);
  int32_t row[16];
  for (int step = 0; step < 50; step++) {
    for (int i = 0; i < 16; i++) {
      row[i] = 4 * i + (int32_t)kvl_rng_below(&rng, 4);
    }
    ck_assert_int_eq(kvl_miss_curve_add(curve, row, 16), 0);
  }
  for (int policy = 1; policy < KVL_MISS_POLICIES; policy++) { /* the cache is always the last selection */
    ck_assert_uint_eq(misses(curve, (enum kvl_miss_policy)policy, 16), misses(curve, KVL_MISS_LRU, 16));
  }
  for (int policy = 0; policy < KVL_MISS_POLICIES; policy++) { /* room for everything: first touches only */
    ck_assert_uint_eq(misses(curve, (enum kvl_miss_policy)policy, 64), 64);
    ck_assert_uint_eq(misses(curve, (enum kvl_miss_policy)policy, 1000), 64);
  }
  kvl_miss_curve_destroy(curve);
}
END_TEST

START_TEST(edges)
{
  struct kvl_miss_curve *curve = kvl_miss_curve_create();
  struct kvl_miss_count count;
  ck_assert_int_eq(kvl_miss_curve_replay(curve, KVL_MISS_LRU, 0, 0, 1, &count), -EINVAL);
  ck_assert_int_eq(kvl_miss_curve_replay(curve, KVL_MISS_CLAIRVOYANT, 3, 0, 1, &count), 0);
  ck_assert_uint_eq(count.accesses, 0);
  static const int32_t padded[] = {5, -1, 5, 2}, again[] = {2, 5};
  ck_assert_int_eq(kvl_miss_curve_add(curve, padded, 4), 0); /* -1 is nothing, a repeat counts once */
  ck_assert_int_eq(kvl_miss_curve_add(curve, NULL, 0), 0);
  ck_assert_int_eq(kvl_miss_curve_add(curve, again, 2), 0);
  for (int policy = 0; policy < KVL_MISS_POLICIES; policy++) {
    ck_assert_int_eq(kvl_miss_curve_replay(curve, (enum kvl_miss_policy)policy, 2, 0, 1, &count), 0);
    ck_assert_uint_eq(count.accesses, 4);
    ck_assert_uint_eq(count.misses, 2);
    ck_assert_int_eq(kvl_miss_curve_replay(curve, (enum kvl_miss_policy)policy, 1, 0, 1, &count), 0);
    ck_assert_uint_eq(count.misses, 3); /* one of two fits: 5 stays and hits, 2 misses twice */
    ck_assert_int_eq(kvl_miss_curve_replay(curve, (enum kvl_miss_policy)policy, 2, 1, 1, &count), 0);
    ck_assert_uint_eq(count.misses, 0); /* the warm step is not counted */
  }
  uint64_t share[KVL_MISS_GAP_BINS];
  ck_assert_int_eq(kvl_miss_curve_gaps(curve, 0, share), 0);
  ck_assert_uint_eq(share[1], 2); /* both came back after two steps */
  ck_assert_uint_eq(share[KVL_MISS_GAP_BINS - 1], 2);
  kvl_miss_curve_destroy(curve);
  kvl_miss_curve_destroy(NULL);
}
END_TEST

START_TEST(gap_bins)
{
  struct kvl_miss_curve *curve = kvl_miss_curve_create();
  static const uint32_t gap[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 200};
  static const uint64_t expect[KVL_MISS_GAP_BINS] = {1, 1, 2, 2, 2, 2, 2, 2, 1};
  int32_t row = 3;
  ck_assert_int_eq(kvl_miss_curve_add(curve, &row, 1), 0);
  for (size_t i = 0; i < sizeof gap / sizeof *gap; i++) {
    for (uint32_t j = 1; j <= gap[i]; j++) {
      ck_assert_int_eq(kvl_miss_curve_add(curve, &row, j == gap[i] ? 1 : 0), 0);
    }
  }
  uint64_t share[KVL_MISS_GAP_BINS];
  ck_assert_int_eq(kvl_miss_curve_gaps(curve, 0, share), 0);
  for (int i = 0; i < KVL_MISS_GAP_BINS; i++) {
    ck_assert_uint_eq(share[i], expect[i]);
  }
  kvl_miss_curve_destroy(curve);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("miss curve");
  TCase *tcase = tcase_create("miss curve");
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, agrees_with_naive_models);
  tcase_add_test(tcase, size_of_one_selection);
  tcase_add_test(tcase, edges);
  tcase_add_test(tcase, gap_bins);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
