/* Validations in the store: a table beside the others, made when the first validation comes, so that stores without one stay as they are. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "results/store_internal.h"
#include "results/validation.h"

static const char create[] =
  "CREATE TABLE IF NOT EXISTS validations (run INTEGER NOT NULL, sequence INTEGER NOT NULL, section TEXT NOT NULL, key TEXT NOT NULL, unit TEXT NOT NULL, "
  "measured REAL, same_steps REAL, forecast REAL, same_steps_error_percent REAL, forecast_error_percent REAL, bound REAL, verdict TEXT NOT NULL, "
  "PRIMARY KEY (run, sequence)) WITHOUT ROWID";

enum { VALUES = 6 };

static void values_of(const struct kvl_validation_row *row, double value[VALUES])
{
  const double all[VALUES] = {row->measured, row->same_steps, row->forecast, row->same_steps_error, row->forecast_error, row->bound};
  memcpy(value, all, sizeof all);
}

static int insert_row(sqlite3_stmt *q, int64_t run, uint32_t sequence, const struct kvl_validation_row *row)
{
  double value[VALUES];
  values_of(row, value);
  int rc = sqlite3_bind_int64(q, 1, run);
  rc = rc != SQLITE_OK ? rc : sqlite3_bind_int64(q, 2, sequence);
  rc = rc != SQLITE_OK ? rc : sqlite3_bind_text(q, 3, row->section, -1, SQLITE_STATIC);
  rc = rc != SQLITE_OK ? rc : sqlite3_bind_text(q, 4, row->key, -1, SQLITE_STATIC);
  rc = rc != SQLITE_OK ? rc : sqlite3_bind_text(q, 5, row->unit, -1, SQLITE_STATIC);
  for (int i = 0; i < VALUES && rc == SQLITE_OK; i++) {
    rc = isnan(value[i]) ? sqlite3_bind_null(q, 6 + i) : sqlite3_bind_double(q, 6 + i, value[i]);
  }
  rc = rc != SQLITE_OK ? rc : sqlite3_bind_text(q, 6 + VALUES, kvl_verdict_name(row->verdict), -1, SQLITE_STATIC);
  rc = rc != SQLITE_OK ? rc : sqlite3_step(q);
  int reset = sqlite3_reset(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc != SQLITE_OK ? rc : reset;
}

int kvl_store_validation(struct kvl_store *store, int64_t run, const struct kvl_validation *v, struct kvl_err *err)
{
  assert(store->run == 0 && !store->read_only);
  sqlite3_stmt *q = NULL;
  int rc = kvl_store_exec(store, "BEGIN IMMEDIATE");
  rc = rc != SQLITE_OK ? rc : kvl_store_exec(store, create);
  rc = rc != SQLITE_OK ? rc : kvl_store_prepare(store, &q, "INSERT INTO validations VALUES (?,?,?,?,?,?,?,?,?,?,?,?)");
  for (uint32_t i = 0; i < v->count && rc == SQLITE_OK; i++) {
    rc = insert_row(q, run, i, &v->row[i]);
  }
  (void)sqlite3_finalize(q);
  rc = rc != SQLITE_OK ? rc : kvl_store_exec(store, "COMMIT");
  int code = rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "store a validation", err);
  if (!sqlite3_get_autocommit(store->db)) {
    (void)kvl_store_exec(store, "ROLLBACK");
  }
  return code;
}

static void text_at(sqlite3_stmt *q, int column, char *text, size_t size)
{
  const unsigned char *from = sqlite3_column_text(q, column);
  (void)snprintf(text, size, "%s", from != NULL ? (const char *)from : "");
}

static double number_at(sqlite3_stmt *q, int column)
{
  return sqlite3_column_type(q, column) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(q, column);
}

int kvl_store_read_validation(struct kvl_store *store, int64_t run, struct kvl_validation *v, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  v->count = 0;
  int rc = kvl_store_prepare(store, &q, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'validations'");
  rc = rc != SQLITE_OK ? rc : sqlite3_step(q);
  bool there = rc == SQLITE_ROW && sqlite3_column_int(q, 0) != 0;
  (void)sqlite3_finalize(q);
  q = NULL;
  if (rc == SQLITE_ROW && !there) {
    return 0;
  }
  rc = rc != SQLITE_ROW ? rc : kvl_store_prepare(store, &q, "SELECT * FROM validations WHERE run = ? ORDER BY sequence");
  rc = rc != SQLITE_OK ? rc : sqlite3_bind_int64(q, 1, run);
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW && v->count < KVL_VALIDATION_ROWS) {
    struct kvl_validation_row *row = kvl_validation_add(v, "", "", "");
    char verdict[16];
    text_at(q, 2, row->section, sizeof row->section);
    text_at(q, 3, row->key, sizeof row->key);
    text_at(q, 4, row->unit, sizeof row->unit);
    row->measured = number_at(q, 5);
    row->same_steps = number_at(q, 6);
    row->forecast = number_at(q, 7);
    row->same_steps_error = number_at(q, 8);
    row->forecast_error = number_at(q, 9);
    row->bound = number_at(q, 10);
    text_at(q, 11, verdict, sizeof verdict);
    row->verdict = strcmp(verdict, "ok") == 0 ? KVL_VERDICT_OK : strcmp(verdict, "FAILED") == 0 ? KVL_VERDICT_FAILED : KVL_VERDICT_NONE;
    rc = SQLITE_OK;
  }
  int code = rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : kvl_store_sql_error(store, rc, "read a validation", err);
  (void)sqlite3_finalize(q);
  return code;
}
