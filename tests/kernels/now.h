/* Copies and fills that are done, for every stream, when they return. cudaMemcpy to the device from memory that is not pinned, and cudaMemset, may
 * return before the device has them; later work in the default stream waits for that, streams made with cudaStreamNonBlocking do not. (A soak beside
 * other programs showed it: a list of new page frames was read before it had arrived.) What came before in other streams is the caller's to wait for. */
#ifndef KVL_TESTS_KERNELS_NOW_H
#define KVL_TESTS_KERNELS_NOW_H

#include <cuda_runtime_api.h>
#include <stddef.h>

static inline cudaError_t copy_now(void *to, const void *from, size_t bytes)
{
  cudaError_t e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamLegacy);
  return e != cudaSuccess ? e : cudaStreamSynchronize(cudaStreamLegacy);
}

static inline cudaError_t fill_now(void *to, int value, size_t bytes)
{
  cudaError_t e = cudaMemsetAsync(to, value, bytes, cudaStreamLegacy);
  return e != cudaSuccess ? e : cudaStreamSynchronize(cudaStreamLegacy);
}

#endif
