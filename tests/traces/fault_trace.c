/* Selection traces that are damaged, cut off or cannot be written: everything is noticed, said in one line, and nothing that looks whole is left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_util.h"
#include "trace_make.h"

enum { SEED = 11, SESSIONS = 3 };

static char *small_trace(const char *path, size_t *size)
{
  struct kvl_trace_meta meta = made_meta(SEED, true);
  struct kvl_err err = {""};
  int code = make_trace(path, &meta, SEED, SESSIONS, &err);
  ck_assert_msg(code == 0, "%s", err.text);
  return read_bytes(path, size);
}

/* Opens and reads everything; the code of the first failure, or 0. */
static int read_all(const char *path, struct kvl_err *err)
{
  struct kvl_trace *trace;
  int code = kvl_trace_open(&trace, path, err);
  if (code == 0)
    code = kvl_trace_check(trace, NULL, err);
  kvl_trace_close(trace);
  return code;
}

static void one_line_naming(const struct kvl_err *err, const char *path)
{
  ck_assert_msg(strncmp(err->text, path, strlen(path)) == 0, "the file is not named: %s", err->text);
  ck_assert_msg(strchr(err->text, '\n') == NULL, "more than one line: %s", err->text);
  ck_assert_msg(strlen(err->text) > strlen(path) + 10, "no reason: %s", err->text);
}

START_TEST(cut_at_every_length)
{
  const char *path = temp_name("cut.kvt");
  size_t size;
  char *bytes = small_trace(path, &size);
  ck_assert_int_eq(read_all(path, NULL), 0);
  for (size_t length = 0; length < size; length++) {
    struct kvl_err err = {""};
    ck_assert_int_eq(truncate(path, (off_t)(size - 1 - length)), 0); /* shorter and shorter */
    ck_assert_msg(read_all(path, &err) == -ENODATA, "%zu of %zu bytes: '%s'", size - 1 - length, size, err.text);
    one_line_naming(&err, path);
    ck_assert_msg(strstr(err.text, "cut off") || strstr(err.text, "empty"), "%s", err.text);
  }
  free(bytes);
  unlink(path);
}
END_TEST

START_TEST(every_byte_flipped)
{
  static const unsigned char mask[] = {0x01, 0x80, 0xff};
  const char *path = temp_name("flip.kvt");
  size_t size;
  char *bytes = small_trace(path, &size);
  int fd = open(path, O_RDWR);
  unsigned in_chunks = 0;
  ck_assert_int_ge(fd, 0);
  for (size_t at = 0; at < size; at++) {
    for (unsigned m = 0; m < sizeof(mask); m++) {
      struct kvl_err err = {""};
      char flipped = (char)((unsigned char)bytes[at] ^ mask[m]);
      ck_assert_int_eq(pwrite(fd, &flipped, 1, (off_t)at), 1);
      ck_assert_msg(read_all(path, &err) < 0, "byte %zu of %zu flipped by %02x goes unnoticed", at, size, mask[m]);
      one_line_naming(&err, path);
      in_chunks += strstr(err.text, ": chunk ") != NULL;
    }
    ck_assert_int_eq(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
  }
  ck_assert_int_eq(read_all(path, NULL), 0);
  ck_assert_uint_gt(in_chunks, 1000); /* damage in a chunk is blamed on the chunk */
  close(fd);
  free(bytes);
  unlink(path);
}
END_TEST

START_TEST(bytes_lost_or_added)
{
  const char *path = temp_name("shift.kvt");
  size_t size;
  char *bytes = small_trace(path, &size), *changed = malloc(size + 8);
  struct kvl_err err = {""};
  for (size_t at = 0; at < size; at += 7) { /* eight bytes too many, eight too few */
    memcpy(changed, bytes, at);
    memset(changed + at, 0, 8);
    memcpy(changed + at + 8, bytes + at, size - at);
    write_bytes(path, changed, size + 8);
    ck_assert_int_lt(read_all(path, &err), 0);
    if (at + 8 < size) {
      memcpy(changed, bytes, at);
      memcpy(changed + at, bytes + at + 8, size - at - 8);
      write_bytes(path, changed, size - 8);
      ck_assert_int_lt(read_all(path, &err), 0);
    }
  }
  /* Two traces in one file. */
  free(changed);
  changed = malloc(2 * size);
  memcpy(changed, bytes, size);
  memcpy(changed + size, bytes, size);
  write_bytes(path, changed, 2 * size);
  ck_assert_int_lt(read_all(path, &err), 0);
  free(changed);
  free(bytes);
  unlink(path);
}
END_TEST

START_TEST(other_files)
{
  static const struct {
    const char *content, *says;
  } other[] = {
    {"hello", "not a selection trace"},
    {"{\"timestamp\": 0}", "not a selection trace: looks like JSON"},
    {"trace,agent,t_s", "not a selection trace: looks like an agent workload"},
    {"SQLite format 3", "not a selection trace: looks like an SQLite database"},
    {"\x28\xb5\x2f\xfd....", "looks like zstd data"},
    {"KVLTRACE\x02\0\0\0", "cut off in its header"},
    {"K", "cut off in its header"},
    {"X", "not a selection trace"},
  };
  const char *path = temp_name("other.kvt");
  struct kvl_trace *trace;
  struct kvl_err err = {""};
  for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
    write_bytes(path, other[i].content, strlen(other[i].content));
    ck_assert_int_lt(read_all(path, &err), 0);
    ck_assert_msg(strstr(err.text, other[i].says) != NULL, "'%s' lacks '%s'", err.text, other[i].says);
  }
  unlink(path);
  ck_assert_int_eq(kvl_trace_open(&trace, path, &err), -ENOENT);
  one_line_naming(&err, path);
  ck_assert_int_eq(kvl_trace_open(&trace, "/", &err), -EISDIR);
  ck_assert_int_eq(kvl_trace_open(&trace, "/dev/null", &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "a pipe or a device"));
  ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody writes: refused without waiting */
  ck_assert_int_eq(kvl_trace_open(&trace, path, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "a pipe or a device"));
  unlink(path);
}
END_TEST

