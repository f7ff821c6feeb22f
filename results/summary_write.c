/* Writers of one summary, or of several side by side. */
#include <string.h>

#include "results/summary_internal.h"
#include "results/text.h"

/* ---- JSON and TSV: every key, exact ---- */

/* "selections_by_tier.hot" is member "hot" of the object "selections_by_tier". */
static void write_json(FILE *out, const char *name, const struct kvl_summary *summary, const char *indent)
{
  char number[KVL_SUMMARY_TEXT_MAX];
  (void)fputs("{", out);
  const char *separator = "";
  if (name != NULL) {
    (void)fprintf(out, "\n%s  \"name\": ", indent);
    kvl_text_json_string(out, name);
    separator = ",";
  }
  size_t object = 0; /* length of the open object's name, dot included */
  const char *object_name = "";
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    const char *key = kvl_summary_key_at(i)->name;
    if (object != 0 && strncmp(key, object_name, object) != 0) {
      (void)fputs("}", out);
      object = 0;
    }
    const char *dot = strchr(key, '.');
    if (dot == NULL) {
      (void)fprintf(out, "%s\n%s  \"%s\": ", separator, indent, key);
    } else if (object == 0) {
      object = (size_t)(dot - key) + 1;
      object_name = key;
      (void)fprintf(out, "%s\n%s  \"%.*s\": {\"%s\": ", separator, indent, (int)(dot - key), key, dot + 1);
    } else {
      (void)fprintf(out, ", \"%s\": ", dot + 1);
    }
    (void)fputs(kvl_summary_value_text(number, summary, i), out);
    separator = ",";
  }
  (void)fprintf(out, "%s\n%s}", object != 0 ? "}" : "", indent);
}

static void write_tsv_rows(FILE *out, const char *name, const struct kvl_summary *summary)
{
  char number[KVL_SUMMARY_TEXT_MAX];
  (void)fputs("key\tvalue\tunit\n", out);
  if (name != NULL) {
    (void)fputs("name\t", out);
    kvl_text_tsv_cell(out, name);
    (void)fputs("\t\n", out);
  }
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    (void)fprintf(out, "%s\t%s\t%s\n", kvl_summary_key_at(i)->name, kvl_summary_value_text(number, summary, i), kvl_summary_key_at(i)->unit);
  }
}

static void write_tsv_columns(FILE *out, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count)
{
  char number[KVL_SUMMARY_TEXT_MAX];
  (void)fputs("name", out);
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    (void)fprintf(out, "\t%s", kvl_summary_key_at(i)->name);
  }
  for (uint32_t r = 0; r < count; r++) {
    (void)fputc('\n', out);
    kvl_text_tsv_cell(out, names[r]);
    for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
      (void)fprintf(out, "\t%s", kvl_summary_value_text(number, summaries[r], i));
    }
  }
  (void)fputc('\n', out);
}

/* ---- tables: grouped, for people ---- */

enum { VALUE_COLUMNS = 15 };

static int is_tier(uint32_t i)
{
  return strncmp(kvl_summary_key_at(i)->name, "selections_by_tier.", 19) == 0;
}

static int is_stall(uint32_t i)
{
  return strncmp(kvl_summary_key_at(i)->name, "stall_ms_by_cause.", 18) == 0;
}

int kvl_summary_is_none(const struct kvl_summary *summary, uint32_t i)
{
  return strcmp(kvl_summary_key_at(i)->name, "output_throughput_steady_tok_per_s") == 0 && !(kvl_summary_value(summary, i) > 0.0);
}

double kvl_summary_relative(const struct kvl_summary *summary, uint32_t i)
{
  double value = kvl_summary_value(summary, i);
  if (is_tier(i)) {
    return summary->selections_total > 0 ? 100.0 * value / (double)summary->selections_total : 0.0;
  }
  if (is_stall(i)) {
    return summary->steps > 0 ? value / (double)summary->steps : 0.0;
  }
  return value;
}

