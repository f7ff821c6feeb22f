#include "traces/pool.h"

#include <errno.h>
#include <stdlib.h>

int kvl_pool_init(struct kvl_pool *pool, uint32_t rows_max, uint32_t blocks_max, uint32_t rows_per_block)
{
  *pool = (struct kvl_pool){.words = rows_max / rows_per_block / 64 + 1, .blocks_max = blocks_max, .rows_per_block = rows_per_block};
  pool->bits = calloc(pool->words, sizeof *pool->bits);
  return pool->bits == NULL ? -ENOMEM : 0;
}

void kvl_pool_deinit(struct kvl_pool *pool)
{
  free(pool->bits);
  pool->bits = NULL;
}

void kvl_pool_add_block(struct kvl_pool *pool, int64_t block)
{
  if (block < 0 || block >= (int64_t)pool->words * 64 || pool->count == pool->blocks_max) {
    return;
  }
  uint64_t bit = (uint64_t)1 << (block & 63);
  pool->count += (pool->bits[block >> 6] & bit) == 0;
  pool->bits[block >> 6] |= bit;
}

void kvl_pool_add_rows(struct kvl_pool *pool, const int32_t *rows, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    kvl_pool_add_block(pool, rows[i] < 0 ? -1 : (int64_t)((uint32_t)rows[i] / pool->rows_per_block));
  }
}

uint32_t kvl_pool_take(struct kvl_pool *pool, int32_t *blocks)
{
  uint32_t n = 0;
  for (uint32_t w = 0; n < pool->count; w++) {
    for (uint64_t bits = pool->bits[w]; bits != 0; bits &= bits - 1) {
      blocks[n++] = (int32_t)(w * 64 + (uint32_t)__builtin_ctzll(bits));
    }
    pool->bits[w] = 0;
  }
  pool->count = 0;
  return n;
}
