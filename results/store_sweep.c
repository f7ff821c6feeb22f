/* Writing sweeps: the plan, who works on it, and one transaction for each finished task. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "results/store_sweep_internal.h"

/* A plan's rows are written once and never changed. values are JSON text, NULL where a point keeps the scenario's own. */
static const char schema[] =
  "CREATE TABLE IF NOT EXISTS sweeps (sweep INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, note TEXT NOT NULL, scenario TEXT NOT NULL, "
  "hash TEXT NOT NULL UNIQUE, points INTEGER NOT NULL, repeats INTEGER NOT NULL, build TEXT NOT NULL, command TEXT NOT NULL, "
  "created_unix_ms INTEGER NOT NULL);"
  "CREATE TABLE IF NOT EXISTS sweep_keys (sweep INTEGER NOT NULL, position INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (sweep, position)) WITHOUT ROWID;"
  "CREATE TABLE IF NOT EXISTS sweep_points (sweep INTEGER NOT NULL, point INTEGER NOT NULL, position INTEGER NOT NULL, value TEXT, "
  "PRIMARY KEY (sweep, point, position)) WITHOUT ROWID;"
  /* a row: the task is done. seed is text: it may be above 2^63. run is NULL when a task failed before its run began. */
  "CREATE TABLE IF NOT EXISTS sweep_tasks (sweep INTEGER NOT NULL, task INTEGER NOT NULL, point INTEGER NOT NULL, repeat INTEGER NOT NULL, "
  "seed TEXT NOT NULL, status TEXT NOT NULL, reason TEXT, run INTEGER, PRIMARY KEY (sweep, task)) WITHOUT ROWID;"
  /* who works on which share of it */
  "CREATE TABLE IF NOT EXISTS sweep_owners (sweep INTEGER NOT NULL, share INTEGER NOT NULL, shares INTEGER NOT NULL, host TEXT NOT NULL, "
  "boot TEXT NOT NULL, space TEXT NOT NULL, process INTEGER NOT NULL, process_start INTEGER NOT NULL, PRIMARY KEY (sweep, share, shares)) WITHOUT ROWID";

void kvl_store_text_hash(char hash[KVL_HASH_TEXT], const char *text)
{
  (void)snprintf(hash, KVL_HASH_TEXT, "%016" PRIx64, (uint64_t)XXH3_64bits(text, strlen(text)));
}

int kvl_store_sweep_schema(struct kvl_store *store)
{
  return kvl_store_exec(store, schema);
}

/* ---- small statements ---- */

int kvl_sql_prepare(struct kvl_store *store, sqlite3_stmt **q, const char *sql, const char *types, ...)
{
  va_list args;
  int rc = kvl_store_prepare(store, q, sql), column = 0;
  va_start(args, types);
  for (const char *t = types; *t != '\0' && rc == SQLITE_OK; t++) {
    column++;
    if (*t == 'i') {
      rc = sqlite3_bind_int64(*q, column, va_arg(args, int64_t));
    } else {
      rc = sqlite3_bind_text(*q, column, va_arg(args, const char *), -1, SQLITE_TRANSIENT); /* NULL binds NULL */
    }
  }
  va_end(args);
  return rc;
}

int kvl_sql_done(sqlite3_stmt *q, int rc)
{
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(q);
    rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
  }
  int end = sqlite3_finalize(q);
  return rc != SQLITE_OK ? rc : end;
}

int kvl_sql_number(struct kvl_store *store, int64_t *value, const char *sql, int64_t a, int64_t b)
{
  sqlite3_stmt *q = NULL;
  int rc = kvl_store_prepare(store, &q, sql);
  for (int i = 1; i <= 2 && rc == SQLITE_OK && sqlite3_bind_parameter_count(q) >= i; i++) {
    rc = sqlite3_bind_int64(q, i, i == 1 ? a : b);
  }
  *value = 0;
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
      *value = sqlite3_column_int64(q, 0);
    }
    rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
  }
  (void)sqlite3_finalize(q);
  return rc;
}