const char *kvl_summary_cell(char text[KVL_TEXT_NUMBER_MAX], const struct kvl_summary *summary, uint32_t i, int relative, const char **unit)
{
  const char *key_unit = kvl_summary_key_at(i)->unit;
  double value = relative ? kvl_summary_relative(summary, i) : kvl_summary_value(summary, i);
  *unit = key_unit;
  if (kvl_summary_is_none(summary, i)) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "-");
  } else if (relative && is_tier(i)) {
    *unit = "%";
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.2f", value);
  } else if (relative && is_stall(i)) {
    *unit = "ms a step";
    (void)kvl_text_human(text, value, 0);
  } else if (strcmp(key_unit, "share") == 0) {
    *unit = "%";
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%.1f", 100.0 * value);
  } else if (strcmp(key_unit, "B") == 0) {
    *unit = "";
    (void)kvl_text_bytes(text, value);
  } else if (strcmp(key_unit, "flag") == 0) {
    *unit = "";
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%s", kvl_summary_count(summary, i) != 0 ? "yes" : "no");
  } else if (strcmp(kvl_summary_key_at(i)->name, "seed") == 0) {
    (void)kvl_summary_value_text(text, summary, i); /* to be typed again: no commas */
  } else if (kvl_summary_is_integer(i)) {
    (void)kvl_text_count(text, kvl_summary_count(summary, i));
  } else {
    (void)kvl_text_human(text, value, 0);
  }
  return text;
}

int kvl_summary_is_idle(const struct kvl_summary *const *summaries, uint32_t count, uint32_t i)
{
  int speculation = strcmp(kvl_summary_group(i), "Speculation") == 0, prefetch = strcmp(kvl_summary_group(i), "Prefetch") == 0;
  for (uint32_t r = 0; r < count; r++) {
    if ((speculation && summaries[r]->drafts_verified + summaries[r]->shared_lanes != 0) || (prefetch && summaries[r]->prefetch_candidates != 0)) {
      return 0;
    }
  }
  return speculation || prefetch;
}

void kvl_summary_group_column(FILE *out, uint32_t i)
{
  int first = i == 0 || strcmp(kvl_summary_group(i), kvl_summary_group(i - 1)) != 0;
  kvl_text_pad(out, first ? kvl_summary_group(i) : "", KVL_GROUP_COLUMNS, 0);
}

/* p50, p90, p95 and p99 of one quantity on one line. Returns the keys it took. */
static uint32_t latency_line(FILE *out, const struct kvl_summary *summary, uint32_t i)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *unit;
  if (strcmp(kvl_summary_group(i), kvl_summary_group(i - 1)) != 0) {
    kvl_text_pad(out, kvl_summary_group(i), KVL_GROUP_COLUMNS + KVL_LABEL_COLUMNS, 0);
    (void)fprintf(out, "%*s%*s%*s%*s\n", VALUE_COLUMNS, "p50", VALUE_COLUMNS - 4, "p90", VALUE_COLUMNS - 4, "p95", VALUE_COLUMNS - 4, "p99");
  }
  const char *label = kvl_summary_label(i);
  kvl_text_pad(out, "", KVL_GROUP_COLUMNS, 0);
  (void)fprintf(out, "%-*.*s", KVL_LABEL_COLUMNS, (int)(strrchr(label, ' ') - label), label);
  for (uint32_t p = 0; p < 4; p++) {
    kvl_text_pad(out, kvl_summary_cell(text, summary, i + p, 0, &unit), p == 0 ? VALUE_COLUMNS : VALUE_COLUMNS - 4, 1);
  }
  (void)fprintf(out, " %s\n", unit);
  return 4;
}

