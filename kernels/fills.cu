// Rows written with the pattern (step.h), a warp 4 KB at a time, two words a thread and store.
//
// The list may lie in host memory, where a read takes more than a microsecond: when it is long, each entry is read by one block alone, which then shares it
// out among its warps; when it is short (a session's history: a few long fills) every block reads all of it and all blocks share each fill.
//
// Word n of a row is a(n) * seed + b(n) (pattern.h): a block with much to do keeps a and b in shared memory, one with little computes them. The seeds of
// the rows that a turn touches are computed once, one a lane, unless rows are very short.
#include "kernels/device.cuh"
#include "kernels/pattern.h"
#include "kernels/step.h"

namespace {

constexpr int NT = 1024;
constexpr uint32_t LIST = 32;                // fills at once: one a lane
constexpr uint32_t STORES = 8;               // vectors of two words a lane writes in a turn
constexpr uint32_t TURN = 32 * STORES;       // vectors
constexpr uint32_t TABLE = 512;              // words of a row beyond it are computed
constexpr uint32_t TABLE_PAYS = 2;           // turns a warp
constexpr uint32_t SHARED_SEEDS = 17;        // words of a row from which a turn touches no more than 32 rows

__global__ void __launch_bounds__(NT, 1) fills_kernel(const kvl_fills f)
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
  const uint32_t share = all ? count : (count - 1) / gridDim.x + 1;
  const uint32_t first = all ? 0 : min(count, blockIdx.x * share);
  const uint32_t own = min(count - first, share);
  bool tabled = false;
  for (uint32_t base = 0; base < own; base += LIST) {
    const uint32_t here = min(LIST, own - base);
    __syncthreads();
    constexpr uint32_t WORDS = sizeof(kvl_fill) / 8;
    for (uint32_t i = threadIdx.x; i < here * WORDS; i += NT) {
      ((uint64_t *)list)[i] = ((const uint64_t *)(f.fill + first + base))[i];
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
    for (uint32_t turn = all ? blockIdx.x * (NT / 32) + warp : warp; turn < total; turn += step) {
      const uint32_t which = __popc(__ballot_sync(~0u, below <= turn)) - 1;
      const kvl_fill &x = list[which];
      const uint32_t row_words = x.row_bytes / 8;
      const uint64_t words = (uint64_t)x.rows * row_words;
      const uint32_t lead = (uint32_t)((uintptr_t)x.to >> 3) & 1;
      const uint64_t skipped = (uint64_t)(turn - __shfl_sync(~0u, below, which)) * TURN * 2; // words of the turns before, and the lead
      const uint64_t start = skipped > 0 ? skipped - lead : 0;
      const uint32_t skew = skipped > 0 ? 0 : lead;
      const uint32_t left = (uint32_t)min(words - start, (uint64_t)TURN * 2);
      const uint32_t row0 = (uint32_t)(start / row_words);
      auto seed_of = [&](uint32_t row) { return kvl_pattern_seed(x.session, x.cache, (kvl_row)((uint32_t)x.first_row + row0 + row), x.salt); };
      const bool shared = row_words >= SHARED_SEEDS;
      const uint64_t seed_here = shared ? seed_of(lane) : 0;
      auto seed_at = [&](uint32_t row) { return shared ? __shfl_sync(~0u, seed_here, row & 31) : seed_of(row); };
      // This lane's first pair: row and column, the row before when the pair begins before the fill.
      int32_t at = (int32_t)(start - (uint64_t)row0 * row_words + 2 * lane) - (int32_t)skew;
      uint32_t row = at < 0 ? UINT32_MAX : (uint32_t)at / row_words;
      uint32_t column = (uint32_t)at - row * row_words;
      const uint32_t row_step = 64 / row_words;
      const uint32_t column_step = 64 - row_step * row_words;
      uint64_t *to = (uint64_t *)x.to + start - skew + 2 * lane;
#pragma unroll 2
      for (uint32_t s = 0; s < STORES && s * 64 < left + skew; s++) {
        const uint32_t pair = 2 * (s * 32 + lane) - skew;
        const bool has_first = pair < left; // before the fill: wraps
        const bool has_second = pair + 1 < left;
        const uint64_t seed = seed_at(row);
        uint64_t v0;
        if (tabled && column < TABLE) {
          const ulonglong2 ab = table[column + 1];
          v0 = ab.x * seed + ab.y;
        } else {
          v0 = kvl_pattern_word(seed, column + 1);
        }
        uint64_t before = v0; // the word before the second one
        const bool crosses = column + 1 == row_words;
        if (__any_sync(~0u, crosses)) {
          const uint64_t seed_after = seed_at(row + 1);
          before = crosses ? seed_after : before;
        }
        const uint64_t v1 = kvl_pattern_next(before);
        if (has_first && has_second) {
          *(ulonglong2 *)to = make_ulonglong2(v0, v1);
        } else if (has_first) {
          to[0] = v0;
        } else if (has_second) {
          to[1] = v1;
        }
        to += 64;
        row += row_step;
        column += column_step;
        if (column >= row_words) {
          column -= row_words;
          row++;
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
  uint32_t blocks = fills->blocks_max > 0 ? fills->blocks_max : device.multiprocessors;
  fills_kernel<<<blocks, NT, 0, (cudaStream_t)context>>>(*fills);
  return launched();
}
