/* Pictures of stored runs, drawn by gnuplot from TSV files that we write: the numbers behind a picture lie beside it.
 *
 * `out` ends in .png or .svg, or names a base for both; the numbers go to the base with .tsv. Everything is written under another name first and
 * renamed when it is whole. No shell is involved, and no text of a run can reach gnuplot as anything but a quoted string.
 *
 * Errors, one line each: -EINVAL (an ending we do not draw, nothing to draw), -ENOENT (gnuplot is not installed: the TSV file is there all the
 * same), -EIO and others from writing files; errors of the store. */
#ifndef KVL_RESULTS_PLOT_H
#define KVL_RESULTS_PLOT_H

#include "results/store.h"

enum { KVL_PLOT_RUNS_MAX = 8 };

struct kvl_plot {
  const char *out;
  const char *gnuplot; /* program; NULL: "gnuplot", looked up in PATH */
};

/* Batch, waiting requests and who holds the HBM over the time of one run. `label` names it in the title. */
int kvl_plot_timeline(const struct kvl_plot *plot, struct kvl_store *store, const struct kvl_stored_run *run, const char *label,
                      struct kvl_err *err);

/* Time to first token and per-request rate as cumulative distributions, up to KVL_PLOT_RUNS_MAX runs. */
int kvl_plot_distributions(const struct kvl_plot *plot, struct kvl_store *store, const struct kvl_stored_run *const *runs,
                           const char *const *labels, uint32_t count, struct kvl_err *err);

/* Output throughput, per-request rate (p50) and time to first token (p90) over workload.concurrency, one line a mode. Of several runs with the
 * same mode and concurrency the last one counts. *left_out (may be NULL): runs without a concurrency or a summary, or superseded. */
int kvl_plot_modes(const struct kvl_plot *plot, const struct kvl_stored_run *const *runs, uint32_t count, uint32_t *left_out, struct kvl_err *err);

#endif
