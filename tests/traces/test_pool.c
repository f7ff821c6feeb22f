/* Candidate pools: what must hold of generated ones, and what becomes of recorded ones when they are replayed. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/base/tap.h"
#include "traces/pool.h"
#include "traces/trace.h"

enum { INPUT = 60000, STEPS = 40, QUERIES = 4, BLOCKS = 512, PER_BLOCK = 8, K = 128 };

/* The announcing selection is the second from its cache; the first does not choose from the pool. */
static struct kvl_selection_shape shape(bool pool)
{
  struct kvl_selection_shape s = {.caches = 2, .tokens_per_row = {2, 1}, .points = 5, .point = {{0, 2, 64}, {1, 4, K}, {1, 5, K}, {1, 9, K}, {1, 13, K}}};
  if (pool) {
    s.pool.point = 2;
    s.pool.blocks = BLOCKS;
    s.pool.rows_per_block = PER_BLOCK;
  }
  return s;
}

static struct kvl_selection_source *preset(const char *name, bool pool)
{
  struct kvl_selection_shape s = shape(pool);
  struct kvl_selection_source *source;
  struct kvl_err err;
  ck_assert_int_eq(kvl_source_open_preset(&source, name, &s, 3, &err), 0);
  return source;
}

static bool has(const int32_t *blocks, uint32_t count, int32_t block)
{
  for (uint32_t i = 0; i < count; i++) {
    if (blocks[i] == block) {
      return true;
    }
  }
  return false;
}

static uint32_t uncovered(struct kvl_selection_stream *stream, uint32_t point, uint32_t query)
{
  const int32_t *rows, *blocks;
  uint32_t n = kvl_stream_rows(stream, point, query, &rows), count = kvl_stream_pool(stream, query, &blocks), missing = 0;
  for (uint32_t i = 0; i < n; i++) {
    missing += !has(blocks, count, rows[i] / PER_BLOCK);
  }
  return missing;
}

static void check_blocks(const int32_t *blocks, uint32_t count, uint32_t rows)
{
  uint32_t wrong = count > BLOCKS;
  for (uint32_t i = 0; i < count; i++) {
    wrong += blocks[i] < 0 || (uint32_t)blocks[i] * PER_BLOCK >= rows || (i > 0 && blocks[i] <= blocks[i - 1]);
  }
  ck_assert_uint_eq(wrong, 0);
}

/* Ascending, full, covering; the selections are what they are without pools; the queries of a step differ a little; pools change as they should. */
START_TEST(generated)
{
  static const char *const names[] = {"hot-a", "cold-a"};
  double kept[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    struct kvl_selection_source *with = preset(names[i], true), *without = preset(names[i], false);
    struct kvl_selection_stream *a = kvl_stream_create(with, INPUT + STEPS, QUERIES), *b = kvl_stream_create(without, INPUT + STEPS, QUERIES);
    static int32_t before[BLOCKS];
    const int32_t *blocks, *x, *y;
    uint32_t before_count = 0, missing = 0, differ = 0, different_rows = 0, all = 0;
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    kvl_stream_start(a, 5, INPUT);
    kvl_stream_start(b, 5, INPUT);
    for (uint32_t t = 0; t < STEPS; t++) {
      kvl_stream_step(a, INPUT + t, QUERIES);
      kvl_stream_step(b, INPUT + t, QUERIES);
      ck_assert_uint_eq(kvl_stream_pool(b, 0, &blocks), 0);
      for (uint32_t q = 0; q < QUERIES; q++) {
        uint32_t count = kvl_stream_pool(a, q, &blocks);
        check_blocks(blocks, count, INPUT + t + q);
        ck_assert_uint_gt(count, BLOCKS * 8 / 10); /* neighbours near the end share blocks */
        for (uint32_t p = 0; p < 5; p++) {
          uint32_t n = kvl_stream_rows(a, p, q, &x);
          ck_assert_uint_eq(kvl_stream_rows(b, p, q, &y), n);
          different_rows += memcmp(x, y, n * sizeof *x) != 0;
          missing += p >= 2 ? uncovered(a, p, q) : 0;
        }
        if (q > 0) {
          const int32_t *previous;
          uint32_t n = kvl_stream_pool(a, q - 1, &previous);
          count = kvl_stream_pool(a, q, &blocks);
          for (uint32_t k = 0; k < count; k++) {
            differ += !has(previous, n, blocks[k]);
          }
          all += count;
        }
      }
      uint32_t count = kvl_stream_pool(a, 0, &blocks), same = 0;
      for (uint32_t k = 0; k < count; k++) {
        same += has(before, before_count, blocks[k]);
      }
      kept[i] += t == 0 ? 0 : (double)same / count / (STEPS - 1);
      memcpy(before, blocks, count * sizeof *blocks);
      before_count = count;
    }
    ck_assert_uint_eq(missing, 0);
    ck_assert_uint_eq(different_rows, 0);
    ck_assert_uint_gt(differ, 0);
    ck_assert_uint_lt(differ, all / 20);
    kvl_stream_destroy(a);
    kvl_stream_destroy(b);
    kvl_source_close(with);
    kvl_source_close(without);
  }
  ck_assert_msg(kept[0] > .50 && kept[0] < .75, "%.3f", kept[0]); /* as the highest blocks of the score process: .59 at 500,000 rows */
  ck_assert_msg(kept[1] > .20 && kept[1] < kept[0] - .1, "%.3f", kept[1]);
}
END_TEST

