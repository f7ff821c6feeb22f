/* Inside traces/: a candidate pool as a set of blocks that fills up and comes out ascending. */
#ifndef KVL_TRACES_POOL_H
#define KVL_TRACES_POOL_H

#include <stdint.h>

struct kvl_pool {
  uint64_t *bits; /* by block; all clear between pools */
  uint32_t words, count, blocks_max, rows_per_block;
};

/* Blocks of up to rows_max rows. -ENOMEM. */
int kvl_pool_init(struct kvl_pool *pool, uint32_t rows_max, uint32_t blocks_max, uint32_t rows_per_block);
void kvl_pool_deinit(struct kvl_pool *pool);
void kvl_pool_add_rows(struct kvl_pool *pool, const int32_t *rows, uint32_t count); /* their blocks, in order, while there is room */
void kvl_pool_add_block(struct kvl_pool *pool, int64_t block);                     /* ignored when it is not one */
uint32_t kvl_pool_take(struct kvl_pool *pool, int32_t *blocks);                    /* ascending, at most blocks_max; the pool is empty then */

#endif
