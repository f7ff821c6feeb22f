/* The host link as a queue: exact times worked out by hand, and conservation of work under random traffic. */
#include <check.h>
#include <errno.h>

#include "backend/base/rng.h"
#include "sim/link.h"
#include "tests/base/tap.h"

START_TEST(copies_queue)
{
  struct kvl_link_queue q;
  ck_assert_int_eq(kvl_link_init(&q, 3), 0);
  ck_assert_uint_eq(kvl_link_next_done(&q), UINT64_MAX);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 1000, 50, 10, 7), 0);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 1010, 20, 10, 8), 0);  /* waits for the first */
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 1075, 5, 10, 9), 0);   /* arrives when both are over, in the queue still */
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 1076, 5, 10, 10), -EAGAIN);
  ck_assert_uint_eq(kvl_link_next_done(&q), 1050);
  ck_assert_uint_eq(kvl_link_pop(&q), 7);
  ck_assert_uint_eq(kvl_link_next_done(&q), 1070);
  ck_assert_uint_eq(kvl_link_pop(&q), 8);
  ck_assert_uint_eq(kvl_link_next_done(&q), 1080);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 1076, 5, 10, 11), 0); /* the ring goes round */
  ck_assert_uint_eq(kvl_link_pop(&q), 9);
  ck_assert_uint_eq(kvl_link_next_done(&q), 1085);
  ck_assert_uint_eq(kvl_link_pop(&q), 11);
  ck_assert_uint_eq(q.busy_ns, 80);
  ck_assert_uint_eq(q.bytes, 40);
  kvl_link_deinit(&q);
}
END_TEST

START_TEST(a_demand_alone)
{
  struct kvl_link_queue q;
  uint64_t wait = 99;
  ck_assert_int_eq(kvl_link_init(&q, 4), 0);
  ck_assert_uint_eq(kvl_link_demand(&q, 500, 40, 8, &wait), 540);
  ck_assert_uint_eq(wait, 0);
  ck_assert_uint_eq(kvl_link_demand(&q, 600, 0, 0, &wait), 600);
  ck_assert_uint_eq(q.busy_ns, 40);
  kvl_link_deinit(&q);
}
END_TEST

/* A copy of 100 begins at 0; a demand of 30 comes at 20. From 20 on each runs at half rate: the demand ends at 20 + 2 x 30 = 80, when the copy has 50
 * left: it ends at 130. A second copy of 10 that waits behind it ends at 140. */
START_TEST(a_demand_shorter_than_the_copy)
{
  struct kvl_link_queue q;
  uint64_t wait;
  ck_assert_int_eq(kvl_link_init(&q, 4), 0);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 0, 100, 1, 1), 0);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 0, 10, 1, 2), 0);
  ck_assert_uint_eq(kvl_link_demand(&q, 20, 30, 1, &wait), 80);
  ck_assert_uint_eq(wait, 30);
  ck_assert_uint_eq(kvl_link_next_done(&q), 130);
  ck_assert_uint_eq(kvl_link_pop(&q), 1);
  ck_assert_uint_eq(kvl_link_next_done(&q), 140);
  kvl_link_deinit(&q);
}
END_TEST

/* Copies of 10 and 15 and a demand of 60 at 0: both copies at half rate, one after the other, end at 20 and 50; then the demand is alone and ends
 * at 60 + 25 = 85. A copy of 5 that comes at 85 ends at 90. */
START_TEST(a_demand_longer_than_the_copies)
{
  struct kvl_link_queue q;
  uint64_t wait;
  ck_assert_int_eq(kvl_link_init(&q, 4), 0);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 0, 10, 1, 1), 0);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 0, 15, 1, 2), 0);
  ck_assert_uint_eq(kvl_link_demand(&q, 0, 60, 1, &wait), 85);
  ck_assert_uint_eq(wait, 25);
  ck_assert_uint_eq(kvl_link_next_done(&q), 20);
  ck_assert_uint_eq(kvl_link_pop(&q), 1);
  ck_assert_uint_eq(kvl_link_next_done(&q), 50);
  ck_assert_uint_eq(kvl_link_pop(&q), 2);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 85, 5, 1, 3), 0);
  ck_assert_uint_eq(kvl_link_next_done(&q), 90);
  kvl_link_deinit(&q);
}
END_TEST