/* A pool smaller than what is selected later still holds what the announcing layer selected. */
START_TEST(small_pool)
{
  struct kvl_selection_shape s = shape(true);
  struct kvl_selection_source *source;
  struct kvl_err err;
  s.pool.blocks = K;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-b", &s, 3, &err), 0);
  struct kvl_selection_stream *stream = kvl_stream_create(source, INPUT, 2);
  kvl_stream_start(stream, 0, 1000);
  for (uint32_t t = 0; t < STEPS; t++) {
    kvl_stream_step(stream, 1000 + t, 2);
    ck_assert_uint_eq(uncovered(stream, 2, 0) + uncovered(stream, 2, 1), 0);
  }
  kvl_stream_destroy(stream);
  kvl_source_close(source);
  s.pool.blocks = K - 1;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-b", &s, 3, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "does not hold"));
}
END_TEST

static const char file[] = "test_pool.kvt";

static struct kvl_trace_meta meta_of(bool pools)
{
  struct kvl_trace_meta meta;
  memset(&meta, 0, sizeof meta);
  meta.shape = shape(false);
  meta.pools = pools;
  meta.pool[0] = (struct kvl_trace_pool){.cache = 1, .layer = 5, .rows_per_block = PER_BLOCK, .blocks_max = BLOCKS};
  return meta;
}

