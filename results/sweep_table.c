/* Reading sweeps from a store, and what a table of one is made of. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/nearest.h"
#include "results/student.h"
#include "results/sweep.h"
#include "results/text.h"

enum { NAMES_MAX = 512 };

const char *kvl_sweep_value_text(char text[KVL_SWEEP_VALUE_TEXT], const char *value)
{
  size_t length = value == NULL ? 0 : strlen(value);
  if (value == NULL) {
    (void)snprintf(text, KVL_SWEEP_VALUE_TEXT, "-");
  } else if (length >= 2 && value[0] == '"' && value[length - 1] == '"') {
    (void)snprintf(text, KVL_SWEEP_VALUE_TEXT, "%.*s", (int)(length - 2), value + 1);
  } else {
    (void)snprintf(text, KVL_SWEEP_VALUE_TEXT, "%s", value);
  }
  return text;
}

struct kvl_sweep_cell kvl_sweep_cell(const struct kvl_sweep_table *table, uint32_t point, uint32_t metric)
{
  struct kvl_sweep_cell cell = {.mean = NAN, .min = NAN, .max = NAN, .half = NAN};
  double sum = 0, squares = 0;
  for (uint32_t r = 0; r < table->repeats; r++) {
    const struct kvl_stored_task *t = &table->task[(size_t)point * table->repeats + r];
    if (t->state == KVL_TASK_COMPLETE && t->has_summary) {
      double value = kvl_summary_value(&t->summary, metric);
      cell.min = cell.count == 0 || value < cell.min ? value : cell.min;
      cell.max = cell.count == 0 || value > cell.max ? value : cell.max;
      sum += value;
      cell.count++;
    }
  }
  if (cell.count == 0) {
    return cell;
  }
  cell.mean = sum / cell.count;
  for (uint32_t r = 0; r < table->repeats; r++) {
    const struct kvl_stored_task *t = &table->task[(size_t)point * table->repeats + r];
    if (t->state == KVL_TASK_COMPLETE && t->has_summary) {
      double distance = kvl_summary_value(&t->summary, metric) - cell.mean;
      squares += distance * distance;
    }
  }
  if (cell.count > 1) {
    cell.half = kvl_student_t(cell.count - 1, 0.95) * sqrt(squares / (cell.count - 1) / cell.count);
  }
  return cell;
}

int kvl_sweep_metric(const char *name, uint32_t *metric, struct kvl_err *err)
{
  const char *names[NAMES_MAX];
  uint32_t count = kvl_summary_key_count();
  for (uint32_t i = 0; i < count && i < NAMES_MAX; i++) {
    names[i] = kvl_summary_key_at(i)->name;
    if (strcmp(names[i], name) == 0) {
      *metric = i;
      return 0;
    }
  }
  return kvl_err_set(err, -EINVAL, "%s: no such key of the summary; did you mean %s?", name, kvl_nearest(name, names, count < NAMES_MAX ? count : NAMES_MAX));
}

int kvl_sweep_key(const struct kvl_sweep_table *table, const char *name, uint32_t *key, struct kvl_err *err)
{
  const char *names[NAMES_MAX];
  uint32_t count = 0;
  for (uint32_t k = 0; k < table->keys && k < NAMES_MAX; k++) {
    const char *dot = strrchr(table->key[k], '.'), *word = dot == NULL ? table->key[k] : dot + 1;
    if (strcmp(table->key[k], name) == 0 || strcmp(word, name) == 0) { /* the last word will do */
      *key = k;
      return 0;
    }
    names[count++] = strchr(name, '.') == NULL ? word : table->key[k];
  }
  return count == 0 ? kvl_err_set(err, -EINVAL, "%s: sweep %s changes no keys", name, table->sweep->name)
                    : kvl_err_set(err, -EINVAL, "%s: sweep %s does not change that key; did you mean %s?", name, table->sweep->name,
                                  kvl_nearest(name, names, count));
}

