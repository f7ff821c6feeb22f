#include "results/compare.h"

#include <math.h>
#include <string.h>

#include "results/summary_internal.h"
#include "results/text.h"

double kvl_compare_difference(double first, double value)
{
  if (!(first < 0.0) && !(first > 0.0)) {
    return !(value < 0.0) && !(value > 0.0) ? 0.0 : NAN;
  }
  return 100.0 * (value - first) / fabs(first);
}

int kvl_compare_equal(const struct kvl_summary *const *summaries, uint32_t count, uint32_t key)
{
  char first[KVL_SUMMARY_TEXT_MAX], other[KVL_SUMMARY_TEXT_MAX];
  (void)kvl_summary_value_text(first, summaries[0], key);
  for (uint32_t r = 1; r < count; r++) {
    if (strcmp(first, kvl_summary_value_text(other, summaries[r], key)) != 0) {
      return 0;
    }
  }
  return 1;
}

static const char *difference_text(char text[KVL_TEXT_NUMBER_MAX], const struct kvl_summary *const *summaries, uint32_t run, uint32_t key)
{
  const struct kvl_summary *const pair[] = {summaries[0], summaries[run]};
  double first = kvl_summary_relative(summaries[0], key), value = kvl_summary_relative(summaries[run], key);
  double percent = kvl_compare_difference(first, value);
  if (kvl_compare_equal(pair, 2, key) && !(first < value) && !(first > value)) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "=");
  } else if (strcmp(kvl_summary_key_at(key)->name, "seed") == 0 || strcmp(kvl_summary_key_at(key)->unit, "flag") == 0 || isnan(percent) ||
             kvl_summary_is_none(summaries[run], key)) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "differs");
  } else if (fabs(percent) >= 1000.0) {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "x %.3g", value / first);
  } else {
    (void)snprintf(text, KVL_TEXT_NUMBER_MAX, "%+.*f %%", fabs(percent) < 0.095 ? 3 : 1, percent);
  }
  return text;
}

enum { DIFFERENCE_COLUMNS = 10 };

static void write_line(FILE *out, size_t width, const struct kvl_summary *const *summaries, uint32_t count, uint32_t key)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *unit = "";
  (void)kvl_summary_cell(text, summaries[0], key, 1, &unit);
  kvl_summary_group_column(out, key);
  kvl_text_pad(out, kvl_summary_label(key), KVL_LABEL_COLUMNS, 0);
  kvl_text_pad(out, unit, KVL_UNIT_COLUMNS, 0);
  for (uint32_t r = 0; r < count; r++) {
    (void)fputs("  ", out);
    kvl_text_pad(out, kvl_summary_cell(text, summaries[r], key, 1, &unit), width, 1);
    if (r > 0) {
      kvl_text_pad(out, difference_text(text, summaries, r, key), DIFFERENCE_COLUMNS, 1);
    }
  }
  (void)fputc('\n', out);
}

void kvl_compare_write_table(FILE *out, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count)
{
  char text[KVL_TEXT_NUMBER_MAX];
  const char *unit = "";
  size_t width = 12;
  for (uint32_t r = 0; r < count; r++) {
    for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
      size_t columns = kvl_text_columns(kvl_summary_cell(text, summaries[r], i, 1, &unit));
      width = columns > width ? columns : width;
    }
    size_t name = kvl_text_columns(names[r]), spare = r == 0 ? 0 : DIFFERENCE_COLUMNS;
    width = name > width + spare ? name - spare : width;
  }
  kvl_text_pad(out, "", KVL_GROUP_COLUMNS + KVL_LABEL_COLUMNS + KVL_UNIT_COLUMNS, 0);
  for (uint32_t r = 0; r < count; r++) {
    (void)fputs("  ", out);
    kvl_text_pad(out, names[r], width + (r == 0 ? 0 : DIFFERENCE_COLUMNS), 1);
  }
  (void)fputc('\n', out);
  uint32_t equal = 0, compared = 0;
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    if (!kvl_summary_is_idle(summaries, count, i)) {
      write_line(out, width, summaries, count, i);
    }
    if (!kvl_summary_is_measured(i)) {
      compared++;
      equal += kvl_compare_equal(summaries, count, i) ? 1 : 0;
    }
  }
  (void)fprintf(out, "\n%u of %u keys are equal (wall time and memory left out). Differences are against the first run.\n",
                equal, compared);
}

void kvl_compare_write_tsv(FILE *out, const char *const *names, const struct kvl_summary *const *summaries, uint32_t count)
{
  char text[KVL_SUMMARY_TEXT_MAX];
  (void)fputs("key\tunit\tmeasured\tequal", out);
  for (uint32_t r = 0; r < count; r++) {
    (void)fputs("\tvalue: ", out);
    kvl_text_tsv_cell(out, names[r]);
  }
  for (uint32_t r = 1; r < count; r++) {
    (void)fputs("\tdifference_percent: ", out);
    kvl_text_tsv_cell(out, names[r]);
  }
  (void)fputc('\n', out);
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    (void)fprintf(out, "%s\t%s\t%s\t%s", kvl_summary_key_at(i)->name, kvl_summary_key_at(i)->unit, kvl_summary_is_measured(i) ? "true" : "false",
                  kvl_compare_equal(summaries, count, i) ? "true" : "false");
    for (uint32_t r = 0; r < count; r++) {
      (void)fprintf(out, "\t%s", kvl_summary_value_text(text, summaries[r], i));
    }
    for (uint32_t r = 1; r < count; r++) {
      double percent = kvl_compare_difference(kvl_summary_value(summaries[0], i), kvl_summary_value(summaries[r], i));
      (void)fprintf(out, "\t%s", isnan(percent) ? "" : kvl_text_double(text, percent));
    }
    (void)fputc('\n', out);
  }
}

void kvl_compare_write_json(FILE *out, const struct kvl_summary *const *summaries, uint32_t count, const char *indent)
{
  char text[KVL_SUMMARY_TEXT_MAX];
  (void)fputs("[", out);
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    (void)fprintf(out, "%s\n%s  {\"key\": \"%s\", \"unit\": \"%s\", \"measured\": %s, \"equal\": %s, \"values\": [", i == 0 ? "" : ",", indent,
                  kvl_summary_key_at(i)->name, kvl_summary_key_at(i)->unit, kvl_summary_is_measured(i) ? "true" : "false",
                  kvl_compare_equal(summaries, count, i) ? "true" : "false");
    for (uint32_t r = 0; r < count; r++) {
      (void)fprintf(out, "%s%s", r == 0 ? "" : ", ", kvl_summary_value_text(text, summaries[r], i));
    }
    (void)fputs("], \"difference_percent\": [", out);
    for (uint32_t r = 0; r < count; r++) {
      double percent = kvl_compare_difference(kvl_summary_value(summaries[0], i), kvl_summary_value(summaries[r], i));
      (void)fprintf(out, "%s%s", r == 0 ? "" : ", ", kvl_text_double(text, percent));
    }
    (void)fputs("]}", out);
  }
  (void)fprintf(out, "\n%s]", indent);
}
