/* Reading published rows: numbers, ranges, and every way to get a line wrong. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/reproduce.h"
#include "tests/base/tap.h"

static const char header[] = "id,mode,speculation,concurrency,metric,unit,value,repeat,note\n";
static struct kvl_published_row rows[KVL_PUBLISHED_ROWS_MAX];

/* Reads the header and `body`; the message, if any, has the file's name cut off. */
static int parse(const char *body, uint32_t *count, char *message, size_t size)
{
  char path[] = "/tmp/kvl-published-XXXXXX";
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  FILE *f = fdopen(fd, "w");
  ck_assert_ptr_nonnull(f);
  (void)fputs(header, f);
  (void)fputs(body, f);
  ck_assert_int_eq(fclose(f), 0);
  struct kvl_err err = {""};
  int rc = kvl_published_read(path, rows, count, &err);
  ck_assert_ptr_null(strchr(err.text, '\n'));
  ck_assert(rc == 0 || strncmp(err.text, path, strlen(path)) == 0);
  (void)snprintf(message, size, "%s", rc == 0 ? "" : err.text + strlen(path));
  (void)unlink(path);
  return rc;
}

START_TEST(values)
{
  static const struct {
    const char *text;
    double low, high;
  } good[] = {{"46", 46, 46}, {"1.2..1.4", 1.2, 1.4}, {"-3..-7", -7, -3}, {"24/24", 24, 24}, {"-0.5", -0.5, -0.5}, {"1e3", 1000, 1000}, {"0..0", 0, 0}};
  char message[256], line[256];
  uint32_t count;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    (void)snprintf(line, sizeof line, "P01,resident,none,256,metric,unit,%s,,a note, with a comma\r\n\n", good[i].text);
    ck_assert_msg(parse(line, &count, message, sizeof message) == 0, "%s: %s", good[i].text, message);
    ck_assert_uint_eq(count, 1);
    ck_assert(rows[0].low == good[i].low && rows[0].high == good[i].high && rows[0].repeat == 0);
    ck_assert_str_eq(rows[0].id, "P01");
    ck_assert_str_eq(rows[0].metric, "metric");
  }
  ck_assert_int_eq(parse("P02,m,none,1,x,y,3,2.5,n\nP03,m,none,1,x,y,4,", &count, message, sizeof message), 0);
  ck_assert_uint_eq(count, 2);
  ck_assert(rows[0].repeat == 2.5 && rows[1].low == 4);
}
END_TEST

/* What a reader expects beside a range: how far it is to the nearer end. */
START_TEST(misses_of_a_range)
{
  static const struct {
    double low, high, simulated_low, simulated_high, percent;
  } cases[] = {
    {1, 2.6, 0.25, 0.25, -75}, {1, 2.6, 1, 2.6, 0}, {1, 2.6, 1.5, 2, 0}, {1, 2.6, 2, 3.9, 50}, {-7, -3, -8.4, -4, -20}, {-7, -3, -5, -1.5, 50},
    {1, 2, 0.5, 2.25, -50}, {1, 2, 0.9, 4, 100}, {0, 4, -1, 2, -25}, {-4, 0, -2, 1, 25},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double percent = kvl_range_miss_percent(cases[i].low, cases[i].high, cases[i].simulated_low, cases[i].simulated_high);
    ck_assert_msg(percent > cases[i].percent - 1e-9 && percent < cases[i].percent + 1e-9, "case %zu: %g", i, percent);
  }
}
END_TEST

START_TEST(bad_lines)
{
  static const struct {
    const char *body, *message;
  } bad[] = {
    {"", ": no rows"},
    {"P01,resident,none,256,metric,unit\n", ":2: not a row of "},
    {"P01,m,none,1,x,y,1,,\nP02,m,none,1,x,y,1..x,,\n", ":3: value '1' is neither a number nor a range low..high"},
    {"P01,m,none,1,x,y,many,,\n", ":2: value 'many' is neither"},
    {"P01,m,none,1,x,y,,,\n", ":2: value '' is neither"},
    {"P01234567,m,none,1,x,y,1,,\n", ":2: not a row of "},
    {"P01,m,none,1,\"x\",y,1,,\n", ":2: not a row of "},
    {"P01,m,none,1,x,y\x1b[2J,1,,\n", ":2: not a row of "},
    {"P01,m,none,1,x,y,nan,,\n", ":2: value 'nan' is neither"},
    {"P01,m,none,1,x,y,1..1e999,,\n", ":2: value '1' is neither"},
    {"P01,m,none,1,x,y,1,1x,\n", ":2: repeat '1x' is not a number"},
    {"P01,m,none,1,x,y,1,inf,\n", ":2: repeat 'inf' is not a number"},
    {"P01,m,none,1,x,y,1,,\nP02,m,none,1,x,y,1,,\nP01,m,none,1,x,y,2,,\n", ":4: row P01 is there twice"},
  };
  char message[256];
  uint32_t count;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ck_assert_int_eq(parse(bad[i].body, &count, message, sizeof message), -EINVAL);
    ck_assert_msg(strncmp(message, bad[i].message, strlen(bad[i].message)) == 0, "'%s', not '%s'", message, bad[i].message);
  }
  static char many[16384];
  for (int i = 0; i < 70; i++) {
    (void)snprintf(many + strlen(many), sizeof many - strlen(many), "P%02d,m,none,1,x,y,1,,\n", i);
  }
  ck_assert_int_eq(parse(many, &count, message, sizeof message), -EINVAL);
  ck_assert_str_eq(message, ":66: more than 64 rows");
  struct kvl_err err;
  ck_assert_int_eq(kvl_published_read("/nowhere/published.csv", rows, &count, &err), -ENOENT);
}
END_TEST

START_TEST(the_project_s_own)
{
  uint32_t count;
  struct kvl_err err = {""};
  ck_assert_msg(kvl_published_read(KVL_SCENARIOS "/published.csv", rows, &count, &err) == 0, "%s", err.text);
  ck_assert_uint_ge(count, 17);
  for (uint32_t i = 0; i < count; i++) {
    ck_assert(rows[i].low <= rows[i].high);
  }
}
END_TEST

KVL_TAP_MAIN("published", values, misses_of_a_range, bad_lines, the_project_s_own)
