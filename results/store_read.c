/* Reading runs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/store_internal.h"

const char *kvl_stored_status_name(enum kvl_stored_status status)
{
  static const char *const name[] = {"complete", "interrupted", "failed", "running", "incomplete", "unknown"};
  return (unsigned)status < sizeof name / sizeof name[0] ? name[status] : "?";
}

/* ---- the list ---- */

void kvl_run_list_free(struct kvl_run_list *list)
{
  for (uint32_t i = 0; i < list->count; i++) {
    struct kvl_stored_run *r = &list->run[i];
    free(r->name);
    free(r->mode);
    free(r->plane);
    free(r->build);
    free(r->command);
    free(r->machine);
    free(r->scenario_hash);
  }
  free(list->run);
  list->run = NULL;
  list->count = 0;
}

/* A copy of a text column; NULL only when out of memory. */
static char *column_copy(sqlite3_stmt *statement, int column)
{
  const unsigned char *text = sqlite3_column_text(statement, column);
  return text != NULL ? strdup((const char *)text) : sqlite3_column_type(statement, column) == SQLITE_NULL ? strdup("") : NULL;
}

static void column_owner(sqlite3_stmt *statement, int column, char *text, size_t size)
{
  const unsigned char *value = sqlite3_column_text(statement, column);
  (void)snprintf(text, size, "%s", value != NULL ? (const char *)value : "");
}

static enum kvl_stored_status column_status(sqlite3_stmt *statement, int column, const struct kvl_store_owner *self)
{
  const unsigned char *value = sqlite3_column_text(statement, column);
  const char *word = value != NULL ? (const char *)value : "";
  if (strcmp(word, "running") != 0) {
    return strcmp(word, "complete") == 0 ? KVL_STORED_COMPLETE : strcmp(word, "interrupted") == 0 ? KVL_STORED_INTERRUPTED : KVL_STORED_FAILED;
  }
  struct kvl_store_owner owner;
  column_owner(statement, column + 1, owner.host, sizeof owner.host);
  column_owner(statement, column + 2, owner.boot, sizeof owner.boot);
  column_owner(statement, column + 3, owner.space, sizeof owner.space);
  owner.process = sqlite3_column_int64(statement, column + 4);
  owner.process_start = sqlite3_column_int64(statement, column + 5);
  return kvl_store_owner_status(&owner, self);
}

/* A value in a scenario is a number, or {"value": number, "origin": text}. json_extract of a text that is not JSON would be an error of the whole query: a scenario is JSON unless somebody else's writer says otherwise. */
static const char list_sql[] =
  "SELECT run, name, mode, plane, build, command, machine, scenario_hash, seed, started_unix_ms, ended_unix_ms, "
  "CASE WHEN json_valid(scenario) THEN coalesce(json_extract(scenario, '$.workload.concurrency.value'), "
  "json_extract(scenario, '$.workload.concurrency')) END, "
  "status, host, boot, space, process, process_start FROM runs ORDER BY run";

static int read_run(sqlite3_stmt *statement, struct kvl_stored_run *r, const struct kvl_store_owner *self)
{
  r->id = sqlite3_column_int64(statement, 0);
  char **const text[] = {&r->name, &r->mode, &r->plane, &r->build, &r->command, &r->machine, &r->scenario_hash};
  for (int i = 0; i < 7; i++) {
    *text[i] = column_copy(statement, i + 1);
    if (*text[i] == NULL) {
      return SQLITE_NOMEM;
    }
  }
  const unsigned char *seed = sqlite3_column_text(statement, 8);
  r->seed = seed != NULL ? strtoull((const char *)seed, NULL, 10) : 0;
  r->started_unix_ms = sqlite3_column_int64(statement, 9);
  r->ended_unix_ms = sqlite3_column_type(statement, 10) == SQLITE_NULL ? -1 : sqlite3_column_int64(statement, 10);
  r->concurrency = sqlite3_column_type(statement, 11) == SQLITE_INTEGER ? sqlite3_column_int64(statement, 11) : -1;
  r->status = column_status(statement, 12, self);
  r->process = sqlite3_column_int64(statement, 16);
  return SQLITE_OK;
}

static int read_runs(struct kvl_store *store, struct kvl_run_list *list)
{
  struct kvl_store_owner self;
  kvl_store_owner_self(&self);
  sqlite3_stmt *statement = NULL;
  int rc = kvl_store_prepare(store, &statement, list_sql);
  uint32_t capacity = 0;
  while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    if (list->count == capacity) {
      capacity = capacity == 0 ? 16 : capacity * 2;
      struct kvl_stored_run *run = realloc(list->run, capacity * sizeof *run);
      if (run == NULL) {
        rc = SQLITE_NOMEM;
        break;
      }
      list->run = run;
    }
    struct kvl_stored_run *r = &list->run[list->count++];
    memset(r, 0, sizeof *r);
    rc = read_run(statement, r, &self);
  }
  (void)sqlite3_finalize(statement);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}


