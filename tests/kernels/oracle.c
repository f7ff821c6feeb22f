#include "tests/kernels/oracle.h"

#include <errno.h>
#include <stdlib.h>

static void *xcalloc(size_t n, size_t size)
{
  void *p = calloc(n > 0 ? n : 1, size);
  if (p == NULL) {
    abort();
  }
  return p;
}

void oracle_init(struct oracle *o, const struct kvl_cache_geometry *g, const struct kvl_cache_bases *b)
{
  *o = (struct oracle){.g = *g, .b = *b};
  o->hot = xcalloc(g->hot_rows, sizeof *o->hot);
  o->stamp = xcalloc(g->hot_rows, sizeof *o->stamp);
  o->used = xcalloc(g->hot_rows, sizeof *o->used);
  o->pinned = xcalloc(g->hot_rows, sizeof *o->pinned);
  o->bank = xcalloc(g->bank_rows, sizeof *o->bank);
  o->tail = xcalloc(g->tail_rows, sizeof *o->tail);
  for (uint32_t i = 0; i < g->hot_rows; i++) {
    o->hot[i] = -1;
  }
  for (uint32_t i = 0; i < g->bank_rows; i++) {
    o->bank[i] = -1;
  }
  for (uint32_t i = 0; i < g->tail_rows; i++) {
    o->tail[i] = -1;
  }
}

void oracle_deinit(struct oracle *o)
{
  free(o->hot);
  free(o->stamp);
  free(o->used);
  free(o->pinned);
  free(o->bank);
  free(o->tail);
}

static uint32_t tail_count(const struct oracle *o)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < o->g.tail_rows; i++) {
    n += o->tail[i] != -1;
  }
  return n;
}

int oracle_load(struct oracle *o, kvl_row committed)
{
  if (committed < o->committed || tail_count(o) > 0 || o->scratch > 0) {
    return -EINVAL;
  }
  o->committed = committed;
  return 0;
}

int oracle_scratch(struct oracle *o, uint32_t rows)
{
  if (rows > o->g.scratch_rows) {
    return -ENOSPC;
  }
  o->scratch = rows;
  return 0;
}

int oracle_commit(struct oracle *o, uint32_t rows)
{
  if (rows > o->scratch) {
    return -EINVAL;
  }
  if (tail_count(o) + rows > o->g.tail_rows) {
    return -ENOSPC;
  }
  for (uint32_t i = 0; i < rows; i++) {
    uint32_t place = 0;
    while (o->tail[place] != -1) {
      place++;
    }
    o->tail[place] = o->committed++;
  }
  o->scratch = 0;
  return 0;
}

int oracle_written_back(struct oracle *o, uint32_t rows)
{
  if (rows > tail_count(o)) {
    return -EINVAL;
  }
  for (uint32_t i = 0; i < rows; i++) {
    uint32_t oldest = UINT32_MAX;
    for (uint32_t p = 0; p < o->g.tail_rows; p++) {
      if (o->tail[p] != -1 && (oldest == UINT32_MAX || o->tail[p] < o->tail[oldest])) {
        oldest = p;
      }
    }
    o->tail[oldest] = -1;
  }
  return 0;
}

/* Address of a visible row in a GPU tier, or -1. */
static kvl_addr find(const struct oracle *o, kvl_row row, enum kvl_tier *tier, uint32_t *place)
{
  if (row >= o->committed) {
    *tier = KVL_TIER_SCRATCH;
    *place = (uint32_t)(row - o->committed);
    return o->b.scratch + (kvl_addr)*place;
  }
  for (uint32_t p = 0; p < o->g.tail_rows; p++) {
    if (o->tail[p] == row) {
      *tier = KVL_TIER_TAIL;
      *place = p;
      return o->b.tail + (kvl_addr)p;
    }
  }
  uint32_t rows_per_page = 1u << o->g.page_shift;
  uint32_t page = (uint32_t)row / rows_per_page;
  if (page < o->pages && o->frame_of_page[page] != -1) {
    *tier = KVL_TIER_PAGE;
    *place = page;
    return (kvl_addr)((uint32_t)o->b.frames + (uint32_t)o->frame_of_page[page] * o->g.frame_stride_rows + o->g.frame_offset_rows +
                      (uint32_t)row % rows_per_page);
  }
  for (uint32_t s = 0; s < o->g.bank_rows; s++) {
    if (o->bank[s] == row) {
      *tier = KVL_TIER_BANK;
      *place = s;
      return o->b.bank + (kvl_addr)s;
    }
  }
  for (uint32_t s = 0; s < o->g.hot_rows; s++) {
    if (o->hot[s] == row) {
      *tier = KVL_TIER_HOT;
      *place = s;
      return o->b.hot + (kvl_addr)s;
    }
  }
  *tier = KVL_TIER_HOST;
  return -1;
}

