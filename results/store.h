/* The result store: one SQLite file for all runs. Crash-safe (write-ahead log where the file system can, else a rollback journal; a run's rows
 * appear whole, or the run is marked), several processes may write at once (busy time-out, then one clear line). The file carries an
 * application_id and the schema's version (PRAGMA user_version); results/store_schema.c is the schema. A handle belongs to one thread. */
#ifndef KVL_RESULTS_STORE_H
#define KVL_RESULTS_STORE_H

#include <stdint.h>

#include "backend/base/err.h"
#include "results/summary.h"

struct kvl_store;

struct kvl_run_info {
  const char *name;          /* the scenario's name */
  const char *mode;          /* resident, fixed, adaptive */
  const char *plane;         /* model, host, cuda */
  const char *scenario_json; /* the resolved scenario, --set applied */
  const char *build;         /* version and git revision */
  const char *command;       /* how it was started */
  uint64_t seed;
};

struct kvl_request_record {
  uint64_t id, session;
  uint32_t gpu;
  uint32_t input_tokens, cached_tokens, output_tokens;
  uint64_t submit_ns, prefill_start_ns, prefill_end_ns, admit_ns, first_token_ns, last_token_ns;
  uint32_t aborted;
};

/* One sample of the time line, taken at the end of a decode step. */
struct kvl_step_sample {
  uint64_t time_ns, step_ns;
  uint32_t gpu, batch;
  uint32_t waiting; /* for a decode slot, on all decode GPUs together */
  uint32_t frames_free, frames_reserved, frames_lent, frames_retiring;
  double resident_share; /* pages held / pages of history, over the batch */
  uint64_t lanes[KVL_REPORT_TIERS]; /* of this step */
  uint64_t stall_ns[KVL_STALLS];    /* of this step and the gap before it */
};

struct kvl_point_counter { /* totals of one selection point (layer) */
  uint32_t gpu, point, layer, cache;
  uint64_t lanes[KVL_REPORT_TIERS];
  uint64_t fetched, overflow;
};

struct kvl_move_record { /* page moves of one gap, summed by kind */
  uint64_t time_ns;
  uint32_t gpu;
  uint32_t revoked, populated, given_back, kept;
  uint64_t bytes;
};

/* Options of kvl_store_open_with; zero means the default. */
struct kvl_store_options {
  uint32_t busy_ms;   /* how long to wait for another process's lock; default 5,000 */
  uint32_t batch_rows; /* rows of one kind kept in memory before they are written; default 2,048 */
  int read_only;      /* for listing and export: the file must exist, nothing is written, a read-only folder will do */
};

/* Opens or creates. A store that could not be created is not there: no empty file. Errors are one line naming the file:
 * -EINVAL not a database, or not a result store; -EEXIST another program's database (not a byte of it is changed); -ENOTSUP written by a newer
 * kvloan; -EBUSY locked for longer than busy_ms; -EROFS, -EACCES read-only file or folder; -ENOENT no such folder (read_only: no such file);
 * -EISDIR a folder; -ENOSPC disk full, or over a size limit; -EUCLEAN damaged; -ENOMEM, -EIO. All calls below return the same set. */
int kvl_store_open(struct kvl_store **store, const char *path, struct kvl_err *err);
int kvl_store_open_with(struct kvl_store **store, const char *path, const struct kvl_store_options *options, struct kvl_err *err);
/* NULL is fine. A run that was begun and not ended is marked failed, as far as that can still be written. */
void kvl_store_close(struct kvl_store *store);
/* A store that nobody has open, and what SQLite keeps beside it. What is not there is none of it. */
void kvl_store_remove(const char *path);

/* ---- writing: one run at a time a handle; several handles and processes may write to one file at once ----
 *
 * `begin` writes the run with status "running" and who writes it (host, boot, process id and start time), and returns its id. The add calls keep
 * records in memory and write them, batch_rows at a time, in short transactions of their own, so that no writer holds the lock for long. `end`
 * writes the rest, the summary and the final status in one transaction: a run that reads "complete" is whole. Readers mark every other run.
 *
 * A time of UINT64_MAX in a record means "never"; it is stored as NULL. A failed call leaves the records in memory: it may be tried again. */
