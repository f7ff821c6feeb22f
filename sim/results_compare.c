/* kvloan results compare: summaries beside each other, and what differs in the scenarios behind them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "results/compare.h"
#include "results/text.h"
#include "sim/cmd_results.h"
#include "sim/scenario_diff.h"

static void write_table_differences(const struct kvl_settings *settings, const char **value, uint32_t runs)
{
  enum { VALUE_MAX = 40 };
  int any = 0;
  for (size_t at = 0; at < settings->count;) {
    const char *key = settings->item[at].key;
    at = kvl_settings_at(settings, at, value, runs);
    if (kvl_settings_same(value, runs)) {
      continue;
    }
    (void)fputs(any ? "" : "\nThe scenarios differ in\n", stdout);
    any = 1;
    (void)fputs("  ", stdout);
    kvl_text_pad(stdout, key, 36, 0);
    for (uint32_t r = 0; r < runs; r++) {
      (void)fputs(r == 0 ? "  " : "  |  ", stdout);
      const char *text = value[r] != NULL ? value[r] : "-";
      (void)printf("%.*s%s", (int)VALUE_MAX, text, strlen(text) > VALUE_MAX ? "..." : "");
    }
    (void)fputc('\n', stdout);
  }
  (void)fputs(any ? "" : "The scenarios are the same.\n", stdout);
}

static void write_json(const struct kvl_results_call *call, const struct kvl_summary *const *summaries, const struct kvl_settings *settings,
                       const char **value)
{
  (void)fputs("{\n  \"runs\": [", stdout);
  for (uint32_t r = 0; r < call->run_count; r++) {
    const struct kvl_stored_run *run = &call->list.run[call->runs[r]];
    (void)printf("%s\n    {\"id\": %" PRId64 ", \"name\": ", r == 0 ? "" : ",", run->id);
    kvl_text_json_string(stdout, run->name);
    (void)fputs(", \"mode\": ", stdout);
    kvl_text_json_string(stdout, run->mode);
    (void)fputs(", \"plane\": ", stdout);
    kvl_text_json_string(stdout, run->plane);
    (void)printf(", \"seed\": %" PRIu64 ", \"status\": \"%s\", \"scenario_hash\": ", run->seed, kvl_stored_status_name(run->status));
    kvl_text_json_string(stdout, run->scenario_hash);
    (void)fputs("}", stdout);
  }
  (void)fputs("\n  ],\n  \"keys\": ", stdout);
  kvl_compare_write_json(stdout, summaries, call->run_count, "  ");
  (void)fputs(",\n  \"scenario_differences\": [", stdout);
  const char *separator = "";
  for (size_t at = 0; at < settings->count;) {
    const char *key = settings->item[at].key;
    at = kvl_settings_at(settings, at, value, call->run_count);
    if (kvl_settings_same(value, call->run_count)) {
      continue;
    }
    (void)printf("%s\n    {\"key\": ", separator);
    kvl_text_json_string(stdout, key);
    (void)fputs(", \"values\": [", stdout);
    for (uint32_t r = 0; r < call->run_count; r++) {
      (void)printf("%s%s", r == 0 ? "" : ", ", value[r] != NULL ? value[r] : "null");
    }
    (void)fputs("]}", stdout);
    separator = ",";
  }
  (void)fputs(separator[0] != '\0' ? "\n  ]\n}\n" : "]\n}\n", stdout);
}

static int read_settings(const struct kvl_results_call *call, struct kvl_settings *settings, struct kvl_err *err)
{
  int64_t *ids = calloc(call->run_count, sizeof *ids);
  if (ids == NULL) {
    return kvl_err_set(err, -1, "kvloan results compare: out of memory");
  }
  for (uint32_t r = 0; r < call->run_count; r++) {
    ids[r] = call->list.run[call->runs[r]].id;
  }
  int code = kvl_settings_read(settings, call->store, ids, call->run_count, err);
  free(ids);
  return code;
}

int kvl_results_compare(const struct kvl_results_call *call)
{
  if (call->run_count < 2) {
    fprintf(stderr, "%s: that is one run (%" PRId64 "); compare needs two or more\n", call->store_path, call->list.run[call->runs[0]].id);
    return 1;
  }
  if (kvl_results_lacks_summary(call)) {
    return 1;
  }
  struct kvl_err err = {"kvloan results compare: out of memory"};
  struct kvl_settings settings = {NULL, 0, 0};
  char **labels = kvl_results_labels(call);
  const struct kvl_summary **summaries = calloc(call->run_count, sizeof *summaries);
  const char **value = calloc(call->run_count, sizeof *value);
  int code = labels == NULL || summaries == NULL || value == NULL ? -1 : read_settings(call, &settings, &err);
  if (code == 0) {
    for (uint32_t r = 0; r < call->run_count; r++) {
      summaries[r] = &call->list.run[call->runs[r]].summary;
    }
    const char *const *names = (const char *const *)labels;
    switch (call->format) {
    case KVL_FORMAT_TABLE:
      kvl_compare_write_table(stdout, names, summaries, call->run_count);
      write_table_differences(&settings, value, call->run_count);
      break;
    case KVL_FORMAT_JSON:
      write_json(call, summaries, &settings, value);
      break;
    case KVL_FORMAT_TSV:
      kvl_compare_write_tsv(stdout, names, summaries, call->run_count);
      break;
    }
  } else {
    fprintf(stderr, "%s\n", err.text);
  }
  kvl_settings_free(&settings);
  free(summaries);
  free(value);
  kvl_results_labels_free(labels, labels != NULL ? call->run_count : 0);
  return code == 0 ? 0 : 1;
}
