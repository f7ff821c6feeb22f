// From per-slot state to the arrays of a batch, in one launch (step.h). A block takes a share of one request: it reads the request's item, which lies in
// host memory, once, then its selections. A warp's turn is 128 lanes of one query, so that points of any k spread evenly over the warps.
#include "kernels/clock.cuh"
#include "kernels/cluster.cuh"
#include "kernels/device.cuh"
#include "kernels/step.h"

namespace {

constexpr int NT = 1024;
constexpr uint32_t TURN = 128;
constexpr uint32_t ENTRY_WORDS = sizeof(kvl_resolve_entry) / 4;
constexpr uint32_t COUNT_WORDS = sizeof(kvl_resolve_counts) / 8;

static_assert(offsetof(kvl_resolve_entry, request) == 0 && offsetof(kvl_resolve_entry, query_count) == 4 &&
              offsetof(kvl_resolve_entry, whole) == 8 && offsetof(kvl_resolve_entry, pages) == 12, "entries are copied word by word");
static_assert(sizeof(kvl_gpu_item) % 4 == 0 && sizeof(kvl_gpu_point) % 8 == 0 && sizeof(kvl_resolve_counts) == 8 * COUNT_WORDS, "so are these");

__global__ void __launch_bounds__(NT) begin_kernel(const __grid_constant__ kvl_step_begin b)
{
  __shared__ kvl_gpu_item item;
  __shared__ kvl_gpu_point point[KVL_STEP_POINTS];
  __shared__ uint32_t below[KVL_STEP_POINTS]; // turns of the points before
  __shared__ uint32_t scan[NT / 32];
  const uint32_t e = blockIdx.y;
  const uint32_t lane_id = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5;
  const bool stamps = b.stamps != nullptr && b.stamp_pairs > 0 && blockIdx.x == 0 && e == 0;
  if (stamps) {
    for (uint32_t i = threadIdx.x; i < 2 * b.stamp_pairs; i += NT) {
      if (i != 1) {
        b.stamps[i] = i == 0 ? now_ns() : i & 1 ? 0 : UINT64_MAX;
      }
    }
  }
  if (e >= b.entries) { // an empty batch: only the stamps
    if (stamps && threadIdx.x == 0) {
      b.stamps[1] = now_ns();
    }
    return;
  }
  if (threadIdx.x < sizeof item / 4) {
    ((uint32_t *)&item)[threadIdx.x] = ((const uint32_t *)(b.item + e))[threadIdx.x];
  }
  for (uint32_t i = threadIdx.x; i < b.points * sizeof point[0] / 8; i += NT) {
    ((uint64_t *)point)[i] = ((const uint64_t *)b.point)[i];
  }
  __syncthreads();
  uint32_t turns;
  uint32_t before = block_scan<NT>(threadIdx.x < b.points ? b.queries_max * ((point[threadIdx.x].k + TURN - 1) / TURN) : 0, scan, &turns);
  if (threadIdx.x < b.points) {
    below[threadIdx.x] = before;
  }
  __syncthreads();
  const bool padding = item.slot == KVL_NONE;
  const uint32_t queries = padding ? 0 : item.queries;
  const uint32_t *selections = b.selections + ((uint64_t)(padding ? 0 : item.slot) * 2 + item.half) * b.selection_words;
  const uint32_t first = blockIdx.x * NT + threadIdx.x;
  const uint32_t step = gridDim.x * NT;

  // Rows, one turn a warp.
  for (uint32_t turn = blockIdx.x * (NT / 32) + warp; turn < turns; turn += gridDim.x * (NT / 32)) {
    uint32_t low = 0;
    uint32_t high = b.points; // below[low] <= turn < below[high]
    while (high - low > 1) {
      uint32_t middle = (low + high) / 2;
      (below[middle] <= turn ? low : high) = middle;
    }
    const kvl_gpu_point &p = point[low];
    uint32_t turns_a_query = (p.k + TURN - 1) / TURN;
    uint32_t q = (turn - below[low]) / turns_a_query;
    uint32_t at = (turn - below[low] - q * turns_a_query) * TURN;
    const uint32_t *selection = selections + p.selection_offset;
    uint32_t n = q < queries ? min(selection[q], p.k) : 0;
    const kvl_row *from = (const kvl_row *)(selection + b.queries_max + (size_t)q * p.k);
    kvl_row *to = p.rows + ((size_t)e * b.queries_max + q) * p.k;
    if ((((uintptr_t)(from + at) | (uintptr_t)(to + at)) & 15) == 0 && at + TURN <= p.k && (n >= at + TURN || n <= at)) {
      int4 rows = n > at ? ((const int4 *)(from + at))[lane_id] : make_int4(KVL_NONE, KVL_NONE, KVL_NONE, KVL_NONE);
      ((int4 *)(to + at))[lane_id] = rows;
      continue;
    }
    for (uint32_t i = at + lane_id; i < min(at + TURN, p.k); i += 32) {
      to[i] = i < n ? from[i] : KVL_NONE;
    }
  }

  for (uint32_t i = first; i < b.points * b.queries_max; i += step) {
    uint32_t p = i / b.queries_max;
    uint32_t q = i - p * b.queries_max;
    kvl_batch_query query = {0, 0};
    if (q < queries) {
      query.boundary = (kvl_row)((item.tokens + q) / b.tokens_per_row[point[p].cache]);
      query.n = min(selections[point[p].selection_offset + q], point[p].k);
    }
    point[p].query[(size_t)e * b.queries_max + q] = query;
  }
  for (uint32_t i = first; i < b.points * COUNT_WORDS; i += step) {
    ((uint64_t *)(point[i / COUNT_WORDS].counts + e))[i % COUNT_WORDS] = 0;
  }
  for (uint32_t i = first; i < b.caches * ENTRY_WORDS; i += step) {
    uint32_t c = i / ENTRY_WORDS;
    uint32_t w = i % ENTRY_WORDS;
    uint32_t value = w == 0 ? (uint32_t)item.slot : 0;
    if (!padding && w > 0) {
      value = w == 1 ? queries : w == 2 ? item.whole : w == 3 ? item.pages : ((const uint32_t *)(b.slot_entry[c] + item.slot))[w];
    }
    ((uint32_t *)(b.entry[c] + e))[w] = value;
  }
  if (stamps) {
    __syncthreads();
    if (threadIdx.x == 0) {
      b.stamps[1] = now_ns();
    }
  }
}

} // namespace

extern "C" int kvl_step_begin_cuda(const struct kvl_step_begin *begin, void *context)
{
  if (begin->queries_max == 0 || begin->queries_max > KVL_STEP_QUERIES || begin->caches > KVL_STEP_CACHES || begin->points > KVL_STEP_POINTS ||
      begin->entries > 65535) {
    return -EINVAL;
  }
  const device_size device = current_device();
  if (device.multiprocessors == 0) {
    return -EIO;
  }
  // A block has 32 warps: the turns of 8 queries of 512 rows. No more blocks than run at once.
  uint32_t entries = begin->entries > 0 ? begin->entries : 1;
  uint32_t parts = (begin->points * begin->queries_max + 7) / 8;
  uint32_t most = device.multiprocessors * 2 / entries;
  parts = parts < most ? parts : most;
  begin_kernel<<<dim3(parts > 0 ? parts : 1, entries), NT, 0, (cudaStream_t)context>>>(*begin);
  return launched();
}
