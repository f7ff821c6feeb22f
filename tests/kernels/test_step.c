/* Unit tests of the references of a step's kernels (kernels/step.h), against values worked out here, the slow way. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "kernels/gather.h"
#include "kernels/pattern.h"
#include "kernels/step.h"
#include "tests/base/tap.h"

/* ---- pattern ---- */

START_TEST(jumping_ahead_is_iterating)
{
  uint64_t x = kvl_pattern_seed(11, 3, 123456, 0);
  ck_assert_uint_eq(kvl_pattern_word(x, 0), x);
  uint64_t seed = x;
  for (uint32_t n = 1; n <= 2000; n++) {
    x = kvl_pattern_next(x);
    ck_assert_uint_eq(kvl_pattern_word(seed, n), x);
  }
}
END_TEST

START_TEST(the_pattern_tells_rows_apart)
{
  ck_assert_uint_ne(kvl_pattern_seed(1, 0, 5, 0), kvl_pattern_seed(2, 0, 5, 0));
  ck_assert_uint_ne(kvl_pattern_seed(1, 0, 5, 0), kvl_pattern_seed(1, 1, 5, 0));
  ck_assert_uint_ne(kvl_pattern_seed(1, 0, 5, 0), kvl_pattern_seed(1, 0, 6, 0));
  ck_assert_uint_ne(kvl_pattern_seed(1, 0, 5, 0), kvl_pattern_seed(1, 0, 5, 1));
}
END_TEST

START_TEST(fills_write_their_rows_and_nothing_else)
{
  enum { BYTES = 4096 };
  static unsigned char memory[BYTES], want[BYTES];
  memset(memory, 0x5a, BYTES);
  memset(want, 0x5a, BYTES);
  const struct kvl_fill fill[] = {{memory + 8, 77, 2, 24, 100, 3, 0, 0}, {memory + 200, 78, 0, 288, 0, 2, 9, 0}, {memory + 1000, 79, 0, 8, 5, 0, 0, 0},
                                  {memory + 2000, 80, 0, 8, 5, 1, 0, 0}};
  uint32_t count = 3; /* the last one is not in the list */
  for (uint32_t f = 0; f < 2; f++) {
    for (uint32_t r = 0; r < fill[f].rows; r++) {
      for (uint32_t j = 0; j < fill[f].row_bytes / 8; j++) {
        uint64_t seed = kvl_pattern_seed(fill[f].session, fill[f].cache, fill[f].first_row + (kvl_row)r, fill[f].salt);
        uint64_t word = kvl_pattern_word(seed, j + 1);
        memcpy(want + (fill[f].to - memory) + r * fill[f].row_bytes + j * 8, &word, 8);
      }
    }
  }
  struct kvl_fills fills = {fill, &count, 4, 0};
  ck_assert_int_eq(kvl_fills_ref(&fills, NULL), 0);
  ck_assert_mem_eq(memory, want, BYTES);
  count = 0;
  ck_assert_int_eq(kvl_fills_ref(&fills, NULL), 0);
  ck_assert_mem_eq(memory, want, BYTES);
}
END_TEST

/* ---- digests ---- */

/* As step.h says it, byte by byte. */
static uint64_t naive_digest(const unsigned char *const *rows, uint32_t n, uint32_t row_bytes)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t h = 0;
    for (uint32_t at = 0; rows[i] != NULL && at < row_bytes; at += 8) {
      uint64_t word = 0;
      for (uint32_t b = 0; b < 8 && at + b < row_bytes; b++) {
        word |= (uint64_t)rows[i][at + b] << (8 * b);
      }
      h += (word ^ (at / 8)) * UINT64_C(0x9e3779b97f4a7c15);
    }
    sum += (2 * (uint64_t)i + 1) * (rows[i] != NULL ? h : KVL_DIGEST_NONE);
  }
  return sum;
}

