// Which hot slots make room, exactly: a counting sort of the stamps; within a stamp slots ascend, because each warp walks a contiguous
// range of slots and a prefix over (stamp, warp) says where its share begins. Included by resolve.cu only.
#ifndef KVL_KERNELS_VICTIMS_CUH
#define KVL_KERNELS_VICTIMS_CUH

#include "kernels/cluster.cuh"

namespace {

constexpr int BINS = 1024;        // distinct stamps sorted at once
constexpr int DENSE = 64;         // of those, non-empty ones placed at once
constexpr uint32_t FEW = 4;       // so few are numbered by ballots, where block 0 prepares
constexpr int KEYS = 4096;        // hot slots that the threads of a block hold in registers; larger hot caches are walked tile by tile
constexpr uint32_t NEVER = UINT32_MAX; // key of a slot that may not be a victim

template <int NT> struct block_memory; // resolve.cu: has `victim` (below), `scan`, `old` and `stamps`

template <int NT> struct victim_memory {
  uint32_t hist[BINS];          // slots by stamp, then where that stamp's victims begin
  uint16_t dense[BINS];         // number of a stamp among the non-empty ones
  uint32_t start[DENSE];
  uint32_t count[NT / 32][DENSE];
};

// Where victims go: to shared memory, or to global memory when there are more than fit.
struct victim_sink {
  uint2 *shared; // and the row that the slot holds
  uint32_t *global;
  bool here;
  __device__ void put(uint32_t at, uint32_t slot, kvl_row row) const
  {
    if (here) {
      shared[at] = uint2{slot, (uint32_t)row};
    } else {
      global[at] = slot;
    }
  }
};

// The `need` slots (fewer when there are not as many) with the smallest (stamp, slot) among those neither used in transaction `seq` nor
// pinned, in that order, to `out`. Returns how many. Whole block. A warp walks a contiguous range of slots, EACH * 32 of them (a tile) in
// registers at a time. Any stamps, any size.
template <int NT>
__device__ __noinline__ uint32_t pick_any(block_memory<NT> &s, const uint32_t *stamp, const uint32_t *pinned,
                                          const kvl_row *row_of_place, uint32_t hot_rows, uint32_t seq, uint32_t need,
                                          victim_sink out)
{
  constexpr int EACH = KEYS / NT;
  victim_memory<NT> &v = s.victim;
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5;
  const uint32_t tiles = (hot_rows + NT * EACH - 1) / (NT * EACH);
  const uint32_t from = warp * tiles * (EACH * 32) + lane;
  uint32_t key[EACH];
  auto load = [&](uint32_t tile) {
    uint32_t pins[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      uint32_t slot = from + (tile * EACH + i) * 32;
      key[i] = slot < hot_rows ? __ldcg(stamp + slot) : NEVER;
      pins[i] = slot < hot_rows ? __ldcg(pinned + slot / 32) : 0;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      key[i] = key[i] == seq || ((pins[i] >> lane) & 1u) ? NEVER : key[i];
    }
  };

  uint32_t oldest = NEVER;
  for (uint32_t t = 0; t < tiles; t++) {
    load(t);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      oldest = min(oldest, key[i]);
    }
  }
  for (uint32_t b = threadIdx.x; b < BINS; b += NT) {
    v.hist[b] = 0;
  }
  oldest = block_min<NT>(oldest, s.scan);

