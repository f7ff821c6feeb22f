// Attention's reads and the witness (step.h): rows of a query loaded through its addresses, or from a copy that never moves, and folded into one digest.
//
// A query is worked on by 1 to 8 blocks, a cluster, so that 44 requests fill the chip. A warp takes 16 rows at a time: lanes are dealt the vectors of all of
// them in turn, whatever the row size, five loads under way a lane. Sums are modulo 2^64: their order does not matter. Small blocks, many of them resident,
// were the best of eleven shapes measured (results/hardware/h200-step-kernels.md).
#include "kernels/clock.cuh"
#include "kernels/cluster.cuh"
#include "kernels/device.cuh"
#include "kernels/overlap.cuh"
#include "kernels/step.h"

namespace {

constexpr int NT = 128;
constexpr int RESIDENT = 8;    // blocks of a multiprocessor: 64 registers a thread
constexpr uint32_t ROWS = 16;  // of a warp's turn
constexpr int AHEAD = 5;       // vectors a lane has under way
constexpr uint32_t CLUSTER_MAX = 8;
constexpr uint64_t FACTOR = UINT64_C(0x9e3779b97f4a7c15);

struct digest_work {
  uint32_t queries_max, k, row_bytes;
  const kvl_resolve_entry *entry;
  const kvl_batch_query *query;
  const int32_t *index;      // [queries][k], in rows from `base`
  const unsigned char *base;
  uint64_t slot_bytes;       // added to base, times the entry's request
  uint32_t rows_max;         // an index past it is none
  uint64_t *digest, *stamp;
  uint32_t part_bytes;       // of a row, from `base` on
};

// How a row is cut: 16-byte vectors, 8-byte words, or words put together from bytes when rows are no multiple of eight.
struct by_vector {
  static constexpr uint32_t BYTES = 16;
  uint4 v;
  __device__ void load(const unsigned char *row, uint32_t column, uint32_t) { v = __ldcg((const uint4 *)row + column); }
  __device__ uint64_t sum(uint32_t column) const
  {
    return ((uint64_t)v.y << 32 | (v.x ^ (2 * column))) + ((uint64_t)v.w << 32 | (v.z ^ (2 * column + 1)));
  }
};

struct by_word {
  static constexpr uint32_t BYTES = 8;
  uint2 v;
  __device__ void load(const unsigned char *row, uint32_t column, uint32_t) { v = __ldcg((const uint2 *)row + column); }
  __device__ uint64_t sum(uint32_t column) const { return (uint64_t)v.y << 32 | (v.x ^ column); }
};

struct by_byte {
  static constexpr uint32_t BYTES = 8;
  uint64_t v;
  __device__ void load(const unsigned char *row, uint32_t column, uint32_t row_bytes)
  {
    v = 0;
    for (uint32_t i = 0; i < 8 && column * 8 + i < row_bytes; i++) {
      v |= (uint64_t)row[column * 8 + i] << (8 * i);
    }
  }
  __device__ uint64_t sum(uint32_t column) const { return v ^ column; }
};

__device__ __forceinline__ uint64_t warp_sum(uint64_t value)
{
  for (int d = 16; d > 0; d /= 2) {
    value += __shfl_xor_sync(~0u, value, d);
  }
  return value;
}

template <typename V> __global__ void __launch_bounds__(NT, RESIDENT) digest_kernel(const __grid_constant__ digest_work d, const uint32_t blocks)
{
  __shared__ uint64_t of_warp[NT / 32];
  __shared__ uint32_t of_block[2 * CLUSTER_MAX];
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5;
  const uint32_t at = blockIdx.x / blocks;      // query of the batch
  const uint32_t block = blockIdx.x - at * blocks;
  const uint32_t e = at / d.queries_max;
  const cluster_barrier barrier = {blocks};
  await_previous_launch();
  allow_next_launch(); // every block is there by then
  if (threadIdx.x == 0) {
    stamp_first(d.stamp);
  }
  barrier.arrive(); // below, the blocks of a cluster write into the first one's memory
  const int32_t *index = d.index + (size_t)at * d.k;
  const uint32_t turns = (d.k + ROWS - 1) / ROWS;
  uint32_t turn = block + warp * blocks;
  auto index_of = [&](uint32_t t) { return lane < ROWS && t < turns && t * ROWS + lane < d.k ? index[t * ROWS + lane] : KVL_NONE; };
  int32_t next = index_of(turn); // before it is known how many there are
  const int32_t request = d.entry[e].request;
  const uint32_t query_count = d.entry[e].query_count;
  const uint32_t n_given = d.query[at].n;
  const uint32_t n = request != KVL_NONE && at - e * d.queries_max < query_count ? n_given : 0;
  const unsigned char *base = d.base + (n > 0 ? (uint64_t)(uint32_t)request * d.slot_bytes : 0);
  const uint32_t per_row = (d.part_bytes + V::BYTES - 1) / V::BYTES;
  const uint32_t units = ROWS * per_row;
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
  uint64_t rows_sum = 0;
  uint32_t none_sum = 0; // of 2 i + 1
  for (; turn * ROWS < n; turn += blocks * (NT / 32)) {
    const uint32_t i = turn * ROWS + lane;
    int32_t mine = next;
    next = index_of(turn + blocks * (NT / 32));
    if (i >= n || (uint32_t)mine >= d.rows_max) {
      none_sum += lane < ROWS && i < n ? 2 * i + 1 : 0;
      mine = KVL_NONE;
    }
    uint32_t row = lane / per_row;
    uint32_t column = lane - row * per_row;
    for (uint32_t unit = lane; unit - lane < units; unit += 32 * AHEAD) {
      V v[AHEAD];
      uint32_t r = row;
      uint32_t c = column;
      uint32_t there = 0;
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        int32_t number = __shfl_sync(~0u, mine, r & 31);
        if (unit + a * 32 < units && number >= 0) {
          there |= 1u << a;
          v[a].load(base + (size_t)(uint32_t)number * d.row_bytes, c, d.part_bytes);
        }
        step(r, c);
      }
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        if ((there >> a) & 1) {
          rows_sum += (uint64_t)(2 * (turn * ROWS + row) + 1) * v[a].sum(column);
        }
        step(row, column);
      }
    }
  }
  uint64_t sum = warp_sum(rows_sum * FACTOR + none_sum * KVL_DIGEST_NONE);
  if (lane == 0) {
    of_warp[warp] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < NT / 32 ? of_warp[lane] : 0);
  }
  if (blocks > 1) {
    barrier.wait();
    if (threadIdx.x == 0) {
      store_in_block(&of_block[2 * block], 0, (uint32_t)sum);
      store_in_block(&of_block[2 * block + 1], 0, (uint32_t)(sum >> 32));
    }
    barrier.arrive();
    barrier.wait();
    if (block == 0 && threadIdx.x == 0) {
      sum = 0;
      for (uint32_t b = 0; b < blocks; b++) {
        sum += (uint64_t)of_block[2 * b + 1] << 32 | of_block[2 * b];
      }
    }
  }
  if (threadIdx.x == 0) {
    if (block == 0) {
      d.digest[at] = sum;
    }
    stamp_last(d.stamp);
  }
}

