/* Generated selections: what must hold of every one, whatever its statistics. */
#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test_util.h"
#include "traces/gap.h"
#include "traces/preset.h"
#include "traces/score.h"
#include "traces/selection.h"

/* DeepSeek-V4.1-Flash: three caches of a row for two tokens, and D, selected from five times. */
static const struct kvl_selection_shape v41 = {
  .caches = 4,
  .tokens_per_row = {2, 2, 2, 1},
  .points = 8,
  .point = {{0, 2, 512}, {1, 8, 512}, {2, 14, 512}, {3, 20, 512}, {3, 24, 512}, {3, 28, 512}, {3, 32, 512}, {3, 36, 512}},
};

static struct kvl_selection_source *open_preset(const char *preset, const struct kvl_selection_shape *shape, uint64_t seed)
{
  struct kvl_selection_source *source;
  struct kvl_err err;
  int rc = kvl_source_open_preset(&source, preset, shape, seed, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  return source;
}

static int ascending(const void *a, const void *b)
{
  const int32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Distinct rows below the history's length; k of them, or all when there are fewer. One assertion for all: each one is a write to a file. */
static void check_rows(const int32_t *row, uint32_t count, uint32_t k, uint32_t rows)
{
  static uint8_t seen[1 << 20];
  uint32_t wrong = count, i;
  for (i = 0; i < count && wrong == count; i++) {
    if (row[i] < 0 || (uint32_t)row[i] >= rows || (size_t)row[i] >= sizeof seen || seen[row[i]]++ != 0) {
      wrong = i;
    }
  }
  while (i-- > 0) {
    if (row[i] >= 0 && (size_t)row[i] < sizeof seen) {
      seen[row[i]] = 0;
    }
  }
  ck_assert_msg(count == (rows < k ? rows : k) && wrong == count, "%u rows of %u, k %u; lane %u has row %d", count, rows, k, wrong,
                wrong < count ? row[wrong] : 0);
}

static uint32_t common_rows(const int32_t *a, uint32_t a_count, const int32_t *b, uint32_t b_count)
{
  static int32_t x[8192], y[8192];
  uint32_t same = 0, i = 0, j = 0;
  memcpy(x, a, a_count * sizeof *a);
  memcpy(y, b, b_count * sizeof *b);
  qsort(x, a_count, sizeof *x, ascending);
  qsort(y, b_count, sizeof *y, ascending);
  while (i < a_count && j < b_count) {
    same += x[i] == y[j];
    int32_t low = x[i] < y[j] ? x[i] : y[j];
    i += x[i] == low;
    j += y[j] == low;
  }
  return same;
}

static void check_step(struct kvl_selection_stream *stream, const struct kvl_selection_shape *shape, uint32_t tokens, uint32_t queries)
{
  for (uint32_t point = 0; point < shape->points; point++) {
    const struct kvl_selection_point *p = &shape->point[point];
    for (uint32_t query = 0; query < queries; query++) {
      const int32_t *row;
      uint32_t n = kvl_stream_rows(stream, point, query, &row);
      check_rows(row, n, tokens / shape->tokens_per_row[p->cache] < p->k ? tokens / shape->tokens_per_row[p->cache] : p->k,
                 (tokens + query) / shape->tokens_per_row[p->cache]);
    }
  }
}

START_TEST(every_preset_is_distinct_and_in_bounds)
{
  struct kvl_selection_source *source = open_preset(kvl_preset_names[_i], &v41, 5);
  struct kvl_selection_stream *stream = kvl_stream_create(source, 30300, 3);
  ck_assert_ptr_nonnull(stream);
  for (uint64_t session = 0; session < 2; session++) { /* reused from request to request */
    kvl_stream_start(stream, session, 30000);
    for (uint32_t step = 0; step < 60; step++) {
      uint32_t queries = 1 + step % 3, tokens = 30001 + 2 * step;
      kvl_stream_step(stream, tokens, queries);
      check_step(stream, &v41, tokens, queries);
    }
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
}
END_TEST

/* Histories that start at nothing, just below, at and above k, and grow through every mode of the generator. */
START_TEST(short_histories_grow)
{
  static const uint32_t start[] = {0, 1, 31, 32, 33, 40, 60};
  struct kvl_selection_shape shape = {.caches = 3, .tokens_per_row = {1, 1, 2}, .points = 5,
    .point = {{0, 0, 32}, {1, 1, 32}, {1, 2, 32}, {1, 3, 32}, {2, 4, 5}}};
  struct kvl_selection_source *source = open_preset("hot-b", &shape, 9);
  struct kvl_selection_stream *stream = kvl_stream_create(source, 700, 2);
  ck_assert_ptr_nonnull(stream);
  kvl_stream_start(stream, (uint64_t)_i, start[_i]);
  for (uint32_t tokens = start[_i]; tokens <= 700; tokens++) {
    kvl_stream_step(stream, tokens, 2);
    check_step(stream, &shape, tokens, 2);
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
}
END_TEST

START_TEST(tokens_per_row)
{
  static const uint32_t per_row[] = {1, 2, 4, 128};
  for (size_t i = 0; i < sizeof per_row / sizeof *per_row; i++) {
    struct kvl_selection_shape shape = {.caches = 1, .tokens_per_row = {per_row[i]}, .points = 1, .point = {{0, 0, 64}}};
    struct kvl_selection_source *source = open_preset("hot-a", &shape, 2);
    struct kvl_selection_stream *stream = kvl_stream_create(source, 10500, 1);
    kvl_stream_start(stream, 1, 10000);
    for (uint32_t tokens = 10000; tokens < 10500; tokens++) {
      kvl_stream_step(stream, tokens, 1);
      check_step(stream, &shape, tokens, 1);
    }
    kvl_stream_destroy(stream);
    kvl_source_close(source);
  }
}
END_TEST

/* Jumps of many tokens, and steps that commit none. */
START_TEST(uneven_growth)
{
  struct kvl_selection_source *source = open_preset("cold-a", &v41, 2);
  struct kvl_selection_stream *stream = kvl_stream_create(source, 200000, 1);
  uint32_t tokens = 1500;
  kvl_stream_start(stream, 1, tokens);
  for (uint32_t step = 0; step < 200; step++) {
    tokens += step % 5 == 0 ? 0 : step % 50 == 7 ? 40000 : step % 3;
    kvl_stream_step(stream, tokens, 1);
    check_step(stream, &v41, tokens, 1);
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
}
END_TEST

static uint64_t hash_run(const char *preset, uint64_t seed, uint64_t session)
{
  uint64_t hash = 0xcbf29ce484222325u;
  struct kvl_selection_source *source = open_preset(preset, &v41, seed);
  struct kvl_selection_stream *stream = kvl_stream_create(source, 50200, 2);
  kvl_stream_start(stream, 77, 40000); /* an earlier request leaves nothing behind */
  kvl_stream_step(stream, 40001, 1);
  kvl_stream_start(stream, session, 50000);
  for (uint32_t step = 0; step < 60; step++) {
    kvl_stream_step(stream, 50001 + step, 1 + step % 2);
    for (uint32_t point = 0; point < v41.points; point++) {
      const int32_t *row;
      uint32_t n = kvl_stream_rows(stream, point, step % 2, &row);
      for (uint32_t i = 0; i < n; i++) {
        hash = (hash ^ (uint32_t)row[i]) * 0x100000001b3u;
      }
    }
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
  return hash;
}

/* The same rows from the same seed, on every machine and compiler. A change of the generator or its tables changes these. */
START_TEST(reproducible)
{
  static const uint64_t expect[KVL_PRESETS] = {0x51780dd31e88109eu, 0xc487a0e2420b8665u, 0xbd3ac9a15d774d43u, 0xdc35e2ec2f038ca5u};
  uint64_t hash = hash_run(kvl_preset_names[_i], 1, 3);
  ck_assert_msg(hash == expect[_i], "%s: 0x%016llx", kvl_preset_names[_i], (unsigned long long)hash);
  ck_assert_uint_ne(hash, hash_run(kvl_preset_names[_i], 1, 4));
  ck_assert_uint_ne(hash, hash_run(kvl_preset_names[_i], 2, 3));
}
END_TEST

/* Selections of one cache: neighbours share 70 to 100 %, far ones 40 to 60 %; also when there are many of them. Queries of a step: above 90 %. */
START_TEST(shares)
{
  struct kvl_selection_shape shape = {.caches = 1, .tokens_per_row = {1}};
  uint32_t points = _i == 0 ? 5 : _i == 1 ? 2 : 16;
  shape.points = points;
  for (uint32_t i = 0; i < points; i++) {
    shape.point[i] = (struct kvl_selection_point){.cache = 0, .layer = (uint16_t)(4 * i), .k = 512};
  }
  struct kvl_selection_source *source = open_preset("hot-a", &shape, 3);
  struct kvl_selection_stream *stream = kvl_stream_create(source, 100100, 6);
  kvl_stream_start(stream, 0, 100000);
  for (uint32_t step = 0; step < 12; step++) {
    const int32_t *row[16], *other;
    kvl_stream_step(stream, 100001 + step, 6);
    for (uint32_t i = 0; i < points; i++) {
      ck_assert_uint_eq(kvl_stream_rows(stream, i, 0, &row[i]), 512);
      for (uint32_t j = 0; j < i; j++) {
        uint32_t same = common_rows(row[i], 512, row[j], 512);
        ck_assert_uint_ge(same, 512 * 40 / 100);
        if (i - j == 1) {
          ck_assert_uint_ge(same, 512 * 70 / 100);
        }
        if (j == 0 && i == points - 1 && points > 2) {
          ck_assert_uint_le(same, 512 * 60 / 100);
        }
      }
      for (uint32_t query = 1; query < 6; query++) {
        const int32_t *before;
        kvl_stream_rows(stream, i, query - 1, &before);
        kvl_stream_rows(stream, i, query, &other);
        uint32_t same = common_rows(before, 512, other, 512);
        ck_assert_uint_gt(same, 512 * 90 / 100);
        ck_assert_uint_lt(same, 512);
      }
    }
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
}
END_TEST

/* Queries of a step: what neighbours share is set, and two share the less the further apart they are. One query more or less changes no other. Those after
 * the first select rows that the step itself writes, about as often as the first selects the newest one. */
START_TEST(queries_drift_apart)
{
  static const uint32_t permilles[] = {970, 1000, 950, 900, 600};
  enum { QUERIES = 6, SLACK = 6 /* lanes: sinks stay, segments round down, new rows come in */ };
  const uint32_t permille = permilles[_i];
  struct kvl_selection_source *source = open_preset("hot-a", &v41, 5);
  if (permille != permilles[0]) { /* what it is unless set */
    kvl_source_set_query_overlap(source, permille);
  }
  struct kvl_selection_stream *stream = kvl_stream_create(source, 100500, QUERIES), *fewer = kvl_stream_create(source, 100500, QUERIES);
  kvl_stream_start(stream, 0, 100000);
  kvl_stream_start(fewer, 0, 100000);
  uint32_t unaccepted = 0, newest = 0, points = 0;
  for (uint32_t step = 0; step < 60; step++) {
    uint32_t tokens = 100001 + 2 * step;
    kvl_stream_step(stream, tokens, QUERIES);
    kvl_stream_step(fewer, tokens, 2 + step % 2);
    check_step(stream, &v41, tokens, QUERIES);
    for (uint32_t p = 0; p < v41.points; p++) {
      const int32_t *row[QUERIES], *same;
      uint32_t k = v41.point[p].k;
      for (uint32_t q = 0; q < QUERIES; q++) {
        ck_assert_uint_eq(kvl_stream_rows(stream, p, q, &row[q]), k);
      }
      uint32_t rows = tokens / v41.tokens_per_row[v41.point[p].cache], new_rows = (tokens + QUERIES - 1) / v41.tokens_per_row[v41.point[p].cache] - rows;
      for (uint32_t i = 0; i < k; i++) {
        newest += new_rows * (row[0][i] == (int32_t)rows - 1);
        unaccepted += row[QUERIES - 1][i] >= (int32_t)rows;
      }
      points += new_rows;
      for (uint32_t q = 1; q < QUERIES; q++) {
        ck_assert_uint_ge(common_rows(row[q - 1], k, row[q], k), k * permille / 1000 - SLACK);
        ck_assert_uint_le(common_rows(row[q - 1], k, row[q], k), k * permille / 1000 + 2 * SLACK);
        uint32_t apart = q * (1000 - permille) < 1000 ? q * (1000 - permille) : 1000;
        ck_assert_uint_le(common_rows(row[0], k, row[q], k), k - k * apart / 1000 + 3 * SLACK);
      }
      ck_assert_uint_eq(kvl_stream_rows(fewer, p, 1, &same), k);
      ck_assert_mem_eq(same, row[1], k * sizeof *same);
    }
  }
  ck_assert_msg(unaccepted > newest / 2 && unaccepted < 2 * newest && newest > points / 100, "%u, newest %u of %u", unaccepted, newest, points);
  kvl_stream_destroy(stream);
  kvl_stream_destroy(fewer);
  kvl_source_close(source);
}
END_TEST

/* Over a history little longer than k the queries of a step may select all of its rows together; each still has k different ones. */
START_TEST(queries_over_a_short_history)
{
  static const uint32_t overlap[] = {970, 900, 500, 0};
  struct kvl_selection_source *source = open_preset("cold-a", &v41, (uint64_t)_i);
  kvl_source_set_query_overlap(source, overlap[_i % 4]);
  struct kvl_selection_stream *stream = kvl_stream_create(source, 1400, 8);
  ck_assert_ptr_nonnull(stream);
  for (uint64_t session = 0; session < 4; session++) {
    kvl_stream_start(stream, session, 1150);
    for (uint32_t tokens = 1150; tokens < 1300; tokens++) {
      uint32_t queries = 2 + (tokens + (uint32_t)session) % 7;
      kvl_stream_step(stream, tokens, queries);
      check_step(stream, &v41, tokens, queries);
    }
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
}
END_TEST

START_TEST(points_with_different_k)
{
  struct kvl_selection_shape shape = {.caches = 1, .tokens_per_row = {1}, .points = 3, .point = {{0, 0, 100}, {0, 1, 37}, {0, 2, 64}}};
  struct kvl_selection_source *source = open_preset("hot-a", &shape, 3);
  struct kvl_selection_stream *stream = kvl_stream_create(source, 5000, 1);
  kvl_stream_start(stream, 0, 0);
  for (uint32_t tokens = 0; tokens < 400; tokens += 3) {
    kvl_stream_step(stream, tokens, 1);
    check_step(stream, &shape, tokens, 1);
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
}
END_TEST

START_TEST(says_what_is_wrong)
{
  struct kvl_selection_source *source;
  struct kvl_err err;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-c", &v41, 1, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "hot-"));
  ck_assert_ptr_null(source);
  ck_assert_int_eq(kvl_source_open_preset(&source, "colda", &v41, 1, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "did you mean \"cold-a\""));
  struct kvl_selection_shape bad = v41;
  bad.point[3].cache = 9;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-a", &bad, 1, &err), -EINVAL);
  bad = v41;
  bad.point[0].k = 0;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-a", &bad, 1, &err), -EINVAL);
  bad = v41;
  bad.tokens_per_row[2] = 0;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-a", &bad, 1, &err), -EINVAL);
  bad = v41;
  bad.points = 0;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-a", &bad, 1, &err), -EINVAL);
  kvl_source_close(NULL);
  kvl_stream_destroy(NULL);
}
END_TEST

/* 164 streams of 500,800 tokens in 200 MB (hot); and the calendar never overflows, not even late or after growth. */
START_TEST(memory)
{
  static struct kvl_gap_law law;
  kvl_gap_law_init(&law, &kvl_gap_tables[_i]);
  size_t bytes = 0;
  for (uint32_t cache = 0; cache < v41.caches; cache++) {
    uint32_t rows = 500800 / v41.tokens_per_row[cache], points = cache < 3 ? 1 : 5;
    struct kvl_gap *gap = kvl_gap_create(&law, 512, points, rows, 1);
    ck_assert_ptr_nonnull(gap);
    bytes += kvl_gap_bytes(gap);
    kvl_gap_start(gap, 1, cache);
    for (uint32_t step = 0; step < 150; step++) {
      kvl_gap_step(gap, rows - 149 + step, 1);
    }
    ck_assert_uint_eq(kvl_gap_forgotten(gap), 0);
    kvl_gap_destroy(gap);
  }
  ck_assert_uint_le(bytes, _i < 2 ? 1220000 : 1600000); /* cold presets come back later, so more rows wait */
  struct kvl_gap *gap = kvl_gap_create(&law, 32, 5, 2000, 1);
  kvl_gap_start(gap, 1, 9);
  for (uint32_t step = 0; step < 1800; step++) {
    kvl_gap_step(gap, 200 + step, 1);
  }
  ck_assert_uint_eq(kvl_gap_forgotten(gap), 0);
  kvl_gap_destroy(gap);
  ck_assert_ptr_null(kvl_gap_create(&law, 64, 1, KVL_GAP_ROWS_MAX + 1, 1));
}
END_TEST

/* A law's parts belong together: masses add up, and where k of n rows are selected the expected number is k. */
START_TEST(law)
{
  static struct kvl_gap_law l;
  kvl_gap_law_init(&l, &kvl_gap_tables[_i]);
  static const uint32_t setting[][2] = {{2048, 65536}, {512, 2048}, {512, 500000}, {64, 1000000}};
  for (size_t i = 0; i < sizeof setting / sizeof *setting; i++) {
    struct kvl_gap_balance b;
    uint32_t k = setting[i][0], rows = setting[i][1];
    kvl_gap_balance(&l, k, rows, &b);
    uint64_t mass = 0, far_q32 = 0;
    for (uint32_t c = 0; c < KVL_GAP_STATIC; c++) {
      mass += b.weight_q32[c];
      far_q32 += c < KVL_GAP_CLASSES ? (b.weight_q32[c] * l.table->select_q32[c] >> 32) * rows : 0;
    }
    ck_assert_uint_le(mass, (UINT64_C(1) << 32) + 1000);
    ck_assert_uint_ge(mass, (UINT64_C(1) << 32) - 1000);
    ck_assert_uint_le(far_q32 >> 32, k);
    ck_assert_uint_ge(far_q32 >> 32, k / 2); /* the rest: sinks, bursts, rows near the end */
  }
  int64_t worst = 0;
  for (uint32_t c = 0; c < KVL_GAP_CLASSES; c++) {
    for (uint32_t s = 0; s < KVL_GAP_STATES; s++) {
      uint64_t share[KVL_GAP_ALIAS] = {0};
      for (uint32_t i = 0; i < KVL_GAP_ALIAS; i++) {
        uint32_t column = l.alias[c][s][i], below = column >> 16;
        share[column >> 8 & 255] += below;
        share[column & 255] += (1u << KVL_GAP_ALIAS_BITS) - below;
      }
      uint32_t before = 65536;
      for (uint32_t bin = 0; bin <= KVL_GAP_BINS; bin++) { /* the columns are the table, to rounding */
        uint32_t longer = bin < KVL_GAP_BINS ? l.table->longer_q16[c][s][bin] : 0;
        int64_t off = (int64_t)(share[bin] * 65536 / (KVL_GAP_ALIAS << KVL_GAP_ALIAS_BITS)) - (int64_t)(before - longer);
        worst = off > worst ? off : -off > worst ? -off : worst;
        before = longer;
      }
    }
  }
  ck_assert_int_le(worst, 8);
}
END_TEST

/* The score process: k distinct rows in order, sinks always, more of the recent rows. */
START_TEST(score_process)
{
  struct kvl_score_params params;
  kvl_score_preset(0, &params);
  ck_assert_double_eq_tol(params.var_static + params.var_a + params.var_b + params.var_white, 1, 1e-9);
  kvl_score_preset(3, &params);
  ck_assert_double_eq_tol(params.var_static + params.var_a + params.var_b + params.var_white, 1, 1e-9);
  params.block_corr = .6;
  struct kvl_score *score = kvl_score_create(&params, 64, 60, 4000, 0, 1);
  static int32_t row[64];
  uint32_t recent = 0, rows = 60;
  for (uint32_t step = 0; step < 200; step++) {
    rows += step < 10 ? 1 : 19;
    uint32_t n = kvl_score_step(score, step < 10 ? 1 : 19, row);
    check_rows(row, n, 64, rows);
    uint32_t ordered = 1;
    while (ordered < n && row[ordered - 1] < row[ordered]) {
      ordered++;
    }
    ck_assert_uint_eq(ordered, n);
    ck_assert_int_eq(row[3], 3);
    for (uint32_t i = 0; i < n && step >= 100; i++) {
      recent += (uint32_t)row[i] + 64 >= rows;
    }
  }
  ck_assert_uint_gt(recent, 64 * 100 * 64 / rows * 3); /* far more than their share of the rows */
  kvl_score_destroy(score);
  kvl_score_destroy(NULL);
}
END_TEST

/* Block correlation: the selected rows crowd into fewer blocks of 64. */
START_TEST(score_blocks)
{
  uint32_t blocks[2] = {0, 0};
  for (int correlated = 0; correlated < 2; correlated++) {
    struct kvl_score_params params;
    kvl_score_preset(0, &params);
    params.block_corr = correlated ? .6 : 0;
    struct kvl_score *score = kvl_score_create(&params, 256, 16384, 16384, 0, 4);
    static int32_t row[256];
    uint32_t n = kvl_score_step(score, 0, row);
    for (uint32_t i = 0; i < n; i++) {
      blocks[correlated] += i == 0 || row[i] / 64 != row[i - 1] / 64;
    }
    kvl_score_destroy(score);
  }
  ck_assert_uint_lt(blocks[1], blocks[0] * 9 / 10);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("selections");
  TCase *tcase = tcase_create("selections");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, every_preset_is_distinct_and_in_bounds, 0, KVL_PRESETS);
  tcase_add_loop_test(tcase, short_histories_grow, 0, 7);
  tcase_add_test(tcase, tokens_per_row);
  tcase_add_test(tcase, uneven_growth);
  tcase_add_loop_test(tcase, reproducible, 0, KVL_PRESETS);
  tcase_add_loop_test(tcase, shares, 0, 3);
  tcase_add_loop_test(tcase, queries_drift_apart, 0, 5);
  tcase_add_test(tcase, points_with_different_k);
  tcase_add_loop_test(tcase, queries_over_a_short_history, 0, 8);
  tcase_add_test(tcase, says_what_is_wrong);
  tcase_add_loop_test(tcase, memory, 0, KVL_PRESETS);
  tcase_add_loop_test(tcase, law, 0, KVL_PRESETS);
  tcase_add_test(tcase, score_process);
  tcase_add_test(tcase, score_blocks);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
