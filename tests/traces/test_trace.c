/* Selection traces: what is written comes back; what may not be written is refused in words. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#define GOLDEN_DIGEST UINT64_C(12648565832105362935) /* of seed 3, pools, 4 sessions */

#include "test_util.h"
#include "trace_make.h"

static struct made_step made;

static void write_made(const char *path, uint64_t seed, bool pools, uint32_t sessions)
{
  struct kvl_trace_meta meta = made_meta(seed, pools);
  struct kvl_err err = {""};
  int code = make_trace(path, &meta, seed, sessions, &err);
  ck_assert_msg(code == 0, "%s", err.text);
}

static struct kvl_trace *open_good(const char *path)
{
  struct kvl_trace *trace = NULL;
  struct kvl_err err = {""};
  int code = kvl_trace_open(&trace, path, &err);
  ck_assert_msg(code == 0, "%s", err.text);
  return trace;
}

START_TEST(round_trip)
{
  const char *path = temp_name("round.kvt");
  uint64_t seed = 1000 + (uint64_t)_i;
  struct kvl_trace_meta meta = made_meta(seed, _i % 2);
  struct kvl_trace_step step;
  struct kvl_trace *trace;
  struct kvl_err err = {""};
  uint32_t session, index, sessions = 1 + (uint32_t)_i % 7, steps = 0;
  write_made(path, seed, _i % 2, sessions);
  trace = open_good(path);
  ck_assert_int_eq(memcmp(&meta, kvl_trace_meta_of(trace), sizeof(meta)), 0);
  for (uint32_t s = 0; s < sessions; s++) {
    ck_assert_uint_eq(kvl_trace_session_of(trace, s)->input_tokens, made_input(seed, s));
    ck_assert_uint_eq(kvl_trace_session_of(trace, s)->steps, made_steps(seed, s));
    for (uint32_t i = 0; i < made_steps(seed, s); i++, steps++) {
      ck_assert_msg(kvl_trace_next(trace, &step, &session, &index, &err) == 1, "%s", err.text);
      ck_assert_uint_eq(session, s);
      ck_assert_uint_eq(index, i);
      make_step(&made, &meta, seed, s, i);
      ck_assert(same_step(&meta, &step, &made.step));
    }
  }
  ck_assert_int_eq(kvl_trace_next(trace, &step, &session, &index, &err), 0);
  ck_assert_ptr_null(kvl_trace_session_of(trace, sessions));
  struct kvl_trace_totals totals;
  kvl_trace_totals_of(trace, &totals);
  ck_assert_uint_eq(totals.sessions, sessions);
  ck_assert_uint_eq(totals.steps, steps);
  kvl_trace_close(trace);
  unlink(path);
}
END_TEST

START_TEST(seek)
{
  const char *path = temp_name("seek.kvt");
  uint64_t seed = 5;
  struct kvl_trace_meta meta = made_meta(seed, true);
  struct kvl_trace_step step;
  struct kvl_trace *trace;
  struct kvl_err err = {""};
  struct kvl_rng rng;
  write_made(path, seed, true, 9);
  trace = open_good(path);
  kvl_rng_init(&rng, 1, "seek", 0);
  for (unsigned n = 0; n < 500; n++) {
    uint32_t s = kvl_rng_below(&rng, 9), i = kvl_rng_below(&rng, made_steps(seed, s)), session, index;
    ck_assert_int_eq(kvl_trace_seek(trace, s, i, &err), 0);
    ck_assert_int_eq(kvl_trace_next(trace, &step, &session, &index, &err), 1);
    ck_assert_uint_eq(session, s);
    ck_assert_uint_eq(index, i);
    make_step(&made, &meta, seed, s, i);
    ck_assert(same_step(&meta, &step, &made.step));
  }
  ck_assert_int_eq(kvl_trace_seek(trace, 9, 0, &err), -ERANGE);
  ck_assert_ptr_nonnull(strstr(err.text, "there is no session 9; the last is 8"));
  ck_assert_int_eq(kvl_trace_seek(trace, 3, 1000, &err), -ERANGE);
  ck_assert_ptr_nonnull(strstr(err.text, "there is no step 1000 in session 3; the last is "));
  kvl_trace_close(trace);
  unlink(path);
}
END_TEST

