/* Designs: what a file expands to, that it depends on nothing else, and what is said about files that are wrong. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sweep.h"
#include "tests/base/tap.h"

#define BASE "\"scenario\": \"" KVL_TESTS "/base.json\""

static struct kvl_sweep *parse(const char *text)
{
  struct kvl_sweep *sweep = NULL;
  struct kvl_err err = {""};
  int rc = kvl_sweep_parse(&sweep, text, strlen(text), KVL_TESTS "/d.json", NULL, 0, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  return sweep;
}

static const char *value(const struct kvl_sweep *s, uint32_t point, const char *key)
{
  for (unsigned k = 0; k < s->keys; k++) {
    if (strcmp(s->key[k], key) == 0) {
      return s->value[(size_t)point * s->keys + k];
    }
  }
  ck_abort_msg("no key %s", key);
  return NULL;
}

/* Refused with -EINVAL (or -ENOENT) and one line that holds every one of the words. */
static void refuses(const char *text, const char *const *words)
{
  struct kvl_sweep *sweep = NULL;
  struct kvl_err err = {""};
  int rc = kvl_sweep_parse(&sweep, text, strlen(text), KVL_TESTS "/d.json", NULL, 0, &err);
  ck_assert_msg(rc == -EINVAL || rc == -ENOENT, "%s: %d", text, rc);
  ck_assert_ptr_null(sweep);
  ck_assert_ptr_null(strchr(err.text, '\n'));
  for (; *words != NULL; words++) {
    ck_assert_msg(strstr(err.text, *words) != NULL, "\"%s\" lacks \"%s\"", err.text, *words);
  }
}
#define REFUSES(text, ...) refuses(text, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(grid_counts_with_the_last_key_fastest)
{
  struct kvl_sweep *s = parse("{" BASE ", \"grid\": {\"mode\": [\"fixed\", \"adaptive\"], \"policy.hot_rows\": [512, 1024, 2048]}, \"repeats\": 2}");
  ck_assert_uint_eq(s->points, 6);
  ck_assert_uint_eq(kvl_sweep_tasks(s), 12);
  ck_assert_str_eq(s->name, "d");
  static const char *const modes[] = {"\"fixed\"", "\"adaptive\""}, *const rows[] = {"512", "1024", "2048"};
  for (uint32_t p = 0; p < 6; p++) {
    ck_assert_str_eq(value(s, p, "mode"), modes[p / 3]);
    ck_assert_str_eq(value(s, p, "policy.hot_rows"), rows[p % 3]);
  }
  kvl_sweep_free(s);
}
END_TEST

START_TEST(grid_axes_of_objects_move_keys_together)
{
  struct kvl_sweep *s = parse("{" BASE ", \"grid\": {\"load\": [{\"workload.concurrency\": 2, \"workload.requests\": 4}, {\"workload.requests\": 8, "
                              "\"workload.concurrency\": 4}], \"policy.hot_rows\": [512, 1024]}}");
  ck_assert_uint_eq(s->points, 4);
  ck_assert_uint_eq(s->keys, 3);
  ck_assert_str_eq(value(s, 1, "workload.concurrency"), "2");
  ck_assert_str_eq(value(s, 2, "workload.concurrency"), "4");
  ck_assert_str_eq(value(s, 2, "workload.requests"), "8");
  ck_assert_str_eq(value(s, 3, "policy.hot_rows"), "1024");
  kvl_sweep_free(s);
}
END_TEST

START_TEST(list_points_keep_what_they_do_not_name)
{
  struct kvl_sweep *s = parse("{" BASE ", \"list\": [{\"mode\": \"fixed\"}, {\"policy.hot_rows\": 512}, {}]}");
  ck_assert_uint_eq(s->points, 3);
  ck_assert_str_eq(value(s, 0, "mode"), "\"fixed\"");
  ck_assert_ptr_null(value(s, 0, "policy.hot_rows"));
  ck_assert_ptr_null(value(s, 1, "mode"));
  ck_assert_ptr_null(value(s, 2, "mode"));
  kvl_sweep_free(s);
}
END_TEST

