// Fused resolve on the GPU: look-up, dedup, victims, fetch and final addresses in one launch. Rules: resolve.h; arguments: resolve_batch.h.
//
// One request is worked on by a cluster of 1 to 8 blocks (1 below sm_90), so that one request alone uses eight multiprocessors and a full
// batch fills the chip. A cluster's blocks run together by definition, meet at hardware barriers and write into each other's shared memory:
// no spinning, no assumption about scheduling. Registers: 128 a thread at most (512 threads a multiprocessor), held by the launch bounds;
// no spills, or the build fails: a spilled register that is read back behind host reads waits for them (10 % of a step with misses).
//
//   look up   Every block takes its share of the lanes. Page map and dense map are read at once (independent loads); a hit stamps its slot.
//             A miss claims its row with atomicMax(place_of_row[row], -1 - lane): whatever the order, the first lane of the request wins.
//             Claims are negative, so a concurrent look-up of that row still sees "not here": look-ups read the state before the
//             transaction. What the claim found tells who fetches the row (the first in time: it found it empty) and who won so far.
//   barrier   The blocks tell each other how many lanes missed. None: done.
//   dedup     Every block learns the winners: a bit a lane, flipped on when the lane becomes the first of its row so far and off when another
//             takes over. Each block starts the host reads of the rows it fetches.
//   victims   Block 0 picks the oldest slots, in order (victims.cuh), and tells the others.
//   barrier
//   place     The rank of a winning lane among all (a prefix sum over bit words) is its place in order of first appearance: the rank-th
//             victim, or overflow. Addresses, maps and stamps are written, then rows as they arrive.
//
// The host link, as measured on an H200: with it busy a load from memory, of any multiprocessor nearby, waits behind it, so everything that is
// needed is loaded before the first host read; and it counts requests, of 128 bytes at most, so no line is asked for twice.
//
// Determinism: no result depends on the order in which atomics or blocks run.
#include <cuda_runtime.h>

#include <cerrno>

#include "kernels/clock.cuh"
#include "kernels/cluster.cuh"
#include "kernels/overlap.cuh"
#include "kernels/resolve_batch.h"
#include "kernels/victims.cuh"

