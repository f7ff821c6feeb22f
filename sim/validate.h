/* Validation: a scenario runs on a plane with real bytes; the model plane must make the same decisions when the completions are replayed, and its own
 * forecast of the same scenario is compared. */
#ifndef KVL_SIM_VALIDATE_H
#define KVL_SIM_VALIDATE_H

#include "results/validation.h"
#include "sim/plane_replay.h"
#include "sim/run.h"

struct kvl_validate_result {
  struct kvl_validation validation;
  struct kvl_run_result run;        /* on the plane */
  struct kvl_replay_report replay;  /* `failed` and `why`: a decision differed */
};

#define KVL_VALIDATE_TIERS_PERCENT 2.0 /* a tier may differ by this much of all selections, forecast against measured */

/* Runs `doc` on options->plane (recorded to options->record, or to a temporary file that goes away), replays it, forecasts it, and fills *result.
 * options->store keeps the run and the rows; options->wrap goes around the plane that is measured. 0: everything was compared (kvl_validation_failed says with what outcome); -EINTR: stopped;
 * or what kvl_run returns. */
int kvl_validate(const struct kvl_scenario_doc *doc, const struct kvl_run_options *options, struct kvl_validate_result *result, struct kvl_err *err);

#endif
