/* The decision log: its lines, its reader, and what a replay says of a log that was tampered with. */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "backend/base/rng.h"
#include "tests/base/tap.h"
#include "tests/sim/replaying.h"
#include "tests/sim/tiny.h"

enum { LOG_MAX = 1 << 20 };

static struct tiny tiny;
static char whole[LOG_MAX]; /* a log in which everything happens */

static void check_line(const char *text)
{
  ck_assert_msg(text[0] != '\0' && strchr(text, '\n') == NULL, "not one clear line: '%s'", text);
}

/* Two GPUs, pages that come, go, are kept; a client that leaves. */
static void scenario(void)
{
  tiny_init(&tiny);
  tiny.s.node.decode_gpus = 2;
  tiny.s.workload.requests = 10;
  tiny.s.workload.concurrency = 7;
  tiny.s.workload.input_tokens = 40;
  tiny.s.workload.output_tokens = 14;
  tiny.s.limits.request_timeout_ns = 700000;
  tiny.verify = false;
  tiny_pools(&tiny, 54, 3, 4, 6);
}

static void record(void)
{
  static struct tiny_result result;
  char path[] = "/tmp/kvl-log-XXXXXX";
  struct kvl_err err = {""};
  scenario();
  struct jittering j = {.config = {.seed = 5, .step_ns = 30000, .copy_ns = 90000, .late_ns = 500}, .gpus = tiny.s.node.decode_gpus};
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  (void)close(fd);
  tiny.record = path;
  tiny.wrap = wrap_jitter;
  tiny.wrap_context = &j;
  tiny.bytes = true;
  ck_assert_msg(tiny_run(&tiny, &result, &err) == 0, "%s", err.text);
  FILE *f = fopen(path, "rb");
  ck_assert_ptr_nonnull(f);
  size_t n = fread(whole, 1, sizeof whole - 1, f);
  (void)fclose(f);
  (void)unlink(path);
  whole[n] = '\0';
  ck_assert_uint_lt(n, sizeof whole - 1);
  tiny.record = NULL;
  tiny.bytes = false;
}

/* A new last line, so that the log is whole again. */
static void seal(char *text)
{
  char *end = strstr(text, "\nend ");
  ck_assert_ptr_nonnull(end);
  end[1] = '\0';
  uint64_t lines = 0;
  for (const char *p = text; *p != '\0'; p++) {
    lines += *p == '\n';
  }
  (void)snprintf(end + 1, LOG_MAX - (size_t)(end + 1 - text), "end complete %" PRIu64 " %016" PRIx64 "\n", lines - 4,
                 (uint64_t)XXH64(text, strlen(text), 0)); /* `text` has LOG_MAX bytes */
}

static int replay(const char *text, struct kvl_replay_report *report, struct kvl_err *err)
{
  static struct tiny_result result;
  struct kvl_log *log = NULL;
  int rc = kvl_log_parse(&log, "x.log", text, strlen(text), err);
  if (rc != 0) {
    return rc;
  }
  struct replaying r = {.log = log, .gpus = tiny.s.node.decode_gpus};
  tiny.wrap = wrap_replay;
  tiny.wrap_context = &r;
  tiny.no_check = true; /* it would be the first to say that times are odd */
  rc = tiny_run(&tiny, &result, err);
  *report = r.report;
  if (rc == 0 && r.report.failed != 0) {
    rc = kvl_err_set(err, r.report.failed, "%s", r.report.why.text);
  }
  kvl_log_free(log);
  return rc;
}

/* Appends [from, to) to what is at `at`; to NULL: up to its end. */
static char *add(char *at, const char *from, const char *to)
{
  size_t bytes = to == NULL ? strlen(from) : (size_t)(to - from);
  memcpy(at, from, bytes);
  at[bytes] = '\0';
  return at + bytes;
}

/* The start of line `number`, counted from 1. */
static char *line_at(char *text, unsigned number)
{
  for (; number > 1; number--) {
    text = strchr(text, '\n') + 1;
  }
  return text;
}

/* Line number of the n-th line (from 0) that starts with `start` and holds `part`; 0: there is none. */
static unsigned find(const char *start, const char *part, unsigned n)
{
  unsigned number = 1;
  for (const char *p = whole; *p != '\0'; p = strchr(p, '\n') + 1, number++) {
    size_t bytes = (size_t)(strchr(p, '\n') - p);
    char line[KVL_LOG_LINE_CAP] = "";
    if (number <= 4 || bytes >= sizeof line) {
      continue;
    }
    memcpy(line, p, bytes);
    line[bytes] = '\0';
    if (strncmp(line, start, strlen(start)) == 0 && strstr(line, part) != NULL && n-- == 0) {
      return number;
    }
  }
  return 0;
}