START_TEST(reader_and_witness_agree_with_the_naive_digest)
{
  enum { SLOTS = 4, ROWS = 30, QUERIES = 3, K = 40, ENTRIES = 4 };
  static const uint32_t sizes[] = {8, 12, 24, 288, 289, 584, 656, 2624};
  const uint32_t row_bytes = sizes[_i];
  const uint64_t slot_bytes = (uint64_t)ROWS * row_bytes + 7 % row_bytes;
  unsigned char *resident = malloc(SLOTS * slot_bytes);
  unsigned char *arena = malloc((size_t)SLOTS * ROWS * row_bytes);
  static kvl_row rows[ENTRIES * QUERIES * K];
  static kvl_addr addresses[ENTRIES * QUERIES * K];
  struct kvl_resolve_entry entry[ENTRIES] = {{.request = 2, .query_count = 3}, {.request = KVL_NONE, .query_count = 3}, {.request = 0, .query_count = 1},
                                             {.request = 3, .query_count = 2}};
  struct kvl_batch_query query[ENTRIES * QUERIES];
  uint64_t read[ENTRIES * QUERIES + 1], seen[ENTRIES * QUERIES + 1];
  struct kvl_rng rng;
  kvl_rng_init(&rng, 1, "digest", (uint64_t)_i);
  for (size_t i = 0; i < SLOTS * slot_bytes; i++) {
    resident[i] = (unsigned char)kvl_rng_below(&rng, 256);
  }
  for (uint32_t s = 0; s < SLOTS; s++) {
    for (uint32_t r = 0; r < ROWS; r++) {
      memcpy(arena + ((size_t)(ROWS - 1 - r) * SLOTS + s) * row_bytes, resident + s * slot_bytes + (size_t)r * row_bytes, row_bytes);
    }
  }
  for (uint32_t at = 0; at < ENTRIES * QUERIES; at++) {
    query[at] = (struct kvl_batch_query){ROWS, at == 0 ? K : kvl_rng_below(&rng, K + 1)};
    for (uint32_t i = 0; i < K; i++) {
      uint32_t lane = at * K + i;
      rows[lane] = i % 7 == 3 ? KVL_NONE : i % 11 == 5 ? ROWS + 1000 : (kvl_row)kvl_rng_below(&rng, ROWS);
      bool none = rows[lane] < 0 || rows[lane] >= ROWS;
      addresses[lane] = none ? KVL_NONE : (ROWS - 1 - rows[lane]) * SLOTS + entry[at / QUERIES].request;
    }
  }
  memset(read, 0x5a, sizeof read);
  memset(seen, 0x5a, sizeof seen);
  const struct kvl_reader r = {ENTRIES, QUERIES, K, row_bytes, entry, query, addresses, arena, read, NULL, 0, 0};
  const struct kvl_witness w = {ENTRIES, QUERIES, K, row_bytes, entry, query, rows, resident, slot_bytes, seen, 0, 0};
  ck_assert_int_eq(kvl_reader_ref(&r, NULL), 0);
  ck_assert_int_eq(kvl_witness_ref(&w, NULL), 0);
  for (uint32_t at = 0; at < ENTRIES * QUERIES; at++) {
    const unsigned char *row[K];
    bool used = entry[at / QUERIES].request >= 0 && at % QUERIES < entry[at / QUERIES].query_count;
    for (uint32_t i = 0; used && i < query[at].n; i++) {
      kvl_row number = rows[at * K + i];
      row[i] = number < 0 || number >= ROWS ? NULL : resident + (uint64_t)entry[at / QUERIES].request * slot_bytes + (size_t)number * row_bytes;
    }
    uint64_t want = used ? naive_digest(row, query[at].n, row_bytes) : 0;
    ck_assert_uint_eq(read[at], want);
    ck_assert_uint_eq(seen[at], want);
  }
  ck_assert_uint_eq(read[ENTRIES * QUERIES], UINT64_C(0x5a5a5a5a5a5a5a5a));
  ck_assert_uint_eq(seen[ENTRIES * QUERIES], UINT64_C(0x5a5a5a5a5a5a5a5a));

  uint64_t before = read[0]; /* one bit of one row that query 0 reads; two rows in each other's place */
  arena[(size_t)addresses[0] * row_bytes + row_bytes - 1] ^= 1;
  ck_assert_int_eq(kvl_reader_ref(&r, NULL), 0);
  ck_assert_uint_ne(read[0], before);
  arena[(size_t)addresses[0] * row_bytes + row_bytes - 1] ^= 1;
  kvl_addr first = addresses[0];
  addresses[0] = (first + SLOTS) % (SLOTS * ROWS);
  ck_assert_int_eq(kvl_reader_ref(&r, NULL), 0);
  ck_assert_uint_ne(read[0], before);
  addresses[0] = first;
  ck_assert_int_eq(kvl_reader_ref(&r, NULL), 0);
  ck_assert_uint_eq(read[0], before);
  free(resident);
  free(arena);
}
END_TEST