START_TEST(newer_version)
{
  const char *path = temp_name("newer.kvt");
  size_t size;
  char *bytes = small_trace(path, &size);
  struct kvl_err err = {""};
  bytes[8] = 2;
  write_bytes(path, bytes, size);
  ck_assert_int_eq(read_all(path, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "the trace is of version 2; this program reads versions up to 1: a newer kvloan is needed"));
  free(bytes);
  unlink(path);
}
END_TEST

/* How many files of this process's naming stand beside `path`, it included? */
static unsigned left_over(const char *path)
{
  const char *name = strrchr(path, '/') + 1;
  char folder[512];
  DIR *dir;
  unsigned count = 0;
  snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path);
  dir = opendir(folder);
  if (!dir)
    return 1000; /* no ck_assert here: write_within_limits calls it where Check's files cannot be written */
  for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
    count += strncmp(entry->d_name, name, strlen(name)) == 0;
  closedir(dir);
  return count;
}

/* Writes traces with ever more room. In a process of its own: the limit would hit Check's own files too. Returns the limit that went wrong, 0: none. */
static int write_within_limits(const char *path, size_t size)
{
  struct kvl_trace_meta meta = made_meta(SEED, true);
  int status = 0;
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    for (size_t limit = 1; limit < size; limit += limit < size - 200 ? 97 : 1) {
      struct rlimit rlimit = {limit, RLIM_INFINITY};
      struct kvl_err err = {""};
      if (setrlimit(RLIMIT_FSIZE, &rlimit) != 0 || make_trace(path, &meta, SEED, SESSIONS, &err) != -EFBIG || left_over(path) != 0 ||
          strncmp(err.text, path, strlen(path)) != 0 || !strstr(err.text, "cannot be written") || strchr(err.text, '\n'))
        _exit(1);
    }
    _exit(0);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The disk fills up, at any byte. */
START_TEST(write_fails_anywhere)
{
  const char *path = temp_name("full.kvt");
  struct kvl_trace_meta meta = made_meta(SEED, true);
  struct kvl_err err = {""};
  size_t size;
  char *bytes = small_trace(path, &size), *again;
  unlink(path);
  ck_assert_int_eq(write_within_limits(path, size), 0);
  ck_assert_int_eq(make_trace(path, &meta, SEED, SESSIONS, &err), 0);
  ck_assert_uint_eq(left_over(path), 1);
  again = read_bytes(path, &size);
  ck_assert_int_eq(memcmp(bytes, again, size), 0); /* the same steps, the same bytes */
  free(bytes);
  free(again);
  unlink(path);
}
END_TEST

START_TEST(old_file_stays_until_the_new_is_whole)
{
  const char *path = temp_name("old.kvt");
  struct kvl_trace_meta meta = made_meta(SEED, true);
  struct kvl_trace_writer *writer;
  struct kvl_err err = {""};
  uint32_t id;
  struct stat status;
  write_bytes(path, "old", 3);
  ck_assert_int_eq(kvl_trace_writer_create(&writer, path, &meta, &err), 0);
  ck_assert_int_eq(kvl_trace_writer_begin(writer, 10, &id, &err), 0);
  ck_assert_uint_eq(left_over(path), 2);
  kvl_trace_writer_abort(writer);
  ck_assert_uint_eq(left_over(path), 1);
  ck_assert_int_eq(stat(path, &status), 0);
  ck_assert_int_eq(status.st_size, 3);
  ck_assert_int_eq(make_trace(path, &meta, SEED, SESSIONS, &err), 0);
  ck_assert_int_eq(read_all(path, &err), 0);
  unlink(path);
}
END_TEST

START_TEST(full_device)
{
  struct kvl_trace_meta meta = made_meta(SEED, true);
  struct kvl_err err = {""};
  struct stat status;
  ck_assert_int_eq(make_trace("/dev/full", &meta, SEED, SESSIONS, &err), -ENOSPC);
  ck_assert_ptr_nonnull(strstr(err.text, "/dev/full: cannot be written, at byte 0: No space left on device"));
  ck_assert_int_eq(stat("/dev/full", &status), 0);
  ck_assert(S_ISCHR(status.st_mode)); /* and the device is still one */
}
END_TEST

START_TEST(folders_that_take_no_file)
{
  const char *folder = temp_name("folder");
  char path[600];
  struct kvl_trace_meta meta = made_meta(SEED, true);
  struct kvl_err err = {""};
  ck_assert_int_eq(mkdir(folder, 0755), 0);
  snprintf(path, sizeof(path), "%s/missing/x.kvt", folder);
  ck_assert_int_eq(make_trace(path, &meta, SEED, SESSIONS, &err), -ENOENT);
  one_line_naming(&err, path);
  ck_assert_int_eq(make_trace(folder, &meta, SEED, SESSIONS, &err), -EISDIR);
  ck_assert_int_eq(chmod(folder, 0555), 0);
  snprintf(path, sizeof(path), "%s/x.kvt", folder);
  if (geteuid() != 0 || seteuid(65534) == 0) { /* root may write anywhere: be nobody (this test is a process of its own) */
    int code = make_trace(path, &meta, SEED, SESSIONS, &err);
    if (geteuid() == 65534)
      ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(code, -EACCES);
    one_line_naming(&err, path);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot be made: Permission denied"));
  }
  ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(source_of_a_damaged_file)
{
  const char *path = temp_name("source.kvt");
  struct kvl_trace_meta meta = made_meta(SEED, true);
  struct kvl_selection_source *source = NULL;
  struct kvl_selection_stream *stream;
  struct kvl_selection_shape other = meta.shape;
  struct kvl_err err = {""};
  const int32_t *rows;
  size_t size;
  char *bytes = small_trace(path, &size);

  other.point[1].k = 2048;
  ck_assert_int_eq(kvl_source_open_trace(&source, path, &other, 1, &err), -EINVAL);
  one_line_naming(&err, path);
  ck_assert_ptr_nonnull(strstr(err.text, "a trace of another shape (made-up): point 1 selects 33 rows in the trace, 2048 in the model"));
  bytes[300] ^= 1; /* in a chunk: open notices, since it verifies them all */
  write_bytes(path, bytes, size);
  ck_assert_int_eq(kvl_source_open_trace(&source, path, &meta.shape, 1, &err), -EBADMSG);
  ck_assert_ptr_nonnull(strstr(err.text, ": chunk "));
  ck_assert_ptr_null(source);
  /* Damaged after it was opened: streams give no rows, and the source says why. */
  bytes[300] ^= 1;
  write_bytes(path, bytes, size);
  ck_assert_int_eq(kvl_source_open_trace(&source, path, &meta.shape, 1, &err), 0);
  ck_assert_int_eq(kvl_source_status(source, &err), 0);
  ck_assert_int_eq(truncate(path, 310), 0);
  stream = kvl_stream_create(source, 1000, 1);
  ck_assert_uint_eq(kvl_stream_rows(stream, 0, 0, &rows), 0); /* before the first step there are none */
  kvl_stream_start(stream, 0, 500);
  ck_assert_uint_eq(kvl_stream_rows(stream, 0, 0, &rows), 0);
  kvl_stream_step(stream, 500, 1);
  ck_assert_uint_eq(kvl_stream_rows(stream, 0, 0, &rows), 0);
  ck_assert_int_eq(kvl_source_status(source, &err), -ENODATA);
  one_line_naming(&err, path);
  kvl_stream_destroy(stream);
  kvl_source_close(source);
  free(bytes);
  unlink(path);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("trace faults");
  TCase *tcase = tcase_create("faults");
  tcase_set_timeout(tcase, 300);
  tcase_add_test(tcase, cut_at_every_length);
  tcase_add_test(tcase, every_byte_flipped);
  tcase_add_test(tcase, bytes_lost_or_added);
  tcase_add_test(tcase, other_files);
  tcase_add_test(tcase, newer_version);
  tcase_add_test(tcase, source_of_a_damaged_file);
  tcase_add_test(tcase, write_fails_anywhere);
  tcase_add_test(tcase, old_file_stays_until_the_new_is_whole);
  tcase_add_test(tcase, full_device);
  tcase_add_test(tcase, folders_that_take_no_file);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
