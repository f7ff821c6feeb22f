// Copies into the candidate bank (step.h): a warp takes 16 copies of one request at a time. Its lanes are dealt their vectors in turn, so that rows that
// follow each other on the host, a block of the pool, are read as one range: 512 bytes an instruction, whole cache lines across the rows' ends.
#include "kernels/clock.cuh"
#include "kernels/cluster.cuh"
#include "kernels/device.cuh"
#include "kernels/step.h"

namespace {

constexpr int NT = 256;
constexpr uint32_t ROWS = 16;
constexpr int AHEAD = 9;
constexpr uint32_t LIST = 1024; // entries whose running sums fit at once

template <typename V> __global__ void __launch_bounds__(NT, 3) bank_kernel(const __grid_constant__ kvl_bank_copy b)
{
  __shared__ uint32_t below[LIST + 1]; // turns of the entries before it
  __shared__ uint32_t scan[NT / 32];
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5;
  const uint32_t per_row = b.part_bytes / (uint32_t)sizeof(V);
  const uint32_t row_step = 32 / per_row;
  const uint32_t column_step = 32 % per_row;
  auto step = [&](uint32_t &row, uint32_t &column) { // 32 vectors on
    row += row_step;
    column += column_step;
    if (column >= per_row) {
      column -= per_row;
      row++;
    }
  };
  if (threadIdx.x == 0) {
    stamp_first(b.stamp);
  }
  for (uint32_t base = 0; base < b.entries; base += LIST) {
    const uint32_t here = min(LIST, b.entries - base);
    uint32_t total = 0;
    for (uint32_t first = 0; first < here; first += NT) {
      uint32_t i = first + threadIdx.x;
      uint32_t turns = 0;
      if (i < here && b.entry[base + i].request != KVL_NONE) {
        turns = (min(b.copy_count[base + i], b.bank_rows) + ROWS - 1) / ROWS;
      }
      uint32_t sum;
      uint32_t before = block_scan<NT>(turns, scan, &sum);
      if (i < here) {
        below[i] = total + before;
      }
      total += sum;
    }
    __syncthreads();
    for (uint32_t turn = blockIdx.x + warp * gridDim.x; turn < total; turn += gridDim.x * (NT / 32)) { // first one warp of each multiprocessor
      uint32_t low = 0;
      uint32_t high = here; // below[low] <= turn < below[high]
      while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        (below[middle] <= turn ? low : high) = middle;
      }
      const uint32_t e = base + low;
      const uint32_t at = (turn - below[low]) * ROWS;
      const uint32_t rows = min(ROWS, min(b.copy_count[e], b.bank_rows) - at);
      const unsigned char *from = b.entry[e].host_rows + b.part_offset;
      kvl_fetch copy = {0, 0};
      if (lane < rows) {
        copy = b.copies[(size_t)e * b.bank_rows + at + lane];
      }
      const uint32_t units = rows * per_row;
      uint32_t row = lane / per_row;
      uint32_t column = lane - row * per_row;
      for (uint32_t unit = lane; unit - lane < units; unit += 32 * AHEAD) {
        V v[AHEAD];
        uint32_t r = row;
        uint32_t c = column;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
          kvl_row number = __shfl_sync(~0u, copy.row, r & 31);
          if (unit + a * 32 < units) {
            v[a] = __ldg((const V *)(from + (size_t)number * b.row_bytes) + c);
          }
          step(r, c);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
          kvl_addr to = __shfl_sync(~0u, copy.to, row & 31);
          if (unit + a * 32 < units) {
            ((V *)(b.arena + (size_t)to * b.row_bytes + b.part_offset))[column] = v[a];
          }
          step(row, column);
        }
      }
    }
    __syncthreads();
  }
  if (b.stamp != nullptr) {
    __syncthreads();
    if (threadIdx.x == 0) {
      stamp_last(b.stamp);
    }
  }
}

} // namespace

extern "C" int kvl_bank_copy_cuda(const struct kvl_bank_copy *copy, void *context)
{
  kvl_bank_copy work = *copy;
  if (work.part_bytes == 0) {
    work.part_offset = 0;
    work.part_bytes = work.row_bytes;
  }
  if (work.row_bytes == 0 || work.row_bytes % 8 != 0 || work.part_bytes % 8 != 0 || work.part_offset % 8 != 0 || work.part_bytes > work.row_bytes ||
      work.part_offset > work.row_bytes - work.part_bytes) {
    return -EINVAL;
  }
  const device_size device = current_device();
  if (device.multiprocessors == 0) {
    return -EIO;
  }
  if (copy->entries == 0 || copy->bank_rows == 0) {
    return 0;
  }
  uint32_t blocks = copy->blocks_max > 0 ? copy->blocks_max : device.multiprocessors;
  if ((work.row_bytes | work.part_bytes | work.part_offset) % 16 == 0) {
    bank_kernel<uint4><<<blocks, NT, 0, (cudaStream_t)context>>>(work);
  } else {
    bank_kernel<uint2><<<blocks, NT, 0, (cudaStream_t)context>>>(work);
  }
  return launched();
}
