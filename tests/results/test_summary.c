/* The summary's writers: stable keys, text against stored golden files, JSON read back by a parser that is not ours. */
#include <cjson/cJSON.h>
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/summary.h"
#include "results/text.h"
#include "tests/base/tap.h"
#include "tests/results/fixture.h"

/* Every key that the outside relies on. A change here is a change for everybody who reads our JSON. */
static const char *const stable[] = {
  "output_throughput_tok_per_s", "decode_batch_p50", "decode_batch_max", "request_rate_tok_per_s_p50", "ttft_s_p50", "ttft_s_p90", "ttft_s_p99",
  "tpot_ms_p50", "tpot_ms_p90", "tpot_ms_p99", "e2e_s_p50", "e2e_s_p90", "e2e_s_p99", "step_ms_p50", "step_ms_p90",
  "sessions_per_decode_gpu_max", "selections_total", "host_link_busy_share", "pages_lent", "pages_revoked", "pages_given_back",
  "requests_completed", "requests_aborted", "simulated_s", "wall_s", "seed",
};
static const char *const tiers[] = {"scratch", "tail", "borrowed", "bank", "hot", "host"};

static struct kvl_summary sample_run(void)
{
  struct kvl_summary s;
  memset(&s, 0, sizeof s);
  s.output_throughput_tok_per_s = 2918.437; s.output_throughput_steady_tok_per_s = 3011.25; s.goodput_req_per_s = 3.648;
  s.decode_batch_p50 = 251; s.decode_batch_max = 256;
  s.request_rate_tok_per_s_p10 = 9.96; s.request_rate_tok_per_s_p50 = 11.207;
  s.ttft_s = (struct kvl_percentiles){4.21, 9.8, 10.4, 12.063};
  s.tpot_ms = (struct kvl_percentiles){88.23, 97.1, 99.95, 104.4};
  s.e2e_s = (struct kvl_percentiles){74.7, 81.2, 84.125, 1001.5};
  s.step_ms = (struct kvl_percentiles){43.9, 52.2, 55.0, 61.75};
  s.sessions_per_decode_gpu_max = 256;
  s.selections_total = 838860800;
  s.selections_by_tier[0] = 1638400; s.selections_by_tier[1] = 3276800; s.selections_by_tier[2] = 301989888;
  s.selections_by_tier[4] = 489626272; s.selections_by_tier[5] = 42329440;
  s.rows_fetched = 42329440; s.host_link_bytes = 27768112640; s.host_link_busy_share = 0.312345;
  s.stall_ms_by_cause[KVL_STALL_COMPUTE] = 39120.5; s.stall_ms_by_cause[KVL_STALL_BOOKKEEPING] = 2412.75;
  s.stall_ms_by_cause[KVL_STALL_RESOLVE] = 812; s.stall_ms_by_cause[KVL_STALL_FETCH] = 1700.0625;
  s.stall_ms_by_cause[KVL_STALL_ADMISSION] = 0.25;
  s.pages_lent = 9120; s.pages_revoked = 7001; s.pages_given_back = 312;
  s.drafts_verified = 1160000; s.drafts_accepted = 489000; s.tokens_per_step_per_request = 3.1; s.verified_tokens_per_step_p50 = 1280;
  s.draft_time_share = 0.0625; s.shared_lanes = 401000000;
  s.prefetch_groups = 900; s.prefetch_landed = 899; s.prefetch_candidates = 14000000; s.prefetch_resident = 13500000; s.prefetch_copied = 490000;
  s.prefetch_dropped = 10000; s.prefetch_used = 120000; s.prefetch_unused = 300000; s.prefetch_later_lanes = 400000000; s.prefetch_later_demand = 7;
  s.prefetch_link_ms = 812.5; s.prefetch_unused_link_ms = 512.25; s.prefetch_margin_ms = 4000.5; s.prefetch_wait_ms = 0.125;
  s.prefix_hit_rate = 0.5; s.prefill_busy_share = 0.25; s.requests_completed = 256; s.requests_aborted = 1;
  s.steps = 912; s.is_extrapolated = 1; s.compute_is_estimate = 1; s.simulated_s = 70.1749; s.wall_s = 4.81; s.selections_per_wall_s = 174399334.7; s.peak_memory_bytes = 812345678; s.seed = 1;
  return s;
}