  uint32_t placed = 0;
  while (placed < need && oldest != NEVER) {
    uint32_t next = NEVER; // the oldest stamp beyond this window
    for (uint32_t t = 0; t < tiles; t++) {
      if (tiles > 1) {
        load(t);
      }
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        if (key[i] - oldest < BINS && key[i] != NEVER) { // what is placed already wraps around to a large difference
          atomicAdd(&v.hist[key[i] - oldest], 1u);
        } else if (key[i] > oldest) {
          next = min(next, key[i]);
        }
      }
    }
    __syncthreads();
    constexpr int BINS_EACH = (BINS + NT - 1) / NT;
    uint32_t size[BINS_EACH];
    uint32_t slots = 0;
    uint32_t kinds = 0;
#pragma unroll
    for (int i = 0; i < BINS_EACH; i++) {
      size[i] = v.hist[threadIdx.x * BINS_EACH + i];
      slots += size[i];
      kinds += size[i] > 0;
    }
    uint32_t window;
    uint32_t stamps;
    uint32_t start = block_scan<NT>(slots, s.scan, &window);
    uint32_t number = block_scan<NT>(kinds, s.scan, &stamps);
    uint32_t used = 0; // stamps that have a victim; they come first
#pragma unroll
    for (int i = 0; i < BINS_EACH; i++) {
      uint32_t bin = threadIdx.x * BINS_EACH + i;
      bool use = size[i] > 0 && placed + start < need;
      v.hist[bin] = start;
      v.dense[bin] = use ? (uint16_t)number : (uint16_t)UINT16_MAX;
      used = use ? number + 1 : used;
      number += size[i] > 0;
      start += size[i];
    }
    for (uint32_t i = threadIdx.x; i < DENSE * (NT / 32); i += NT) {
      v.count[i / DENSE][i % DENSE] = 0;
    }
    stamps = ~block_min<NT>(~used, s.scan); // the maximum
    for (uint32_t low = 0; low < stamps; low += DENSE) {
      uint32_t at[EACH]; // number of a slot among those of its warp and stamp
      uint32_t d[EACH];
      for (int pass = 0; pass < (tiles > 1 ? 2 : 1); pass++) { // several tiles: count, then place; one tile: registers keep what is needed
        for (uint32_t t = 0; t < tiles; t++) {
          if (tiles > 1) {
            load(t);
          }
#pragma unroll
          for (int i = 0; i < EACH; i++) {
            d[i] = NEVER;
            if (key[i] - oldest < BINS && key[i] != NEVER) {
              uint32_t bin = v.dense[key[i] - oldest];
              d[i] = bin != UINT16_MAX ? bin - low : NEVER;
            }
          }
#pragma unroll
          for (int i = 0; i < EACH; i++) {
            uint32_t candidates = __ballot_sync(~0u, d[i] < DENSE);
            if (candidates != 0) {
              if (d[i] < DENSE) {
                uint32_t peers = __match_any_sync(candidates, d[i]);
                uint32_t leader = __ffs(peers) - 1;
                uint32_t before = 0;
                if (lane == leader) {
                  before = atomicAdd(&v.count[warp][d[i]], (uint32_t)__popc(peers));
                }
                before = __shfl_sync(peers, before, leader);
                at[i] = before + __popc(peers & ((1u << lane) - 1));
                if (pass == 1) {
                  if (placed + at[i] < need) {
                    out.put(placed + at[i], from + (t * EACH + i) * 32, __ldcg(row_of_place + from + (t * EACH + i) * 32));
                  }
                }
              }
              __syncwarp();
            }
          }
        }
        if (pass == 0) {
          for (uint32_t bin = threadIdx.x; bin < BINS; bin += NT) { // where each of these stamps begins
            if (v.dense[bin] != UINT16_MAX && (uint32_t)v.dense[bin] - low < DENSE) {
              v.start[v.dense[bin] - low] = v.hist[bin];
            }
          }
          __syncthreads();
          if (threadIdx.x < DENSE && low + threadIdx.x < stamps) {
            uint32_t n[NT / 32];
#pragma unroll
            for (int w = 0; w < NT / 32; w++) {
              n[w] = v.count[w][threadIdx.x];
            }
            uint32_t begin = v.start[threadIdx.x];
#pragma unroll
            for (int w = 0; w < NT / 32; w++) {
              v.count[w][threadIdx.x] = begin;
              begin += n[w];
            }
          }
          __syncthreads();
        }
      }
      if (tiles == 1) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
          if (d[i] < DENSE) {
            uint32_t victim = placed + v.count[warp][d[i]] + at[i];
            if (victim < need) {
              out.put(victim, from + i * 32, __ldcg(row_of_place + from + i * 32));
            }
          }
        }
      }
      if (low + DENSE < stamps) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < DENSE * (NT / 32); i += NT) {
          v.count[i / DENSE][i % DENSE] = 0;
        }
        __syncthreads();
      }
    }
    placed = min(need, placed + window);
    if (placed < need) {
      oldest = block_min<NT>(next, s.scan);
      for (uint32_t b = threadIdx.x; b < BINS; b += NT) {
        v.hist[b] = 0;
      }
      __syncthreads();
    }
  }
  __syncthreads();
  return placed;
}

