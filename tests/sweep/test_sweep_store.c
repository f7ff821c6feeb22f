/* Sweeps in a store: who may work on what, each task once, merging, tables. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "results/sweep.h"
#include "results/validation.h"
#include "tests/base/tap.h"
#include "tests/results/fixture.h"

static const char *const keys[] = {"policy.hot_rows", "mode"};
static const char *const values[] = {"512", "\"fixed\"", "1024", "\"fixed\"", "2048", NULL};
static const struct kvl_sweep_plan plan = {.name = "three", .note = "", .scenario = "s", .hash = "0123456789abcdef", .build = "b", .command = "c",
                                           .key = keys, .keys = 2, .value = values, .points = 3, .repeats = 2};
static const struct kvl_sweep_share all = {0, 1};

static struct kvl_store *open_store(const char *name, struct kvl_err *err)
{
  struct kvl_store *store = NULL;
  struct kvl_store_options options = {.busy_ms = 1000};
  ck_assert_msg(kvl_store_open_with(&store, fixture_path(name), &options, err) == 0, "%s", err->text);
  return store;
}

static int64_t begin(struct kvl_store *store, const struct kvl_sweep_share *share)
{
  int64_t sweep;
  uint32_t others;
  struct kvl_err err = {""};
  ck_assert_msg(kvl_store_sweep_begin(store, &plan, share, 0, &sweep, &others, &err) == 0, "%s", err.text);
  return sweep;
}

/* A store with one run, as a task's child leaves it. */
static void make_run(const char *name, uint64_t seed)
{
  struct kvl_err err = {""};
  struct fixture f = {.seed = seed, .requests = 5, .samples = 3, .points = 2, .moves = 1};
  int64_t run;
  struct kvl_store *store = open_store(name, &err);
  ck_assert_msg(fixture_write(store, &f, KVL_RUN_COMPLETE, &run, &err) == 0, "%s", err.text);
  kvl_store_close(store);
}

static int add(struct kvl_store *store, int64_t sweep, uint32_t task, const char *reason, uint64_t run_seed, struct kvl_err *err)
{
  char name[32], path[512];
  if (run_seed != 0) {
    (void)snprintf(name, sizeof name, "t%u-%u.db", (unsigned)task, (unsigned)run_seed);
    (void)snprintf(path, sizeof path, "%s", fixture_path(name));
    if (access(path, F_OK) != 0) {
      make_run(name, run_seed);
    }
  }
  struct kvl_task_result r = {.task = task, .point = task / 2, .repeat = task % 2, .seed = 100 + task, .reason = reason, .from = run_seed != 0 ? path : NULL};
  return kvl_store_sweep_add(store, sweep, &all, &r, err);
}

static uint32_t count_runs(struct kvl_store *store)
{
  struct kvl_run_list list;
  ck_assert_int_eq(kvl_store_list(store, &list, NULL), 0);
  uint32_t count = list.count;
  kvl_run_list_free(&list);
  return count;
}

static char *export(struct kvl_store *store)
{
  struct kvl_sweep_list list;
  struct kvl_sweep_table table;
  struct kvl_err err = {""};
  char *text = NULL;
  size_t size = 0;
  ck_assert_msg(kvl_store_sweeps(store, &list, &err) == 0, "%s", err.text);
  ck_assert_uint_eq(list.count, 1);
  ck_assert_int_eq(kvl_sweep_table_read(store, &list.sweep[0], &table, &err), 0);
  FILE *out = open_memstream(&text, &size);
  ck_assert_int_eq(kvl_sweep_write_tasks(out, KVL_FORMAT_TSV, &table), 0);
  (void)fclose(out);
  kvl_sweep_table_free(&table);
  kvl_sweep_list_free(&list);
  return text;
}

