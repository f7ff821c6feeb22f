/* Model test of the C reference: random operations on a cache and on the naive oracle, everything compared after every operation.
 *
 * usage: test_resolve_model [SEED [ROUNDS]]. Prints the seed; on a difference the seed, round and operation that reproduce it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "kernels/state_ref.h"
#include "tests/kernels/oracle.h"

enum { LANES = 8192, FRAMES = 4096, QUERIES = 8 };

struct world {
  struct kvl_rng rng;
  struct kvl_cache_geometry g;
  struct kvl_cache_bases b;
  struct kvl_cache *cache, *twin; /* the twin takes `whole` as a hint and no fetch list: same result */
  void *cache_memory, *twin_memory;
  struct kvl_resolve_ws *ws;
  struct oracle o;
  kvl_frame pages[FRAMES];
  uint32_t page_count;
  kvl_row rows[LANES];
  struct kvl_query queries[QUERIES];
  uint32_t query_count, lanes;
  kvl_addr got[LANES], want[LANES], twin_got[LANES];
  struct kvl_fetch got_fetch[LANES], want_fetch[LANES];
  kvl_row got_drop[LANES], want_drop[LANES];
  char what[64];
};

static const char *difference;

#define SAME(condition) \
  do { \
    if (!(condition)) { \
      difference = #condition; \
      return false; \
    } \
  } while (0)

static void *aligned(size_t bytes)
{
  void *p = NULL;
  if (posix_memalign(&p, 64, bytes > 0 ? bytes : 64) != 0) {
    abort();
  }
  return p;
}

static uint32_t pick(struct kvl_rng *rng, const uint32_t *of, uint32_t n)
{
  return of[kvl_rng_below(rng, n)];
}
#define PICK(rng, ...) pick(rng, (const uint32_t[]){__VA_ARGS__}, sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))

static bool same_state(const struct world *w, const struct kvl_cache *cache)
{
  for (uint32_t s = 0; s < w->g.hot_rows; s++) {
    SAME(kvl_cache_hot_row(cache, (kvl_slot)s) == w->o.hot[s]);
    SAME(kvl_cache_hot_stamp(cache, (kvl_slot)s) == w->o.stamp[s]);
  }
  for (uint32_t s = 0; s < w->g.bank_rows; s++) {
    SAME(kvl_cache_bank_row(cache, (kvl_slot)s) == w->o.bank[s]);
  }
  uint32_t tail = 0;
  for (uint32_t p = 0; p < w->g.tail_rows; p++) {
    if (w->o.tail[p] != KVL_NONE) {
      SAME(kvl_cache_tail_place(cache, w->o.tail[p]) == (kvl_slot)p);
      tail++;
    }
  }
  SAME(kvl_cache_tail_rows(cache) == tail);
  SAME(kvl_cache_committed(cache) == w->o.committed);
  SAME(kvl_cache_verify(cache) == 0);
  return true;
}

/* Decoding gives back the tier and place the address was made from. */
static bool decodes(const struct world *w, kvl_addr addr)
{
  kvl_slot place;
  kvl_slot in_frame;
  bool overflow;
  kvl_addr back = KVL_NONE;
  if (addr == KVL_NONE) {
    return true;
  }
  switch (kvl_addr_decode(w->cache, addr, &place, &in_frame, &overflow)) {
  case KVL_TIER_SCRATCH: back = w->b.scratch + place; break;
  case KVL_TIER_TAIL: back = w->b.tail + place; break;
  case KVL_TIER_PAGE:
    SAME(in_frame >= 0 && in_frame < 1 << w->g.page_shift);
    back = w->b.frames + place * (kvl_addr)w->g.frame_stride_rows + (kvl_addr)w->g.frame_offset_rows + in_frame;
    break;
  case KVL_TIER_BANK: back = w->b.bank + place; break;
  case KVL_TIER_HOT: back = w->b.hot + place; break;
  case KVL_TIER_HOST: back = overflow ? w->b.overflow + place : KVL_NONE; break;
  case KVL_TIERS: break;
  }
  SAME(back == addr);
  return true;
}