/* Beside the step: a copy of 100 and a bulk copy of 40 begin at 0 and share: the bulk copy ends at 80, the other at 140. A demand of 20 at 20 makes three:
 * at 80 each has done 20 more (bulk: 10 + 20 of 40). The demand is over; two share again: bulk ends at 100, the other at 160. */
START_TEST(a_copy_beside_the_step)
{
  struct kvl_link_queue q;
  uint64_t wait;
  ck_assert_int_eq(kvl_link_init(&q, 4), 0);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BESIDE, 0, 100, 1, 77), 0);
  ck_assert_uint_eq(kvl_link_beside_done(&q, 77), 100);
  ck_assert_uint_eq(kvl_link_beside_done(&q, 78), 0);
  ck_assert_uint_eq(kvl_link_next_done(&q), UINT64_MAX);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 0, 40, 1, 1), 0);
  ck_assert_uint_eq(kvl_link_next_done(&q), 80);
  ck_assert_uint_eq(kvl_link_beside_done(&q, 77), 140);
  ck_assert_uint_eq(kvl_link_demand(&q, 20, 20, 1, &wait), 80);
  ck_assert_uint_eq(wait, 40);
  ck_assert_uint_eq(kvl_link_next_done(&q), 100);
  ck_assert_uint_eq(kvl_link_beside_done(&q, 77), 160);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BESIDE, 101, 30, 1, 78), 0); /* behind the first */
  ck_assert_uint_eq(kvl_link_beside_done(&q, 78), 190);
  ck_assert_uint_eq(kvl_link_demand(&q, 170, 5, 1, &wait), 180);
  ck_assert_uint_eq(kvl_link_beside_done(&q, 77), 160);
  ck_assert_uint_eq(kvl_link_beside_done(&q, 78), 195);
  kvl_link_beside_clear(&q);
  ck_assert_uint_eq(kvl_link_beside_done(&q, 77), 0);
  kvl_link_deinit(&q);
}
END_TEST

/* To the GPU a demand of 300; the other way a copy beside of 120 from time 1,000 on. Together the demand takes 150 % and the copy 120 % of its time: the copy is there at
 * 1,000 + 144 = 1,144; till then the demand has done 96 of its 300; the other 204 follow at full pace: 1,348. A bulk copy of 60 the other way shares the pace: it
 * came with the copy beside, which ends at 1,216 instead, and the demand has done 144 by then: it ends at 1,372. */
START_TEST(both_ways)
{
  struct kvl_link_queue in, out;
  uint64_t wait;
  ck_assert_int_eq(kvl_link_init(&in, 4), 0);
  ck_assert_int_eq(kvl_link_init(&out, 4), 0);
  ck_assert_int_eq(kvl_link_copy(&out, KVL_LINK_BESIDE, 1000, 120, 1, 5), 0);
  ck_assert_uint_eq(kvl_link_demand_against(&in, &out, 1000, 300, 1, 1500, 1200, &wait), 1348);
  ck_assert_uint_eq(wait, 48);
  ck_assert_uint_eq(kvl_link_beside_done(&out, 5), 1144);
  ck_assert_uint_eq(in.busy_ns, 300);
  ck_assert_uint_eq(kvl_link_demand_against(&in, &out, 1348, 10, 1, 1500, 1200, &wait), 1358); /* the other way is free now */
  kvl_link_beside_retire(&out, 1358);
  ck_assert_uint_eq(kvl_link_beside_done(&out, 5), 0);
  ck_assert_int_eq(kvl_link_copy(&out, KVL_LINK_BESIDE, 2000, 120, 1, 6), 0);
  ck_assert_int_eq(kvl_link_copy(&out, KVL_LINK_BULK, 2000, 60, 1, 7), 0);
  ck_assert_uint_eq(kvl_link_demand_against(&in, &out, 2000, 300, 1, 1500, 1200, &wait), 2372);
  ck_assert_uint_eq(kvl_link_beside_done(&out, 6), 2216);
  ck_assert_uint_eq(kvl_link_next_done(&out), 2144);
  ck_assert_int_eq(kvl_link_copy(&out, KVL_LINK_BESIDE, 3000, 1200, 1, 8), 0); /* longer than the demand: what is left goes on at full pace */
  ck_assert_uint_eq(kvl_link_demand_against(&in, &out, 3000, 400, 1, 1500, 1200, &wait), 3600);
  ck_assert_uint_eq(kvl_link_beside_done(&out, 8), 3600 + 1200 - 500);
  kvl_link_deinit(&in);
  kvl_link_deinit(&out);
}
END_TEST

