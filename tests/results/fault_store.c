/* The store when things fail: the n-th change of a file, the n-th allocation, a full disk, kill -9, many writers. Every time the same must hold: one
 * line says what happened, the file opens and is sound, and a run that reads "complete" is whole.
 *
 *   fault_store [SEED]   the seed of the moments of the kills */
#include <check.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/rng.h"
#include "results/plot.h"
#include "results/select.h"
#include "results/store.h"
#include "results/store_part.h"
#include "tests/base/fault_alloc.h"
#include "tests/base/tap.h"
#include "tests/results/fault_sqlite.h"
#include "tests/results/fault_vfs.h"
#include "tests/results/fixture.h"

static uint64_t seed = 1;
static const struct kvl_store_options small = {.batch_rows = 16, .busy_ms = 20000};
static const struct kvl_store_options reading = {.read_only = 1};

/* Containers that share a folder: their process ids are often the same. 0: each process has its own. Linked with --wrap. */
static pid_t common_pid;
pid_t __real_getpid(void);
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
  return common_pid != 0 ? common_pid : __real_getpid();
}

/* ---- what must always hold ---- */

/* Opens for reading, checks every page, and every run that reads complete. Counts complete and other runs from `first` on. */
static void must_be_sound(const char *path, int64_t first, uint32_t *complete, uint32_t *other)
{
  struct kvl_err err = {""};
  struct kvl_store *store = NULL;
  int code = kvl_store_open_with(&store, path, &reading, &err);
  ck_assert_msg(code == 0, "open: %s", err.text);
  ck_assert_msg(kvl_store_check(store, &err) == 0, "%s", err.text);
  struct kvl_run_list list;
  ck_assert_msg(kvl_store_list(store, &list, &err) == 0, "%s", err.text);
  *complete = *other = 0;
  for (uint32_t i = 0; i < list.count; i++) {
    const struct kvl_stored_run *run = &list.run[i];
    if (run->id < first) {
      continue;
    }
    if (run->status == KVL_STORED_COMPLETE) {
      uint32_t rows = 20 + (uint32_t)(run->seed % 50);
      struct fixture fixture = {run->seed, rows, rows, rows / 2, rows};
      ck_assert_msg(fixture_check(store, run->id, &fixture, &err) == 0, "run %" PRId64 ": %s", run->id, err.text);
      ck_assert(run->has_summary && run->ended_unix_ms >= run->started_unix_ms);
      (*complete)++;
    } else {
      ck_assert_msg(!run->has_summary, "run %" PRId64 " is %s, with a summary", run->id, kvl_stored_status_name(run->status));
      (*other)++;
    }
  }
  kvl_run_list_free(&list);
  kvl_store_close(store);
}

static int write_one(struct kvl_store *store, uint64_t run_seed, struct kvl_err *err)
{
  uint32_t rows = 20 + (uint32_t)(run_seed % 50);
  struct fixture fixture = {run_seed, rows, rows, rows / 2, rows};
  int64_t run = 0;
  return fixture_write(store, &fixture, KVL_RUN_COMPLETE, &run, err);
}

static int open_and_write(const char *path, uint64_t run_seed, struct kvl_err *err)
{
  struct kvl_store *store = NULL;
  int code = kvl_store_open_with(&store, path, &small, err);
  code = code != 0 ? code : write_one(store, run_seed, err);
  kvl_store_close(store);
  return code;
}

static void one_line(int code, const struct kvl_err *err, long n)
{
  ck_assert_msg(code < 0 && err->text[0] != '\0' && strchr(err->text, '\n') == NULL, "fault %ld: %d, \"%s\"", n, code, err->text);
}

static void remove_store(const char *path)
{
  static const char *const parts[] = {"", "-wal", "-shm", "-journal"};
  for (int p = 0; p < 4; p++) {
    char name[600];
    (void)snprintf(name, sizeof name, "%s%s", path, parts[p]);
    (void)unlink(name);
  }
}

static int exists(const char *path)
{
  return access(path, F_OK) == 0;
}

/* Parts of a store beside it, and what SQLite has beside them. */
static size_t parts_of(const char *path)
{
  char pattern[600];
  glob_t found;
  (void)snprintf(pattern, sizeof pattern, "%s.*.part*", path);
  int none = glob(pattern, GLOB_NOSORT, NULL, &found);
  ck_assert(none == 0 || none == GLOB_NOMATCH);
  size_t count = none == 0 ? found.gl_pathc : 0;
  globfree(&found);
  return count;
}

