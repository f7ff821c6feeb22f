/* What a plane needs to know of a scenario: which layers write, select, resolve and read which cache, and the shape of a decode GPU's state. */
#ifndef KVL_SIM_PLANE_SETUP_H
#define KVL_SIM_PLANE_SETUP_H

#include "backend/refdev.h"
#include "backend/stages.h"
#include "sim/model.h"

struct kvl_plane_setup {
  struct kvl_stage_model model;
  struct kvl_stage stages[KVL_STAGES_MAX];
  uint32_t stage_count;
  struct kvl_refdev_config device; /* its stages point into this struct; slots, frames, queries_max and threads are left to the caller */
};

/* With layer sharing every selection is one point. Without it each reading layer is a point of its own, with the rows of the selection it reads
 * (point.selection), and a cache with a part for each of several layers is as many caches, one after the other. `selections`: rows are resolved at all;
 * without, the stages are writes and compute only. In resident mode rows are translated once a selection, and there is no hot cache and no prefetch,
 * whatever the policy's keys say.
 * -EINVAL and a line: more points, caches or stages than a plane takes, or a prefetch that the model or the policy leaves nothing to do. */
int kvl_plane_setup_init(struct kvl_plane_setup *setup, const struct kvl_scenario *scenario, bool selections, struct kvl_err *err);

#endif
