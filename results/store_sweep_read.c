/* Reading sweeps. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/store_sweep_internal.h"

static char *copy_text(sqlite3_stmt *q, int column)
{
  const char *text = (const char *)sqlite3_column_text(q, column);
  return text == NULL ? NULL : strdup(text);
}

/* 0 or 1 in *is: has the store any sweeps at all? */
static int has_sweeps(struct kvl_store *store, int64_t *is)
{
  return kvl_sql_number(store, is, "SELECT count(*) FROM sqlite_schema WHERE name = 'sweep_owners'", 0, 0);
}

int kvl_store_sweeps(struct kvl_store *store, struct kvl_sweep_list *list, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  int64_t any = 0;
  uint32_t room = 0;
  *list = (struct kvl_sweep_list){NULL, 0};
  int rc = has_sweeps(store, &any);
  if (rc == SQLITE_OK && any != 0) {
    rc = kvl_store_prepare(store, &q,
      "SELECT sweep, name, note, scenario, hash, build, command, points, repeats, created_unix_ms, "
      "(SELECT count(*) FROM sweep_tasks t WHERE t.sweep = s.sweep AND t.status = 'complete'), "
      "(SELECT count(*) FROM sweep_tasks t WHERE t.sweep = s.sweep AND t.status <> 'complete') FROM sweeps s ORDER BY sweep");
  }
  while (rc == SQLITE_OK && any != 0 && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    if (list->count == room) {
      room = room == 0 ? 8 : room * 2;
      struct kvl_stored_sweep *longer = realloc(list->sweep, room * sizeof *longer);
      if (longer == NULL) {
        rc = SQLITE_NOMEM;
        break;
      }
      list->sweep = longer;
    }
    struct kvl_stored_sweep *s = &list->sweep[list->count++];
    *s = (struct kvl_stored_sweep){.id = sqlite3_column_int64(q, 0), .points = (uint32_t)sqlite3_column_int64(q, 7),
                                   .repeats = (uint32_t)sqlite3_column_int64(q, 8), .created_unix_ms = sqlite3_column_int64(q, 9),
                                   .complete = (uint32_t)sqlite3_column_int64(q, 10), .failed = (uint32_t)sqlite3_column_int64(q, 11)};
    char **const text[] = {&s->name, &s->note, &s->scenario, &s->hash, &s->build, &s->command};
    rc = SQLITE_OK;
    for (int i = 0; i < 6; i++) {
      *text[i] = copy_text(q, i + 1);
      rc = *text[i] == NULL ? SQLITE_NOMEM : rc;
    }
    if (rc == SQLITE_OK && (s->points == 0 || s->repeats == 0 || (uint64_t)s->points * s->repeats > UINT32_MAX)) {
      rc = SQLITE_CORRUPT;
    }
  }
  (void)sqlite3_finalize(q);
  rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
  for (uint32_t i = 0; i < list->count && rc == SQLITE_OK; i++) {
    rc = kvl_store_sweep_running(store, list->sweep[i].id, &list->sweep[i].running);
  }
  if (rc != SQLITE_OK) {
    kvl_sweep_list_free(list);
    return kvl_store_sql_error(store, rc, "list its sweeps", err);
  }
  return 0;
}

