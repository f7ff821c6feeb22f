/* A plane around a plane that fails: the n-th call that can fail returns -EIO instead of being made. */
#ifndef KVL_TESTS_SIM_PLANE_FAIL_H
#define KVL_TESTS_SIM_PLANE_FAIL_H

#include "backend/plane.h"

struct fail_config {
  uint64_t at;   /* fails call number `at`, from 0 */
  uint64_t calls; /* counted so far */
  bool fired;
};

struct kvl_plane *fail_plane_create(struct kvl_plane *inner, struct fail_config *config);

#endif
