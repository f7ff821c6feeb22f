#include "results/repeats.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/student.h"
#include "results/summary_internal.h"
#include "results/text.h"

enum { NUMBER_COLUMNS = 14 };
static const char of_runs[] = "each key is taken within a run; mean, deviation and interval are over the runs (percentiles are not pooled)";

struct kvl_repeats_cell kvl_repeats_cell(const double *value, uint32_t count, double confidence)
{
  struct kvl_repeats_cell cell = {NAN, NAN, NAN, NAN, NAN};
  double sum = 0.0, squares = 0.0;
  if (count == 0) {
    return cell;
  }
  cell.min = cell.max = value[0];
  for (uint32_t i = 0; i < count; i++) {
    sum += value[i] - value[0]; /* from the first: equal values have exactly themselves as their mean */
    cell.min = value[i] < cell.min ? value[i] : cell.min;
    cell.max = value[i] > cell.max ? value[i] : cell.max;
  }
  cell.mean = value[0] + sum / count;
  if (count < 2) {
    return cell;
  }
  for (uint32_t i = 0; i < count; i++) {
    squares += (value[i] - cell.mean) * (value[i] - cell.mean);
  }
  cell.deviation = sqrt(squares / (count - 1));
  cell.half = kvl_student_t(count - 1, confidence) * cell.deviation / sqrt(count);
  return cell;
}

struct report {
  FILE *out;
  const struct kvl_summary *const *summary;
  uint32_t count;
  double confidence;
  double *value; /* one a run */
};

static int is_seed(uint32_t key)
{
  return strcmp(kvl_summary_key_at(key)->name, "seed") == 0;
}

static struct kvl_repeats_cell cell_of(const struct report *r, uint32_t key)
{
  for (uint32_t i = 0; i < r->count; i++) {
    r->value[i] = kvl_summary_value(r->summary[i], key);
  }
  return kvl_repeats_cell(r->value, r->count, r->confidence);
}

/* A number as people read it, in the unit that *unit says. */
static const char *human(char text[KVL_TEXT_NUMBER_MAX], double value, const char *key_unit, const char **unit)
{
  *unit = key_unit;
  if (isnan(value)) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "-");
  } else if (strcmp(key_unit, "share") == 0 || strcmp(key_unit, "flag") == 0) {
    *unit = strcmp(key_unit, "flag") == 0 ? "% of runs" : "%";
    (void)kvl_text_human(text, 100.0 * value, 0);
  } else if (strcmp(key_unit, "B") == 0) {
    *unit = "";
    (void)kvl_text_bytes(text, value);
  } else {
    (void)kvl_text_human(text, value, 0);
  }
  return text;
}

static void write_table(const struct report *r, const char *name)
{
  (void)fprintf(r->out, "%s: %u run%s, seeds %" PRIu64 " to %" PRIu64 "\n", name, (unsigned)r->count, kvl_text_s(r->count), r->summary[0]->seed, r->summary[r->count - 1]->seed);
  (void)fprintf(r->out, "%s\n\n", of_runs);
  char head[40], text[KVL_TEXT_NUMBER_MAX], number[KVL_TEXT_NUMBER_MAX];
  const char *group = "", *unit;
  (void)snprintf(head, sizeof head, "+- %s %%", kvl_text_double(number, 100.0 * r->confidence));
  (void)fprintf(r->out, "%*s%*s%*s\n", KVL_GROUP_COLUMNS + KVL_LABEL_COLUMNS + NUMBER_COLUMNS, "mean", NUMBER_COLUMNS, head, NUMBER_COLUMNS, "deviation");
  for (uint32_t k = 0; k < kvl_summary_key_count(); k++) {
    if (is_seed(k) || kvl_summary_is_idle(r->summary, r->count, k)) {
      continue;
    }
    struct kvl_repeats_cell cell = cell_of(r, k);
    for (uint32_t i = 0; i < r->count; i++) {
      if (kvl_summary_is_none(r->summary[i], k)) { /* no mean of what not all of them have */
        cell.mean = cell.half = cell.deviation = NAN;
      }
    }
    const char *key_unit = kvl_summary_key_at(k)->unit;
    kvl_text_pad(r->out, strcmp(group, kvl_summary_group(k)) != 0 ? kvl_summary_group(k) : "", KVL_GROUP_COLUMNS, 0);
    group = kvl_summary_group(k);
    kvl_text_pad(r->out, kvl_summary_label(k), KVL_LABEL_COLUMNS, 0);
    kvl_text_pad(r->out, human(text, cell.mean, key_unit, &unit), NUMBER_COLUMNS, 1);
    kvl_text_pad(r->out, human(text, cell.half, key_unit, &unit), NUMBER_COLUMNS, 1);
    kvl_text_pad(r->out, human(text, cell.deviation, key_unit, &unit), NUMBER_COLUMNS, 1);
    (void)fprintf(r->out, "%s%s\n", unit[0] != '\0' ? "  " : "", unit);
  }
}