static int read_keys(struct kvl_store *store, struct kvl_sweep_table *table)
{
  int64_t count = 0;
  sqlite3_stmt *q = NULL;
  int rc = kvl_sql_number(store, &count, "SELECT count(*) FROM sweep_keys WHERE sweep = ?1", table->sweep->id, 0);
  table->key = rc == SQLITE_OK ? calloc((size_t)count + 1, sizeof *table->key) : NULL;
  table->value = rc == SQLITE_OK ? calloc((size_t)count * table->points + 1, sizeof *table->value) : NULL;
  table->task = calloc((size_t)table->points * table->repeats, sizeof *table->task);
  if (rc == SQLITE_OK && (table->key == NULL || table->value == NULL || table->task == NULL)) {
    return SQLITE_NOMEM;
  }
  rc = rc != SQLITE_OK ? rc : kvl_sql_prepare(store, &q, "SELECT key FROM sweep_keys WHERE sweep = ? ORDER BY position", "i", table->sweep->id);
  while (rc == SQLITE_OK && table->keys < count && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    table->key[table->keys] = copy_text(q, 0);
    rc = table->key[table->keys++] == NULL ? SQLITE_NOMEM : SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_values(struct kvl_store *store, struct kvl_sweep_table *table)
{
  sqlite3_stmt *q = NULL;
  int rc = kvl_sql_prepare(store, &q, "SELECT point, position, value FROM sweep_points WHERE sweep = ? AND value IS NOT NULL", "i", table->sweep->id);
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    int64_t point = sqlite3_column_int64(q, 0), key = sqlite3_column_int64(q, 1);
    rc = SQLITE_OK;
    if (point >= 0 && point < table->points && key >= 0 && key < table->keys) {
      char **cell = &table->value[(size_t)point * table->keys + (size_t)key];
      *cell = copy_text(q, 2);
      rc = *cell == NULL ? SQLITE_NOMEM : SQLITE_OK;
    }
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_tasks(struct kvl_store *store, struct kvl_sweep_table *table)
{
  sqlite3_stmt *q = NULL;
  for (uint32_t t = 0; t < table->points * table->repeats; t++) {
    table->task[t] = (struct kvl_stored_task){.task = t, .point = t / table->repeats, .repeat = t % table->repeats, .run = -1};
  }
  int rc = kvl_sql_prepare(store, &q, "SELECT t.task, t.seed, t.status = 'complete', t.reason, coalesce(t.run, -1), r.scenario_hash FROM sweep_tasks t "
                           "LEFT JOIN runs r ON r.run = t.run WHERE t.sweep = ?", "i", table->sweep->id);
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    int64_t task = sqlite3_column_int64(q, 0);
    rc = SQLITE_OK;
    if (task >= 0 && task < (int64_t)table->points * table->repeats && table->task[task].state == KVL_TASK_MISSING) {
      struct kvl_stored_task *t = &table->task[task];
      const char *seed = (const char *)sqlite3_column_text(q, 1);
      t->seed = seed == NULL ? 0 : strtoull(seed, NULL, 10);
      t->state = sqlite3_column_int(q, 2) != 0 ? KVL_TASK_COMPLETE : KVL_TASK_FAILED;
      t->reason = copy_text(q, 3);
      t->run = sqlite3_column_int64(q, 4);
      t->scenario_hash = copy_text(q, 5);
    }
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_summaries(struct kvl_store *store, struct kvl_sweep_table *table)
{
  sqlite3_stmt *q = NULL;
  uint32_t keys = kvl_summary_key_count();
  int rc = kvl_sql_prepare(store, &q, "SELECT t.task, s.key, s.value FROM sweep_tasks t JOIN summary s ON s.run = t.run WHERE t.sweep = ? ORDER BY t.task", "i",
                           table->sweep->id);
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    int64_t task = sqlite3_column_int64(q, 0);
    const char *name = (const char *)sqlite3_column_text(q, 1);
    rc = name == NULL ? SQLITE_NOMEM : SQLITE_OK;
    for (uint32_t k = 0; k < keys && rc == SQLITE_OK && task >= 0 && task < (int64_t)table->points * table->repeats; k++) {
      struct kvl_stored_task *t = &table->task[task];
      if (strcmp(kvl_summary_key_at(k)->name, name) == 0) {
        const char *text = sqlite3_column_type(q, 2) == SQLITE_TEXT ? (const char *)sqlite3_column_text(q, 2) : NULL;
        t->has_summary = 1;
        if (!kvl_summary_is_integer(k)) {
          kvl_summary_set_number(&t->summary, k, sqlite3_column_double(q, 2));
        } else {
          kvl_summary_set_count(&t->summary, k, text != NULL ? strtoull(text, NULL, 10) : (uint64_t)sqlite3_column_int64(q, 2));
        }
        break;
      }
    }
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int kvl_sweep_table_read(struct kvl_store *store, const struct kvl_stored_sweep *sweep, struct kvl_sweep_table *table, struct kvl_err *err)
{
  *table = (struct kvl_sweep_table){.sweep = sweep, .points = sweep->points, .repeats = sweep->repeats};
  int rc = kvl_store_exec(store, "BEGIN"); /* one moment for all of it */
  rc = rc != SQLITE_OK ? rc : read_keys(store, table);
  rc = rc != SQLITE_OK ? rc : read_values(store, table);
  rc = rc != SQLITE_OK ? rc : read_tasks(store, table);
  rc = rc != SQLITE_OK ? rc : read_summaries(store, table);
  int code = rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "read a sweep", err);
  if (!sqlite3_get_autocommit(store->db)) {
    (void)kvl_store_exec(store, "COMMIT");
  }
  if (code != 0) {
    kvl_sweep_table_free(table);
  }
  return code;
}
