/* Every item once, in every round, whatever the number of threads. Clean under ThreadSanitizer (meson setup -Db_sanitize=thread). */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/workers.h"
#include "tests/base/tap.h"

enum { ITEMS = 1000, THREADS = 8 };

struct work {
  uint32_t times[ITEMS];
  uint32_t by_thread[THREADS];
  uint32_t threads;
  uint32_t bad;
};

static void note(void *context, uint32_t thread, uint32_t item)
{
  struct work *w = context;
  w->times[item]++; /* no two threads have one item */
  if (thread >= w->threads) {
    w->bad = 1;
    return;
  }
  w->by_thread[thread]++;
}

START_TEST(each_item_once)
{
  for (uint32_t threads = 1; threads <= THREADS; threads++) {
    struct kvl_workers *pool = kvl_workers_create(threads);
    ck_assert_ptr_nonnull(pool);
    ck_assert_uint_eq(kvl_workers_count(pool), threads);
    struct work w = {.threads = threads};
    uint32_t total = 0;
    for (uint32_t round = 1; round <= 300; round++) {
      uint32_t count = round % 7 == 0 ? 0 : round % 5 == 0 ? 1 : round * 3;
      memset(w.times, 0, sizeof w.times);
      kvl_workers_run(pool, note, &w, count);
      for (uint32_t i = 0; i < ITEMS; i++) {
        w.bad |= w.times[i] != (i < count);
      }
      ck_assert_uint_eq(w.bad, 0);
      total += count;
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
      sum += w.by_thread[i];
    }
    ck_assert_uint_eq(sum, total);
    ck_assert_uint_eq(w.bad, 0);
    kvl_workers_destroy(pool);
  }
}
END_TEST

START_TEST(none_is_one)
{
  struct kvl_workers *pool = kvl_workers_create(0);
  ck_assert_ptr_nonnull(pool);
  ck_assert_uint_eq(kvl_workers_count(pool), 1);
  kvl_workers_destroy(pool);
  kvl_workers_destroy(NULL);
}
END_TEST

KVL_TAP_MAIN("workers", each_item_once, none_is_one)
