/* Tables of a sweep: for people and programs by point, for comparing to the last bit by task. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/rows.h"
#include "results/sweep.h"
#include "results/text.h"

enum { NAME_BYTES = 96 };

/* Column names, made ones kept. */
struct names {
  const char **name;
  char (*made)[NAME_BYTES];
  uint32_t count;
};

static int names_begin(struct names *names, uint32_t room)
{
  *names = (struct names){.name = calloc(room, sizeof *names->name), .made = calloc(room, sizeof *names->made)};
  return names->name == NULL || names->made == NULL ? -ENOMEM : 0;
}

static void names_add(struct names *names, const char *front, const char *back)
{
  (void)snprintf(names->made[names->count], NAME_BYTES, "%s%s", front, back);
  names->name[names->count] = names->made[names->count];
  names->count++;
}

static void names_free(struct names *names)
{
  free(names->name);
  free(names->made);
}

/* A number as it is, a string without quotes. */
static void put_value(struct kvl_rows *rows, const char *value)
{
  char text[KVL_SWEEP_VALUE_TEXT];
  if (value == NULL) {
    kvl_rows_text(rows, NULL);
  } else if (value[0] == '"' || value[0] == '{' || value[0] == '[') {
    kvl_rows_text(rows, kvl_sweep_value_text(text, value));
  } else {
    kvl_rows_raw(rows, value);
  }
}

/* "3" or "3,7": the runs of a point's repeats. */
static void runs_text(const struct kvl_sweep_table *table, uint32_t point, char *text, size_t size)
{
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t r = 0; r < table->repeats && used < size; r++) {
    int64_t run = table->task[(size_t)point * table->repeats + r].run;
    if (run > 0) {
      used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, used > 0 ? "," : "", run);
    }
  }
}

static void count_states(const struct kvl_sweep_table *table, uint32_t point, uint32_t *complete, uint32_t *failed, const char **reason)
{
  *complete = *failed = 0;
  *reason = NULL;
  for (uint32_t r = 0; r < table->repeats; r++) {
    const struct kvl_stored_task *t = &table->task[(size_t)point * table->repeats + r];
    *complete += t->state == KVL_TASK_COMPLETE;
    *failed += t->state == KVL_TASK_FAILED;
    *reason = t->state == KVL_TASK_FAILED && *reason == NULL ? t->reason : *reason;
  }
}

static int write_point_rows(FILE *out, enum kvl_format format, const struct kvl_sweep_table *table, const uint32_t *metric, uint32_t metrics,
                            const uint32_t *point, uint32_t points)
{
  static const char *const front[] = {"point"}, *const middle[] = {"complete", "failed", "reason", "runs", "scenario_hash"};
  struct names names;
  struct kvl_rows rows;
  int code = names_begin(&names, table->keys + 4 * metrics + 8);
  if (code == 0) {
    names_add(&names, front[0], "");
    for (uint32_t k = 0; k < table->keys; k++) {
      names_add(&names, table->key[k], "");
    }
    for (unsigned m = 0; m < 5; m++) {
      names_add(&names, middle[m], "");
    }
    for (uint32_t m = 0; m < metrics; m++) {
      const char *key = kvl_summary_key_at(metric[m])->name;
      names_add(&names, key, "");
      names_add(&names, key, ".half_95");
      names_add(&names, key, ".min");
      names_add(&names, key, ".max");
    }
    kvl_rows_begin(&rows, out, format, names.name, names.count);
    for (uint32_t i = 0; i < points; i++) {
      uint32_t complete, failed, p = point[i];
      const char *reason;
      char runs[1024];
      count_states(table, p, &complete, &failed, &reason);
      runs_text(table, p, runs, sizeof runs);
      kvl_rows_count(&rows, p + 1);
      for (uint32_t k = 0; k < table->keys; k++) {
        put_value(&rows, table->value[(size_t)p * table->keys + k]);
      }
      kvl_rows_count(&rows, complete);
      kvl_rows_count(&rows, failed);
      kvl_rows_text(&rows, reason);
      kvl_rows_text(&rows, runs);
      kvl_rows_text(&rows, table->task[(size_t)p * table->repeats].scenario_hash);
      for (uint32_t m = 0; m < metrics; m++) {
        struct kvl_sweep_cell cell = kvl_sweep_cell(table, p, metric[m]);
        kvl_rows_number(&rows, cell.mean);
        kvl_rows_number(&rows, cell.half);
        kvl_rows_number(&rows, cell.min);
        kvl_rows_number(&rows, cell.max);
      }
    }
    kvl_rows_end(&rows);
  }
  names_free(&names);
  return code;
}

