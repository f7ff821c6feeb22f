/* The copies of kernels/segments.h against the reference: every byte, and the bytes between what is written. */
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "kernels/segments.h"
#include "tests/kernels/batches.h"
#include "tests/kernels/check_kernels.h"
#include "tests/kernels/now.h"

const char *check_segments(struct kvl_rng *rng)
{
  enum { BYTES = 1 << 22, LIST = 5000 };
  static struct kvl_segment list[LIST];
  static unsigned char want[BYTES];
  unsigned char *from = NULL;
  unsigned char *to = NULL;
  unsigned char *d_list = NULL;
  unsigned char *got = NULL;
  if (cudaHostAlloc((void **)&from, BYTES, cudaHostAllocDefault) != cudaSuccess || cudaMalloc((void **)&to, BYTES) != cudaSuccess ||
      cudaMalloc((void **)&d_list, 16 + sizeof list) != cudaSuccess || (got = malloc(BYTES)) == NULL) {
    return "segments: no memory";
  }
  const char *bad = NULL;
  for (int round = 0; round < 6 && bad == NULL; round++) {
    uint32_t n = 0;
    uint64_t at = 0;
    uint64_t longest = PICK(rng, 36, 80, 600, 40000, 200000);
    while (n < LIST) { /* what is written does not overlap; gaps of 0 to 3 words */
      uint64_t bytes = 8 * (uint64_t)kvl_rng_below(rng, (uint32_t)longest);
      at += 8 * (uint64_t)kvl_rng_below(rng, 4);
      if (at + bytes > BYTES) {
        break;
      }
      uint64_t source = 8 * (uint64_t)kvl_rng_below(rng, (uint32_t)((BYTES - bytes) / 8) + 1);
      list[n++] = (struct kvl_segment){source, at, bytes};
      at += bytes;
    }
    for (size_t i = 0; i < BYTES; i += 8) {
      uint64_t x = kvl_rng_next(rng);
      memcpy(from + i, &x, 8);
    }
    memset(want, 0x5a, BYTES);
    const struct kvl_segments ref = {from, want, list, &n, LIST, 0};
    kvl_segments_ref(&ref, NULL);
    const struct kvl_segments cuda = {from, to, (void *)(d_list + 16), (void *)d_list, LIST, PICK(rng, 0, 1, 8)};
    if (fill_now(to, 0x5a, BYTES) != cudaSuccess || copy_now(d_list, &n, 4) != cudaSuccess ||
        copy_now(d_list + 16, list, n * sizeof list[0]) != cudaSuccess || kvl_segments_cuda(&cuda, NULL) != 0 ||
        copy_now(got, to, BYTES) != cudaSuccess) {
      bad = "segments: a call failed";
    } else if (memcmp(got, want, BYTES) != 0) {
      bad = "segments: bytes differ from the reference's";
    }
  }
  free(got);
  cudaFreeHost(from);
  cudaFree(to);
  cudaFree(d_list);
  return bad;
}