/* A store that could not be written to: not there, or one that reads; and nothing of it under another name. */
static void nothing_half_made(const char *path, uint32_t before)
{
  uint32_t complete, other;
  ck_assert_msg(parts_of(path) == 0, "a part of %s is left", path);
  if (exists(path)) {
    must_be_sound(path, 1, &complete, &other);
    ck_assert_uint_eq(complete, before);
  } else {
    ck_assert_uint_eq(before, 0);
  }
}

/* ---- the n-th change of a file ---- */

/* _i: bit 0 sticky, bit 1 without shared memory (rollback journal), bit 2 into a store that already holds a run */
START_TEST(every_change_of_a_file_fails_once)
{
  char path[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("f.db"));
  uint32_t before = (_i & 4) != 0 ? 1 : 0, complete, other;
  long n = 0, failed = 1;
  for (n = 1; failed > 0; n++) {
    remove_store(path);
    memset(&fault_vfs, 0, sizeof fault_vfs);
    fault_vfs.no_sync = 1;
    fault_vfs.no_shared = (_i & 2) != 0;
    struct kvl_err err = {""};
    if (before > 0) {
      ck_assert_msg(open_and_write(path, 7, &err) == 0, "%s", err.text);
    }
    fault_vfs.countdown = n;
    fault_vfs.sticky = _i & 1;
    fault_vfs.failed = 0;
    int code = open_and_write(path, (uint64_t)n, &err);
    failed = fault_vfs.failed;
    fault_vfs.countdown = 0;
    if (code != 0) {
      one_line(code, &err, n);
      ck_assert_msg(failed > 0, "%s", err.text);
      nothing_half_made(path, before);
    }
    if (!exists(path) || code != 0) { /* nothing of it may stand in the way of the next one */
      ck_assert_msg(open_and_write(path, 1000 + (uint64_t)n, &err) == 0, "after fault %ld: %s", n, err.text);
      must_be_sound(path, 1, &complete, &other);
      ck_assert_msg(complete >= before + 1, "fault %ld: %u complete", n, complete);
    } else {
      must_be_sound(path, 1, &complete, &other);
      ck_assert_msg(complete == before + 1 && other == 0, "fault %ld: %u complete, %u not", n, complete, other);
    }
  }
  ck_assert_int_gt(n, 20); /* there was something to fail */
}
END_TEST

/* ---- the n-th allocation ---- */

START_TEST(every_allocation_fails_once)
{
  char path[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("m.db"));
  uint32_t complete, other;
  long n = 0;
  int done = 0;
  memset(&fault_vfs, 0, sizeof fault_vfs);
  fault_vfs.no_sync = 1;
  for (n = 0; !done; n++) {
    remove_store(path);
    struct kvl_err err = {""};
    struct kvl_store *store = NULL;
    struct kvl_run_list list = {NULL, 0};
    fault_alloc_arm(n);
    int code = open_and_write(path, 3, &err);
    int written = code == 0;
    code = code != 0 ? code : kvl_store_open_with(&store, path, &reading, &err);
    code = code != 0 ? code : kvl_store_list(store, &list, &err);
    char *scenario = NULL;
    code = code != 0 ? code : kvl_store_scenario(store, 1, &scenario, &err);
    done = !fault_alloc_disarm();
    free(scenario);
    kvl_run_list_free(&list);
    kvl_store_close(store);
    if (code != 0) {
      one_line(code, &err, n);
    }
    if (written) {
      must_be_sound(path, 1, &complete, &other);
      ck_assert_msg(complete == 1 && other == 0, "allocation %ld: %u complete, %u not", n, complete, other);
    } else {
      ck_assert_msg(open_and_write(path, 5, &err) == 0, "after allocation %ld: %s", n, err.text);
      must_be_sound(path, 1, &complete, &other);
    }
  }
  ck_assert_int_gt(n, 100);
}
END_TEST

