// Rows written with the pattern (step.h), a warp 2 KB at a time, two words a thread and store.
//
// The list may lie in host memory, where a read takes more than a microsecond: when it is long, each entry is read by one block alone, which then shares it
// out among its warps; when it is short (a session's history: a few long fills) every block reads all of it and all blocks share each fill.
//
// Word n of a row is a(n) * seed + b(n) (pattern.h): a block with much to do keeps a and b in shared memory, one with little computes them.
#include "kernels/device.cuh"
#include "kernels/pattern.h"
#include "kernels/step.h"

namespace {

constexpr int NT = 512;
constexpr uint32_t LIST = 32;                // fills at once: one a lane
constexpr uint32_t STORES = 4;               // vectors of two words a lane writes in a turn
constexpr uint32_t TURN = 32 * STORES;       // vectors
constexpr uint32_t TABLE = 512;              // words of a row beyond it are computed
constexpr uint32_t TABLE_PAYS = 4;           // turns a warp

__global__ void __launch_bounds__(NT, 2) fills_kernel(const kvl_fills f)
{
  __shared__ kvl_fill list[LIST];
  __shared__ ulonglong2 table[TABLE + 1];
  __shared__ uint32_t count;
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5;
  if (threadIdx.x == 0) {
    count = min(*f.count, f.fills_max);
  }
  __syncthreads();
  const bool all = count <= LIST;
  const uint32_t own = all ? count : blockIdx.x < count ? (count - blockIdx.x - 1) / gridDim.x + 1 : 0;
  bool tabled = false;
  for (uint32_t base = 0; base < own; base += LIST) {
    const uint32_t here = min(LIST, own - base);
    __syncthreads();
    constexpr uint32_t WORDS = sizeof(kvl_fill) / 8;
    for (uint32_t i = threadIdx.x; i < here * WORDS; i += NT) {
      uint32_t at = base + i / WORDS;
      ((uint64_t *)list)[i] = ((const uint64_t *)(f.fill + (all ? at : blockIdx.x + (size_t)at * gridDim.x)))[i % WORDS];
    }
    __syncthreads();
    uint32_t turns = 0; // of this lane's fill
    if (lane < here) {
      uint64_t words = (uint64_t)list[lane].rows * (list[lane].row_bytes / 8);
      uint32_t lead = (uint32_t)((uintptr_t)list[lane].to >> 3) & 1; // a fill that begins between two vectors
      turns = words > 0 ? (uint32_t)(((words + lead + 1) / 2 + TURN - 1) / TURN) : 0;
    }
    uint32_t below = turns;
    for (int d = 1; d < 32; d *= 2) {
      uint32_t other = __shfl_up_sync(~0u, below, d);
      below += lane >= (uint32_t)d ? other : 0;
    }
    const uint32_t total = __shfl_sync(~0u, below, 31);
    below = lane < here ? below - turns : UINT32_MAX;
    const uint32_t step = all ? gridDim.x * (NT / 32) : NT / 32;
    if (!tabled && total >= step * TABLE_PAYS) {
      tabled = true;
      for (uint32_t n = 1 + threadIdx.x; n <= TABLE; n += NT) {
        uint64_t b = kvl_pattern_word(0, n);
        table[n] = make_ulonglong2(kvl_pattern_word(1, n) - b, b);
      }
      __syncthreads();
    }
    for (uint32_t turn = all ? blockIdx.x + warp * gridDim.x : warp; turn < total; turn += step) {
      const uint32_t which = __popc(__ballot_sync(~0u, below <= turn)) - 1;
      const kvl_fill &x = list[which];
      const uint32_t row_words = x.row_bytes / 8;
      const uint64_t words = (uint64_t)x.rows * row_words;
      const uint32_t lead = (uint32_t)((uintptr_t)x.to >> 3) & 1;
      const uint64_t skipped = (uint64_t)(turn - __shfl_sync(~0u, below, which)) * TURN * 2; // words of the turns before, and the lead
      const uint64_t start = skipped > 0 ? skipped - lead : 0;
      const uint32_t skew = skipped > 0 ? 0 : lead;
      const uint64_t row0 = start / row_words;
      const uint32_t word0 = (uint32_t)(start - row0 * row_words);
      auto seed_of = [&](uint32_t row) { return kvl_pattern_seed(x.session, x.cache, (kvl_row)((uint32_t)x.first_row + row), x.salt); };
      auto word_of = [&](uint64_t seed, uint32_t n) {
        return tabled && n <= TABLE ? table[n].x * seed + table[n].y : kvl_pattern_word(seed, n);
      };
#pragma unroll 1
      for (uint32_t s = 0; s < STORES; s++) {
        uint32_t pair = 2 * (s * 32 + lane);
        bool first = pair >= skew && start + pair - skew < words;
        bool second = start + pair + 1 - skew < words;
        uint32_t at = word0 + (pair >= skew ? pair - skew : 0);
        uint32_t row = at / row_words;
        uint32_t n = at - row * row_words + 1;
        row += (uint32_t)row0;
        uint64_t seed = seed_of(row);
        uint64_t v0 = word_of(seed, n);
        uint64_t v1 = v0;
        if (pair >= skew) {
          v1 = n < row_words ? kvl_pattern_next(v0) : kvl_pattern_next(seed_of(row + 1));
        }
        uint64_t *to = (uint64_t *)x.to + start + pair - skew;
        if (first && second) {
          *(ulonglong2 *)to = make_ulonglong2(v0, v1);
        } else if (first) {
          to[0] = v0;
        } else if (second) {
          to[1] = v1;
        }
      }
    }
  }
}

} // namespace

extern "C" int kvl_fills_cuda(const struct kvl_fills *fills, void *context)
{
  const device_size device = current_device();
  if (device.multiprocessors == 0) {
    return -EIO;
  }
  if (fills->fills_max == 0) {
    return 0;
  }
  uint32_t blocks = fills->blocks_max > 0 ? fills->blocks_max : device.multiprocessors * 2;
  fills_kernel<<<blocks, NT, 0, (cudaStream_t)context>>>(*fills);
  return launched();
}
