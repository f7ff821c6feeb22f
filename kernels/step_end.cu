// Counters summed and digests compared by one block, which writes the step's outcome to host memory (step.h).
#include "kernels/clock.cuh"
#include "kernels/device.cuh"
#include "kernels/step.h"

namespace {

constexpr int NT = 1024;
constexpr uint32_t COUNT_WORDS = sizeof(kvl_resolve_counts) / 8;

__global__ void __launch_bounds__(NT) end_kernel(const __grid_constant__ kvl_step_end s)
{
  __shared__ kvl_step_outcome outcome;
  __shared__ unsigned long long first; // least of the digests that differ
  static_assert(sizeof outcome % 8 == 0 && offsetof(kvl_step_outcome, counts) % 8 == 0, "written in words");
  for (uint32_t i = threadIdx.x; i < sizeof outcome / 8; i += NT) {
    ((uint64_t *)&outcome)[i] = 0;
  }
  if (threadIdx.x == 0) {
    first = UINT64_MAX;
  }
  const uint32_t check = *s.check; // from the host: under way while counters are summed
  __syncthreads();

  // Counters: a thread takes one counter of one point and every 32nd entry or so.
  const uint32_t counters = s.points * COUNT_WORDS;
  const uint32_t shares = counters > 0 ? max(1u, min(NT / counters, s.entries)) : 1;
  for (uint32_t i = threadIdx.x; i < counters * shares; i += NT) {
    uint32_t share = i / counters;
    uint32_t counter = i - share * counters;
    const kvl_resolve_counts *counts = s.point[counter / COUNT_WORDS].counts;
    uint64_t sum = 0;
#pragma unroll 4
    for (uint32_t e = share; e < s.entries; e += shares) {
      sum += ((const uint64_t *)(counts + e))[counter % COUNT_WORDS];
    }
    if (sum > 0) {
      atomicAdd((unsigned long long *)&outcome.counts[0] + counter, (unsigned long long)sum);
    }
  }
  for (uint32_t e = threadIdx.x; e < s.entries; e += NT) {
    uint32_t copies = s.copy_count != nullptr ? s.copy_count[e] : 0;
    uint32_t dropped = s.drop_count != nullptr ? s.drop_count[e] : 0;
    if (copies > 0) {
      atomicAdd(&outcome.copies, copies);
    }
    if (dropped > 0) {
      atomicAdd(&outcome.dropped, dropped);
    }
  }

  const uint32_t each = s.entries * s.queries_max;
  const uint64_t all = check != 0 ? (uint64_t)s.readers * each : 0;
  uint32_t digests = 0;
  uint32_t different = 0;
  uint32_t rows = 0;
#pragma unroll 4
  for (uint64_t i = threadIdx.x; i < all; i += NT) {
    uint32_t r = (uint32_t)i / each;
    uint32_t at = (uint32_t)i - r * each;
    uint32_t e = at / s.queries_max;
    uint32_t p = s.point_of_reader[r];
    uint64_t digest = s.digest[i]; // loaded whether it is used or not, so that many loads are under way
    bool used = s.entry[e].request != KVL_NONE && at - e * s.queries_max < s.entry[e].query_count;
    uint64_t witness = s.witness[(uint64_t)(s.witness_of_reader != nullptr ? s.witness_of_reader[r] : p) * each + at];
    uint32_t n = s.point[p].query[at].n;
    digests += used;
    rows += used ? n : 0;
    if (used && digest != witness) {
      different++;
      atomicMin(&first, (unsigned long long)i);
    }
  }
  digests = __reduce_add_sync(~0u, digests);
  different = __reduce_add_sync(~0u, different);
  rows = __reduce_add_sync(~0u, rows);
  if ((threadIdx.x & 31) == 0 && digests > 0) {
    atomicAdd((unsigned long long *)&outcome.digests, (unsigned long long)digests);
    atomicAdd((unsigned long long *)&outcome.mismatches, (unsigned long long)different);
    atomicAdd((unsigned long long *)&outcome.rows_checked, (unsigned long long)rows);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    bool none = first == UINT64_MAX;
    uint32_t at = none ? 0 : (uint32_t)(first % each);
    outcome.first_reader = none ? UINT32_MAX : (uint32_t)(first / each);
    outcome.first_entry = none ? UINT32_MAX : at / s.queries_max;
    outcome.first_query = none ? UINT32_MAX : at % s.queries_max;
    outcome.begin_ns = s.stamps != nullptr ? s.stamps[0] : 0;
    outcome.end_ns = now_ns();
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < sizeof outcome / 8; i += NT) {
    ((uint64_t *)s.outcome)[i] = ((const uint64_t *)&outcome)[i];
  }
}

} // namespace

extern "C" int kvl_step_end_cuda(const struct kvl_step_end *end, void *context)
{
  if (end->queries_max == 0 || end->queries_max > KVL_STEP_QUERIES || end->points > KVL_STEP_POINTS || end->entries > 65535 ||
      (uint64_t)end->readers * end->entries * end->queries_max > UINT32_MAX) {
    return -EINVAL;
  }
  end_kernel<<<1, NT, 0, (cudaStream_t)context>>>(*end);
  return launched();
}
