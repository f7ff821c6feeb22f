/* One recorded run again: the log's own scenario, its answers, the look-ups of another plane. */
#ifndef KVL_SIM_REPLAY_H
#define KVL_SIM_REPLAY_H

#include "sim/plane_replay.h"
#include "sim/run.h"

struct kvl_replay_result {
  struct kvl_replay_report report;
  struct kvl_run_result run; /* its summary: times as recorded, counts as replayed */
};

/* `options->plane` does the look-ups (model, host); options->wrap goes around it, inside of the replay; stop is not used. 0: every decision was the recorded one (counts that differ are in the report);
 * -EPROTO: one was not, with its line; or what kvl_run returns. */
int kvl_replay(const struct kvl_log *log, const struct kvl_run_options *options, struct kvl_replay_result *result, struct kvl_err *err);

#endif
