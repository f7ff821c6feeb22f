/* A plane around a plane whose copies land late: each by a random time up to a bound, in order for each GPU and direction. */
#ifndef KVL_TESTS_SIM_PLANE_DELAY_H
#define KVL_TESTS_SIM_PLANE_DELAY_H

#include "backend/plane.h"

struct delay_config {
  uint64_t seed;
  uint64_t max_ns; /* 0: no delay, no decorator */
};

struct kvl_plane *delay_plane_create(struct kvl_plane *inner, uint32_t gpus, const struct delay_config *config);

#endif
