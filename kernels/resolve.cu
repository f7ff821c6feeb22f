// Fused resolve on the GPU: look-up, dedup, victims, fetch and final addresses in one launch. Rules: resolve.h; arguments: resolve_batch.h.
//
// One request is worked on by a cluster of 1 to 8 blocks (1 below sm_90), so that one request alone uses eight multiprocessors and a full
// batch fills the chip. A cluster's blocks run together by definition, meet at hardware barriers and write into each other's shared memory:
// no spinning, no assumption about scheduling. Registers: 128 a thread at most (512 threads a multiprocessor), held by the launch bounds;
// no spills.
//
//   look up   Every block takes its share of the lanes. Page map and dense map are read at once (independent loads); a hit stamps its slot.
//             A miss claims its row with atomicMax(place_of_row[row], -1 - lane): whatever the order, the first lane of the request wins.
//             Claims are negative, so a concurrent look-up of that row still sees "not here": look-ups read the state before the
//             transaction.
//   barrier   The blocks tell each other how many lanes missed. None: done.
//   dedup     A block reads back its claims: lanes that won are the distinct misses. It sets their bits in every block of the cluster and
//             starts their host reads, into registers.
//   victims   Block 0 picks the oldest slots, in order (victims.cuh), into every block.
//   barrier
//   place     The rank of a winning lane among all (a prefix sum over bit words) is its place in order of first appearance: the rank-th
//             victim, or overflow. Addresses are written, rows stored as they arrive, then maps and stamps.
//
// Determinism: no result depends on the order in which atomics or blocks run.
#include <cuda_runtime.h>

#include <cerrno>

#include "kernels/clock.cuh"
#include "kernels/cluster.cuh"
#include "kernels/resolve_batch.h"
#include "kernels/victims.cuh"