#define RANDOM "\"random\": {\"points\": 200, \"keys\": {\"policy.hot_rows\": {\"from\": 256, \"to\": 8192, \"scale\": \"log\", \"multiple_of\": 64}, " \
               "\"mode\": [\"fixed\", \"adaptive\"], \"policy.horizon_ms\": {\"from\": 0.5, \"to\": 20}"

START_TEST(random_points_are_distinct_in_range_and_the_same_again)
{
  struct kvl_sweep *s = parse("{" BASE ", \"seed\": 5, " RANDOM "}}}"), *again = parse("{" BASE ", \"seed\": 5, " RANDOM "}}}");
  struct kvl_sweep *more = parse("{" BASE ", \"seed\": 5, " RANDOM ", \"policy.tail_tokens\": [128, 256]}}}");
  struct kvl_sweep *other = parse("{" BASE ", \"seed\": 6, " RANDOM "}}}");
  unsigned low = 0, equal_to_other = 0;
  ck_assert_uint_eq(s->points, 200);
  for (uint32_t p = 0; p < s->points; p++) {
    unsigned long rows = strtoul(value(s, p, "policy.hot_rows"), NULL, 10);
    double horizon = strtod(value(s, p, "policy.horizon_ms"), NULL);
    ck_assert(rows >= 256 && rows <= 8192 && rows % 64 == 0);
    ck_assert(horizon >= 0.5 && horizon <= 20);
    low += rows < 1448; /* the middle of the range in logarithms: half of the points */
    for (unsigned k = 0; k < s->keys; k++) {
      ck_assert_str_eq(s->value[(size_t)p * s->keys + k], again->value[(size_t)p * s->keys + k]);
    }
    ck_assert_str_eq(value(s, p, "policy.hot_rows"), value(more, p, "policy.hot_rows")); /* a key more moves no other */
    equal_to_other += strcmp(value(s, p, "policy.horizon_ms"), value(other, p, "policy.horizon_ms")) == 0;
    for (uint32_t q = 0; q < p; q++) {
      int same = 1;
      for (unsigned k = 0; k < s->keys; k++) {
        same &= strcmp(s->value[(size_t)p * s->keys + k], s->value[(size_t)q * s->keys + k]) == 0;
      }
      ck_assert_int_eq(same, 0);
    }
  }
  ck_assert_uint_gt(low, 70);
  ck_assert_uint_lt(low, 130);
  ck_assert_uint_lt(equal_to_other, 5);
  kvl_sweep_free(s);
  kvl_sweep_free(again);
  kvl_sweep_free(more);
  kvl_sweep_free(other);
}
END_TEST

START_TEST(random_designs_end_when_there_are_no_more_points)
{
  struct kvl_sweep *s = parse("{" BASE ", \"random\": {\"points\": 4, \"keys\": {\"mode\": [\"fixed\", \"adaptive\"], \"policy.hot_rows\": [512, 1024]}}}");
  ck_assert_uint_eq(s->points, 4);
  kvl_sweep_free(s);
  REFUSES("{" BASE ", \"random\": {\"points\": 5, \"keys\": {\"mode\": [\"fixed\", \"adaptive\"], \"policy.hot_rows\": [512, 1024]}}}", "random.points", "nearest: 4");
}
END_TEST

START_TEST(seeds_are_common_or_independent)
{
  struct kvl_sweep *s = parse("{" BASE ", \"grid\": {\"policy.hot_rows\": [512, 1024]}, \"repeats\": 3, \"seed\": 40}");
  for (uint32_t t = 0; t < 6; t++) {
    ck_assert_uint_eq(kvl_sweep_seed(s, t), 40 + t % 3);
  }
  kvl_sweep_free(s);
  s = parse("{" BASE ", \"grid\": {\"policy.hot_rows\": [512, 1024]}, \"repeats\": 3, \"seed\": 40, \"seeds\": \"independent\"}");
  for (uint32_t t = 0; t < 6; t++) {
    for (uint32_t u = 0; u < t; u++) {
      ck_assert_uint_ne(kvl_sweep_seed(s, t), kvl_sweep_seed(s, u));
    }
  }
  kvl_sweep_free(s);
}
END_TEST

