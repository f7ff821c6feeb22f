/* Writing runs: records wait in memory and go out in short transactions; the last one makes the run whole. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "results/store_internal.h"

static const char *const statement_text[KVL_SQL_STATEMENTS] = {
  [KVL_SQL_REQUEST] = "INSERT INTO requests VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
  [KVL_SQL_SAMPLE] = "INSERT INTO samples VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
  [KVL_SQL_POINT] = "INSERT INTO points VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
  [KVL_SQL_MOVE] = "INSERT INTO moves VALUES (?,?,?,?,?,?,?,?,?)",
  [KVL_SQL_SUMMARY] = "INSERT INTO summary VALUES (?,?,?)",
  [KVL_SQL_END] = "UPDATE runs SET status = ?2, ended_unix_ms = ?3 WHERE run = ?1",
};

static int64_t now_unix_ms(void)
{
  struct timespec time;
  (void)clock_gettime(CLOCK_REALTIME, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Binds the columns of one row from left to right and keeps the first failure. */
struct row {
  sqlite3_stmt *statement;
  int column, rc;
};

static void bind_count(struct row *row, uint64_t value)
{
  row->column++;
  int rc = value > INT64_MAX ? sqlite3_bind_null(row->statement, row->column)
                             : sqlite3_bind_int64(row->statement, row->column, (sqlite3_int64)value);
  row->rc = row->rc != SQLITE_OK ? row->rc : rc;
}

static void bind_number(struct row *row, double value)
{
  row->column++;
  int rc = sqlite3_bind_double(row->statement, row->column, value);
  row->rc = row->rc != SQLITE_OK ? row->rc : rc;
}

static void bind_text(struct row *row, const char *text)
{
  row->column++;
  int rc = sqlite3_bind_text(row->statement, row->column, text != NULL ? text : "", -1, SQLITE_TRANSIENT);
  row->rc = row->rc != SQLITE_OK ? row->rc : rc;
}

static int row_done(struct row *row)
{
  if (row->rc == SQLITE_OK) {
    assert(row->column == sqlite3_bind_parameter_count(row->statement));
    row->rc = sqlite3_step(row->statement);
  }
  int rc = sqlite3_reset(row->statement);
  return row->rc == SQLITE_DONE ? SQLITE_OK : row->rc != SQLITE_OK ? row->rc : rc;
}

static struct row row_of(struct kvl_store *store, enum kvl_store_statement which)
{
  struct row row = {store->statement[which], 0, SQLITE_OK};
  bind_count(&row, (uint64_t)store->run);
  return row;
}

static int write_requests(struct kvl_store *store)
{
  int rc = SQLITE_OK;
  for (uint32_t i = 0; i < store->requests && rc == SQLITE_OK; i++) {
    const struct kvl_request_record *r = &store->request[i];
    struct row row = row_of(store, KVL_SQL_REQUEST);
    const uint64_t value[] = {r->id, r->session, r->gpu, r->input_tokens, r->cached_tokens, r->output_tokens, r->submit_ns, r->prefill_start_ns,
                              r->prefill_end_ns, r->admit_ns, r->first_token_ns, r->last_token_ns, r->aborted};
    for (unsigned v = 0; v < sizeof value / sizeof value[0]; v++) {
      bind_count(&row, value[v]);
    }
    rc = row_done(&row);
  }
  return rc;
}

static int write_samples(struct kvl_store *store)
{
  int rc = SQLITE_OK;
  for (uint32_t i = 0; i < store->samples && rc == SQLITE_OK; i++) {
    const struct kvl_step_sample *s = &store->sample[i];
    struct row row = row_of(store, KVL_SQL_SAMPLE);
    const uint64_t value[] = {store->samples_written + i, s->time_ns, s->step_ns, s->gpu, s->batch, s->waiting, s->frames_free, s->frames_reserved,
                              s->frames_lent, s->frames_retiring};
    for (unsigned v = 0; v < sizeof value / sizeof value[0]; v++) {
      bind_count(&row, value[v]);
    }
    bind_number(&row, s->resident_share);
    for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
      bind_count(&row, s->lanes[t]);
    }
    for (unsigned t = 0; t < KVL_STALLS; t++) {
      bind_count(&row, s->stall_ns[t]);
    }
    rc = row_done(&row);
  }
  return rc;
}

