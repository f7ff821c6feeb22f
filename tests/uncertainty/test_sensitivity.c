/* What is varied and how far; what ranks first; what is inside the noise. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sensitivity.h"
#include "tests/base/tap.h"

#define TINY KVL_TESTS "/tiny.json"

static void range(const char *text, double value, const char *from, const char *to)
{
  const char *a, *b;
  size_t n = 0, m = 0;
  bool found = kvl_stated_range(text, value, &a, &n, &b, &m);
  ck_assert_msg(found == (from != NULL), "%s", text);
  if (found) {
    ck_assert_msg(strlen(from) == n && strncmp(a, from, n) == 0 && strlen(to) == m && strncmp(b, to, m) == 0, "%s: %.*s, %.*s", text, (int)n, a, (int)m, b);
  }
}

START_TEST(ranges_are_read_where_they_are_meant)
{
  range("public: 2.8 to 3.3 tokens a step at 5 drafts", 3.05, "2.8", "3.3");
  range("assumed: between 10 and 30.", 12, "10", "30");
  range("measured over 1 to 2, so 40 to 60.", 50, "40", "60");
  range("calibrated on row P05, which leaves it open between 1 and 3 rounds", 384, NULL, NULL); /* another unit */
  range("NVIDIA H200: 44 to 82 requests", 0.02, NULL, NULL);
  range("falls from 9 to 3", 5, NULL, NULL);
  range("10 and 30", 12, NULL, NULL);
  range("P1 to 3", 2, NULL, NULL);
  range("2026-08-14 to 20", 15, NULL, NULL);
  range("1 to ", 1, NULL, NULL);
  range("", 1, NULL, NULL);
}
END_TEST

/* The parameters of the tiny scenario; *doc is to be freed as well. */
static int pick(struct kvl_sensitivity *s, struct kvl_scenario_doc **doc, const char *const *sets, unsigned count, const char *keys, double change, struct kvl_err *err)
{
  ck_assert_int_eq(setenv("KVLOAN_SCENARIOS", KVL_SCENARIOS, 1), 0);
  ck_assert_msg(kvl_scenario_load(doc, TINY, sets, count, err) == 0, "%s", err->text);
  return kvl_sensitivity_pick(s, *doc, TINY, sets, count, keys, change, err);
}

static const struct kvl_vary *find(const struct kvl_sensitivity *s, const char *key)
{
  for (uint32_t i = 0; i < s->count; i++) {
    if (strcmp(s->item[i].key, key) == 0) {
      return &s->item[i];
    }
  }
  return NULL;
}

START_TEST(what_is_calibrated_or_open_is_varied)
{
  struct kvl_sensitivity *s = calloc(1, sizeof *s);
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  ck_assert_ptr_nonnull(s);
  ck_assert_msg(pick(s, &doc, NULL, 0, NULL, 0.1, &err) == 0, "%s", err.text);
  const struct kvl_vary *v = find(s, "costs.law_fixed_ms");
  ck_assert(v != NULL && v->values == 2 && !v->stated);
  ck_assert_str_eq(v->why, "calibrated");
  ck_assert_str_eq(v->value[0].json, "11.934");
  ck_assert_str_eq(v->value[1].json, "14.586");
  v = find(s, "hardware.link.rows_per_s_by_pool_bytes");
  ck_assert(v != NULL && v->values == 2);
  ck_assert_str_eq(v->value[0].label, "0.9 x");
  ck_assert_str_eq(v->value[0].json, "[[1073741824,71100000],[8589934592,36900000],[34359738368,28800000],[1099511627776,28800000]]");
  v = find(s, "selection.preset"); /* by name, all but its own */
  ck_assert(v != NULL && v->values == 3);
  ck_assert_str_eq(v->value[0].json, "\"hot-a\"");
  ck_assert_str_eq(v->value[2].json, "\"cold-b\"");
  ck_assert_ptr_nonnull(find(s, "hardware.link.copy_gb_per_s"));       /* derived, but of the link's law */
  ck_assert_ptr_null(find(s, "costs.draft_ms_by_requests"));           /* an estimate that nothing reads: no speculation */
  ck_assert_ptr_null(find(s, "selection.query_overlap"));              /* the same */
  ck_assert_ptr_null(find(s, "costs.transfer_fixed_ms"));              /* assumed, but 0 */
  ck_assert_ptr_null(find(s, "hardware.hbm_gb_per_s"));                /* public */
  ck_assert_ptr_null(find(s, "model.weights_bytes"));                  /* read by rooflines alone */
  ck_assert_uint_ge(s->idle, 1);
  uint32_t points = 1;
  for (uint32_t i = 0; i < s->count; i++) {
    for (uint32_t n = 0; n < s->item[i].values; n++) {
      ck_assert_uint_eq(s->item[i].value[n].point, points++);
    }
  }
  ck_assert_uint_eq(s->points, points);
  kvl_sensitivity_free(s);
  kvl_scenario_free(doc);
  free(s);
}
END_TEST

