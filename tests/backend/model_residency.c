/* Model test: random operations on the residency policy and on a naive one, compared after every operation. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/base/rng.h"
#include "tests/backend/residency_driver.h"

static uint32_t below(void *source, uint32_t n)
{
  return kvl_rng_below(source, n);
}

static int play(uint64_t seed, uint64_t world, enum kvl_world_size size, unsigned operations)
{
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "model_residency", world);
  struct kvl_driver *driver = kvl_driver_create((struct kvl_chooser){below, &rng}, size);
  const char *difference = driver == NULL ? "out of memory" : NULL;
  unsigned i = 0;
  for (; difference == NULL && i < operations; i++) {
    difference = kvl_driver_operate(driver);
  }
  if (difference == NULL) {
    difference = kvl_driver_wind_down(driver);
  }
  if (difference != NULL) {
    printf("seed %" PRIu64 ", world %" PRIu64 ", operation %u, %s\n", seed, world, i, difference);
  }
  kvl_driver_destroy(driver);
  return difference == NULL ? 0 : 1;
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
  uint64_t worlds = argc > 2 ? strtoull(argv[2], NULL, 0) : 2000;
  printf("seed %" PRIu64 ", %" PRIu64 " worlds\n", seed, worlds);
  for (uint64_t world = 0; world < worlds; world++) {
    enum kvl_world_size size = world % 100 == 99 ? KVL_WORLD_LARGE : world % 4 == 3 ? KVL_WORLD_SMALL : KVL_WORLD_TINY;
    if (play(seed, world, size, 300) != 0) {
      return 1;
    }
  }
  return 0;
}