static void list_numbers(const struct kvl_repeats_cell *c, double number[7])
{
  const double all[7] = {c->mean, c->deviation, c->half, c->mean - c->half, c->mean + c->half, c->min, c->max};
  memcpy(number, all, sizeof all);
}

static const char *const number_names[7] = {"mean", "deviation", "half", "low", "high", "min", "max"};

static void write_json(const struct report *r, const char *name)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *separator = "";
  (void)fputs("{\n  \"name\": ", r->out);
  kvl_text_json_string(r->out, name);
  (void)fprintf(r->out, ",\n  \"runs\": %u,\n  \"seeds\": [", (unsigned)r->count);
  for (uint32_t i = 0; i < r->count; i++) {
    (void)fprintf(r->out, "%s%" PRIu64, i > 0 ? ", " : "", r->summary[i]->seed);
  }
  (void)fprintf(r->out, "],\n  \"confidence_percent\": %s,\n  \"note\": \"%s\",\n  \"keys\": {", kvl_text_double(text, 100.0 * r->confidence), of_runs);
  for (uint32_t k = 0; k < kvl_summary_key_count(); k++) {
    double number[7];
    if (is_seed(k)) {
      continue;
    }
    struct kvl_repeats_cell cell = cell_of(r, k);
    list_numbers(&cell, number);
    (void)fprintf(r->out, "%s\n    \"%s\": {\"unit\": \"%s\"", separator, kvl_summary_key_at(k)->name, kvl_summary_key_at(k)->unit);
    for (int n = 0; n < 7; n++) {
      (void)fprintf(r->out, ", \"%s\": %s", number_names[n], kvl_text_double(text, number[n]));
    }
    (void)fputs("}", r->out);
    separator = ",";
  }
  (void)fputs("\n  }\n}\n", r->out);
}

static void write_tsv(const struct report *r)
{
  char text[KVL_TEXT_NUMBER_MAX];
  (void)fputs("key", r->out);
  for (int n = 0; n < 7; n++) {
    (void)fprintf(r->out, "\t%s", number_names[n]);
  }
  (void)fputs("\truns\tunit\n", r->out);
  for (uint32_t k = 0; k < kvl_summary_key_count(); k++) {
    double number[7];
    if (is_seed(k)) {
      continue;
    }
    struct kvl_repeats_cell cell = cell_of(r, k);
    list_numbers(&cell, number);
    (void)fputs(kvl_summary_key_at(k)->name, r->out);
    for (int n = 0; n < 7; n++) {
      (void)fprintf(r->out, "\t%s", isnan(number[n]) ? "" : kvl_text_double(text, number[n]));
    }
    (void)fprintf(r->out, "\t%u\t%s\n", (unsigned)r->count, kvl_summary_key_at(k)->unit);
  }
}

int kvl_repeats_write(FILE *out, enum kvl_format format, const char *name, const struct kvl_summary *const *summaries, uint32_t count, double confidence)
{
  struct report r = {.out = out, .summary = summaries, .count = count, .confidence = confidence, .value = calloc(count + 1u, sizeof(double))};
  if (r.value == NULL) {
    return -ENOMEM;
  }
  switch (format) {
  case KVL_FORMAT_TABLE:
    write_table(&r, name);
    break;
  case KVL_FORMAT_JSON:
    write_json(&r, name);
    break;
  case KVL_FORMAT_TSV:
    write_tsv(&r);
    break;
  }
  free(r.value);
  return 0;
}
