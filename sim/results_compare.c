/* kvloan results compare: summaries beside each other, and what differs in the scenarios behind them. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "results/compare.h"
#include "results/text.h"
#include "sim/cmd_results.h"

/* One key of one scenario, flattened: "policy.hot_rows" and its value as JSON. */
struct setting {
  char *key, *value;
  uint32_t run; /* position among the compared runs */
};

struct settings {
  struct setting *item;
  size_t count, capacity;
};

/* Takes both strings. 0 when memory is short. */
static int add_setting(struct settings *settings, char *key, char *value, uint32_t run)
{
  if (key != NULL && value != NULL && settings->count == settings->capacity) {
    size_t capacity = settings->capacity == 0 ? 256 : settings->capacity * 2;
    struct setting *item = realloc(settings->item, capacity * sizeof *item);
    if (item != NULL) {
      settings->item = item;
      settings->capacity = capacity;
    }
  }
  if (key == NULL || value == NULL || settings->count == settings->capacity) {
    free(key);
    free(value);
    return 0;
  }
  settings->item[settings->count++] = (struct setting){key, value, run};
  return 1;
}

/* Objects are walked; everything else, arrays included, is a value. {"value": v, "origin": text} is the value v. */
static int flatten(struct settings *settings, const char *prefix, const cJSON *json, uint32_t run)
{
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, "value");
  if (value != NULL && cJSON_HasObjectItem(json, "origin")) {
    json = value;
  }
  if (!cJSON_IsObject(json)) {
    return add_setting(settings, strdup(prefix), cJSON_PrintUnformatted(json), run);
  }
  const cJSON *child = NULL;
  cJSON_ArrayForEach(child, json) {
    size_t front = strlen(prefix), dot = front > 0 ? 1 : 0, back = strlen(child->string);
    char *key = malloc(front + dot + back + 1);
    if (key == NULL) {
      return 0;
    }
    memcpy(key, prefix, front);
    memcpy(key + front, ".", dot);
    memcpy(key + front + dot, child->string, back + 1);
    int fine = flatten(settings, key, child, run);
    free(key);
    if (!fine) {
      return 0;
    }
  }
  return 1;
}

static int by_key_then_run(const void *a, const void *b)
{
  const struct setting *x = a, *y = b;
  int order = strcmp(x->key, y->key);
  return order != 0 ? order : (x->run > y->run) - (x->run < y->run);
}

/* What one key says in each run (NULL: nothing), and where the next key begins. */
static size_t values_of(const struct settings *settings, size_t at, const char **value, uint32_t runs)
{
  const char *key = settings->item[at].key;
  memset(value, 0, runs * sizeof *value);
  for (; at < settings->count && strcmp(settings->item[at].key, key) == 0; at++) {
    value[settings->item[at].run] = settings->item[at].value;
  }
  return at;
}

static int all_same(const char *const *value, uint32_t runs)
{
  for (uint32_t r = 1; r < runs; r++) {
    if ((value[r] == NULL) != (value[0] == NULL) || (value[r] != NULL && strcmp(value[r], value[0]) != 0)) {
      return 0;
    }
  }
  return 1;
}

static void write_table_differences(const struct settings *settings, const char **value, uint32_t runs)
{
  enum { VALUE_MAX = 40 };
  int any = 0;
  for (size_t at = 0; at < settings->count;) {
    const char *key = settings->item[at].key;
    at = values_of(settings, at, value, runs);
    if (all_same(value, runs)) {
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

static void write_json(const struct kvl_results_call *call, const struct kvl_summary *const *summaries, const struct settings *settings,
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
    at = values_of(settings, at, value, call->run_count);
    if (all_same(value, call->run_count)) {
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

static int read_settings(const struct kvl_results_call *call, struct settings *settings, struct kvl_err *err)
{
  for (uint32_t r = 0; r < call->run_count; r++) {
    char *text = NULL;
    int code = kvl_store_scenario(call->store, call->list.run[call->runs[r]].id, &text, err);
    if (code != 0) {
      return code;
    }
    cJSON *json = cJSON_Parse(text);
    int fine = json == NULL || flatten(settings, "", json, r); /* a scenario that is no JSON has no keys to compare */
    cJSON_Delete(json);
    free(text);
    if (!fine) {
      return kvl_err_set(err, -1, "kvloan results compare: out of memory");
    }
  }
  if (settings->count > 0) {
    qsort(settings->item, settings->count, sizeof *settings->item, by_key_then_run);
  }
  return 0;
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
  struct settings settings = {NULL, 0, 0};
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
  for (size_t i = 0; i < settings.count; i++) {
    free(settings.item[i].key);
    free(settings.item[i].value);
  }
  free(settings.item);
  free(summaries);
  free(value);
  kvl_results_labels_free(labels, labels != NULL ? call->run_count : 0);
  return code == 0 ? 0 : 1;
}