namespace {

constexpr int OWN = 1024;         // lanes of a block whose misses are listed in shared memory; more are listed in the work memory
constexpr int AHEAD = 6;          // vectors that a thread has under way from the host
constexpr int WORDS = KVL_LANES_MAX / 32;
constexpr int GROUP = 4;          // neighbouring lanes of one block; groups go to blocks in turn, so that misses spread evenly
constexpr uint32_t SORTED = 96;   // rows of a block, at most, that are fetched in the order of their addresses
constexpr uint32_t PREPARES_MAX = 8; // requests; of 16 and more the loads are in the way of look-ups (0.8 us without misses)
constexpr uint32_t CLUSTER_MAX = 8; // 16 was tried: its barriers cost what its reads gain

template <int NT> struct block_memory {
  victim_memory<NT> victim;
  kvl_resolve_entry entry;
  uint32_t lists[3][OWN];
  uint2 slot[OWN];              // victims and the rows in them, when there are no more
  uint32_t first[WORDS];        // bit per lane of the request: it won its row
  uint32_t prefix[WORDS];       // winning lanes before a word
  uint16_t next[OWN];           // by lane: the lane before it that took its row over from it; one block alone, with few lanes
  uint16_t order[SORTED];       // own misses by row
  uint32_t scan[NT / 32 + 1];
  uint32_t tier[KVL_TIERS + 2]; // counters, violations, nothing to count
  uint32_t misses, doubles;     // lanes of the whole cluster that missed; of them, of rows that another lane fetches
  uint32_t own, others, old, stamps;
  uint32_t found;               // victims found
};

// The lanes of a block that missed, without order. From the front: lanes that claimed their row first in time (own: this block fetches the
// row); from the back: the others. `to`: the lane that won the row, then the address that it goes to.
struct miss_list {
  uint32_t *lane, *row, *to;
  uint32_t room;
  __device__ uint32_t index(uint32_t i, uint32_t own) const { return i < own ? i : room - 1 - (i - own); }
};

// What a lane that missed asked for its row, and what it found there. Looked at a turn later, when the answer has come.
struct claim {
  uint32_t row = UINT32_MAX; // none
  uint32_t lane = 0;
  int32_t seen = 0;
  template <typename memory> __device__ void settle(memory &s, const miss_list &miss, uint32_t blocks, bool linked)
  {
    if (row == UINT32_MAX) {
      return;
    }
    const bool fetches = seen == KVL_PLACE_EMPTY;
    const uint32_t other = fetches ? UINT32_MAX : (uint32_t)(-1 - seen);
    uint32_t at = fetches ? atomicAdd(&s.own, 1u) : miss.room - 1 - atomicAdd(&s.others, 1u);
    miss.lane[at] = lane;
    miss.row[at] = row;
    miss.to[at] = min(lane, other);
    if (linked && !fetches && lane < other) {
      s.next[other] = (uint16_t)lane;
    }
    if (lane < other) { // the first so far: a lane becomes so at most once and is superseded at most once, so bits may flip in any order
#pragma unroll 1
      for (uint32_t c = 0; c < blocks; c++) {
        flip_in_block(&s.first[lane / 32], c, 1u << (lane & 31));
        if (!fetches) {
          flip_in_block(&s.first[other / 32], c, 1u << (other & 31));
        }
      }
    }
    row = UINT32_MAX;
  }
};

// Loads go out in two waves: entry, queries and rows; then head, dense map and page map, before it is known whether the row may be seen.
template <int NT>
__device__ uint64_t look_up(block_memory<NT> &s, const miss_list &miss, const kvl_resolve_batch &b, uint32_t slots, uint32_t worker,
                            uint32_t workers, uint32_t lanes, const cluster_barrier &barrier, bool linked,
                            kvl_cache_head &head, claim &last)
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
    const bool second_later = first_turn;
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
    last.settle(s, miss, barrier.blocks, linked);
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
      last.row = row;
      last.lane = lane;
      last.seen = atomicMax(e.place_of_row + row, -1 - (int32_t)lane);
    }
    tally += UINT64_C(1) << (8 * tier);
    uint32_t missed_lanes = __ballot_sync(~0u, missed);
    if (real && !missed) {
      addresses[lane] = addr;
    }
    if (second_later && barrier.blocks > 1) {
      barrier.wait(); // the other blocks have started
    }
    if (missed_lanes != 0) {
      add_in_all(&s.misses, barrier.blocks, (uint32_t)__popc(missed_lanes));
    }
  }
  return tally;
}

// A warp's counts by tier into the block's. The barrier after the look-up completes them.
template <int NT> __device__ void tally_tiers(block_memory<NT> &s, uint64_t tally)
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
}

// The block's to the request's.
template <int NT> __device__ void count_tiers(const block_memory<NT> &s, kvl_resolve_counts &counts)
{
  if (threadIdx.x <= KVL_TIERS && s.tier[threadIdx.x] > 0) { // lanes[KVL_TIERS] is violations, its neighbour
    atomicAdd((unsigned long long *)&counts.lanes[0] + threadIdx.x, (unsigned long long)s.tier[threadIdx.x]);
  }
}

// Copies from the host run beside everything else, into a ring of shared memory: AHEAD places a thread, which it alone fills and empties. Through
// registers they would not: the compiler has six scoreboards, gives the loads one that other instructions use too, and those then wait for
// the host. `.ca`, not `.cg`: past the first-level cache a warp's rows come in pieces of 32 bytes, at a half to a third of the rate.
template <typename V> __device__ __forceinline__ void start_copy(V *to, const V *from)
{
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "n"(sizeof(V)) : "memory");
}
__device__ __forceinline__ void end_turn() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int TURNS> __device__ __forceinline__ void await_turn() // all but the last TURNS turns have landed
{
  asm volatile("cp.async.wait_group %0;" ::"n"(TURNS) : "memory");
}