static char *capture(enum kvl_format format, int many)
{
  struct kvl_summary first = sample_run(), second = sample_run();
  second.output_throughput_tok_per_s = 0.1;
  second.selections_total = 0;
  second.seed = UINT64_MAX;
  second.ttft_s.p50 = 1e-7;
  second.ttft_s.p90 = 1e22;
  second.host_link_bytes = 999;
  const char *const names[] = {"adaptive", "a \"name\"\twith\nmuch in it \xc3\xa9 \xff"};
  const struct kvl_summary *const summaries[] = {&first, &second};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  if (many) {
    kvl_summary_write_many(out, format, names, summaries, 2);
  } else {
    kvl_summary_write(out, format, names[0], &first);
  }
  ck_assert_int_eq(ferror(out), 0);
  ck_assert_int_eq(fclose(out), 0);
  return text;
}

/* KVL_GOLDEN_WRITE=1 writes the files instead (then read the difference before it is committed). */
static void compare_with_golden(const char *name, const char *text)
{
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, name);
  if (getenv("KVL_GOLDEN_WRITE") != NULL) {
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    (void)fputs(text, out);
    ck_assert_int_eq(fclose(out), 0);
    return;
  }
  FILE *in = fopen(path, "r");
  ck_assert_msg(in != NULL, "no %s", path);
  static char want[65536];
  size_t length = fread(want, 1, sizeof want - 1, in);
  want[length] = '\0';
  (void)fclose(in);
  unsigned line = 1, at = 0;
  for (; want[at] == text[at] && text[at] != '\0'; at++) {
    line += text[at] == '\n';
  }
  ck_assert_msg(want[at] == text[at], "%s differs from line %u on (KVL_GOLDEN_WRITE=1 writes it anew): \"%.60s\", not \"%.60s\"", name, line,
                text + at, want + at);
}

START_TEST(writes_what_the_golden_files_say)
{
  static const char *const name[2][3] = {{"one.txt", "one.json", "one.tsv"}, {"many.txt", "many.json", "many.tsv"}};
  char *text = capture((enum kvl_format)(_i % 3), _i / 3);
  compare_with_golden(name[_i / 3][_i % 3], text);
  free(text);
}
END_TEST

START_TEST(json_parses_and_reads_back_exactly)
{
  struct kvl_summary want = sample_run();
  char *text = capture(KVL_FORMAT_JSON, 0);
  cJSON *json = cJSON_Parse(text);
  ck_assert_ptr_nonnull(json);
  for (size_t i = 0; i < sizeof stable / sizeof stable[0]; i++) {
    ck_assert_msg(cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(json, stable[i])), "no %s", stable[i]);
  }
  const cJSON *by_tier = cJSON_GetObjectItemCaseSensitive(json, "selections_by_tier");
  const cJSON *by_cause = cJSON_GetObjectItemCaseSensitive(json, "stall_ms_by_cause");
  ck_assert_int_eq(cJSON_GetArraySize(by_tier), KVL_REPORT_TIERS);
  ck_assert_int_eq(cJSON_GetArraySize(by_cause), KVL_STALLS);
  for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
    ck_assert_str_eq(kvl_tier_name(t), tiers[t]);
    ck_assert_msg(cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(by_tier, tiers[t])), "no tier %s", tiers[t]);
  }
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    const char *key = kvl_summary_key_at(i)->name, *dot = strchr(key, '.');
    const cJSON *in = dot == NULL ? json : strncmp(key, "selections", 10) == 0 ? by_tier : by_cause;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(in, dot == NULL ? key : dot + 1);
    ck_assert_msg(cJSON_IsNumber(item), "no %s", key);
    double value = kvl_summary_value(&want, i);
    ck_assert_msg(memcmp(&item->valuedouble, &value, sizeof value) == 0, "%s: %.17g, not %.17g", key, item->valuedouble, value);
  }
  cJSON_Delete(json);
  free(text);
}
END_TEST

START_TEST(names_survive_json)
{
  char *text = capture(KVL_FORMAT_JSON, 1);
  cJSON *json = cJSON_Parse(text);
  ck_assert_int_eq(cJSON_GetArraySize(json), 2);
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(json, 1), "name");
  ck_assert_str_eq(name->valuestring, "a \"name\"\twith\nmuch in it \xc3\xa9 \xef\xbf\xbd");
  cJSON_Delete(json);
  free(text);
}
END_TEST

/* Every row of a table of several runs is as wide as its first: columns line up. */
START_TEST(columns_line_up)
{
  char *text = capture(KVL_FORMAT_TABLE, 1);
  size_t width = 0;
  char *rest = text;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    size_t columns = kvl_text_columns(line);
    ck_assert_msg(width == 0 || columns == width, "%zu columns, not %zu: %s", columns, width, line);
    width = columns;
  }
  free(text);
}
END_TEST