/* A copy of 30 that waits for something until 50 does not hold up a demand of 40 at 20; from 50 on they share: the demand has 10 left and ends at 70, the copy at 90. One behind
 * it in its lane waits with it. */
START_TEST(a_copy_that_waits)
{
  struct kvl_link_queue q;
  uint64_t wait;
  ck_assert_int_eq(kvl_link_init(&q, 4), 0);
  ck_assert_int_eq(kvl_link_copy_from(&q, KVL_LINK_BULK, 0, 50, 30, 1, 1), 0);
  ck_assert_int_eq(kvl_link_copy(&q, KVL_LINK_BULK, 10, 5, 1, 2), 0);
  ck_assert_uint_eq(kvl_link_next_done(&q), 80);
  ck_assert_uint_eq(kvl_link_demand(&q, 20, 40, 1, &wait), 70);
  ck_assert_uint_eq(wait, 10);
  ck_assert_uint_eq(kvl_link_next_done(&q), 90);
  ck_assert_uint_eq(kvl_link_pop(&q), 1);
  ck_assert_uint_eq(kvl_link_next_done(&q), 95);
  kvl_link_deinit(&q);
}
END_TEST

/* Never idle while there is work and never faster than its rate: from an idle link on, everything ends exactly when the sum of the service times
 * has passed, whatever shares with whatever. */
START_TEST(work_is_conserved)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, 7, "link", 0);
  struct kvl_link_queue q;
  ck_assert_int_eq(kvl_link_init(&q, 32), 0);
  uint64_t at = 0, total = 0, demands = 0;
  for (int round = 0; round < 3000; round++) {
    uint64_t begun = at, work = 0, end = at, last = 0, beside = 0;
    for (uint32_t i = 0, n = 1 + kvl_rng_below(&rng, 8); i < n; i++) { /* a busy period: copies at its start, demands back to back */
      uint64_t service = 1 + kvl_rng_below(&rng, 1000);
      enum kvl_link_lane lane = kvl_rng_below(&rng, 3) == 0 ? KVL_LINK_BESIDE : KVL_LINK_BULK;
      ck_assert_int_eq(kvl_link_copy(&q, lane, begun, service, 1, lane == KVL_LINK_BESIDE ? ++beside : i), 0);
      work += service;
    }
    for (uint32_t i = 0, n = kvl_rng_below(&rng, 5); i < n; i++) {
      uint64_t service = kvl_rng_below(&rng, 1000), wait;
      uint64_t ends = kvl_link_demand(&q, end, service, 1, &wait);
      ck_assert_uint_eq(ends, end + service + wait);
      ck_assert_uint_le(wait, 2 * service);
      end = ends;
      work += service;
      demands += service;
    }
    while (q.lane[KVL_LINK_BULK].count != 0) {
      ck_assert_uint_ge(kvl_link_next_done(&q), last);
      last = kvl_link_next_done(&q);
      (void)kvl_link_pop(&q);
    }
    uint64_t other = beside == 0 ? 0 : kvl_link_beside_done(&q, beside);
    kvl_link_beside_clear(&q);
    last = last > other ? last : other;
    ck_assert_uint_eq(last > end ? last : end, begun + work);
    total += work;
    at = begun + work + kvl_rng_below(&rng, 500);
  }
  ck_assert_uint_eq(q.busy_ns, total);
  ck_assert_uint_gt(demands, 0);
  kvl_link_deinit(&q);
}
END_TEST

