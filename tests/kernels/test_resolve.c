/* Unit tests of the C reference: the worked step of the semantics, and one test for each fault seen in the field that resolve could have. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/resolve_ref.h"
#include "tests/base/tap.h"

enum { HOT = 100000, BANK = 200000, TAIL = 300000, SCRATCH = 400000, OVERFLOW = 500000, FRAMES = 1000000, LANES = 4096 };

static const struct kvl_cache_bases bases = {.frames = FRAMES, .hot = HOT, .bank = BANK, .tail = TAIL, .scratch = SCRATCH,
                                             .overflow = OVERFLOW};
static struct kvl_cache_geometry geometry;
static void *memory, *ws_memory;
static struct kvl_cache *cache;
static struct kvl_resolve_ws *ws;
static kvl_addr got[LANES + 1]; /* and a red zone */
static struct kvl_fetch fetched[LANES];
static uint32_t fetch_count;
static struct kvl_resolve_counts counts;

static void start(uint32_t page_shift, uint32_t hot_rows, uint32_t bank_rows, kvl_row committed)
{
  geometry = (struct kvl_cache_geometry){.page_shift = page_shift,
                                         .hot_rows = hot_rows,
                                         .bank_rows = bank_rows,
                                         .tail_rows = 4,
                                         .scratch_rows = 8,
                                         .frame_stride_rows = 1u << page_shift};
  ck_assert_int_eq(posix_memalign(&memory, 64, kvl_cache_bytes(&geometry)), 0);
  ck_assert_int_eq(posix_memalign(&ws_memory, 64, kvl_resolve_ws_bytes(LANES)), 0);
  cache = kvl_cache_init(memory, &geometry, &bases, 0);
  ws = kvl_resolve_ws_init(ws_memory, LANES);
  ck_assert_int_eq(kvl_cache_load(cache, committed), 0);
  memset(&counts, 0, sizeof counts);
}

static void stop(void)
{
  ck_assert_int_eq(kvl_cache_verify(cache), 0);
  free(memory);
  free(ws_memory);
}

static void resolve(kvl_row boundary, const kvl_row *rows, uint32_t n)
{
  struct kvl_query q = {boundary, n, rows};
  memset(got, 0x77, sizeof got);
  ck_assert_int_eq(kvl_resolve_ref(cache, ws, false, &q, 1, got, fetched, &fetch_count, &counts), 0);
  ck_assert_int_eq(kvl_cache_verify(cache), 0);
  ck_assert_int_eq(got[n], 0x77777777); /* nothing written past the lanes */
}

#define RESOLVE(boundary, ...) resolve(boundary, (const kvl_row[]){__VA_ARGS__}, sizeof((const kvl_row[]){__VA_ARGS__}) / sizeof(kvl_row))
#define EXPECT(...) \
  ck_assert_mem_eq(got, ((const kvl_addr[]){__VA_ARGS__}), sizeof((const kvl_addr[]){__VA_ARGS__}))

START_TEST(worked_step)
{
  kvl_frame pages[6] = {-1, -1, 4, 2, 0, -1};
  start(2, 4, 3, 22);
  kvl_cache_set_page_map(cache, pages, 6);
  RESOLVE(22, 21, 3, 9, 3, -1, 17);
  EXPECT(HOT + 0, HOT + 1, FRAMES + 4 * 4 + 1, HOT + 1, KVL_NONE, FRAMES + 0 * 4 + 1);
  ck_assert_uint_eq(counts.lanes[KVL_TIER_HOST], 3);
  ck_assert_uint_eq(fetch_count, 2);

  const kvl_row pool_rows[] = {0, 1, 2, 3, 8, 9};
  const struct kvl_query pool = {22, 6, pool_rows};
  kvl_row dropped[6];
  uint32_t drops;
  ck_assert_int_eq(kvl_announce_ref(cache, ws, &pool, 1, fetched, &fetch_count, dropped, &drops), 0);
  ck_assert_uint_eq(fetch_count, 3);
  ck_assert_uint_eq(drops, 0);
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(fetched[i].row, i);
    ck_assert_int_eq(fetched[i].to, BANK + i);
  }
  RESOLVE(22, 9, 2, 8, 3);
  EXPECT(FRAMES + 4 * 4 + 1, BANK + 2, FRAMES + 4 * 4 + 0, HOT + 1);
  ck_assert_uint_eq(fetch_count, 0);
  kvl_end_group_ref(cache);
  pages[2] = pages[3] = KVL_NONE; /* revoked */

  ck_assert_int_eq(kvl_cache_scratch(cache, 2), 0);
  const kvl_row a[] = {22, 23, 5, 13};
  const kvl_row b[] = {23, 5, 6, 7};
  const struct kvl_query two[] = {{23, 4, a}, {24, 4, b}};
  memset(&counts, 0, sizeof counts);
  ck_assert_int_eq(kvl_resolve_ref(cache, ws, false, two, 2, got, fetched, &fetch_count, &counts), 0);
  EXPECT(SCRATCH + 0, KVL_NONE, HOT + 2, HOT + 3, SCRATCH + 1, HOT + 2, HOT + 0, HOT + 1);
  ck_assert_uint_eq(counts.violations, 1);
  ck_assert_uint_eq(fetch_count, 4);
  const kvl_row order[] = {5, 13, 6, 7};
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(fetched[i].row, order[i]);
  }
  ck_assert_int_eq(kvl_cache_commit(cache, 1), 0);
  ck_assert_int_eq(kvl_cache_tail_place(cache, 22), 0);
  const kvl_row hot[] = {6, 7, 5, 13};
  for (int s = 0; s < 4; s++) {
    ck_assert_int_eq(kvl_cache_hot_row(cache, s), hot[s]);
  }
  stop();
}
END_TEST

