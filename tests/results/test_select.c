/* Naming runs, comparing summaries, rows as TSV and JSON. */
#include <cjson/cJSON.h>
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/compare.h"
#include "results/rows.h"
#include "results/select.h"
#include "tests/base/tap.h"
#include "tests/results/fixture.h"

/* ---- selection ---- */

static char names[][32] = {"published", "published", "published", "public", "agent:night", "agent:night", "weird"};
static char modes[][16] = {"resident", "fixed", "adaptive", "fixed", "adaptive", "adaptive", "fixed"};
static char plane[] = "model";
static const enum kvl_stored_status status[] = {KVL_STORED_COMPLETE,   KVL_STORED_COMPLETE, KVL_STORED_COMPLETE,  KVL_STORED_FAILED,
                                                KVL_STORED_COMPLETE,   KVL_STORED_INTERRUPTED, KVL_STORED_INCOMPLETE};
static const int64_t ids[] = {1, 2, 3, 5, 8, 9, 12};

static struct kvl_stored_run runs[7];
static struct kvl_run_list list = {runs, 7};
static struct kvl_err err;

static void fill(void)
{
  for (int i = 0; i < 7; i++) {
    memset(&runs[i], 0, sizeof runs[i]);
    runs[i].id = ids[i];
    runs[i].name = names[i];
    runs[i].mode = modes[i];
    runs[i].plane = plane;
    runs[i].seed = (uint64_t)(i % 2 + 1);
    runs[i].status = status[i];
    runs[i].concurrency = 16 << i;
  }
}

START_TEST(finds_one_run)
{
  static const struct {
    const char *word;
    int64_t id;
  } cases[] = {
    {"1", 1}, {"12", 12}, {"latest", 8}, {"published", 3}, {"publis", 3}, {"pub:mode=resident", 0}, {"published:mode=resident", 1},
    {"latest:mode=fixed", 2}, {"latest:mode=fixed,name=published", 2}, {"latest:status=incomplete", 12}, {"latest:status=interrupted", 9},
    {"agent:night", 8}, {"agent:night:mode=adaptive", 0}, {"weird", 12}, {"latest:seed=2", 2}, {"latest:concurrency=16", 1},
    {"latest:plane=model", 8}, {"weird:mode=fixed", 12}, {"wei", 12}, {"5:mode=fixed", 5}, {"latest:name=public", 5},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    uint32_t index = 99;
    int code = kvl_select_run(&list, "s.db", cases[c].word, &index, &err);
    if (cases[c].id == 0) {
      ck_assert_msg(code < 0, "%s", cases[c].word);
      continue;
    }
    ck_assert_msg(code == 0, "%s: %s", cases[c].word, err.text);
    ck_assert_msg(list.run[index].id == cases[c].id, "%s: run %lld", cases[c].word, (long long)list.run[index].id);
  }
}
END_TEST

START_TEST(names_the_nearest)
{
  static const struct {
    const char *word;
    int code;
    const char *says;
  } cases[] = {
    {"publishd", -ENOENT, "nearest: published"}, {"lates", -ENOENT, "nearest: latest"}, {"pub", -EINVAL, "could be p"}, {"7", -ENOENT, "runs 1 to 12"},
    {"latest:mod=fixed", -EINVAL, "nearest: mode"}, {"latest:mode=adaptve", -ENOENT, "nearest: adaptive"}, {"latest:fixed", -EINVAL, "KEY=VALUE"},
    {"published:seed=9", -ENOENT, "no run has seed 9"}, {"published:mode=fixed,seed=1", -ENOENT, "no run \"published:mode=fixed,seed=1\""},
    {"all", -EINVAL, "takes one run"}, {"1:mode=fixed", -ENOENT, "no run 1"}, {"zzz", -ENOENT, "nearest:"},
    {"latest:mode=a,mode=a,mode=a,mode=a,mode=a,mode=a,mode=a,mode=a,mode=a", -EINVAL, "more than 8"},
    {"99999999999999999999999", -ENOENT, "no run 9"},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    uint32_t index;
    err.text[0] = '\0';
    int code = kvl_select_run(&list, "s.db", cases[c].word, &index, &err);
    ck_assert_msg(code == cases[c].code, "%s: %d, %s", cases[c].word, code, err.text);
    ck_assert_msg(strstr(err.text, cases[c].says) != NULL, "%s: %s", cases[c].word, err.text);
    ck_assert_ptr_null(strchr(err.text, '\n'));
  }
  struct kvl_run_list none = {NULL, 0};
  uint32_t index;
  ck_assert_int_eq(kvl_select_run(&none, "s.db", "latest", &index, &err), -ENOENT);
  ck_assert_ptr_nonnull(strstr(err.text, "holds no runs"));
  char longest[2000];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  ck_assert_int_eq(kvl_select_run(&list, "s.db", longest, &index, &err), -EINVAL);
}
END_TEST