START_TEST(service_times_follow_the_law)
{
  const struct kvl_link link = {.gather_bytes_per_s = 50000000000u, .copy_bytes_per_s = 40000000000u, .gather_floor_ns = 3000, .copy_floor_ns = 9000,
                                .rows_per_s = {.n = 2, .x = {1000, 2000}, .y = {100000000, 50000000}}};
  bool outside = false;
  ck_assert_uint_eq(kvl_link_copy_ns(&link, 4000000), 9000 + 100000);
  ck_assert_uint_eq(kvl_link_copy_ns(&link, 1), 9000 + 1); /* rounded up */
  ck_assert_uint_eq(kvl_link_to_host_ns(&link, 4000000), 9000 + 100000); /* where nothing says otherwise */
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 1000, 288000, 1000, &outside), 3000 + 10000); /* rows bind: 10 ns each, bytes 5,760 ns */
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 1000, 288000, 1500, &outside), 3000 + 13334); /* 75 million rows a second */
  ck_assert(!outside);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 50000000, 2000, &outside), 3000 + 1000000); /* bytes bind */
  ck_assert(!outside);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 1000, 288000, 999, &outside), 3000 + 10000); /* over less than was measured it is no slower */
  ck_assert(!outside);
  (void)kvl_link_gather_ns(&link, 1000, 288000, 2001, &outside);
  ck_assert(outside);
  ck_assert_uint_eq(kvl_link_copy_ns(&link, UINT64_C(1) << 50), 9000 + 28147497671066); /* a pebibyte: no overflow */
}
END_TEST

/* 2 sizes x 2 ranges x 3 counts: at its points the table's own times, between them halfway in rows, size and the range's logarithm. */
START_TEST(gathers_follow_the_table)
{
  const struct kvl_link link = {
    .gather_bytes_per_s = 1, .gather_floor_ns = 999999, .rows_per_s = {.n = 1, .x = {1}, .y = {1}}, /* not looked at */
    .gathers = {.sizes = 2, .ranges = 2, .counts = 3, .row_bytes = {100, 300}, .range_bytes = {1 << 20, 1 << 24}, .rows = {10, 20, 100},
                .ns = {1000, 1100, 3100, 1200, 1500, 6300, 2000, 2200, 9400, 2400, 3000, 12600}}};
  bool outside = false;
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 1000, 1 << 20, &outside), 1000);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 100, 10000, 1 << 20, &outside), 3100);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 20, 2000, 1 << 24, &outside), 1500);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 100, 30000, 1 << 24, &outside), 12600);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 15, 1500, 1 << 20, &outside), 1050);   /* rows */
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 60, 6000, 1 << 20, &outside), 2100);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 1000, 1 << 22, &outside), 1100);   /* halfway by logarithm */
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 2000, 1 << 20, &outside), 1500);   /* row size */
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 15, 3000, 1 << 22, &outside), (1050 + 1350 + 2100 + 2700) / 4);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 1, 100, 1 << 20, &outside), 1000);     /* fewer, smaller: as the least */
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 80, 1 << 20, &outside), 1000);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 260, 26000, 1 << 20, &outside), 3100 + 2 * 2000); /* more: the last slope */
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 6000, 1 << 20, &outside), 2200);   /* of 600 bytes: as twice as many of 300 */
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 1000, 1 << 19, &outside), 1000);
  ck_assert(!outside);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 1000, 1 << 25, &outside), 1200);
  ck_assert(outside);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 10, 1000, 1 << 25, NULL), 1200);
  struct kvl_link one = {.gathers = {.sizes = 1, .ranges = 1, .counts = 1, .row_bytes = {100}, .range_bytes = {1000}, .rows = {10}, .ns = {500}}};
  ck_assert_uint_eq(kvl_link_gather_ns(&one, 40, 4000, 1000, NULL), 2000);
  ck_assert_uint_eq(kvl_link_gather_ns(&one, UINT64_C(1) << 40, UINT64_C(1) << 48, 1000, NULL) > 0, 1); /* no overflow */
}
END_TEST