/* "fresh misses written at the old end of the list, so the hot set thrashed" */
START_TEST(fresh_rows_are_no_victims)
{
  start(0, 4, 0, 100);
  RESOLVE(100, 0, 1, 2, 3);
  RESOLVE(100, 10);
  EXPECT(HOT + 0);
  RESOLVE(100, 11);
  EXPECT(HOT + 1);
  RESOLVE(100, 10, 11, 2, 3);
  EXPECT(HOT + 0, HOT + 1, HOT + 2, HOT + 3);
  ck_assert_uint_eq(fetch_count, 0);
  stop();
}
END_TEST

/* "-1 matched the empty tag", and every other value that an empty or dead place might hold */
START_TEST(sentinels_never_match)
{
  start(0, 8, 4, 10);
  RESOLVE(INT32_MAX, -1, -2, INT32_MIN, INT32_MAX, 10, -1);
  EXPECT(KVL_NONE, KVL_NONE, KVL_NONE, KVL_NONE, KVL_NONE, KVL_NONE);
  ck_assert_uint_eq(counts.violations, 4);
  ck_assert_uint_eq(fetch_count, 0);
  for (int t = 0; t < KVL_TIERS; t++) {
    ck_assert_uint_eq(counts.lanes[t], 0);
  }
  stop();
}
END_TEST

START_TEST(duplicates_share_one_slot)
{
  start(0, 2, 0, 10);
  RESOLVE(10, 5, 5, 6, 7, 7, 8, 7, 5);
  EXPECT(HOT + 0, HOT + 0, HOT + 1, OVERFLOW + 0, OVERFLOW + 0, OVERFLOW + 1, OVERFLOW + 0, HOT + 0);
  ck_assert_uint_eq(fetch_count, 4);
  ck_assert_uint_eq(counts.fetched, 4);
  ck_assert_uint_eq(counts.overflow, 2);
  ck_assert_uint_eq(counts.lanes[KVL_TIER_HOST], 8);
  RESOLVE(10, 7); /* an overflow row is gone when the pass is over */
  ck_assert_uint_eq(fetch_count, 1);
  EXPECT(HOT + 0);
  stop();
}
END_TEST

START_TEST(no_hot_cache)
{
  start(3, 0, 0, 100);
  RESOLVE(100, 1, 2, 1, -1);
  EXPECT(OVERFLOW + 0, OVERFLOW + 1, OVERFLOW + 0, KVL_NONE);
  RESOLVE(100, 2);
  EXPECT(OVERFLOW + 0);
  stop();
}
END_TEST

/* A hot cache as large as the selection, entirely replaced again and again. */
START_TEST(hot_cache_of_size_k)
{
  static kvl_row rows[512];
  start(4, 512, 0, 1 << 20);
  for (int t = 0; t < 20; t++) {
    for (int i = 0; i < 512; i++) {
      rows[i] = t * 512 + i;
    }
    resolve(1 << 20, rows, 512);
    ck_assert_uint_eq(fetch_count, 512);
    for (int i = 0; i < 512; i++) {
      ck_assert_int_eq(got[i], HOT + i);
    }
  }
  ck_assert_uint_eq(counts.overflow, 0);
  stop();
}
END_TEST

START_TEST(pinned_slots_are_spared_then_first)
{
  start(0, 3, 4, 100);
  RESOLVE(100, 0, 1, 2);
  const kvl_row named[] = {0};
  const struct kvl_query pool = {100, 1, named};
  kvl_row dropped[1];
  uint32_t drops;
  ck_assert_int_eq(kvl_announce_ref(cache, ws, &pool, 1, fetched, &fetch_count, dropped, &drops), 0);
  ck_assert_uint_eq(fetch_count, 0); /* it is hot: no copy */
  RESOLVE(100, 10, 11, 12);
  EXPECT(HOT + 1, HOT + 2, OVERFLOW + 0);
  kvl_end_group_ref(cache);
  RESOLVE(100, 13);
  EXPECT(HOT + 0); /* the oldest stamp of all, now that it is free */
  stop();
}
END_TEST