namespace {

constexpr int OWN = 1024;         // lanes of a block whose misses are listed in shared memory; more are listed in the work memory
constexpr int WORDS = KVL_LANES_MAX / 32;
constexpr int GROUP = 4;          // neighbouring lanes of one block; groups go to blocks in turn, so that misses spread evenly
constexpr uint32_t CLUSTER_MAX = 8; // 16 was tried: its barriers cost what its reads gain

struct rank_memory {
  uint32_t prefix[WORDS];       // winning lanes before a word
};

template <int NT> struct block_memory {
  union {
    victim_memory<NT> victim;
    rank_memory rank;
  };
  kvl_resolve_entry entry;
  uint32_t lists[6][OWN];
  uint32_t slot[OWN];           // victims, when there are no more
  uint32_t first[WORDS];        // bit per lane of the request: it won its row
  uint32_t scan[NT / 32 + 1];
  uint32_t misses_of[CLUSTER_MAX];
  uint32_t tier[KVL_TIERS + 2]; // counters, violations, nothing to count
  uint32_t misses, own, doubles, old, stamps;
  uint32_t found;               // victims found
};

// The misses of a block, in three lists without order: lanes that missed; of those, the first of its row in the request (own: this block
// fetches it); the others.
struct miss_lists {
  uint32_t *lane, *row;
  uint32_t *own_lane, *own_row; // own_lane becomes the address it goes to
  uint32_t *double_lane, *double_first;
};

// Loads go out in two waves: entry, queries and rows; then head, dense map and page map, before it is known whether the row may be seen.
template <int NT>
__device__ uint64_t look_up(block_memory<NT> &s, const miss_lists &miss, const kvl_resolve_batch &b, uint32_t slots, uint32_t worker,
                            uint32_t workers,
                            uint32_t lanes, kvl_cache_head &head)
{
  const kvl_resolve_entry &e = s.entry;
  const uint32_t lane_id = threadIdx.x & 31;
  const uint32_t hot_rows = b.geometry.hot_rows;
  const uint32_t shift = b.geometry.page_shift;
  const kvl_row *rows = b.rows + (size_t)blockIdx.y * lanes;
  const kvl_batch_query *queries = b.query + (size_t)blockIdx.y * b.queries_max;
  kvl_addr *addresses = b.addresses + (size_t)blockIdx.y * lanes;
  uint64_t tally = 0; // a byte a tier: a thread has at most 32768 / 256 lanes
  bool first_turn = true;
  auto lane_of = [&](uint32_t slot) { return (slot / GROUP * workers + worker) * GROUP + slot % GROUP; };
  auto row_of = [&](uint32_t slot) { return slot < slots && lane_of(slot) < lanes ? (uint32_t)rows[lane_of(slot)] : UINT32_MAX; };
  uint32_t next_row = row_of(threadIdx.x);
#pragma unroll 1
  for (uint32_t slot = threadIdx.x; slot - lane_id < slots || first_turn; slot += NT) {
    uint32_t lane = lane_of(slot);
    bool real = slot < slots && lane < lanes;
    uint32_t row = next_row;
    uint32_t q = 0;
    int32_t boundary = 0;
    if (real) {
      q = b.queries_max > 1 ? lane / b.k : 0;
      kvl_batch_query query = queries[q];
      boundary = query.boundary;
      row = lane - q * b.k < query.n ? row : UINT32_MAX;
    }
    next_row = row_of(slot + NT);
    if (first_turn) { // the entry, loaded by the first warps, is needed from here on
      first_turn = false;
      __syncthreads();
      if (e.request == KVL_NONE) {
        return 0;
      }
      head = *e.head;
    }
    row = q < e.query_count ? row : UINT32_MAX;
    uint32_t page = row >> shift;
    kvl_frame frame = page < e.pages ? __ldg(e.frame_of_page + page) : KVL_NONE;
    int32_t place = KVL_PLACE_EMPTY;
    if (row < e.rows_max && (!e.whole || frame < 0)) {
      place = __ldcg(e.place_of_row + row);
    }
    uint32_t visible = min((uint32_t)max(boundary, 0), head.committed + head.scratch);
    kvl_addr addr = KVL_NONE;
    uint32_t tier = KVL_TIERS + 1; // nothing to count
    bool missed = false;
    if (row >= visible) {
      tier = row == UINT32_MAX ? KVL_TIERS + 1 : KVL_TIERS;
    } else if (row >= head.tail_first) {
      bool scratch = row >= head.committed;
      tier = scratch ? KVL_TIER_SCRATCH : KVL_TIER_TAIL;
      addr = scratch ? e.bases.scratch + (kvl_addr)(row - head.committed) : e.bases.tail + __ldg(e.tail_place + row % b.geometry.tail_rows);
    } else if (frame >= 0) {
      tier = KVL_TIER_PAGE;
      addr = (kvl_addr)((uint32_t)e.bases.frames + b.geometry.frame_offset_rows + (uint32_t)frame * b.geometry.frame_stride_rows +
                        (row & ((1u << shift) - 1)));
    } else if (place >= 0) {
      bool hot = (uint32_t)place < hot_rows;
      tier = hot ? KVL_TIER_HOT : KVL_TIER_BANK;
      addr = place + (hot ? e.bases.hot : e.bases.bank - (int32_t)hot_rows);
      if (hot) {
        e.stamp[place] = head.seq + 1;
      }
    } else {
      tier = KVL_TIER_HOST;
      missed = true;
      atomicMax(e.place_of_row + row, -1 - (int32_t)lane);
    }
    tally += UINT64_C(1) << (8 * tier);
    uint32_t missed_lanes = __ballot_sync(~0u, missed);
    if (missed_lanes != 0) {
      uint32_t at = 0;
      if (lane_id == 0) {
        at = atomicAdd(&s.misses, (uint32_t)__popc(missed_lanes));
      }
      at = __shfl_sync(~0u, at, 0) + __popc(missed_lanes & ((1u << lane_id) - 1));
      if (missed) {
        miss.lane[at] = lane;
        miss.row[at] = row;
      }
    }
    if (real && !missed) {
      addresses[lane] = addr;
    }
  }
  return tally;
}

// Adds the block's counts by tier to the request's counters.
template <int NT> __device__ void count_tiers(block_memory<NT> &s, uint64_t tally, kvl_resolve_counts &counts)
{
  const uint32_t lane_id = threadIdx.x & 31;
  for (int half = 0; half < 2; half++) { // tiers 0, 2, 4, 6, then 1, 3, 5, 7, in 16-bit fields that hold a warp's sum
    uint64_t fields = (tally >> (8 * half)) & UINT64_C(0x00ff00ff00ff00ff);
    uint32_t low = __reduce_add_sync(~0u, (uint32_t)fields);
    uint32_t high = __reduce_add_sync(~0u, (uint32_t)(fields >> 32));
    uint32_t n = ((lane_id & 2 ? high : low) >> (16 * (lane_id & 1))) & 0xffff;
    if (lane_id < 4 && n > 0) {
      atomicAdd(&s.tier[2 * lane_id + half], n);
    }
  }
  __syncthreads();
  if (threadIdx.x <= KVL_TIERS && s.tier[threadIdx.x] > 0) { // lanes[KVL_TIERS] is violations, its neighbour
    atomicAdd((unsigned long long *)&counts.lanes[0] + threadIdx.x, (unsigned long long)s.tier[threadIdx.x]);
  }
}

// V: the widest vector that divides a row. THREADS: of a multiprocessor; 65,536 / THREADS registers each.
template <int NT, int THREADS, typename V>
__global__ void __launch_bounds__(NT, THREADS / NT) resolve_kernel(const __grid_constant__ kvl_resolve_batch b)
{
  __shared__ block_memory<NT> s;
  constexpr int AHEAD = 6; // vectors a thread has in flight from the host
  const kvl_resolve_entry &e = s.entry;
  const uint32_t lanes = b.queries_max * b.k;
  const uint32_t words = (lanes + 31) / 32;
  const uint32_t blocks = gridDim.x;
  const uint32_t block = blockIdx.x;
  const uint32_t workers = blocks < 8 ? blocks : blocks - 1; // of a large cluster, block 0 picks victims and does nothing else
  const uint32_t worker = blocks < 8 ? block : block - 1;
  const uint32_t share = ((lanes + GROUP - 1) / GROUP + workers - 1) / workers * GROUP; // lanes of a block, some of them past the last
  const uint32_t slots = worker < workers ? share : 0;
  const uint32_t hot_rows = b.geometry.hot_rows;
  const uint32_t victims_max = min(lanes, hot_rows);
  const cluster_barrier barrier = {blocks};
  kvl_addr *addresses = b.addresses + (size_t)blockIdx.y * lanes;

  static_assert(sizeof(kvl_resolve_entry) % 4 == 0 && sizeof(kvl_resolve_entry) / 4 <= NT, "one word a thread");
  if (threadIdx.x < sizeof(kvl_resolve_entry) / 4) {
    ((uint32_t *)&s.entry)[threadIdx.x] = ((const uint32_t *)(b.entry + blockIdx.y))[threadIdx.x];
  }
  if (threadIdx.x < KVL_TIERS + 2) {
    s.tier[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) {
    s.misses = 0;
    s.own = 0;
    s.doubles = 0;
  }
  for (uint32_t w = threadIdx.x; w < words; w += NT) {
    s.first[w] = 0;
  }
  barrier.arrive(); // every block of the cluster has started: below they write into each other's memory

  uint32_t *victims = b.work + (size_t)blockIdx.y * KVL_RESOLVE_WORK_WORDS(lanes, hot_rows);
  miss_lists miss;
  if (slots <= OWN) {
    miss = {s.lists[0], s.lists[1], s.lists[2], s.lists[3], s.lists[4], s.lists[5]};
  } else {
    uint32_t *list = victims + victims_max + worker * 6 * slots;
    miss = {list, list + slots, list + 2 * slots, list + 3 * slots, list + 4 * slots, list + 5 * slots};
  }
  kvl_cache_head head;
  uint64_t tally = look_up<NT>(s, miss, b, slots, worker, workers, lanes, head);
  if (e.request == KVL_NONE) {
    for (uint32_t lane = block * NT + threadIdx.x; lane < lanes; lane += blocks * NT) {
      addresses[lane] = KVL_NONE;
    }
    if (block == 0 && threadIdx.x == 0) {
      b.fetch_count[blockIdx.y] = 0;
    }
    barrier.wait();
    return;
  }
  const uint32_t seq = head.seq + 1;
  barrier.wait();
  __syncthreads();
  const uint32_t misses = s.misses;
  if (threadIdx.x < blocks) {
    store_in_block(&s.misses_of[block], threadIdx.x, misses);
  }
  barrier.arrive();
  barrier.wait();
  uint32_t missed = 0;
  for (uint32_t i = 0; i < blocks; i++) {
    missed += s.misses_of[i];
  }
  if (missed == 0) {
    if (block == 0 && threadIdx.x == 0) {
      e.head->seq = seq;
      b.fetch_count[blockIdx.y] = 0;
      stamp_both(b.stamp);
    }
    count_tiers<NT>(s, tally, b.counts[blockIdx.y]);
    return;
  }

  stamps_held<NT> held;
  if (block == 0) {
    held.load(e.stamp, e.pinned, hot_rows, seq);
  }

  // Dedup: who won its row. Every block of the cluster learns every winner.
  for (uint32_t i = threadIdx.x; i < misses; i += NT) {
    uint32_t lane = miss.lane[i];
    uint32_t row = miss.row[i];
    uint32_t winner = (uint32_t)(-1 - __ldcg(e.place_of_row + row));
    if (winner == lane) {
      uint32_t at = atomicAdd(&s.own, 1u);
      miss.own_lane[at] = lane;
      miss.own_row[at] = row;
      for (uint32_t c = 0; c < blocks; c++) {
        or_in_block(&s.first[lane / 32], c, 1u << (lane & 31));
      }
    } else {
      uint32_t at = atomicAdd(&s.doubles, 1u);
      miss.double_lane[at] = lane;
      miss.double_first[at] = winner;
    }
  }
  __syncthreads();
  // Host reads of this block's own misses before their places are known, as many as registers hold. When they are few they start before
  // block 0 picks victims. Many would make it wait: with the host link busy, every access of the multiprocessor to memory waits behind it
  // (measured; through the bulk copy engine as well, which moreover fetches rows of this size at half the rate).
  const uint32_t own = s.own;
  const uint32_t per_row = (b.fetch_bytes != 0 ? b.fetch_bytes : b.row_bytes) / (uint32_t)sizeof(V);
  const uint32_t units = own * per_row;
  const bool few = units <= NT;
  const uint32_t row_step = NT / per_row;
  const uint32_t unit_step = NT % per_row;
  V ahead[AHEAD];
  uint32_t r = threadIdx.x / per_row;
  uint32_t u = threadIdx.x % per_row;
  uint32_t unit = threadIdx.x;
  auto step = [&](uint32_t &row, uint32_t &column) { // NT vectors on
    row += row_step;
    column += unit_step;
    if (column >= per_row) {
      column -= per_row;
      row++;
    }
  };
  auto from_host = [&](uint32_t row, uint32_t column) {
    return __ldg((const V *)(e.host_rows + (size_t)miss.own_row[row] * b.row_bytes) + column);
  };
  auto to_arena = [&](uint32_t row, uint32_t column) -> V & {
    return ((V *)(b.arena + (size_t)miss.own_lane[row] * b.row_bytes))[column];
  };
  if (few && unit < units) {
    ahead[0] = from_host(r, u);
  }
  count_tiers<NT>(s, tally, b.counts[blockIdx.y]);
  const bool victims_here = missed <= OWN;
  if (block == 0) {
    const victim_sink sink = {s.slot, victims, blocks, victims_here};
    uint32_t found = pick_victims<NT>(s, held, e.stamp, e.pinned, hot_rows, seq, min(missed, victims_max), sink);
    if (threadIdx.x < blocks) {
      store_in_block(&s.found, threadIdx.x, found);
    }
  }
  __syncthreads();
  barrier.arrive();
  if (!few) {
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (unit + i * NT < units) {
        ahead[i] = from_host(r, u);
      }
      step(r, u);
    }
  }
  barrier.wait();

  // Ranks.
  rank_memory &k = s.rank;
  const uint32_t found = s.found;
  uint32_t distinct = 0;
#pragma unroll 1
  for (uint32_t base = 0; base < words; base += NT) {
    uint32_t word = base + threadIdx.x;
    uint32_t total;
    uint32_t before = block_scan<NT>(word < words ? (uint32_t)__popc(s.first[word]) : 0, s.scan, &total);
    if (word < words) {
      k.prefix[word] = distinct + before;
    }
    distinct += total;
  }
  __syncthreads();
  const uint32_t placed = min(found, distinct);
  auto rank_of = [&](uint32_t lane) { return k.prefix[lane / 32] + __popc(s.first[lane / 32] & ((1u << (lane & 31)) - 1)); };
  auto place_of = [&](uint32_t rank) {
    if (rank >= placed) {
      return e.bases.overflow + (kvl_addr)(rank - placed);
    }
    return e.bases.hot + (kvl_addr)(victims_here ? s.slot[rank] : __ldcg(victims + rank));
  };

  // Where this block's rows go, and its addresses.
  for (uint32_t i = threadIdx.x; i < misses - own; i += NT) {
    addresses[miss.double_lane[i]] = place_of(rank_of(miss.double_first[i]));
  }
  for (uint32_t i = threadIdx.x; i < own; i += NT) {
    uint32_t lane = miss.own_lane[i];
    uint32_t rank = rank_of(lane);
    kvl_addr to = place_of(rank);
    addresses[lane] = to;
    if (b.fetches != nullptr) {
      b.fetches[(size_t)blockIdx.y * lanes + rank] = kvl_fetch{(kvl_row)miss.own_row[i], to};
    }
    miss.own_lane[i] = (uint32_t)to;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    stamp_both(b.stamp);
  }

  // Bytes: those under way, then the rest.
  r = threadIdx.x / per_row;
  u = threadIdx.x % per_row;
#pragma unroll
  for (int i = 0; i < AHEAD; i++) {
    if (unit < units) {
      to_arena(r, u) = ahead[i];
    }
    unit += NT;
    step(r, u);
  }
  while (unit < units) {
    uint32_t r0 = r;
    uint32_t u0 = u;
    uint32_t first = unit;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (unit < units) {
        ahead[i] = from_host(r, u);
      }
      unit += NT;
      step(r, u);
    }
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (first + i * NT < units) {
        to_arena(r0, u0) = ahead[i];
      }
      step(r0, u0);
    }
  }

  // State.
  for (uint32_t i = threadIdx.x; i < own; i += NT) {
    uint32_t row = miss.own_row[i];
    uint32_t slot = miss.own_lane[i] - (uint32_t)e.bases.hot;
    bool hot = slot < hot_rows;
    if (hot) {
      kvl_row old = e.row_of_place[slot];
      if (old >= 0) {
        e.place_of_row[old] = KVL_PLACE_EMPTY;
      }
      e.row_of_place[slot] = (kvl_row)row;
      e.stamp[slot] = seq;
    }
    e.place_of_row[row] = hot ? (int32_t)slot : KVL_PLACE_EMPTY;
  }
  if (block == 0 && threadIdx.x == 0) {
    e.head->seq = seq;
    b.fetch_count[blockIdx.y] = distinct;
    atomicAdd((unsigned long long *)&b.counts[blockIdx.y].fetched, (unsigned long long)distinct);
    atomicAdd((unsigned long long *)&b.counts[blockIdx.y].overflow, (unsigned long long)(distinct - placed));
  }
}