START_TEST(fetches_of_a_look_up)
{
  struct kvl_link link = {.gather_bytes_per_s = 50000000000u, .gather_floor_ns = 3000, .rows_per_s = {.n = 1, .x = {1000}, .y = {100000000}}};
  ck_assert_uint_eq(kvl_link_fetch_ns(&link, 1000, 288000, 1000, NULL), 13000); /* nothing known: as a gather */
  link.fetch_permille = (struct kvl_curve){.n = 3, .x = {500, 1000, 10000}, .y = {1000, 1200, 1200}};
  ck_assert_uint_eq(kvl_link_fetch_ns(&link, 1000, 288000, 1000, NULL), 15600);
  ck_assert_uint_eq(kvl_link_fetch_ns(&link, 750, 216000, 1000, NULL), 10500 * 11 / 10);
  ck_assert_uint_eq(kvl_link_fetch_ns(&link, 100, 28800, 1000, NULL), 4000);
  ck_assert_uint_eq(kvl_link_gather_ns(&link, 1000, 288000, 1000, NULL), 13000);
}
END_TEST

/* More rows, larger rows, a larger range: never faster. */
START_TEST(the_table_never_falls)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, 11, "table", 0);
  for (int round = 0; round < 200; round++) {
    struct kvl_link link = {.gathers = {.sizes = 1 + kvl_rng_below(&rng, 4), .ranges = 1 + kvl_rng_below(&rng, 4), .counts = 1 + kvl_rng_below(&rng, 6)}};
    struct kvl_gather_table *t = &link.gathers;
    uint64_t size = 0, range = 0, rows = 0;
    for (uint32_t i = 0; i < KVL_GATHER_AXIS_MAX; i++) {
      t->row_bytes[i] = size += 1 + kvl_rng_below(&rng, 500);
      t->range_bytes[i] = range += 1 + kvl_rng_below(&rng, 1u << 30);
      t->rows[i] = rows += 1 + kvl_rng_below(&rng, 2000);
    }
    for (uint32_t i = 0; i < t->sizes * t->ranges * t->counts; i++) { /* a sum of rising parts */
      t->ns[i] = 1000 * (i / t->counts / t->ranges) + 700 * (i / t->counts % t->ranges) + 900 * (i % t->counts) + 5000;
    }
    for (int k = 0; k < 50; k++) {
      uint64_t n = 1 + kvl_rng_below(&rng, 20000), b = 1 + kvl_rng_below(&rng, (uint32_t)t->row_bytes[t->sizes - 1]), r = kvl_rng_below(&rng, 1u << 31);
      uint64_t here = kvl_link_gather_ns(&link, n, n * b, r, NULL);
      ck_assert_uint_ge(kvl_link_gather_ns(&link, n + kvl_rng_below(&rng, 100), (n + 100) * b, r, NULL) + 1, here);
      ck_assert_uint_ge(kvl_link_gather_ns(&link, n, n * b, r + kvl_rng_below(&rng, 1u << 28), NULL), here);
    }
  }
}
END_TEST

KVL_TAP_MAIN("link", copies_queue, a_demand_alone, a_demand_shorter_than_the_copy, a_demand_longer_than_the_copies, a_copy_beside_the_step, work_is_conserved, both_ways, a_copy_that_waits,
             service_times_follow_the_law, gathers_follow_the_table, fetches_of_a_look_up, the_table_never_falls)
