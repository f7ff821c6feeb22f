// Floors to compare resolve with: the least that any kernel doing its work must do. Not product code.
#include <cuda_runtime.h>

#include <cerrno>

#include "tests/kernels/check_kernels.h"

namespace {

__device__ void copy_row(const unsigned char *from, unsigned char *out, uint32_t lane, uint32_t row_bytes)
{
  uint4 a;
  uint4 b;
  bool first = lane * 16 < row_bytes;
  bool second = lane * 16 + 512 < row_bytes;
  if (first) {
    a = __ldg((const uint4 *)(from + lane * 16));
  }
  if (second) {
    b = __ldg((const uint4 *)(from + lane * 16 + 512));
  }
  if (first) {
    *(uint4 *)(out + lane * 16) = a;
  }
  if (second) {
    *(uint4 *)(out + lane * 16 + 512) = b;
  }
}

__global__ void gather_kernel(const unsigned char *pool, const uint64_t *index, unsigned char *to, uint32_t rows, uint32_t row_bytes)
{
  uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  uint32_t lane = threadIdx.x & 31;
  uint32_t warps = (gridDim.x * blockDim.x) >> 5;
  for (uint32_t r = warp; r < rows; r += warps) {
    copy_row(pool + index[r] * row_bytes, to + (size_t)r * row_bytes, lane, row_bytes);
  }
}

__global__ void gather_owned_kernel(const unsigned char *pool, const uint64_t *index, const uint32_t *first, unsigned char *to,
                                    uint32_t row_bytes)
{
  for (uint32_t r = first[blockIdx.x] + (threadIdx.x >> 5); r < first[blockIdx.x + 1]; r += blockDim.x >> 5) {
    copy_row(pool + index[r] * row_bytes, to + (size_t)(r - first[0]) * row_bytes, threadIdx.x & 31, row_bytes);
  }
}

__global__ void hit_kernel(const int32_t *rows, const int32_t *map, uint32_t history, uint32_t k, uint32_t *stamp, uint32_t hot_rows,
                           uint32_t step,
                           int32_t *out, uint32_t *misses)
{
  uint32_t r = blockIdx.y;
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= k) {
    return;
  }
  int32_t row = rows[r * k + i];
  int32_t slot = row < 0 ? -1 : map[(size_t)r * history + row];
  bool miss = row >= 0 && slot < 0;
  uint32_t m = __ballot_sync(__activemask(), miss);
  if (slot >= 0) {
    stamp[(size_t)r * hot_rows + slot] = step;
    out[r * k + i] = (int32_t)(r * hot_rows) + slot;
  } else {
    out[r * k + i] = -1;
  }
  if (m != 0 && (threadIdx.x & 31) == 0) {
    atomicAdd(misses + r, (uint32_t)__popc(m));
  }
}

__global__ void pages_kernel(const int32_t *rows, const int32_t *frames, uint32_t pages, uint32_t k, uint32_t shift, int32_t *out)
{
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < k) {
    int32_t row = rows[blockIdx.y * k + i];
    int32_t frame = row < 0 ? -1 : frames[(size_t)blockIdx.y * pages + ((uint32_t)row >> shift)];
    out[blockIdx.y * k + i] = frame < 0 ? -1 : (frame << shift) + (row & ((1 << shift) - 1));
  }
}

__global__ void spin_kernel(uint64_t ns)
{
  uint64_t start;
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < ns);
}

__global__ void empty_kernel() {}

__global__ void clock_kernel(uint64_t *timer, uint64_t *cycles, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    timer[i] = now;
    cycles[i] = (uint64_t)clock64();
  }
}

int launched()
{
  return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}

} // namespace

extern "C" int floor_gather(const unsigned char *pool, const uint64_t *index, unsigned char *to, uint32_t rows, uint32_t row_bytes,
                            uint32_t blocks,
                            uint32_t threads, void *stream)
{
  gather_kernel<<<blocks, threads, 0, (cudaStream_t)stream>>>(pool, index, to, rows, row_bytes);
  return launched();
}

extern "C" int floor_gather_owned(const unsigned char *pool, const uint64_t *index, const uint32_t *first, unsigned char *to,
                                  uint32_t requests, uint32_t row_bytes, uint32_t threads, void *stream)
{
  gather_owned_kernel<<<requests, threads, 0, (cudaStream_t)stream>>>(pool, index, first, to, row_bytes);
  return launched();
}

extern "C" int floor_hit(const int32_t *rows, const int32_t *map, uint32_t history, uint32_t k, uint32_t requests, uint32_t *stamp,
                         uint32_t hot_rows,
                         uint32_t step, int32_t *out, uint32_t *misses, void *stream)
{
  hit_kernel<<<dim3((k + 255) / 256, requests), 256, 0, (cudaStream_t)stream>>>(rows, map, history, k, stamp, hot_rows, step, out, misses);
  return launched();
}

extern "C" int floor_pages(const int32_t *rows, const int32_t *frames, uint32_t pages, uint32_t k, uint32_t requests, uint32_t shift,
                           int32_t *out,
                           void *stream)
{
  pages_kernel<<<dim3((k + 255) / 256, requests), 256, 0, (cudaStream_t)stream>>>(rows, frames, pages, k, shift, out);
  return launched();
}

extern "C" int floor_spin(uint64_t ns, void *stream)
{
  spin_kernel<<<1, 1, 0, (cudaStream_t)stream>>>(ns);
  return launched();
}

extern "C" int floor_empty(void *stream)
{
  empty_kernel<<<1, 32, 0, (cudaStream_t)stream>>>();
  return launched();
}

extern "C" int floor_clock(uint64_t *timer, uint64_t *cycles, uint32_t n, void *stream)
{
  clock_kernel<<<1, 1, 0, (cudaStream_t)stream>>>(timer, cycles, n);
  return launched();
}