template <int NT, int THREADS, typename V> int launch(const kvl_resolve_batch *batch, cudaStream_t stream, uint32_t blocks)
{
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks, batch->entries);
  config.blockDim = dim3(NT);
  config.stream = stream;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = blocks > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, resolve_kernel<NT, THREADS, V>, *batch) == cudaSuccess ? 0 : -EIO;
}

// What a launch depends on, of the current device; asked once a device.
struct device_facts {
  uint32_t multiprocessors;
  uint32_t clusters[4]; // how many clusters of 1, 2, 4, 8 blocks run at once
};

template <int NT, int THREADS> device_facts facts()
{
  static device_facts known[64];
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device < 0 || device >= 64) {
    return device_facts{1, {UINT32_MAX, 0, 0, 0}};
  }
  if (known[device].multiprocessors == 0) {
    int multiprocessors = 1;
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
      return device_facts{1, {UINT32_MAX, 0, 0, 0}};
    }
    device_facts f = {(uint32_t)multiprocessors, {UINT32_MAX, 0, 0, 0}};
    for (uint32_t i = 1; i < 4 && major >= 9; i++) {
      cudaLaunchConfig_t config = {};
      config.gridDim = dim3(1u << i);
      config.blockDim = dim3(NT);
      cudaLaunchAttribute cluster = {};
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim.x = 1u << i;
      cluster.val.clusterDim.y = 1;
      cluster.val.clusterDim.z = 1;
      config.attrs = &cluster;
      config.numAttrs = 1;
      int n = 0;
      f.clusters[i] = cudaOccupancyMaxActiveClusters(&n, resolve_kernel<NT, THREADS, uint4>, &config) == cudaSuccess ? (uint32_t)n : 0;
    }
    cudaGetLastError();
    known[device] = f;
  }
  return known[device];
}

