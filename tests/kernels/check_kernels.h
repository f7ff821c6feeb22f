/* The parts of check_kernels. */
#ifndef KVL_TESTS_KERNELS_CHECK_KERNELS_H
#define KVL_TESTS_KERNELS_CHECK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Times the kernels; one JSON object a line to `file` (NULL: none), a table to stdout. check_bench returns the exit code. */
struct bench_options {
  const char *file, *only;
  bool quick;
  bool pool_alloc;   /* V4.1 shape: the pools by cudaHostAlloc instead of touched huge pages that are registered */
  uint64_t pool_gib; /* V4.1 shape: host rows lie in so much memory; 0: 8 */
  uint64_t seed;
};
int check_bench(const struct bench_options *options);
int bench_step(void *json, uint64_t seed, bool readers_alone); /* its part for the kernels of a step (bench_step.c); `json`: a FILE or NULL */

/* The kernels of a step against their references (check_step.c): NULL, or what differed, and where. */
const char *check_step(uint64_t seed, uint64_t rounds, char *where, size_t room);

/* Copies by segments against the reference (check_segments.c), likewise. */
struct kvl_rng;
const char *check_segments(struct kvl_rng *rng);

/* Floors (floor.cu): a bare gather of rows, `index` in rows from `pool`; and a hit-only look-up through a dense map. Return 0 or -EIO. */
int floor_gather(const unsigned char *pool, const uint64_t *index, unsigned char *to, uint32_t rows, uint32_t row_bytes, uint32_t blocks,
                 uint32_t threads, void *stream);
/* The same, a block a request: request r's rows are index[first[r]] .. index[first[r + 1] - 1]. */
int floor_gather_owned(const unsigned char *pool, const uint64_t *index, const uint32_t *first, unsigned char *to, uint32_t requests,
                       uint32_t row_bytes, uint32_t threads, void *stream);
int floor_hit(const int32_t *rows, const int32_t *map, uint32_t history, uint32_t k, uint32_t requests, uint32_t *stamp, uint32_t hot_rows,
              uint32_t step, int32_t *out, uint32_t *misses, void *stream);
int floor_pages(const int32_t *rows, const int32_t *frames, uint32_t pages, uint32_t k, uint32_t requests, uint32_t shift, int32_t *out,
                void *stream);
int floor_spin(uint64_t ns, void *stream); /* holds the stream for a while */
int floor_empty(void *stream);
int floor_clock(uint64_t *timer, uint64_t *cycles, uint32_t n, void *stream); /* [n] readings of the global timer and of clock64, one after another */

#ifdef __cplusplus
}
#endif

#endif