START_TEST(named_keys_and_values)
{
  struct kvl_sensitivity *s = calloc(1, sizeof *s);
  struct kvl_scenario_doc *doc = NULL;
  struct kvl_err err = {""};
  const char *const sets[] = {"speculation=deepseek-v4.1-flash.dspark", "node.kv_pool_bytes=4000000000"};
  ck_assert_ptr_nonnull(s);
  ck_assert_msg(pick(s, &doc, NULL, 0, "policy.hot_rows=512:2048:4096,hardware.link,mode", 0.5, &err) == 0, "%s", err.text);
  ck_assert_uint_eq(s->item[0].values, 3);
  ck_assert(s->item[0].stated);
  ck_assert_str_eq(s->item[0].why, "asked");
  ck_assert_uint_eq(s->count, 7);
  const struct kvl_vary *v = find(s, "hardware.link.gather_gb_per_s");
  ck_assert(v != NULL && v->values == 2 && strcmp(v->value[0].json, "25") == 0 && strcmp(v->value[1].json, "75") == 0);
  ck_assert_uint_eq(find(s, "mode")->values, 2);
  char *points = kvl_sensitivity_points(s);
  ck_assert(points != NULL && strncmp(points, "[{},\n{\"policy.hot_rows\": 512},", 30) == 0);
  free(points);
  kvl_sensitivity_free(s);
  kvl_scenario_free(doc);
  ck_assert_msg(pick(s, &doc, sets, 2, "speculation", 0.1, &err) == 0, "%s", err.text);
  v = find(s, "speculation.accepted_mean"); /* public: 2.8 to 3.3 */
  ck_assert(v != NULL && v->stated && v->values == 2);
  ck_assert_str_eq(v->value[0].json, "2.8");
  ck_assert_str_eq(v->value[1].json, "3.3");
  kvl_sensitivity_free(s);
  kvl_scenario_free(doc);
  ck_assert_msg(pick(s, &doc, sets, 2, NULL, 0.1, &err) == 0, "%s", err.text);
  v = find(s, "selection.query_overlap"); /* published as a bound */
  ck_assert(v != NULL && v->stated && v->values == 2);
  ck_assert_str_eq(v->value[0].json, "0.9");
  ck_assert_str_eq(v->value[1].json, "1");
  ck_assert_ptr_null(find(s, "hardware.link.pages_gb_per_s_by_piece")); /* a part without it */
  kvl_sensitivity_free(s);
  kvl_scenario_free(doc);
  const char *const pages[] = {"hardware.link.pages_gb_per_s_by_piece=[[9216,50]]"};
  ck_assert_msg(pick(s, &doc, pages, 1, NULL, 0.1, &err) == 0, "%s", err.text);
  v = find(s, "hardware.link.pages_gb_per_s_by_piece");
  ck_assert(v != NULL && v->values == 2 && strcmp(v->value[0].json, "[[9216,45]]") == 0);
  kvl_sensitivity_free(s);
  kvl_scenario_free(doc);
  free(s);
}
END_TEST

START_TEST(what_cannot_be_varied_gets_one_line)
{
  static const struct {
    const char *keys, *words;
  } bad[] = {{"policy.hot_row", "policy.hot_rows"}, {"policy.hot_rows=a:b", "hot_rows"},   {"policy.hot_rows=1:", "LOW:HIGH"},
             {"policy.hot_rows,policy.hot_rows", "twice"}, {"seed", "--repeats"},          {"name", "cannot be varied"},
             {"", "commas"},                         {"costs.law_fixed_ms,", "commas"},    {"costs.transfer_fixed_ms", "LOW:HIGH"},
             {"limits", "nothing there"},            {"policy.hot_rows=1024", "changes nothing"},
             {"selection.preset=hot-c", "hot-b"},    {"costs.step_ms_by_tokens=1:2", "as a whole"}, {"model.caches", "cannot be varied"},
             {"mode=fixed:fixed", ""}};
  struct kvl_sensitivity *s = calloc(1, sizeof *s);
  ck_assert_ptr_nonnull(s);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct kvl_scenario_doc *doc = NULL;
    struct kvl_err err = {""};
    ck_assert_msg(pick(s, &doc, NULL, 0, bad[i].keys, 0.1, &err) == -EINVAL, "%s", bad[i].keys);
    ck_assert_msg(err.text[0] != '\0' && strchr(err.text, '\n') == NULL && strstr(err.text, bad[i].words) != NULL, "%s: %s", bad[i].keys, err.text);
    ck_assert_uint_eq(s->count, 0);
    kvl_scenario_free(doc);
  }
  free(s);
}
END_TEST

