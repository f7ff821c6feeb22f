/* The store: what goes in comes out, and what is not a store is refused with one line and left alone. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "results/store.h"
#include "tests/base/tap.h"
#include "tests/results/fixture.h"

static struct kvl_err err;

static struct kvl_store *open_ok(const char *path, const struct kvl_store_options *options)
{
  struct kvl_store *store = NULL;
  int code = kvl_store_open_with(&store, path, options, &err);
  ck_assert_msg(code == 0, "open: %d, %s", code, err.text);
  ck_assert_ptr_nonnull(store);
  return store;
}

static struct kvl_run_list list_ok(struct kvl_store *store)
{
  struct kvl_run_list list;
  int code = kvl_store_list(store, &list, &err);
  ck_assert_msg(code == 0, "list: %d, %s", code, err.text);
  return list;
}

/* The open fails with `code`, and with one line that names the file and holds `word`. */
static void refuses(const char *path, const struct kvl_store_options *options, int code, const char *word)
{
  struct kvl_store *store = NULL;
  err.text[0] = '\0';
  int got = kvl_store_open_with(&store, path, options, &err);
  ck_assert_msg(got == code, "%d, not %d: %s", got, code, err.text);
  ck_assert_ptr_null(store);
  ck_assert_msg(strstr(err.text, word) != NULL, "no \"%s\" in: %s", word, err.text);
  ck_assert_msg(strchr(err.text, '\n') == NULL, "more than a line: %s", err.text);
  ck_assert_msg(path[0] == '\0' || strstr(err.text, path) != NULL, "does not name %s: %s", path, err.text);
}