/* ---- begin ---- */

START_TEST(begin_lays_out_a_batch)
{
  enum { SLOTS = 3, ENTRIES = 3, QUERIES = 2, WORDS = 20 };
  static struct kvl_resolve_entry slot_entry[2][SLOTS], entry[2][ENTRIES];
  static struct kvl_batch_query query[2][ENTRIES * QUERIES];
  static kvl_row rows[2][ENTRIES * QUERIES * 4];
  static struct kvl_resolve_counts counts[2][ENTRIES];
  static uint32_t selections[SLOTS][2][WORDS];
  uint64_t stamps[6] = {1, 2, 3, 4, 5, 6};
  memset(entry, 0x5a, sizeof entry);
  memset(query, 0x5a, sizeof query);
  memset(rows, 0x5a, sizeof rows);
  memset(counts, 0x5a, sizeof counts);
  for (uint32_t s = 0; s < SLOTS; s++) {
    for (uint32_t c = 0; c < 2; c++) {
      slot_entry[c][s] = (struct kvl_resolve_entry){.request = -5, .query_count = 99, .whole = 99, .pages = 99, .rows_max = 1000 + s,
                                                    .bases = {.hot = (kvl_addr)(10 * s + c)}};
    }
    for (uint32_t h = 0; h < 2; h++) {
      for (uint32_t i = 0; i < WORDS; i++) {
        selections[s][h][i] = 1000 * s + 100 * h + i;
      }
      selections[s][h][0] = 3; /* point 0: n of two queries, then rows */
      selections[s][h][1] = 4;
      selections[s][h][10] = 1; /* point 1, k 4, behind it */
      selections[s][h][11] = 9; /* more than k */
    }
  }
  const struct kvl_gpu_point point[2] = {{0, 4, 0, query[0], rows[0], counts[0]}, {1, 4, 10, query[1], rows[1], counts[1]}};
  const struct kvl_gpu_item item[ENTRIES] = {{2, 100, 2, 1, 7, 1}, {KVL_NONE, 0, 0, 0, 0, 0}, {0, 9, 1, 0, 3, 0}};
  struct kvl_step_begin b = {.entries = ENTRIES, .queries_max = QUERIES, .caches = 2, .points = 2, .item = item, .tokens_per_row = {1, 4}, .point = point,
                             .selections = selections[0][0], .selection_words = WORDS, .stamps = stamps, .stamp_pairs = 2};
  for (uint32_t c = 0; c < 2; c++) {
    b.slot_entry[c] = slot_entry[c];
    b.entry[c] = entry[c];
  }
  ck_assert_int_eq(kvl_step_begin_ref(&b, NULL), 0);
  for (uint32_t c = 0; c < 2; c++) {
    ck_assert_int_eq(entry[c][0].request, 2);
    ck_assert_uint_eq(entry[c][0].query_count, 2);
    ck_assert_uint_eq(entry[c][0].whole, 1);
    ck_assert_uint_eq(entry[c][0].pages, 7);
    ck_assert_uint_eq(entry[c][0].rows_max, 1002);
    ck_assert_int_eq(entry[c][0].bases.hot, (kvl_addr)(20 + c));
    ck_assert_int_eq(entry[c][1].request, KVL_NONE);
    ck_assert_uint_eq(entry[c][1].query_count, 0);
    ck_assert_int_eq(entry[c][2].request, 0);
    ck_assert_uint_eq(entry[c][2].query_count, 1);
    for (uint32_t e = 0; e < ENTRIES; e++) {
      static const struct kvl_resolve_counts zero;
      ck_assert_mem_eq(&counts[c][e], &zero, sizeof zero);
    }
  }
  static const int32_t boundary[2][ENTRIES * QUERIES] = {{100, 101, 0, 0, 9, 0}, {25, 25, 0, 0, 2, 0}};
  static const uint32_t n[2][ENTRIES * QUERIES] = {{3, 4, 0, 0, 3, 0}, {1, 4, 0, 0, 1, 0}};
  for (uint32_t p = 0; p < 2; p++) {
    for (uint32_t at = 0; at < ENTRIES * QUERIES; at++) {
      ck_assert_int_eq(query[p][at].boundary, boundary[p][at]);
      ck_assert_uint_eq(query[p][at].n, n[p][at]);
      for (uint32_t i = 0; i < 4; i++) {
        kvl_row base = at < QUERIES ? 2100 : 0; /* slot 2, half 1; slot 0, half 0 */
        kvl_row want = base + (kvl_row)(p * 10 + 2 + at % QUERIES * 4 + i);
        ck_assert_int_eq(rows[p][at * 4 + i], i < n[p][at] ? want : KVL_NONE);
      }
    }
  }
  ck_assert_uint_eq(stamps[0], UINT64_MAX);
  ck_assert_uint_eq(stamps[3], 0);
  ck_assert_uint_eq(stamps[4], 5);
  b.queries_max = KVL_STEP_QUERIES + 1;
  ck_assert_int_eq(kvl_step_begin_ref(&b, NULL), -EINVAL);
}
END_TEST