// The largest cluster, up to `cluster` blocks, of which all entries run at once with a multiprocessor a block, and whose blocks have enough
// to do: a small cluster, whose block 0 also looks up, does not pay below NT lanes a block.
template <int NT, int THREADS> int run(const kvl_resolve_batch *batch, void *context, uint32_t cluster)
{
  size_t lanes = (size_t)batch->queries_max * batch->k;
  if (batch->entries == 0) {
    return 0;
  }
  if (batch->entries > 65535 || lanes == 0 || lanes > KVL_LANES_MAX || batch->row_bytes == 0 || batch->row_bytes % 8 != 0 ||
      batch->fetch_bytes % 8 != 0 || batch->fetch_bytes > batch->row_bytes ||
      batch->geometry.evict != KVL_EVICT_LRU || batch->geometry.hot_rows >= (1u << 30) || batch->geometry.bank_rows >= (1u << 30)) {
    return -EINVAL;
  }
  device_facts f = facts<NT, THREADS>();
  uint32_t blocks = 1;
  for (uint32_t i = 1; i < 4 && (1u << i) <= cluster; i++) {
    bool worth = (1u << i) < 8 ? lanes >= (size_t)NT << i : lanes >= 8 * 32;
    if (worth && batch->entries <= f.clusters[i] && batch->entries << i <= f.multiprocessors) {
      blocks = 1u << i;
    }
  }
  cudaStream_t stream = (cudaStream_t)context;
  return (batch->row_bytes | batch->fetch_bytes) % 16 == 0 ? launch<NT, THREADS, uint4>(batch, stream, blocks) : launch<NT, THREADS, uint2>(batch, stream, blocks);
}

// The one a plane uses; the same with half the registers (two blocks a multiprocessor); one block a request whatever the device can do.
int run_cluster(const kvl_resolve_batch *batch, void *context) { return run<512, 512>(batch, context, CLUSTER_MAX); }
int run_cluster_64(const kvl_resolve_batch *batch, void *context) { return run<512, 1024>(batch, context, CLUSTER_MAX); }
int run_block(const kvl_resolve_batch *batch, void *context) { return run<512, 512>(batch, context, 1); }

} // namespace

extern "C" const kvl_resolve_variant kvl_resolve_cuda_variants[] = {
    {"cluster", run_cluster}, {"cluster64", run_cluster_64}, {"block", run_block}, {nullptr, nullptr}};
