/* Which hot slot makes room: LRU and FIFO from a lazily sorted list, random by rejection. See state_ref.h for why the list is exact. */
#include "kernels/heap_ref.h"
#include "kernels/state_ref.h"

enum { BUCKETS = 2048, RANDOM_TRIES = 32, AHEAD = 8 };

KVL_HEAP_SORT(sort_bucket, uint64_t)

/* Lists every slot whose stamp is older than this transaction, ascending by (stamp, slot): one counting pass over stamps (slots come in
 * order, so equal stamps stay sorted); when the stamps range too far for one bucket each, buckets of several stamps are sorted on their
 * own. */
static void sort_order(struct kvl_cache *c)
{
  uint32_t hot_rows = c->geometry->hot_rows;
  const uint32_t *stamp = c->stamp;
  uint32_t start[BUCKETS + 1];
  uint32_t low = UINT32_MAX;
  for (uint32_t s = 0; s < hot_rows; s++) {
    low = stamp[s] < low ? stamp[s] : low;
  }
  c->order_next = 0;
  c->order_end = 0;
  c->order_skipped = UINT32_MAX;
  c->order_seq = c->seq;
  if (hot_rows == 0 || low >= c->seq) {
    return;
  }
  uint32_t shift = 0;
  while ((c->seq - 1 - low) >> shift >= BUCKETS) {
    shift++;
  }
  uint32_t buckets = ((c->seq - 1 - low) >> shift) + 1;
  for (uint32_t b = 0; b <= buckets; b++) {
    start[b] = 0;
  }
  for (uint32_t s = 0; s < hot_rows; s++) {
    if (stamp[s] < c->seq) {
      start[((stamp[s] - low) >> shift) + 1]++;
    }
  }
  for (uint32_t b = 0; b < buckets; b++) {
    start[b + 1] += start[b];
  }
  c->order_end = start[buckets];
  for (uint32_t s = 0; s < hot_rows; s++) {
    if (stamp[s] < c->seq) {
      c->order[start[(stamp[s] - low) >> shift]++] = (uint64_t)stamp[s] << 32 | s;
    }
  }
  if (shift > 0) { /* start[b] has moved to the end of bucket b */
    for (uint32_t b = 0, from = 0; b < buckets; from = start[b], b++) {
      sort_bucket(c->order + from, start[b] - from);
    }
  }
}

void kvl_victim_begin(struct kvl_cache *c)
{
  if (c->geometry->evict == KVL_EVICT_FIFO && c->order_skipped < c->order_next) { /* slots in use last time are candidates again */
    c->order_next = c->order_skipped;
    c->order_skipped = UINT32_MAX;
  }
}

static kvl_slot take_ordered(struct kvl_cache *c)
{
  for (;;) {
    while (c->order_next < c->order_end) {
      uint32_t at = c->order_next++;
      uint32_t slot = (uint32_t)c->order[at];
      if (c->stamp[slot] != (uint32_t)(c->order[at] >> 32)) {
        continue; /* used since */
      }
      if (at + AHEAD < c->order_end) { /* what the next victims will touch: their rows, then where the table holds those */
        __builtin_prefetch(&c->row_of_place[(uint32_t)c->order[at + AHEAD]]);
        __builtin_prefetch(&c->table[kvl_table_home(c, (uint32_t)c->row_of_place[(uint32_t)c->order[at + AHEAD / 2]])]);
      }
      if (c->used[slot] == c->seq || (c->pins > 0 && kvl_hot_is_pinned(c, slot))) {
        c->order_skipped = at < c->order_skipped ? at : c->order_skipped;
        continue;
      }
      return (kvl_slot)slot;
    }
    if (c->order_seq == c->seq) {
      return KVL_NONE;
    }
    sort_order(c);
  }
}

/* Empty slots first, lowest first; then a uniform draw among the eligible ones. */
static kvl_slot take_random(struct kvl_cache *c)
{
  uint32_t hot_rows = c->geometry->hot_rows;
  if (c->hot_used < hot_rows) {
    return (kvl_slot)c->hot_used;
  }
  if (hot_rows == 0 || c->order_seq == c->seq) {
    return KVL_NONE;
  }
  for (int i = 0; i < RANDOM_TRIES; i++) {
    c->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t x = c->random;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    uint32_t slot = (uint32_t)(((x >> 32) * hot_rows) >> 32);
    if (c->used[slot] != c->seq && !kvl_hot_is_pinned(c, slot)) {
      return (kvl_slot)slot;
    }
  }
  uint32_t eligible = 0; /* few are left: count them and take one by its number */
  for (uint32_t s = 0; s < hot_rows; s++) {
    eligible += c->used[s] != c->seq && !kvl_hot_is_pinned(c, s);
  }
  if (eligible == 0) {
    c->order_seq = c->seq; /* nothing left in this transaction */
    return KVL_NONE;
  }
  uint32_t number = (uint32_t)((c->random >> 32) % eligible);
  for (uint32_t s = 0;; s++) {
    if (c->used[s] != c->seq && !kvl_hot_is_pinned(c, s) && number-- == 0) {
      return (kvl_slot)s;
    }
  }
}

kvl_slot kvl_victim_take(struct kvl_cache *c)
{
  return c->geometry->evict == KVL_EVICT_RANDOM ? take_random(c) : take_ordered(c);
}