static int write_points(struct kvl_store *store)
{
  int rc = SQLITE_OK;
  for (uint32_t i = 0; i < store->points && rc == SQLITE_OK; i++) {
    const struct kvl_point_counter *p = &store->point[i];
    struct row row = row_of(store, KVL_SQL_POINT);
    bind_count(&row, p->gpu);
    bind_count(&row, p->point);
    bind_count(&row, p->layer);
    bind_count(&row, p->cache);
    for (unsigned t = 0; t < KVL_REPORT_TIERS; t++) {
      bind_count(&row, p->lanes[t]);
    }
    bind_count(&row, p->fetched);
    bind_count(&row, p->overflow);
    rc = row_done(&row);
  }
  return rc;
}

static int write_moves(struct kvl_store *store)
{
  int rc = SQLITE_OK;
  for (uint32_t i = 0; i < store->moves && rc == SQLITE_OK; i++) {
    const struct kvl_move_record *m = &store->move[i];
    struct row row = row_of(store, KVL_SQL_MOVE);
    const uint64_t value[] = {store->moves_written + i, m->time_ns, m->gpu, m->revoked, m->populated, m->given_back, m->kept, m->bytes};
    for (unsigned v = 0; v < sizeof value / sizeof value[0]; v++) {
      bind_count(&row, value[v]);
    }
    rc = row_done(&row);
  }
  return rc;
}

static int write_summary(struct kvl_store *store, const struct kvl_summary *summary)
{
  int rc = SQLITE_OK;
  for (uint32_t i = 0; i < kvl_summary_key_count() && rc == SQLITE_OK; i++) {
    char text[KVL_SUMMARY_TEXT_MAX];
    struct row row = row_of(store, KVL_SQL_SUMMARY);
    bind_text(&row, kvl_summary_key_at(i)->name);
    if (!kvl_summary_is_integer(i)) {
      bind_number(&row, kvl_summary_value(summary, i));
    } else if (kvl_summary_count(summary, i) <= INT64_MAX) {
      bind_count(&row, kvl_summary_count(summary, i));
    } else {
      bind_text(&row, kvl_summary_value_text(text, summary, i)); /* SQLite's integers end at 2^63 */
    }
    rc = row_done(&row);
  }
  return rc;
}

/* One transaction with everything in memory, and the end of the run when `status` is given. Nothing is forgotten before it is committed. */
static int write_out(struct kvl_store *store, const struct kvl_summary *summary, const char *status, struct kvl_err *err)
{
  int rc = kvl_store_exec(store, "BEGIN IMMEDIATE");
  rc = rc != SQLITE_OK ? rc : write_requests(store);
  rc = rc != SQLITE_OK ? rc : write_samples(store);
  rc = rc != SQLITE_OK ? rc : write_points(store);
  rc = rc != SQLITE_OK ? rc : write_moves(store);
  if (rc == SQLITE_OK && status != NULL) {
    rc = summary != NULL ? write_summary(store, summary) : SQLITE_OK;
    if (rc == SQLITE_OK) {
      struct row row = row_of(store, KVL_SQL_END);
      bind_text(&row, status);
      bind_count(&row, (uint64_t)now_unix_ms());
      rc = row_done(&row);
    }
  }
  rc = rc != SQLITE_OK ? rc : kvl_store_exec(store, "COMMIT");
  int code = 0;
  if (rc != SQLITE_OK) {
    char doing[64];
    (void)snprintf(doing, sizeof doing, "store run %" PRId64, store->run);
    code = kvl_store_sql_error(store, rc, doing, err);
  }
  if (!sqlite3_get_autocommit(store->db)) {
    (void)kvl_store_exec(store, "ROLLBACK");
  }
  if (code == 0) {
    store->samples_written += store->samples;
    store->moves_written += store->moves;
    store->requests = store->samples = store->points = store->moves = 0;
  }
  return code;
}

