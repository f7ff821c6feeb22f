/* Times from the cost descriptors, each worked out by hand. */
#include <check.h>
#include <string.h>

#include "sim/costs.h"
#include "tests/base/tap.h"

START_TEST(compute_from_a_table)
{
  static struct kvl_scenario s;
  bool outside = false;
  s.costs.compute = KVL_COMPUTE_TABLE;
  s.costs.step_ns_by_tokens = (struct kvl_curve){.n = 3, .x = {1, 16, 64}, .y = {1000, 2500, 12100}};
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 0, 0, &outside), 0);
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 1, 0, &outside), 1000);
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 6, 0, &outside), 1500);
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 16, 0, &outside), 2500);
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 17, 0, &outside), 2700);
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 64, 1u << 30, &outside), 12100);
  ck_assert(!outside);
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 65, 0, &outside), 12300); /* goes on with the last slope, and says so */
  ck_assert(outside);
}
END_TEST

START_TEST(compute_from_a_law)
{
  static struct kvl_scenario s;
  bool outside = false;
  s.costs.compute = KVL_COMPUTE_LAW;
  s.costs.law_fixed_ns = 13000000;
  s.costs.law_token_ns = 41000;
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 44, 0, &outside), 13000000 + 44 * 41000);
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 0, 0, &outside), 0);
  ck_assert(!outside);
}
END_TEST

/* One cache of rows of 100 bytes with keys of 10, two tokens a row; k = 50 at a layer read by 3; window of 1,000 bytes; 2 bytes a token read whole.
 * Batch of 4 over 20,000 tokens in all: weights 10^6 + windows 4 x 1,000 + selected 4 x 50 x 100 x 3 + keys 10,000 rows x 10 + whole 40,000. */
START_TEST(roofline)
{
  static struct kvl_scenario s;
  bool outside = false;
  s.costs.compute = KVL_COMPUTE_ROOFLINE;
  s.costs.law_fixed_ns = 7;
  s.model.caches = 1;
  s.model.cache[0] = (struct kvl_model_cache){.tokens_per_row = 2, .row_bytes = 100, .index_key_bytes = 10};
  s.model.selection.points = 1;
  s.model.selection.point[0].k = 50;
  s.model.readers[0] = 3;
  s.model.window_bytes = 1000;
  s.model.whole_bytes_per_token_q8 = 512;
  s.model.weights_bytes = 1000000;
  s.model.active_flops_per_token = 500000;
  s.hardware.hbm_bytes_per_s = 1000000000;
  s.hardware.flops_per_s = 1000000000;
  uint64_t read = 1000000 + 4000 + 60000 + 100000 + 40000;
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 4, 20000, &outside), 7 + 2000000); /* arithmetic binds: 4 x 500,000 operations */
  s.hardware.flops_per_s = 100000000000;
  ck_assert_uint_eq(kvl_costs_compute_ns(&s, 4, 20000, &outside), 7 + read);
}
END_TEST

START_TEST(bookkeeping_grows_with_the_root)
{
  static struct kvl_scenario s;
  static uint64_t table[KVL_COSTS_BATCH_MAX + 1];
  s.mode = KVL_MODE_ADAPTIVE;
  s.costs.bookkeeping_ns_at_44 = 1000000;
  s.costs.bookkeeping_exponent_permille = 500;
  kvl_costs_bookkeeping_table(&s, table);
  ck_assert_uint_eq(table[0], 0);
  ck_assert_uint_eq(table[44], 1000000);
  ck_assert_uint_eq(table[11], 500000);
  ck_assert_uint_eq(table[176], 2000000);
  for (uint32_t i = 1; i <= KVL_COSTS_BATCH_MAX; i++) {
    ck_assert_uint_gt(table[i], table[i - 1]);
  }
  s.costs.bookkeeping_exponent_permille = 0; /* a constant */
  kvl_costs_bookkeeping_table(&s, table);
  ck_assert(table[1] == 1000000 && table[KVL_COSTS_BATCH_MAX] == 1000000);
  s.mode = KVL_MODE_RESIDENT;
  kvl_costs_bookkeeping_table(&s, table);
  ck_assert(table[1] == 0 && table[44] == 0);
}
END_TEST

/* No look-up is faster than what the hardware's descriptor measured, but a law of nothing stays (its look-ups are in the bookkeeping). */
START_TEST(look_ups_measured_on_the_hardware)
{
  struct kvl_scenario s = {.costs = {.resolve_fixed_ns = 900, .resolve_lane_ps = 1500}};
  ck_assert_uint_eq(kvl_costs_look_up_ns(&s, 512), 900 + 768);
  s.hardware.resolve_ns_by_lanes = (struct kvl_curve){.n = 2, .x = {512, 1024}, .y = {4000, 4400}};
  ck_assert_uint_eq(kvl_costs_look_up_ns(&s, 512), 4000);
  ck_assert_uint_eq(kvl_costs_look_up_ns(&s, 768), 4200);
  ck_assert_uint_eq(kvl_costs_look_up_ns(&s, 1), 4000);
  s.costs.resolve_fixed_ns = 8000; /* a profile made from whole steps */
  ck_assert_uint_eq(kvl_costs_look_up_ns(&s, 512), 8000 + 768);
  s.costs.resolve_fixed_ns = s.costs.resolve_lane_ps = 0;
  ck_assert_uint_eq(kvl_costs_look_up_ns(&s, 768), 0);
}
END_TEST

START_TEST(small_ones)
{
  const struct kvl_costs c = {.resolve_fixed_ns = 900, .resolve_lane_ps = 1500, .prefill_fixed_ns = 100, .prefill_token_ps = 2000500,
                              .prefill_cached_token_ps = 3000, .transfer_bytes_per_s = 2000000000};
  ck_assert_uint_eq(kvl_costs_resolve_ns(&c, 512), 900 + 768);
  ck_assert_uint_eq(kvl_costs_prefill_ns(&c, 10, 1000), 100 + (10 * 2000500 + 1000 * 3000) / 1000);
  ck_assert_uint_eq(kvl_costs_prefill_ns(&c, 268435456, 0), 100 + UINT64_C(268435456) * 2000500 / 1000);
  const struct kvl_costs slow = {.prefill_token_ps = UINT64_C(3600000000000000000)};
  ck_assert_uint_eq(kvl_costs_prefill_ns(&slow, 268435456, 0), KVL_TIME_MAX); /* no overflow */
  ck_assert_uint_eq(kvl_costs_transfer_ns(&c, 445000000), 222500000);
  ck_assert_uint_eq(kvl_costs_transfer_ns(&c, UINT64_C(1) << 50), (UINT64_C(1) << 50) / 2); /* no overflow */
}
END_TEST

KVL_TAP_MAIN("costs", compute_from_a_table, compute_from_a_law, roofline, bookkeeping_grows_with_the_root, look_ups_measured_on_the_hardware, small_ones)
