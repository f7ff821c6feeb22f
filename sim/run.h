/* One run: a loaded scenario, a plane by name, the engine, a store if wanted, and the summary. */
#ifndef KVL_SIM_RUN_H
#define KVL_SIM_RUN_H

#include <signal.h>

#include "sim/engine.h"
#include "sim/scenario.h"

/* Puts a decorator around *plane (an observer, a replay). 0 or a negative errno and a line; then *plane is as it was. */
typedef int kvl_plane_wrap_fn(void *context, struct kvl_plane **plane, struct kvl_err *err);

struct kvl_run_options {
  const char *plane;        /* model, host, cuda */
  const char *store;        /* file; NULL: none */
  const char *command;      /* for the store */
  uint32_t threads;         /* 0: as many as there are cores */
  enum kvl_check check;     /* host, cuda: which steps' rows are read back and compared */
  bool floor;               /* cuda: host rows of some steps are gathered once more (backend/plane.h) */
  const char *record;       /* file for the decision log; NULL: none. It appears when the run has ended, complete or interrupted */
  kvl_plane_wrap_fn *wrap;  /* NULL: none; inside the recorder */
  void *wrap_context;
  bool verify;
  uint32_t matched_batch, matched_queries;
  const volatile sig_atomic_t *stop;
  void (*progress)(void *context, uint64_t now_ns, uint64_t done, uint64_t total);
  void *progress_context;
};

struct kvl_run_result {
  struct kvl_engine_result engine;   /* summary complete */
  unsigned estimates;                /* KVL_ESTIMATE_* */
  bool reads;                        /* the plane was given selections: its layers read rows */
  uint64_t rows_checked, mismatches; /* measured.* */
  struct kvl_plane_measured measured; /* zero when the plane measures nothing */
  int64_t run;                       /* number in the store */
};

/* 0, or a negative errno and a line. A run that failed or was interrupted is marked so in the store. */
int kvl_run(const struct kvl_scenario_doc *doc, const struct kvl_run_options *options, struct kvl_run_result *result, struct kvl_err *err);

#endif
