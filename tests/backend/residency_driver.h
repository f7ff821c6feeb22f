/* Drives the residency policy and the naive one with the same operations and compares everything after each. Used by the model test (choices
 * from a seed) and the fuzzer (choices from its input). */
#ifndef KVL_TESTS_RESIDENCY_DRIVER_H
#define KVL_TESTS_RESIDENCY_DRIVER_H

#include <stdint.h>

#include "backend/residency.h"

/* Where choices come from: a number in [0, n), n >= 1. */
struct kvl_chooser {
  uint32_t (*below)(void *source, uint32_t n);
  void *source;
};

enum kvl_world_size { KVL_WORLD_TINY, KVL_WORLD_SMALL, KVL_WORLD_LARGE };

struct kvl_driver; /* two worlds and the copies in flight */

/* NULL when memory is short. */
struct kvl_driver *kvl_driver_create(struct kvl_chooser chooser, enum kvl_world_size size);
void kvl_driver_destroy(struct kvl_driver *driver);

/* One operation on both worlds. NULL, or what differs (valid until the next call). */
const char *kvl_driver_operate(struct kvl_driver *driver);

/* Ends all requests, completes all steps and copies: every frame must be free then. */
const char *kvl_driver_wind_down(struct kvl_driver *driver);

#endif