bool oracle_resolve(struct oracle *o, const struct kvl_query *queries, uint32_t query_count, const struct kvl_fetch *told,
                    uint32_t told_count,
                    kvl_addr *addresses, struct kvl_fetch *fetches, uint32_t *fetch_count, struct kvl_resolve_counts *counts)
{
  uint32_t lanes = 0;
  uint32_t missing = 0;
  bool allowed = true;
  o->seq++;
  for (uint32_t q = 0; q < query_count; q++) { /* look everything up first */
    for (uint32_t i = 0; i < queries[q].n; i++, lanes++) {
      kvl_row row = queries[q].rows[i];
      addresses[lanes] = -1;
      if (row == -1) {
        continue;
      }
      if (row < -1 || row >= queries[q].boundary || (int64_t)row >= (int64_t)o->committed + o->scratch) {
        counts->violations++;
        continue;
      }
      enum kvl_tier tier;
      uint32_t place = 0;
      addresses[lanes] = find(o, row, &tier, &place);
      counts->lanes[tier]++;
      if (tier == KVL_TIER_HOT) {
        o->used[place] = o->seq;
        if (o->g.evict == KVL_EVICT_LRU) {
          o->stamp[place] = o->seq;
        }
      }
      if (tier == KVL_TIER_HOST) {
        uint32_t m = 0;
        while (m < missing && fetches[m].row != row) {
          m++;
        }
        if (m == missing) {
          fetches[missing++].row = row;
        }
        addresses[lanes] = -2 - (kvl_addr)m; /* place of miss m: below */
      }
    }
  }
  uint32_t overflow = 0;
  for (uint32_t m = 0; m < missing; m++) { /* then give every distinct miss a place */
    uint32_t victim = UINT32_MAX;
    bool have_empty = false;
    for (uint32_t s = 0; s < o->g.hot_rows; s++) {
      have_empty = have_empty || o->hot[s] == -1;
      if (o->used[s] != o->seq && !o->pinned[s] && (victim == UINT32_MAX || o->stamp[s] < o->stamp[victim])) {
        victim = s;
      }
    }
    if (o->g.evict == KVL_EVICT_RANDOM && victim != UINT32_MAX) {
      int64_t s = m < told_count ? (int64_t)told[m].to - o->b.hot : -1;
      if (s < 0 || s >= o->g.hot_rows || o->used[s] == o->seq || o->pinned[s] || (have_empty && o->hot[s] != -1)) {
        allowed = false;
      } else {
        victim = (uint32_t)s;
      }
    }
    if (victim == UINT32_MAX) {
      fetches[m].to = o->b.overflow + (kvl_addr)overflow++;
    } else {
      o->hot[victim] = fetches[m].row;
      o->stamp[victim] = o->seq;
      o->used[victim] = o->seq;
      fetches[m].to = o->b.hot + (kvl_addr)victim;
    }
  }
  for (uint32_t i = 0; i < lanes; i++) {
    if (addresses[i] <= -2) {
      addresses[i] = fetches[-2 - addresses[i]].to;
    }
  }
  counts->fetched += missing;
  counts->overflow += overflow;
  *fetch_count = missing;
  return allowed;
}

static bool named(const struct oracle *o, const struct kvl_query *pools, uint32_t pool_count, kvl_row row)
{
  for (uint32_t q = 0; q < pool_count; q++) {
    for (uint32_t i = 0; i < pools[q].n; i++) {
      if (pools[q].rows[i] == row && row >= 0 && row < o->committed) {
        return true;
      }
    }
  }
  return false;
}

void oracle_announce(struct oracle *o, const struct kvl_query *pools, uint32_t pool_count, struct kvl_fetch *copies, uint32_t *copy_count,
                     kvl_row *dropped, uint32_t *drop_count)
{
  *copy_count = 0;
  *drop_count = 0;
  for (uint32_t q = 0; q < pool_count; q++) {
    int64_t last = -1;
    for (;;) {
      int64_t row = INT64_MAX; /* the next larger committed row of this pool */
      for (uint32_t i = 0; i < pools[q].n; i++) {
        kvl_row r = pools[q].rows[i];
        if (r > last && r < row && r < o->committed) {
          row = r;
        }
      }
      if (row == INT64_MAX) {
        break;
      }
      last = row;
      if (named(o, pools, q, (kvl_row)row)) {
        continue; /* an earlier query named it */
      }
      enum kvl_tier tier;
      uint32_t place = 0;
      find(o, (kvl_row)row, &tier, &place);
      if (tier == KVL_TIER_HOT) {
        o->pinned[place] = true;
      }
      if (tier != KVL_TIER_HOST) {
        continue;
      }
      uint32_t room = UINT32_MAX;
      for (uint32_t s = 0; s < o->g.bank_rows && room == UINT32_MAX; s++) {
        room = o->bank[s] == -1 ? s : room;
      }
      for (uint32_t s = 0; s < o->g.bank_rows && room == UINT32_MAX; s++) {
        room = named(o, pools, pool_count, o->bank[s]) ? room : s;
      }
      if (room == UINT32_MAX) {
        dropped[(*drop_count)++] = (kvl_row)row;
      } else {
        o->bank[room] = (kvl_row)row;
        copies[(*copy_count)++] = (struct kvl_fetch){(kvl_row)row, o->b.bank + (kvl_addr)room};
      }
    }
  }
}

void oracle_end_group(struct oracle *o)
{
  for (uint32_t s = 0; s < o->g.hot_rows; s++) {
    o->pinned[s] = false;
  }
}
