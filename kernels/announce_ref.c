/* Prefetch, the C reference: the union of the pools, the bank slots for what is in no GPU tier, the pins. */
#include "kernels/state_ref.h"

#include <errno.h>

/* Pools come sorted from an indexer; a heap sort is the safety net. */
static void sort_rows(kvl_row *a, uint32_t n)
{
  for (uint32_t start = n / 2, end = n; end > 1;) {
    if (start > 0) {
      start--;
    } else {
      end--;
      kvl_row top = a[0];
      a[0] = a[end];
      a[end] = top;
    }
    uint32_t root = start;
    for (uint32_t child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && a[child] < a[child + 1]) {
        child++;
      }
      if (a[root] >= a[child]) {
        break;
      }
      kvl_row top = a[root];
      a[root] = a[child];
      a[child] = top;
    }
  }
}

/* The committed rows of a pool, ascending, each once, into `out`; returns how many. */
static uint32_t clip_pool(const struct kvl_query *pool, uint32_t committed, kvl_row *out)
{
  uint32_t n = 0;
  bool ascending = true;
  for (uint32_t i = 0; i < pool->n; i++) {
    if ((uint32_t)pool->rows[i] < committed) {
      ascending = ascending && (n == 0 || out[n - 1] < pool->rows[i]);
      out[n++] = pool->rows[i];
    }
  }
  if (ascending) {
    return n;
  }
  sort_rows(out, n);
  uint32_t distinct = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (distinct == 0 || out[distinct - 1] != out[i]) {
      out[distinct++] = out[i];
    }
  }
  return distinct;
}

static bool pool_has(const kvl_row *sorted, uint32_t n, kvl_row row)
{
  uint32_t low = 0;
  while (n > 0) {
    uint32_t half = n / 2;
    bool right = sorted[low + half] < row;
    low = right ? low + half + 1 : low;
    n = right ? n - half - 1 : half;
  }
  return sorted[low] == row; /* at worst the KVL_NONE behind the pool */
}

struct pools {
  const kvl_row *sorted; /* pool after pool, each followed by KVL_NONE, which no row equals */
  uint32_t count;
  const uint32_t *first; /* [count + 1] */
};

static bool in_union(const struct pools *p, kvl_row row)
{
  for (uint32_t q = 0; q < p->count; q++) {
    if (pool_has(p->sorted + p->first[q], p->first[q + 1] - p->first[q] - 1, row)) {
      return true;
    }
  }
  return false;
}

/* Is the bank slot's row in the current union? The look-up marked those it found in the bank; a row that a tier before the bank also holds was found
 * there instead, so it has to be searched for. */
static bool slot_is_named(const struct kvl_cache *c, uint32_t slot, const struct pools *p)
{
  if (c->bank_mark[slot] == c->announced) {
    return true;
  }
  uint32_t row = (uint32_t)c->row_of_place[c->geometry->hot_rows + slot];
  bool elsewhere = row >= c->tail_first || kvl_row_frame(c, row) != KVL_NONE;
  return elsewhere && in_union(p, (kvl_row)row);
}

int kvl_announce_ref(struct kvl_cache *cache, struct kvl_resolve_ws *ws, const struct kvl_query *pools, uint32_t pool_count,
                     struct kvl_fetch *copies, uint32_t *copy_count, kvl_row *dropped, uint32_t *drop_count)
{
  struct kvl_cache *c = cache;
  const struct kvl_cache_geometry *g = c->geometry;
  uint64_t lanes = 0;
  for (uint32_t q = 0; q < pool_count; q++) {
    lanes += pools[q].n;
  }
  if (lanes > ws->lanes_max || pool_count > KVL_POOLS_MAX || c->announced == UINT32_MAX) {
    return -EOVERFLOW;
  }
  c->announced++;

  uint32_t first[KVL_POOLS_MAX + 1];
  uint32_t sorted = 0;
  for (uint32_t q = 0; q < pool_count; q++) {
    first[q] = sorted;
    sorted += clip_pool(&pools[q], c->committed, ws->sorted + sorted);
    ws->sorted[sorted++] = KVL_NONE;
  }
  first[pool_count] = sorted;

  /* Look at the union in order; what no tier holds is left in ws->row. */
  if (pool_count > 1) {
    kvl_seen_clear(ws);
  }
  uint32_t missing = 0;
  for (uint32_t i = 0; i < sorted; i++) {
    kvl_row row = ws->sorted[i];
    if (row == KVL_NONE) {
      continue;
    }
    if (pool_count > 1) {
      bool added;
      kvl_seen_add(ws, row, &added);
      if (!added) {
        continue;
      }
    }
    if ((uint32_t)row >= c->tail_first || kvl_row_frame(c, (uint32_t)row) != KVL_NONE) {
      continue;
    }
    int32_t place = kvl_table_find(c, (uint32_t)row);
    if (place == KVL_NONE) {
      ws->row[missing++] = (uint32_t)row;
    } else if ((uint32_t)place >= g->hot_rows) {
      c->bank_mark[(uint32_t)place - g->hot_rows] = c->announced;
    } else if (!kvl_hot_is_pinned(c, (uint32_t)place)) {
      c->pinned[place >> 6] |= UINT64_C(1) << (place & 63);
      c->pins++;
    }
  }

  const struct pools union_of = {ws->sorted, pool_count, first};
  uint32_t copied = 0;
  uint32_t left_out = 0;
  uint32_t cursor = 0; /* slots below it hold rows of the union */
  for (uint32_t i = 0; i < missing; i++) {
    kvl_row row = (kvl_row)ws->row[i];
    uint32_t slot;
    if (c->bank_used < g->bank_rows) {
      slot = c->bank_used++;
    } else {
      while (cursor < g->bank_rows && slot_is_named(c, cursor, &union_of)) {
        cursor++;
      }
      if (cursor == g->bank_rows) {
        dropped[left_out++] = row;
        continue;
      }
      slot = cursor;
      kvl_table_remove(c, c->row_of_place[g->hot_rows + slot]);
    }
    c->bank_mark[slot] = c->announced;
    c->row_of_place[g->hot_rows + slot] = row;
    c->table[kvl_table_seek(c, (uint32_t)row)] = (struct kvl_place_entry){row, (int32_t)(g->hot_rows + slot)};
    copies[copied++] = (struct kvl_fetch){row, c->bases.bank + (kvl_addr)slot};
  }
  *copy_count = copied;
  *drop_count = left_out;
  return 0;
}

void kvl_end_group_ref(struct kvl_cache *cache)
{
  if (cache->pins > 0) {
    for (uint32_t w = 0; w < (cache->geometry->hot_rows + 63) / 64; w++) {
      cache->pinned[w] = 0;
    }
    cache->pins = 0;
  }
  if (cache->order_skipped < cache->order_next) { /* formerly pinned slots are candidates again */
    cache->order_next = cache->order_skipped;
    cache->order_skipped = UINT32_MAX;
  }
}
