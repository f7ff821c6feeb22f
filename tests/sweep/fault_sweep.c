/* Sweeps in a store when things fail: the n-th change of a file, the n-th allocation. Every time the same must hold: one line says what happened, a
 * task is stored with its whole run or not at all, and doing the same again gives what an undisturbed store has. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "results/sweep.h"
#include "tests/base/fault_alloc.h"
#include "tests/base/tap.h"
#include "tests/results/fault_sqlite.h"
#include "tests/results/fault_vfs.h"
#include "tests/results/fixture.h"

/* ---- one piece of work ---- */

static const char *const keys[] = {"policy.hot_rows"};
static const char *const values[] = {"512", "1024"};
static const struct kvl_sweep_plan plan = {.name = "two", .note = "", .scenario = "s", .hash = "0123456789abcdef", .build = "b", .command = "c",
                                           .key = keys, .keys = 1, .value = values, .points = 2, .repeats = 2};
static const struct kvl_sweep_share all = {0, 1};
static const struct kvl_store_options small = {.batch_rows = 16, .busy_ms = 1000};
static char task_store[512], other_store[512], store_path[512];

static int add(struct kvl_store *store, int64_t sweep, uint32_t task, const char *reason, const char *from, struct kvl_err *err)
{
  struct kvl_task_result r = {.task = task, .point = task / 2, .repeat = task % 2, .seed = task, .reason = reason, .from = from};
  return kvl_store_sweep_add(store, sweep, &all, &r, err);
}

/* Takes the sweep, stores two tasks, merges another store's two and its run. */
static int work(struct kvl_err *err)
{
  struct kvl_store *store = NULL;
  struct kvl_merge_count count = {0};
  int64_t sweep = 0;
  uint32_t others;
  int code = kvl_store_open_with(&store, store_path, &small, err);
  code = code != 0 ? code : kvl_store_sweep_begin(store, &plan, &all, 0, &sweep, &others, err);
  code = code != 0 ? code : add(store, sweep, 0, NULL, task_store, err);
  code = code != 0 ? code : add(store, sweep, 1, "it would not", NULL, err);
  code = code != 0 ? code : kvl_store_merge(store, other_store, &count, err);
  code = code != 0 ? code : kvl_store_sweep_end(store, sweep, &all, err);
  kvl_store_close(store);
  return code;
}

static char *read_all(uint32_t *runs, struct kvl_err *err, int *code)
{
  static const struct kvl_store_options reading = {.read_only = 1};
  struct kvl_store *store = NULL;
  struct kvl_sweep_list list = {NULL, 0};
  struct kvl_sweep_table table;
  struct kvl_run_list run_list = {NULL, 0};
  char *text = NULL;
  size_t size = 0;
  *code = kvl_store_open_with(&store, store_path, &reading, err);
  *code = *code != 0 ? *code : kvl_store_check(store, err);
  *code = *code != 0 ? *code : kvl_store_sweeps(store, &list, err);
  *code = *code != 0 ? *code : kvl_store_list(store, &run_list, err);
  *runs = run_list.count;
  if (*code == 0 && list.count == 1) {
    *code = kvl_sweep_table_read(store, &list.sweep[0], &table, err);
    if (*code == 0) {
      FILE *out = open_memstream(&text, &size);
      *code = out == NULL ? -ENOMEM : kvl_sweep_write_tasks(out, KVL_FORMAT_TSV, &table);
      if (out != NULL) {
        (void)fclose(out);
      }
      kvl_sweep_table_free(&table);
    }
  }
  kvl_run_list_free(&run_list);
  kvl_sweep_list_free(&list);
  kvl_store_close(store);
  return text;
}

/* Each complete task has its run, and each run its task, but for the one that belongs to no sweep. */
static void must_be_sound(long n)
{
  struct kvl_err err = {""};
  uint32_t runs, complete = 0;
  int code;
  char *text = read_all(&runs, &err, &code);
  if (code == -ENOENT || (code == -EINVAL && strstr(err.text, "empty") != NULL)) {
    return; /* it failed before there was anything */
  }
  ck_assert_msg(code == 0, "fault %ld: %s", n, err.text);
  for (const char *at = text; at != NULL && (at = strstr(at, "\tcomplete\t")) != NULL; at++) {
    complete++;
  }
  ck_assert_msg(runs == complete || runs == complete + 1, "fault %ld: %u runs, %u complete tasks", n, (unsigned)runs, (unsigned)complete);
  free(text);
}

static void remove_store(void)
{
  static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
  for (int e = 0; e < 4; e++) {
    char name[600];
    (void)snprintf(name, sizeof name, "%s%s", store_path, endings[e]);
    (void)unlink(name);
  }
}