static kvl_row random_row(struct world *w)
{
  uint32_t top = (uint32_t)w->o.committed + w->o.scratch;
  uint32_t x = kvl_rng_below(&w->rng, 1000);
  if (x < 40 || top == 0) {
    return KVL_NONE;
  }
  if (x < 60) { /* contract violations of every kind */
    return (kvl_row)PICK(&w->rng, top, top + 1, (uint32_t)-2, (uint32_t)INT32_MIN, INT32_MAX, top - 1);
  }
  if (x < 350) {
    return (kvl_row)kvl_rng_below(&w->rng, top);
  }
  if (x < 700) { /* a working set */
    return (kvl_row)kvl_rng_below(&w->rng, top < 40 ? top : 40);
  }
  uint32_t back = (uint32_t)(8.0 * kvl_rng_exponential(&w->rng));
  return (kvl_row)(back < top ? top - 1 - back : 0);
}

static void make_queries(struct world *w, bool pools)
{
  static const uint32_t sizes[] = {0, 1, 4, 8, 16, 40, 64, 200};
  uint32_t top = (uint32_t)w->o.committed + w->o.scratch;
  w->query_count = PICK(&w->rng, 1, 1, 1, 2, 4, 8, 0);
  w->lanes = 0;
  for (uint32_t q = 0; q < w->query_count; q++) {
    uint32_t n = pick(&w->rng, sizes, 8);
    uint32_t below = kvl_rng_below(&w->rng, top + 1);
    w->queries[q] = (struct kvl_query){.n = n, .rows = w->rows + w->lanes};
    w->queries[q].boundary = (kvl_row)PICK(&w->rng, top, top, top, top, top + 5, (uint32_t)w->o.committed, below, 0, (uint32_t)-1,
                                           INT32_MAX);
    for (uint32_t i = 0; i < n; i++) {
      bool again = w->lanes > 0 && kvl_rng_below(&w->rng, 8) == 0;
      w->rows[w->lanes] = again ? w->rows[kvl_rng_below(&w->rng, w->lanes)] : random_row(w);
      w->lanes++;
    }
  }
  if (pools && kvl_rng_below(&w->rng, 2) == 0) { /* as an indexer gives them: runs of rows, ascending */
    for (uint32_t q = 0; q < w->query_count; q++) {
      uint32_t at = kvl_rng_below(&w->rng, top + 1);
      for (uint32_t i = 0; i < w->queries[q].n; i++, at += i % 8 == 0 ? kvl_rng_below(&w->rng, 20) + 1 : 1) {
        w->rows[(size_t)(w->queries[q].rows - w->rows) + i] = (kvl_row)at;
      }
    }
  }
}

static bool op_resolve(struct world *w)
{
  struct kvl_resolve_counts got = {0};
  struct kvl_resolve_counts want = {0};
  struct kvl_resolve_counts twin = {0};
  uint32_t got_n = 77;
  uint32_t want_n = 78;
  make_queries(w, false);
  snprintf(w->what, sizeof w->what, "resolve of %u queries, %u lanes", w->query_count, w->lanes);
  memset(w->got, 0x55, sizeof w->got);
  memset(w->twin_got, 0x55, sizeof w->twin_got);
  SAME(kvl_resolve_ref(w->cache, w->ws, false, w->queries, w->query_count, w->got, w->got_fetch, &got_n, &got) == 0);
  SAME(kvl_resolve_ref(w->twin, w->ws, true, w->queries, w->query_count, w->twin_got, NULL, NULL, &twin) == 0);
  SAME(oracle_resolve(&w->o, w->queries, w->query_count, w->got_fetch, got_n, w->want, w->want_fetch, &want_n, &want));
  SAME(memcmp(w->got, w->want, w->lanes * sizeof w->got[0]) == 0);
  SAME(memcmp(w->got, w->twin_got, w->lanes * sizeof w->got[0]) == 0);
  SAME(w->lanes == LANES || w->got[w->lanes] == 0x55555555);
  SAME(got_n == want_n);
  SAME(memcmp(w->got_fetch, w->want_fetch, got_n * sizeof w->got_fetch[0]) == 0);
  SAME(memcmp(&got, &want, sizeof got) == 0);
  SAME(memcmp(&got, &twin, sizeof got) == 0);
  for (uint32_t i = 0; i < w->lanes; i++) {
    if (!decodes(w, w->got[i])) {
      return false;
    }
  }
  return true;
}