static void sql(const char *path, const char *text)
{
  sqlite3 *db = NULL;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  char *message = NULL;
  int rc = sqlite3_exec(db, text, NULL, NULL, &message);
  ck_assert_msg(rc == SQLITE_OK, "%s: %s", text, message);
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

static size_t slurp(const char *path, unsigned char *bytes, size_t size)
{
  FILE *in = fopen(path, "rb");
  ck_assert_ptr_nonnull(in);
  size_t length = fread(bytes, 1, size, in);
  (void)fclose(in);
  return length;
}

static void setup(void)
{
  fixture_folder_make();
}

static void teardown(void)
{
  fixture_folder_remove();
}

START_TEST(round_trip)
{
  static const struct fixture fixtures[] = {{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {2, 500, 1300, 96, 700}, {3, 64, 64, 64, 64}, {4, 65, 129, 63, 1}};
  enum { RUNS = (int)(sizeof fixtures / sizeof fixtures[0]) };
  struct kvl_store_options small = {.batch_rows = _i == 0 ? 64 : 100000};
  struct kvl_store *store = open_ok(fixture_path("a.db"), &small);
  for (int i = 0; i < RUNS; i++) {
    int64_t run = 0;
    ck_assert_msg(fixture_write(store, &fixtures[i], i == 3 ? KVL_RUN_INTERRUPTED : KVL_RUN_COMPLETE, &run, &err) == 0, "%s", err.text);
    ck_assert_int_eq(run, i + 1);
  }
  kvl_store_close(store);

  store = open_ok(fixture_path("a.db"), &(struct kvl_store_options){.read_only = 1});
  ck_assert_int_eq(kvl_store_check(store, &err), 0);
  struct kvl_run_list list = list_ok(store);
  ck_assert_uint_eq(list.count, RUNS);
  for (int i = 0; i < RUNS; i++) {
    const struct kvl_stored_run *r = &list.run[i];
    struct kvl_run_info info = fixture_info(fixtures[i].seed);
    struct kvl_summary summary = fixture_summary(fixtures[i].seed);
    ck_assert_int_eq(r->id, i + 1);
    ck_assert_str_eq(r->name, info.name);
    ck_assert_str_eq(r->mode, info.mode);
    ck_assert_str_eq(r->plane, info.plane);
    ck_assert_str_eq(r->build, info.build);
    ck_assert_str_eq(r->command, info.command);
    ck_assert_uint_eq(r->seed, info.seed);
    ck_assert_int_eq((int)r->status, (int)(i == 3 ? KVL_STORED_INTERRUPTED : KVL_STORED_COMPLETE));
    ck_assert_int_eq(r->process, getpid());
    ck_assert_int_eq(r->concurrency, 256);
    ck_assert_uint_eq(strlen(r->scenario_hash), 16);
    ck_assert_uint_gt(strlen(r->machine), 0);
    int64_t now = (int64_t)time(NULL) * 1000;
    ck_assert(r->started_unix_ms <= r->ended_unix_ms && r->ended_unix_ms - now < 2000 && now - r->started_unix_ms < 600000);
    ck_assert_int_eq(r->has_summary, 1);
    for (uint32_t k = 0; k < kvl_summary_key_count(); k++) {
      char a[KVL_SUMMARY_TEXT_MAX], b[KVL_SUMMARY_TEXT_MAX];
      ck_assert_str_eq(kvl_summary_value_text(a, &r->summary, k), kvl_summary_value_text(b, &summary, k));
    }
    ck_assert_msg(fixture_check(store, r->id, &fixtures[i], &err) == 0, "run %d: %s", i, err.text);
    struct kvl_run_rows rows;
    ck_assert_int_eq(kvl_store_rows(store, r->id, &rows, &err), 0);
    ck_assert(rows.requests == fixtures[i].requests && rows.samples == fixtures[i].samples && rows.points == fixtures[i].points &&
              rows.moves == fixtures[i].moves);
    char *scenario = NULL;
    ck_assert_int_eq(kvl_store_scenario(store, r->id, &scenario, &err), 0);
    ck_assert_str_eq(scenario, info.scenario_json);
    free(scenario);
  }
  kvl_run_list_free(&list);
  char *scenario = NULL;
  ck_assert_int_eq(kvl_store_scenario(store, 99, &scenario, &err), -ENOENT);
  kvl_store_close(store);
}
END_TEST

START_TEST(extreme_values)
{
  struct kvl_store *store = open_ok(fixture_path("a.db"), NULL);
  struct kvl_run_info info = fixture_info(1);
  info.seed = UINT64_MAX;
  info.scenario_json = "this is not JSON";
  info.name = "n\xc3\xa9\n\"'";
  int64_t run = 0;
  ck_assert_int_eq(kvl_store_run_begin(store, &info, &run, &err), 0);
  struct kvl_summary summary = fixture_summary(1);
  summary.seed = UINT64_MAX;
  summary.steps = (uint64_t)INT64_MAX;
  summary.simulated_s = 0.0 / (summary.wall_s - summary.wall_s); /* NaN: reads back as 0 */
  ck_assert_int_eq(kvl_store_run_end(store, run, &summary, KVL_RUN_COMPLETE, &err), 0);
  struct kvl_run_list list = list_ok(store);
  ck_assert_uint_eq(list.run[0].seed, UINT64_MAX);
  ck_assert_uint_eq(list.run[0].summary.seed, UINT64_MAX);
  ck_assert_uint_eq(list.run[0].summary.steps, (uint64_t)INT64_MAX);
  ck_assert_str_eq(list.run[0].name, info.name);
  ck_assert_int_eq(list.run[0].concurrency, -1);
  kvl_run_list_free(&list);
  kvl_store_close(store);
}
END_TEST

START_TEST(runs_that_do_not_end)
{
  struct kvl_store *store = open_ok(fixture_path("a.db"), &(struct kvl_store_options){.batch_rows = 8});
  struct kvl_run_info info = fixture_info(1);
  int64_t run = 0;
  ck_assert_int_eq(kvl_store_run_begin(store, &info, &run, &err), 0);
  for (uint64_t i = 0; i < 20; i++) {
    struct kvl_request_record r = fixture_request(1, i);
    ck_assert_int_eq(kvl_store_add_request(store, &r, &err), 0);
  }
  struct kvl_store *reader = open_ok(fixture_path("a.db"), &(struct kvl_store_options){.read_only = 1});
  struct kvl_run_list list = list_ok(reader);
  ck_assert_int_eq((int)list.run[0].status, (int)KVL_STORED_RUNNING); /* this very process */
  ck_assert_int_eq(list.run[0].has_summary, 0);
  ck_assert_int_eq(list.run[0].ended_unix_ms, -1);
  struct kvl_run_rows rows;
  ck_assert_int_eq(kvl_store_rows(reader, run, &rows, &err), 0);
  ck_assert_uint_eq(rows.requests, 16); /* two batches of 8 are out; 4 rows wait in memory */
  kvl_run_list_free(&list);

  sql(fixture_path("a.db"), "UPDATE runs SET process_start = process_start + 1"); /* the id was given to another process */
  list = list_ok(reader);
  ck_assert_int_eq((int)list.run[0].status, (int)KVL_STORED_INCOMPLETE);
  kvl_run_list_free(&list);
  sql(fixture_path("a.db"), "UPDATE runs SET process_start = process_start - 1, boot = 'another'"); /* the machine has booted since */
  list = list_ok(reader);
  ck_assert_int_eq((int)list.run[0].status, (int)KVL_STORED_INCOMPLETE);
  kvl_run_list_free(&list);
  sql(fixture_path("a.db"), "UPDATE runs SET host = 'elsewhere'"); /* another machine: nobody can tell */
  list = list_ok(reader);
  ck_assert_int_eq((int)list.run[0].status, (int)KVL_STORED_UNKNOWN);
  kvl_run_list_free(&list);

  kvl_store_close(store); /* closed without end */
  list = list_ok(reader);
  ck_assert_int_eq((int)list.run[0].status, (int)KVL_STORED_FAILED);
  ck_assert_int_eq(list.run[0].has_summary, 0);
  kvl_run_list_free(&list);
  kvl_store_close(reader);
}
END_TEST

START_TEST(duplicate_request_is_an_error_and_can_be_survived)
{
  struct kvl_store *store = open_ok(fixture_path("a.db"), NULL);
  struct kvl_run_info info = fixture_info(1);
  int64_t run = 0;
  struct kvl_request_record r = fixture_request(1, 5);
  ck_assert_int_eq(kvl_store_run_begin(store, &info, &run, &err), 0);
  ck_assert_int_eq(kvl_store_add_request(store, &r, &err), 0);
  ck_assert_int_eq(kvl_store_add_request(store, &r, &err), 0);
  struct kvl_summary summary = fixture_summary(1);
  ck_assert_int_lt(kvl_store_run_end(store, run, &summary, KVL_RUN_COMPLETE, &err), 0);
  ck_assert_msg(strstr(err.text, "UNIQUE") != NULL, "%s", err.text);
  kvl_store_close(store);
  store = open_ok(fixture_path("a.db"), NULL);
  struct kvl_run_list list = list_ok(store);
  ck_assert_int_eq((int)list.run[0].status, (int)KVL_STORED_FAILED);
  kvl_run_list_free(&list);
  kvl_store_close(store);
}
END_TEST

START_TEST(a_walk_can_stop)
{
  struct kvl_store *store = open_ok(fixture_path("a.db"), NULL);
  struct fixture fixture = {9, 10, 10, 10, 10}, other = {8, 10, 10, 10, 10};
  int64_t run = 0;
  ck_assert_int_eq(fixture_write(store, &fixture, KVL_RUN_COMPLETE, &run, &err), 0);
  ck_assert_int_eq(fixture_check(store, run, &other, &err), -EILSEQ); /* the fixture itself can tell a difference */
  kvl_store_close(store);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(refuses_a_text_file)
{
  FILE *out = fopen(fixture_path("notes.txt"), "w");
  ck_assert_ptr_nonnull(out);
  for (int i = 0; i < 100; i++) {
    (void)fputs("only some notes\n", out);
  }
  (void)fclose(out);
  refuses(fixture_path("notes.txt"), NULL, -EINVAL, "not a result store");
  refuses(fixture_path("notes.txt"), &(struct kvl_store_options){.read_only = 1}, -EINVAL, "not a result store");
  out = fopen(fixture_path("short"), "w");
  ck_assert_ptr_nonnull(out);
  (void)fputs("{}", out);
  (void)fclose(out);
  refuses(fixture_path("short"), NULL, -EINVAL, "not a result store");
  ck_assert_int_eq(mkfifo(fixture_path("fifo"), 0600), 0); /* nobody writes: refused without waiting */
  refuses(fixture_path("fifo"), NULL, -EINVAL, "is a pipe or a device");
  refuses(fixture_path("fifo"), &(struct kvl_store_options){.read_only = 1}, -EINVAL, "is a pipe or a device");
}
END_TEST

/* Another program's database, idle or with a log that nobody has replayed yet: not a byte of it, or beside it, may change. */
START_TEST(leaves_a_foreign_database_alone)
{
  static unsigned char before[3][65536], after[3][65536];
  static const char *const part[] = {"", "-wal", "-journal"};
  const char *path = fixture_path("foreign.db");
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) { /* dies without closing: its log stays behind */
    sqlite3 *db = NULL;
    int rc = sqlite3_open(path, &db);
    rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, _i / 2 == 0 ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, "CREATE TABLE t (x); INSERT INTO t VALUES (1)", NULL, NULL, NULL);
    if (_i % 2 == 1) {
      rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, "PRAGMA application_id = 1234", NULL, NULL, NULL);
    }
    if (_i / 2 == 0) { /* into the file, then something more that is only in the log */
      rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t VALUES (2)", NULL, NULL, NULL);
    } else { /* a transaction that never ends, spilled to the file: a hot journal */
      rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, "PRAGMA cache_size = 1; BEGIN; UPDATE t SET x = zeroblob(20000); "
                                               "INSERT INTO t VALUES (zeroblob(20000))", NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK) {
      (void)raise(SIGSTOP);
    }
    _exit(1);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
  ck_assert(WIFSTOPPED(status));
  ck_assert_int_eq(kill(child, SIGKILL), 0);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  size_t length[3] = {0, 0, 0};
  char name[600];
  for (int p = 0; p < 3; p++) {
    (void)snprintf(name, sizeof name, "%s%s", path, part[p]);
    length[p] = access(name, F_OK) == 0 ? slurp(name, before[p], sizeof before[p]) : 0;
  }
  ck_assert_msg(length[1] + length[2] > 0, "this test wants a log or a journal");
  refuses(path, NULL, -EEXIST, "another program");
  refuses(path, &(struct kvl_store_options){.read_only = 1}, -EEXIST, "another program");
  for (int p = 0; p < 3; p++) {
    (void)snprintf(name, sizeof name, "%s%s", path, part[p]);
    ck_assert_uint_eq(access(name, F_OK) == 0 ? slurp(name, after[p], sizeof after[p]) : 0, length[p]);
    ck_assert_msg(memcmp(before[p], after[p], length[p]) == 0, "%s changed", name);
  }
}
END_TEST

START_TEST(takes_an_empty_file_or_an_empty_database)
{
  FILE *out = fopen(fixture_path("empty"), "w");
  ck_assert_ptr_nonnull(out);
  (void)fclose(out);
  refuses(fixture_path("empty"), &(struct kvl_store_options){.read_only = 1}, -EINVAL, "empty");
  sql(fixture_path("tables"), "VACUUM");
  const char *const names[] = {"empty", "tables", "fresh"};
  for (int i = 0; i < 3; i++) {
    struct kvl_store *store = open_ok(fixture_path(names[i]), NULL);
    struct kvl_run_list list = list_ok(store);
    ck_assert_uint_eq(list.count, 0);
    kvl_run_list_free(&list);
    kvl_store_close(store);
  }
}
END_TEST

START_TEST(refuses_a_newer_schema_and_damage)
{
  struct kvl_store *store = open_ok(fixture_path("a.db"), NULL);
  struct fixture fixture = {1, 200, 200, 30, 200};
  int64_t run = 0;
  ck_assert_int_eq(fixture_write(store, &fixture, KVL_RUN_COMPLETE, &run, &err), 0);
  kvl_store_close(store);
  sql(fixture_path("a.db"), "PRAGMA user_version = 2");
  refuses(fixture_path("a.db"), NULL, -ENOTSUP, "newer kvloan (schema 2");
  refuses(fixture_path("a.db"), &(struct kvl_store_options){.read_only = 1}, -ENOTSUP, "newer kvloan");
  sql(fixture_path("a.db"), "PRAGMA user_version = 1");

  struct stat info;
  ck_assert_int_eq(stat(fixture_path("a.db"), &info), 0);
  ck_assert_int_eq(truncate(fixture_path("a.db"), info.st_size / 2), 0);
  store = NULL;
  int code = kvl_store_open_with(&store, fixture_path("a.db"), &(struct kvl_store_options){.read_only = 1}, &err);
  code = code != 0 ? code : kvl_store_check(store, &err);
  ck_assert_msg(code == -EUCLEAN, "%d: %s", code, err.text);
  ck_assert_msg(strstr(err.text, "damaged") != NULL, "%s", err.text);
  kvl_store_close(store);
}
END_TEST

START_TEST(refuses_places_that_cannot_be)
{
  refuses("", NULL, -EINVAL, "empty");
  refuses(fixture_folder(), NULL, -EISDIR, "folder");
  refuses(fixture_path("no/such/a.db"), NULL, -ENOENT, "no folder");
  refuses(fixture_path("missing.db"), &(struct kvl_store_options){.read_only = 1}, -ENOENT, "no such file");
  ck_assert_int_ne(access(fixture_path("missing.db"), F_OK), 0);
}
END_TEST

/* Names that SQLite would read as something else are plain file names here. */
START_TEST(odd_names_are_plain_names)
{
  static const char *const odd[] = {":memory:", "file:x?mode=memory", "a%20b?c#d", "-x", "it's; $(touch no) `no`"};
  char *back = getcwd(NULL, 0);
  ck_assert_ptr_nonnull(back);
  ck_assert_int_eq(chdir(fixture_folder()), 0);
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    kvl_store_close(open_ok(odd[i], NULL));
    ck_assert_msg(access(odd[i], F_OK) == 0, "%s", odd[i]);
    kvl_store_close(open_ok(odd[i], &(struct kvl_store_options){.read_only = 1}));
  }
  ck_assert_int_eq(chdir(back), 0);
  free(back);
}
END_TEST

