/* Small helpers shared by the tests of traces/: files with given content, a runner that speaks TAP. */
#ifndef KVL_TESTS_TRACES_TEST_UTIL_H
#define KVL_TESTS_TRACES_TEST_UTIL_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file name of this process in the folder for temporary files; unlink it when done. */
static inline const char *temp_name(const char *name)
{
  static char path[4][512];
  static unsigned turn;
  const char *folder = getenv("TMPDIR");
  char *result = path[turn++ % 4];
  snprintf(result, sizeof(path[0]), "%s/kvl-%ld-%s", folder ? folder : "/tmp", (long)getpid(), name);
  return result;
}

static inline void write_bytes(const char *path, const void *bytes, size_t count)
{
  FILE *f = fopen(path, "wb");
  ck_assert_msg(f != NULL, "cannot write %s", path);
  ck_assert_uint_eq(fwrite(bytes, 1, count, f), count);
  ck_assert_int_eq(fclose(f), 0);
}

/* The whole file, with a NUL behind it; free() it. */
static inline char *read_bytes(const char *path, size_t *count)
{
  FILE *f = fopen(path, "rb");
  char *bytes;
  long size;
  ck_assert_msg(f != NULL, "cannot read %s", path);
  ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
  size = ftell(f);
  ck_assert_int_ge(size, 0);
  rewind(f);
  bytes = malloc((size_t)size + 1);
  ck_assert_ptr_nonnull(bytes);
  ck_assert_uint_eq(fread(bytes, 1, (size_t)size, f), (size_t)size);
  bytes[size] = '\0';
  fclose(f);
  *count = (size_t)size;
  return bytes;
}

static inline int run_suite(Suite *suite)
{
  SRunner *runner = srunner_create(suite);
  int failed;
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? 1 : 0;
}

#endif