static bool op_announce(struct world *w)
{
  uint32_t got_n;
  uint32_t want_n;
  uint32_t got_dropped;
  uint32_t want_dropped;
  make_queries(w, true);
  snprintf(w->what, sizeof w->what, "announce of %u pools, %u rows", w->query_count, w->lanes);
  oracle_announce(&w->o, w->queries, w->query_count, w->want_fetch, &want_n, w->want_drop, &want_dropped);
  struct kvl_cache *const both[] = {w->cache, w->twin};
  for (int i = 0; i < 2; i++) {
    SAME(kvl_announce_ref(both[i], w->ws, w->queries, w->query_count, w->got_fetch, &got_n, w->got_drop, &got_dropped) == 0);
    SAME(got_n == want_n && got_dropped == want_dropped);
    SAME(memcmp(w->got_fetch, w->want_fetch, got_n * sizeof w->got_fetch[0]) == 0);
    SAME(memcmp(w->got_drop, w->want_drop, got_dropped * sizeof w->got_drop[0]) == 0);
  }
  return true;
}

/* Lends and revokes: pages that are complete on the host, in frames that no other page of the request is in. */
static void op_pages(struct world *w)
{
  uint32_t tail = kvl_cache_tail_rows(w->cache);
  uint32_t whole = ((uint32_t)w->o.committed - tail) >> w->g.page_shift;
  whole = whole < FRAMES ? whole : FRAMES;
  uint32_t share = PICK(&w->rng, 0, 0, 30, 60, 100);
  snprintf(w->what, sizeof w->what, "page map at %u %%", share);
  for (uint32_t p = 0; p < FRAMES; p++) {
    w->pages[p] = p < whole && kvl_rng_below(&w->rng, 100) < share ? (kvl_frame)(FRAMES - 1 - p) : KVL_NONE;
  }
  w->page_count = PICK(&w->rng, whole, FRAMES, whole / 2);
  kvl_cache_set_page_map(w->cache, w->pages, w->page_count);
  kvl_cache_set_page_map(w->twin, w->pages, w->page_count);
  w->o.frame_of_page = w->pages;
  w->o.pages = w->page_count;
}

static bool op_history(struct world *w)
{
  uint32_t kind = kvl_rng_below(&w->rng, 3);
  uint32_t tail = kvl_cache_tail_rows(w->cache);
  uint32_t rows = kind == 0 ? PICK(&w->rng, 1, 2, 6, w->g.scratch_rows, w->g.scratch_rows + 1)
                  : kind == 1 ? kvl_rng_below(&w->rng, w->o.scratch + 2)
                              : kvl_rng_below(&w->rng, tail + 2);
  snprintf(w->what, sizeof w->what, "%s of %u rows", kind == 0 ? "scratch" : kind == 1 ? "commit" : "written_back", rows);
  int want = kind == 0 ? oracle_scratch(&w->o, rows) : kind == 1 ? oracle_commit(&w->o, rows) : oracle_written_back(&w->o, rows);
  struct kvl_cache *const both[] = {w->cache, w->twin};
  for (int i = 0; i < 2; i++) {
    SAME((kind == 0   ? kvl_cache_scratch(both[i], rows)
          : kind == 1 ? kvl_cache_commit(both[i], rows)
                      : kvl_cache_written_back(both[i], rows)) == want);
  }
  return true;
}

static void end_group(struct world *w)
{
  snprintf(w->what, sizeof w->what, "end_group");
  oracle_end_group(&w->o);
  kvl_end_group_ref(w->cache);
  kvl_end_group_ref(w->twin);
}

/* As if many transactions had touched nothing: stamps far apart, so that the list of victims is sorted in buckets of several stamps. */
static void time_passes(struct world *w)
{
  uint32_t transactions = PICK(&w->rng, 1, 30, 2047, 2048, 2049, 9000, 200000);
  snprintf(w->what, sizeof w->what, "%u transactions pass", transactions);
  w->cache->seq += transactions;
  w->twin->seq += transactions;
  w->o.seq += transactions;
}