template <typename V> int launch(const digest_work &work, uint32_t queries, uint32_t blocks, bool overlaps, cudaStream_t stream)
{
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(queries * blocks);
  config.blockDim = dim3(NT);
  config.stream = stream;
  cudaLaunchAttribute attribute[2] = {};
  in_clusters(config, attribute, blocks);
  if (overlaps) {
    overlap_previous(config, attribute);
  }
  config.attrs = attribute;
  return cudaLaunchKernelEx(&config, digest_kernel<V>, work, blocks) == cudaSuccess ? 0 : -EIO;
}

int run(const digest_work &work, uint32_t entries, void *context)
{
  if (work.queries_max == 0 || work.queries_max > KVL_STEP_QUERIES || work.row_bytes == 0 || entries > 65535) {
    return -EINVAL;
  }
  const device_size device = current_device();
  if (device.multiprocessors == 0) {
    return -EIO;
  }
  if (entries == 0) {
    return 0;
  }
  const uint32_t queries = entries * work.queries_max;
  uint32_t blocks = 1; // as many as run at once, with something to do for every warp
  while (device.clusters && blocks < CLUSTER_MAX && queries * blocks * 2 <= device.multiprocessors * RESIDENT &&
         work.k >= blocks * 2 * (NT / 32) * ROWS) {
    blocks *= 2;
  }
  const uint64_t alignment = (uintptr_t)work.base | work.slot_bytes | work.row_bytes | work.part_bytes;
  cudaStream_t stream = (cudaStream_t)context;
  return alignment % 16 == 0  ? launch<by_vector>(work, queries, blocks, device.clusters, stream)
         : alignment % 8 == 0 ? launch<by_word>(work, queries, blocks, device.clusters, stream)
                              : launch<by_byte>(work, queries, blocks, device.clusters, stream);
}

} // namespace

namespace {

// A part is a matter of where rows begin and how much of them is read.
bool is_part(uint32_t row_bytes, uint32_t offset, uint32_t bytes)
{
  return bytes == 0 || (bytes % 8 == 0 && offset % 8 == 0 && bytes <= row_bytes && offset <= row_bytes - bytes);
}

} // namespace

extern "C" int kvl_reader_cuda(const struct kvl_reader *r, void *context)
{
  if (!is_part(r->row_bytes, r->part_offset, r->part_bytes)) {
    return -EINVAL;
  }
  const digest_work work = {r->queries_max, r->k, r->row_bytes, r->entry, r->query, r->addresses, r->arena + (r->part_bytes != 0 ? r->part_offset : 0), 0,
                            1u << 31, r->digest, r->stamp, r->part_bytes != 0 ? r->part_bytes : r->row_bytes};
  return run(work, r->entries, context);
}

extern "C" int kvl_witness_cuda(const struct kvl_witness *w, void *context)
{
  if (!is_part(w->row_bytes, w->part_offset, w->part_bytes)) {
    return -EINVAL;
  }
  uint64_t rows = w->row_bytes > 0 ? w->slot_bytes / w->row_bytes : 0;
  const digest_work work = {w->queries_max, w->k, w->row_bytes, w->entry, w->query, w->rows,
                            w->resident + (w->part_bytes != 0 ? w->part_offset : 0), w->slot_bytes, (uint32_t)(rows < (1u << 31) ? rows : 1u << 31),
                            w->digest, nullptr, w->part_bytes != 0 ? w->part_bytes : w->row_bytes};
  return run(work, w->entries, context);
}
