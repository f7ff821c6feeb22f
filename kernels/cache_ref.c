/* State of one cache of one request: memory layout, history, look-at functions, self-check. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "kernels/state_ref.h"

static size_t round_up(size_t bytes)
{
  return (bytes + 63) & ~(size_t)63;
}

/* log2 of the smallest power of two that holds `entries`. */
static uint32_t bits_for(uint64_t entries)
{
  uint32_t bits = 4; /* the hash chooses a line of 8 */
  while ((UINT64_C(1) << bits) < entries) {
    bits++;
  }
  return bits;
}

/* The row table is at most two thirds full with hot rows, one third with bank rows: those come in runs of neighbours, which crowd a line. */
static uint32_t table_bits(const struct kvl_cache_geometry *g)
{
  return bits_for((uint64_t)g->hot_rows * 3 / 2 + 1 + (uint64_t)g->bank_rows * 3);
}

struct layout {
  size_t row_of_place, stamp, used, table, order, pinned, bank_mark, tail_place, tail_taken, bytes;
};

static struct layout lay_out(const struct kvl_cache_geometry *g)
{
  size_t places = (size_t)g->hot_rows + g->bank_rows;
  struct layout l = {0};
  size_t at = round_up(sizeof(struct kvl_cache));
  l.row_of_place = at;
  at += round_up(places * sizeof(kvl_row));
  l.used = at;
  at += round_up((places + 1) * sizeof(uint32_t));
  l.stamp = l.used;
  if (g->evict != KVL_EVICT_LRU) {
    l.stamp = at;
    at += round_up((size_t)g->hot_rows * sizeof(uint32_t));
  }
  l.table = at; /* at a cache line, as are all arrays */
  at += ((size_t)1 << table_bits(g)) * sizeof(struct kvl_place_entry);
  l.order = at;
  at += round_up((size_t)g->hot_rows * sizeof(uint64_t));
  l.pinned = at;
  at += round_up(((size_t)g->hot_rows + 63) / 64 * sizeof(uint64_t));
  l.bank_mark = at;
  at += round_up(((size_t)g->bank_rows + 1) * sizeof(uint32_t));
  l.tail_place = at;
  at += round_up((size_t)g->tail_rows * sizeof(kvl_slot));
  l.tail_taken = at;
  at += round_up(((size_t)g->tail_rows + 63) / 64 * sizeof(uint64_t));
  l.bytes = round_up(at);
  return l;
}

size_t kvl_cache_bytes(const struct kvl_cache_geometry *geometry)
{
  return lay_out(geometry).bytes;
}

struct kvl_cache *kvl_cache_init(void *memory, const struct kvl_cache_geometry *geometry, const struct kvl_cache_bases *bases,
                                 uint64_t random_seed)
{
  struct layout l = lay_out(geometry);
  char *m = memory;
  struct kvl_cache *c = memory;
  assert(((uintptr_t)memory & 63) == 0);
  assert(geometry->page_shift < 31 && geometry->hot_rows <= INT32_MAX / 2 && geometry->bank_rows <= INT32_MAX / 2);
  memset(m, 0, l.bytes);
  c->geometry = geometry;
  c->bases = *bases;
  c->row_of_place = (kvl_row *)(void *)(m + l.row_of_place);
  c->stamp = (uint32_t *)(void *)(m + l.stamp);
  c->used = (uint32_t *)(void *)(m + l.used);
  c->table = (struct kvl_place_entry *)(void *)(m + l.table);
  c->order = (uint64_t *)(void *)(m + l.order);
  c->pinned = (uint64_t *)(void *)(m + l.pinned);
  c->bank_mark = (uint32_t *)(void *)(m + l.bank_mark);
  c->tail_place = (kvl_slot *)(void *)(m + l.tail_place);
  c->tail_taken = (uint64_t *)(void *)(m + l.tail_taken);
  size_t places = (size_t)geometry->hot_rows + geometry->bank_rows;
  uint32_t bits = table_bits(geometry);
  c->line_shift = 35 - bits;
  c->table_mask = (uint32_t)((UINT64_C(1) << bits) - 1);
  c->order_skipped = UINT32_MAX;
  c->random = random_seed;
  for (size_t i = 0; i < places; i++) {
    c->row_of_place[i] = KVL_NONE;
  }
  for (size_t i = 0; i <= c->table_mask; i++) {
    c->table[i].row = KVL_NONE;
  }
  return c;
}