START_TEST(a_task_is_stored_once_with_its_run)
{
  struct kvl_err err = {""};
  fixture_folder_make();
  struct kvl_store *store = open_store("a.db", &err);
  int64_t sweep = begin(store, &all);
  uint8_t state[6];
  ck_assert_int_eq(add(store, sweep, 0, NULL, 11, &err), 0);
  ck_assert_int_eq(add(store, sweep, 3, "it would not", 0, &err), 0);
  ck_assert_int_eq(add(store, sweep, 4, "in the middle", 12, &err), 0);
  ck_assert_uint_eq(count_runs(store), 2);
  ck_assert_int_eq(add(store, sweep, 0, NULL, 11, &err), 0); /* again: nothing is done */
  ck_assert_uint_eq(count_runs(store), 2);
  ck_assert_int_eq(kvl_store_sweep_states(store, sweep, state, 6, &err), 0);
  const uint8_t want[6] = {KVL_TASK_COMPLETE, KVL_TASK_MISSING, KVL_TASK_MISSING, KVL_TASK_FAILED, KVL_TASK_FAILED, KVL_TASK_MISSING};
  ck_assert_mem_eq(state, want, sizeof want);
  /* the run came with everything that belongs to it */
  struct fixture f = {.seed = 11, .requests = 5, .samples = 3, .points = 2, .moves = 1};
  ck_assert_msg(fixture_check(store, 1, &f, &err) == 0, "%s", err.text);
  uint32_t forgotten;
  ck_assert_int_eq(kvl_store_sweep_forget_failed(store, sweep, &all, &forgotten, &err), 0);
  ck_assert_uint_eq(forgotten, 2);
  ck_assert_uint_eq(count_runs(store), 1);
  ck_assert_int_eq(kvl_store_sweep_end(store, sweep, &all, &err), 0);
  ck_assert_int_eq(kvl_store_check(store, &err), 0);
  kvl_store_close(store);
  fixture_folder_remove();
}
END_TEST

START_TEST(summary_only_leaves_records_out)
{
  struct kvl_err err = {""};
  char path[512];
  fixture_folder_make();
  make_run("one.db", 5);
  (void)snprintf(path, sizeof path, "%s", fixture_path("one.db"));
  struct kvl_store *store = open_store("a.db", &err);
  int64_t sweep = begin(store, &all);
  struct kvl_task_result r = {.task = 1, .point = 0, .repeat = 1, .from = path, .summary_only = 1};
  ck_assert_msg(kvl_store_sweep_add(store, sweep, &all, &r, &err) == 0, "%s", err.text);
  struct kvl_run_rows rows;
  ck_assert_int_eq(kvl_store_rows(store, 1, &rows, &err), 0);
  ck_assert_uint_eq(rows.requests + rows.samples + rows.points + rows.moves, 0);
  struct kvl_run_list list;
  ck_assert_int_eq(kvl_store_list(store, &list, &err), 0);
  ck_assert_int_eq(list.run[0].has_summary, 1);
  kvl_run_list_free(&list);
  kvl_store_close(store);
  fixture_folder_remove();
}
END_TEST

/* A process that takes the share and lives until it is told to end; then ends without giving it back, as a killed one does. */
static pid_t owner(const char *path, const struct kvl_sweep_share *share, int *tell)
{
  int ready[2], end[2];
  char byte = 0;
  ck_assert(pipe(ready) == 0 && pipe(end) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    struct kvl_store *store = NULL;
    int64_t sweep;
    uint32_t others;
    (void)close(end[1]);
    int rc = kvl_store_open(&store, path, NULL);
    rc = rc != 0 ? rc : kvl_store_sweep_begin(store, &plan, share, 0, &sweep, &others, NULL);
    kvl_store_close(store);
    byte = rc == 0;
    (void)!write(ready[1], &byte, 1);
    (void)!read(end[0], &byte, 1);
    _exit(0);
  }
  (void)close(end[0]);
  ck_assert_int_eq((int)read(ready[0], &byte, 1), 1);
  ck_assert_int_eq(byte, 1);
  (void)close(ready[0]);
  (void)close(ready[1]);
  *tell = end[1];
  return pid;
}

START_TEST(a_live_owner_refuses_what_meets_its_share)
{
  struct kvl_err err = {""};
  int64_t sweep;
  uint32_t others;
  int tell;
  fixture_folder_make();
  char path[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("a.db"));
  const struct kvl_sweep_share first = {0, 2}, second = {1, 2}, third_of_four = {2, 4}, second_of_four = {1, 4};
  pid_t pid = owner(path, &first, &tell);
  struct kvl_store *store = open_store("a.db", &err);
  ck_assert_int_eq(kvl_store_sweep_begin(store, &plan, &all, 0, &sweep, &others, &err), -EBUSY);
  ck_assert_ptr_nonnull(strstr(err.text, "works on this sweep"));
  ck_assert_int_eq(kvl_store_sweep_begin(store, &plan, &first, 1, &sweep, &others, &err), -EBUSY); /* who is seen to live is not taken over */
  ck_assert_int_eq(kvl_store_sweep_begin(store, &plan, &third_of_four, 0, &sweep, &others, &err), -EBUSY);
  ck_assert_int_eq(kvl_store_sweep_begin(store, &plan, &second_of_four, 0, &sweep, &others, &err), 0);
  ck_assert_int_eq(kvl_store_sweep_end(store, sweep, &second_of_four, &err), 0);
  ck_assert_int_eq(kvl_store_sweep_begin(store, &plan, &second, 0, &sweep, &others, &err), 0);
  ck_assert_int_eq(kvl_store_sweep_end(store, sweep, &second, &err), 0);
  (void)close(tell);
  ck_assert_int_eq((int)waitpid(pid, NULL, 0), (int)pid);
  ck_assert_int_eq(kvl_store_sweep_begin(store, &plan, &all, 0, &sweep, &others, &err), 0); /* the dead do not */
  kvl_store_close(store);
  fixture_folder_remove();
}
END_TEST