/* Headings that fit a column: "policy.hot_rows" is "hot_rows", "output_throughput_tok_per_s" stays. */
static const char *heading_of_key(const char *key)
{
  const char *dot = strrchr(key, '.');
  return dot == NULL ? key : dot + 1;
}

static void put_cell(FILE *out, int pass, size_t *width, const char *text, int right, int last)
{
  size_t columns = kvl_text_columns(text);
  if (pass == 0) {
    *width = columns > *width ? columns : *width;
    return;
  }
  kvl_text_pad(out, text, last && !right ? 0 : *width, right);
  (void)fputs(last ? "\n" : "  ", out);
}

static void cell_text(const struct kvl_sweep_cell *cell, uint32_t metric, char *text, size_t size)
{
  char mean[KVL_TEXT_NUMBER_MAX], half[KVL_TEXT_NUMBER_MAX];
  if (cell->count == 0) {
    (void)snprintf(text, size, "-");
    return;
  }
  (void)kvl_text_human(mean, cell->mean, kvl_summary_is_integer(metric) && cell->mean == floor(cell->mean));
  if (isnan(cell->half)) {
    (void)snprintf(text, size, "%s", mean);
  } else {
    if (cell->half >= 100) {
      (void)kvl_text_human(half, cell->half, 0);
    } else { /* two digits say how sure */
      (void)snprintf(half, sizeof half, "%.2g", cell->half);
    }
    (void)snprintf(text, size, "%s +-%s", mean, half);
  }
}

static void write_point_table(FILE *out, const struct kvl_sweep_table *table, const uint32_t *metric, uint32_t metrics, const uint32_t *point, uint32_t points)
{
  enum { COLUMNS_MAX = 64 };
  size_t width[COLUMNS_MAX] = {0};
  uint32_t keys = table->keys + metrics + 3 > COLUMNS_MAX ? COLUMNS_MAX - metrics - 3 : table->keys;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t row = 0; row < points + 2; row++) { /* headings, units, points */
      uint32_t column = 0, complete = 0, failed = 0, p = row > 1 ? point[row - 2] : 0;
      const char *reason = NULL;
      char text[256];
      if (row > 1) {
        count_states(table, p, &complete, &failed, &reason);
      }
      (void)snprintf(text, sizeof text, "%u", (unsigned)p + 1);
      put_cell(out, pass, &width[column++], row == 0 ? "point" : row == 1 ? "" : text, 1, 0);
      for (uint32_t k = 0; k < keys; k++) {
        char value[KVL_SWEEP_VALUE_TEXT];
        const char *raw = row > 1 ? table->value[(size_t)p * table->keys + k] : NULL;
        put_cell(out, pass, &width[column++], row == 0 ? heading_of_key(table->key[k]) : row == 1 ? "" : kvl_sweep_value_text(value, raw),
                 raw == NULL || raw[0] != '"', 0);
      }
      for (uint32_t m = 0; m < metrics; m++) {
        const struct kvl_summary_key *key = kvl_summary_key_at(metric[m]);
        if (row > 1) {
          struct kvl_sweep_cell cell = kvl_sweep_cell(table, p, metric[m]);
          cell_text(&cell, metric[m], text, sizeof text);
        }
        put_cell(out, pass, &width[column++], row == 0 ? key->name : row == 1 ? key->unit : text, 1, 0);
      }
      if (row > 1 && (failed > 0 || complete < table->repeats)) {
        (void)snprintf(text, sizeof text, "%u of %u%s", (unsigned)complete, (unsigned)table->repeats, failed > 0 ? ", failed" : "");
      } else {
        (void)snprintf(text, sizeof text, "%u", (unsigned)complete);
      }
      put_cell(out, pass, &width[column++], row == 0 ? "done" : row == 1 ? "" : text, 1, 0);
      if (row > 1) {
        runs_text(table, p, text, sizeof text);
      }
      put_cell(out, pass, &width[column++], row == 0 ? "runs" : row == 1 ? "" : text, 0, 1);
    }
  }
  uint32_t shown = 0;
  for (uint32_t i = 0; i < points; i++) {
    uint32_t complete, failed;
    const char *reason;
    count_states(table, point[i], &complete, &failed, &reason);
    if (failed > 0) {
      (void)fprintf(out, "%spoint %u failed: ", shown++ == 0 ? "\n" : "", (unsigned)point[i] + 1);
      kvl_text_pad(out, reason == NULL ? "" : reason, 0, 0);
      (void)fputc('\n', out);
    }
  }
  if (table->repeats > 1) {
    (void)fprintf(out, "\n+-: 95 %% interval of the mean over the repeats (Student's t).\n");
  }
}

