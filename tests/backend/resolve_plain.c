#include "tests/backend/resolve_plain.h"

#include <stdbool.h>
#include <string.h>

static bool is_pinned(const struct kvl_resolve_entry *e, uint32_t slot)
{
  return (e->pinned[slot / 32] >> (slot % 32) & 1u) != 0;
}

static kvl_frame frame_of(const struct kvl_resolve_entry *e, const struct kvl_cache_geometry *g, kvl_row row)
{
  uint32_t page = (uint32_t)row >> g->page_shift;
  return page < e->pages ? e->frame_of_page[page] : KVL_NONE;
}

/* The address and tier of a row before the transaction; KVL_TIER_HOST: nowhere on the GPU. */
static enum kvl_tier find(const struct kvl_resolve_entry *e, const struct kvl_cache_geometry *g, kvl_row row, kvl_addr *addr)
{
  const struct kvl_cache_head *h = e->head;
  if ((uint32_t)row >= h->committed) {
    *addr = e->bases.scratch + row - (kvl_row)h->committed;
    return KVL_TIER_SCRATCH;
  }
  if ((uint32_t)row >= h->tail_first) {
    *addr = e->bases.tail + e->tail_place[(uint32_t)row % g->tail_rows];
    return KVL_TIER_TAIL;
  }
  kvl_frame frame = frame_of(e, g, row);
  if (frame != KVL_NONE) {
    *addr = e->bases.frames + (kvl_addr)((uint32_t)frame * g->frame_stride_rows + g->frame_offset_rows + ((uint32_t)row & ((1u << g->page_shift) - 1)));
    return KVL_TIER_PAGE;
  }
  int32_t place = e->place_of_row[row];
  if (place == KVL_PLACE_EMPTY) {
    return KVL_TIER_HOST;
  }
  bool hot = (uint32_t)place < g->hot_rows;
  *addr = hot ? e->bases.hot + place : e->bases.bank + place - (int32_t)g->hot_rows;
  return hot ? KVL_TIER_HOT : KVL_TIER_BANK;
}

/* The smallest (stamp, slot) that this transaction has not used and nobody has pinned. */
static int32_t victim(const struct kvl_resolve_entry *e, uint32_t hot_rows)
{
  int32_t best = KVL_NONE;
  for (uint32_t s = 0; s < hot_rows; s++) {
    if (e->stamp[s] != e->head->seq && !is_pinned(e, s) && (best == KVL_NONE || e->stamp[s] < e->stamp[best])) {
      best = (int32_t)s;
    }
  }
  return best;
}

static void resolve_entry(const struct kvl_resolve_batch *b, uint32_t i)
{
  const struct kvl_resolve_entry *e = &b->entry[i];
  const struct kvl_cache_geometry *g = &b->geometry;
  uint64_t first = (uint64_t)i * b->queries_max * b->k;
  kvl_addr *addresses = b->addresses + first;
  const kvl_row *rows = b->rows + first;
  for (uint32_t l = 0; l < b->queries_max * b->k; l++) {
    addresses[l] = KVL_NONE;
  }
  b->fetch_count[i] = 0;
  if (e->request == KVL_NONE) {
    return;
  }
  struct kvl_cache_head *h = e->head;
  h->seq++;
  for (uint32_t q = 0; q < e->query_count; q++) {
    const struct kvl_batch_query *query = &b->query[i * b->queries_max + q];
    for (uint32_t k = 0; k < query->n; k++) {
      uint32_t l = q * b->k + k;
      kvl_row row = rows[l];
      if (row == KVL_NONE) {
        continue;
      }
      if (row < 0 || row >= query->boundary || (uint32_t)row >= h->committed + h->scratch) {
        b->counts[i].violations++;
        continue;
      }
      enum kvl_tier tier = find(e, g, row, &addresses[l]);
      b->counts[i].lanes[tier]++;
      if (tier == KVL_TIER_HOT) {
        e->stamp[addresses[l] - e->bases.hot] = h->seq;
      } else if (tier == KVL_TIER_HOST) {
        addresses[l] = -2; /* to be placed */
      }
    }
  }
  uint32_t overflow = 0;
  for (uint32_t l = 0; l < e->query_count * b->k; l++) {
    if (addresses[l] != -2) {
      continue;
    }
    int32_t slot = victim(e, g->hot_rows);
    kvl_addr to = slot == KVL_NONE ? e->bases.overflow + (kvl_addr)overflow++ : e->bases.hot + slot;
    if (slot != KVL_NONE) {
      if (e->row_of_place[slot] != KVL_NONE) {
        e->place_of_row[e->row_of_place[slot]] = KVL_PLACE_EMPTY;
      }
      e->row_of_place[slot] = rows[l];
      e->place_of_row[rows[l]] = slot;
      e->stamp[slot] = h->seq;
    } else {
      b->counts[i].overflow++;
    }
    if (b->arena != NULL) {
      memcpy(b->arena + (uint64_t)(uint32_t)to * b->row_bytes, e->host_rows + (uint64_t)(uint32_t)rows[l] * b->row_bytes,
             b->fetch_bytes != 0 ? b->fetch_bytes : b->row_bytes);
    }
    if (b->fetches != NULL) {
      b->fetches[(uint64_t)i * b->queries_max * b->k + b->fetch_count[i]] = (struct kvl_fetch){rows[l], to};
    }
    b->fetch_count[i]++;
    b->counts[i].fetched++;
    for (uint32_t m = l; m < e->query_count * b->k; m++) {
      if (addresses[m] == -2 && rows[m] == rows[l]) {
        addresses[m] = to;
      }
    }
  }
}

