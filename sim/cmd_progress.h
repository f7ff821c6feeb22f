/* Progress of a run, or of re-runs, on a terminal: one line on stderr, rewritten at most ten times a second; time to go from the share of requests done. */
#ifndef KVL_SIM_CMD_PROGRESS_H
#define KVL_SIM_CMD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct kvl_cmd_progress {
  const char *what; /* stands before the line; "" */
  struct timespec started, shown;
  uint64_t last_done;
  bool any;
};

void kvl_cmd_progress_begin(struct kvl_cmd_progress *progress, const char *what);
/* For struct kvl_run_options; `context` is a struct kvl_cmd_progress. Starts anew when a second run follows the first. */
void kvl_cmd_progress_show(void *context, uint64_t now_ns, uint64_t done, uint64_t total);
/* For struct kvl_explain_options. */
void kvl_cmd_progress_reruns(void *context, uint32_t done, uint32_t total, double share);
void kvl_cmd_progress_end(const struct kvl_cmd_progress *progress); /* takes the line away */

#endif
