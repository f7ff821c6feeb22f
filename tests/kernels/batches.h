/* Random batches with structure: repeats, -1, rows that may not be seen, a working set, pages that come and go. */
#ifndef KVL_TESTS_KERNELS_BATCHES_H
#define KVL_TESTS_KERNELS_BATCHES_H

#include "backend/base/rng.h"
#include "tests/kernels/gpu.h"

#define PICK(rng, ...) ((const uint32_t[]){__VA_ARGS__})[kvl_rng_below(rng, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))]

/* A row to select from a history of `top` rows. */
kvl_row batch_row(struct kvl_rng *rng, uint32_t top);

/* Entries of a batch: some requests, each at most once, in random order, some padding. Returns how many. */
uint32_t batch_entries(struct gpu *g, struct kvl_rng *rng);

/* Selections, or pools of an announcement, of all queries of the batch. */
void batch_rows(struct gpu *g, struct kvl_rng *rng, uint32_t entries);
void batch_pools(struct gpu *g, struct kvl_rng *rng, uint32_t entries);

/* History and pages of every request move; then the device is told. */
const char *batch_move_on(struct gpu *g, struct kvl_rng *rng);

#endif