/* ---- lines ---- */

START_TEST(answers_survive)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, 7, "lines", 0);
  for (int i = 0; i < 2000; i++) {
    struct kvl_log_wait w, back;
    char line[KVL_LOG_LINE_CAP], again[KVL_LOG_LINE_CAP];
    memset(&w, 0, sizeof w);
    uint64_t *words = (uint64_t *)&w.step;
    for (size_t k = 0; k < sizeof w.step / sizeof *words; k++) { /* zero, small, anything, the largest */
      uint64_t value = kvl_rng_next(&rng), kind = kvl_rng_below(&rng, 8);
      words[k] = kind < 3 ? 0 : kind < 6 ? value % 100000 : kind < 7 ? value : UINT64_MAX;
    }
    w.asked_ns = i % 5 == 0 ? UINT64_MAX : kvl_rng_next(&rng) >> 1;
    w.now_ns = kvl_rng_next(&rng) >> 1;
    w.completed = i % 3 != 0;
    w.kind = i % 2 == 0 ? KVL_DONE_STEP : KVL_DONE_COPY;
    w.gpu = (uint32_t)kvl_rng_next(&rng);
    w.tag = kvl_rng_next(&rng);
    kvl_log_line_wait(line, &w);
    ck_assert_msg(kvl_log_parse_wait(line, strlen(line), &back), "%s", line);
    kvl_log_line_wait(again, &back);
    ck_assert_str_eq(line, again);
    if (w.completed && w.kind == KVL_DONE_STEP) {
      ck_assert_int_eq(memcmp(&w.step, &back.step, sizeof w.step), 0);
    }
    for (size_t cut = 0; cut < strlen(line); cut += 1 + cut / 8) { /* a part of a line may be a shorter line, but then it prints as itself */
      if (kvl_log_parse_wait(line, cut, &back)) {
        kvl_log_line_wait(again, &back);
        ck_assert_int_eq(strncmp(line, again, cut), 0);
        ck_assert_uint_eq(strlen(again), cut);
      }
    }
  }
}
END_TEST

START_TEST(answers_refused)
{
  static const char *const bad[] = {"", "idle", "idle 5", "idle 5 ", "idle 5 05", "idle -5 5", "idle 5 -", "idle 5 6 7", "idle  5 6", "idle 5 6 ", "done 5 6",
                                    "done 5 6 copy", "done 5 6 copy 0", "done 5 6 copy 0 1 ", "done 5 6 copy 4294967296 1", "done 5 6 step 0 1",
                                    "done 5 6 step 0 1 times 1,2,3 stall 0 lanes 0 rows 0", "done 5 6 step 0 1 times 1,2,3,4,5 stall 0 lanes 0 rows 0 prefetch 0",
                                    "done 5 6 step 0 1 times 1,2,3 stall 1,0 lanes 0 rows 0 prefetch 0", "idle 18446744073709551615 5",
                                    "idle 5 18446744073709551616", "idle 5 99999999999999999999999", "IDLE 5 6", "copy 0 pages", "done 5 6 walk 0 1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct kvl_log_wait w;
    ck_assert_msg(!kvl_log_parse_wait(bad[i], strlen(bad[i]), &w), "'%s'", bad[i]);
  }
}
END_TEST

/* ---- the reader ---- */

static void refused(const char *text, size_t bytes, const char *why)
{
  struct kvl_log *log = NULL;
  struct kvl_err err = {""};
  int rc = kvl_log_parse(&log, "x.log", text, bytes, &err);
  ck_assert_msg(rc == -EINVAL && strncmp(err.text, "x.log:", 6) == 0, "%d: %s", rc, err.text);
  check_line(err.text);
  ck_assert_msg(strstr(err.text, why) != NULL, "'%s' does not say '%s'", err.text, why);
}

