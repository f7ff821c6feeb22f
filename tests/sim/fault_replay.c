/* Recording and replaying where memory or the disk runs out, at every n-th call: one clear line, nothing lost, and no log unless it is whole. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/replay.h"
#include "tests/base/fault_each.h"
#include "tests/base/tap.h"
#include "tests/sim/replaying.h"
#include "tests/sim/tiny.h"

size_t __real_fwrite(const void *bytes, size_t size, size_t count, FILE *file);
int __real_fflush(FILE *file);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_mkstemp(char *name);
FILE *__real_fdopen(int fd, const char *mode);
size_t __wrap_fwrite(const void *bytes, size_t size, size_t count, FILE *file);
int __wrap_fflush(FILE *file);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkstemp(char *name);
FILE *__wrap_fdopen(int fd, const char *mode);

static struct {
  bool armed, fired;
  long left;
} disk;

static bool disk_fails(void)
{
  if (!disk.armed || disk.left-- > 0) {
    return false;
  }
  disk.fired = true;
  disk.left = 0; /* a full disk stays full */
  errno = ENOSPC;
  return true;
}

size_t __wrap_fwrite(const void *bytes, size_t size, size_t count, FILE *file)
{
  return disk_fails() ? 0 : __real_fwrite(bytes, size, count, file);
}

int __wrap_fflush(FILE *file)
{
  return disk_fails() ? EOF : __real_fflush(file);
}

int __wrap_fsync(int fd)
{
  return disk_fails() ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
  return disk_fails() ? -1 : __real_rename(from, to);
}

int __wrap_mkstemp(char *name)
{
  return disk_fails() ? -1 : __real_mkstemp(name);
}

FILE *__wrap_fdopen(int fd, const char *mode)
{
  return disk_fails() ? NULL : __real_fdopen(fd, mode);
}

static char folder[32], path[64];
static struct tiny tiny;
static struct jittering jitter;

static void set_up(void)
{
  (void)snprintf(folder, sizeof folder, "/tmp/kvl-record-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  (void)snprintf(path, sizeof path, "%s/a.log", folder);
  tiny_init(&tiny);
  tiny.s.workload.requests = 6;
  tiny.s.workload.concurrency = 3;
  tiny.s.workload.input_tokens = 40;
  tiny.s.workload.output_tokens = 12;
  tiny.verify = false;
  tiny.no_check = true;
  tiny_pools(&tiny, 52, 2, 3, 3);
  jitter = (struct jittering){.config = {.seed = 3, .step_ns = 20000, .copy_ns = 40000}, .gpus = 1};
  tiny.wrap = wrap_jitter;
  tiny.wrap_context = &jitter;
  tiny.record = path;
}

static unsigned files_in_folder(void)
{
  unsigned count = 0;
  DIR *dir = opendir(folder);
  ck_assert_ptr_nonnull(dir);
  for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
    count += e->d_name[0] != '.';
  }
  (void)closedir(dir);
  return count;
}

static void tear_down(void)
{
  (void)unlink(path);
  (void)rmdir(folder);
}

static int record_tiny(void *context, struct kvl_err *err)
{
  static struct tiny_result r;
  return tiny_run(context, &r, err);
}

/* What cannot be recorded leaves no file. */
static void count_files(int rc)
{
  ck_assert_uint_eq(files_in_folder(), rc == 0);
}

START_TEST(recording_without_memory)
{
  fault_each_allocation(record_tiny, count_files, &tiny);
}
END_TEST

START_TEST(recording_on_a_full_disk)
{
  static struct tiny_result r;
  long n = 0;
  for (;; n++) {
    struct kvl_err err = {""};
    disk.armed = true;
    disk.fired = false;
    disk.left = n;
    int rc = tiny_run(&tiny, &r, &err);
    disk.armed = false;
    if (!disk.fired) {
      ck_assert_msg(rc == 0, "%s", err.text);
      break;
    }
    ck_assert_msg(rc == -ENOSPC && strstr(err.text, path) != NULL, "write %ld: %d, %s", n, rc, err.text);
    check_one_line(&err);
    ck_assert_uint_eq(files_in_folder(), 0);
  }
  ck_assert_int_gt(n, 100);
  ck_assert_uint_eq(files_in_folder(), 1);
}
END_TEST

/* A log that is there already stays as it is until the new one is whole. */
START_TEST(an_older_log_survives)
{
  static struct tiny_result r;
  struct kvl_err err = {""};
  struct kvl_log *log = NULL;
  ck_assert_msg(tiny_run(&tiny, &r, &err) == 0, "%s", err.text);
  disk.armed = true;
  disk.left = 50;
  int rc = tiny_run(&tiny, &r, &err);
  disk.armed = false;
  ck_assert_msg(rc == -ENOSPC, "%d: %s", rc, err.text);
  ck_assert_msg(kvl_log_open(&log, path, &err) == 0, "%s", err.text);
  kvl_log_free(log);
}
END_TEST

static struct replaying replaying;

static int replay_tiny(void *context, struct kvl_err *err)
{
  static struct tiny_result r;
  struct kvl_log *log = NULL;
  int rc = kvl_log_open(&log, path, err);
  if (rc == 0) {
    replaying.log = log;
    rc = tiny_run(context, &r, err);
    kvl_log_free(log);
  }
  return rc;
}

START_TEST(replaying_without_memory)
{
  static struct tiny_result r;
  struct kvl_err err = {""};
  ck_assert_msg(tiny_run(&tiny, &r, &err) == 0, "%s", err.text);
  struct tiny t = tiny;
  replaying = (struct replaying){.gpus = 1};
  t.record = NULL;
  t.wrap = wrap_replay;
  t.wrap_context = &replaying;
  fault_each_allocation(replay_tiny, NULL, &t);
  ck_assert(replaying.report.failed == 0 && replaying.report.steps_differ == 0);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("record and replay faults");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  tcase_add_test(tcase, recording_without_memory);
  tcase_add_test(tcase, recording_on_a_full_disk);
  tcase_add_test(tcase, an_older_log_survives);
  tcase_add_test(tcase, replaying_without_memory);
  return kvl_tap_run_case("record and replay faults", tcase);
}
