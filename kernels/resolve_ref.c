/* Resolve, the C reference: three passes over ever fewer lanes, then places for the misses.
 *
 *   1. every lane: range test and page map, without a branch; what is not on a borrowed page is compressed into a list;
 *   2. the rest: first two entries of the row table, without a branch (most hot and bank hits end here);
 *   3. what is left: collisions, misses, tail, scratch, -1, violations.
 *
 * Look-ups of all queries come before the first miss is placed. Duplicate misses need no set of their own: the first one enters the row
 * table, the next finds it there (rows in overflow, which are not in the table, go through the workspace's set). */
#include "kernels/state_ref.h"

#include <errno.h>

static const kvl_frame NO_PAGES[1] = {KVL_NONE};

struct pass {
  uint32_t history; /* rows below it may be on a page, in the bank, hot or on the host */
  uint32_t visible; /* rows below it and at or past `history` are in the tail or the scratch */
};

/* Passes 1 and 2 select by mask, not by condition: half of the lanes go either way at random, and a compiler that sees a condition writes a
 * branch. */
static inline uint32_t mask_of(bool condition)
{
  return 0u - (uint32_t)condition;
}

/* Pass 1. Returns how many lanes are left in rest_row / rest_lane. */
static uint32_t look_in_pages(const struct kvl_cache *c, const kvl_row *restrict rows, uint32_t n, struct pass pass,
                              uint32_t *restrict rest_row,
                              uint32_t *restrict rest_lane, kvl_addr *restrict addresses)
{
  const struct kvl_cache_geometry *g = c->geometry;
  uint32_t shift = g->page_shift;
  uint32_t in_page = (1u << shift) - 1;
  uint32_t stride = g->frame_stride_rows;
  uint32_t base = (uint32_t)c->bases.frames + g->frame_offset_rows;
  const kvl_frame *frames = c->pages > 0 ? c->frame_of_page : NO_PAGES;
  uint64_t mapped = (uint64_t)c->pages << shift;
  uint32_t limit = pass.history < mapped ? pass.history : (uint32_t)mapped;
  const struct kvl_place_entry *table = c->table;
  uint32_t line_shift = c->line_shift;
  uint32_t rest = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t row = (uint32_t)rows[i];
    uint32_t outside = mask_of(row >= limit);
    uint32_t frame = (uint32_t)frames[(row >> shift) & ~outside];
    uint32_t lost = (frame | outside) >> 31;
    addresses[i] = (kvl_addr)((base + frame * stride + (row & in_page)) | (0u - lost)); /* all ones is KVL_NONE */
    rest_row[rest] = row;
    rest_lane[rest] = i;
    rest += lost;
    __builtin_prefetch(&table[kvl_table_pair(row, line_shift) & (0u - lost)]);
  }
  return rest;
}

/* Pass 2, in place. */
static uint32_t look_in_table(const struct kvl_cache *c, struct pass pass, uint32_t *restrict rest_row, uint32_t *restrict rest_lane,
                              uint32_t n,
                              kvl_addr *restrict addresses, uint32_t *restrict hot_hits)
{
  const struct kvl_place_entry *restrict table = c->table;
  uint32_t *restrict used = c->used;
  uint32_t line_shift = c->line_shift;
  uint32_t history = pass.history;
  uint32_t seq = c->seq;
  uint32_t hot_rows = c->geometry->hot_rows;
  uint32_t nowhere = hot_rows + c->geometry->bank_rows;
  uint32_t bank = (uint32_t)c->bases.bank - hot_rows;
  uint32_t bank_to_hot = (uint32_t)c->bases.hot - bank;
  uint32_t rest = 0;
  uint32_t hot_found = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t row = rest_row[i];
    uint32_t lane = rest_lane[i];
    const struct kvl_place_entry *restrict pair = &table[kvl_table_pair(row, line_shift)];
    uint32_t first = mask_of((uint32_t)pair[0].row == row);
    uint32_t second = mask_of((uint32_t)pair[1].row == row);
    uint32_t place = ((uint32_t)pair[0].place & first) | ((uint32_t)pair[1].place & second);
    uint32_t lost = ~(first | second) | mask_of(row >= history);
    uint32_t in_hot = mask_of(place < hot_rows);
    used[(place & ~lost) | (nowhere & lost)] = seq;
    addresses[lane] = (kvl_addr)((place + bank + (bank_to_hot & in_hot)) | lost);
    hot_found -= ~lost & in_hot;
    rest_row[rest] = row;
    rest_lane[rest] = lane;
    rest -= lost;
  }
  *hot_hits = hot_found;
  return rest;
}

