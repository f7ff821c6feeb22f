/* A plane that answers as a decision log says, and demands that the engine decide as it did when the log was recorded.
 *
 * The inner plane (the model plane) does the look-ups anew. From the log come the order and the times of completions; from the inner plane come the
 * counts by tier, which are compared with the recorded ones. A call that differs from its line ends the run with one line of error. */
#ifndef KVL_SIM_PLANE_REPLAY_H
#define KVL_SIM_PLANE_REPLAY_H

#include <signal.h>

#include "backend/plane.h"
#include "sim/decision_log.h"

struct kvl_replay_counts {
  uint64_t lanes[KVL_TIERS];
  uint64_t fetched, overflow, violations, shared_lanes;
};

struct kvl_replay_report {
  uint64_t decisions;   /* calls compared, and found equal */
  uint64_t waits;       /* answers handed out */
  uint64_t steps, copies;
  struct kvl_replay_counts recorded, replayed;
  struct kvl_prefetch recorded_prefetch, replayed_prefetch; /* counts only; times are the log's */
  uint64_t steps_differ; /* steps with a count that is not the recorded one */
  char first_difference[320]; /* of counts, as a line; "" when there is none */
  int failed;           /* -EPROTO: a decision differed, or the run ended before the log did; complete once the plane is closed */
  struct kvl_err why;   /* its line */
};

/* Takes `inner` over when it succeeds. `log` must outlive the plane, as must `report`, which is filled as the run goes on, and `stop`, which is for the engine:
 * it is raised with the last answer of an interrupted run. `gpus` are the scenario's. */
int kvl_plane_replay_create(struct kvl_plane **plane, struct kvl_plane *inner, const struct kvl_log *log, uint32_t gpus, struct kvl_replay_report *report,
                            volatile sig_atomic_t *stop, struct kvl_err *err);

#endif