// A hot cache of at most KEYS rows has its slots' ages in registers; all warps share a small one. Bins ascend from the oldest: 0 is "never
// used"; a slot that may not be a victim is NEVER.
template <int NT> struct ages_held {
  static constexpr int EACH = KEYS / NT;
  uint32_t bin[EACH]; // stamps, until classified
  uint32_t pins[EACH];
  kvl_row row[EACH];  // in the slot
  int turns;
  uint32_t from;
  // Look-ups change stamps; the rest may be loaded while they go on.
  template <bool STAMPS, bool REST>
  __device__ void load(const uint32_t *stamps, const uint32_t *pinned, const kvl_row *rows, uint32_t hot_rows, uint32_t seq)
  {
    turns = hot_rows > KEYS ? 0 : (int)((hot_rows + NT - 1) / NT);
    from = (threadIdx.x >> 5) * (uint32_t)turns * 32 + (threadIdx.x & 31);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      uint32_t slot = from + i * 32;
      bool real = i < turns && slot < hot_rows;
      if constexpr (STAMPS) {
        bin[i] = real ? __ldcg(stamps + slot) : seq;
      }
      if constexpr (REST) {
        pins[i] = real ? __ldcg(pinned + slot / 32) : 0;
        row[i] = real ? __ldcg(rows + slot) : KVL_NONE;
      }
    }
  }
  // Whether a slot was used too long ago for the bins. (A row below -1 there is not; it is compared so that the load is waited for here.)
  __device__ bool classify(uint32_t seq)
  {
    bool old = false;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      uint32_t age = seq - bin[i]; // 0: used now
      bool never = bin[i] == 0;
      bool spared = age == 0 || ((pins[i] >> (threadIdx.x & 31)) & 1u);
      old |= (!spared && !never && age > BINS - 1) || row[i] < KVL_NONE;
      bin[i] = spared ? NEVER : never ? 0 : BINS - age;
    }
    return old;
  }
};

template <int NT> __device__ void clear_victims(block_memory<NT> &s)
{
  victim_memory<NT> &v = s.victim;
#pragma unroll
  for (int i = 0; i < BINS / NT; i++) {
    v.hist[threadIdx.x * (BINS / NT) + i] = 0;
  }
#pragma unroll
  for (int i = 0; i < DENSE * (NT / 32) / NT; i++) {
    (&v.count[0][0])[threadIdx.x + i * NT] = 0;
  }
  if (threadIdx.x == 0) {
    s.stamps = 0;
  }
}

