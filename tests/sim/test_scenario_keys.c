/* Every key of the table: a good value, wrong types, values out of range, a typo. */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario_doc.h"
#include "sim/scenario_number.h"
#include "tests/base/tap.h"

static struct kvl_scenario_doc *doc; /* the scenario that the keys are tried on */
static char *text;

static void load_base(void)
{
  struct kvl_err err = {""};
  int rc = kvl_scenario_load(&doc, KVL_SCENARIOS "/published-256.json", NULL, 0, &err);
  ck_assert_msg(rc == 0, "%s", err.text);
  text = kvl_scenario_json(doc);
  ck_assert_ptr_nonnull(text);
}

static void free_base(void)
{
  free(text);
  kvl_scenario_free(doc);
}

/* Loads the self-contained text with one assignment. */
static int try_set(const char *path, const char *value, struct kvl_scenario_doc **out, struct kvl_err *err)
{
  char assignment[4096];
  const char *set = assignment;
  (void)snprintf(assignment, sizeof assignment, "%s=%s", path, value);
  err->text[0] = '\0';
  return kvl_scenario_parse(out, text, strlen(text), "base.json", &set, 1, err);
}

static void must_fail(const char *path, const char *value, const char *reason)
{
  struct kvl_scenario_doc *out = NULL;
  struct kvl_err err;
  char begin[512], longest[200];
  int rc = try_set(path, value, &out, &err);
  ck_assert_msg(rc == -EINVAL, "%s=%s: %d %s", path, value, rc, err.text);
  ck_assert_ptr_null(out);
  bool cut = snprintf(longest, sizeof longest, "--set=%s=%s", path, value) >= (int)sizeof longest; /* long values are cut in messages */
  (void)snprintf(begin, sizeof begin, "%.*s%s: %s: ", cut ? 196 : 200, longest, cut ? "..." : "", path);
  ck_assert_msg(strncmp(err.text, begin, strlen(begin)) == 0, "%s=%s says %s", path, value, err.text);
  ck_assert_msg(strstr(err.text, reason) != NULL, "%s=%s says %s, not %s", path, value, err.text, reason);
  ck_assert_msg(strchr(err.text, '\n') == NULL, "more than a line: %s", err.text);
}

static bool numeric(const struct kvl_key *key)
{
  return key->type == KVL_KEY_COUNT || key->type == KVL_KEY_AMOUNT || key->type == KVL_KEY_REAL;
}

START_TEST(own_value_is_accepted)
{
  load_base();
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    char value[KVL_VALUE_TEXT_MAX];
    struct kvl_scenario_doc *out = NULL;
    struct kvl_err err;
    if (key->type == KVL_KEY_CURVE || key->type == KVL_KEY_GATHERS || key->type == KVL_KEY_CACHES) {
      continue; /* below */
    }
    kvl_scenario_value_text(key, kvl_scenario_of(doc), value);
    int rc = try_set(key->path, value, &out, &err);
    ck_assert_msg(rc == 0, "%s=%s: %s", key->path, value, err.text);
    ck_assert_mem_eq((const char *)kvl_scenario_of(out) + key->offset, (const char *)kvl_scenario_of(doc) + key->offset, key->width);
    ck_assert_str_eq(out->origin[i].text, "--set");
    kvl_scenario_free(out);
  }
  free_base();
}
END_TEST

