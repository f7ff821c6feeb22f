/* The parts of `kvloan results` that are about sweeps: sweeps, table, merge, export of a sweep, and the pictures heatmap, lines and pareto. */
#ifndef KVL_SIM_RESULTS_SWEEP_H
#define KVL_SIM_RESULTS_SWEEP_H

#include <stdbool.h>

#include "results/sweep.h"

/* Whether a call of `kvloan results` (argv[0] is "results") is for here. */
bool kvl_results_is_sweep(int argc, char **argv);
/* Runs it: the exit code. */
int kvl_results_sweep(int argc, char **argv);

/* The table of the sweep with that hash on stdout: 0, or 1 after a line. *failed (may be NULL): its failed runs. */
int kvl_results_print_sweep(const char *store, const char *hash, enum kvl_format format, uint32_t *failed);

#endif