// The same for a hot cache of at most KEYS rows in which every slot was used in the last BINS - 2 transactions or never: what happens all
// the time, in half the steps. PREPARED: clear_victims, and a barrier, came before.
template <int NT, bool PREPARED>
__device__ uint32_t pick_victims(block_memory<NT> &s, const ages_held<NT> &held, const uint32_t *stamp, const uint32_t *pinned,
                                 const kvl_row *row_of_place, uint32_t hot_rows,
                                 uint32_t seq, uint32_t need, const victim_sink &out)
{
  constexpr int EACH = KEYS / NT;
  constexpr int BINS_EACH = BINS / NT > 0 ? BINS / NT : 1;
  static_assert(BINS % NT == 0, "a thread has whole bins");
  victim_memory<NT> &v = s.victim;
  if (hot_rows > KEYS || s.old != 0) {
    return pick_any<NT>(s, stamp, pinned, row_of_place, hot_rows, seq, need, out);
  }
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t warp = threadIdx.x >> 5;
  const int turns = held.turns;
  const uint32_t from = held.from;
  if constexpr (!PREPARED) {
    clear_victims<NT>(s);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    if (i < turns && held.bin[i] < BINS) {
      atomicAdd(&v.hist[held.bin[i]], 1u); // one match a warp and one addition a bin instead: measured, 20 % slower in all
    }
  }
  __syncthreads();
  uint32_t size[BINS_EACH];
  uint32_t both = 0; // slots, and non-empty bins in the upper half
#pragma unroll
  for (int i = 0; i < BINS_EACH; i++) {
    size[i] = v.hist[threadIdx.x * BINS_EACH + i];
    both += size[i] + (size[i] > 0 ? 0x10000u : 0u);
  }
  uint32_t all;
  both = block_scan<NT>(both, s.scan, &all);
#pragma unroll
  for (int i = 0; i < BINS_EACH; i++) {
    uint32_t start = both & 0xffff;
    uint32_t number = both >> 16;
    bool use = size[i] > 0 && start < need;
    v.hist[threadIdx.x * BINS_EACH + i] = start;
    v.dense[threadIdx.x * BINS_EACH + i] = use ? (uint16_t)number : (uint16_t)UINT16_MAX;
    if (use && (start + size[i] >= need || start + size[i] == (all & 0xffff))) {
      s.stamps = number + 1; // the last one with a victim
    }
    if (use && number < DENSE) {
      v.start[number] = start;
    }
    both += size[i] + (size[i] > 0 ? 0x10000u : 0u);
  }
  __syncthreads();
  const uint32_t stamps = s.stamps;
  for (uint32_t low = 0; low < stamps; low += DENSE) {
    uint32_t d[EACH];
    uint32_t at[EACH]; // number of a slot among those of its warp and stamp
    if (low > 0) {
      __syncthreads();
      for (uint32_t i = threadIdx.x; i < DENSE * (NT / 32); i += NT) {
        (&v.count[0][0])[i] = 0;
      }
      for (uint32_t i = threadIdx.x; i < BINS; i += NT) {
        if (v.dense[i] != UINT16_MAX && (uint32_t)v.dense[i] - low < DENSE) {
          v.start[v.dense[i] - low] = v.hist[i];
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      d[i] = NEVER;
      if (i < turns && held.bin[i] < BINS) {
        uint32_t number = v.dense[held.bin[i]];
        d[i] = number != UINT16_MAX ? number - low : NEVER;
      }
    }
    if (PREPARED && stamps - low <= FEW) { // ballots do not wait for one another
#pragma unroll
      for (uint32_t n = 0; n < FEW; n++) {
        if (n < stamps - low) {
          uint32_t before = 0;
#pragma unroll
          for (int i = 0; i < EACH; i++) {
            uint32_t peers = __ballot_sync(~0u, d[i] == n);
            at[i] = d[i] == n ? before + __popc(peers & ((1u << lane) - 1)) : n == 0 ? 0 : at[i];
            before += __popc(peers);
          }
          if (lane == n) {
            v.count[warp][n] = before;
          }
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        at[i] = 0;
        if (i < turns && __any_sync(~0u, d[i] < DENSE)) { // the same for the whole warp
          uint32_t peers = __match_any_sync(~0u, d[i]);
          uint32_t before = __popc(peers & ((1u << lane) - 1));
          if (d[i] < DENSE) {
            at[i] = v.count[warp][d[i]] + before;
          }
          __syncwarp();
          if (d[i] < DENSE && before == 0) {
            v.count[warp][d[i]] = at[i] + __popc(peers);
          }
          __syncwarp();
        }
      }
    }
    __syncthreads();
    if (threadIdx.x < DENSE && low + threadIdx.x < stamps) {
      uint32_t n[NT / 32];
#pragma unroll
      for (int w = 0; w < NT / 32; w++) {
        n[w] = v.count[w][threadIdx.x];
      }
      uint32_t begin = v.start[threadIdx.x];
#pragma unroll
      for (int w = 0; w < NT / 32; w++) {
        v.count[w][threadIdx.x] = begin;
        begin += n[w];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      if (i < turns && d[i] < DENSE) {
        uint32_t victim = v.count[warp][d[i]] + at[i];
        if (victim < need) {
          out.put(victim, from + i * 32, held.row[i]);
        }
      }
    }
  }
  __syncthreads();
  return min(need, all & 0xffff);
}

} // namespace

#endif
