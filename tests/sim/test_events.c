/* The engine's planned events: order by time, ties by the order of planning. */
#include <check.h>
#include <stdlib.h>

#include "backend/base/rng.h"
#include "sim/events.h"
#include "tests/base/tap.h"

enum { EVENTS = 3000 };

static int by_time_then_order(const void *a, const void *b)
{
  const uint64_t *x = a, *y = b;
  return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : x[1] < y[1] ? -1 : 1;
}

START_TEST(ties_keep_their_order)
{
  struct kvl_events e = {0};
  ck_assert_uint_eq(kvl_events_next_ns(&e), UINT64_MAX);
  for (uint32_t i = 0; i < 100; i++) {
    ck_assert_int_eq(kvl_events_push(&e, 5, KVL_EVENT_PREFILL_DONE, i, 1000 + i), 0);
  }
  ck_assert_int_eq(kvl_events_push(&e, 4, KVL_EVENT_TRANSFER_DONE, 500, 1), 0);
  struct kvl_event first = kvl_events_pop(&e);
  ck_assert_uint_eq(first.request, 500);
  ck_assert_int_eq(first.kind, KVL_EVENT_TRANSFER_DONE);
  for (uint32_t i = 0; i < 100; i++) {
    struct kvl_event event = kvl_events_pop(&e);
    ck_assert_uint_eq(event.request, i);
    ck_assert_uint_eq(event.id, 1000 + i);
  }
  ck_assert_uint_eq(kvl_events_next_ns(&e), UINT64_MAX);
  kvl_events_deinit(&e);
}
END_TEST

/* Against sorting, with pops between the pushes. */
START_TEST(any_order)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, 3, "events", 0);
  struct kvl_events e = {0};
  static uint64_t expected[EVENTS][2];
  uint32_t begin = 0, end = 0;
  while (begin < EVENTS) {
    if (end < EVENTS && (begin == end || kvl_rng_below(&rng, 3) != 0)) {
      uint64_t now = begin == 0 ? 0 : expected[begin - 1][0];
      expected[end][0] = now + kvl_rng_below(&rng, 40);
      expected[end][1] = end;
      ck_assert_int_eq(kvl_events_push(&e, expected[end][0], KVL_EVENT_PREFILL_DONE, end, 0), 0);
      end++;
      qsort(expected + begin, end - begin, sizeof expected[0], by_time_then_order);
      continue;
    }
    ck_assert_uint_eq(kvl_events_next_ns(&e), expected[begin][0]);
    struct kvl_event event = kvl_events_pop(&e);
    ck_assert_uint_eq(event.time_ns, expected[begin][0]);
    ck_assert_uint_eq(event.request, (uint32_t)expected[begin][1]);
    begin++;
  }
  ck_assert_uint_eq(e.count, 0);
  kvl_events_deinit(&e);
}
END_TEST

KVL_TAP_MAIN("events", ties_keep_their_order, any_order)