int kvl_store_finish(struct kvl_store *store, int rc, int code, const char *doing, struct kvl_err *err)
{
  if (code == 0 && rc == SQLITE_OK) {
    rc = kvl_store_exec(store, "COMMIT");
  }
  if (code == 0 && rc != SQLITE_OK) {
    code = kvl_store_sql_error(store, rc, doing, err);
  }
  if (!sqlite3_get_autocommit(store->db)) {
    (void)kvl_store_exec(store, "ROLLBACK");
  }
  return code;
}

int kvl_store_attach(struct kvl_store *store, const char *path, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  size_t size = strlen(path) + 3;
  char *name = malloc(size);
  if (name == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s: out of memory", path);
  }
  (void)snprintf(name, size, "%s%s", path[0] == '/' ? "" : "./", path);
  int rc = kvl_sql_prepare(store, &q, "ATTACH ? AS other", "t", name);
  rc = kvl_sql_done(q, rc);
  free(name);
  return rc == SQLITE_OK ? 0 : kvl_err_set(err, -EIO, "%s: cannot read %s: %s", store->path, path, sqlite3_errmsg(store->db));
}

void kvl_store_detach(struct kvl_store *store)
{
  (void)kvl_store_exec(store, "DETACH other");
}

/* ---- copying a run from the attached store ---- */