int kvl_store_run_begin(struct kvl_store *store, const struct kvl_run_info *info, int64_t *run, struct kvl_err *err)
{
  assert(store->run == 0 && !store->read_only);
  *run = 0;
  int rc = SQLITE_OK;
  for (unsigned i = 0; i < KVL_SQL_STATEMENTS && rc == SQLITE_OK; i++) {
    if (store->statement[i] == NULL) {
      rc = kvl_store_prepare(store, &store->statement[i], statement_text[i]);
    }
  }
  struct kvl_store_owner owner;
  kvl_store_owner_self(&owner);
  char seed[24], hash[24], machine[512];
  const char *scenario = info->scenario_json != NULL ? info->scenario_json : "";
  (void)snprintf(seed, sizeof seed, "%" PRIu64, info->seed);
  (void)snprintf(hash, sizeof hash, "%016" PRIx64, (uint64_t)XXH3_64bits(scenario, strlen(scenario)));
  kvl_store_machine(machine, sizeof machine);

  sqlite3_stmt *statement = NULL;
  errno = 0;
  rc = rc != SQLITE_OK ? rc : kvl_store_prepare(store, &statement,
    "INSERT INTO runs (name, mode, plane, seed, status, started_unix_ms, scenario, scenario_hash, build, command, machine, host, boot, space, "
    "process, process_start) VALUES (?,?,?,?,'running',?,?,?,?,?,?,?,?,?,?,?)");
  if (rc == SQLITE_OK) {
    struct row row = {statement, 0, SQLITE_OK};
    bind_text(&row, info->name);
    bind_text(&row, info->mode);
    bind_text(&row, info->plane);
    bind_text(&row, seed);
    bind_count(&row, (uint64_t)now_unix_ms());
    bind_text(&row, scenario);
    bind_text(&row, hash);
    bind_text(&row, info->build);
    bind_text(&row, info->command);
    bind_text(&row, machine);
    bind_text(&row, owner.host);
    bind_text(&row, owner.boot);
    bind_text(&row, owner.space);
    bind_count(&row, (uint64_t)owner.process);
    bind_count(&row, owner.process_start > 0 ? (uint64_t)owner.process_start : 0);
    rc = row_done(&row);
  }
  int code = rc == SQLITE_OK ? 0 : kvl_store_sql_error(store, rc, "store a run", err);
  (void)sqlite3_finalize(statement);
  if (code == 0) {
    *run = store->run = sqlite3_last_insert_rowid(store->db);
    store->samples_written = store->moves_written = 0;
    store->requests = store->samples = store->points = store->moves = 0;
  }
  return code;
}

int kvl_store_add_request(struct kvl_store *store, const struct kvl_request_record *record, struct kvl_err *err)
{
  assert(store->run != 0);
  int code = store->requests < store->batch_rows ? 0 : write_out(store, NULL, NULL, err);
  if (code == 0) {
    store->request[store->requests++] = *record;
  }
  return code;
}

int kvl_store_add_sample(struct kvl_store *store, const struct kvl_step_sample *sample, struct kvl_err *err)
{
  assert(store->run != 0);
  int code = store->samples < store->batch_rows ? 0 : write_out(store, NULL, NULL, err);
  if (code == 0) {
    store->sample[store->samples++] = *sample;
  }
  return code;
}

int kvl_store_add_point(struct kvl_store *store, const struct kvl_point_counter *counter, struct kvl_err *err)
{
  assert(store->run != 0);
  int code = store->points < store->batch_rows ? 0 : write_out(store, NULL, NULL, err);
  if (code == 0) {
    store->point[store->points++] = *counter;
  }
  return code;
}

int kvl_store_add_move(struct kvl_store *store, const struct kvl_move_record *record, struct kvl_err *err)
{
  assert(store->run != 0);
  int code = store->moves < store->batch_rows ? 0 : write_out(store, NULL, NULL, err);
  if (code == 0) {
    store->move[store->moves++] = *record;
  }
  return code;
}

int kvl_store_run_end(struct kvl_store *store, int64_t run, const struct kvl_summary *summary, enum kvl_run_status status, struct kvl_err *err)
{
  assert(store->run == run && run != 0 && status != KVL_RUN_RUNNING);
  const char *word = status == KVL_RUN_COMPLETE ? "complete" : status == KVL_RUN_INTERRUPTED ? "interrupted" : "failed";
  int code = write_out(store, summary, word, err);
  if (code == 0) {
    store->run = 0;
  }
  return code;
}