void kvl_cache_set_page_map(struct kvl_cache *cache, const kvl_frame *frame_of_page, uint32_t pages)
{
  cache->frame_of_page = frame_of_page;
  cache->pages = pages;
}

int kvl_cache_load(struct kvl_cache *cache, kvl_row committed)
{
  if (committed < 0 || (uint32_t)committed < cache->committed || cache->tail_first != cache->committed || cache->scratch > 0) {
    return -EINVAL;
  }
  cache->committed = (uint32_t)committed;
  cache->tail_first = (uint32_t)committed;
  return 0;
}

int kvl_cache_scratch(struct kvl_cache *cache, uint32_t rows)
{
  if (rows > cache->geometry->scratch_rows) {
    return -ENOSPC;
  }
  if (rows > (uint32_t)INT32_MAX - cache->committed) {
    return -EINVAL;
  }
  cache->scratch = rows;
  return 0;
}

int kvl_cache_commit(struct kvl_cache *cache, uint32_t rows)
{
  uint32_t tail_rows = cache->geometry->tail_rows;
  if (rows > cache->scratch) {
    return -EINVAL;
  }
  if (rows > tail_rows - (cache->committed - cache->tail_first)) {
    return -ENOSPC;
  }
  uint32_t word = 0;
  for (uint32_t i = 0; i < rows; i++) {
    while (cache->tail_taken[word] == UINT64_MAX) {
      word++;
    }
    uint32_t bit = 0;
    while ((cache->tail_taken[word] >> bit) & 1u) {
      bit++;
    }
    cache->tail_taken[word] |= UINT64_C(1) << bit;
    cache->tail_place[cache->committed % tail_rows] = (kvl_slot)(word * 64 + bit);
    cache->committed++;
  }
  cache->scratch = 0;
  return 0;
}

int kvl_cache_written_back(struct kvl_cache *cache, uint32_t rows)
{
  if (rows > cache->committed - cache->tail_first) {
    return -EINVAL;
  }
  for (uint32_t i = 0; i < rows; i++, cache->tail_first++) {
    uint32_t place = (uint32_t)cache->tail_place[cache->tail_first % cache->geometry->tail_rows];
    cache->tail_taken[place >> 6] &= ~(UINT64_C(1) << (place & 63));
  }
  return 0;
}

kvl_row kvl_cache_committed(const struct kvl_cache *cache)
{
  return (kvl_row)cache->committed;
}

uint32_t kvl_cache_tail_rows(const struct kvl_cache *cache)
{
  return cache->committed - cache->tail_first;
}

kvl_row kvl_cache_hot_row(const struct kvl_cache *cache, kvl_slot slot)
{
  return cache->row_of_place[slot];
}

uint64_t kvl_cache_hot_stamp(const struct kvl_cache *cache, kvl_slot slot)
{
  return cache->stamp[slot];
}

kvl_row kvl_cache_bank_row(const struct kvl_cache *cache, kvl_slot slot)
{
  return cache->row_of_place[cache->geometry->hot_rows + (uint32_t)slot];
}

kvl_slot kvl_cache_tail_place(const struct kvl_cache *cache, kvl_row row)
{
  if (row < 0 || (uint32_t)row < cache->tail_first || (uint32_t)row >= cache->committed) {
    return KVL_NONE;
  }
  return cache->tail_place[(uint32_t)row % cache->geometry->tail_rows];
}

