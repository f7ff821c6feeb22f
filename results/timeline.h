/* One run over time: its samples, of all decode GPUs together, in bins of equal length. What pictures, reports and explanations draw on. */
#ifndef KVL_RESULTS_TIMELINE_H
#define KVL_RESULTS_TIMELINE_H

#include "results/store.h"

enum { KVL_TIMELINE_BINS = 600 };

/* What a bin holds, each times the nanoseconds that it stood: divide by KVL_LINE_TIME. Frames are those of all GPUs; the resident share is weighted by the
 * batch (divide by KVL_LINE_BATCH). */
enum kvl_line { KVL_LINE_BATCH, KVL_LINE_WAITING, KVL_LINE_RESERVED, KVL_LINE_LENT, KVL_LINE_RETIRING, KVL_LINE_FREE, KVL_LINE_RESIDENT, KVL_LINE_TIME, KVL_LINES };

struct kvl_timeline {
  double bin[KVL_TIMELINE_BINS][KVL_LINES];
  double stall_ns[KVL_TIMELINE_BINS][KVL_STALLS]; /* of the sampled steps (some, evenly spread) and the gaps before them: good for shares */
  double lanes[KVL_TIMELINE_BINS][KVL_REPORT_TIERS]; /* of the sampled steps */
  uint64_t end_ns;
  uint32_t gpus, at;
  double batch_max, waiting_max, lent_max, lent_at_full, retiring_max; /* lent, retiring: percent of HBM */
};

/* -EINVAL: the run has no samples; -ENOMEM, -ERANGE (more GPUs than 4,096), errors of the store; one line. */
int kvl_timeline_read(struct kvl_timeline *line, struct kvl_store *store, int64_t run, struct kvl_err *err);

/* Frames in all states together, at least 1. */
double kvl_timeline_frames(const double sums[KVL_LINES]);

#endif