START_TEST(hash_follows_everything_that_decides_a_result)
{
  static const char *const texts[] = {
    "{\"name\": \"a\", " BASE ", \"grid\": {\"policy.hot_rows\": [512, 1024]}}",
    "{\"name\": \"b\", " BASE ", \"grid\": {\"policy.hot_rows\": [512, 1024]}}",
    "{\"name\": \"a\", " BASE ", \"grid\": {\"policy.hot_rows\": [1024, 512]}}",
    "{\"name\": \"a\", " BASE ", \"grid\": {\"policy.hot_rows\": [512, 1024]}, \"repeats\": 2}",
    "{\"name\": \"a\", " BASE ", \"grid\": {\"policy.hot_rows\": [512, 1024]}, \"seed\": 2}",
    "{\"name\": \"a\", " BASE ", \"set\": {\"workload.requests\": 9}, \"grid\": {\"policy.hot_rows\": [512, 1024]}}",
    "{\"name\": \"a\", \"note\": \"only talk\", " BASE ",\n \"grid\": {\"policy.hot_rows\": [512, 1024]}}",
  };
  char hash[7][KVL_SWEEP_HASH];
  for (int i = 0; i < 7; i++) {
    struct kvl_sweep *s = parse(texts[i]);
    struct kvl_err err = {""};
    ck_assert_msg(kvl_sweep_resolve(s, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(s->impossible, 0);
    memcpy(hash[i], s->hash, sizeof hash[i]);
    kvl_sweep_free(s);
  }
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < i; j++) {
      ck_assert_str_ne(hash[i], hash[j]);
    }
  }
  ck_assert_str_eq(hash[6], hash[0]); /* a note and line ends decide nothing */
}
END_TEST

START_TEST(impossible_points_have_a_reason_without_folders)
{
  struct kvl_sweep *s = parse("{" BASE ", \"list\": [{\"mode\": \"fixed\"}, {\"policy.page_tokens\": 48}]}");
  struct kvl_err err = {""};
  ck_assert_int_eq(kvl_sweep_resolve(s, &err), 0);
  ck_assert_uint_eq(s->impossible, 1);
  ck_assert_ptr_null(s->reason[0]);
  ck_assert_str_eq(s->reason[1], "policy.page_tokens: must be a power of two, is 48 (nearest: 32 or 64)");
  kvl_sweep_free(s);
  s = parse("{" BASE ", \"list\": [{\"policy.page_tokens\": 48}]}");
  ck_assert_int_eq(kvl_sweep_resolve(s, &err), -EINVAL);
  ck_assert_ptr_nonnull(strstr(err.text, "its one point cannot be run"));
  kvl_sweep_free(s);
}
END_TEST

START_TEST(commands_repeat_a_task)
{
  struct kvl_sweep *s = parse("{\"scenario\": \"published-256\", \"set\": {\"note\": \"it's\"}, \"grid\": {\"mode\": [\"fixed\"]}, \"repeats\": 2, \"seed\": 3}");
  char *command = kvl_sweep_command(s, 1);
  ck_assert_str_eq(command, "kvloan run published-256 '--set=note=it'\\''s' --set=mode=fixed --seed=4");
  free(command);
  kvl_sweep_free(s);
}
END_TEST