START_TEST(a_lent_page_hides_the_hot_row_and_gives_it_back)
{
  kvl_frame pages[2] = {-1, -1};
  start(3, 4, 0, 16);
  kvl_cache_set_page_map(cache, pages, 2);
  RESOLVE(16, 9);
  EXPECT(HOT + 0);
  pages[1] = 7;
  RESOLVE(16, 9);
  EXPECT(FRAMES + 7 * 8 + 1);
  ck_assert_uint_eq(kvl_cache_hot_stamp(cache, 0), 1); /* found before the hot cache: no stamp */
  pages[1] = KVL_NONE;
  RESOLVE(16, 9);
  EXPECT(HOT + 0);
  ck_assert_uint_eq(fetch_count, 0);
  stop();
}
END_TEST

START_TEST(history_has_limits)
{
  start(0, 4, 0, 10);
  ck_assert_int_eq(kvl_cache_scratch(cache, 9), -ENOSPC);
  ck_assert_int_eq(kvl_cache_scratch(cache, 5), 0);
  ck_assert_int_eq(kvl_cache_commit(cache, 6), -EINVAL);
  ck_assert_int_eq(kvl_cache_commit(cache, 5), -ENOSPC);
  ck_assert_int_eq(kvl_cache_commit(cache, 4), 0);
  ck_assert_int_eq(kvl_cache_committed(cache), 14);
  ck_assert_int_eq(kvl_cache_written_back(cache, 5), -EINVAL);
  ck_assert_int_eq(kvl_cache_written_back(cache, 2), 0);
  ck_assert_uint_eq(kvl_cache_tail_rows(cache), 2);
  ck_assert_int_eq(kvl_cache_scratch(cache, 2), 0);
  ck_assert_int_eq(kvl_cache_commit(cache, 2), 0);
  ck_assert_int_eq(kvl_cache_tail_place(cache, 14), 0); /* lowest free places, freed ones first */
  ck_assert_int_eq(kvl_cache_tail_place(cache, 15), 1);
  ck_assert_int_eq(kvl_cache_tail_place(cache, 11), KVL_NONE);
  ck_assert_int_eq(kvl_cache_load(cache, 20), -EINVAL); /* rows are in the tail */
  RESOLVE(16, 12, 14, 11, 16);
  EXPECT(TAIL + 2, TAIL + 0, HOT + 0, KVL_NONE);
  stop();
}
END_TEST

START_TEST(too_many_lanes_change_nothing)
{
  static kvl_row rows[LANES + 1];
  start(0, 4, 0, 10);
  struct kvl_query q = {10, LANES + 1, rows};
  ck_assert_int_eq(kvl_resolve_ref(cache, ws, false, &q, 1, got, NULL, NULL, &counts), -EOVERFLOW);
  RESOLVE(10, 0);
  ck_assert_uint_eq(kvl_cache_hot_stamp(cache, 0), 1);
  stop();
}
END_TEST

START_TEST(slots_beyond_16_bits)
{
  enum { SLOTS = 70000 };
  static kvl_row rows[LANES];
  start(0, SLOTS, 0, 1 << 20);
  for (uint32_t first = 0; first < SLOTS; first += LANES) {
    for (uint32_t i = 0; i < LANES; i++) {
      rows[i] = (kvl_row)(first + i);
    }
    resolve(1 << 20, rows, first + LANES < SLOTS ? LANES : SLOTS - first);
  }
  RESOLVE(1 << 20, 66000, 69999, 500000);
  EXPECT(HOT + 66000, HOT + 69999, HOT + 0);
  stop();
}
END_TEST

int main(void)
{
  TCase *c = tcase_create("resolve");
  tcase_add_test(c, worked_step);
  tcase_add_test(c, fresh_rows_are_no_victims);
  tcase_add_test(c, sentinels_never_match);
  tcase_add_test(c, duplicates_share_one_slot);
  tcase_add_test(c, no_hot_cache);
  tcase_add_test(c, hot_cache_of_size_k);
  tcase_add_test(c, pinned_slots_are_spared_then_first);
  tcase_add_test(c, a_lent_page_hides_the_hot_row_and_gives_it_back);
  tcase_add_test(c, history_has_limits);
  tcase_add_test(c, too_many_lanes_change_nothing);
  tcase_add_test(c, slots_beyond_16_bits);
  return kvl_tap_run_case("resolve", c);
}