int kvl_sweep_write_points(FILE *out, enum kvl_format format, const struct kvl_sweep_table *table, const uint32_t *metric, uint32_t metrics,
                           const uint32_t *point, uint32_t points)
{
  if (format != KVL_FORMAT_TABLE) {
    return write_point_rows(out, format, table, metric, metrics, point, points);
  }
  write_point_table(out, table, metric, metrics, point, points);
  return 0;
}

int kvl_sweep_write_tasks(FILE *out, enum kvl_format format, const struct kvl_sweep_table *table)
{
  static const char *const front[] = {"sweep", "sweep_hash", "task", "point", "repeat", "seed"}, *const middle[] = {"state", "reason", "scenario_hash"};
  static const char *const states[] = {"missing", "complete", "failed"};
  struct names names;
  struct kvl_rows rows;
  uint32_t summary = kvl_summary_key_count();
  int code = names_begin(&names, table->keys + summary + 16);
  for (unsigned i = 0; i < 6 && code == 0; i++) {
    names_add(&names, front[i], "");
  }
  for (uint32_t k = 0; k < table->keys && code == 0; k++) {
    names_add(&names, table->key[k], "");
  }
  for (unsigned i = 0; i < 3 && code == 0; i++) {
    names_add(&names, middle[i], "");
  }
  for (uint32_t s = 0; s < summary && code == 0; s++) {
    if (!kvl_summary_is_measured(s)) {
      names_add(&names, "summary.", kvl_summary_key_at(s)->name);
    }
  }
  if (code == 0) {
    kvl_rows_begin(&rows, out, format, names.name, names.count);
    for (uint32_t t = 0; t < table->points * table->repeats; t++) {
      const struct kvl_stored_task *task = &table->task[t];
      char text[KVL_SUMMARY_TEXT_MAX];
      kvl_rows_text(&rows, table->sweep->name);
      kvl_rows_text(&rows, table->sweep->hash);
      kvl_rows_count(&rows, t + 1);
      kvl_rows_count(&rows, task->point + 1);
      kvl_rows_count(&rows, task->repeat + 1);
      (void)snprintf(text, sizeof text, "%" PRIu64, task->seed);
      kvl_rows_raw(&rows, task->state == KVL_TASK_MISSING ? "null" : text);
      for (uint32_t k = 0; k < table->keys; k++) {
        put_value(&rows, table->value[(size_t)task->point * table->keys + k]);
      }
      kvl_rows_text(&rows, states[task->state]);
      kvl_rows_text(&rows, task->reason);
      kvl_rows_text(&rows, task->scenario_hash);
      for (uint32_t s = 0; s < summary; s++) {
        if (!kvl_summary_is_measured(s)) {
          kvl_rows_raw(&rows, task->has_summary ? kvl_summary_value_text(text, &task->summary, s) : "null");
        }
      }
    }
    kvl_rows_end(&rows);
  }
  names_free(&names);
  return code;
}