/* Everything that reads: the list, selection, records, the numbers behind the pictures. */
static int read_all(const char *path, const char *out, struct kvl_err *err)
{
  struct kvl_store *store = NULL;
  struct kvl_run_list list = {NULL, 0};
  struct kvl_plot plot = {.out = out, .gnuplot = "no-such-gnuplot-anywhere"};
  const char *const words[] = {"latest:mode=resident", "all"};
  const char *const label[] = {"a label"};
  uint32_t index[4], count = 0;
  int code = kvl_store_open_with(&store, path, &reading, err);
  code = code != 0 ? code : kvl_store_list(store, &list, err);
  code = code != 0 ? code : kvl_select_runs(&list, path, words, 2, index, &count, err);
  const struct kvl_stored_run *run[] = {count > 0 ? &list.run[index[0]] : NULL};
  for (int picture = 0; picture < 3 && code == 0; picture++) { /* without gnuplot each ends in -ENOENT, after everything else is done */
    code = picture == 0   ? kvl_plot_timeline(&plot, store, run[0], label[0], err)
           : picture == 1 ? kvl_plot_distributions(&plot, store, run, label, 1, err)
                          : kvl_plot_modes(&plot, run, 1, NULL, err);
    code = code == -ENOENT && strstr(err->text, "not installed") != NULL ? 0 : code == 0 ? -EIO : code;
  }
  kvl_run_list_free(&list);
  kvl_store_close(store);
  return code;
}

START_TEST(every_allocation_of_a_reader_fails_once)
{
  char path[512], out[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("r.db"));
  (void)snprintf(out, sizeof out, "%s", fixture_path("r.png"));
  memset(&fault_vfs, 0, sizeof fault_vfs);
  struct kvl_err err = {""};
  ck_assert_int_eq(open_and_write(path, 3, &err), 0);
  ck_assert_msg(read_all(path, out, &err) == 0, "%s", err.text);
  long n = 0;
  int done = 0;
  for (n = 0; !done; n++) {
    err.text[0] = '\0';
    fault_alloc_arm(n);
    int code = read_all(path, out, &err);
    done = !fault_alloc_disarm();
    if (code != 0) {
      one_line(code, &err, n);
      ck_assert_msg(!done, "%s", err.text);
    }
  }
  ck_assert_int_gt(n, 50);
  ck_assert_msg(read_all(path, out, &err) == 0, "%s", err.text);
  ck_assert_int_eq(unlink(fixture_path("r.tsv")), 0);
}
END_TEST

/* ---- a full disk, as the kernel reports it ---- */

START_TEST(a_picture_does_not_survive_a_full_disk)
{
  char path[512], out[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("p.db"));
  (void)snprintf(out, sizeof out, "%s", fixture_path("p.png"));
  memset(&fault_vfs, 0, sizeof fault_vfs);
  fault_vfs.no_shared = 1; /* the log's shared memory would not fit either */
  struct kvl_err err = {""};
  ck_assert_int_eq(open_and_write(path, 3, &err), 0);
  struct rlimit saved, limit;
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &saved), 0);
  limit = saved;
  limit.rlim_cur = 3000;
  (void)signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  int code = read_all(path, out, &err);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &saved), 0);
  ck_assert_msg(code == -EIO && strstr(err.text, "p.tsv: cannot write") != NULL, "%d: %s", code, err.text);
  ck_assert(!exists(fixture_path("p.tsv")) && !exists(out));
  ck_assert_int_eq(unlink(path), 0);
  (void)unlink(fixture_path("p.db-wal"));
  (void)unlink(fixture_path("p.db-shm"));
  ck_assert_msg(rmdir(fixture_folder()) == 0, "something is left behind: %s", strerror(errno));
  fixture_folder_make();
}
END_TEST

START_TEST(a_size_limit_is_a_full_disk)
{
  char path[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("l.db"));
  struct rlimit saved;
  memset(&fault_vfs, 0, sizeof fault_vfs);
  fault_vfs.no_shared = _i;
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &saved), 0);
  (void)signal(SIGXFSZ, SIG_IGN);
  int full = 0, fine = 0;
  for (unsigned pages = 1; fine == 0; pages += 2) {
    remove_store(path);
    struct rlimit limit = {4096u * pages - 700u, saved.rlim_max};
    struct kvl_err err = {""};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int code = open_and_write(path, 49, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &saved), 0);
    uint32_t complete = 0, other = 0;
    if (code != 0) {
      one_line(code, &err, (long)pages);
      ck_assert_msg(code == -ENOSPC, "%d: %s", code, err.text);
      ck_assert_msg(strstr(err.text, "disk is full") != NULL && strstr(err.text, path) != NULL && strstr(err.text, ".part") == NULL, "%s", err.text);
      nothing_half_made(path, 0);
      full++;
      ck_assert_msg(open_and_write(path, 48, &err) == 0, "%s", err.text);
    } else {
      fine = 1;
    }
    must_be_sound(path, 1, &complete, &other);
    ck_assert_uint_eq(complete, 1);
    ck_assert_uint_lt(pages, 500);
  }
  ck_assert_int_gt(full, 3);
}
END_TEST