START_TEST(finds_many_runs)
{
  uint32_t index[8], count;
  const char *const words[] = {"latest", "all:mode=adaptive", "2", "8"};
  ck_assert_int_eq(kvl_select_runs(&list, "s.db", words, 4, index, &count, &err), 0);
  static const int64_t want[] = {8, 3, 2};
  ck_assert_uint_eq(count, 3);
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(list.run[index[i]].id, want[i]);
  }
  const char *const all[] = {"all"};
  ck_assert_int_eq(kvl_select_runs(&list, "s.db", all, 1, index, &count, &err), 0);
  ck_assert_uint_eq(count, 4);
  for (uint32_t i = 1; i < count; i++) {
    ck_assert_uint_gt(index[i], index[i - 1]); /* in the order in which they ran */
  }
  const char *const bad[] = {"latest", "nobody"};
  ck_assert_int_eq(kvl_select_runs(&list, "s.db", bad, 2, index, &count, &err), -ENOENT);
}
END_TEST

/* ---- comparison ---- */

static char *table_of(const struct kvl_summary *const *summaries, uint32_t count, enum kvl_format format)
{
  static const char *const labels[] = {"1: a", "2: b", "3: c"};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  if (format == KVL_FORMAT_TABLE) {
    kvl_compare_write_table(out, labels, summaries, count);
  } else if (format == KVL_FORMAT_JSON) {
    kvl_compare_write_json(out, summaries, count, "");
  } else {
    kvl_compare_write_tsv(out, labels, summaries, count);
  }
  ck_assert_int_eq(fclose(out), 0);
  return text;
}

START_TEST(differences)
{
  ck_assert(fabs(kvl_compare_difference(50.0, 75.0) - 50.0) < 1e-12);
  ck_assert(fabs(kvl_compare_difference(-50.0, -75.0) + 50.0) < 1e-12);
  ck_assert(!(fabs(kvl_compare_difference(0.0, 0.0)) > 0.0));
  ck_assert(isnan(kvl_compare_difference(0.0, 1.0)));
}
END_TEST