START_TEST(bad_designs_get_one_line)
{
  REFUSES("[]", "d.json:1", "must be an object");
  REFUSES("{" BASE "}", "grid", "is missing");
  REFUSES("{\"grid\": {\"mode\": [\"fixed\"]}}", "scenario", "is missing");
  REFUSES("{\"scenario\": \"published-265\", \"grid\": {\"mode\": [\"fixed\"]}}", "d.json:1", "published-256");
  REFUSES("{" BASE ", \"gird\": {}}", "gird", "nearest: grid");
  REFUSES("{" BASE ", \"grid\": {\"mode\": [\"fixed\"]}, \"list\": [{}]}", "beside");
  REFUSES("{" BASE ",\n\"grid\": {\n\"policy.hot_row\": [1]}}", "d.json:3", "policy.hot_row", "nearest: policy.hot_rows");
  REFUSES("{" BASE ",\n\"grid\": {\"policy.hot_rows\": [1,\n-4]}}", "d.json:3", "policy.hot_rows", "at least 0");
  REFUSES("{" BASE ", \"grid\": {\"policy.hot_rows\": [512, \"many\"]}}", "must be a whole number");
  REFUSES("{" BASE ", \"grid\": {\"mode\": [\"fixd\"]}}", "nearest: fixed");
  REFUSES("{" BASE ", \"grid\": {\"policy.hot_rows\": [512, 1024, 5.12e2]}}", "5.12e2 is given twice");
  REFUSES("{" BASE ", \"grid\": {\"load\": [{\"workload.concurrency\": 2, \"workload.requests\": 4}, {\"workload.requests\": 4.0, \"workload.concurrency\": 2}]}}", "load",
          "object 2 sets the same values as object 1");
  REFUSES("{" BASE ", \"set\": {\"mode\": \"fixed\"}, \"grid\": {\"mode\": [\"fixed\"]}}", "d.json:1: mode", "changed by the design and set as well");
  REFUSES("{" BASE ", \"set\": {\"policy.hot_rows\": 512}, \"random\": {\"points\": 1, \"keys\": {\"policy.hot_rows\": {\"from\": 512, \"to\": 1024}}}}", "set as well");
  REFUSES("{\"scenario\": \"\", \"grid\": {\"mode\": [\"fixed\"]}}", "scenario", "1 to 1023 bytes");
  REFUSES("{" BASE ", \"name\": \"a\xc2\x9b" "31m\", \"grid\": {\"mode\": [\"fixed\"]}}", "name", "control character");
  /* as many points as are promised, and not one more; values of one key are fewer */
  for (int more = 0; more < 3; more++) {
    char *list = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&list, &size);
    ck_assert_ptr_nonnull(out);
    (void)fprintf(out, "{" BASE ", %s", more < 2 ? "\"list\": [" : "\"grid\": {\"policy.hot_rows\": [");
    for (int i = 0; i < (more < 2 ? KVL_SWEEP_POINTS_MAX + more : 1025); i++) {
      (void)fprintf(out, "%s%s%d%s", i > 0 ? "," : "", more < 2 ? "{\"policy.hot_rows\": " : "", i, more < 2 ? "}" : "");
    }
    (void)fputs(more < 2 ? "]}" : "]}}", out);
    ck_assert_int_eq(fclose(out), 0);
    if (more == 0) {
      struct kvl_sweep *s = parse(list);
      ck_assert_uint_eq(s->points, KVL_SWEEP_POINTS_MAX);
      kvl_sweep_free(s);
    } else {
      REFUSES(list, more == 1 ? "more than 20,000 elements" : "up to 1024 values of one key");
    }
    free(list);
  }
  kvl_sweep_free(parse("{" BASE ", \"set\": {\"mode\": \"fixed\"}, \"list\": [{\"policy.hot_rows\": 512}, {\"mode\": \"adaptive\"}]}")); /* a list's points may leave a key out */
  REFUSES("{" BASE ", \"grid\": {\"policy.hot_rows\": [512, 512]}}", "given twice");
  REFUSES("{" BASE ", \"grid\": {\"policy.hot_rows\": []}}", "has no values");
  REFUSES("{" BASE ", \"grid\": {\"policy.hot_rows\": 512}}", "array of values");
  REFUSES("{" BASE ", \"grid\": {\"seed\": [1, 2]}}", "seed", "repeats");
  REFUSES("{" BASE ", \"set\": {\"seed\": 1}, \"grid\": {\"mode\": [\"fixed\"]}}", "seed", "repeats");
  REFUSES("{" BASE ", \"grid\": {\"load\": [{\"workload.requests\": 1}, {\"workload.concurrency\": 1}]}}", "does not set workload.requests");
  REFUSES("{" BASE ", \"grid\": {\"load\": [{\"workload.requests\": 1}], \"workload.requests\": [2]}}", "two parts");
  REFUSES("{" BASE ", \"list\": [{\"mode\": \"fixed\"}, {\"mode\": \"fixed\"}]}", "point 2 is the same as point 1");
  REFUSES("{" BASE ", \"list\": []}", "array of objects");
  REFUSES("{" BASE ", \"grid\": {\"mode\": [\"fixed\"]}, \"repeats\": 0}", "repeats", "nearest: 1");
  REFUSES("{" BASE ", \"grid\": {\"mode\": [\"fixed\"]}, \"repeats\": 1.5}", "whole number");
  REFUSES("{" BASE ", \"grid\": {\"mode\": [\"fixed\"]}, \"seeds\": \"comon\"}", "nearest: common");
  REFUSES("{" BASE ", \"random\": {\"points\": 3, \"keys\": {\"policy.hot_rows\": {\"from\": 9, \"to\": 3}}}}", "\"from\" is above \"to\"");
  REFUSES("{" BASE ", \"random\": {\"points\": 3, \"keys\": {\"policy.hot_rows\": {\"from\": 0, \"to\": 3, \"scale\": \"log\"}}}}", "log scale");
  REFUSES("{" BASE ", \"random\": {\"points\": 3, \"keys\": {\"policy.hot_rows\": {\"from\": 65, \"to\": 100, \"multiple_of\": 64}}}}", "no multiple of 64");
  REFUSES("{" BASE ", \"random\": {\"points\": 3, \"keys\": {\"mode\": {\"from\": \"a\", \"to\": \"b\"}}}}", "mode");
  REFUSES("{" BASE ", \"random\": {\"points\": 3, \"keys\": {\"policy.hot_rows\": {\"form\": 1, \"to\": 2}}}}", "form", "nearest: from");
  REFUSES("{" BASE ", \"random\": {\"points\": 3}}", "random", "keys");
}
END_TEST