START_TEST(reader)
{
  static char text[LOG_MAX];
  size_t bytes = strlen(whole);
  struct kvl_log *log = NULL;
  struct kvl_err err = {""};
  ck_assert_msg(kvl_log_parse(&log, "x.log", whole, bytes, &err) == 0, "%s", err.text);
  ck_assert_str_eq(kvl_log_plane(log), "jitter");
  ck_assert_str_eq(kvl_log_build(log), "test");
  ck_assert_str_eq(kvl_log_scenario(log), "{}");
  ck_assert(!kvl_log_interrupted(log));
  ck_assert_uint_gt(kvl_log_events(log), 200);
  kvl_log_free(log);
  refused("", 0, "not a decision log");
  refused("{}\n", 3, "not a decision log");
  refused("\x1f\x8b\x08", 3, "not a decision log: looks like gzip data: unpack it first");
  refused("kvloan-log 2\n", 13, "another version");
  refused("kvloan-log 1\n", 13, "cut off");
  refused("kvloan-log 1\nbuild x\n", 21, "'plane ...'");
  for (size_t cut = 0; cut < bytes; cut += cut < 200 || cut + 200 > bytes ? 1 : 97) {
    refused(whole, cut, cut < 13 ? "" : "cut off");
  }
  for (size_t at = 0; at < bytes; at += at < 200 || at + 200 > bytes ? 1 : 61) { /* any one byte is another */
    memcpy(text, whole, bytes);
    text[at] = text[at] == '1' ? '2' : '1';
    refused(text, bytes, "");
    text[at] = '\0';
    refused(text, bytes, "");
  }
  memcpy(text, whole, bytes);
  memcpy(text + bytes, "idle 5 5\n", 10);
  refused(text, bytes + 9, "after the end");
}
END_TEST

START_TEST(reader_of_files)
{
  struct kvl_log *log = NULL;
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_log_open(&log, "/nonexistent/x.log", &err), -ENOENT);
  check_line(err.text);
  ck_assert_int_eq(kvl_log_open(&log, "/tmp", &err), -EINVAL);
  check_line(err.text);
  ck_assert_int_eq(kvl_log_open(&log, "/dev/null", &err), -EINVAL);
  check_line(err.text);
}
END_TEST

/* ---- replays of logs that were tampered with, and sealed again ---- */

START_TEST(untouched)
{
  struct kvl_replay_report report;
  struct kvl_err err = {""};
  ck_assert_msg(replay(whole, &report, &err) == 0, "%s", err.text);
  ck_assert_uint_eq(report.steps_differ, 0);
  ck_assert_int_eq(memcmp(&report.recorded, &report.replayed, sizeof report.recorded), 0);
  for (int i = 0; i < 6; i++) { /* the log has every kind of line, or the tests below would prove little */
    static const char *const start[] = {"open", "close", "step", "keep", "copy", "copy"}, *const part[] = {"", "", "", "", "pages", "write_back"};
    ck_assert_msg(find(start[i], part[i], 0) != 0, "no line '%s ... %s'", start[i], part[i]);
  }
}
END_TEST

/* `text` must fail at line `number`. */
static void differs(char *text, unsigned number, const char *why)
{
  struct kvl_replay_report report;
  struct kvl_err err = {""};
  char place[32];
  seal(text);
  int rc = replay(text, &report, &err);
  (void)snprintf(place, sizeof place, "x.log:%u: ", number);
  ck_assert_msg(rc == -EPROTO, "line %u: %d, '%s'", number, rc, err.text);
  ck_assert_msg(strncmp(err.text, place, strlen(place)) == 0 && strstr(err.text, why) != NULL, "line %u (%s): '%s'", number, why, err.text);
  check_line(err.text);
}

static const struct {
  const char *start, *part;
} calls[] = {{"open", ""}, {"close", ""}, {"step", ""}, {"keep", ""}, {"copy", "pages"}, {"copy", "write_back"}};

/* Every number, hash and word of a line. */
START_TEST(a_field_is_another)
{
  static char text[LOG_MAX];
  unsigned number = find(calls[_i].start, calls[_i].part, 1);
  number = number != 0 ? number : find(calls[_i].start, calls[_i].part, 0);
  char *line = line_at(whole, number);
  size_t bytes = (size_t)(strchr(line, '\n') - line), fields = 0;
  for (size_t at = strlen(calls[_i].start); at < bytes; at++) {
    bool ends = at + 1 == bytes || line[at + 1] == ' ' || line[at + 1] == ',';
    if (!ends) {
      continue;
    }
    (void)add(text, whole, NULL);
    char *c = line_at(text, number) + at;
    *c = *c == '1' ? '2' : '1';
    differs(text, number, "the decisions differ: recorded '");
    fields++;
  }
  ck_assert_uint_ge(fields, 2);
}
END_TEST

/* A line is missing, is there twice, or comes before its time. */
START_TEST(a_line_is_elsewhere)
{
  static char text[LOG_MAX];
  for (unsigned n = 0; n < 4; n++) {
    unsigned number = find(calls[_i].start, calls[_i].part, 3 * n);
    if (number == 0) {
      break;
    }
    char *line = line_at(whole, number), *next = strchr(line, '\n') + 1;
    (void)add(add(text, whole, line), next, NULL);
    differs(text, number, "");
    (void)add(add(text, whole, next), line, NULL);
    differs(text, number + 1, "");
    char *after = strchr(next, '\n') + 1;
    (void)add(add(add(add(text, whole, line), next, after), line, next), after, NULL);
    differs(text, number, "");
  }
}
END_TEST

