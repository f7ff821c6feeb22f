/* The engine: one loop for every plane. It takes requests from the load, sends them through prefill, transfer and admission, runs decode steps and
 * releases what they held. Decisions about memory are the policy's (backend/residency.h), what happens physically is the plane's (backend/plane.h);
 * the engine only carries events from one to the other.
 *
 * The way of a request: submitted -> prefill queue -> prefill -> waiting for a decode slot (first come, first served) -> admitted: its fixed HBM and host
 * rows are reserved (I4) -> transfer (with node.prefill_starts=reservation the prefill comes here, before the transfer) -> population of what room allows, serialized admission work -> decode steps -> end. */
#ifndef KVL_SIM_ENGINE_H
#define KVL_SIM_ENGINE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/plane.h"
#include "results/store.h"
#include "results/summary.h"
#include "sim/load.h"
#include "sim/model.h"
#include "sim/tally.h"

struct kvl_engine_config {
  const struct kvl_scenario *scenario;
  struct kvl_plane *plane;
  struct kvl_load *load;
  uint32_t slots;                       /* batch slots of a decode GPU */
  uint32_t frames;                      /* of a decode GPU */
  struct kvl_store *store;              /* NULL: none; a run has been begun in it */
  bool verify;                          /* check all invariants after every event */
  uint32_t matched_batch;               /* also sum up steps of exactly this batch; 0: none */
  uint32_t matched_queries;             /* and with exactly so many queries together; 0: any */
  const volatile sig_atomic_t *stop;    /* non-zero: end cleanly at the next event; may be NULL */
  void (*progress)(void *context, uint64_t now_ns, uint64_t done, uint64_t total); /* now and then; may be NULL */
  void *progress_context;
};

struct kvl_engine_result {
  struct kvl_summary summary; /* all but wall time, memory and seed */
  enum kvl_run_status status; /* complete, or interrupted (by *stop or limits.simulated_s_max) */
  uint64_t matched_steps, matched_step_ns; /* mean duration of steps of matched_batch */
  uint64_t matched_draft_ns;               /* of that, drafting */
};

/* Runs to the end of the load. 0, or a negative errno and a line: a bad workload file, a store that cannot be written, a device that failed, no memory, an
 * invariant that does not hold (-EPROTO, with --verify). */
int kvl_engine_run(const struct kvl_engine_config *config, struct kvl_engine_result *result, struct kvl_err *err);

#endif
