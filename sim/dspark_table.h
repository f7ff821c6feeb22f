/* The table by which drafts are scheduled (M14), built from runs: step time over verified tokens and drafting time over requests, at the batches that a
 * scenario's mode makes possible. A run with such a table carries its name, so it is a row of its own wherever runs are compared. */
#ifndef KVL_SIM_DSPARK_TABLE_H
#define KVL_SIM_DSPARK_TABLE_H

#include <signal.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "sim/model.h"

struct kvl_dspark_table_options {
  const char *scenario;
  const char *const *sets;     /* KEY=VALUE, in every run */
  unsigned set_count;
  const char *plane;           /* of the runs */
  uint32_t threads;
  uint32_t batch_max;          /* largest batch; 0: what fits a decode GPU in the scenario's mode */
  const volatile sig_atomic_t *stop;
  void (*say)(void *context, const char *what); /* one line for each run begun; may be NULL */
  void *say_context;
};

struct kvl_dspark_table {
  struct kvl_curve step_ns, draft_ns; /* over verified tokens, without drafting; over requests */
  uint32_t batch_max, runs;
  char mode[16], plane[16], old_name[KVL_NAME_MAX];
};

/* Runs every batch of a grid up to the largest without verifying drafts, and the largest with one to all of them: one smooth line. (Times of one number of tokens
 * from several batches differ by what a request costs besides its tokens, and a scheduler that stops at the first draft that does not pay would stop at every such
 * step.) Where times fall all the same, neighbours are pooled. -EINVAL and a line: no speculation in the scenario, a workload whose requests differ in size; whatever a
 * run fails by; -EINTR. */
int kvl_dspark_table_build(const struct kvl_dspark_table_options *options, struct kvl_dspark_table *table, struct kvl_err *err);

/* The scenario's speculation with this table in it, as a descriptor (JSON text, to be freed); name NULL: the old one with "-tuned-MODE". -ENOMEM, -EINVAL. */
int kvl_dspark_table_descriptor(const struct kvl_dspark_table_options *options, const struct kvl_dspark_table *table, const char *name, char **text,
                                struct kvl_err *err);

#endif