START_TEST(compares_runs)
{
  struct kvl_summary a = fixture_summary(1), b = a, c = a;
  a.output_throughput_tok_per_s = 1000.0;
  b.output_throughput_tok_per_s = 1345.0;
  c.output_throughput_tok_per_s = 1000.0;
  a.seed = b.seed = UINT64_MAX;
  c.seed = UINT64_MAX - 1; /* the same as a double */
  b.pages_lent = 5;
  a.pages_lent = c.pages_lent = 0;
  b.wall_s = 1e9;
  const struct kvl_summary *const three[] = {&a, &b, &c};
  for (uint32_t k = 0; k < kvl_summary_key_count(); k++) {
    const char *key = kvl_summary_key_at(k)->name;
    int differs = strcmp(key, "output_throughput_tok_per_s") == 0 || strcmp(key, "seed") == 0 || strcmp(key, "pages_lent") == 0 || strcmp(key, "wall_s") == 0;
    ck_assert_msg(kvl_compare_equal(three, 3, k) == !differs, "%s", key);
  }
  char *text = table_of(three, 3, KVL_FORMAT_TABLE);
  ck_assert_ptr_nonnull(strstr(text, "+34.5 %"));
  ck_assert_ptr_nonnull(strstr(text, "differs")); /* 0 against 5, and the seeds */
  char last[128];
  unsigned measured = 0;
  for (uint32_t k = 0; k < kvl_summary_key_count(); k++) {
    measured += kvl_summary_is_measured(k) ? 1 : 0;
  }
  (void)snprintf(last, sizeof last, "%u of %u keys are equal", kvl_summary_key_count() - measured - 3, kvl_summary_key_count() - measured);
  ck_assert_msg(strstr(text, last) != NULL, "no \"%s\" in\n%s", last, text);
  free(text);

  text = table_of(three, 3, KVL_FORMAT_JSON);
  cJSON *json = cJSON_Parse(text);
  ck_assert_int_eq(cJSON_GetArraySize(json), (int)kvl_summary_key_count());
  int seen = 0;
  const cJSON *row = NULL;
  cJSON_ArrayForEach(row, json) {
    const char *key = cJSON_GetObjectItemCaseSensitive(row, "key")->valuestring;
    const cJSON *percent = cJSON_GetObjectItemCaseSensitive(row, "difference_percent");
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(row, "values")), 3);
    ck_assert_int_eq(cJSON_GetArraySize(percent), 3);
    if (strcmp(key, "output_throughput_tok_per_s") == 0) {
      ck_assert(fabs(cJSON_GetArrayItem(percent, 1)->valuedouble - 34.5) < 1e-9);
      ck_assert(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(row, "equal")));
      seen++;
    } else if (strcmp(key, "pages_lent") == 0) {
      ck_assert(cJSON_IsNull(cJSON_GetArrayItem(percent, 1)));
      seen++;
    } else if (strcmp(key, "wall_s") == 0) {
      ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "measured")));
      seen++;
    }
  }
  ck_assert_int_eq(seen, 3);
  cJSON_Delete(json);
  free(text);

  text = table_of(three, 3, KVL_FORMAT_TSV);
  char *rest = text;
  unsigned lines = 0;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    unsigned tabs = 0;
    for (const char *s = line; *s != '\0'; s++) {
      tabs += *s == '\t';
    }
    ck_assert_uint_eq(tabs, 8); /* key unit measured equal, 3 values, 2 differences */
    lines++;
  }
  ck_assert_uint_eq(lines, kvl_summary_key_count() + 1);
  free(text);
}
END_TEST

/* ---- rows ---- */

START_TEST(rows_as_json_and_tsv)
{
  static const char *const columns[] = {"a", "b", "c", "d"};
  char *text = NULL;
  size_t size = 0;
  for (int f = 0; f < 2; f++) {
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    struct kvl_rows rows;
    kvl_rows_begin(&rows, out, f == 0 ? KVL_FORMAT_JSON : KVL_FORMAT_TSV, columns, 4);
    kvl_rows_count(&rows, 7);
    kvl_rows_number(&rows, 0.1);
    kvl_rows_text(&rows, "x\ty\"");
    kvl_rows_flag(&rows, 1);
    kvl_rows_count(&rows, UINT64_MAX);
    kvl_rows_number(&rows, NAN);
    kvl_rows_text(&rows, NULL);
    kvl_rows_flag(&rows, 0);
    kvl_rows_end(&rows);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_str_eq(text, f == 0 ? "[\n  {\"a\": 7, \"b\": 0.1, \"c\": \"x\\ty\\\"\", \"d\": true},\n"
                                    "  {\"a\": null, \"b\": null, \"c\": null, \"d\": false}\n]\n"
                                  : "a\tb\tc\td\n7\t0.1\tx y\"\ttrue\n\t\t\tfalse\n");
    free(text);
  }
  FILE *out = open_memstream(&text, &size);
  struct kvl_rows rows;
  kvl_rows_begin(&rows, out, KVL_FORMAT_JSON, columns, 4);
  kvl_rows_end(&rows);
  ck_assert_int_eq(fclose(out), 0);
  ck_assert_str_eq(text, "[]\n");
  free(text);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("select");
  tcase_add_checked_fixture(tcase, fill, NULL);
  tcase_add_test(tcase, finds_one_run);
  tcase_add_test(tcase, names_the_nearest);
  tcase_add_test(tcase, finds_many_runs);
  tcase_add_test(tcase, differences);
  tcase_add_test(tcase, compares_runs);
  tcase_add_test(tcase, rows_as_json_and_tsv);
  return kvl_tap_run_case("select", tcase);
}