START_TEST(bounds_are_accepted_and_stored)
{
  load_base();
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    for (int end = 0; end < 2 && (key->type == KVL_KEY_COUNT || key->type == KVL_KEY_AMOUNT); end++) {
      char value[KVL_DECIMAL_MAX];
      struct kvl_scenario_doc *out = NULL;
      struct kvl_err err;
      uint64_t bound = end == 0 ? key->min : key->max;
      int rc = try_set(key->path, kvl_decimal_print(bound, key->scale, value), &out, &err);
      /* a check across keys may still object, never the key itself */
      ck_assert_msg(rc == 0 || (strstr(err.text, "must be at least") == NULL && strstr(err.text, "must be at most") == NULL) ||
                      strstr(err.text, " for ") != NULL || strstr(err.text, "(nearest: 1)") != NULL,
                    "%s", err.text);
      if (rc == 0) {
        uint64_t stored = 0;
        uint32_t narrow;
        memcpy(&narrow, (const char *)kvl_scenario_of(out) + key->offset, sizeof narrow);
        memcpy(&stored, (const char *)kvl_scenario_of(out) + key->offset, key->width);
        ck_assert_msg((key->width == 4 ? narrow : stored) == bound, "%s", key->path);
        kvl_scenario_free(out);
      }
    }
  }
  free_base();
}
END_TEST

START_TEST(out_of_range_is_refused)
{
  load_base();
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    char value[KVL_DECIMAL_MAX];
    if (!numeric(key)) {
      continue;
    }
    must_fail(key->path, "-1", "must be at least ");
    must_fail(key->path, "1e300", "must be at most ");
    if (key->type == KVL_KEY_COUNT) {
      must_fail(key->path, "1.5", "nearest: ");
    }
    uint64_t scale = key->type == KVL_KEY_REAL ? 1000 : key->scale;
    if (key->min > 0) {
      must_fail(key->path, kvl_decimal_print(key->min - 1, scale, value), "nearest: ");
    }
    if (key->max < UINT64_MAX) {
      must_fail(key->path, kvl_decimal_print(key->max + 1, scale, value), "nearest: ");
    }
  }
  free_base();
}
END_TEST

START_TEST(wrong_types_are_refused)
{
  load_base();
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    const struct kvl_key *key = &kvl_keys[i];
    must_fail(key->path, "null", "must be ");
    must_fail(key->path, "true", "must be ");
    must_fail(key->path, "{}", "is an object without \"value\"");
    must_fail(key->path, "{\"value\":1,\"orign\":\"x\"}", "unknown key \"orign\"");
    must_fail(key->path, "{\"value\":1,\"origin\":2}", "\"origin\" must be a string");
    if (key->type != KVL_KEY_CURVE && key->type != KVL_KEY_GATHERS && key->type != KVL_KEY_CACHES) {
      must_fail(key->path, "[]", "an array");
    }
    if (numeric(key)) {
      must_fail(key->path, "many", "is the string \"many\"");
      must_fail(key->path, "\"1\"", "is the string \"1\"");
      must_fail(key->path, "NaN", "is the string \"NaN\"");
    }
    if (key->choices != NULL) {
      char typo[64];
      (void)snprintf(typo, sizeof typo, "%sx", key->choices[0]);
      must_fail(key->path, typo, key->choices[0]);
      must_fail(key->path, "1", "must be one of ");
    }
    if (key->type == KVL_KEY_TEXT) {
      char longer[2048];
      memset(longer, 'x', sizeof longer);
      longer[key->width] = '\0';
      must_fail(key->path, longer, "is longer than ");
      must_fail(key->path, "\"a\\nb\"", "control character");
    }
  }
  free_base();
}
END_TEST

START_TEST(typos_name_the_key)
{
  load_base();
  for (uint32_t i = 0; i < kvl_key_count; i++) {
    char typo[128], reason[160];
    bool mode = strcmp(kvl_keys[i].path, "mode") == 0; /* "modeq" is as close to "model" */
    (void)snprintf(typo, sizeof typo, "%s%s", mode ? "moode" : kvl_keys[i].path, mode ? "" : "q");
    (void)snprintf(reason, sizeof reason, "unknown key (nearest: %s)", kvl_keys[i].path);
    must_fail(typo, "1", reason);
  }
  must_fail("hot_rows", "1", "unknown key (nearest: policy.hot_rows)"); /* right word, wrong place */
  free_base();
}
END_TEST

