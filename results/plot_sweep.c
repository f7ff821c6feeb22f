/* What the pictures of sweeps share. */
#include "results/plot_sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "results/text.h"

const char *kvl_sweep_key_word(const char *key)
{
  const char *dot = strrchr(key, '.');
  return dot == NULL ? key : dot + 1;
}

const char *kvl_sweep_metric_text(char text[KVL_SWEEP_AXIS_TEXT], uint32_t metric)
{
  static const struct {
    const char *key, *text;
  } known[] = {
    {"output_throughput_tok_per_s", "output throughput, tok/s"},
    {"output_throughput_steady_tok_per_s", "output throughput (steady), tok/s"},
    {"request_rate_tok_per_s_p50", "rate of one request (p50), tok/s"},
    {"request_rate_tok_per_s_p10", "rate of one request (p10), tok/s"},
    {"ttft_s_p90", "time to first token (p90), s"},
    {"tpot_ms_p90", "time per output token (p90), ms"},
    {"goodput_req_per_s", "goodput, requests/s"},
    {"decode_batch_p50", "decode batch (p50), requests"},
  };
  const struct kvl_summary_key *key = kvl_summary_key_at(metric);
  for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].key, key->name) == 0) {
      (void)snprintf(text, KVL_SWEEP_AXIS_TEXT, "%s", known[i].text);
      return text;
    }
  }
  (void)snprintf(text, KVL_SWEEP_AXIS_TEXT, key->unit[0] == '\0' || strcmp(key->unit, "flag") == 0 ? "%s" : "%s, %s", key->name, key->unit);
  return text;
}

static const char *value_of(const struct kvl_sweep_table *table, uint32_t point, uint32_t key, char text[KVL_SWEEP_VALUE_TEXT])
{
  return kvl_sweep_value_text(text, table->value[(size_t)point * table->keys + key]);
}

int kvl_sweep_axis_read(const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, uint32_t key, struct kvl_sweep_axis_values *values)
{
  *values = (struct kvl_sweep_axis_values){.text = malloc(points * sizeof *values->text), .number = calloc(points, sizeof *values->number), .numeric = 1};
  if (values->text == NULL || values->number == NULL) {
    kvl_sweep_axis_free(values);
    return -ENOMEM;
  }
  for (uint32_t i = 0; i < points; i++) {
    char text[KVL_SWEEP_VALUE_TEXT], *end;
    (void)value_of(table, point[i], key, text);
    if (kvl_sweep_axis_find(values, text) == values->count) {
      memcpy(values->text[values->count], text, sizeof text);
      values->number[values->count] = strtod(text, &end);
      values->numeric &= end != text && *end == '\0';
      values->count++;
    }
  }
  for (uint32_t i = 1; i < values->count && values->numeric; i++) { /* by insertion: few */
    char text[KVL_SWEEP_VALUE_TEXT];
    double number = values->number[i];
    uint32_t at = i;
    memcpy(text, values->text[i], sizeof text);
    for (; at > 0 && values->number[at - 1] > number; at--) {
      values->number[at] = values->number[at - 1];
      memcpy(values->text[at], values->text[at - 1], sizeof text);
    }
    values->number[at] = number;
    memcpy(values->text[at], text, sizeof text);
  }
  return 0;
}

void kvl_sweep_axis_free(struct kvl_sweep_axis_values *values)
{
  free(values->text);
  free(values->number);
  *values = (struct kvl_sweep_axis_values){NULL, NULL, 0, 0};
}

uint32_t kvl_sweep_axis_find(const struct kvl_sweep_axis_values *values, const char *value)
{
  uint32_t i = 0;
  while (i < values->count && strcmp(values->text[i], value) != 0) {
    i++;
  }
  return i;
}

int kvl_sweep_live(const struct kvl_sweep_table *table, const uint32_t *point, uint32_t points, uint32_t *live, uint32_t *count, struct kvl_err *err)
{
  *count = 0;
  for (uint32_t i = 0; i < points; i++) {
    if (kvl_sweep_cell(table, point[i], 0).count > 0) {
      live[(*count)++] = point[i];
    }
  }
  return *count > 0 ? 0 : kvl_err_set(err, -EINVAL, "sweep %s: none of these points has a complete run to draw", table->sweep->name);
}

int kvl_sweep_ambiguous(const struct kvl_sweep_table *table, uint32_t a, uint32_t b, struct kvl_err *err)
{
  for (uint32_t k = 0; k < table->keys; k++) {
    char one[KVL_SWEEP_VALUE_TEXT], two[KVL_SWEEP_VALUE_TEXT];
    if (strcmp(value_of(table, a, k, one), value_of(table, b, k, two)) != 0) {
      return kvl_err_set(err, -EINVAL, "points %u and %u fall on one place: they differ in %s (%s, %s); tell them apart with --where=%s=%s", (unsigned)a + 1,
                         (unsigned)b + 1, table->key[k], one, two, table->key[k], one);
    }
  }
  return kvl_err_set(err, -EINVAL, "points %u and %u fall on one place", (unsigned)a + 1, (unsigned)b + 1);
}

void kvl_sweep_put_traces(FILE *out, const struct kvl_sweep_table *table, uint32_t point)
{
  char text[KVL_SWEEP_VALUE_TEXT];
  (void)fprintf(out, "\t%u\t", (unsigned)point + 1);
  for (uint32_t k = 0; k < table->keys; k++) {
    (void)fprintf(out, "%s%s=", k == 0 ? "" : ", ", kvl_sweep_key_word(table->key[k]));
    kvl_text_tsv_cell(out, value_of(table, point, k, text));
  }
  (void)fputc('\t', out);
  const char *separator = "";
  for (uint32_t r = 0; r < table->repeats; r++) {
    int64_t run = table->task[(size_t)point * table->repeats + r].run;
    if (run > 0) {
      (void)fprintf(out, "%s%" PRId64, separator, run);
      separator = ",";
    }
  }
}
