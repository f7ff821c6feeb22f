/* kvloan run --repeats=N: the same scenario with N seeds, and what they say together. */
#ifndef KVL_SIM_RUN_REPEATS_H
#define KVL_SIM_RUN_REPEATS_H

#include "sim/run.h"

struct kvl_run_repeats {
  const char *scenario;                /* as typed */
  const char *const *sets;
  unsigned set_count;
  const struct kvl_scenario_doc *doc;  /* the scenario with its sets: the first run's */
  const struct kvl_run_options *run;   /* plane, store, command, threads (of all runs together), check, verify, stop */
  uint32_t repeats;                    /* 2 or more */
  double confidence;                   /* between 0 and 1 */
  enum kvl_format format;
  bool quiet;
};

/* Runs and prints: the exit code. Runs in a store are one sweep of one point there: `kvloan results sweeps` lists it. */
int kvl_run_repeats(const struct kvl_run_repeats *call);

/* --repeats=N, 1 to 1000; --confidence=PERCENT, above 0 and below 100 ("95", "99.9", "95%"), as a share. Otherwise one line on stderr and -1. */
int kvl_repeats_count(const char *subcommand, const char *word, uint32_t *repeats);
int kvl_repeats_confidence(const char *subcommand, const char *word, double *confidence);

/* How `threads` (0: as many as there are cores) are shared between `runs`: jobs at once, and threads of each. */
void kvl_repeats_share(uint32_t threads, uint32_t runs, uint32_t *jobs, uint32_t *each);

#endif