/* The first field that follows `word` in the line becomes `value`. */
static void put_field(char *text, unsigned number, const char *word, const char *value)
{
  char *field = strstr(line_at(text, number), word) + strlen(word), *end = field + strcspn(field, " ,\n");
  size_t longer = strlen(value), rest = strlen(end) + 1;
  memmove(field + longer, end, rest);
  memcpy(field, value, longer);
}

START_TEST(answers)
{
  static char text[LOG_MAX];
  static const struct {
    const char *start, *part, *word, *value, *why;
  } cases[] = {
    {"idle", "", "idle ", "7", "recorded 'idle 7 "},                          /* what was asked */
    {"done", " copy ", "done ", "7", "recorded 'done 7 "},
    {"done", " copy ", " copy ", "9", "not in flight"},                       /* no such GPU */
    {"done", " step ", " step ", "9", "not in flight"},
    {"done", " step 0 ", " step 0 ", "99", "completes step 99 of GPU 0, which is not in flight"},
    {"done", " copy 0 ", " copy 0 ", "9999", "completes copy 9999 of GPU 0, which was not begun"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unsigned number = find(cases[i].start, cases[i].part, 2);
    ck_assert_uint_ne(number, 0);
    (void)add(text, whole, NULL);
    put_field(text, number, cases[i].word, cases[i].value);
    differs(text, number, cases[i].why);
  }
  unsigned number = find("done", " step ", 3); /* the clock goes back */
  (void)add(text, whole, NULL);
  char *asked = line_at(text, number) + 5;
  *(asked + strcspn(asked, " ") + 1) = '0';
  memmove(asked + strcspn(asked, " ") + 2, strstr(asked, " step "), strlen(strstr(asked, " step ")) + 1);
  differs(text, number, "the clock reads 0 ns after ");
}
END_TEST

START_TEST(counts)
{
  static char text[LOG_MAX];
  static const char *const words[] = {" lanes ", " rows ", " prefetch "}, *const names[] = {" scratch 77777 (", " fetched 77777 (", " prefetch groups 77777 ("};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    struct kvl_replay_report report;
    struct kvl_err err = {""};
    char place[32];
    unsigned number = find("done", " step ", 4);
    (void)add(text, whole, NULL);
    put_field(text, number, words[i], "77777");
    seal(text);
    ck_assert_msg(replay(text, &report, &err) == 0, "%s", err.text);
    ck_assert_msg(report.steps_differ == 1, "%s: %llu steps", words[i], (unsigned long long)report.steps_differ);
    (void)snprintf(place, sizeof place, "line %u, step ", number);
    ck_assert_msg(strncmp(report.first_difference, place, strlen(place)) == 0, "%s", report.first_difference);
    ck_assert_msg(strstr(report.first_difference, names[i]) != NULL, "%s", report.first_difference); /* what differs, and nothing else */
    check_line(report.first_difference);
  }
}
END_TEST

/* Too early an end, and too late a one. */
START_TEST(ends)
{
  static char text[LOG_MAX];
  for (unsigned n = 0; n < 40; n += 3) {
    unsigned number = find("", "", n);
    (void)add(add(text, whole, line_at(whole, number)), strstr(whole, "\nend ") + 1, NULL);
    differs(text, number, "recorded 'end', replayed '");
  }
  unsigned number = 1;
  for (const char *p = whole; strncmp(p, "end ", 4) != 0; p = strchr(p, '\n') + 1) {
    number++;
  }
  (void)add(add(add(text, whole, line_at(whole, number)), "idle - 99\n", NULL), line_at(whole, number), NULL);
  differs(text, number, "replayed 'the end of the run'");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("decision log");
  tcase_set_timeout(tcase, 60);
  tcase_add_unchecked_fixture(tcase, record, NULL);
  tcase_add_test(tcase, answers_survive);
  tcase_add_test(tcase, answers_refused);
  tcase_add_test(tcase, reader);
  tcase_add_test(tcase, reader_of_files);
  tcase_add_test(tcase, untouched);
  tcase_add_loop_test(tcase, a_field_is_another, 0, 6);
  tcase_add_loop_test(tcase, a_line_is_elsewhere, 0, 6);
  tcase_add_test(tcase, answers);
  tcase_add_test(tcase, counts);
  tcase_add_test(tcase, ends);
  return kvl_tap_run_case("decision log", tcase);
}