/* ---- end ---- */

START_TEST(end_sums_and_finds_the_first_mismatch)
{
  enum { ENTRIES = 3, QUERIES = 2, READERS = 3, EACH = ENTRIES * QUERIES };
  struct kvl_resolve_counts counts[2][ENTRIES];
  struct kvl_batch_query query[2][EACH];
  for (uint32_t p = 0; p < 2; p++) {
    for (uint32_t e = 0; e < ENTRIES; e++) {
      uint64_t x = 1 + p * 100 + e;
      counts[p][e] = (struct kvl_resolve_counts){.lanes = {x, 2 * x, 3 * x, 4 * x, 5 * x, 6 * x}, .violations = 7 * x, .fetched = 8 * x, .overflow = 9 * x};
    }
    for (uint32_t at = 0; at < EACH; at++) {
      query[p][at] = (struct kvl_batch_query){1, 10 * (p + 1) + at};
    }
  }
  const struct kvl_gpu_point point[2] = {{0, 4, 0, query[0], NULL, counts[0]}, {1, 4, 0, query[1], NULL, counts[1]}};
  const struct kvl_resolve_entry entry[ENTRIES] = {{.request = 4, .query_count = 2}, {.request = KVL_NONE, .query_count = 2},
                                                   {.request = 1, .query_count = 1}};
  uint64_t witness[2 * EACH], digest[READERS * EACH];
  const uint32_t point_of_reader[READERS] = {1, 0, 1};
  for (uint32_t i = 0; i < 2 * EACH; i++) {
    witness[i] = 1000 + i;
  }
  for (uint32_t i = 0; i < READERS * EACH; i++) {
    digest[i] = witness[point_of_reader[i / EACH] * EACH + i % EACH];
  }
  uint32_t check = 1;
  const uint32_t copied[ENTRIES] = {5, 0, 7}, dropped[ENTRIES] = {1, 0, 2};
  struct kvl_step_outcome out;
  struct kvl_step_end end = {ENTRIES, QUERIES, 2, READERS, point, entry, digest, witness, point_of_reader, &check, copied, dropped, NULL, &out, NULL};
  memset(&out, 0x5a, sizeof out);
  ck_assert_int_eq(kvl_step_end_ref(&end, NULL), 0);
  ck_assert_uint_eq(out.digests, READERS * 3);
  ck_assert_uint_eq(out.mismatches, 0);
  ck_assert_uint_eq(out.rows_checked, 2 * (20 + 21 + 24) + (10 + 11 + 14));
  ck_assert_uint_eq(out.first_reader, UINT32_MAX);
  ck_assert_uint_eq(out.counts[0].lanes[0], 1 + 2 + 3);
  ck_assert_uint_eq(out.counts[1].lanes[5], 6 * (101 + 102 + 103));
  ck_assert_uint_eq(out.counts[1].overflow, 9 * (101 + 102 + 103));
  ck_assert_uint_eq(out.counts[2].fetched, 0);
  ck_assert_uint_eq(out.copies, 12);
  ck_assert_uint_eq(out.dropped, 3);

  digest[2 * EACH + 0]++; /* reader 2, entry 0, query 0 */
  digest[1 * EACH + 4]++; /* reader 1, entry 2, query 0: the first */
  digest[0 * EACH + 2]++; /* of padding */
  digest[0 * EACH + 5]++; /* of a query that is not used */
  end.copy_count = NULL;
  end.drop_count = NULL;
  ck_assert_int_eq(kvl_step_end_ref(&end, NULL), 0);
  ck_assert_uint_eq(out.mismatches, 2);
  ck_assert_uint_eq(out.first_reader, 1);
  ck_assert_uint_eq(out.first_entry, 2);
  ck_assert_uint_eq(out.first_query, 0);
  ck_assert_uint_eq(out.copies, 0);

  check = 0;
  ck_assert_int_eq(kvl_step_end_ref(&end, NULL), 0);
  ck_assert_uint_eq(out.digests, 0);
  ck_assert_uint_eq(out.rows_checked, 0);
  ck_assert_uint_eq(out.first_entry, UINT32_MAX);
  ck_assert_uint_eq(out.counts[0].lanes[0], 6);
}
END_TEST

