/* The schema, version 1. Anything that can read SQLite can read the store; column names carry their units.
 *
 * An array of statements: one literal would be longer than the 4,095 bytes that C promises to take. */
#include "results/store_internal.h"

#define LANES "lanes_scratch INTEGER, lanes_tail INTEGER, lanes_borrowed INTEGER, lanes_bank INTEGER, lanes_hot INTEGER, lanes_host INTEGER, "

const char *const kvl_store_schema[] = {
  /* One row a run. status: running, complete, interrupted, failed; "running" with a dead process is an incomplete run. seed is text: it may
   * be above 2^63. host, boot, space, process and process_start say who writes (or wrote) it. */
  "CREATE TABLE runs ("
  "run INTEGER PRIMARY KEY AUTOINCREMENT, "
  "name TEXT NOT NULL, mode TEXT NOT NULL, plane TEXT NOT NULL, seed TEXT NOT NULL, status TEXT NOT NULL, "
  "started_unix_ms INTEGER NOT NULL, ended_unix_ms INTEGER, "
  "scenario TEXT NOT NULL, scenario_hash TEXT NOT NULL, build TEXT NOT NULL, command TEXT NOT NULL, machine TEXT NOT NULL, "
  "host TEXT NOT NULL, boot TEXT NOT NULL, space TEXT NOT NULL, process INTEGER NOT NULL, process_start INTEGER NOT NULL)",

  /* Times are simulated (or measured) nanoseconds since the run began; NULL: never. */
  "CREATE TABLE requests ("
  "run INTEGER NOT NULL, id INTEGER NOT NULL, session INTEGER, gpu INTEGER, "
  "input_tokens INTEGER, cached_tokens INTEGER, output_tokens INTEGER, "
  "submit_ns INTEGER, prefill_start_ns INTEGER, prefill_end_ns INTEGER, admit_ns INTEGER, first_token_ns INTEGER, last_token_ns INTEGER, "
  "aborted INTEGER, PRIMARY KEY (run, id)) WITHOUT ROWID",

  /* The time line: some decode steps, each at its end. waiting counts for all GPUs together; lanes_* and stall_*_ns are of that step and the
   * gap before it. */
  "CREATE TABLE samples ("
  "run INTEGER NOT NULL, sequence INTEGER NOT NULL, time_ns INTEGER, step_ns INTEGER, gpu INTEGER, batch INTEGER, waiting INTEGER, "
  "frames_free INTEGER, frames_reserved INTEGER, frames_lent INTEGER, frames_retiring INTEGER, resident_share REAL, " LANES
  "stall_compute_ns INTEGER, stall_bookkeeping_ns INTEGER, stall_resolve_ns INTEGER, stall_fetch_ns INTEGER, stall_link_wait_ns INTEGER, "
  "stall_prefetch_wait_ns INTEGER, stall_admission_ns INTEGER, stall_population_ns INTEGER, stall_revocation_ns INTEGER, "
  "stall_give_back_ns INTEGER, PRIMARY KEY (run, sequence)) WITHOUT ROWID",

  /* Totals of one selection point (a layer that selects) on one decode GPU. */
  "CREATE TABLE points ("
  "run INTEGER NOT NULL, gpu INTEGER NOT NULL, point INTEGER NOT NULL, layer INTEGER, cache INTEGER, " LANES
  "fetched INTEGER, overflow INTEGER, PRIMARY KEY (run, gpu, point)) WITHOUT ROWID",

  /* Page moves of one gap between steps. */
  "CREATE TABLE moves ("
  "run INTEGER NOT NULL, sequence INTEGER NOT NULL, time_ns INTEGER, gpu INTEGER, revoked INTEGER, populated INTEGER, given_back INTEGER, "
  "kept INTEGER, bytes INTEGER, PRIMARY KEY (run, sequence)) WITHOUT ROWID",

  /* The summary's stable keys; integers are integers (text above 2^63), the rest REAL. */
  "CREATE TABLE summary (run INTEGER NOT NULL, key TEXT NOT NULL, value, PRIMARY KEY (run, key)) WITHOUT ROWID",

  /* Where the time of a whole run went. */
  "CREATE VIEW stalls AS SELECT run, substr(key, 19) AS cause, value AS ms FROM summary WHERE key LIKE 'stall_ms_by_cause.%'",
  NULL,
};