/* One query against the state before the transaction. Adds its misses to ws->miss_*; returns how many there are now. */
static uint32_t look_up(struct kvl_cache *c, struct kvl_resolve_ws *ws, bool whole, const struct kvl_query *q, uint32_t first_lane,
                        kvl_addr *addresses, uint32_t misses, struct kvl_resolve_counts *counts)
{
  uint32_t top = c->committed + c->scratch;
  uint32_t boundary = q->boundary > 0 ? (uint32_t)q->boundary : 0;
  struct pass pass = {.visible = boundary < top ? boundary : top};
  pass.history = pass.visible < c->tail_first ? pass.visible : c->tail_first;

  uint32_t rest = look_in_pages(c, q->rows, q->n, pass, ws->row, ws->lane, addresses);
  counts->lanes[KVL_TIER_PAGE] += q->n - rest;
  if (!whole && rest > 0) { /* the direct path expects tail rows only and goes straight to pass 3, which is complete */
    uint32_t hot_hits;
    uint32_t left = look_in_table(c, pass, ws->row, ws->lane, rest, addresses, &hot_hits);
    counts->lanes[KVL_TIER_HOT] += hot_hits;
    counts->lanes[KVL_TIER_BANK] += rest - left - hot_hits;
    rest = left;
  }
  for (uint32_t i = 0; i < rest; i++) {
    uint32_t row = ws->row[i];
    uint32_t lane = ws->lane[i];
    if (row < pass.history) {
      int32_t place = kvl_table_find(c, row);
      if (place == KVL_NONE) {
        ws->miss_row[misses] = row;
        ws->miss_lane[misses] = first_lane + lane;
        misses++;
      } else {
        c->used[place] = c->seq;
        counts->lanes[(uint32_t)place < c->geometry->hot_rows ? KVL_TIER_HOT : KVL_TIER_BANK]++;
        addresses[lane] = kvl_place_addr(c, place);
      }
    } else if (row < pass.visible) {
      bool scratch = row >= c->committed;
      counts->lanes[scratch ? KVL_TIER_SCRATCH : KVL_TIER_TAIL]++;
      addresses[lane] = scratch ? c->bases.scratch + (kvl_addr)(row - c->committed)
                                : c->bases.tail + c->tail_place[row % c->geometry->tail_rows];
    } else if (row != (uint32_t)KVL_NONE) {
      counts->violations++;
    }
  }
  return misses;
}

/* Gives every distinct miss a place, in order of first appearance. Returns how many there are. */
static uint32_t place_misses(struct kvl_cache *c, struct kvl_resolve_ws *ws, uint32_t misses, kvl_addr *addresses,
                             struct kvl_fetch *fetches,
                             struct kvl_resolve_counts *counts)
{
  uint32_t fetched = 0;
  uint32_t overflow = 0;
  for (uint32_t i = 0; i < misses; i++) {
    kvl_row row = (kvl_row)ws->miss_row[i];
    kvl_addr to;
    struct kvl_place_entry *entry = &c->table[kvl_table_seek(c, (uint32_t)row)];
    if (entry->row != KVL_NONE) { /* placed a moment ago */
      addresses[ws->miss_lane[i]] = c->bases.hot + entry->place;
      continue;
    }
    kvl_slot slot = kvl_victim_take(c);
    if (slot == KVL_NONE) {
      bool added;
      if (overflow == 0) {
        kvl_seen_clear(ws);
      }
      uint32_t *number = kvl_seen_add(ws, row, &added);
      if (added) {
        *number = overflow++;
      }
      to = c->bases.overflow + (kvl_addr)*number;
      addresses[ws->miss_lane[i]] = to;
      if (!added) {
        continue;
      }
    } else {
      kvl_row old = c->row_of_place[slot];
      *entry = (struct kvl_place_entry){row, slot}; /* before the removal, which may close up the path to an entry found earlier */
      if (old == KVL_NONE) {
        c->hot_used++;
      } else {
        kvl_table_remove(c, old);
      }
      c->row_of_place[slot] = row;
      c->stamp[slot] = c->seq;
      c->used[slot] = c->seq;
      to = c->bases.hot + slot;
      addresses[ws->miss_lane[i]] = to;
    }
    if (fetches != NULL) {
      fetches[fetched] = (struct kvl_fetch){row, to};
    }
    fetched++;
  }
  counts->lanes[KVL_TIER_HOST] += misses;
  counts->fetched += fetched;
  counts->overflow += overflow;
  return fetched;
}

int kvl_resolve_ref(struct kvl_cache *cache, struct kvl_resolve_ws *ws, bool whole, const struct kvl_query *queries, uint32_t query_count,
                    kvl_addr *addresses, struct kvl_fetch *fetches, uint32_t *fetch_count, struct kvl_resolve_counts *counts)
{
  uint64_t lanes = 0;
  for (uint32_t q = 0; q < query_count; q++) {
    lanes += queries[q].n;
  }
  if (lanes > ws->lanes_max || cache->seq == UINT32_MAX) {
    return -EOVERFLOW;
  }
  cache->seq++;
  if (cache->geometry->hot_rows / 16 <= lanes) {
    for (uint32_t i = 0; i < cache->geometry->hot_rows; i += 16) {
      __builtin_prefetch(&cache->used[i], 1);
    }
  }
  kvl_victim_begin(cache);
  uint32_t misses = 0;
  uint32_t first_lane = 0;
  for (uint32_t q = 0; q < query_count; q++) {
    misses = look_up(cache, ws, whole, &queries[q], first_lane, addresses + first_lane, misses, counts);
    first_lane += queries[q].n;
  }
  uint32_t fetched = misses > 0 ? place_misses(cache, ws, misses, addresses, fetches, counts) : 0;
  if (fetch_count != NULL) {
    *fetch_count = fetched;
  }
  return 0;
}