static uint32_t key_index(const char *name, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(kvl_summary_key_at(i)->name, name) == 0) {
      return i;
    }
  }
  return count;
}

static void read_value(sqlite3_stmt *statement, int column, struct kvl_summary *summary, uint32_t index)
{
  if (!kvl_summary_is_integer(index)) {
    kvl_summary_set_number(summary, index, sqlite3_column_double(statement, column)); /* NULL, a NaN once, reads 0 */
  } else if (sqlite3_column_type(statement, column) == SQLITE_TEXT) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    kvl_summary_set_count(summary, index, text != NULL ? strtoull((const char *)text, NULL, 10) : 0);
  } else {
    kvl_summary_set_count(summary, index, (uint64_t)sqlite3_column_int64(statement, column));
  }
}

static int read_summaries(struct kvl_store *store, struct kvl_run_list *list)
{
  sqlite3_stmt *statement = NULL;
  int rc = kvl_store_prepare(store, &statement, "SELECT run, key, value FROM summary ORDER BY run");
  uint32_t keys = kvl_summary_key_count(), at = 0;
  while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    int64_t run = sqlite3_column_int64(statement, 0);
    while (at < list->count && list->run[at].id < run) {
      at++;
    }
    const unsigned char *name = sqlite3_column_text(statement, 1);
    rc = name == NULL ? SQLITE_NOMEM : SQLITE_OK;
    if (rc == SQLITE_OK && at < list->count && list->run[at].id == run) {
      list->run[at].has_summary = 1;
      uint32_t index = key_index((const char *)name, keys); /* a key of another version is skipped */
      if (index < keys) {
        read_value(statement, 2, &list->run[at].summary, index);
      }
    }
  }
  (void)sqlite3_finalize(statement);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int kvl_store_list(struct kvl_store *store, struct kvl_run_list *list, struct kvl_err *err)
{
  list->run = NULL;
  list->count = 0;
  int rc = kvl_store_exec(store, "BEGIN"); /* one moment for both queries */
  rc = rc != SQLITE_OK ? rc : read_runs(store, list);
  rc = rc != SQLITE_OK ? rc : read_summaries(store, list);
  int code = rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "list its runs", err);
  if (!sqlite3_get_autocommit(store->db)) {
    (void)kvl_store_exec(store, "COMMIT");
  }
  if (code != 0) {
    kvl_run_list_free(list);
  }
  return code;
}

/* ---- one run ---- */

static int select_run(struct kvl_store *store, sqlite3_stmt **statement, const char *sql, int64_t run)
{
  int rc = kvl_store_prepare(store, statement, sql);
  return rc != SQLITE_OK ? rc : sqlite3_bind_int64(*statement, 1, run);
}

int kvl_store_scenario(struct kvl_store *store, int64_t run, char **json, struct kvl_err *err)
{
  *json = NULL;
  sqlite3_stmt *statement = NULL;
  int rc = select_run(store, &statement, "SELECT scenario FROM runs WHERE run = ?", run);
  rc = rc != SQLITE_OK ? rc : sqlite3_step(statement);
  int code = 0;
  if (rc == SQLITE_ROW) {
    *json = column_copy(statement, 0);
    code = *json != NULL ? 0 : kvl_store_sql_error(store, SQLITE_NOMEM, "read a scenario", err);
  } else {
    code = rc == SQLITE_DONE ? kvl_err_set(err, -ENOENT, "%s: no run %" PRId64, store->path, run)
                             : kvl_store_sql_error(store, rc, "read a scenario", err);
  }
  (void)sqlite3_finalize(statement);
  return code;
}

static uint64_t count_at(sqlite3_stmt *statement, int column)
{
  return sqlite3_column_type(statement, column) == SQLITE_NULL ? UINT64_MAX : (uint64_t)sqlite3_column_int64(statement, column);
}

static uint32_t small_at(sqlite3_stmt *statement, int column)
{
  return (uint32_t)sqlite3_column_int64(statement, column);
}

/* The end of every walk: 0, the callback's value, or the store's error. */
static int walk_end(struct kvl_store *store, sqlite3_stmt *statement, int rc, int stopped, struct kvl_err *err)
{
  int code = stopped;
  if (stopped == 0 && rc != SQLITE_DONE) {
    code = kvl_store_sql_error(store, rc, "read a run", err);
  }
  (void)sqlite3_finalize(statement);
  return code;
}