/* Names of the columns that a table has in both stores, but for `key`, as ", a, b". NULL: no memory. */
static char *shared_columns(struct kvl_store *store, const char *table, const char *key, int *rc)
{
  sqlite3_stmt *q = NULL;
  char *names = calloc(1, 1);
  *rc = kvl_sql_prepare(store, &q, "SELECT a.name FROM pragma_table_info(?1, 'main') a JOIN pragma_table_info(?1, 'other') b ON a.name = b.name "
                                   "WHERE a.name <> ?2 ORDER BY a.cid", "tt", table, key);
  while (*rc == SQLITE_OK && names != NULL && (*rc = sqlite3_step(q)) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(q, 0);
    size_t size = strlen(names) + (name != NULL ? strlen(name) : 0) + 8;
    char *longer = name != NULL ? realloc(names, size) : NULL;
    if (longer == NULL) {
      free(names);
    } else {
      size_t used = strlen(longer);
      (void)snprintf(longer + used, size - used, ", \"%s\"", name);
    }
    names = longer;
    *rc = SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  *rc = names == NULL ? SQLITE_NOMEM : *rc == SQLITE_DONE ? SQLITE_OK : *rc;
  return names;
}

int kvl_store_copy_rows(struct kvl_store *store, const char *table, const char *key, int64_t from, int64_t to)
{
  sqlite3_stmt *q = NULL;
  int rc;
  char *columns = shared_columns(store, table, key, &rc), *sql = NULL;
  size_t size = columns == NULL ? 0 : 2 * strlen(columns) + 256;
  if (rc == SQLITE_OK && (sql = malloc(size)) == NULL) {
    rc = SQLITE_NOMEM;
  }
  if (rc == SQLITE_OK && to != 0) {
    (void)snprintf(sql, size, "INSERT INTO main.%s (%s%s) SELECT ?2%s FROM other.%s WHERE %s = ?1", table, key, columns, columns, table, key);
  } else if (rc == SQLITE_OK) { /* the next free number */
    (void)snprintf(sql, size, "INSERT INTO main.%s (%s) SELECT %s FROM other.%s WHERE %s = ?1", table, columns + 2, columns + 2, table, key);
  }
  if (rc == SQLITE_OK) {
    rc = to != 0 ? kvl_sql_prepare(store, &q, sql, "ii", from, to) : kvl_sql_prepare(store, &q, sql, "i", from);
    rc = kvl_sql_done(q, rc);
  }
  free(sql);
  free(columns);
  return rc;
}

/* Tables of a store ("main" or "other") that hold rows of runs, whatever a later version adds. */
static int run_tables(struct kvl_store *store, const char *which, char table[KVL_RUN_TABLES_MAX][64], unsigned *count)
{
  sqlite3_stmt *q = NULL;
  char sql[400];
  *count = 0;
  (void)snprintf(sql, sizeof sql, "SELECT s.name FROM %s.sqlite_schema s JOIN pragma_table_info(s.name, '%s') c ON c.name = 'run' WHERE s.type = 'table' "
                 "AND s.name NOT GLOB '*[^a-z_]*' AND s.name <> 'runs' AND s.name NOT LIKE 'sweep%%' AND s.name NOT LIKE 'sqlite%%' ORDER BY s.name", which, which);
  int rc = kvl_store_prepare(store, &q, sql);
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(q, 0);
    if (name != NULL && *count < KVL_RUN_TABLES_MAX) {
      (void)snprintf(table[(*count)++], 64, "%.63s", name);
    }
    rc = SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* A table that is made when it is first needed, and that only the other store has. */
static int make_table(struct kvl_store *store, const char *table)
{
  sqlite3_stmt *q = NULL, *create = NULL;
  int rc = kvl_sql_prepare(store, &q, "SELECT o.sql FROM other.sqlite_schema o WHERE o.name = ?1 AND o.type = 'table' "
                                      "AND NOT EXISTS (SELECT 1 FROM main.sqlite_schema m WHERE m.name = ?1)", "t", table);
  rc = rc != SQLITE_OK ? rc : sqlite3_step(q);
  if (rc == SQLITE_ROW) {
    const char *sql = (const char *)sqlite3_column_text(q, 0);
    rc = sql == NULL ? SQLITE_NOMEM : kvl_store_prepare(store, &create, sql); /* its first statement and no more */
    rc = kvl_sql_done(create, rc);
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int kvl_store_copy_run(struct kvl_store *store, int64_t from, int summary_only, int64_t *run)
{
  char table[KVL_RUN_TABLES_MAX][64];
  unsigned count;
  int rc = run_tables(store, "other", table, &count);
  rc = rc != SQLITE_OK ? rc : kvl_store_copy_rows(store, "runs", "run", from, 0);
  *run = sqlite3_last_insert_rowid(store->db);
  for (unsigned t = 0; t < count && rc == SQLITE_OK; t++) {
    if (!summary_only || strcmp(table[t], "summary") == 0) {
      rc = make_table(store, table[t]);
      rc = rc != SQLITE_OK ? rc : kvl_store_copy_rows(store, table[t], "run", from, *run);
    }
  }
  return rc;
}

int kvl_store_delete_run(struct kvl_store *store, int64_t run)
{
  char table[KVL_RUN_TABLES_MAX][64];
  unsigned count;
  int rc = run_tables(store, "main", table, &count);
  for (unsigned t = 0; t <= count && rc == SQLITE_OK; t++) {
    char sql[120];
    sqlite3_stmt *q = NULL;
    (void)snprintf(sql, sizeof sql, "DELETE FROM main.%s WHERE run = ?", t < count ? table[t] : "runs");
    rc = kvl_sql_prepare(store, &q, sql, "i", run);
    rc = kvl_sql_done(q, rc);
  }
  return rc;
}

/* ---- the plan ---- */

static int write_plan(struct kvl_store *store, const struct kvl_sweep_plan *plan, int64_t *sweep)
{
  sqlite3_stmt *q = NULL;
  struct timespec time;
  (void)clock_gettime(CLOCK_REALTIME, &time);
  int rc = kvl_sql_prepare(store, &q, "INSERT INTO sweeps (name, note, scenario, hash, points, repeats, build, command, created_unix_ms) VALUES (?,?,?,?,?,?,?,?,?)",
                           "ttttiitti", plan->name, plan->note, plan->scenario, plan->hash, (int64_t)plan->points, (int64_t)plan->repeats, plan->build,
                           plan->command, (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000);
  rc = kvl_sql_done(q, rc);
  *sweep = sqlite3_last_insert_rowid(store->db);
  for (uint32_t k = 0; k < plan->keys && rc == SQLITE_OK; k++) {
    q = NULL;
    rc = kvl_sql_prepare(store, &q, "INSERT INTO sweep_keys VALUES (?,?,?)", "iit", *sweep, (int64_t)k, plan->key[k]);
    rc = kvl_sql_done(q, rc);
  }
  q = NULL;
  rc = rc != SQLITE_OK ? rc : kvl_store_prepare(store, &q, "INSERT INTO sweep_points VALUES (?,?,?,?)");
  for (uint64_t i = 0; i < (uint64_t)plan->points * plan->keys && rc == SQLITE_OK; i++) {
    (void)sqlite3_bind_int64(q, 1, *sweep);
    (void)sqlite3_bind_int64(q, 2, (sqlite3_int64)(i / plan->keys));
    (void)sqlite3_bind_int64(q, 3, (sqlite3_int64)(i % plan->keys));
    rc = sqlite3_bind_text(q, 4, plan->value[i], -1, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : sqlite3_step(q) == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(store->db);
    (void)sqlite3_reset(q);
  }
  (void)sqlite3_finalize(q);
  return rc;
}

static int find_plan(struct kvl_store *store, const char *hash, const char *name, int64_t *sweep, uint32_t *others)
{
  sqlite3_stmt *q = NULL;
  *sweep = 0;
  *others = 0;
  int rc = kvl_sql_prepare(store, &q, "SELECT sweep, hash = ?1 FROM sweeps WHERE hash = ?1 OR name = ?2", "tt", hash, name);
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    if (sqlite3_column_int(q, 1) != 0) {
      *sweep = sqlite3_column_int64(q, 0);
    } else {
      (*others)++;
    }
    rc = SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void read_owner(sqlite3_stmt *q, int column, struct kvl_store_owner *owner)
{
  char *const text[] = {owner->host, owner->boot, owner->space};
  const size_t size[] = {sizeof owner->host, sizeof owner->boot, sizeof owner->space};
  for (int i = 0; i < 3; i++) {
    const char *value = (const char *)sqlite3_column_text(q, column + i);
    (void)snprintf(text[i], size[i], "%s", value != NULL ? value : "");
  }
  owner->process = sqlite3_column_int64(q, column + 3);
  owner->process_start = sqlite3_column_int64(q, column + 4);
}

int kvl_store_sweep_running(struct kvl_store *store, int64_t sweep, int *running)
{
  sqlite3_stmt *q = NULL;
  struct kvl_store_owner self, owner;
  kvl_store_owner_self(&self);
  *running = 0;
  int rc = kvl_sql_prepare(store, &q, "SELECT host, boot, space, process, process_start FROM sweep_owners WHERE sweep = ?", "i", sweep);
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    read_owner(q, 0, &owner);
    *running |= kvl_store_owner_status(&owner, &self) != KVL_STORED_INCOMPLETE;
    rc = SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Shares i of n and j of m have a task in common unless they differ modulo the greatest common divisor of n and m. */
static int shares_meet(const struct kvl_sweep_share *a, uint32_t index, uint32_t count)
{
  uint32_t x = a->count, y = count;
  while (y != 0) {
    uint32_t rest = x % y;
    x = y;
    y = rest;
  }
  return a->index % x == index % x;
}

/* 0 when nobody who lives holds a part of the share; the dead are removed. */
static int clear_owners(struct kvl_store *store, int64_t sweep, const struct kvl_sweep_share *share, const struct kvl_store_owner *self, int take_over,
                        int *code, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL, *gone = NULL;
  int rc = kvl_sql_prepare(store, &q, "SELECT host, boot, space, process, process_start, share, shares FROM sweep_owners WHERE sweep = ?", "i", sweep);
  while (rc == SQLITE_OK && *code == 0 && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    struct kvl_store_owner owner;
    int64_t index = sqlite3_column_int64(q, 5), count = sqlite3_column_int64(q, 6);
    read_owner(q, 0, &owner);
    enum kvl_stored_status status = kvl_store_owner_status(&owner, self);
    int ours = strcmp(owner.boot, self->boot) == 0 && strcmp(owner.space, self->space) == 0 && owner.process == self->process;
    int gives_way = ours || status == KVL_STORED_INCOMPLETE || (status == KVL_STORED_UNKNOWN && take_over);
    if (count < 1 || !shares_meet(share, (uint32_t)index, (uint32_t)count)) {
      rc = SQLITE_OK;
      continue;
    }
    if (!gives_way) {
      *code = status == KVL_STORED_UNKNOWN
                ? kvl_err_set(err, -EBUSY, "%s: process %lld on %s works on this sweep, or did when it ended: from here nobody can tell; --take-over when it is gone",
                              store->path, (long long)owner.process, owner.host)
                : kvl_err_set(err, -EBUSY, "%s: process %lld works on this sweep (share %lld of %lld); wait for it, or use another store", store->path,
                              (long long)owner.process, (long long)index + 1, (long long)count);
    } else {
      gone = NULL;
      rc = kvl_sql_prepare(store, &gone, "DELETE FROM sweep_owners WHERE sweep = ? AND share = ? AND shares = ?", "iii", sweep, index, count);
      rc = kvl_sql_done(gone, rc);
    }
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int kvl_store_sweep_begin(struct kvl_store *store, const struct kvl_sweep_plan *plan, const struct kvl_sweep_share *share, int take_over, int64_t *sweep,
                          uint32_t *others, struct kvl_err *err)
{
  struct kvl_store_owner self;
  sqlite3_stmt *q = NULL;
  int code = 0;
  assert(share->count > 0 && share->index < share->count && !store->read_only);
  kvl_store_owner_self(&self);
  *sweep = 0;
  *others = 0;
  int rc = kvl_store_exec(store, "BEGIN IMMEDIATE");
  rc = rc != SQLITE_OK ? rc : kvl_store_sweep_schema(store);
  rc = rc != SQLITE_OK ? rc : find_plan(store, plan->hash, plan->name, sweep, others);
  if (rc == SQLITE_OK && *sweep == 0) {
    rc = write_plan(store, plan, sweep);
  }
  rc = rc != SQLITE_OK ? rc : clear_owners(store, *sweep, share, &self, take_over, &code, err);
  if (rc == SQLITE_OK && code == 0) {
    rc = kvl_sql_prepare(store, &q, "INSERT INTO sweep_owners VALUES (?,?,?,?,?,?,?,?)", "iiitttii", *sweep, (int64_t)share->index, (int64_t)share->count,
                         self.host, self.boot, self.space, self.process, self.process_start);
    rc = kvl_sql_done(q, rc);
  }
  return kvl_store_finish(store, rc, code, "store a sweep", err);
}

int kvl_store_sweep_end(struct kvl_store *store, int64_t sweep, const struct kvl_sweep_share *share, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  struct kvl_store_owner self;
  kvl_store_owner_self(&self);
  int rc = kvl_sql_prepare(store, &q, "DELETE FROM sweep_owners WHERE sweep = ? AND share = ? AND shares = ? AND process = ? AND boot = ?", "iiiit", sweep,
                           (int64_t)share->index, (int64_t)share->count, self.process, self.boot);
  rc = kvl_sql_done(q, rc);
  return rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "end a sweep", err);
}

int kvl_store_sweep_states(struct kvl_store *store, int64_t sweep, uint8_t *state, uint32_t tasks, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  memset(state, KVL_TASK_MISSING, tasks);
  int rc = kvl_sql_prepare(store, &q, "SELECT task, status = 'complete' FROM sweep_tasks WHERE sweep = ?", "i", sweep);
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    int64_t task = sqlite3_column_int64(q, 0);
    if (task >= 0 && task < tasks) {
      state[task] = sqlite3_column_int(q, 1) != 0 ? KVL_TASK_COMPLETE : KVL_TASK_FAILED;
    }
    rc = SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  return rc == SQLITE_DONE ? 0 : kvl_store_sql_error(store, rc, "read a sweep", err);
}

/* ---- tasks ---- */

/* Is the share still ours? */
static int check_owner(struct kvl_store *store, int64_t sweep, const struct kvl_sweep_share *share, int *code, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  struct kvl_store_owner self;
  kvl_store_owner_self(&self);
  int rc = kvl_sql_prepare(store, &q, "SELECT 1 FROM sweep_owners WHERE sweep = ? AND share = ? AND shares = ? AND process = ? AND process_start = ? AND boot = ?",
                           "iiiiit", sweep, (int64_t)share->index, (int64_t)share->count, self.process, self.process_start, self.boot);
  rc = rc != SQLITE_OK ? rc : sqlite3_step(q);
  (void)sqlite3_finalize(q);
  if (rc == SQLITE_DONE) {
    *code = kvl_err_set(err, -EBUSY, "%s: another process took this sweep over; this one ends", store->path);
  }
  return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int kvl_store_sweep_add(struct kvl_store *store, int64_t sweep, const struct kvl_sweep_share *share, const struct kvl_task_result *r, struct kvl_err *err)
{
  int64_t there = 0, from = 0, run = 0;
  int code = r->from == NULL ? 0 : kvl_store_attach(store, r->from, err);
  if (code != 0) {
    return code;
  }
  int rc = kvl_store_exec(store, "BEGIN IMMEDIATE");
  rc = rc != SQLITE_OK ? rc : check_owner(store, sweep, share, &code, err);
  rc = rc != SQLITE_OK ? rc : kvl_sql_number(store, &there, "SELECT count(*) FROM sweep_tasks WHERE sweep = ? AND task = ?", sweep, r->task);
  if (rc == SQLITE_OK && code == 0 && there == 0) {
    if (r->from != NULL) {
      rc = kvl_sql_number(store, &from, "SELECT max(run) FROM other.runs", 0, 0);
      rc = rc != SQLITE_OK ? rc : kvl_store_copy_run(store, from, r->summary_only, &run);
    }
    sqlite3_stmt *q = NULL;
    char seed[24];
    (void)snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    rc = rc != SQLITE_OK ? rc
                         : kvl_sql_prepare(store, &q, r->from != NULL ? "INSERT INTO sweep_tasks VALUES (?,?,?,?,?,?,?,?)" : "INSERT INTO sweep_tasks VALUES (?,?,?,?,?,?,?,NULL)",
                                           r->from != NULL ? "iiiittti" : "iiiittt", sweep, (int64_t)r->task, (int64_t)r->point, (int64_t)r->repeat, seed,
                                           r->reason == NULL ? "complete" : "failed", r->reason, run);
    rc = kvl_sql_done(q, rc);
  }
  code = kvl_store_finish(store, rc, code, "store a point", err);
  if (r->from != NULL) {
    kvl_store_detach(store);
  }
  return code;
}

int kvl_store_sweep_forget_failed(struct kvl_store *store, int64_t sweep, const struct kvl_sweep_share *share, uint32_t *count, struct kvl_err *err)
{
  *count = 0;
  int rc = kvl_store_exec(store, "BEGIN IMMEDIATE");
  for (int more = rc == SQLITE_OK; more;) {
    sqlite3_stmt *q = NULL;
    int64_t task = -1, run = 0;
    rc = kvl_sql_prepare(store, &q, "SELECT task, run FROM sweep_tasks WHERE sweep = ? AND status <> 'complete' AND task % ? = ? LIMIT 1", "iii", sweep,
                         (int64_t)share->count, (int64_t)share->index);
    if (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
      task = sqlite3_column_int64(q, 0);
      run = sqlite3_column_int64(q, 1);
    }
    rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
    (void)sqlite3_finalize(q);
    more = rc == SQLITE_OK && task >= 0;
    if (more) {
      q = NULL;
      rc = kvl_sql_prepare(store, &q, "DELETE FROM sweep_tasks WHERE sweep = ? AND task = ?", "ii", sweep, task);
      rc = kvl_sql_done(q, rc);
      rc = rc != SQLITE_OK || run == 0 ? rc : kvl_store_delete_run(store, run);
      more = rc == SQLITE_OK;
      (*count)++;
    }
  }
  return kvl_store_finish(store, rc, 0, "forget failed points", err);
}
