#include "results/validation.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "results/text.h"

const char *kvl_verdict_name(enum kvl_verdict verdict)
{
  switch (verdict) {
  case KVL_VERDICT_NONE:
    return "";
  case KVL_VERDICT_OK:
    return "ok";
  case KVL_VERDICT_FAILED:
    return "FAILED";
  }
  return "";
}

struct kvl_validation_row *kvl_validation_add(struct kvl_validation *v, const char *section, const char *key, const char *unit)
{
  assert(v->count < KVL_VALIDATION_ROWS);
  struct kvl_validation_row *row = &v->row[v->count++];
  memset(row, 0, sizeof *row);
  (void)snprintf(row->section, sizeof row->section, "%s", section);
  (void)snprintf(row->key, sizeof row->key, "%s", key);
  (void)snprintf(row->unit, sizeof row->unit, "%s", unit);
  row->measured = row->same_steps = row->forecast = row->same_steps_error = row->forecast_error = row->bound = (double)NAN;
  return row;
}

static double error_of(double predicted, double measured)
{
  return isnan(predicted) || isnan(measured) || measured == 0 ? (double)NAN : 100.0 * (predicted - measured) / measured;
}

void kvl_validation_errors(struct kvl_validation_row *row)
{
  row->same_steps_error = error_of(row->same_steps, row->measured);
  row->forecast_error = error_of(row->forecast, row->measured);
}

uint32_t kvl_validation_failed(const struct kvl_validation *v)
{
  uint32_t failed = 0;
  for (uint32_t i = 0; i < v->count; i++) {
    failed += v->row[i].verdict == KVL_VERDICT_FAILED;
  }
  return failed;
}

/* ---- output ---- */

static int is_whole(const struct kvl_validation_row *row)
{
  return row->unit[0] == '\0' || strcmp(row->unit, "B") == 0;
}

/* For people: "-" for what there is none of. */
static const char *cell(char text[KVL_TEXT_NUMBER_MAX], double value, int whole)
{
  if (isnan(value)) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "-");
    return text;
  }
  return kvl_text_human(text, value, whole && value == floor(value));
}

static void percent(FILE *out, double value)
{
  if (isnan(value)) {
    (void)fprintf(out, "%10s", "");
  } else {
    (void)fprintf(out, "%+8.2f %%", value);
  }
}

static void write_table(FILE *out, const char *title, const struct kvl_validation *v)
{
  char text[KVL_TEXT_NUMBER_MAX];
  (void)fprintf(out, "%s\n\n%-36s%-6s%16s%16s%10s%16s%10s\n", title, "", "", "measured", "same steps", "error", "forecast", "error");
  for (uint32_t i = 0; i < v->count; i++) {
    const struct kvl_validation_row *row = &v->row[i];
    int whole = is_whole(row);
    (void)fprintf(out, "%-11s", i == 0 || strcmp(row->section, v->row[i - 1].section) != 0 ? row->section : "");
    (void)fprintf(out, "%-25s%-6s", row->key, row->unit);
    (void)fprintf(out, "%16s", cell(text, row->measured, whole));
    (void)fprintf(out, "%16s", cell(text, row->same_steps, whole));
    percent(out, row->same_steps_error);
    (void)fprintf(out, "%16s", cell(text, row->forecast, whole));
    percent(out, row->forecast_error);
    if (row->verdict != KVL_VERDICT_NONE) {
      (void)fprintf(out, "  %s", kvl_verdict_name(row->verdict));
    }
    (void)fputc('\n', out);
  }
}

static void json_number(FILE *out, const char *name, double value)
{
  char text[KVL_TEXT_NUMBER_MAX];
  if (!isnan(value)) {
    (void)fprintf(out, ", \"%s\": %s", name, kvl_text_double(text, value));
  }
}

static void write_json(FILE *out, const char *title, const struct kvl_validation *v)
{
  (void)fputs("{\n  \"title\": ", out);
  kvl_text_json_string(out, title);
  (void)fprintf(out, ",\n  \"failed\": %u,\n  \"rows\": [", kvl_validation_failed(v));
  for (uint32_t i = 0; i < v->count; i++) {
    const struct kvl_validation_row *row = &v->row[i];
    (void)fprintf(out, "%s\n    {\"section\": \"%s\", \"key\": \"%s\", \"unit\": \"%s\"", i == 0 ? "" : ",", row->section, row->key, row->unit);
    json_number(out, "measured", row->measured);
    json_number(out, "same_steps", row->same_steps);
    json_number(out, "same_steps_error", row->same_steps_error);
    json_number(out, "forecast", row->forecast);
    json_number(out, "forecast_error", row->forecast_error);
    json_number(out, "bound", row->bound);
    (void)fprintf(out, ", \"verdict\": \"%s\"}", kvl_verdict_name(row->verdict));
  }
  (void)fputs("\n  ]\n}\n", out);
}

static void write_tsv(FILE *out, const struct kvl_validation *v)
{
  char text[KVL_TEXT_NUMBER_MAX];
  (void)fputs("section\tkey\tunit\tmeasured\tsame_steps\tsame_steps_error\tforecast\tforecast_error\tbound\tverdict\n", out);
  for (uint32_t i = 0; i < v->count; i++) {
    const struct kvl_validation_row *row = &v->row[i];
    const double value[] = {row->measured, row->same_steps, row->same_steps_error, row->forecast, row->forecast_error, row->bound};
    (void)fprintf(out, "%s\t%s\t%s", row->section, row->key, row->unit);
    for (uint32_t k = 0; k < sizeof value / sizeof value[0]; k++) {
      (void)fprintf(out, "\t%s", isnan(value[k]) ? "" : kvl_text_double(text, value[k]));
    }
    (void)fprintf(out, "\t%s\n", kvl_verdict_name(row->verdict));
  }
}

void kvl_validation_write(FILE *out, enum kvl_format format, const char *title, const struct kvl_validation *v)
{
  switch (format) {
  case KVL_FORMAT_TABLE:
    write_table(out, title, v);
    break;
  case KVL_FORMAT_JSON:
    write_json(out, title, v);
    break;
  case KVL_FORMAT_TSV:
    write_tsv(out, v);
    break;
  }
}
