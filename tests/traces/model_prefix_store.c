/* The prefix store against an oracle that keeps a plain array in order of use and searches it from the front.
 * The seed is printed; another is taken from argv[1]. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "traces/workload.h"

struct oracle {
  uint64_t id[4096]; /* newest first */
  uint32_t count, max;
};

static uint32_t find(const struct oracle *o, uint64_t id)
{
  uint32_t i = 0;
  while (i < o->count && o->id[i] != id)
    i++;
  return i;
}

static uint32_t oracle_use(struct oracle *o, const uint64_t *block, uint32_t count)
{
  uint32_t present = 0, kept = count < o->max ? count : o->max;
  if (o->max == 0)
    return 0;
  while (present < count && find(o, block[present]) < o->count)
    present++;
  for (uint32_t i = kept; i-- > 0;) {
    uint32_t at = find(o, block[i]);
    if (at == o->count && o->count == o->max)
      at--; /* the oldest gives way */
    else if (at == o->count)
      o->count++;
    memmove(o->id + 1, o->id, at * sizeof(o->id[0]));
    o->id[0] = block[i];
  }
  return present;
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261129, operations = 0, hits = 0;
  static const uint32_t capacity[] = {0, 1, 2, 7, 64, 1000, 1024, 1025, 3000};
  static struct oracle oracle;
  struct kvl_rng rng;
  printf("seed %" PRIu64 "\n", seed);
  kvl_rng_init(&rng, seed, "prefix store test", 0);
  for (size_t c = 0; c < sizeof(capacity) / sizeof(capacity[0]); c++) {
    struct kvl_prefix_store *store = kvl_prefix_store_create(capacity[c]);
    uint64_t block[80], family = 1 + capacity[c] / 24, next = 1000000;
    oracle.count = 0;
    oracle.max = capacity[c];
    for (unsigned n = 0; store && n < 3000; n++, operations++) {
      uint32_t count = kvl_rng_below(&rng, 80), ours, theirs;
      uint64_t root = kvl_rng_below(&rng, (uint32_t)(family * 2));
      for (uint32_t i = 0; i < count; i++) {
        /* Mostly prefixes of a few long conversations; now and then something new, or the same block twice. */
        block[i] = kvl_rng_below(&rng, 200) == 0 ? next++ : (root << 8) + i;
        if (i > 0 && kvl_rng_below(&rng, 300) == 0)
          block[i] = block[i - 1];
      }
      ours = kvl_prefix_store_use(store, block, count);
      theirs = oracle_use(&oracle, block, count);
      hits += ours;
      if (ours != theirs || kvl_prefix_store_blocks(store) != oracle.count) {
        printf("seed %" PRIu64 ", capacity %u, operation %u: %u leading blocks, %" PRIu64 " held; the oracle says %u and %u\n", seed, capacity[c], n,
               ours, kvl_prefix_store_blocks(store), theirs, oracle.count);
        return 1;
      }
    }
    if (!store || kvl_prefix_store_status(store) != 0) {
      printf("capacity %u: no memory\n", capacity[c]);
      return 1;
    }
    kvl_prefix_store_destroy(store);
  }
  if (kvl_prefix_store_create(KVL_PREFIX_BLOCKS_MAX + 1)) {
    printf("a store beyond the limit was made\n");
    return 1;
  }
  printf("%" PRIu64 " operations agree, %" PRIu64 " hits\n", operations, hits);
  return hits > 0 ? 0 : 1;
}
