/* Tiny scenarios for tests of whole runs: built in memory, not read from a file, so that every knob can be set to what no real scenario has. */
#ifndef KVL_TESTS_SIM_TINY_H
#define KVL_TESTS_SIM_TINY_H

#include "backend/base/rng.h"
#include "sim/engine.h"
#include "sim/plane_model.h"
#include "sim/run.h"
#include "tests/sim/plane_check.h"
#include "tests/sim/plane_delay.h"
#include "tests/sim/plane_fail.h"

struct tiny {
  struct kvl_scenario s;
  uint32_t slots, threads;
  bool bytes;              /* host plane */
  bool verify;
  bool no_check;           /* without the checking decorator */
  bool resident_rows;      /* resolve nothing: no selection source */
  struct delay_config delay;
  struct fail_config *fail; /* NULL: nothing fails */
  kvl_plane_wrap_fn *wrap; /* around the plane, within the checking decorator; NULL: nothing */
  void *wrap_context;
  const char *record;      /* decision log, outside of that; NULL: none */
  struct kvl_store *store;
  const volatile sig_atomic_t *stop;
  void (*progress)(void *context, uint64_t now_ns, uint64_t done, uint64_t total);
  void *progress_context;
  char note[512];          /* what was drawn, for messages */
};

struct tiny_result {
  struct kvl_engine_result engine;
  struct check_report report;
  uint64_t total;              /* requests of the load */
  uint64_t rows_checked, mismatches;
};

/* A small scenario that runs: one GPU, one cache of one-token rows, adaptive. */
void tiny_init(struct tiny *tiny);

/* Everything drawn at random; workload files go to `folder` (kept, named by the seed). */
void tiny_random(struct tiny *tiny, uint64_t seed, const char *folder);

/* Sets the pools so that `sessions` of the longest request fit a GPU by their fixed part, with `spare` frames more, and `host` of them the host pool. */
void tiny_pools(struct tiny *tiny, uint32_t tokens, uint32_t sessions, uint32_t spare, uint32_t host);

/* Load, source, plane with its decorators, engine. 0 or a negative errno and a line. */
int tiny_run(const struct tiny *tiny, struct tiny_result *result, struct kvl_err *err);

/* All keys of the summary that do not depend on the machine, one a line. */
void tiny_summary_text(const struct kvl_summary *summary, char *text, size_t size);

#endif