/* Many chunks a session: 600 steps of 3,000 rows. */
START_TEST(many_chunks)
{
  enum { K = 3000, STEPS = 600, ROWS = 100000 };
  const char *path = temp_name("chunks.kvt");
  struct kvl_trace_meta meta;
  struct kvl_trace_writer *writer;
  struct kvl_trace *trace;
  struct kvl_trace_totals totals;
  struct kvl_err err = {""};
  int32_t *row = malloc(K * sizeof(*row));
  struct kvl_trace_list list = {row, K};
  struct kvl_trace_step step = {.queries = 1, .selected = &list}, got;
  uint32_t id, session, index;

  memset(&meta, 0, sizeof(meta));
  meta.shape.caches = meta.shape.points = 1;
  meta.shape.tokens_per_row[0] = 1;
  meta.shape.point[0].k = K;
  ck_assert_int_eq(kvl_trace_writer_create(&writer, path, &meta, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_begin(writer, ROWS, &id, &err), 0);
  for (uint32_t s = 0; s < STEPS; s++) {
    for (int32_t i = 0; i < K; i++)
      row[i] = i * 33 + (int32_t)((uint32_t)i * s % 33);
    step.tokens = ROWS + s;
    ck_assert_int_eq(kvl_trace_writer_step(writer, id, &step, &err), 0);
  }
  ck_assert_int_eq(kvl_trace_writer_finish(writer, &err), 0);
  trace = open_good(path);
  kvl_trace_totals_of(trace, &totals);
  ck_assert_uint_eq(totals.items, (uint64_t)K * STEPS);
  ck_assert_uint_ge(totals.chunks, STEPS * K / (1 << 18));
  ck_assert_uint_lt(totals.file_bytes, (uint64_t)K * STEPS * 4);
  for (uint32_t s = 0; s < STEPS; s++) {
    ck_assert_int_eq(kvl_trace_next(trace, &got, &session, &index, &err), 1);
    for (int32_t i = 0; i < K; i++)
      row[i] = i * 33 + (int32_t)((uint32_t)i * s % 33);
    ck_assert(same_lists(got.selected, &list, 1));
  }
  ck_assert_int_eq(kvl_trace_seek(trace, 0, 599, &err), 0);
  ck_assert_int_eq(kvl_trace_next(trace, &got, &session, &index, &err), 1);
  ck_assert_uint_eq(got.tokens, ROWS + 599);
  kvl_trace_close(trace);
  free(row);
  unlink(path);
}
END_TEST

START_TEST(digest)
{
  const char *path = temp_name("digest.kvt");
  struct kvl_trace *trace;
  struct kvl_err err = {""};
  uint64_t first, second, other;
  write_made(path, 3, true, 4);
  trace = open_good(path);
  ck_assert_int_eq(kvl_trace_check(trace, &first, &err), 0);
  ck_assert_int_eq(kvl_trace_check(trace, &second, &err), 0);
  ck_assert_int_eq(kvl_trace_check_sums(trace, &err), 0);
  ck_assert_uint_eq(first, second);
  ck_assert_uint_eq(first, GOLDEN_DIGEST);
  kvl_trace_close(trace);
  write_made(path, 4, true, 4);
  trace = open_good(path);
  ck_assert_int_eq(kvl_trace_check(trace, &other, &err), 0);
  ck_assert_uint_ne(first, other);
  kvl_trace_close(trace);
  unlink(path);
}
END_TEST

/* ---- what a writer refuses ---- */

struct refusal {
  const char *says;
  void (*spoil)(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row);
};

static void too_many(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)step;
  (void)row;
  list[0].count = 8;
}

static void negative(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)step;
  (void)list;
  row[2] = -1;
}

static void future(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)step;
  (void)list;
  row[3] = 50; /* 101 tokens, 2 a row: 0 to 49 */
}

static void twice(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)step;
  (void)list;
  row[3] = row[1];
}

static void no_queries(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)list;
  (void)row;
  step->queries = 0;
}

static void many_queries(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)list;
  (void)row;
  step->queries = KVL_TRACE_QUERIES_MAX + 1;
}

static void fewer_tokens(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)list;
  (void)row;
  step->tokens = 99;
}

static void endless_tokens(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)list;
  (void)row;
  step->tokens = UINT32_MAX;
}

static void low_boundary(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  static const uint32_t boundary = 100;
  (void)list;
  (void)row;
  step->boundary = &boundary;
}

static void unannounced_pool(struct kvl_trace_step *step, struct kvl_trace_list *list, int32_t *row)
{
  (void)row;
  step->pool = list;
}

static const struct refusal refusals[] = {
  {"point 0, query 0: 8 items, at most 7 are possible", too_many},
  {"point 0, query 0: item 2 is -1, the query sees 50", negative},
  {"point 0, query 0: item 3 is 50, the query sees 50", future},
  {"point 0, query 0: item 11 is there twice", twice},
  {"a step without queries", no_queries},
  {"more queries than a step may have", many_queries},
  {"99 committed tokens, 100 before", fewer_tokens},
  {"more committed tokens than a session may have", endless_tokens},
  {"a query's boundary is below the committed tokens", low_boundary},
  {"candidate pools in a trace that has none", unannounced_pool},
};