// The rows that a warp fetches: every (NT / 32)-th of the block's, each in `chunks` loads of 32 lanes that begin where lines of 128 bytes do, so
// that no line is asked for twice: the host link counts requests.
template <int NT, typename V> struct row_cursor {
  static constexpr uint32_t LINE = 128 / sizeof(V);
  uint32_t row, chunk;
  __device__ row_cursor() : row(threadIdx.x >> 5), chunk(0) {}
  __device__ void next(uint32_t chunks)
  {
    if (++chunk == chunks) {
      chunk = 0;
      row += NT / 32;
    }
  }
  __device__ static uint32_t chunks_of(uint32_t per_row) { return (per_row + LINE - 1 + 31) / 32; }
  __device__ uint32_t unit(uint32_t from) const // past the row for lanes that have no part of it
  {
    return chunk * 32 + (threadIdx.x & 31) - from / (uint32_t)sizeof(V) % LINE;
  }
};

// V: the widest vector that divides a row. PREPARES: while look-ups go on, block 0 gets ready to pick victims, in case any are wanted.
template <int NT, typename V, bool PREPARES>
__global__ void __launch_bounds__(NT, 1) resolve_kernel(const __grid_constant__ kvl_resolve_batch b)
{
  __shared__ block_memory<NT> s;
  extern __shared__ uint4 ring_memory[];
  V *const ring = (V *)ring_memory + threadIdx.x; // place t: ring[t * NT]
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
  await_previous_launch();
  if (threadIdx.x < sizeof(kvl_resolve_entry) / 4) {
    ((uint32_t *)&s.entry)[threadIdx.x] = ((const uint32_t *)(b.entry + blockIdx.y))[threadIdx.x];
  }
  if (threadIdx.x < KVL_TIERS + 2) {
    s.tier[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) {
    s.misses = 0;
    s.doubles = 0;
    s.old = 0;
    s.own = 0;
    s.others = 0;
  }
  for (uint32_t w = threadIdx.x; w < words; w += NT) {
    s.first[w] = 0;
  }
  barrier.arrive(); // every block of the cluster has started: below they write into each other's memory

  uint32_t *victims = b.work + (size_t)blockIdx.y * KVL_RESOLVE_WORK_WORDS(lanes, hot_rows);
  miss_list miss = {s.lists[0], s.lists[1], s.lists[2], slots};
  if (slots > OWN) {
    uint32_t *list = victims + victims_max + worker * 3 * slots;
    miss = {list, list + slots, list + 2 * slots, slots};
  }
  const bool linked = blocks == 1 && lanes <= OWN;
  kvl_cache_head head;
  claim last;
  uint64_t tally = look_up<NT>(s, miss, b, slots, worker, workers, lanes, barrier, linked, head, last);
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
  tally_tiers<NT>(s, tally);
  barrier.arrive();
  if (blocks == 1) {
    __syncthreads();
  }
  // Loads go out before the answers to the claims are waited for. One block alone has all its hits stamped by now.
  ages_held<NT> held;
  if constexpr (PREPARES) {
    if (block == 0) {
      held.template load<false, true>(e.stamp, e.pinned, e.row_of_place, hot_rows, seq);
      clear_victims<NT>(s);
    }
  } else if (blocks == 1 && s.misses > 0) {
    held.template load<true, true>(e.stamp, e.pinned, e.row_of_place, hot_rows, seq);
  }
  last.settle(s, miss, blocks, linked);
  barrier.wait();
  const uint32_t missed = s.misses;
  if (missed == 0) {
    // Not with misses: the next launch's blocks would lie on other multiprocessors than this one's, and host rows are found faster by the
    // multiprocessor that read rows of the same request before: it has their pages' translations (a step of V4.1 took 20 % longer).
    allow_next_launch();
    if (block == 0 && threadIdx.x == 0) {
      e.head->seq = seq;
      b.fetch_count[blockIdx.y] = 0;
      stamp_both(b.stamp);
    }
    count_tiers<NT>(s, b.counts[blockIdx.y]);
    return;
  }
  const bool picks = block == 0;
  if (picks) {
    if (blocks > 1) {
      held.template load<true, !PREPARES>(e.stamp, e.pinned, e.row_of_place, hot_rows, seq);
    }
    if (held.classify(seq)) {
      s.old = 1;
    }
  }
  __syncthreads();
  const uint32_t own = s.own;
  const uint32_t others = s.others;
  // The lanes that won each row, where that was another lane: read back before the map changes.
  auto read_winners = [&]() {
    for (uint32_t i = threadIdx.x; i < own + others; i += NT) {
      uint32_t at = miss.index(i, own);
      uint32_t lane = miss.to[at];
      auto won = [&]() { return (s.first[lane / 32] >> (lane & 31)) & 1; };
      if (linked) {
        while (!won()) {
          lane = s.next[lane];
        }
      } else if (!won()) {
        lane = (uint32_t)(-1 - __ldcg(e.place_of_row + miss.row[at]));
      }
      miss.to[at] = lane;
    }
  };
  // Host reads of this block's rows start before their places are known, as many as the ring holds. Once they are under way, a load of this
  // multiprocessor from memory returns only behind them (measured). So block 0, which picks victims, has what it needs for that in
  // registers by now; when it has not, or when others wait for it, its reads start afterwards.
  const uint32_t per_row = (b.fetch_bytes != 0 ? b.fetch_bytes : b.row_bytes) / (uint32_t)sizeof(V);
  const uint32_t chunks = row_cursor<NT, V>::chunks_of(per_row);
  // By address: a bare gather, a block a request, gains a quarter by it (neighbours in time share translations); here it costs nothing.
  const bool sorted = own <= SORTED;
  if (sorted && threadIdx.x < own) {
    uint32_t row = miss.row[threadIdx.x];
    uint32_t below = 0;
    for (uint32_t i = 0; i < own; i++) {
      below += miss.row[i] < row;
    }
    s.order[below] = (uint16_t)threadIdx.x;
  }
  __syncthreads();
  row_cursor<NT, V> in;
  auto which = [&](uint32_t i) { return sorted ? s.order[i] : i; };
  auto start = [&](int t) {
    if (in.row < own) {
      const unsigned char *from = e.host_rows + (size_t)miss.row[which(in.row)] * b.row_bytes;
      uint32_t unit = in.unit((uint32_t)(uintptr_t)from);
      if (unit < per_row) {
        start_copy(ring + t * NT, (const V *)from + unit);
      }
      in.next(chunks);
    }
    end_turn();
  };
  auto start_all = [&]() {
    if (own > 0) {
#pragma unroll
      for (int t = 0; t < AHEAD; t++) {
        start(t);
      }
    }
  };
  const bool early = !picks || (blocks == 1 && hot_rows <= KEYS);
  if (blocks == 1) {
    read_winners();
  } else if (others > 0 && threadIdx.x < 32) {
    add_in_all(&s.doubles, blocks, others);
  }
  if (!picks) {
    barrier.arrive();
  }
  if (early) {
    start_all();
  }
  const bool victims_here = missed <= OWN;
  if (picks) {
    const victim_sink sink = {s.slot, victims, victims_here};
    uint32_t found = pick_victims<NT, PREPARES>(s, held, e.stamp, e.pinned, e.row_of_place, hot_rows, seq, min(missed, victims_max), sink);
    if (threadIdx.x < blocks) {
      store_in_block(&s.found, threadIdx.x, found);
    }
    for (uint32_t i = threadIdx.x; victims_here && i < found * blocks; i += NT) {
      uint32_t c = i & (blocks - 1);
      if (c != 0) {
        store_in_block(&s.slot[i / blocks], c, s.slot[i / blocks]);
      }
    }
    barrier.arrive();
    if (!early) {
      start_all();
    }
  }
  count_tiers<NT>(s, b.counts[blockIdx.y]);
  barrier.wait();
  const uint32_t doubles = s.doubles; // of a cluster
  if (doubles > 0) {
    read_winners();
    barrier.arrive();
    barrier.wait();
  }

  // Ranks: winning lanes before each word.
  uint32_t distinct = 0;
#pragma unroll 1
  for (uint32_t base = 0; base < words; base += NT) {
    uint32_t word = base + threadIdx.x;
    uint32_t total;
    uint32_t before = block_scan<NT>(word < words ? (uint32_t)__popc(s.first[word]) : 0, s.scan, &total);
    if (word < words) {
      s.prefix[word] = distinct + before;
    }
    distinct += total;
  }
  __syncthreads();

  const uint32_t found = s.found;
  const uint32_t placed = min(found, distinct);
  auto rank_of = [&](uint32_t lane) { return s.prefix[lane / 32] + __popc(s.first[lane / 32] & ((1u << (lane & 31)) - 1)); };
  const bool known = blocks == 1 || doubles > 0; // else every lane that missed won its row
  // Addresses, and the state of the rows that this block fetches.
  for (uint32_t i = threadIdx.x; i < own + others; i += NT) {
    uint32_t at = miss.index(i, own);
    uint32_t lane = miss.lane[at];
    uint32_t rank = rank_of(known ? miss.to[at] : lane);
    uint2 victim = {0, 0};
    bool hot = rank < placed;
    if (hot) {
      if (victims_here) {
        victim = s.slot[rank];
      } else {
        victim.x = __ldcg(victims + rank);
        if (i < own) {
          victim.y = (uint32_t)__ldcg(e.row_of_place + victim.x);
        }
      }
    }
    kvl_addr to = hot ? e.bases.hot + (kvl_addr)victim.x : e.bases.overflow + (kvl_addr)(rank - placed);
    addresses[lane] = to;
    if (i < own) {
      kvl_row row = (kvl_row)miss.row[at];
      if (b.fetches != nullptr) {
        b.fetches[(size_t)blockIdx.y * lanes + rank] = kvl_fetch{row, to};
      }
      miss.to[at] = (uint32_t)to;
      if (hot) {
        if ((kvl_row)victim.y >= 0) {
          e.place_of_row[victim.y] = KVL_PLACE_EMPTY;
        }
        e.row_of_place[victim.x] = row;
        e.stamp[victim.x] = seq;
      }
      e.place_of_row[row] = hot ? (int32_t)victim.x : KVL_PLACE_EMPTY;
    }
  }
  if (block == 0 && threadIdx.x == 0) {
    e.head->seq = seq;
    b.fetch_count[blockIdx.y] = distinct;
    atomicAdd((unsigned long long *)&b.counts[blockIdx.y].fetched, (unsigned long long)distinct);
    atomicAdd((unsigned long long *)&b.counts[blockIdx.y].overflow, (unsigned long long)(distinct - placed));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    stamp_both(b.stamp);
  }

  // Bytes, as they arrive.
  row_cursor<NT, V> out;
  const uint32_t host_low = (uint32_t)(uintptr_t)e.host_rows;
  while (out.row < own) {
#pragma unroll
    for (int t = 0; t < AHEAD; t++) {
      if (out.row >= own) {
        break;
      }
      await_turn<AHEAD - 1>();
      const uint32_t i = which(out.row);
      uint32_t unit = out.unit(host_low + miss.row[i] * b.row_bytes);
      if (unit < per_row) {
        ((V *)(b.arena + (size_t)miss.to[i] * b.row_bytes))[unit] = ring[t * NT];
      }
      out.next(chunks);
      start(t);
    }
  }
}

template <int NT, typename V, bool PREPARES> int launch(const kvl_resolve_batch *batch, cudaStream_t stream, uint32_t blocks, bool overlaps)
{
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks, batch->entries);
  config.blockDim = dim3(NT);
  config.dynamicSmemBytes = AHEAD * NT * sizeof(V);
  config.stream = stream;
  cudaLaunchAttribute attribute[2] = {};
  in_clusters(config, attribute, blocks);
  if (overlaps) {
    overlap_previous(config, attribute);
  }
  config.attrs = attribute;
  return cudaLaunchKernelEx(&config, resolve_kernel<NT, V, PREPARES>, *batch) == cudaSuccess ? 0 : -EIO;
}

