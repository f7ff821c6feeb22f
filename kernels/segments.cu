// Copies a list of byte ranges (segments.h). The list is cut into equal chunks of work: a warp takes CHUNK bytes at a time and finds the
// segment they belong to by a search over running sums, which each block builds once; so one large segment and many small ones spread
// alike.
#include <cuda_runtime.h>

#include <cerrno>

#include "kernels/segments.h"

namespace {

constexpr int NT = 256;
constexpr int LOADS = 4;                          // vectors of 16 bytes a lane has in flight
constexpr uint32_t CHUNK = 32 * 16 * LOADS;       // bytes of a warp's turn
constexpr uint32_t LIST = 2048;                   // segments whose running sums fit at once

template <typename V> __device__ void copy_chunk(const unsigned char *from, unsigned char *to, uint32_t bytes, uint32_t lane)
{
  V v[LOADS * 16 / sizeof(V)];
#pragma unroll
  for (int i = 0; i < (int)(sizeof v / sizeof v[0]); i++) {
    uint32_t at = (lane + i * 32) * (uint32_t)sizeof(V);
    if (at < bytes) {
      v[i] = __ldcs((const V *)(from + at));
    }
  }
#pragma unroll
  for (int i = 0; i < (int)(sizeof v / sizeof v[0]); i++) {
    uint32_t at = (lane + i * 32) * (uint32_t)sizeof(V);
    if (at < bytes) {
      *(V *)(to + at) = v[i];
    }
  }
}

__global__ void __launch_bounds__(NT) segments_kernel(const kvl_segments s)
{
  __shared__ uint32_t chunks_below[LIST + 1]; // chunks of the segments before it
  __shared__ uint32_t warp_sum[NT / 32];
  const uint32_t count = min(*s.count, s.segments_max);
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5;
  for (uint32_t base = 0; base < count; base += LIST) {
    uint32_t here = min(LIST, count - base);
    uint32_t total = 0;
    __syncthreads();
    for (uint32_t first = 0; first < here; first += NT) { // exclusive running sum
      uint32_t i = first + threadIdx.x;
      uint32_t n = i < here ? (uint32_t)((s.segment[base + i].bytes + CHUNK - 1) / CHUNK) : 0;
      uint32_t sum = n;
      for (int d = 1; d < 32; d *= 2) {
        uint32_t below = __shfl_up_sync(~0u, sum, d);
        sum += lane >= (uint32_t)d ? below : 0;
      }
      if (lane == 31) {
        warp_sum[warp] = sum;
      }
      __syncthreads();
      uint32_t before = total;
      for (uint32_t w = 0; w < NT / 32; w++) {
        before += w < warp ? warp_sum[w] : 0;
        total += warp_sum[w];
      }
      if (i < here) {
        chunks_below[i] = before + sum - n;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      chunks_below[here] = total;
    }
    __syncthreads();
    for (uint32_t chunk = blockIdx.x * (NT / 32) + warp; chunk < total; chunk += gridDim.x * (NT / 32)) {
      uint32_t low = 0;
      uint32_t high = here; // chunks_below[low] <= chunk < chunks_below[high]
      while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        (chunks_below[middle] <= chunk ? low : high) = middle;
      }
      const kvl_segment segment = s.segment[base + low];
      uint64_t at = (uint64_t)(chunk - chunks_below[low]) * CHUNK;
      uint32_t bytes = (uint32_t)min((uint64_t)CHUNK, segment.bytes - at);
      const unsigned char *from = s.from + segment.from + at;
      unsigned char *to = s.to + segment.to + at;
      if ((((uintptr_t)from | (uintptr_t)to | bytes) & 15) == 0) {
        copy_chunk<uint4>(from, to, bytes, lane);
      } else {
        copy_chunk<uint2>(from, to, bytes, lane);
      }
    }
  }
}

} // namespace

extern "C" int kvl_segments_cuda(const struct kvl_segments *segments, void *context)
{
  static int multiprocessors;
  int device = 0;
  if (multiprocessors == 0 && (cudaGetDevice(&device) != cudaSuccess ||
                               cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)) {
    return -EIO;
  }
  if (segments->segments_max == 0) {
    return 0;
  }
  uint32_t blocks = segments->blocks_max > 0 ? segments->blocks_max : (uint32_t)multiprocessors * 4;
  segments_kernel<<<blocks, NT, 0, (cudaStream_t)context>>>(*segments);
  return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}