/* The log of a store that was deleted while its writer lived, or after a kill: it is no part of the new one of that name. */
START_TEST(a_log_without_its_store_is_not_taken)
{
  char path[512], log[520];
  uint32_t complete, other;
  struct kvl_err err = {""};
  struct kvl_store *store = NULL;
  (void)snprintf(path, sizeof path, "%s", fixture_path("s.db"));
  (void)snprintf(log, sizeof log, "%s-wal", path);
  remove_store(path);
  memset(&fault_vfs, 0, sizeof fault_vfs);
  ck_assert_msg(kvl_store_open_with(&store, path, &small, &err) == 0, "%s", err.text);
  ck_assert_msg(write_one(store, 3, &err) == 0 && write_one(store, 4, &err) == 0, "%s", err.text);
  ck_assert_msg(exists(log), "there is no log to be left");
  ck_assert(rename(log, fixture_path("kept")) == 0); /* closing the store would take it away */
  kvl_store_close(store);
  remove_store(path);
  ck_assert(rename(fixture_path("kept"), log) == 0);
  ck_assert_msg(open_and_write(path, 5, &err) == 0, "%s", err.text);
  must_be_sound(path, 1, &complete, &other);
  ck_assert_msg(complete == 1 && other == 0, "%u complete, %u not", complete, other);
}
END_TEST

/* ---- damage ---- */

/* Bytes of a store turn at random. Whatever comes of it: no crash, and an error is one line. */
START_TEST(random_damage_is_survived)
{
  char path[512], out[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("d.db"));
  (void)snprintf(out, sizeof out, "%s", fixture_path("d.png"));
  memset(&fault_vfs, 0, sizeof fault_vfs);
  struct kvl_err err = {""};
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "damage", 0);
  remove_store(path);
  ck_assert_int_eq(open_and_write(path, 3, &err), 0);
  static unsigned char whole[400000], bytes[400000];
  FILE *file = fopen(path, "rb");
  ck_assert_ptr_nonnull(file);
  size_t length = fread(whole, 1, sizeof whole, file);
  (void)fclose(file);
  ck_assert(length > 20000 && length < sizeof whole);
  unsigned refused = 0, damaged = 0, rounds = 300;
  for (unsigned round = 0; round < rounds; round++) {
    memcpy(bytes, whole, length);
    for (uint32_t flips = 1 + kvl_rng_below(&rng, 30); flips > 0; flips--) {
      uint32_t at = kvl_rng_below(&rng, round % 3 == 0 ? 4096 : (uint32_t)length);
      bytes[at] = (unsigned char)kvl_rng_next(&rng);
    }
    size_t kept = round % 5 == 0 ? kvl_rng_below(&rng, (uint32_t)length) : length;
    remove_store(path);
    file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, kept, file), kept);
    (void)fclose(file);
    err.text[0] = '\0';
    int code = read_all(path, out, &err);
    if (code != 0) {
      one_line(code, &err, (long)round);
      refused++;
    }
    struct kvl_store *store = NULL;
    if (kvl_store_open_with(&store, path, &reading, &err) == 0) {
      err.text[0] = '\0';
      code = kvl_store_check(store, &err);
      if (code != 0) {
        one_line(code, &err, (long)round);
        damaged++;
      }
      struct kvl_run_list list;
      if (kvl_store_list(store, &list, &err) == 0) {
        kvl_run_list_free(&list);
      }
    }
    kvl_store_close(store);
    err.text[0] = '\0';
    code = open_and_write(path, 4, &err); /* writing into a damaged file may fail; it may not crash */
    if (code != 0) {
      one_line(code, &err, (long)round);
    }
  }
  fprintf(stderr, "# %u of %u damaged stores did not read, %u were found out by the check\n", refused, rounds, damaged);
  ck_assert_uint_gt(refused, rounds / 10);
}
END_TEST

/* ---- kill -9 ---- */

