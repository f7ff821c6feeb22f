#include "tests/kernels/vectors_gpu.h"

#include <string.h>

#include "tests/kernels/gpu.h"

enum { K = 512, QUERIES = 8, ROW_BYTES = 40 };

/* struct vectors_gpu is a struct gpu of one request. */
static struct gpu *of(struct vectors_gpu *gpu)
{
  return (struct gpu *)(void *)gpu;
}

const char *vectors_gpu_absent(void)
{
  return gpu_absent();
}

const char *vectors_gpu_admit(const struct kvl_cache_geometry *geometry, uint32_t rows_max, uint32_t page_count, struct vectors_gpu **gpu,
                              struct kvl_cache **cache, kvl_frame **pages)
{
  const struct gpu_config c = {.geometry = *geometry, .requests = 1, .rows_max = rows_max, .pages_max = page_count, .k = K,
                               .queries_max = QUERIES,
                               .pool_max = K, .row_bytes = ROW_BYTES, .frames = 4096};
  struct gpu *g = NULL;
  const char *bad = gpu_open(&g, &c, rows_max);
  if (bad == NULL) {
    *gpu = (struct vectors_gpu *)(void *)g;
    *cache = g->cache[0];
    *pages = g->page_map;
  }
  return bad;
}

void vectors_gpu_end(struct vectors_gpu *gpu)
{
  gpu_close(of(gpu));
}

const char *vectors_gpu_resolve(struct vectors_gpu *gpu, const struct kvl_query *queries, uint32_t query_count, kvl_addr *addresses,
                                struct kvl_fetch *fetches, uint32_t *fetch_count, struct kvl_resolve_counts *counts)
{
  struct gpu *g = of(gpu);
  const char *bad = gpu_push(g);
  if (query_count > QUERIES) {
    return "more queries than the GPU world has";
  }
  g->entry[0] = (struct kvl_resolve_entry){.request = 0, .query_count = query_count};
  for (uint32_t q = 0; q < query_count; q++) {
    if (queries[q].n > K) {
      return "more lanes than the GPU world has";
    }
    g->query[q] = (struct kvl_batch_query){queries[q].boundary, queries[q].n};
    memcpy(gpu_rows(g, 0, q), queries[q].rows, queries[q].n * sizeof(kvl_row));
  }
  bad = bad == NULL ? gpu_reference(g, 1) : bad;
  gpu_keep(g);
  for (const struct kvl_resolve_variant *v = kvl_resolve_cuda_variants; v->name != NULL && bad == NULL; v++) {
    gpu_restore(g);
    bad = gpu_device(g, v, 1, NULL);
    bad = bad == NULL ? gpu_compare(g, true) : bad;
  }
  if (bad != NULL) {
    return bad;
  }
  for (uint32_t q = 0; q < query_count; q++) {
    memcpy(addresses, gpu_addresses(g, 0, q), queries[q].n * sizeof *addresses);
    addresses += queries[q].n;
  }
  *fetch_count = g->host_batch.fetch_count[0]; /* equal to the GPU's, as compared */
  memcpy(fetches, g->host_batch.fetches, *fetch_count * sizeof *fetches);
  *counts = g->host_batch.counts[0];
  return NULL;
}

const char *vectors_gpu_announce(struct vectors_gpu *gpu, const struct kvl_query *pools, uint32_t pool_count, struct kvl_fetch *copies,
                                 uint32_t *copy_count, kvl_row *dropped, uint32_t *drop_count)
{
  struct gpu *g = of(gpu);
  const char *bad = gpu_push(g);
  if (pool_count > QUERIES) {
    return "more pools than the GPU world has";
  }
  g->entry[0] = (struct kvl_resolve_entry){.request = 0, .query_count = pool_count};
  for (uint32_t q = 0; q < pool_count; q++) {
    if (pools[q].n > K) {
      return "more lanes than the GPU world has";
    }
    g->query[q] = (struct kvl_batch_query){0, pools[q].n};
    memcpy(gpu_pool(g, 0, q), pools[q].rows, pools[q].n * sizeof(kvl_row));
  }
  bad = bad == NULL ? gpu_announce(g, 1) : bad;
  bad = bad == NULL ? gpu_compare(g, true) : bad;
  *copy_count = g->host_announce.copy_count[0];
  *drop_count = g->host_announce.drop_count[0];
  memcpy(copies, g->host_announce.copies, *copy_count * sizeof *copies);
  memcpy(dropped, g->host_announce.dropped, *drop_count * sizeof *dropped);
  return bad;
}

const char *vectors_gpu_end_group(struct vectors_gpu *gpu)
{
  const char *bad = gpu_push(of(gpu));
  of(gpu)->entry[0] = (struct kvl_resolve_entry){.request = 0};
  bad = bad == NULL ? gpu_end_group(of(gpu), 1) : bad;
  return bad == NULL ? gpu_compare(of(gpu), true) : bad;
}