int kvl_store_run_begin(struct kvl_store *store, const struct kvl_run_info *info, int64_t *run, struct kvl_err *err);
int kvl_store_add_request(struct kvl_store *store, const struct kvl_request_record *record, struct kvl_err *err);
int kvl_store_add_sample(struct kvl_store *store, const struct kvl_step_sample *sample, struct kvl_err *err);
int kvl_store_add_point(struct kvl_store *store, const struct kvl_point_counter *counter, struct kvl_err *err);
int kvl_store_add_move(struct kvl_store *store, const struct kvl_move_record *record, struct kvl_err *err);
/* `status`: complete, interrupted or failed. `summary` may be NULL when there is none (failed). */
int kvl_store_run_end(struct kvl_store *store, int64_t run, const struct kvl_summary *summary, enum kvl_run_status status, struct kvl_err *err);

/* ---- reading ---- */

/* How a stored run reads. A run that never ended is
 * - running: its process lives (same host and boot, same process id with the same start time);
 * - incomplete: that process is gone, or its host has booted since;
 * - unknown: another host, or another container, wrote it: from here nobody can tell. */
enum kvl_stored_status {
  KVL_STORED_COMPLETE, KVL_STORED_INTERRUPTED, KVL_STORED_FAILED, KVL_STORED_RUNNING, KVL_STORED_INCOMPLETE, KVL_STORED_UNKNOWN
};
const char *kvl_stored_status_name(enum kvl_stored_status status);

struct kvl_stored_run {
  int64_t id;                              /* counts up from 1 in the order in which runs began */
  char *name, *mode, *plane;
  char *build, *command, *machine;
  char *scenario_hash;                     /* XXH3-64 of the scenario text, 16 hexadecimal digits */
  uint64_t seed;
  enum kvl_stored_status status;
  int64_t process;                         /* process id of the writer */
  int64_t started_unix_ms, ended_unix_ms;  /* wall clock; ended: -1 when it has not */
  int64_t concurrency;                     /* workload.concurrency of the scenario; -1: it has none */
  int has_summary;
  struct kvl_summary summary;              /* zero when there is none */
};

struct kvl_run_list {
  struct kvl_stored_run *run; /* by id */
  uint32_t count;
};

/* All runs, from one moment of the store. */
int kvl_store_list(struct kvl_store *store, struct kvl_run_list *list, struct kvl_err *err);
void kvl_run_list_free(struct kvl_run_list *list);

/* The scenario as it was run (the caller frees); -ENOENT: no such run. */
int kvl_store_scenario(struct kvl_store *store, int64_t run, char **json, struct kvl_err *err);

/* Each record of a run in the order in which it was stored (requests: by id). A callback that returns non-zero stops the walk; that value is returned. */
int kvl_store_each_request(struct kvl_store *store, int64_t run, int (*each)(void *context, const struct kvl_request_record *record),
                           void *context, struct kvl_err *err);
int kvl_store_each_sample(struct kvl_store *store, int64_t run, int (*each)(void *context, const struct kvl_step_sample *sample),
                          void *context, struct kvl_err *err);
int kvl_store_each_point(struct kvl_store *store, int64_t run, int (*each)(void *context, const struct kvl_point_counter *counter),
                         void *context, struct kvl_err *err);
int kvl_store_each_move(struct kvl_store *store, int64_t run, int (*each)(void *context, const struct kvl_move_record *record),
                        void *context, struct kvl_err *err);

/* Records of one kind that a run has stored so far. */
struct kvl_run_rows {
  uint64_t requests, samples, points, moves;
};
int kvl_store_rows(struct kvl_store *store, int64_t run, struct kvl_run_rows *rows, struct kvl_err *err);

/* SQLite's own check of every page and index: 0, or -EUCLEAN with the first complaint. */
int kvl_store_check(struct kvl_store *store, struct kvl_err *err);

#endif