enum kvl_tier kvl_addr_decode(const struct kvl_cache *cache, kvl_addr addr, kvl_slot *place, kvl_slot *row_in_frame, bool *overflow)
{
  const struct kvl_cache_geometry *g = cache->geometry;
  const struct kvl_cache_bases *b = &cache->bases;
  const struct {
    kvl_addr base;
    uint32_t rows;
    enum kvl_tier tier;
  } areas[] = {{b->hot, g->hot_rows, KVL_TIER_HOT},
               {b->bank, g->bank_rows, KVL_TIER_BANK},
               {b->tail, g->tail_rows, KVL_TIER_TAIL},
               {b->scratch, g->scratch_rows, KVL_TIER_SCRATCH}};
  *row_in_frame = 0;
  *overflow = false;
  for (size_t i = 0; i < sizeof areas / sizeof areas[0]; i++) {
    if (addr >= areas[i].base && (uint32_t)(addr - areas[i].base) < areas[i].rows) {
      *place = addr - areas[i].base;
      return areas[i].tier;
    }
  }
  if (addr >= b->overflow && (addr < b->frames || b->overflow > b->frames)) {
    *overflow = true;
    *place = addr - b->overflow;
    return KVL_TIER_HOST;
  }
  uint32_t in_frames = (uint32_t)(addr - b->frames);
  *place = (kvl_slot)(in_frames / g->frame_stride_rows);
  *row_in_frame = (kvl_slot)(in_frames % g->frame_stride_rows - g->frame_offset_rows);
  return KVL_TIER_PAGE;
}

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      return __LINE__; \
    } \
  } while (0)

static int verify_table(const struct kvl_cache *c)
{
  uint32_t places = c->geometry->hot_rows + c->geometry->bank_rows;
  uint32_t hot = 0;
  uint32_t bank = 0;
  uint32_t entries = 0;
  /* every row is found at its place, in one place only, and is committed history outside the tail */
  for (uint32_t p = 0; p < places; p++) {
    kvl_row row = c->row_of_place[p];
    if (row != KVL_NONE) {
      CHECK(row >= 0 && (uint32_t)row < c->committed);
      CHECK(kvl_table_find(c, (uint32_t)row) == (int32_t)p);
      *(p < c->geometry->hot_rows ? &hot : &bank) += 1;
    }
  }
  for (uint32_t h = 0; h <= c->table_mask; h++) { /* and the table holds nothing else */
    if (c->table[h].row != KVL_NONE) {
      CHECK(c->table[h].place >= 0 && (uint32_t)c->table[h].place < places);
      CHECK(c->row_of_place[c->table[h].place] == c->table[h].row);
      entries++;
    }
  }
  CHECK(entries == hot + bank);
  CHECK(hot == c->hot_used);
  CHECK(bank == c->bank_used);
  for (uint32_t s = 0; s < c->geometry->bank_rows; s++) {
    CHECK((c->row_of_place[c->geometry->hot_rows + s] != KVL_NONE) == (s < c->bank_used));
    CHECK(c->bank_mark[s] <= c->announced);
  }
  return 0;
}

static int verify_order(const struct kvl_cache *c)
{
  uint32_t pins = 0;
  for (uint32_t s = 0; s < c->geometry->hot_rows; s++) {
    CHECK(c->stamp[s] <= c->seq && c->used[s] >= c->stamp[s] && c->used[s] <= c->seq);
    CHECK((c->row_of_place[s] == KVL_NONE) == (c->stamp[s] == 0));
    if (kvl_hot_is_pinned(c, s)) {
      CHECK(c->row_of_place[s] != KVL_NONE);
      pins++;
    }
  }
  CHECK(pins == c->pins);
  CHECK(c->order_next <= c->order_end && c->order_end <= c->geometry->hot_rows);
  if (c->geometry->evict == KVL_EVICT_RANDOM) {
    return 0;
  }
  uint32_t live = 0; /* slots that a valid entry still to be looked at stands for */
  uint32_t from = c->order_skipped < c->order_next ? c->order_skipped : c->order_next;
  uint64_t last = 0;
  for (uint32_t i = 0; i < c->order_end; i++) {
    uint32_t slot = (uint32_t)c->order[i];
    CHECK(slot < c->geometry->hot_rows);
    CHECK(i == 0 || c->order[i] > last);
    last = c->order[i];
    live += i >= from && c->stamp[slot] == (uint32_t)(last >> 32);
    CHECK(i >= from || c->stamp[slot] > (uint32_t)(last >> 32));
  }
  uint32_t newer = 0; /* every other slot is newer than the whole list */
  for (uint32_t s = 0; s < c->geometry->hot_rows; s++) {
    newer += c->order_end == 0 || c->stamp[s] >= c->order_seq;
  }
  CHECK(live + newer == c->geometry->hot_rows);
  return 0;
}