START_TEST(caches_are_checked)
{
  load_base();
  must_fail("model.caches", "[]", "at least one cache");
  must_fail("model.caches", "3", "at least one cache");
  struct {
    const char *path, *value, *message;
  } cases[] = {
    {"model.caches.0", "7", "must be an object"},
    {"model.caches.0.tokens_per_row", "3", "power of two, is 3 (nearest: 2 or 4)"},
    {"model.caches.0.tokens_per_row", "0", "must be at least 1"},
    {"model.caches.0.row_bytes", "0", "must be at least 1"},
    {"model.caches.0.row_byts", "1", "unknown key (nearest: row_bytes)"},
    {"model.caches.0.name", "E1", "a second cache with the name"},
    {"model.caches.0.name", "seventeen_letters", "is longer than 15 bytes"},
    {"model.caches.0.name", "", "needs a name"},
    {"model.caches.0.written_layer", "40", "past the model's last layer"},
    {"model.caches.0.written_layer", "3", "first written at layer 3"},
    {"model.caches.0.repeat", "40", "6 readers from layer 35 on are more than the model's 40 layers"},
    {"model.caches.0.repeat", "0", "must be at least 1"},
    {"model.caches.0.every", "0", "must be at least 1"},
    {"model.caches.0.selections", "[]", "at least one selection"},
    {"model.caches.0.selections", "3", "at least one selection"},
    {"model.caches.0.selections.0.k", "0", "must be at least 1"},
    {"model.caches.0.selections.0.k", "\"a\"", "whole number"},
    {"model.caches.0.selections.0.kk", "1", "unknown key (nearest: k)"},
    {"model.caches.0.selections.0.layer", "40", "outside the model's 40 layers"},
    {"model.caches.0.selections.0.readers", "39", "39 readers from layer 2 on are more than the model's 40 layers: at most 38"},
    {"model.layers", "39", "4 readers from layer 36 on are more than the model's 39 layers: at most 3"},
    {"model.caches.3.selections.0.layer", "24", "selects twice"},
    {"model.caches.9.row_bytes", "1", "no element 9"},
    {"model.caches.x.row_bytes", "1", "no element x"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kvl_scenario_doc *out = NULL;
    struct kvl_err err;
    int rc = try_set(cases[i].path, cases[i].value, &out, &err);
    ck_assert_msg(rc == -EINVAL, "%s=%s: %d", cases[i].path, cases[i].value, rc);
    ck_assert_msg(strstr(err.text, cases[i].message) != NULL, "%s=%s says %s", cases[i].path, cases[i].value, err.text);
  }
  struct kvl_scenario_doc *out = NULL;
  struct kvl_err err;
  ck_assert_int_eq(try_set("model.caches.0.row_bytes", "576", &out, &err), 0);
  ck_assert_uint_eq(kvl_scenario_of(out)->model.cache[0].row_bytes, 576);
  kvl_scenario_free(out);
  free_base();
}
END_TEST

START_TEST(curves_are_checked)
{
  load_base();
  const char *link = "hardware.link.rows_per_s_by_pool_bytes", *table = "costs.step_ms_by_tokens";
  must_fail(link, "3", "must be an array of pairs");
  must_fail(link, "[]", "has no points");
  must_fail(link, "[1]", "must be a pair of numbers");
  must_fail(link, "[[1]]", "must be a pair of numbers");
  must_fail(link, "[[1,2,3]]", "must be a pair of numbers");
  must_fail(link, "[[1,\"2\"]]", "must be a pair of numbers");
  must_fail(link, "[[1,0]]", "y must be more than 0");
  must_fail(link, "[[1,2],[1,3]]", "x must ascend");
  must_fail(link, "[[1.5,2]]", "whole number");
  must_fail(table, "[[1,-2]]", "y must be at least 0");
  char many[2048];
  size_t used = 0;
  many[used++] = '[';
  for (int i = 0; i <= KVL_CURVE_MAX; i++) {
    used += (size_t)snprintf(many + used, sizeof many - used, "%s[%d,1]", i > 0 ? "," : "", i);
  }
  (void)snprintf(many + used, sizeof many - used, "]");
  must_fail(table, many, "has more than 128 points");
  struct kvl_scenario_doc *out = NULL;
  struct kvl_err err;
  ck_assert_int_eq(try_set(table, "{\"value\": [[1, 13.5], [64, 20]], \"origin\": \"measured\"}", &out, &err), 0);
  const struct kvl_curve *curve = &kvl_scenario_of(out)->costs.step_ns_by_tokens;
  ck_assert_uint_eq(curve->n, 2);
  ck_assert_uint_eq(curve->x[1], 64);
  ck_assert_uint_eq(curve->y[0], 13500000);
  ck_assert_str_eq(out->origin[kvl_scenario_key(table)].text, "measured");
  kvl_scenario_free(out);
  free_base();
}
END_TEST

START_TEST(tables_of_gathers_are_checked)
{
  load_base();
  const char *table = "hardware.link.gather_us";
  must_fail(table, "3", "must be an array of points");
  must_fail(table, "[1]", "a point is [row bytes, range, rows, us]");
  must_fail(table, "[[1,2,3]]", "a point is [row bytes, range, rows, us]");
  must_fail(table, "[[1,2,3,4,5]]", "a point is [row bytes, range, rows, us]");
  must_fail(table, "[[1,2,3,-4]]", "a point is [row bytes, range, rows, us]");
  must_fail(table, "[[1,2,3,\"4\"]]", "a point is [row bytes, range, rows, us]");
  must_fail(table, "[[0,2,3,4]]", "three whole numbers more than 0");
  must_fail(table, "[[1.5,2,3,4]]", "three whole numbers more than 0");
  must_fail(table, "[[1,2,3,4],[1,2,2,4]]", "a full grid in ascending order");
  must_fail(table, "[[1,2,3,4],[1,2,3,4]]", "a full grid in ascending order");
  must_fail(table, "[[1,2,3,4],[1,2,4,5],[1,4,3,4],[2,2,3,4]]", "a full grid in ascending order");
  must_fail(table, "[[1,2,3,4],[1,2,4,5],[1,4,3,4]]", "the grid is not full: 3 points of 1 x 2 x 2");
  must_fail(table, "[[1,2,3,4],[1,2,4,3]]", "more rows of the same size cannot take less time");
  must_fail(table, "[[1,2,1,1],[1,2,2,1],[1,2,3,1],[1,2,4,1],[1,2,5,1],[1,2,6,1],[1,2,7,1],[1,2,8,1],[1,2,9,1],[1,2,10,1],[1,2,11,1],[1,2,12,1],[1,2,13,1]]",
            "at most 12 of each");
  struct kvl_scenario_doc *out = NULL;
  struct kvl_err err;
  ck_assert_int_eq(try_set(table, "{\"value\": [[288,10,16,4.5],[288,10,64,5],[288,20,16,4.6],[288,20,64,6.25]], \"origin\": \"measured\"}", &out, &err), 0);
  const struct kvl_gather_table *t = &kvl_scenario_of(out)->hardware.link.gathers;
  ck_assert_uint_eq(t->sizes, 1);
  ck_assert_uint_eq(t->ranges, 2);
  ck_assert_uint_eq(t->counts, 2);
  ck_assert_uint_eq(t->range_bytes[1], 20);
  ck_assert_uint_eq(t->ns[3], 6250);
  char *json = kvl_scenario_json(out); /* and back */
  ck_assert_msg(strstr(json, "\"gather_us\":{\"value\":[[288,10,16,4.5],[288,10,64,5],[288,20,16,4.6],[288,20,64,6.25]],") != NULL, "%s", json);
  free(json);
  kvl_scenario_free(out);
  free_base();
}
END_TEST

KVL_TAP_MAIN("scenario_keys", own_value_is_accepted, bounds_are_accepted_and_stored, out_of_range_is_refused, wrong_types_are_refused,
             typos_name_the_key, caches_are_checked, curves_are_checked, tables_of_gathers_are_checked)