// What a launch depends on, of the current device; asked once a device.
struct device_facts {
  uint32_t multiprocessors;
  uint32_t clusters[4]; // how many clusters of 1, 2, 4, 8 blocks run at once
};

template <int NT> device_facts facts()
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
    auto allow = [](void (*kernel)(kvl_resolve_batch), size_t vector) { // the ring of host rows
      return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(AHEAD * NT * vector)) == cudaSuccess;
    };
    if (!allow(resolve_kernel<NT, uint4, false>, sizeof(uint4)) || !allow(resolve_kernel<NT, uint4, true>, sizeof(uint4)) ||
        !allow(resolve_kernel<NT, uint2, false>, sizeof(uint2)) || !allow(resolve_kernel<NT, uint2, true>, sizeof(uint2))) {
      return device_facts{1, {UINT32_MAX, 0, 0, 0}};
    }
    for (uint32_t i = 1; i < 4 && major >= 9; i++) {
      cudaLaunchConfig_t config = {};
      config.gridDim = dim3(1u << i);
      config.blockDim = dim3(NT);
      config.dynamicSmemBytes = AHEAD * NT * sizeof(uint4);
      cudaLaunchAttribute cluster[1] = {};
      in_clusters(config, cluster, 1u << i);
      config.attrs = cluster;
      int n = 0;
      f.clusters[i] = cudaOccupancyMaxActiveClusters(&n, resolve_kernel<NT, uint4, false>, &config) == cudaSuccess ? (uint32_t)n : 0;
    }
    cudaGetLastError();
    known[device] = f;
  }
  return known[device];
}