/* A generated session of STEPS steps; `outside`: the last point's first row is moved out of the pool, as an engine's may be. */
static void record(bool pools, bool outside)
{
  struct kvl_trace_meta meta = meta_of(pools);
  struct kvl_selection_source *source = preset("hot-a", true);
  struct kvl_selection_stream *stream = kvl_stream_create(source, INPUT + STEPS, QUERIES);
  struct kvl_trace_writer *writer;
  struct kvl_trace_list list[5 * QUERIES], pool[QUERIES];
  static int32_t moved[QUERIES][K];
  uint32_t boundary[QUERIES], id;
  struct kvl_err err;
  ck_assert_int_eq(kvl_trace_writer_create(&writer, file, &meta, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_begin(writer, INPUT, &id, &err), 0);
  kvl_stream_start(stream, 0, INPUT);
  for (uint32_t t = 0; t < STEPS; t++) {
    kvl_stream_step(stream, INPUT + t, QUERIES);
    for (uint32_t q = 0; q < QUERIES; q++) {
      boundary[q] = INPUT + t + q;
      pool[q].count = kvl_stream_pool(stream, q, &pool[q].item);
      for (uint32_t p = 0; p < 5; p++) {
        list[p * QUERIES + q].count = kvl_stream_rows(stream, p, q, &list[p * QUERIES + q].item);
      }
      if (outside) {
        int32_t block = 4000; /* far from either end, wherever that is */
        for (; has(pool[q].item, pool[q].count, block); block++) {
        }
        memcpy(moved[q], list[4 * QUERIES + q].item, K * sizeof **moved);
        moved[q][0] = block * PER_BLOCK + 3;
        list[4 * QUERIES + q].item = moved[q];
      }
    }
    struct kvl_trace_step step = {.tokens = INPUT + t, .queries = QUERIES, .boundary = boundary, .selected = list, .pool = pools ? pool : NULL};
    ck_assert_msg(kvl_trace_writer_step(writer, id, &step, &err) == 0, "%s", err.text);
  }
  ck_assert_int_eq(kvl_trace_writer_finish(writer, &err), 0);
  kvl_stream_destroy(stream);
  kvl_source_close(source);
}

/* Wherever the history ends: what was selected from the pool is selected from the replayed pool, what was not is not, and most blocks come along. */
START_TEST(replayed)
{
  static const uint32_t inputs[] = {INPUT, INPUT - 8, INPUT + 3, INPUT - 5, 40001};
  for (int outside = 0; outside < 2; outside++) {
    record(true, outside);
    for (unsigned i = 0; i < sizeof inputs / sizeof *inputs; i++) {
      struct kvl_selection_shape s = shape(true);
      struct kvl_selection_source *source;
      struct kvl_err err;
      ck_assert_msg(kvl_source_open_trace(&source, file, &s, 9, &err) == 0, "%s", err.text);
      struct kvl_selection_stream *stream = kvl_stream_create(source, INPUT + 200, QUERIES);
      kvl_stream_start(stream, 0, inputs[i]);
      uint32_t missing = 0, left_out = 0, blocks_all = 0;
      for (uint32_t t = 0; t < 2 * STEPS; t++) { /* past the recording's end, too */
        kvl_stream_step(stream, inputs[i] + t, QUERIES);
        for (uint32_t q = 0; q < QUERIES; q++) {
          const int32_t *blocks;
          uint32_t count = kvl_stream_pool(stream, q, &blocks);
          check_blocks(blocks, count, inputs[i] + t);
          blocks_all += count;
          missing += uncovered(stream, 2, q) + uncovered(stream, 3, q);
          left_out += uncovered(stream, 4, q);
        }
      }
      ck_assert_uint_eq(missing, 0);
      ck_assert_uint_ge(left_out, outside ? 2 * STEPS * QUERIES * 3 / 4 : 0);
      ck_assert_uint_le(left_out, outside ? 2 * STEPS * QUERIES : 0);
      ck_assert_uint_gt(blocks_all, 2 * STEPS * QUERIES * BLOCKS / 2);
      kvl_stream_destroy(stream);
      kvl_source_close(source);
    }
  }
  ck_assert_int_eq(unlink(file), 0);
}
END_TEST

static void refused(struct kvl_selection_shape s, const char *says)
{
  struct kvl_selection_source *source;
  struct kvl_err err;
  ck_assert_int_eq(kvl_source_open_trace(&source, file, &s, 9, &err), -EINVAL);
  ck_assert_msg(strstr(err.text, says) != NULL, "\"%s\" does not say \"%s\"", err.text, says);
}

START_TEST(traces_without_the_pool)
{
  struct kvl_selection_shape s = shape(true);
  struct kvl_selection_source *source;
  struct kvl_err err;
  record(false, false);
  refused(s, "no candidate pools for cache 1, announced at layer 5");
  record(true, false);
  s.pool.rows_per_block = 4;
  refused(s, "pools of up to 512 blocks of 8 rows, the model's are 512 blocks of 4");
  s = shape(true);
  s.pool.blocks = 511;
  refused(s, "511 blocks of 8");
  s.pool.point = 3;
  refused(s, "announced at layer 9");
  s = shape(false); /* nobody asks for pools: they are not in the way */
  ck_assert_int_eq(kvl_source_open_trace(&source, file, &s, 9, &err), 0);
  kvl_source_close(source);
  ck_assert_int_eq(unlink(file), 0);
}
END_TEST

START_TEST(a_set_of_blocks)
{
  struct kvl_pool pool;
  int32_t out[3];
  const int32_t rows[] = {70, -1, 8, 71, 640, 0};
  ck_assert_int_eq(kvl_pool_init(&pool, 640, 3, 8), 0);
  kvl_pool_add_rows(&pool, rows, 6);
  kvl_pool_add_block(&pool, 5); /* full */
  kvl_pool_add_block(&pool, -1);
  kvl_pool_add_block(&pool, 1 << 20);
  ck_assert_uint_eq(kvl_pool_take(&pool, out), 3);
  ck_assert(out[0] == 1 && out[1] == 8 && out[2] == 80);
  ck_assert_uint_eq(kvl_pool_take(&pool, out), 0);
  kvl_pool_add_block(&pool, 79);
  ck_assert_uint_eq(kvl_pool_take(&pool, out), 1);
  ck_assert_int_eq(out[0], 79);
  kvl_pool_deinit(&pool);
}
END_TEST

KVL_TAP_MAIN("pools", generated, small_pool, replayed, traces_without_the_pool, a_set_of_blocks)
