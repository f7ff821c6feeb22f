/* A library in memory hands out, row for row, what its generator does. */
#include <check.h>
#include <stdlib.h>

#include "traces/selection.h"

enum { INPUT = 20000, STEPS = 40, SESSIONS = 3 };

/* Two caches; the second is selected from three times, so that rows of neighbours overlap in memory. */
static const struct kvl_selection_shape shape = {
  .caches = 2,
  .tokens_per_row = {2, 1},
  .points = 4,
  .point = {{0, 2, 96}, {1, 5, 128}, {1, 9, 128}, {1, 13, 128}},
};

static struct kvl_selection_source *generator(void)
{
  struct kvl_selection_source *source;
  struct kvl_err err;
  ck_assert_int_eq(kvl_source_open_preset(&source, "hot-a", &shape, 7, &err), 0);
  return source;
}

START_TEST(same_rows_as_the_generator)
{
  struct kvl_selection_source *from = generator(), *library;
  struct kvl_err err;
  ck_assert_int_eq(kvl_source_open_library(&library, from, shape.points, SESSIONS, INPUT, STEPS, &err), 0);
  struct kvl_selection_stream *a = kvl_stream_create(from, INPUT + STEPS, 1), *b = kvl_stream_create(library, INPUT + STEPS, 1);
  ck_assert_ptr_nonnull(a);
  ck_assert_ptr_nonnull(b);
  for (uint64_t session = 0; session < 2 * SESSIONS; session++) { /* the second round replays the first */
    kvl_stream_start(a, session % SESSIONS, INPUT);
    kvl_stream_start(b, session, INPUT);
    for (uint32_t t = 0; t < STEPS; t++) {
      kvl_stream_step(a, INPUT + t, 1);
      kvl_stream_step(b, INPUT + t, 1);
      for (uint32_t p = 0; p < shape.points; p++) {
        const int32_t *x, *y;
        uint32_t n = kvl_stream_rows(a, p, 0, &x);
        ck_assert_uint_eq(kvl_stream_rows(b, p, 0, &y), n);
        ck_assert_uint_gt(n, 0);
        ck_assert_mem_eq(x, y, n * sizeof *x);
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
  ck_assert_int_lt(kvl_source_open_library(&library, from, shape.points, 0, INPUT, STEPS, &err), 0);
  ck_assert_ptr_null(library);
  kvl_source_close(from);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("library");
  TCase *t = tcase_create("library");
  tcase_add_test(t, same_rows_as_the_generator);
  tcase_add_test(t, nothing_to_keep_is_an_error);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