/* ---- bank ---- */

START_TEST(bank_copies_land_in_their_slots)
{
  enum { BANK = 3, BYTES = 24, ROWS = 10 };
  unsigned char host[2][ROWS * BYTES], arena[2 * BANK * BYTES], want[2 * BANK * BYTES];
  for (uint32_t i = 0; i < sizeof host[0]; i++) {
    host[0][i] = (unsigned char)i;
    host[1][i] = (unsigned char)(i + 101);
  }
  memset(arena, 0x5a, sizeof arena);
  memset(want, 0x5a, sizeof want);
  const struct kvl_resolve_entry entry[3] = {{.request = 0, .host_rows = host[0]}, {.request = KVL_NONE}, {.request = 1, .host_rows = host[1]}};
  const struct kvl_fetch copies[3 * BANK] = {{4, 0}, {5, 1}, {0, 0}, {1, 2}, {1, 2}, {1, 2}, {9, 5}, {0, 3}, {2, 4}};
  const uint32_t count[3] = {2, 3, 2};
  struct kvl_bank_copy b = {3, BANK, BYTES, entry, copies, count, arena, 0, NULL, 0, 0};
  memcpy(want, host[0] + 4 * BYTES, 2 * BYTES);
  memcpy(want + 5 * BYTES, host[1] + 9 * BYTES, BYTES);
  memcpy(want + 3 * BYTES, host[1], BYTES);
  ck_assert_int_eq(kvl_bank_copy_ref(&b, NULL), 0);
  ck_assert_mem_eq(arena, want, sizeof arena);

  unsigned char piecewise[sizeof arena]; /* part by part it comes to the same */
  memset(piecewise, 0x5a, sizeof piecewise);
  b.arena = piecewise;
  b.part_bytes = 8;
  for (b.part_offset = 0; b.part_offset < BYTES; b.part_offset += 8) {
    ck_assert_int_eq(memcmp(piecewise, want, sizeof want) == 0, 0);
    ck_assert_int_eq(kvl_bank_copy_ref(&b, NULL), 0);
  }
  ck_assert_mem_eq(piecewise, want, sizeof want);
  ck_assert_int_eq(kvl_bank_copy_ref(&b, NULL), -EINVAL); /* past the row's end */
}
END_TEST

