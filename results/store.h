/* The result store: one SQLite file for all runs. Crash-safe (WAL or rollback journal; a run's rows appear whole, or the run is marked),
 * several processes may write at once (busy time-out, then one clear line). Schema version in PRAGMA user_version and application_id; a foreign
 * database is refused, not changed. */
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
  uint32_t gpu, batch, waiting;
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

/* Opens or creates. Errors are one line: not a database, another program's database, a newer schema, locked, read-only folder, disk full. */
int kvl_store_open(struct kvl_store **store, const char *path, struct kvl_err *err);
void kvl_store_close(struct kvl_store *store);

/* begin writes the run with status "running" and returns its id; the add calls buffer into bounded batches in one transaction that `end` commits
 * with the summary and the final status. Not ended (crash, kill -9): the run stays "running" with its process id, and lists as "incomplete". */
int kvl_store_run_begin(struct kvl_store *store, const struct kvl_run_info *info, int64_t *run, struct kvl_err *err);
int kvl_store_add_request(struct kvl_store *store, const struct kvl_request_record *record, struct kvl_err *err);
int kvl_store_add_sample(struct kvl_store *store, const struct kvl_step_sample *sample, struct kvl_err *err);
int kvl_store_add_point(struct kvl_store *store, const struct kvl_point_counter *counter, struct kvl_err *err);
int kvl_store_add_move(struct kvl_store *store, const struct kvl_move_record *record, struct kvl_err *err);
int kvl_store_run_end(struct kvl_store *store, int64_t run, const struct kvl_summary *summary, enum kvl_run_status status, struct kvl_err *err);

#endif