static void make_store(const char *path, uint64_t seed)
{
  struct kvl_err err = {""};
  struct kvl_store *store = NULL;
  struct fixture f = {.seed = seed, .requests = 20, .samples = 20, .points = 2, .moves = 3};
  int64_t run;
  ck_assert_msg(kvl_store_open_with(&store, path, &small, &err) == 0, "%s", err.text);
  ck_assert_int_eq(fixture_write(store, &f, KVL_RUN_COMPLETE, &run, &err), 0);
  kvl_store_close(store);
}

static char *prepare(void)
{
  struct kvl_err err = {""};
  struct kvl_store *store = NULL;
  int64_t sweep;
  uint32_t others, runs;
  char third[512], fourth[512];
  int code;
  fixture_folder_make();
  (void)snprintf(task_store, sizeof task_store, "%s", fixture_path("task.db"));
  (void)snprintf(other_store, sizeof other_store, "%s", fixture_path("other.db"));
  (void)snprintf(store_path, sizeof store_path, "%s", fixture_path("store.db"));
  (void)snprintf(third, sizeof third, "%s", fixture_path("third.db"));
  (void)snprintf(fourth, sizeof fourth, "%s", fixture_path("fourth.db"));
  make_store(task_store, 1);
  make_store(third, 3);
  make_store(fourth, 4);
  make_store(other_store, 9); /* a run of no sweep */
  ck_assert_int_eq(kvl_store_open_with(&store, other_store, &small, &err), 0);
  ck_assert_int_eq(kvl_store_sweep_begin(store, &plan, &all, 0, &sweep, &others, &err), 0);
  ck_assert_int_eq(add(store, sweep, 2, NULL, third, &err), 0);
  ck_assert_int_eq(add(store, sweep, 3, NULL, fourth, &err), 0);
  kvl_store_close(store);
  ck_assert_msg(work(&err) == 0, "%s", err.text);
  char *want = read_all(&runs, &err, &code);
  ck_assert_msg(code == 0 && runs == 4 && want != NULL, "%s", err.text);
  remove_store();
  return want;
}

/* After a failure: sound, and the same work once more gives what was wanted. */
static void recovers(long n, int code, const struct kvl_err *said, const char *want)
{
  struct kvl_err err = {""};
  uint32_t runs;
  ck_assert_msg(code < 0 && said->text[0] != '\0' && strchr(said->text, '\n') == NULL, "fault %ld: %d, \"%s\"", n, code, said->text);
  must_be_sound(n);
  ck_assert_msg(work(&err) == 0, "after fault %ld (%s): %s", n, said->text, err.text);
  char *got = read_all(&runs, &err, &code);
  ck_assert_msg(code == 0 && runs == 4, "after fault %ld: %u runs, %s", n, (unsigned)runs, err.text);
  ck_assert_str_eq(got, want);
  free(got);
}

START_TEST(every_change_of_a_file_may_fail)
{
  char *want = prepare();
  long failures = 0, unnoticed = 0;
  for (long n = 1; unnoticed < 12; n++) {
    struct kvl_err err = {""};
    fault_vfs.countdown = n;
    fault_vfs.failed = 0;
    int code = work(&err);
    long failed = fault_vfs.failed;
    fault_vfs.countdown = 0;
    unnoticed = failed == 0 ? unnoticed + 1 : 0;
    if (code != 0) {
      failures++;
      recovers(n, code, &err, want);
    } else {
      must_be_sound(n);
    }
    remove_store();
  }
  ck_assert_int_gt(failures, 20);
  free(want);
  fixture_folder_remove();
}
END_TEST

START_TEST(every_allocation_may_fail)
{
  char *want = prepare();
  long failures = 0;
  for (long n = 1, unnoticed = 0; unnoticed < 3; n += 1 + n / 40) { /* dense at the start, where opening is */
    struct kvl_err err = {""};
    fault_alloc_arm(n - 1);
    int code = work(&err);
    int reached = fault_alloc_disarm();
    unnoticed = reached ? 0 : unnoticed + 1;
    if (code != 0) {
      failures++;
      recovers(n, code, &err, want);
    } else {
      must_be_sound(n);
    }
    remove_store();
  }
  ck_assert_int_gt(failures, 50);
  free(want);
  fixture_folder_remove();
}
END_TEST

int main(void)
{
  const TTest *const tests[] = {every_change_of_a_file_may_fail, every_allocation_may_fail};
  if (!fault_sqlite_install(false)) {
    return 1;
  }
  fault_vfs_install();
  fault_vfs.no_sync = 1;
  return kvl_tap_run("sweep faults", tests, 2);
}
