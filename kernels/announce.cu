// Announce on the GPU: the union of the pools, pins, bank slots for rows in no tier. Rules: resolve.h and section 5 of the semantics;
// arguments: resolve_batch.h. One block a request, two launches for a batch: `announce` and `end_group`.
//
//   look up  Every lane of the pools in parallel. A row an earlier pool of the request names too (binary search: pools ascend) is that
//            pool's; a row found hot pins its slot, one found in the bank marks it, one found nowhere sets its lane's bit.
//   slots    Candidates in order: the empty ones, then, ascending, those whose row is not in the union (not marked and, when a tier before
//            the bank also has its row, not in any pool). A prefix sum over bit words gives each its number, as it gives each missing row
//            its rank.
//   match    The i-th missing row takes the i-th slot; rows past the last slot are dropped.
#include <cuda_runtime.h>

#include <cerrno>

#include "kernels/cluster.cuh"
#include "kernels/resolve_batch.h"

namespace {

constexpr int NT = 1024;

__device__ bool pool_has(const kvl_row *pool, uint32_t n, kvl_row row)
{
  uint32_t low = 0;
  uint32_t end = n;
  while (low < end) {
    uint32_t middle = (low + end) / 2;
    if (pool[middle] < row) {
      low = middle + 1;
    } else {
      end = middle;
    }
  }
  return low < n && pool[low] == row;
}

// Half of a multiprocessor: a model's layer runs on the other half.
__global__ void __launch_bounds__(NT, 2) announce_kernel(const __grid_constant__ kvl_announce_batch b)
{
  __shared__ uint32_t scan[NT / 32];
  const kvl_resolve_entry &e = b.entry[blockIdx.x];
  const uint32_t lanes = b.queries_max * b.pool_max;
  const uint32_t words = (lanes + 31) / 32;
  const uint32_t hot_rows = b.geometry.hot_rows;
  const uint32_t bank_rows = b.geometry.bank_rows;
  const uint32_t lane_id = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5;
  if (e.request == KVL_NONE) {
    if (threadIdx.x == 0) {
      b.copy_count[blockIdx.x] = 0;
      b.drop_count[blockIdx.x] = 0;
    }
    return;
  }
  const kvl_batch_query *queries = b.query + (size_t)blockIdx.x * b.queries_max;
  const kvl_row *pools = b.pools + (size_t)blockIdx.x * lanes;
  uint32_t *missing = b.work + (size_t)blockIdx.x * KVL_ANNOUNCE_WORK_WORDS(lanes, bank_rows);
  uint32_t *rank = missing + words;       // missing rows before a word
  uint32_t *slots = rank + words;         // candidate slots in order
  uint32_t *marked = slots + bank_rows;   // bit per bank slot: its row is in the union
  const kvl_cache_head head = *e.head;
  const uint32_t bank_used = head.bank_used;

  auto elsewhere = [&](uint32_t row) { // a tier before the bank has it
    uint32_t page = row >> b.geometry.page_shift;
    return row >= head.tail_first || (page < e.pages && e.frame_of_page[page] >= 0);
  };
  for (uint32_t w = threadIdx.x; w < (bank_rows + 31) / 32; w += NT) {
    marked[w] = 0;
  }
  __syncthreads();
  for (uint32_t word = warp; word < words; word += NT / 32) {
    uint32_t lane = word * 32 + lane_id;
    bool lost = false;
    if (lane < lanes) {
      uint32_t q = lane / b.pool_max;
      uint32_t i = lane - q * b.pool_max;
      if (q < e.query_count && i < queries[q].n) {
        uint32_t row = (uint32_t)pools[lane];
        bool mine = row < head.committed;
        for (uint32_t p = 0; mine && p < q; p++) {
          mine = !pool_has(pools + (size_t)p * b.pool_max, queries[p].n, (kvl_row)row);
        }
        if (mine && !elsewhere(row)) {
          int32_t place = e.place_of_row[row];
          if (place < 0) {
            lost = true;
          } else if ((uint32_t)place < hot_rows) {
            atomicOr(e.pinned + place / 32, 1u << (place & 31));
          } else {
            uint32_t slot = (uint32_t)place - hot_rows;
            atomicOr(marked + slot / 32, 1u << (slot & 31));
          }
        }
      }
    }
    uint32_t bits = __ballot_sync(~0u, lost);
    if (lane_id == 0) {
      missing[word] = bits;
    }
  }
  __syncthreads();

  uint32_t total = 0; // missing rows
  for (uint32_t base = 0; base < words; base += NT) {
    uint32_t word = base + threadIdx.x;
    uint32_t sum;
    uint32_t before = block_scan<NT>(word < words ? (uint32_t)__popc(missing[word]) : 0, scan, &sum);
    if (word < words) {
      rank[word] = total + before;
    }
    total += sum;
  }
  uint32_t found = 0; // candidate slots
  for (uint32_t base = bank_used; base < bank_rows && found < total; base += NT) {
    uint32_t slot = base + threadIdx.x;
    if (slot < bank_rows) {
      slots[slot - bank_used] = slot;
    }
    found = min(bank_rows - bank_used, base + NT - bank_used);
  }
  for (uint32_t base = 0; base < bank_used && found < total; base += NT) {
    uint32_t slot = base + threadIdx.x;
    bool usable = false;
    if (slot < bank_used && !((__ldcg(marked + slot / 32) >> (slot & 31)) & 1u)) {
      kvl_row row = e.row_of_place[hot_rows + slot];
      usable = true;
      if (elsewhere((uint32_t)row)) {
        for (uint32_t p = 0; usable && p < e.query_count; p++) {
          usable = !pool_has(pools + (size_t)p * b.pool_max, queries[p].n, row);
        }
      }
    }
    uint32_t sum;
    uint32_t before = block_scan<NT>(usable, scan, &sum);
    if (usable && found + before < bank_rows) {
      slots[found + before] = slot;
    }
    found += sum;
  }
  __syncthreads();
  found = min(found, total);

  for (uint32_t word = warp; word < words; word += NT / 32) {
    uint32_t bits = missing[word];
    if ((bits >> lane_id) & 1u) {
      uint32_t number = rank[word] + __popc(bits & ((1u << lane_id) - 1));
      kvl_row row = pools[word * 32 + lane_id];
      if (number < found) {
        uint32_t slot = slots[number];
        if (slot < bank_used) {
          e.place_of_row[e.row_of_place[hot_rows + slot]] = KVL_PLACE_EMPTY;
        }
        e.row_of_place[hot_rows + slot] = row;
        e.place_of_row[row] = (int32_t)(hot_rows + slot);
        b.copies[(size_t)blockIdx.x * bank_rows + number] = kvl_fetch{row, e.bases.bank + (kvl_addr)slot};
      } else {
        b.dropped[(size_t)blockIdx.x * lanes + number - found] = row;
      }
    }
  }
  if (threadIdx.x == 0) {
    e.head->bank_used = bank_used + min(found, bank_rows - bank_used);
    b.copy_count[blockIdx.x] = found;
    b.drop_count[blockIdx.x] = total - found;
  }
}

__global__ void end_group_kernel(const kvl_resolve_entry *entry, uint32_t words)
{
  const kvl_resolve_entry &e = entry[blockIdx.x];
  if (e.request != KVL_NONE) {
    for (uint32_t w = threadIdx.x; w < words; w += blockDim.x) {
      e.pinned[w] = 0;
    }
  }
}

} // namespace

extern "C" int kvl_announce_batch_cuda(const struct kvl_announce_batch *batch, void *context)
{
  if (batch->entries == 0) {
    return 0;
  }
  if (batch->queries_max == 0 || batch->pool_max == 0 || (uint64_t)batch->queries_max * batch->pool_max > (1u << 24)) {
    return -EINVAL;
  }
  announce_kernel<<<batch->entries, NT, 0, (cudaStream_t)context>>>(*batch);
  return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}

extern "C" int kvl_end_group_batch_cuda(const struct kvl_announce_batch *batch, void *context)
{
  if (batch->entries == 0) {
    return 0;
  }
  end_group_kernel<<<batch->entries, 256, 0, (cudaStream_t)context>>>(batch->entry, (batch->geometry.hot_rows + 31) / 32);
  return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}
