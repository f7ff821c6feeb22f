/* Files beside their name until they are whole: two writers of one name do not meet, even with one process id, and other files stay. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/place.h"
#include "tests/base/tap.h"

static char folder[] = "place-XXXXXX";

static const char *in_folder(const char *name)
{
  static char path[64];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void must_hold(const char *name, const char *text)
{
  char read[64] = "";
  FILE *file = fopen(in_folder(name), "r");
  ck_assert_msg(file != NULL, "%s: %s", name, strerror(errno));
  size_t length = fread(read, 1, sizeof read - 1, file);
  (void)fclose(file);
  read[length] = '\0';
  ck_assert_str_eq(read, text);
}

static void make_folder(void)
{
  (void)snprintf(folder, sizeof folder, "place-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Every test says what is in the folder: with that gone it is empty. */
static void must_be_left(const char *const *name, unsigned count)
{
  for (unsigned i = 0; i < count; i++) {
    ck_assert_int_eq(unlink(in_folder(name[i])), 0);
  }
  ck_assert_msg(rmdir(folder) == 0, "something else is left: %s", strerror(errno));
}

static int write_second(FILE *out, const void *context)
{
  struct kvl_err err = {""};
  (void)fputs("first", out);
  ck_assert_msg(kvl_place_write_text(context, "second", &err) == 0, "%s", err.text);
  must_hold("a", "second");
  return 0;
}

START_TEST(two_writers_of_one_name_do_not_meet)
{
  struct kvl_err err = {""};
  make_folder();
  char path[64];
  (void)snprintf(path, sizeof path, "%s", in_folder("a"));
  ck_assert_msg(kvl_place_write(path, write_second, path, &err) == 0, "%s", err.text);
  must_hold("a", "first");
  must_be_left((const char *const[]){"a"}, 1);
}
END_TEST

START_TEST(a_file_with_a_name_like_a_part_stays)
{
  struct kvl_err err = {""};
  char like[32], path[64];
  make_folder();
  (void)snprintf(path, sizeof path, "%s", in_folder("a"));
  (void)snprintf(like, sizeof like, "a.%ld.part", (long)getpid());
  ck_assert_int_eq(kvl_place_write_text(in_folder(like), "mine", &err), 0);
  ck_assert_msg(kvl_place_write_text(path, "text", &err) == 0, "%s", err.text);
  must_hold(like, "mine");
  must_hold("a", "text");
  must_be_left((const char *const[]){"a", like}, 2);
}
END_TEST

static int fails(FILE *out, const void *context)
{
  (void)context;
  (void)fputs("half", out);
  return -ENOSPC;
}

START_TEST(what_fails_leaves_the_file_as_it_was)
{
  struct kvl_err err = {""};
  char path[64];
  make_folder();
  (void)snprintf(path, sizeof path, "%s", in_folder("a"));
  ck_assert_int_eq(kvl_place_write(path, fails, NULL, &err), -ENOSPC);
  ck_assert_int_eq(kvl_place_write_text(path, "old", &err), 0);
  ck_assert_int_eq(kvl_place_write(path, fails, NULL, &err), -ENOSPC);
  must_hold("a", "old");
  must_be_left((const char *const[]){"a"}, 1);
}
END_TEST

START_TEST(the_mode_is_that_of_any_file)
{
  struct kvl_err err = {""};
  struct stat info;
  make_folder();
  mode_t mask = umask(027);
  ck_assert_int_eq(kvl_place_write_text(in_folder("a"), "text", &err), 0);
  (void)umask(mask);
  ck_assert_int_eq(stat(in_folder("a"), &info), 0);
  ck_assert_uint_eq(info.st_mode & 0777, 0640);
  must_be_left((const char *const[]){"a"}, 1);
}
END_TEST

KVL_TAP_MAIN("place", two_writers_of_one_name_do_not_meet, a_file_with_a_name_like_a_part_stays, what_fails_leaves_the_file_as_it_was, the_mode_is_that_of_any_file)