/* Three parameters of two values over two seeds, with made-up results. */
START_TEST(ranks_are_by_effect_and_noise_counts)
{
  enum { POINTS = 7, REPEATS = 2 };
  struct kvl_sensitivity *s = calloc(1, sizeof *s);
  struct kvl_summary run[POINTS][REPEATS];
  const struct kvl_summary *at[POINTS * REPEATS];
  ck_assert_ptr_nonnull(s);
  memset(run, 0, sizeof run);
  s->count = 3;
  s->points = POINTS;
  for (uint32_t i = 0; i < 3; i++) {
    (void)snprintf(s->item[i].key, sizeof s->item[i].key, "%c", (char)('a' + (int)i));
    s->item[i].values = 2;
    s->item[i].value[0].point = 1 + 2 * i;
    s->item[i].value[1].point = 2 + 2 * i;
  }
  for (uint32_t p = 0; p < POINTS; p++) {
    for (uint32_t r = 0; r < REPEATS; r++) {
      run[p][r].output_throughput_tok_per_s = 1000.0 + 50.0 * r; /* seeds differ by far more than any effect */
      run[p][r].ttft_s.p90 = 10.0;
      run[p][r].tpot_ms.p90 = 20.0;
      at[p * REPEATS + r] = &run[p][r]; /* the request rate is 0 throughout */
    }
  }
  run[1][0].ttft_s.p90 = 14.0; /* a: large, but of one seed alone */
  run[4][0].output_throughput_tok_per_s += 10;
  run[4][1].output_throughput_tok_per_s += 10.5; /* b: 1 %, the same in both */
  run[5][0].tpot_ms.p90 = run[5][1].tpot_ms.p90 = 20.4; /* c: 2 % */
  ck_assert_int_eq(kvl_sensitivity_judge(s, at, REPEATS, 0.95), 0);
  ck_assert_str_eq(s->item[0].key, "c");
  ck_assert_str_eq(s->item[1].key, "b");
  ck_assert_str_eq(s->item[2].key, "a");
  ck_assert(s->item[0].matters && s->item[1].matters && !s->item[2].matters);
  ck_assert_double_eq_tol(s->item[0].score, 2.0, 1e-9);
  ck_assert_double_eq_tol(s->item[1].score, 100.0 * 10.25 / 1025, 1e-9);
  ck_assert_double_eq_tol(s->item[2].score, 20.0, 1e-9);
  const struct kvl_effect *e = &s->item[1].value[1].effect[0];
  ck_assert_double_eq_tol(e->half, 12.7062047362 * 0.25, 1e-6);
  ck_assert(!e->inside && s->item[2].value[0].effect[1].inside && s->item[1].value[0].effect[0].inside); /* no difference is no effect */
  ck_assert(isnan(e[2].percent) && e[2].inside);
  ck_assert_double_eq_tol(s->base[0], 1025, 1e-9);
  ck_assert_double_gt(s->base_half[0], 300);
  at[2 * REPEATS] = NULL; /* a run that failed takes its value's effects with it, nothing else */
  ck_assert_int_eq(kvl_sensitivity_judge(s, at, REPEATS, 0.95), 0);
  ck_assert(!s->item[2].value[1].known && s->item[2].value[0].known);
  free(s);
}
END_TEST

START_TEST(without_repeats_no_noise_is_claimed)
{
  struct kvl_sensitivity *s = calloc(1, sizeof *s);
  struct kvl_summary base = {.ttft_s.p90 = 10}, now = {.ttft_s.p90 = 10.001};
  const struct kvl_summary *at[] = {&base, &now};
  ck_assert_ptr_nonnull(s);
  s->count = 1;
  s->points = 2;
  s->item[0].values = 1;
  s->item[0].value[0].point = 1;
  ck_assert_int_eq(kvl_sensitivity_judge(s, at, 1, 0.95), 0);
  ck_assert(isnan(s->item[0].value[0].effect[1].half) && !s->item[0].value[0].effect[1].inside && isnan(s->base_half[1]));
  free(s);
}
END_TEST

KVL_TAP_MAIN("sensitivity", ranges_are_read_where_they_are_meant, what_is_calibrated_or_open_is_varied, named_keys_and_values,
             what_cannot_be_varied_gets_one_line, ranks_are_by_effect_and_noise_counts, without_repeats_no_noise_is_claimed)
