/* Between the files of `kvloan sweep`: the call as parsed, and the engines that carry a design out. */
#ifndef KVL_SIM_CMD_SWEEP_H
#define KVL_SIM_CMD_SWEEP_H

#include <signal.h>

#include "results/sweep.h"
#include "sim/sweep.h"

enum { KVL_SWEEP_SBATCH_MAX = 32, KVL_SWEEP_ATTEMPTS = 3 };

struct kvl_sweep_call {
  const char *design;           /* as typed */
  const char *store;
  const char *plane;            /* model, host */
  int check;                    /* host: enum kvl_check */
  bool verify;                  /* every invariant after every event */
  const char *command;          /* how it was started */
  const char *const *set;       /* --set, for the shards of an engine */
  unsigned sets;
  struct kvl_sweep_share share; /* 0 of 1: all */
  uint32_t jobs;                /* points at once; 0: as many as there are cores */
  uint32_t threads;             /* of one point */
  bool summary_only, take_over, retry_failed, failed_ok, quiet;
  /* slurm */
  bool wait;
  uint32_t shards;              /* 0: chosen */
  const char *sbatch[KVL_SWEEP_SBATCH_MAX];
  unsigned sbatches;
  const volatile sig_atomic_t *stop;
};

struct kvl_sweep_outcome {
  int64_t sweep;                        /* number in the store */
  uint32_t tasks, complete, failed;     /* of the share: in all, and as stored now */
  uint32_t ran;                         /* of these, by this call */
  bool interrupted;
};

/* Runs what is missing of the share, `jobs` points at once, each in a process of its own: a point that crashes, is killed or leaks takes nothing with it.
 * A child writes into a store of its own; the parent alone writes into the sweep's, one transaction a point. A child that was ended by a signal is tried
 * KVL_SWEEP_ATTEMPTS times. Children die with their parent. 0 also when points failed or it was interrupted (see `outcome`); otherwise a negative errno and
 * a line: errors of the store. */
int kvl_sweep_run_local(const struct kvl_sweep *sweep, const struct kvl_sweep_call *call, struct kvl_sweep_outcome *outcome, struct kvl_err *err);

/* Submits an array of shards to Slurm. With call->wait, waits for it and merges the shards into call->store; otherwise says on stdout how to. Shards that
 * are complete already are not submitted again. 0, or a negative errno and a line. *merged: whether call->store holds the sweep now. */
int kvl_sweep_run_slurm(const struct kvl_sweep *sweep, const struct kvl_sweep_call *call, bool *merged, struct kvl_err *err);

/* Merges stores into `out`, which is made when it does not exist: then it appears whole or not at all. Talks on stderr unless `quiet`. */
int kvl_results_merge_into(const char *out, const char *const *in, uint32_t count, bool quiet, struct kvl_err *err);

#endif