int resolve_plain(const struct kvl_resolve_batch *b, void *context)
{
  (void)context;
  for (uint32_t i = 0; i < b->entries; i++) {
    resolve_entry(b, i);
  }
  return 0;
}

static bool in_union(const struct kvl_announce_batch *b, uint32_t i, uint32_t queries, kvl_row row)
{
  for (uint32_t q = 0; q < queries; q++) {
    const kvl_row *pool = b->pools + ((uint64_t)i * b->queries_max + q) * b->pool_max;
    for (uint32_t k = 0; k < b->query[i * b->queries_max + q].n; k++) {
      if (pool[k] == row) {
        return true;
      }
    }
  }
  return false;
}

static void announce_entry(const struct kvl_announce_batch *b, uint32_t i)
{
  const struct kvl_resolve_entry *e = &b->entry[i];
  const struct kvl_cache_geometry *g = &b->geometry;
  b->copy_count[i] = b->drop_count[i] = 0;
  if (e->request == KVL_NONE) {
    return;
  }
  struct kvl_cache_head *h = e->head;
  for (uint32_t q = 0; q < e->query_count; q++) {
    const kvl_row *pool = b->pools + ((uint64_t)i * b->queries_max + q) * b->pool_max;
    for (uint32_t k = 0; k < b->query[i * b->queries_max + q].n; k++) {
      kvl_row row = pool[k];
      if (row < 0 || (uint32_t)row >= h->tail_first || frame_of(e, g, row) != KVL_NONE) {
        continue; /* not history, or in a tier already */
      }
      int32_t place = e->place_of_row[row];
      if (place != KVL_PLACE_EMPTY) {
        if ((uint32_t)place < g->hot_rows) {
          e->pinned[place / 32] |= 1u << (place % 32);
        }
        continue;
      }
      uint32_t slot = h->bank_used;
      if (slot == g->bank_rows) { /* the lowest whose row nobody names */
        slot = 0;
        while (slot < g->bank_rows && in_union(b, i, e->query_count, e->row_of_place[g->hot_rows + slot])) {
          slot++;
        }
        if (slot == g->bank_rows) {
          bool seen = false; /* a row of several pools is left out once */
          for (uint32_t d = 0; d < b->drop_count[i]; d++) {
            seen = seen || b->dropped[(uint64_t)i * b->queries_max * b->pool_max + d] == row;
          }
          if (!seen) {
            b->dropped[(uint64_t)i * b->queries_max * b->pool_max + b->drop_count[i]++] = row;
          }
          continue;
        }
        e->place_of_row[e->row_of_place[g->hot_rows + slot]] = KVL_PLACE_EMPTY;
      } else {
        h->bank_used++;
      }
      e->row_of_place[g->hot_rows + slot] = row;
      e->place_of_row[row] = (int32_t)(g->hot_rows + slot);
      b->copies[(uint64_t)i * g->bank_rows + b->copy_count[i]++] = (struct kvl_fetch){row, e->bases.bank + (kvl_addr)slot};
    }
  }
}

int announce_plain(const struct kvl_announce_batch *b, void *context)
{
  (void)context;
  for (uint32_t i = 0; i < b->entries; i++) {
    announce_entry(b, i);
  }
  return 0;
}

int end_group_plain(const struct kvl_announce_batch *b, void *context)
{
  (void)context;
  for (uint32_t i = 0; i < b->entries; i++) {
    if (b->entry[i].request != KVL_NONE) {
      memset(b->entry[i].pinned, 0, (size_t)(b->geometry.hot_rows + 31) / 32 * 4);
    }
  }
  return 0;
}