static bool one_round(struct world *w, uint64_t seed, uint64_t round, uint32_t *op)
{
  kvl_rng_init(&w->rng, seed, "resolve model", round);
  struct kvl_rng *rng = &w->rng;
  bool large = kvl_rng_below(rng, 100) == 0; /* slots beyond 16 bits */
  w->g = (struct kvl_cache_geometry){.page_shift = PICK(rng, 0, 1, 2, 3, 4, 6),
                                     .hot_rows = large ? 70000 : PICK(rng, 0, 1, 2, 7, 8, 31, 32, 33, 64, 200, 333, 2048),
                                     .bank_rows = PICK(rng, 0, 1, 5, 16, 64, 300),
                                     .tail_rows = PICK(rng, 1, 3, 16, 65, 130),
                                     .scratch_rows = PICK(rng, 1, 6, 40),
                                     .evict = (enum kvl_evict)PICK(rng, KVL_EVICT_LRU, KVL_EVICT_LRU, KVL_EVICT_LRU, KVL_EVICT_FIFO,
                                                                   KVL_EVICT_RANDOM)};
  w->g.frame_offset_rows = kvl_rng_below(rng, 10);
  w->g.frame_stride_rows = (1u << w->g.page_shift) + w->g.frame_offset_rows + kvl_rng_below(rng, 5);
  w->b = (struct kvl_cache_bases){.frames = 1000000, .hot = 10, .bank = 80010, .tail = 81000, .scratch = 82000, .overflow = 90000};
  if (kvl_rng_below(rng, 2) == 0) { /* overflow behind the frames */
    w->b.overflow = 2000000;
  }
  w->cache_memory = aligned(kvl_cache_bytes(&w->g));
  w->twin_memory = aligned(kvl_cache_bytes(&w->g));
  memset(w->cache_memory, 0xa5, kvl_cache_bytes(&w->g));
  w->cache = kvl_cache_init(w->cache_memory, &w->g, &w->b, seed);
  w->twin = kvl_cache_init(w->twin_memory, &w->g, &w->b, seed);
  oracle_init(&w->o, &w->g, &w->b);
  kvl_row rows = (kvl_row)PICK(rng, 0, 1, 5, 17, 40, 100, 300, 1000, 5000);
  rows = large ? 100000 : rows;
  bool same = kvl_cache_load(w->cache, rows) == 0 && kvl_cache_load(w->twin, rows) == 0 && oracle_load(&w->o, rows) == 0;
  uint32_t ops = large ? 8 : 20 + kvl_rng_below(rng, 150);
  for (*op = 0; same && *op < ops; (*op)++) {
    uint32_t x = kvl_rng_below(rng, 17);
    if (x == 16) {
      time_passes(w);
    } else if (x < 8) {
      same = op_resolve(w);
    } else if (x < 10) {
      same = op_announce(w);
    } else if (x == 10) {
      end_group(w);
    } else if (x < 13) {
      op_pages(w);
    } else {
      same = op_history(w);
    }
    same = same && same_state(w, w->cache) && same_state(w, w->twin);
  }
  free(w->cache_memory);
  free(w->twin_memory);
  oracle_deinit(&w->o);
  return same;
}

int main(int argc, char **argv)
{
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
  uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : 600;
  struct world *w = calloc(1, sizeof *w);
  void *ws_memory = aligned(kvl_resolve_ws_bytes(LANES));
  if (w == NULL) {
    abort();
  }
  memset(ws_memory, 0xa5, kvl_resolve_ws_bytes(LANES));
  w->ws = kvl_resolve_ws_init(ws_memory, LANES);
  printf("# seed %" PRIu64 ", %" PRIu64 " rounds\n", seed, rounds);
  int failed = 0;
  for (uint64_t r = 0; r < rounds && !failed; r++) {
    uint32_t op = 0;
    if (!one_round(w, seed, r, &op)) {
      printf("not ok 1 - seed %" PRIu64 " round %" PRIu64 " op %u (%s): differs: %s\n", seed, r, op, w->what, difference);
      failed = 1;
    }
  }
  if (!failed) {
    printf("ok 1 - reference equals the naive oracle after every operation\n");
  }
  printf("1..1\n");
  free(ws_memory);
  free(w);
  return failed;
}