START_TEST(killed_at_any_moment)
{
  char path[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("k.db"));
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "kill", (uint64_t)_i);
  memset(&fault_vfs, 0, sizeof fault_vfs);
  fault_vfs.no_sync = 1;
  fault_vfs.no_shared = _i;
  uint32_t complete_all = 0, other_all = 0, complete, other;
  for (uint64_t kill_at = 0; kill_at < 25; kill_at++) {
    (void)fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      struct kvl_err err = {""};
      struct kvl_store *store = NULL;
      int code = kvl_store_open_with(&store, path, &small, &err);
      for (uint64_t k = 0; code == 0; k++) {
        code = write_one(store, kill_at * 100000 + k, &err);
      }
      fprintf(stderr, "%s\n", err.text);
      _exit(1);
    }
    struct timespec wait = {0, (long)kvl_rng_below(&rng, 30000000)};
    (void)nanosleep(&wait, NULL);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status), "the writer ended by itself: %#x", (unsigned)status);
    if (exists(path)) {
      struct kvl_store *store = NULL;
      struct kvl_err err = {""};
      int code = kvl_store_open_with(&store, path, &reading, &err);
      ck_assert_msg(code == 0, "kill %" PRIu64 ": %s", kill_at, err.text);
      kvl_store_close(store);
      must_be_sound(path, complete_all + other_all + 1, &complete, &other);
      complete_all += complete;
      other_all += other;
      ck_assert_msg(other <= 1, "one writer leaves %u unfinished runs", other);
    }
  }
  struct kvl_store *store = NULL;
  struct kvl_run_list list;
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_store_open_with(&store, path, &reading, &err), 0);
  ck_assert_int_eq(kvl_store_list(store, &list, &err), 0);
  for (uint32_t i = 0; i < list.count; i++) {
    ck_assert_msg(list.run[i].status == KVL_STORED_COMPLETE || list.run[i].status == KVL_STORED_INCOMPLETE, "run %" PRId64 " is %s",
                  list.run[i].id, kvl_stored_status_name(list.run[i].status));
  }
  kvl_run_list_free(&list);
  kvl_store_close(store);
  fprintf(stderr, "# %s: %u runs whole, %u cut off\n", _i ? "journal" : "log", complete_all, other_all);
  ck_assert_msg(complete_all > 0 && other_all > 0, "%u complete, %u cut off: the kills missed", complete_all, other_all);
}
END_TEST

/* ---- what killed makers leave ---- */

/* Killed at the n-th change: the next one who opens the store to write takes away what is left of making it, readers do not. */
START_TEST(a_killed_maker_leaves_nothing_for_good)
{
  char path[512];
  uint32_t complete, other;
  struct kvl_err err = {""};
  (void)snprintf(path, sizeof path, "%s", fixture_path("n.db"));
  int killed = 1;
  size_t left = 0;
  for (long n = 1; killed; n++) {
    remove_store(path);
    (void)fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      struct kvl_store *store = NULL;
      memset(&fault_vfs, 0, sizeof fault_vfs);
      fault_vfs.no_sync = 1;
      fault_vfs.countdown = n;
      fault_vfs.kill = 1;
      _exit(kvl_store_open_with(&store, path, &small, &err) == 0 ? 0 : 1); /* not closed: its log stays */
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    killed = WIFSIGNALED(status);
    ck_assert_msg(killed || status == 0, "change %ld: %#x", n, (unsigned)status);
    left += parts_of(path);
    ck_assert_msg(open_and_write(path, 5, &err) == 0, "after change %ld: %s", n, err.text);
    ck_assert_msg(parts_of(path) == 0, "change %ld: a part is left", n);
    must_be_sound(path, 1, &complete, &other);
    ck_assert_uint_eq(complete, 1);
  }
  ck_assert_uint_gt(left, 10); /* the kills met the making */
}
END_TEST

static void put_file(const char *name, const char *text)
{
  FILE *file = fopen(name, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(text, file), 0);
  ck_assert_int_eq(fclose(file), 0);
}

/* _i: is the store there already? */
START_TEST(only_parts_that_are_left_over_go)
{
  static const char *const kept[] = {"o.db.0123456789abcdef.part", "o.db.0123456789abcde.part", "o.db.0123456789ABCDEF.part", "o.db.0123456789abcdef0.part",
                                     "o.db.0123456789abcdef.part.db", "other.db.0123456789abcdef.part", "o.db.1234.part"};
  static const char *const text[] = {"somebody's text", "", "", "", "", "", ""};
  enum { KEPT = sizeof kept / sizeof *kept };
  char path[512], second[512], empty[512];
  uint32_t complete, other;
  struct kvl_err err = {""};
  struct kvl_store_part live;
  (void)snprintf(path, sizeof path, "%s", fixture_path("o.db"));
  (void)snprintf(second, sizeof second, "%s", fixture_path("o.db.00000000000000aa.part"));
  (void)snprintf(empty, sizeof empty, "%s", fixture_path("o.db.00000000000000bb.part"));
  for (int i = 0; i < KEPT; i++) {
    put_file(fixture_path(kept[i]), text[i]);
  }
  if (_i) {
    ck_assert_msg(open_and_write(path, 5, &err) == 0, "%s", err.text);
    ck_assert_int_eq(link(path, second), 0); /* killed after the store got its name */
  }
  put_file(empty, "");
  ck_assert_int_eq(kvl_store_part_make(&live, path), 0);
  ck_assert_msg(open_and_write(path, 6, &err) == 0, "%s", err.text);
  ck_assert_msg(!exists(empty) && !exists(second), "a part is left");
  ck_assert_msg(exists(live.path), "a part is removed while it is made");
  kvl_store_part_end(&live);
  for (int i = 0; i < KEPT; i++) {
    ck_assert_msg(exists(fixture_path(kept[i])), "%s is gone", kept[i]);
  }
  must_be_sound(path, 1, &complete, &other);
  ck_assert_uint_eq(complete, _i ? 2 : 1);
}
END_TEST

