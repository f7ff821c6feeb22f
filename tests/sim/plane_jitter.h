/* A plane around a plane with a clock like a wall clock's: steps and copies end later than the model says, each by a random time, in other orders than the
 * model's, and waiting until a time returns somewhat after it. What it is around computes everything else. */
#ifndef KVL_TESTS_SIM_PLANE_JITTER_H
#define KVL_TESTS_SIM_PLANE_JITTER_H

#include <signal.h>

#include "backend/plane.h"

struct jitter_config {
  uint64_t seed;
  uint64_t step_ns, copy_ns;  /* most that a step, a copy is late */
  uint64_t late_ns;           /* most that waiting in vain lasts too long */
  uint64_t stop_after;        /* raise *stop with this completion or time-out; 0: never */
  volatile sig_atomic_t *stop;
};

/* NULL: no memory. Takes `inner` over otherwise. */
struct kvl_plane *jitter_plane_create(struct kvl_plane *inner, uint32_t gpus, const struct jitter_config *config);

#endif
