/* Resolve, the C reference: three passes over ever fewer lanes, then places for the misses.
 *
 *   1. every lane: range test and page map, without a branch; what is not on a borrowed page is compressed into a list;
 *   2. the rest: first probe of the row table, without a branch (most hot and bank hits end here);
 *   3. what is left: collisions, misses, tail, scratch, -1, violations.
 *
 * Look-ups of all queries come before the first miss is placed. Duplicate misses need no set of their own: the first one enters the row table,
 * the next finds it there (rows in overflow, which are not in the table, go through the workspace's set). */
#include "kernels/state_ref.h"

#include <errno.h>

static const kvl_frame NO_PAGES[1] = {KVL_NONE};

struct pass {
  uint32_t history; /* rows below it may be on a page, in the bank, hot or on the host */
  uint32_t visible; /* rows below it and at or past `history` are in the tail or the scratch */
};

/* Pass 1. Returns how many lanes are left in ws->row / ws->lane. */
static uint32_t look_in_pages(const struct kvl_cache *c, const struct kvl_query *q, struct pass pass, uint32_t *rest_row, uint32_t *rest_lane,
                              kvl_addr *addresses)
{
  const struct kvl_cache_geometry *g = c->geometry;
  uint32_t shift = g->page_shift;
  uint32_t mask = (1u << shift) - 1;
  uint32_t stride = g->frame_stride_rows;
  uint32_t base = (uint32_t)c->bases.frames + g->frame_offset_rows;
  const kvl_frame *frames = c->pages > 0 ? c->frame_of_page : NO_PAGES;
  uint64_t mapped = (uint64_t)c->pages << shift;
  uint32_t limit = pass.history < mapped ? pass.history : (uint32_t)mapped;
  uint32_t rest = 0;
  for (uint32_t i = 0; i < q->n; i++) {
    uint32_t row = (uint32_t)q->rows[i];
    bool inside = row < limit;
    kvl_frame frame = frames[inside ? row >> shift : 0];
    bool found = inside & (frame >= 0);
    addresses[i] = found ? (kvl_addr)(base + (uint32_t)frame * stride + (row & mask)) : KVL_NONE;
    rest_row[rest] = row;
    rest_lane[rest] = i;
    rest += !found;
  }
  return rest;
}

/* Pass 2, in place. */
static uint32_t look_in_table(struct kvl_cache *c, struct pass pass, uint32_t *rest_row, uint32_t *rest_lane, uint32_t n, kvl_addr *addresses,
                              uint64_t *hot_hits)
{
  const struct kvl_place_entry *table = c->table;
  uint32_t *used = c->used;
  uint32_t shift = c->table_shift;
  uint32_t seq = c->seq;
  int32_t hot_rows = (int32_t)c->geometry->hot_rows;
  int32_t nowhere = hot_rows + (int32_t)c->geometry->bank_rows;
  kvl_addr hot = c->bases.hot;
  kvl_addr bank = (kvl_addr)((uint32_t)c->bases.bank - (uint32_t)hot_rows);
  uint32_t rest = 0;
  uint32_t hot_found = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t row = rest_row[i];
    uint32_t lane = rest_lane[i];
    struct kvl_place_entry e = table[kvl_row_hash(row, shift)];
    bool found = (e.row == (kvl_row)row) & (row < pass.history);
    bool in_hot = e.place < hot_rows;
    used[found ? e.place : nowhere] = seq;
    addresses[lane] = found ? e.place + (in_hot ? hot : bank) : KVL_NONE;
    hot_found += found & in_hot;
    rest_row[rest] = row;
    rest_lane[rest] = lane;
    rest += !found;
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

  uint32_t rest = look_in_pages(c, q, pass, ws->row, ws->lane, addresses);
  counts->lanes[KVL_TIER_PAGE] += q->n - rest;
  if (!whole && rest > 0) { /* the direct path expects tail rows only and goes straight to pass 3, which is complete */
    uint64_t hot_hits;
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
      addresses[lane] = scratch ? c->bases.scratch + (kvl_addr)(row - c->committed) : c->bases.tail + c->tail_place[row % c->geometry->tail_rows];
    } else if (row != (uint32_t)KVL_NONE) {
      counts->violations++;
    }
  }
  return misses;
}

/* Gives every distinct miss a place, in order of first appearance. Returns how many there are. */
static uint32_t place_misses(struct kvl_cache *c, struct kvl_resolve_ws *ws, uint32_t misses, kvl_addr *addresses, struct kvl_fetch *fetches,
                             struct kvl_resolve_counts *counts)
{
  uint32_t fetched = 0;
  uint32_t overflow = 0;
  for (uint32_t i = 0; i < misses; i++) {
    kvl_row row = (kvl_row)ws->miss_row[i];
    kvl_addr to;
    int32_t place = kvl_table_find(c, (uint32_t)row);
    if (place != KVL_NONE) { /* placed a moment ago */
      addresses[ws->miss_lane[i]] = c->bases.hot + place;
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
      if (old == KVL_NONE) {
        c->hot_used++;
      } else {
        kvl_table_remove(c, old);
      }
      kvl_table_insert(c, row, slot);
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