/* ---- many writers ---- */

START_TEST(several_processes_write_at_once)
{
  enum { WRITERS = 4, RUNS = 3 };
  char path[512];
  (void)snprintf(path, sizeof path, "%s", fixture_path("w.db"));
  remove_store(path);
  memset(&fault_vfs, 0, sizeof fault_vfs);
  fault_vfs.no_sync = 1;
  fault_vfs.no_shared = _i % 2;
  common_pid = _i / 2 % 2;
  pid_t child[WRITERS];
  int gate[2];
  ck_assert_int_eq(pipe(gate), 0);
  (void)fflush(NULL);
  for (int w = 0; w < WRITERS; w++) {
    child[w] = fork();
    ck_assert_int_ge(child[w], 0);
    if (child[w] == 0) {
      char byte;
      (void)close(gate[1]);
      (void)(read(gate[0], &byte, 1) + 1); /* until the parent closes its end: all begin at once, with no file there */
      struct kvl_err err = {""};
      struct kvl_store *store = NULL;
      int code = kvl_store_open_with(&store, path, &small, &err);
      for (int r = 0; r < RUNS && code == 0; r++) {
        code = write_one(store, (uint64_t)(w * 100 + r), &err);
      }
      kvl_store_close(store);
      if (code != 0) {
        fprintf(stderr, "# writer %d: %s\n", w, err.text);
      }
      _exit(code == 0 ? 0 : 1);
    }
  }
  (void)close(gate[0]);
  (void)close(gate[1]);
  for (int w = 0; w < WRITERS; w++) {
    int status = 0;
    ck_assert_int_eq(waitpid(child[w], &status, 0), child[w]);
    ck_assert_msg(status == 0, "writer %d: %#x", w, (unsigned)status);
  }
  uint32_t complete, other;
  must_be_sound(path, 1, &complete, &other);
  ck_assert_uint_eq(complete, WRITERS * RUNS);
  ck_assert_uint_eq(other, 0);
}
END_TEST

static void setup(void)
{
  fixture_folder_make();
}

static void teardown(void)
{
  memset(&fault_vfs, 0, sizeof fault_vfs);
  common_pid = 0;
  (void)fault_alloc_disarm();
  fixture_folder_remove();
}

int main(int argc, char **argv)
{
  seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  printf("# seed %" PRIu64 "\n", seed);
  (void)fflush(stdout);
  if (!fault_sqlite_install(true)) {
    return 1;
  }
  fault_vfs_install();
  TCase *tcase = tcase_create("fault_store");
  tcase_set_timeout(tcase, 120);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, every_change_of_a_file_fails_once, 0, 8);
  tcase_add_test(tcase, every_allocation_fails_once);
  tcase_add_test(tcase, every_allocation_of_a_reader_fails_once);
  tcase_add_test(tcase, a_picture_does_not_survive_a_full_disk);
  tcase_add_loop_test(tcase, a_size_limit_is_a_full_disk, 0, 2);
  tcase_add_test(tcase, a_log_without_its_store_is_not_taken);
  tcase_add_test(tcase, random_damage_is_survived);
  tcase_add_loop_test(tcase, killed_at_any_moment, 0, 2);
  tcase_add_test(tcase, a_killed_maker_leaves_nothing_for_good);
  tcase_add_loop_test(tcase, only_parts_that_are_left_over_go, 0, 2);
  tcase_add_loop_test(tcase, several_processes_write_at_once, 0, 20);
  return kvl_tap_run_case("fault_store", tcase);
}
