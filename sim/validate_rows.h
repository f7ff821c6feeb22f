/* From three runs to the rows of a validation. */
#ifndef KVL_SIM_VALIDATE_ROWS_H
#define KVL_SIM_VALIDATE_ROWS_H

#include "results/validation.h"
#include "sim/plane_replay.h"
#include "sim/plane_watch.h"
#include "sim/run.h"

enum kvl_side { KVL_SIDE_MEASURED, KVL_SIDE_SAME_STEPS, KVL_SIDE_FORECAST, KVL_SIDES };

struct kvl_validate_side {
  struct kvl_watch *watch;
  const struct kvl_summary *summary; /* NULL: that run did not get to its end (same steps: a decision differed) */
};

void kvl_validate_rows(struct kvl_validation *v, const struct kvl_validate_side side[KVL_SIDES], const struct kvl_run_result *run,
                       const struct kvl_replay_report *replay, enum kvl_check check, bool floor); /* floor: asked for */

#endif
