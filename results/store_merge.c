/* Bringing stores together. Everything of one store comes in one transaction, and what is there already is told from what is new by what it is, not by
 * its number: a task by its sweep's hash, a run by who ran what when. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "results/store_sweep_internal.h"

/* "'wall_s','peak_memory_bytes'": keys that differ from run to run by nature. */
static void measured_keys(char *list, size_t size)
{
  size_t used = 0;
  list[0] = '\0';
  for (uint32_t i = 0; i < kvl_summary_key_count(); i++) {
    if (kvl_summary_is_measured(i) && used < size) {
      used += (size_t)snprintf(list + used, size - used, "%s'%s'", used > 0 ? "," : "", kvl_summary_key_at(i)->name);
    }
  }
}

/* Whether run `ours` of the store and `theirs` of the other hold the same scenario and the same results. */
static int same_results(struct kvl_store *store, int64_t ours, int64_t theirs, int *same)
{
  char measured[1024], sql[4096];
  int64_t equal = 0;
  measured_keys(measured, sizeof measured);
  (void)snprintf(sql, sizeof sql,
                 "SELECT (SELECT scenario_hash FROM main.runs WHERE run = ?1) IS (SELECT scenario_hash FROM other.runs WHERE run = ?2) "
                 "AND NOT EXISTS (SELECT key, value FROM main.summary WHERE run = ?1 AND key NOT IN (%s) "
                 "EXCEPT SELECT key, value FROM other.summary WHERE run = ?2) "
                 "AND NOT EXISTS (SELECT key, value FROM other.summary WHERE run = ?2 AND key NOT IN (%s) "
                 "EXCEPT SELECT key, value FROM main.summary WHERE run = ?1)", measured, measured);
  int rc = kvl_sql_number(store, &equal, sql, ours, theirs);
  *same = equal != 0;
  return rc;
}

/* One row of the other store's sweep_tasks; `there`: the same task here. */
struct theirs {
  int64_t task, run;
  int complete, found, complete_here;
  int64_t run_here;
};

static int insert_task(struct kvl_store *store, int64_t sweep, int64_t other_sweep, const struct theirs *t, struct kvl_merge_count *count)
{
  sqlite3_stmt *q = NULL;
  int64_t run = 0;
  int rc = t->run == 0 ? SQLITE_OK : kvl_store_copy_run(store, t->run, 0, &run);
  char sql[256];
  (void)snprintf(sql, sizeof sql, "INSERT INTO main.sweep_tasks SELECT ?1, task, point, repeat, seed, status, reason, %s FROM other.sweep_tasks WHERE sweep = ?2 "
                 "AND task = ?3", t->run == 0 ? "NULL" : "?4");
  rc = rc != SQLITE_OK ? rc : kvl_sql_prepare(store, &q, sql, t->run == 0 ? "iii" : "iiii", sweep, other_sweep, t->task, run);
  rc = kvl_sql_done(q, rc);
  count->tasks++;
  count->runs += t->run != 0;
  return rc;
}

static int remove_task(struct kvl_store *store, int64_t sweep, const struct theirs *t)
{
  sqlite3_stmt *q = NULL;
  int rc = kvl_sql_prepare(store, &q, "DELETE FROM main.sweep_tasks WHERE sweep = ? AND task = ?", "ii", sweep, t->task);
  rc = kvl_sql_done(q, rc);
  return rc != SQLITE_OK || t->run_here == 0 ? rc : kvl_store_delete_run(store, t->run_here);
}

static int merge_tasks(struct kvl_store *store, int64_t sweep, int64_t other_sweep, const char *from, struct kvl_merge_count *count, int *code, struct kvl_err *err)
{
  sqlite3_stmt *q = NULL;
  /* the left side of the join is read to its end before anything is written: nothing here may depend on what it changes */
  int rc = kvl_sql_prepare(store, &q, "SELECT o.task, coalesce(o.run, 0), o.status = 'complete', m.task IS NOT NULL, coalesce(m.status = 'complete', 0), "
                           "coalesce(m.run, 0) FROM other.sweep_tasks o LEFT JOIN (SELECT * FROM main.sweep_tasks WHERE sweep = ?1) m ON m.task = o.task "
                           "WHERE o.sweep = ?2 ORDER BY o.task", "ii", sweep, other_sweep);
  struct theirs *list = NULL;
  uint32_t n = 0, room = 0;
  while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
    if (n == room) {
      room = room == 0 ? 64 : room * 2;
      struct theirs *longer = realloc(list, room * sizeof *list);
      if (longer == NULL) {
        rc = SQLITE_NOMEM;
        break;
      }
      list = longer;
    }
    list[n++] = (struct theirs){.task = sqlite3_column_int64(q, 0), .run = sqlite3_column_int64(q, 1), .complete = sqlite3_column_int(q, 2),
                                .found = sqlite3_column_int(q, 3), .complete_here = sqlite3_column_int(q, 4), .run_here = sqlite3_column_int64(q, 5)};
    rc = SQLITE_OK;
  }
  (void)sqlite3_finalize(q);
  rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
  for (uint32_t i = 0; i < n && rc == SQLITE_OK && *code == 0; i++) {
    const struct theirs *t = &list[i];
    int same = 1;
    if (t->found && t->complete && t->complete_here) {
      rc = same_results(store, t->run_here, t->run, &same);
      count->runs_there++;
      if (rc == SQLITE_OK && !same) {
        *code = kvl_err_set(err, -EINVAL, "%s: run %" PRId64 " has other results than run %" PRId64 " of %s, and both are task %" PRId64
                            " of the same sweep: were they made by different builds? (kvloan results show tells)", from, t->run, t->run_here, store->path,
                            t->task + 1);
      }
    } else if (!t->found) {
      rc = insert_task(store, sweep, other_sweep, t, count);
    } else if (t->complete) {
      rc = remove_task(store, sweep, t);
      rc = rc != SQLITE_OK ? rc : insert_task(store, sweep, other_sweep, t, count);
      count->tasks_replaced++;
    } else {
      count->runs_there += t->run != 0;
    }
  }
  free(list);
  return rc;
}

