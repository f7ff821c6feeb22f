/* The GPU side of check_vectors --plane=cuda: one request at a time, run on the GPU and in the reference, compared (gpu.h). Two
 * implementations: vectors_gpu.c where CUDA is, vectors_gpu_absent.c where it is not. Functions return NULL, or what is wrong. */
#ifndef KVL_TESTS_KERNELS_VECTORS_GPU_H
#define KVL_TESTS_KERNELS_VECTORS_GPU_H

#include "kernels/resolve_ref.h"

struct vectors_gpu;

const char *vectors_gpu_absent(void); /* NULL, or why there is none */

/* *cache and *pages belong to the request's GPU side. */
const char *vectors_gpu_admit(const struct kvl_cache_geometry *g, uint32_t rows_max, uint32_t page_count, struct vectors_gpu **gpu,
                              struct kvl_cache **cache, kvl_frame **pages);
void vectors_gpu_end(struct vectors_gpu *gpu);
const char *vectors_gpu_resolve(struct vectors_gpu *gpu, const struct kvl_query *queries, uint32_t query_count, kvl_addr *addresses,
                                struct kvl_fetch *fetches, uint32_t *fetch_count, struct kvl_resolve_counts *counts);
const char *vectors_gpu_announce(struct vectors_gpu *gpu, const struct kvl_query *pools, uint32_t pool_count, struct kvl_fetch *copies,
                                 uint32_t *copy_count, kvl_row *dropped, uint32_t *drop_count);
const char *vectors_gpu_end_group(struct vectors_gpu *gpu);

#endif