START_TEST(designs_have_limits)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  (void)fputs("{" BASE ", \"grid\": {\"policy.hot_rows\": [", out);
  for (int i = 1; i <= 200; i++) {
    (void)fprintf(out, "%s%d", i == 1 ? "" : ",", i);
  }
  (void)fputs("], \"policy.tail_tokens\": [", out);
  for (int i = 1; i <= 101; i++) {
    (void)fprintf(out, "%s%d", i == 1 ? "" : ",", i);
  }
  (void)fputs("]}}", out);
  (void)fclose(out);
  REFUSES(text, "more than 20000 points");
  free(text);
  REFUSES("{" BASE ", \"random\": {\"points\": 20001, \"keys\": {\"mode\": [\"fixed\"]}}}", "at most 20000");
  REFUSES("{" BASE ", \"random\": {\"points\": 1000, \"keys\": {\"policy.hot_rows\": {\"from\": 1, \"to\": 100000}}}, \"repeats\": 101}", "100000 runs", "nearest: 100");
}
END_TEST

KVL_TAP_MAIN("sweep design", grid_counts_with_the_last_key_fastest, grid_axes_of_objects_move_keys_together, list_points_keep_what_they_do_not_name,
             random_points_are_distinct_in_range_and_the_same_again, random_designs_end_when_there_are_no_more_points, seeds_are_common_or_independent,
             hash_follows_everything_that_decides_a_result, impossible_points_have_a_reason_without_folders, commands_repeat_a_task, bad_designs_get_one_line,
             designs_have_limits)