/* The sweep here with the hash of the other's `theirs`; 0: none. */
static int find_sweep(struct kvl_store *store, int64_t theirs, int64_t *sweep)
{
  return kvl_sql_number(store, sweep, "SELECT m.sweep FROM other.sweeps o JOIN main.sweeps m ON m.hash = o.hash WHERE o.sweep = ?1", theirs, 0);
}

static int merge_sweeps(struct kvl_store *store, const char *from, struct kvl_merge_count *count, int *code, struct kvl_err *err)
{
  int rc = kvl_store_sweep_schema(store);
  for (int64_t theirs = 0, sweep; rc == SQLITE_OK && *code == 0;) {
    rc = kvl_sql_number(store, &theirs, "SELECT coalesce(min(sweep), 0) FROM other.sweeps WHERE sweep > ?1", theirs, 0);
    if (rc != SQLITE_OK || theirs == 0) {
      break;
    }
    rc = find_sweep(store, theirs, &sweep);
    if (rc == SQLITE_OK && sweep == 0) {
      rc = kvl_store_copy_rows(store, "sweeps", "sweep", theirs, 0);
      sweep = sqlite3_last_insert_rowid(store->db);
      rc = rc != SQLITE_OK ? rc : kvl_store_copy_rows(store, "sweep_keys", "sweep", theirs, sweep);
      rc = rc != SQLITE_OK ? rc : kvl_store_copy_rows(store, "sweep_points", "sweep", theirs, sweep);
    }
    rc = rc != SQLITE_OK ? rc : merge_tasks(store, sweep, theirs, from, count, code, err);
  }
  return rc;
}

/* Runs that belong to no sweep. */
static int merge_runs(struct kvl_store *store, int with_sweeps, struct kvl_merge_count *count)
{
  static const char free_runs[] = "SELECT coalesce(min(run), 0) FROM other.runs WHERE run > ?1";
  static const char swept_runs[] = "SELECT coalesce(min(run), 0) FROM other.runs WHERE run > ?1 AND run NOT IN (SELECT run FROM other.sweep_tasks WHERE run IS NOT NULL)";
  int rc = SQLITE_OK;
  for (int64_t theirs = 0, value; rc == SQLITE_OK;) {
    rc = kvl_sql_number(store, &theirs, with_sweeps ? swept_runs : free_runs, theirs, 0);
    if (rc != SQLITE_OK || theirs == 0) {
      break;
    }
    rc = kvl_sql_number(store, &value, "SELECT status = 'running' FROM other.runs WHERE run = ?1", theirs, 0);
    if (rc == SQLITE_OK && value != 0) {
      count->runs_unfinished++;
      continue;
    }
    rc = rc != SQLITE_OK ? rc : kvl_sql_number(store, &value,
      "SELECT count(*) FROM other.runs o JOIN main.runs m ON m.scenario_hash = o.scenario_hash AND m.started_unix_ms = o.started_unix_ms AND m.host = o.host "
      "AND m.boot = o.boot AND m.process = o.process AND m.process_start = o.process_start AND m.seed = o.seed AND m.name = o.name AND m.mode = o.mode "
      "AND m.plane = o.plane WHERE o.run = ?1", theirs, 0);
    if (rc == SQLITE_OK && value != 0) {
      count->runs_there++;
    } else if (rc == SQLITE_OK) {
      rc = kvl_store_copy_run(store, theirs, 0, &value);
      count->runs++;
    }
  }
  return rc;
}

int kvl_store_merge(struct kvl_store *store, const char *from, struct kvl_merge_count *count, struct kvl_err *err)
{
  struct kvl_store *other = NULL;
  struct kvl_store_options reading = {.read_only = 1};
  struct kvl_merge_count counted = *count;
  struct stat a, b;
  int code = 0, rc;
  if (stat(store->path, &a) == 0 && stat(from, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
    return kvl_err_set(err, -EINVAL, "%s: is the store that is merged into", from);
  }
  /* what it is, and whether it is whole, before a line of it is copied; this also replays what a killed writer left */
  code = kvl_store_open_with(&other, from, &reading, err);
  code = code != 0 ? code : kvl_store_check(other, err);
  kvl_store_close(other);
  code = code != 0 ? code : kvl_store_attach(store, from, err);
  if (code != 0) {
    return code;
  }
  int64_t with_sweeps = 0;
  rc = kvl_store_exec(store, "BEGIN IMMEDIATE");
  rc = rc != SQLITE_OK ? rc : kvl_sql_number(store, &with_sweeps, "SELECT count(*) FROM other.sqlite_schema WHERE name = 'sweep_tasks'", 0, 0);
  rc = rc != SQLITE_OK ? rc : merge_runs(store, with_sweeps != 0, &counted);
  if (rc == SQLITE_OK && with_sweeps != 0) {
    rc = merge_sweeps(store, from, &counted, &code, err);
  }
  rc = rc != SQLITE_OK || code != 0 ? rc : kvl_store_merge_plans(store, &counted.plans);
  code = kvl_store_finish(store, rc, code, "merge into it", err);
  kvl_store_detach(store);
  if (code == 0) {
    *count = counted;
  }
  return code;
}