int kvl_store_each_request(struct kvl_store *store, int64_t run, int (*each)(void *context, const struct kvl_request_record *record),
                           void *context, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  int stopped = 0;
  int rc = select_run(store, &q, "SELECT * FROM requests WHERE run = ? ORDER BY id", run);
  while (rc == SQLITE_OK && stopped == 0 && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    struct kvl_request_record r = {
      .id = count_at(q, 1), .session = count_at(q, 2), .gpu = small_at(q, 3),
      .input_tokens = small_at(q, 4), .cached_tokens = small_at(q, 5), .output_tokens = small_at(q, 6),
      .submit_ns = count_at(q, 7), .prefill_start_ns = count_at(q, 8), .prefill_end_ns = count_at(q, 9),
      .admit_ns = count_at(q, 10), .first_token_ns = count_at(q, 11), .last_token_ns = count_at(q, 12), .aborted = small_at(q, 13),
    };
    stopped = each(context, &r);
    rc = SQLITE_OK;
  }
  return walk_end(store, q, rc, stopped, err);
}

int kvl_store_each_sample(struct kvl_store *store, int64_t run, int (*each)(void *context, const struct kvl_step_sample *sample),
                          void *context, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  int stopped = 0;
  int rc = select_run(store, &q, "SELECT * FROM samples WHERE run = ? ORDER BY sequence", run);
  while (rc == SQLITE_OK && stopped == 0 && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    struct kvl_step_sample s = {
      .time_ns = count_at(q, 2), .step_ns = count_at(q, 3), .gpu = small_at(q, 4), .batch = small_at(q, 5), .waiting = small_at(q, 6),
      .frames_free = small_at(q, 7), .frames_reserved = small_at(q, 8), .frames_lent = small_at(q, 9), .frames_retiring = small_at(q, 10),
      .resident_share = sqlite3_column_double(q, 11),
    };
    for (int t = 0; t < KVL_REPORT_TIERS; t++) {
      s.lanes[t] = count_at(q, 12 + t);
    }
    for (int t = 0; t < KVL_STALLS; t++) {
      s.stall_ns[t] = count_at(q, 12 + KVL_REPORT_TIERS + t);
    }
    stopped = each(context, &s);
    rc = SQLITE_OK;
  }
  return walk_end(store, q, rc, stopped, err);
}

int kvl_store_each_point(struct kvl_store *store, int64_t run, int (*each)(void *context, const struct kvl_point_counter *counter),
                         void *context, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  int stopped = 0;
  int rc = select_run(store, &q, "SELECT * FROM points WHERE run = ? ORDER BY gpu, point", run);
  while (rc == SQLITE_OK && stopped == 0 && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    struct kvl_point_counter p = {.gpu = small_at(q, 1), .point = small_at(q, 2), .layer = small_at(q, 3), .cache = small_at(q, 4)};
    for (int t = 0; t < KVL_REPORT_TIERS; t++) {
      p.lanes[t] = count_at(q, 5 + t);
    }
    p.fetched = count_at(q, 5 + KVL_REPORT_TIERS);
    p.overflow = count_at(q, 6 + KVL_REPORT_TIERS);
    stopped = each(context, &p);
    rc = SQLITE_OK;
  }
  return walk_end(store, q, rc, stopped, err);
}

int kvl_store_each_move(struct kvl_store *store, int64_t run, int (*each)(void *context, const struct kvl_move_record *record),
                        void *context, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  int stopped = 0;
  int rc = select_run(store, &q, "SELECT * FROM moves WHERE run = ? ORDER BY sequence", run);
  while (rc == SQLITE_OK && stopped == 0 && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    struct kvl_move_record m = {
      .time_ns = count_at(q, 2), .gpu = small_at(q, 3), .revoked = small_at(q, 4), .populated = small_at(q, 5),
      .given_back = small_at(q, 6), .kept = small_at(q, 7), .bytes = count_at(q, 8),
    };
    stopped = each(context, &m);
    rc = SQLITE_OK;
  }
  return walk_end(store, q, rc, stopped, err);
}

int kvl_store_rows(struct kvl_store *store, int64_t run, struct kvl_run_rows *rows, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  int rc = select_run(store, &q,
    "SELECT (SELECT count(*) FROM requests WHERE run = ?1), (SELECT count(*) FROM samples WHERE run = ?1), "
    "(SELECT count(*) FROM points WHERE run = ?1), (SELECT count(*) FROM moves WHERE run = ?1)", run);
  rc = rc != SQLITE_OK ? rc : sqlite3_step(q);
  if (rc == SQLITE_ROW) {
    *rows = (struct kvl_run_rows){count_at(q, 0), count_at(q, 1), count_at(q, 2), count_at(q, 3)};
    rc = SQLITE_DONE;
  }
  return walk_end(store, q, rc, 0, err);
}
