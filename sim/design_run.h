/* Runs made as a sweep, for commands that need the results at once: repeats of one scenario, a sensitivity study. So they have what sweeps have: a process a
 * run, all cores, a store that lets the same command go on where it was ended. */
#ifndef KVL_SIM_DESIGN_RUN_H
#define KVL_SIM_DESIGN_RUN_H

#include "results/sweep.h"
#include "sim/cmd_sweep.h"

struct kvl_design_cell {
  bool complete;
  char reason[300]; /* why not */
  int64_t run;      /* its number in the store */
  struct kvl_summary summary;
};

/* A design of the list of points `list` (JSON: "[{}, {\"policy.hot_rows\": 512}]") over a scenario as typed on the command line. Seeds: seed, seed + 1, ...,
 * the same for every point; assignments of "seed" among `sets` are left out. Resolved. Errors of kvl_sweep_parse and kvl_sweep_resolve. */
int kvl_design_parse(struct kvl_sweep **design, const char *name, const char *scenario, const char *list, const char *const *sets, unsigned set_count,
                     uint64_t seed, uint32_t repeats, struct kvl_err *err);

/* Runs it: cell[0 .. tasks) in the order of the design. call->store NULL: a temporary store, gone afterwards. *sweep (may be NULL): its number in the store.
 * -EINTR and a line when it was interrupted; errors of the store. A run that failed is a cell with a reason. */
int kvl_design_run(const struct kvl_sweep *design, const struct kvl_sweep_call *call, struct kvl_design_cell *cell, int64_t *sweep, struct kvl_err *err);

/* Hands over each task of a design that was run into the store `path`, in the order of the design; `task` is valid during the call. -ENOENT when the store does
 * not have the design; errors of the store. */
typedef void kvl_design_task_fn(void *context, uint32_t at, const struct kvl_stored_task *task);
int kvl_design_read(const char *path, const struct kvl_sweep *design, kvl_design_task_fn *take, void *context, struct kvl_err *err);

#endif