START_TEST(keys_are_unique_and_settable)
{
  struct kvl_summary s = fixture_summary(7);
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    for (uint32_t j = 0; j < i; j++) {
      ck_assert_str_ne(kvl_summary_key_at(i)->name, kvl_summary_key_at(j)->name);
    }
    struct kvl_summary before = s;
    if (kvl_summary_is_integer(i)) {
      kvl_summary_set_count(&s, i, kvl_summary_count(&before, i) ^ 1);
    } else {
      kvl_summary_set_number(&s, i, kvl_summary_value(&before, i) + 1.0);
    }
    for (uint32_t j = 0; j < kvl_summary_key_count(); j++) { /* one key's field is nobody else's */
      char a[KVL_SUMMARY_TEXT_MAX], b[KVL_SUMMARY_TEXT_MAX];
      int same = strcmp(kvl_summary_value_text(a, &s, j), kvl_summary_value_text(b, &before, j)) == 0;
      ck_assert_msg(same == (i != j), "key %u set, key %u %s", i, j, same ? "did not change" : "changed");
    }
  }
}
END_TEST

/* Each key stands in the page for readers, in quotes of its own. */
START_TEST(every_key_is_documented)
{
  FILE *in = fopen(PAGE, "r");
  ck_assert_msg(in != NULL, "no %s", PAGE);
  static char page[65536];
  page[fread(page, 1, sizeof page - 1, in)] = '\0';
  (void)fclose(in);
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    char quoted[128];
    (void)snprintf(quoted, sizeof quoted, "`%s`", kvl_summary_key_at(i)->name);
    ck_assert_msg(strstr(page, quoted) != NULL, "%s is not in %s", quoted, PAGE);
  }
}
END_TEST

START_TEST(doubles_read_back)
{
  char text[KVL_TEXT_NUMBER_MAX];
  ck_assert_str_eq(kvl_text_double(text, 0.1), "0.1");
  ck_assert_str_eq(kvl_text_double(text, 5.0), "5");
  ck_assert_str_eq(kvl_text_double(text, NAN), "null");
  ck_assert_str_eq(kvl_text_double(text, INFINITY), "null");
  for (uint64_t i = 0; i < 20000; i++) {
    struct kvl_summary s = fixture_summary(i);
    double value = s.simulated_s * pow(10.0, (double)(i % 41) - 20.0), back = strtod(kvl_text_double(text, value), NULL);
    ck_assert_msg(memcmp(&value, &back, sizeof value) == 0, "%.17g reads back as %.17g", value, back);
  }
}
END_TEST

START_TEST(numbers_for_people)
{
  static const struct {
    double value;
    int whole;
    const char *text;
  } cases[] = {
    {0, 0, "0"}, {0, 1, "0"}, {2918.44, 0, "2,918"}, {999.96, 0, "1,000"}, {999.94, 0, "999.9"}, {29.184, 0, "29.18"}, {9.99996, 0, "10.00"},
    {1.5, 0, "1.500"}, {0.02918, 0, "0.0292"}, {0.00012345, 0, "0.000123"}, {1e-7, 0, "1.00e-07"}, {-1234567.0, 0, "-1,234,567"},
    {838860800, 1, "838,860,800"}, {999, 1, "999"}, {1e22, 0, "1e+22"}, {-0.5, 0, "-0.5000"},
  };
  char text[KVL_TEXT_NUMBER_MAX];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ck_assert_str_eq(kvl_text_human(text, cases[i].value, cases[i].whole), cases[i].text);
  }
  ck_assert_str_eq(kvl_text_human(text, NAN, 0), "-");
  ck_assert_str_eq(kvl_text_count(text, UINT64_MAX), "18,446,744,073,709,551,615");
  ck_assert_str_eq(kvl_text_bytes(text, 999), "999 B");
  ck_assert_str_eq(kvl_text_bytes(text, 1000), "1.000 kB");
  ck_assert_str_eq(kvl_text_bytes(text, 812345678), "812.3 MB");
  ck_assert_str_eq(kvl_text_bytes(text, 2.5e18), "2,500 PB");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("summary");
  tcase_add_loop_test(tcase, writes_what_the_golden_files_say, 0, 6);
  tcase_add_test(tcase, json_parses_and_reads_back_exactly);
  tcase_add_test(tcase, names_survive_json);
  tcase_add_test(tcase, columns_line_up);
  tcase_add_test(tcase, keys_are_unique_and_settable);
  tcase_add_test(tcase, every_key_is_documented);
  tcase_add_test(tcase, doubles_read_back);
  tcase_add_test(tcase, numbers_for_people);
  return kvl_tap_run_case("summary", tcase);
}
