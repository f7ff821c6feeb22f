// A bare gather of host rows (gather.h): the least that whoever fetches those rows must do.
//
// A warp reads a row, or, of a long one, a piece that begins where a line of 128 bytes does: the host link counts requests, so no line is asked for twice. Its
// lanes load the numbers of the 32 rows that it reads first, so that no read of the list waits behind host reads, and AHEAD pieces are under way at a time.
#include "kernels/clock.cuh"
#include "kernels/device.cuh"
#include "kernels/gather.h"

namespace {

constexpr int AHEAD = 4;

template <int NT, bool ORDERED, typename V>
__global__ void __launch_bounds__(NT, 1024 / NT) gather_kernel(const __grid_constant__ kvl_gather g)
{
  __shared__ uint32_t number[ORDERED ? KVL_GATHER_ORDERED_MAX : 1];
  __shared__ uint16_t order[ORDERED ? KVL_GATHER_ORDERED_MAX : 1]; // by address: places in the list
  constexpr uint32_t LINE = 128 / sizeof(V);
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t e = blockIdx.y;
  const bool real = g.entry[e].request != KVL_NONE;
  const uint32_t rows = real ? min(g.count[e], g.rows_max) : 0;
  const unsigned char *host = g.entry[e].host_rows;
  const kvl_fetch *list = g.fetches + (size_t)e * g.rows_max;
  const uint32_t per_row = g.bytes / (uint32_t)sizeof(V);
  const uint32_t pieces = (per_row + LINE - 1 + 31) / 32; // of a row
  const bool ordered = ORDERED && rows <= KVL_GATHER_ORDERED_MAX;
  if (ordered) {
    if (threadIdx.x < rows) {
      number[threadIdx.x] = (uint32_t)list[threadIdx.x].row;
    }
    __syncthreads();
    if (threadIdx.x < rows) { // no row is in a list twice
      uint32_t below = 0;
      for (uint32_t i = 0; i < rows; i++) {
        below += number[i] < number[threadIdx.x];
      }
      order[below] = (uint16_t)threadIdx.x;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    stamp_first(g.stamp);
  }
  const uint32_t warps = gridDim.x * (NT / 32);
  const uint32_t items = rows * pieces;
  for (uint32_t first = blockIdx.x + (threadIdx.x >> 5) * gridDim.x; first < items; first += 32 * warps) { // first one warp of each block
    uint32_t place = (first + lane * warps) / pieces; // of the item that is this lane's to know
    uint32_t row = 0;
    if (place < rows) {
      place = ordered ? order[place] : place;
      row = (uint32_t)list[place].row;
    }
#pragma unroll 1
    for (uint32_t turn = 0; turn < 32 && first + turn * warps < items; turn += AHEAD) {
      // All that is not a host read comes before the first of them: the compiler has six scoreboards, and what shares one with a host read waits for it.
      V v[AHEAD];
      const V *from[AHEAD];
      V *to[AHEAD];
      bool has[AHEAD];
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        const uint32_t item = first + (turn + a) * warps;
        const unsigned char *start = host + (size_t)__shfl_sync(~0u, row, turn + a) * g.row_bytes;
        const uint32_t unit = item % pieces * 32 + lane - (uint32_t)(uintptr_t)start / (uint32_t)sizeof(V) % LINE; // before the row: wraps
        has[a] = item < items && unit < per_row;
        from[a] = (const V *)start + unit;
        to[a] = (V *)g.to + ((size_t)e * g.rows_max + __shfl_sync(~0u, place, turn + a)) * per_row + unit;
      }
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        if (has[a]) {
          v[a] = __ldg(from[a]);
        }
      }
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        if (has[a]) {
          *to[a] = v[a];
        }
      }
    }
  }
  if (g.stamp != nullptr) {
    __syncthreads();
    if (threadIdx.x == 0) {
      stamp_last(g.stamp);
    }
  }
}

template <typename V> void launch(const kvl_gather &g, uint32_t multiprocessors, cudaStream_t stream)
{
  switch (g.shape) {
  case KVL_GATHER_ORDERED:
    gather_kernel<1024, true, V><<<dim3(1, g.entries), 1024, 0, stream>>>(g);
    break;
  case KVL_GATHER_DEALT:
    gather_kernel<512, false, V><<<dim3((multiprocessors + g.entries - 1) / g.entries, g.entries), 512, 0, stream>>>(g);
    break;
  default:
    gather_kernel<1024, false, V><<<dim3(1, g.entries), 1024, 0, stream>>>(g);
    break;
  }
}

} // namespace

extern "C" int kvl_gather_cuda(const struct kvl_gather *gather, void *context)
{
  const kvl_gather &g = *gather;
  if (g.bytes == 0 || g.row_bytes % 8 != 0 || g.bytes % 8 != 0 || g.bytes > g.row_bytes || g.entries > UINT16_MAX) {
    return -EINVAL;
  }
  const device_size device = current_device();
  if (device.multiprocessors == 0) {
    return -EIO;
  }
  if (g.entries == 0 || g.rows_max == 0) {
    return 0;
  }
  if ((g.row_bytes | g.bytes) % 16 == 0) {
    launch<uint4>(g, device.multiprocessors, (cudaStream_t)context);
  } else {
    launch<uint2>(g, device.multiprocessors, (cudaStream_t)context);
  }
  return launched();
}
