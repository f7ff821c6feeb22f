/* A bare gather: rows of a batch's fetch lists, read from pinned host memory and nothing else done. What resolve's fetch of the same rows is compared with; no
 * decision and no address depends on it.
 *
 * Row i of entry e's list goes to byte (e * rows_max + i) * bytes of `to`, in whatever order the rows are read. Pointers are device pointers for CUDA; the
 * host rows are pinned memory. One launch, capturable in a graph, no allocation, no synchronisation. */
#ifndef KVL_KERNELS_GATHER_H
#define KVL_KERNELS_GATHER_H

#include "kernels/resolve_batch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who reads which row, and when; the bytes are the same. */
enum kvl_gather_shape {
  KVL_GATHER_OWNED,   /* a block of 1,024 threads a request, in the order of the list */
  KVL_GATHER_ORDERED, /* the same by address (lists of up to KVL_GATHER_ORDERED_MAX rows), put in order before the launch's first stamp */
  KVL_GATHER_DEALT,   /* each request's rows dealt to several blocks, so that every multiprocessor has some */
  KVL_GATHER_SHAPES
};
enum { KVL_GATHER_ORDERED_MAX = 1024 };

struct kvl_gather {
  uint32_t entries, rows_max;            /* entries <= 65535; rows_max: room of a list */
  uint32_t row_bytes, bytes;             /* of a row on the host; of those, from the first on, that are read. Multiples of 8 (16 is faster), bytes <= row_bytes */
  enum kvl_gather_shape shape;           /* the reference does not look at it */
  const struct kvl_resolve_entry *entry; /* [entries]: request, host_rows */
  const struct kvl_fetch *fetches;       /* [entries][rows_max]; where they went is not looked at */
  const uint32_t *count;                 /* [entries], <= rows_max */
  unsigned char *to;                     /* aligned to 16 */
  uint64_t *stamp;                       /* NULL, or as in kernels/step.h; the reference does not write it */
};

/* `context`: a cudaStream_t, not used by the reference. 0, -EINVAL (a limit), -EIO (the launch was refused). */
typedef int kvl_gather_fn(const struct kvl_gather *gather, void *context);
kvl_gather_fn kvl_gather_ref, kvl_gather_cuda;

#ifdef __cplusplus
}
#endif

#endif