START_TEST(who_lost_its_share_stores_nothing_more)
{
  struct kvl_err err = {""};
  int64_t sweep;
  fixture_folder_make();
  struct kvl_store *store = open_store("a.db", &err);
  sweep = begin(store, &all);
  ck_assert_int_eq(kvl_store_sweep_end(store, sweep, &all, &err), 0);
  ck_assert_int_eq(add(store, sweep, 0, NULL, 11, &err), -EBUSY);
  ck_assert_ptr_nonnull(strstr(err.text, "took this sweep over"));
  ck_assert_uint_eq(count_runs(store), 0);
  kvl_store_close(store);
  fixture_folder_remove();
}
END_TEST

START_TEST(merging_is_the_same_in_any_order_and_again)
{
  struct kvl_err err = {""};
  char a[512], b[512];
  struct kvl_merge_count count = {0};
  fixture_folder_make();
  (void)snprintf(a, sizeof a, "%s", fixture_path("a.db"));
  (void)snprintf(b, sizeof b, "%s", fixture_path("b.db"));
  struct kvl_store *whole = open_store("whole.db", &err), *one = open_store("a.db", &err), *two = open_store("b.db", &err);
  int64_t sweep = begin(whole, &all), in_one = begin(one, &all), in_two = begin(two, &all);
  for (uint32_t t = 0; t < 6; t++) {
    const char *reason = t == 5 ? "a reason" : NULL;
    ck_assert_msg(add(whole, sweep, t, reason, t == 5 ? 0 : 20 + t, &err) == 0, "%s", err.text);
    ck_assert_msg(add(t % 2 == 0 ? one : two, t % 2 == 0 ? in_one : in_two, t, reason, t == 5 ? 0 : 20 + t, &err) == 0, "%s", err.text);
  }
  kvl_store_close(one);
  kvl_store_close(two);
  make_run("b.db", 77); /* a run of no sweep comes along */
  struct kvl_validation *v = calloc(1, sizeof *v);
  kvl_validation_add(v, "steps", "step_ms", "ms")->measured = 12.5;
  two = open_store("b.db", &err);
  ck_assert_msg(kvl_store_validation(two, 3, v, &err) == 0, "%s", err.text); /* a table that only this store has */
  kvl_store_close(two);
  char *want = export(whole);
  struct kvl_store *ab = open_store("ab.db", &err), *ba = open_store("ba.db", &err);
  ck_assert_msg(kvl_store_merge(ab, a, &count, &err) == 0 && kvl_store_merge(ab, b, &count, &err) == 0, "%s", err.text);
  ck_assert_uint_eq(count.runs, 6);
  ck_assert_uint_eq(count.tasks, 6);
  ck_assert_msg(kvl_store_merge(ab, a, &count, &err) == 0 && kvl_store_merge(ab, b, &count, &err) == 0, "%s", err.text);
  ck_assert_uint_eq(count.runs, 6);
  ck_assert_uint_eq(count.runs_there, 6);
  ck_assert_uint_eq(count_runs(ab), 6);
  ck_assert_msg(kvl_store_merge(ba, b, &count, &err) == 0 && kvl_store_merge(ba, a, &count, &err) == 0, "%s", err.text);
  char *got_ab = export(ab), *got_ba = export(ba);
  ck_assert_str_eq(got_ab, want);
  ck_assert_str_eq(got_ba, want);
  ck_assert_int_eq(kvl_store_check(ab, &err), 0);
  uint32_t validated = 0;
  for (int64_t run = 1; run <= 6; run++) {
    validated += kvl_store_read_validation(ab, run, v, &err) == 0 && v->count == 1 && v->row[0].measured > 12.4;
  }
  ck_assert_uint_eq(validated, 1);
  free(v);
  free(want);
  free(got_ab);
  free(got_ba);
  ck_assert_int_eq(kvl_store_merge(ab, fixture_path("ab.db"), &count, &err), -EINVAL);
  ck_assert_int_eq(kvl_store_merge(ab, fixture_path("none.db"), &count, &err), -ENOENT);
  kvl_store_close(whole);
  kvl_store_close(ab);
  kvl_store_close(ba);
  fixture_folder_remove();
}
END_TEST