int kvl_sweep_where(const struct kvl_sweep_table *table, const char *const *where, uint32_t where_count, uint32_t *point, uint32_t *count,
                    struct kvl_err *err)
{
  uint8_t *out = calloc(table->points + 1u, 1);
  if (out == NULL) {
    return kvl_err_set(err, -ENOMEM, "out of memory");
  }
  int code = 0;
  for (uint32_t w = 0; w < where_count && code == 0; w++) {
    const char *equals = strchr(where[w], '=');
    char name[256];
    uint32_t key = 0, fits = 0, values = 0;
    const char *all[NAMES_MAX];
    char (*text)[KVL_SWEEP_VALUE_TEXT] = malloc(NAMES_MAX * sizeof *text);
    if (equals == NULL || text == NULL) {
      code = text == NULL ? kvl_err_set(err, -ENOMEM, "out of memory") : kvl_err_set(err, -EINVAL, "--where=%s: must be KEY=VALUE", where[w]);
    } else {
      (void)snprintf(name, sizeof name, "%.*s", (int)(equals - where[w]), where[w]);
      code = kvl_sweep_key(table, name, &key, err);
    }
    for (uint32_t p = 0; p < table->points && code == 0; p++) {
      char shown[KVL_SWEEP_VALUE_TEXT];
      int is = strcmp(kvl_sweep_value_text(shown, table->value[(size_t)p * table->keys + key]), equals + 1) == 0;
      out[p] |= !is;
      fits += (uint32_t)is;
      if (!is && values < NAMES_MAX) {
        memcpy(text[values], shown, sizeof shown);
        all[values] = text[values];
        values++;
      }
    }
    if (code == 0 && fits == 0) {
      code = kvl_err_set(err, -EINVAL, "--where=%s: no point has that value; did you mean %s?", where[w], values == 0 ? "-" : kvl_nearest(equals + 1, all, values));
    }
    free(text);
  }
  *count = 0;
  for (uint32_t p = 0; p < table->points && code == 0; p++) {
    if (!out[p]) {
      point[(*count)++] = p;
    }
  }
  if (code == 0 && *count == 0) {
    code = kvl_err_set(err, -EINVAL, "no point of sweep %s fits every --where", table->sweep->name);
  }
  free(out);
  return code;
}

int kvl_sweep_select(const struct kvl_sweep_list *list, const char *store, const char *word, uint32_t *index, struct kvl_err *err)
{
  const char *names[NAMES_MAX];
  uint32_t count = 0;
  if (list->count == 0) {
    return kvl_err_set(err, -ENOENT, "%s: holds no sweeps (kvloan sweep stores them)", store);
  }
  char *end = NULL;
  long long id = word == NULL ? -1 : strtoll(word, &end, 10);
  int is_number = word != NULL && end != word && *end == '\0';
  for (uint32_t i = list->count; i-- > 0;) {
    if (word == NULL || strcmp(list->sweep[i].name, word) == 0 || (is_number && list->sweep[i].id == id)) {
      *index = i;
      return 0;
    }
    if (count < NAMES_MAX) {
      names[count++] = list->sweep[i].name;
    }
  }
  return is_number ? kvl_err_set(err, -ENOENT, "%s: no sweep %s; the newest is %lld, %s", store, word, (long long)list->sweep[list->count - 1].id,
                                 list->sweep[list->count - 1].name)
                   : kvl_err_set(err, -ENOENT, "%s: no sweep '%s'; did you mean %s?", store, word, kvl_nearest(word, names, count));
}

void kvl_sweep_list_free(struct kvl_sweep_list *list)
{
  for (uint32_t i = 0; i < list->count; i++) {
    struct kvl_stored_sweep *s = &list->sweep[i];
    free(s->name);
    free(s->note);
    free(s->scenario);
    free(s->hash);
    free(s->build);
    free(s->command);
  }
  free(list->sweep);
  *list = (struct kvl_sweep_list){NULL, 0};
}

void kvl_sweep_table_free(struct kvl_sweep_table *table)
{
  for (uint32_t k = 0; k < table->keys && table->key != NULL; k++) {
    free(table->key[k]);
  }
  for (size_t i = 0; i < (size_t)table->points * table->keys && table->value != NULL; i++) {
    free(table->value[i]);
  }
  for (size_t t = 0; t < (size_t)table->points * table->repeats && table->task != NULL; t++) {
    free(table->task[t].reason);
    free(table->task[t].scenario_hash);
  }
  free(table->key);
  free(table->value);
  free(table->task);
  memset(table, 0, sizeof *table);
}