START_TEST(a_lock_is_waited_for_then_named)
{
  const char *path = fixture_path("a.db");
  kvl_store_close(open_ok(path, NULL));
  sqlite3 *db = NULL;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  if (_i == 1) { /* also where there is no log: a rollback-mode file locked against readers too */
    ck_assert_int_eq(sqlite3_exec(db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL), SQLITE_OK);
  }
  struct kvl_store_options brief = {.busy_ms = 200};
  struct kvl_store *store = open_ok(path, &brief);
  ck_assert_int_eq(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
  struct kvl_run_info info = fixture_info(1);
  int64_t run = 0;
  struct timespec start, end;
  (void)clock_gettime(CLOCK_MONOTONIC, &start);
  ck_assert_int_eq(kvl_store_run_begin(store, &info, &run, &err), -EBUSY);
  (void)clock_gettime(CLOCK_MONOTONIC, &end);
  double waited = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
  ck_assert_msg(waited > 0.15 && waited < 5.0, "waited %.3f s", waited);
  ck_assert_msg(strstr(err.text, "locked by another process for more than 0.2 s") != NULL, "%s", err.text);
  ck_assert_int_eq(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  ck_assert_int_eq(kvl_store_run_begin(store, &info, &run, &err), 0); /* and then it goes on */
  ck_assert_int_eq(kvl_store_run_end(store, run, NULL, KVL_RUN_FAILED, &err), 0);
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
  kvl_store_close(store);
}
END_TEST

/* As somebody without the right to write (root may do anything, so the child becomes nobody). */
START_TEST(read_only_places)
{
  const char *path = fixture_path("a.db");
  struct kvl_store *store = open_ok(path, NULL);
  struct fixture fixture = {5, 20, 20, 20, 20};
  int64_t run = 0;
  ck_assert_int_eq(fixture_write(store, &fixture, KVL_RUN_COMPLETE, &run, &err), 0);
  kvl_store_close(store);
  ck_assert_int_eq(chmod(path, 0444), 0);
  ck_assert_int_eq(chmod(fixture_folder(), 0555), 0);
  (void)fflush(NULL);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    int bad = geteuid() == 0 && setuid(65534) != 0 ? 1 : 0;
    int code = kvl_store_open(&store, path, &err);
    bad |= code == -EACCES && strstr(err.text, "read-only") != NULL ? 0 : 2;
    code = kvl_store_open(&store, fixture_path("new.db"), &err);
    bad |= code == -EACCES && strstr(err.text, "read-only") != NULL && strstr(err.text, fixture_folder()) != NULL ? 0 : 4;
    code = kvl_store_open_with(&store, path, &(struct kvl_store_options){.read_only = 1}, &err); /* reading works all the same */
    bad |= code == 0 ? 0 : 8;
    bad |= code == 0 && fixture_check(store, run, &fixture, &err) == 0 ? 0 : 16;
    kvl_store_close(store);
    _exit(bad);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(chmod(fixture_folder(), 0755), 0);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
}
END_TEST

/* What a killed writer left behind, in a place where it cannot be replayed: a line that says so. Elsewhere it is replayed. */
START_TEST(a_log_that_was_left_behind)
{
  const char *path = fixture_path("a.db");
  struct fixture fixture = {6, 30, 30, 30, 30};
  (void)fflush(NULL);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    struct kvl_store *store = NULL;
    int64_t run = 0;
    if (kvl_store_open(&store, path, &err) == 0 && fixture_write(store, &fixture, KVL_RUN_COMPLETE, &run, &err) == 0) {
      (void)raise(SIGSTOP);
    }
    _exit(1);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
  ck_assert(WIFSTOPPED(status));
  ck_assert_int_eq(kill(child, SIGKILL), 0);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(access(fixture_path("a.db-wal"), F_OK), 0);
  ck_assert_int_eq(unlink(fixture_path("a.db-shm")), 0);
  ck_assert_int_eq(chmod(fixture_folder(), 0555), 0);
  child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    int bad = geteuid() == 0 && setuid(65534) != 0 ? 1 : 0;
    struct kvl_store *store = NULL;
    int code = kvl_store_open_with(&store, path, &(struct kvl_store_options){.read_only = 1}, &err);
    bad |= code == -EACCES && strstr(err.text, "must be replayed first") != NULL ? 0 : 2;
    kvl_store_close(store);
    _exit(bad);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(chmod(fixture_folder(), 0755), 0);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
  struct kvl_store *store = open_ok(path, &(struct kvl_store_options){.read_only = 1});
  ck_assert_msg(fixture_check(store, 1, &fixture, &err) == 0, "%s", err.text);
  kvl_store_close(store);
}
END_TEST

START_TEST(people_can_read_it_with_sql)
{
  struct kvl_store *store = open_ok(fixture_path("a.db"), NULL);
  struct fixture fixture = {5, 20, 20, 20, 20};
  int64_t run = 0;
  ck_assert_int_eq(fixture_write(store, &fixture, KVL_RUN_COMPLETE, &run, &err), 0);
  kvl_store_close(store);
  sqlite3 *db = NULL;
  sqlite3_stmt *query = NULL;
  ck_assert_int_eq(sqlite3_open(fixture_path("a.db"), &db), SQLITE_OK);
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT count(*), (SELECT ms FROM stalls WHERE cause = 'fetch') FROM stalls", -1, &query, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(query), SQLITE_ROW);
  ck_assert_int_eq(sqlite3_column_int(query, 0), KVL_STALLS);
  struct kvl_summary summary = fixture_summary(5);
  double ms = sqlite3_column_double(query, 1);
  ck_assert(memcmp(&ms, &summary.stall_ms_by_cause[KVL_STALL_FETCH], sizeof ms) == 0);
  ck_assert_int_eq(sqlite3_finalize(query), SQLITE_OK);
  /* each stall and tier has its column, in the order of the enumerations */
  ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT * FROM samples", -1, &query, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_column_count(query), 12 + KVL_REPORT_TIERS + KVL_STALLS);
  for (int t = 0; t < KVL_REPORT_TIERS; t++) {
    ck_assert_str_eq(sqlite3_column_name(query, 12 + t) + strlen("lanes_"), kvl_tier_name((unsigned)t));
  }
  for (int t = 0; t < KVL_STALLS; t++) {
    char want[64];
    (void)snprintf(want, sizeof want, "stall_%s_ns", kvl_stall_name((enum kvl_stall)t));
    ck_assert_str_eq(sqlite3_column_name(query, 12 + KVL_REPORT_TIERS + t), want);
  }
  ck_assert_int_eq(sqlite3_finalize(query), SQLITE_OK);
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("store");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, round_trip, 0, 2);
  tcase_add_test(tcase, extreme_values);
  tcase_add_test(tcase, runs_that_do_not_end);
  tcase_add_test(tcase, duplicate_request_is_an_error_and_can_be_survived);
  tcase_add_test(tcase, a_walk_can_stop);
  tcase_add_test(tcase, refuses_a_text_file);
  tcase_add_loop_test(tcase, leaves_a_foreign_database_alone, 0, 4);
  tcase_add_test(tcase, takes_an_empty_file_or_an_empty_database);
  tcase_add_test(tcase, refuses_a_newer_schema_and_damage);
  tcase_add_test(tcase, refuses_places_that_cannot_be);
  tcase_add_test(tcase, odd_names_are_plain_names);
  tcase_add_loop_test(tcase, a_lock_is_waited_for_then_named, 0, 2);
  tcase_add_test(tcase, read_only_places);
  tcase_add_test(tcase, a_log_that_was_left_behind);
  tcase_add_test(tcase, people_can_read_it_with_sql);
  return kvl_tap_run_case("store", tcase);
}