START_TEST(results_that_differ_are_not_merged)
{
  struct kvl_err err = {""};
  char b[512];
  struct kvl_merge_count count = {0};
  fixture_folder_make();
  (void)snprintf(b, sizeof b, "%s", fixture_path("b.db"));
  struct kvl_store *one = open_store("a.db", &err), *two = open_store("b.db", &err);
  int64_t in_one = begin(one, &all), in_two = begin(two, &all);
  ck_assert_int_eq(add(one, in_one, 0, NULL, 31, &err), 0);
  ck_assert_int_eq(add(one, in_one, 2, "failed here", 0, &err), 0);
  ck_assert_int_eq(add(two, in_two, 1, NULL, 33, &err), 0);
  ck_assert_int_eq(add(two, in_two, 2, NULL, 34, &err), 0);
  ck_assert_msg(kvl_store_merge(one, b, &count, &err) == 0, "%s", err.text);
  ck_assert_uint_eq(count.tasks_replaced, 1); /* complete is better than failed */
  ck_assert_uint_eq(count_runs(one), 3);
  ck_assert_int_eq(add(two, in_two, 0, NULL, 32, &err), 0); /* another result of task 1 */
  char *before = export(one), *after;
  ck_assert_int_eq(kvl_store_merge(one, b, &count, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "task 1 of the same sweep"));
  after = export(one);
  ck_assert_str_eq(before, after);
  free(before);
  free(after);
  kvl_store_close(one);
  kvl_store_close(two);
  fixture_folder_remove();
}
END_TEST

START_TEST(tables_have_means_and_intervals)
{
  struct kvl_err err = {""};
  struct kvl_sweep_list list;
  struct kvl_sweep_table table;
  uint32_t metric, point[3], count, key;
  fixture_folder_make();
  struct kvl_store *store = open_store("a.db", &err);
  int64_t sweep = begin(store, &all);
  ck_assert_int_eq(add(store, sweep, 0, NULL, 41, &err), 0);
  ck_assert_int_eq(add(store, sweep, 1, NULL, 42, &err), 0);
  ck_assert_int_eq(kvl_store_sweeps(store, &list, &err), 0);
  ck_assert_int_eq(list.sweep[0].running, 1);
  ck_assert_int_eq(kvl_sweep_table_read(store, &list.sweep[0], &table, &err), 0);
  ck_assert_int_eq(kvl_sweep_metric("output_throughput_tok_per_s", &metric, &err), 0);
  struct kvl_summary a = fixture_summary(41), b = fixture_summary(42);
  double x = a.output_throughput_tok_per_s, y = b.output_throughput_tok_per_s;
  struct kvl_sweep_cell cell = kvl_sweep_cell(&table, 0, metric), none = kvl_sweep_cell(&table, 1, metric);
  ck_assert_uint_eq(cell.count, 2);
  ck_assert_double_eq_tol(cell.mean, (x + y) / 2, 1e-9 * fabs(x));
  /* of two values: t(1) x |x - y| / 2 */
  ck_assert_double_eq_tol(cell.half, 12.7062047362 * fabs(x - y) / 2, 1e-6 * fabs(x));
  ck_assert_uint_eq(none.count, 0);
  ck_assert_int_eq(kvl_sweep_metric("output_thruput_tok_per_s", &metric, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "output_throughput_tok_per_s"));
  ck_assert_int_eq(kvl_sweep_key(&table, "hot_rows", &key, &err), 0);
  ck_assert_uint_eq(key, 0);
  ck_assert_int_eq(kvl_sweep_key(&table, "hot_row", &key, &err), -EINVAL);
  const char *const fixed[] = {"mode=fixed"}, *const wrong[] = {"mode=fixd"}, *const own[] = {"mode=-"};
  ck_assert_int_eq(kvl_sweep_where(&table, fixed, 1, point, &count, &err), 0);
  ck_assert_uint_eq(count, 2);
  ck_assert_int_eq(kvl_sweep_where(&table, own, 1, point, &count, &err), 0);
  ck_assert_uint_eq(count, 1);
  ck_assert_uint_eq(point[0], 2);
  ck_assert_int_eq(kvl_sweep_where(&table, wrong, 1, point, &count, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "did you mean fixed"));
  kvl_sweep_table_free(&table);
  kvl_sweep_list_free(&list);
  kvl_store_close(store);
  fixture_folder_remove();
}
END_TEST

KVL_TAP_MAIN("sweep store", a_task_is_stored_once_with_its_run, summary_only_leaves_records_out, a_live_owner_refuses_what_meets_its_share,
             who_lost_its_share_stores_nothing_more, merging_is_the_same_in_any_order_and_again, results_that_differ_are_not_merged,
             tables_have_means_and_intervals)