// The largest cluster, up to `cluster` blocks, of which all entries run at once with a multiprocessor a block, and whose blocks have enough
// to do: a small cluster, whose block 0 also looks up, does not pay below NT lanes a block.
template <int NT> int run(const kvl_resolve_batch *batch, void *context, uint32_t cluster, bool overlap, bool prepare)
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
  device_facts f = facts<NT>();
  uint32_t blocks = 1;
  for (uint32_t i = 1; i < 4 && (1u << i) <= cluster; i++) {
    bool worth = (1u << i) < 8 ? lanes >= (size_t)NT << i : lanes >= 8 * 32;
    if (worth && batch->entries <= f.clusters[i] && batch->entries << i <= f.multiprocessors) {
      blocks = 1u << i;
    }
  }
  cudaStream_t stream = (cudaStream_t)context;
  const bool overlaps = overlap && f.clusters[1] > 0; // sm_90
  const bool vectors = (batch->row_bytes | batch->fetch_bytes) % 16 == 0;
  if (prepare && blocks == CLUSTER_MAX && batch->entries <= PREPARES_MAX) {
    return vectors ? launch<NT, uint4, true>(batch, stream, blocks, overlaps) : launch<NT, uint2, true>(batch, stream, blocks, overlaps);
  }
  return vectors ? launch<NT, uint4, false>(batch, stream, blocks, overlaps) : launch<NT, uint2, false>(batch, stream, blocks, overlaps);
}

// Planes use the first, which in a graph is set up while the node before it ends (0.5 us less a node without misses); the second is the
// same without that, the third one block a request whatever the device can do. (With half the registers and two blocks a multiprocessor it
// spills and takes 12 % longer where rows miss, measured: dropped.) The fourth is the first, but for few requests: half a microsecond less where
// rows miss; it is no plane's until it has been on a GPU as it stands (results/hardware/h200-kernels.md).
int run_overlap(const kvl_resolve_batch *batch, void *context) { return run<512>(batch, context, CLUSTER_MAX, true, false); }
int run_cluster(const kvl_resolve_batch *batch, void *context) { return run<512>(batch, context, CLUSTER_MAX, false, false); }
int run_block(const kvl_resolve_batch *batch, void *context) { return run<512>(batch, context, 1, false, false); }
int run_prepared(const kvl_resolve_batch *batch, void *context) { return run<512>(batch, context, CLUSTER_MAX, true, true); }

} // namespace

extern "C" const kvl_resolve_variant kvl_resolve_cuda_variants[] = {
    {"overlap", run_overlap}, {"cluster", run_cluster}, {"block", run_block}, {"prepared", run_prepared}, {nullptr, nullptr}};
