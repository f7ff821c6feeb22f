/* Copies of byte ranges between the pinned host pool and the arena: population and give-back of pages (host to frames), tail write-back
 * (tail to host), a completed page kept (tail to frame), accepted rows (scratch to tail), candidate bank (host to bank).
 *
 * One launch copies a list of segments that lies in device memory, so it can be a node of a graph: the list may change between launches,
 * its count too (`count` points to device memory; segments_max bounds the work). Offsets are 64-bit bytes. Segments must not overlap in
 * what they write. */
#ifndef KVL_KERNELS_SEGMENTS_H
#define KVL_KERNELS_SEGMENTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvl_segment {
  uint64_t from, to; /* byte offsets from the two bases; multiples of 8 */
  uint64_t bytes;    /* a multiple of 8 */
};

struct kvl_segments {
  const unsigned char *from; /* either base may be the host pool or the arena; aligned to 16 bytes */
  unsigned char *to;
  const struct kvl_segment *segment; /* [segments_max] */
  const uint32_t *count;             /* one number, <= segments_max */
  uint32_t segments_max;
  uint32_t blocks_max; /* CUDA: multiprocessors it may occupy at most (a copy beside compute takes few), 0 for all */
};

/* `context`: a cudaStream_t; not used by the reference. 0, or -EIO when the launch was refused. */
typedef int kvl_segments_fn(const struct kvl_segments *segments, void *context);
kvl_segments_fn kvl_segments_ref;
kvl_segments_fn kvl_segments_cuda;

#ifdef __cplusplus
}
#endif

#endif