int kvl_cache_verify(const struct kvl_cache *cache)
{
  const struct kvl_cache *c = cache;
  CHECK(c->tail_first <= c->committed && c->committed <= INT32_MAX);
  CHECK(c->committed - c->tail_first <= c->geometry->tail_rows);
  CHECK(c->scratch <= c->geometry->scratch_rows);
  uint32_t taken = 0;
  for (uint32_t w = 0; w < (c->geometry->tail_rows + 63) / 64; w++) {
    for (uint64_t bits = c->tail_taken[w]; bits != 0; bits &= bits - 1) {
      taken++;
    }
  }
  CHECK(taken == c->committed - c->tail_first);
  /* as many rows as taken places, each on a taken place: with `taken` above and ... */
  for (uint32_t row = c->tail_first; row < c->committed; row++) {
    uint32_t place = (uint32_t)c->tail_place[row % c->geometry->tail_rows];
    CHECK(place < c->geometry->tail_rows && ((c->tail_taken[place >> 6] >> (place & 63)) & 1u));
    for (uint32_t other = c->tail_first; other < row; other++) { /* ... no place twice, the places are exactly the taken ones */
      CHECK((uint32_t)c->tail_place[other % c->geometry->tail_rows] != place);
    }
  }
  int line = verify_table(c);
  return line != 0 ? line : verify_order(c);
}

/* The workspace. */

size_t kvl_resolve_ws_bytes(uint32_t lanes_max)
{
  size_t list = round_up(((size_t)lanes_max + KVL_POOLS_MAX) * sizeof(uint32_t));
  size_t seen = ((size_t)1 << bits_for((uint64_t)lanes_max * 3 / 2 + 1)) * sizeof(struct kvl_seen);
  return round_up(sizeof(struct kvl_resolve_ws)) + 5 * list + seen;
}

struct kvl_resolve_ws *kvl_resolve_ws_init(void *memory, uint32_t lanes_max)
{
  size_t list = round_up(((size_t)lanes_max + KVL_POOLS_MAX) * sizeof(uint32_t));
  uint32_t bits = bits_for((uint64_t)lanes_max * 3 / 2 + 1);
  struct kvl_resolve_ws *ws = memory;
  char *m = (char *)memory + round_up(sizeof *ws);
  assert(((uintptr_t)memory & 63) == 0);
  memset(ws, 0, sizeof *ws);
  ws->lanes_max = lanes_max;
  ws->row = (uint32_t *)(void *)m;
  ws->lane = (uint32_t *)(void *)(m + list);
  ws->miss_row = (uint32_t *)(void *)(m + 2 * list);
  ws->miss_lane = (uint32_t *)(void *)(m + 3 * list);
  ws->sorted = (kvl_row *)(void *)(m + 4 * list);
  ws->seen = (struct kvl_seen *)(void *)(m + 5 * list);
  ws->seen_shift = 32 - bits;
  ws->seen_mask = (uint32_t)((UINT64_C(1) << bits) - 1);
  ws->epoch = UINT32_MAX; /* the first clear starts from zeroed entries */
  return ws;
}

void kvl_seen_clear(struct kvl_resolve_ws *ws)
{
  if (ws->epoch == UINT32_MAX) {
    memset(ws->seen, 0, ((size_t)ws->seen_mask + 1) * sizeof ws->seen[0]);
    ws->epoch = 0;
  }
  ws->epoch++;
}
