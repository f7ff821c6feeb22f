/* A library in memory hands out, row for row, what its generator does. */
#include <check.h>
#include <stdlib.h>

#include "tests/base/tap.h"
#include "traces/selection.h"

enum { INPUT = 20000, STEPS = 40, SESSIONS = 3, QUERIES = 4, BLOCKS = 300 };

/* Two caches; the second is selected from three times, so that rows of neighbours overlap in memory, and has a pool. */
static const struct kvl_selection_shape shape = {
  .caches = 2,
  .tokens_per_row = {2, 1},
  .points = 4,
  .point = {{0, 2, 96}, {1, 5, 128}, {1, 9, 128}, {1, 13, 128}},
  .pool = {.point = 1, .blocks = BLOCKS, .rows_per_block = 8},
};

static struct kvl_selection_source *generator(void)
{
  struct kvl_selection_source *source;
  struct kvl_err err;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-a", &shape, 7, &err), 0);
  return source;
}

static void same(uint32_t got, const int32_t *rows, uint32_t wanted, const int32_t *from)
{
  ck_assert_uint_eq(got, wanted);
  ck_assert_uint_gt(got, 0);
  ck_assert_mem_eq(rows, from, got * sizeof *rows);
}

/* One token a step, or as many as drafts may be accepted: what is selected at a token is the same. */
START_TEST(same_rows_as_the_generator)
{
  const uint32_t most = _i == 0 ? 1 : QUERIES;
  struct kvl_selection_source *from = generator(), *library;
  struct kvl_err err;
  ck_assert_int_eq(kvl_source_open_library(&library, from, shape.points, SESSIONS, INPUT, STEPS, QUERIES, &err), 0);
  struct kvl_selection_stream *a = kvl_stream_create(from, INPUT + STEPS, QUERIES), *b = kvl_stream_create(library, INPUT + STEPS, QUERIES);
  ck_assert_ptr_nonnull(a);
  ck_assert_ptr_nonnull(b);
  for (uint64_t session = 0; session < 2 * SESSIONS; session++) { /* the second round replays the first */
    kvl_stream_start(a, session % SESSIONS, INPUT);
    kvl_stream_start(b, session, INPUT);
    for (uint32_t t = 0; t < STEPS; t += 1 + (t + (uint32_t)session) % most) {
      kvl_stream_step(a, INPUT + t, QUERIES);
      kvl_stream_step(b, INPUT + t, QUERIES);
      for (uint32_t q = 0; q < QUERIES; q++) {
        const int32_t *x, *y;
        for (uint32_t p = 0; p < shape.points; p++) {
          uint32_t n = kvl_stream_rows(a, p, q, &x), m = kvl_stream_rows(b, p, q, &y);
          same(m, y, n, x);
        }
        uint32_t n = kvl_stream_pool(a, q, &x), m = kvl_stream_pool(b, q, &y);
        same(m, y, n, x);
        ck_assert_uint_le(m, BLOCKS);
      }
    }
  }
  kvl_stream_destroy(a);
  kvl_stream_destroy(b);
  kvl_source_close(library);
  kvl_source_close(from);
}
END_TEST

START_TEST(nothing_to_keep_is_an_error)
{
  struct kvl_selection_source *from = generator(), *library;
  struct kvl_err err;
  ck_assert_int_lt(kvl_source_open_library(&library, from, shape.points, 0, INPUT, STEPS, 1, &err), 0);
  ck_assert_ptr_null(library);
  kvl_source_close(from);
}
END_TEST

int main(void)
{
  TCase *t = tcase_create("library");
  tcase_add_loop_test(t, same_rows_as_the_generator, 0, 2);
  tcase_add_test(t, nothing_to_keep_is_an_error);
  return kvl_tap_run_case("library", t);
}
