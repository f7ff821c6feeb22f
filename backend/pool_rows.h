/* From the candidate pools of a request's queries to the rows that are announced: every plane announces the same ones in the same order.
 *
 * Query by query, blocks ascending, each block at the first query that names it, rows below the committed length. With a limit, blocks past it are left
 * out, unless they hold a row that the query selected at the announcing layer: its address is still being read, so it must not lose its place in the bank. */
#ifndef KVL_BACKEND_POOL_ROWS_H
#define KVL_BACKEND_POOL_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* A set of numbers that is emptied by counting up. */
struct kvl_numbers {
  uint32_t mask, epoch;
  struct kvl_numbers_entry {
    uint32_t epoch;
    int32_t value;
  } *number;
};
int kvl_numbers_init(struct kvl_numbers *seen, uint64_t numbers_max); /* -ENOMEM */
void kvl_numbers_deinit(struct kvl_numbers *seen);
void kvl_numbers_clear(struct kvl_numbers *seen);              /* empties it */
bool kvl_numbers_add(struct kvl_numbers *seen, int32_t value); /* was it there already? It is now. */
bool kvl_numbers_has(const struct kvl_numbers *seen, int32_t value);

struct kvl_pool_rows {
  struct kvl_numbers named, selected; /* blocks */
  uint32_t rows_per_block, committed;
  uint64_t limit, announced;
  bool alone;
};
int kvl_pool_rows_init(struct kvl_pool_rows *pools, uint64_t blocks_max, uint64_t selected_max); /* of all queries; of one. -ENOMEM */
void kvl_pool_rows_deinit(struct kvl_pool_rows *pools);
void kvl_pool_rows_begin(struct kvl_pool_rows *pools, uint32_t queries, uint32_t rows_per_block, uint32_t committed, uint32_t rows_max); /* 0: no limit */
/* The next query's: appends to `out`, ascending if the blocks are; returns how many. `selected`: its rows at the announcing layer. */
uint32_t kvl_pool_rows_add(struct kvl_pool_rows *pools, const int32_t *blocks, uint32_t count, const int32_t *selected, uint32_t selected_count, int32_t *out);

#endif