static void write_table(FILE *out, const char *name, const struct kvl_summary *summary)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *unit;
  double time_ms = 0.0;
  for (unsigned s = 0; s < KVL_STALLS; s++) {
    time_ms += summary->stall_ms_by_cause[s];
  }
  if (name != NULL) {
    kvl_text_pad(out, name, 0, 0);
    (void)fputs("\n\n", out);
  }
  for (uint32_t i = 0; i < kvl_summary_key_count();) {
    if (kvl_summary_is_idle(&summary, 1, i)) {
      i++;
      continue;
    }
    if (i > 0 && strcmp(kvl_summary_group(i), "Latency") == 0) {
      i += latency_line(out, summary, i);
      continue;
    }
    kvl_summary_group_column(out, i);
    kvl_text_pad(out, kvl_summary_label(i), KVL_LABEL_COLUMNS, 0);
    kvl_text_pad(out, kvl_summary_cell(text, summary, i, 0, &unit), VALUE_COLUMNS, 1);
    (void)fprintf(out, "%s%s", unit[0] != '\0' ? " " : "", unit);
    if (is_tier(i) && summary->selections_total > 0) {
      (void)fprintf(out, "%11s %%", kvl_summary_cell(text, summary, i, 1, &unit));
    }
    if (is_stall(i) && time_ms > 0.0) {
      (void)fprintf(out, "%8.1f %%%15s", 100.0 * kvl_summary_value(summary, i) / time_ms, kvl_summary_cell(text, summary, i, 1, &unit));
      (void)fprintf(out, " %s", unit);
    }
    (void)fputc('\n', out);
    i++;
  }
}

static void write_table_columns(FILE *out, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *unit = "";
  size_t width = 0; /* one for all columns: the widest name or cell */
  for (uint32_t r = 0; r < count; r++) {
    size_t columns = kvl_text_columns(names[r]);
    width = columns > width ? columns : width;
    for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
      columns = kvl_text_columns(kvl_summary_cell(text, summaries[r], i, 1, &unit));
      width = columns > width ? columns : width;
    }
  }
  kvl_text_pad(out, "", KVL_GROUP_COLUMNS + KVL_LABEL_COLUMNS + KVL_UNIT_COLUMNS, 0);
  for (uint32_t r = 0; r < count; r++) {
    (void)fputs("  ", out);
    kvl_text_pad(out, names[r], width, 1);
  }
  (void)fputc('\n', out);
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    if (kvl_summary_is_idle(summaries, count, i)) {
      continue;
    }
    kvl_summary_group_column(out, i);
    kvl_text_pad(out, kvl_summary_label(i), KVL_LABEL_COLUMNS, 0);
    (void)kvl_summary_cell(text, summaries[0], i, 1, &unit);
    kvl_text_pad(out, unit, KVL_UNIT_COLUMNS, 0);
    for (uint32_t r = 0; r < count; r++) {
      (void)fputs("  ", out);
      kvl_text_pad(out, kvl_summary_cell(text, summaries[r], i, 1, &unit), width, 1);
    }
    (void)fputc('\n', out);
  }
}

void kvl_summary_write(FILE *out, enum kvl_format format, const char *name, const struct kvl_summary *summary)
{
  switch (format) {
  case KVL_FORMAT_TABLE:
    write_table(out, name, summary);
    break;
  case KVL_FORMAT_JSON:
    write_json(out, name, summary, "");
    (void)fputc('\n', out);
    break;
  case KVL_FORMAT_TSV:
    write_tsv_rows(out, name, summary);
    break;
  }
}

void kvl_summary_write_many(FILE *out, enum kvl_format format, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count)
{
  switch (format) {
  case KVL_FORMAT_TABLE:
    if (count > 0) {
      write_table_columns(out, names, summaries, count);
    }
    break;
  case KVL_FORMAT_JSON:
    (void)fputs("[", out);
    for (uint32_t r = 0; r < count; r++) {
      (void)fputs(r == 0 ? "\n  " : ",\n  ", out);
      write_json(out, names[r], summaries[r], "  ");
    }
    (void)fputs(count > 0 ? "\n]\n" : "]\n", out);
    break;
  case KVL_FORMAT_TSV:
    write_tsv_columns(out, names, summaries, count);
    break;
  }
}