START_TEST(refuses_bad_steps)
{
  const char *path = temp_name("refuse.kvt");
  struct kvl_trace_meta meta = made_meta(1, false);
  struct kvl_trace_writer *writer;
  struct kvl_err err = {""};
  struct kvl_trace_list list[3];
  struct kvl_trace_step step = {.tokens = 101, .queries = 1, .selected = list};
  int32_t row[8] = {10, 11, 12, 13, 14, 15, 16, 17};
  uint32_t id;
  for (unsigned i = 0; i < 3; i++)
    list[i] = (struct kvl_trace_list){row, 4};
  ck_assert_int_eq(kvl_trace_writer_create(&writer, path, &meta, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_begin(writer, 100, &id, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_step(writer, id, &step, &err), 0);
  step.tokens = 101;
  refusals[_i].spoil(&step, list, row);
  if (step.tokens == 99) /* below the session's last: the first step had 101 */
    ck_assert_int_eq(kvl_trace_writer_begin(writer, 100, &id, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_step(writer, id, &step, &err), -EINVAL);
  ck_assert_msg(strstr(err.text, refusals[_i].says) != NULL, "'%s' lacks '%s'", err.text, refusals[_i].says);
  ck_assert_int_ne(kvl_trace_writer_step(writer, id, &step, &err), 0); /* and nothing more is taken */
  ck_assert_int_ne(kvl_trace_writer_finish(writer, &err), 0);
  ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(refuses_bad_shapes)
{
  const char *path = temp_name("shape.kvt");
  struct kvl_trace_writer *writer;
  struct kvl_err err = {""};
  for (unsigned n = 0; n < 9; n++) {
    struct kvl_trace_meta meta = made_meta(1, true);
    switch (n) {
    case 0: meta.shape.caches = 0; break;
    case 1: meta.shape.points = KVL_POINTS_MAX + 1; break;
    case 2: meta.shape.point[1].cache = 2; break;
    case 3: meta.shape.point[1].k = 0; break;
    case 4: meta.shape.tokens_per_row[0] = 0; break;
    case 5: meta.pool[0].rows_per_block = 0; break;
    case 6: meta.pool[0].cache = 9; break;
    case 7: meta.shape.point[2].layer = 1; break;
    default: memset(meta.model, 'x', sizeof(meta.model)); break;
    }
    ck_assert_int_eq(kvl_trace_writer_create(&writer, path, &meta, &err), -EINVAL);
    ck_assert_ptr_null(writer);
  }
}
END_TEST

START_TEST(refuses_empty_traces)
{
  const char *path = temp_name("empty.kvt");
  struct kvl_trace_meta meta = made_meta(1, false);
  struct kvl_trace_writer *writer;
  struct kvl_err err = {""};
  uint32_t id;
  ck_assert_int_eq(kvl_trace_writer_create(&writer, path, &meta, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_finish(writer, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "a trace without sessions"));
  ck_assert_int_eq(kvl_trace_writer_create(&writer, path, &meta, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_begin(writer, 5, &id, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_finish(writer, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "a session without steps"));
  kvl_trace_writer_abort(NULL);
  kvl_trace_close(NULL);
}
END_TEST

START_TEST(shapes_compared)
{
  struct kvl_trace_meta a = made_meta(1, false), b = a;
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_trace_same_shape(&a.shape, &b.shape, &err), 0);
  b.shape.point[1].k = 34;
  ck_assert_int_eq(kvl_trace_same_shape(&a.shape, &b.shape, &err), -EINVAL);
  ck_assert_str_eq(err.text, "point 1 selects 33 rows in the trace, 34 in the model");
  b = a;
  b.shape.tokens_per_row[0] = 4;
  ck_assert_int_eq(kvl_trace_same_shape(&a.shape, &b.shape, &err), -EINVAL);
  ck_assert_str_eq(err.text, "cache 0 has 2 tokens a row in the trace, 4 in the model");
  b = a;
  b.shape.points = 2;
  ck_assert_int_eq(kvl_trace_same_shape(&a.shape, &b.shape, &err), -EINVAL);
  b = a;
  b.shape.point[2].layer = 25;
  ck_assert_int_eq(kvl_trace_same_shape(&a.shape, &b.shape, &err), -EINVAL);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("trace");
  TCase *tcase = tcase_create("trace");
  tcase_set_timeout(tcase, 120);
  tcase_add_loop_test(tcase, round_trip, 0, 12);
  tcase_add_test(tcase, seek);
  tcase_add_test(tcase, many_chunks);
  tcase_add_test(tcase, digest);
  tcase_add_loop_test(tcase, refuses_bad_steps, 0, (int)(sizeof(refusals) / sizeof(refusals[0])));
  tcase_add_test(tcase, refuses_bad_shapes);
  tcase_add_test(tcase, refuses_empty_traces);
  tcase_add_test(tcase, shapes_compared);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