START_TEST(gathered_rows_lie_in_the_order_of_their_lists)
{
  enum { MAX = 3, BYTES = 24, HEAD = 16, ROWS = 10 };
  unsigned char host[2][ROWS * BYTES], to[3 * MAX * HEAD], want[3 * MAX * HEAD];
  for (uint32_t i = 0; i < sizeof host[0]; i++) {
    host[0][i] = (unsigned char)i;
    host[1][i] = (unsigned char)(i + 101);
  }
  memset(to, 0x5a, sizeof to);
  memset(want, 0x5a, sizeof want);
  const struct kvl_resolve_entry entry[3] = {{.request = 0, .host_rows = host[0]}, {.request = KVL_NONE}, {.request = 1, .host_rows = host[1]}};
  const struct kvl_fetch fetches[3 * MAX] = {{4, 70}, {5, 71}, {0, 0}, {1, 2}, {1, 2}, {1, 2}, {9, KVL_NONE}, {0, 3}, {2, 4}};
  const uint32_t count[3] = {2, 3, 9}; /* the last: more than there is room for */
  struct kvl_gather g = {3, MAX, BYTES, HEAD, KVL_GATHER_OWNED, entry, fetches, count, to, NULL};
  static const kvl_row rows[2][MAX] = {{4, 5, KVL_NONE}, {9, 0, 2}};
  for (uint32_t i = 0; i < 2 * MAX; i++) {
    if (rows[i / MAX][i % MAX] != KVL_NONE) {
      memcpy(want + (i / MAX * 2 * MAX + i % MAX) * HEAD, host[i / MAX] + rows[i / MAX][i % MAX] * BYTES, HEAD);
    }
  }
  ck_assert_int_eq(kvl_gather_ref(&g, NULL), 0);
  ck_assert_mem_eq(to, want, sizeof to);
  static const uint32_t wrong[][2] = {{BYTES, 0}, {BYTES, 12}, {BYTES, 32}, {20, 8}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    g.row_bytes = wrong[i][0];
    g.bytes = wrong[i][1];
    ck_assert_int_eq(kvl_gather_ref(&g, NULL), -EINVAL);
  }
}
END_TEST

/* A part is read as if the rows were cut there. */
START_TEST(parts_of_rows_are_read_alone)
{
  enum { ROWS = 6, BYTES = 48, PART = 16, K = 5 };
  unsigned char whole[ROWS * BYTES], cut[ROWS * PART];
  const kvl_addr addresses[K] = {3, 0, KVL_NONE, 5, 3};
  const struct kvl_resolve_entry entry = {.request = 0, .query_count = 1};
  const struct kvl_batch_query query = {ROWS, K};
  for (uint32_t i = 0; i < sizeof whole; i++) {
    whole[i] = (unsigned char)(i * 37 + i / 48);
  }
  for (uint32_t part = 0; part < BYTES / PART; part++) {
    for (uint32_t r = 0; r < ROWS; r++) {
      memcpy(cut + r * PART, whole + r * BYTES + part * PART, PART);
    }
    uint64_t from_whole, from_cut, seen;
    const struct kvl_reader w = {1, 1, K, BYTES, &entry, &query, addresses, whole, &from_whole, NULL, part * PART, PART};
    const struct kvl_reader c = {1, 1, K, PART, &entry, &query, addresses, cut, &from_cut, NULL, 0, 0};
    const struct kvl_witness v = {1, 1, K, BYTES, &entry, &query, addresses, whole, sizeof whole, &seen, part * PART, PART};
    ck_assert_int_eq(kvl_reader_ref(&w, NULL), 0);
    ck_assert_int_eq(kvl_reader_ref(&c, NULL), 0);
    ck_assert_int_eq(kvl_witness_ref(&v, NULL), 0);
    ck_assert_uint_eq(from_whole, from_cut);
    ck_assert_uint_eq(seen, from_cut);
  }
}
END_TEST

int main(void)
{
  TCase *c = tcase_create("step");
  tcase_add_test(c, jumping_ahead_is_iterating);
  tcase_add_test(c, the_pattern_tells_rows_apart);
  tcase_add_test(c, fills_write_their_rows_and_nothing_else);
  tcase_add_loop_test(c, reader_and_witness_agree_with_the_naive_digest, 0, 8);
  tcase_add_test(c, begin_lays_out_a_batch);
  tcase_add_test(c, end_sums_and_finds_the_first_mismatch);
  tcase_add_test(c, bank_copies_land_in_their_slots);
  tcase_add_test(c, gathered_rows_lie_in_the_order_of_their_lists);
  tcase_add_test(c, parts_of_rows_are_read_alone);
  return kvl_tap_run_case("step", c);
}
