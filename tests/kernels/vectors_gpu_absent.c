#include <stddef.h>

#include "tests/kernels/vectors_gpu.h"

static const char *const NO = "built without CUDA";

const char *vectors_gpu_absent(void)
{
  return NO;
}

const char *vectors_gpu_admit(const struct kvl_cache_geometry *g, uint32_t rows_max, uint32_t page_count, struct vectors_gpu **gpu,
                              struct kvl_cache **cache, kvl_frame **pages)
{
  (void)g;
  (void)rows_max;
  (void)page_count;
  *gpu = NULL;
  *cache = NULL;
  *pages = NULL;
  return NO;
}

void vectors_gpu_end(struct vectors_gpu *gpu)
{
  (void)gpu;
}

const char *vectors_gpu_resolve(struct vectors_gpu *gpu, const struct kvl_query *queries, uint32_t query_count, kvl_addr *addresses,
                                struct kvl_fetch *fetches, uint32_t *fetch_count, struct kvl_resolve_counts *counts)
{
  (void)gpu;
  (void)queries;
  (void)query_count;
  (void)addresses;
  (void)fetches;
  (void)fetch_count;
  (void)counts;
  return NO;
}

const char *vectors_gpu_announce(struct vectors_gpu *gpu, const struct kvl_query *pools, uint32_t pool_count, struct kvl_fetch *copies,
                                 uint32_t *copy_count, kvl_row *dropped, uint32_t *drop_count)
{
  (void)gpu;
  (void)pools;
  (void)pool_count;
  (void)copies;
  (void)copy_count;
  (void)dropped;
  (void)drop_count;
  return NO;
}

const char *vectors_gpu_end_group(struct vectors_gpu *gpu)
{
  (void)gpu;
  return NO;
}
