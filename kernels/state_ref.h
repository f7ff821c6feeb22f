/* Inside of the C reference: the state of one cache of one request, the row table, victims. Included by the *_ref.c files only.
 *
 * Two ideas make it fast and small enough for a simulator that resolves more than 10^8 rows a second:
 *
 *   - one open-addressing table maps a row to its *place*, a hot slot or hot_rows + bank slot (a row is never in both: a row in the bank is
 *     no miss, and announce gives a bank slot only to rows found nowhere). 8 to 16 bytes a place instead of 4 bytes a row of history;
 *   - victims come from a list of (stamp, slot) that is sorted once in several transactions. An entry is valid while its slot still has
 *     that stamp; any slot that is not listed, or whose entry is stale, has a stamp newer than every listed one. So the first valid entry
 *     is the exact minimum.
 */
#ifndef KVL_KERNELS_STATE_REF_H
#define KVL_KERNELS_STATE_REF_H

#include "kernels/resolve_ref.h"

struct kvl_place_entry {
  kvl_row row;   /* KVL_NONE: empty; never looked up */
  int32_t place; /* hot slot, or hot_rows + bank slot */
};

struct kvl_cache {
  const struct kvl_cache_geometry *geometry;
  struct kvl_cache_bases bases;
  const kvl_frame *frame_of_page;
  uint32_t pages;

  uint32_t committed;  /* rows [0, committed) are history */
  uint32_t tail_first; /* rows [tail_first, committed) are in the tail */
  uint32_t scratch;    /* rows [committed, committed + scratch) are in the scratch, in order */

  uint32_t seq;        /* transactions so far = stamp of the last one */
  uint32_t hot_used;   /* slots that hold a row */
  uint32_t bank_used;  /* bank slots [0, bank_used) hold a row: they fill from below and are only ever overwritten */
  uint32_t announced;  /* announcements so far; the value of bank_mark for "in the current union" */

  uint32_t order_next, order_end; /* victims not yet looked at: order[order_next .. order_end) */
  /* first entry passed over that may be a victim later (pinned, or used in its transaction), or UINT32_MAX */
  uint32_t order_skipped;
  uint32_t order_seq;             /* transaction in which the list was sorted: when that is the current one, nothing is left */
  uint32_t pins;                  /* pinned slots */
  uint32_t line_shift, table_mask;
  uint64_t random;

  struct kvl_place_entry *table;
  kvl_row *row_of_place;  /* [hot_rows + bank_rows], KVL_NONE when empty */
  uint32_t *stamp;        /* [hot_rows]: transaction of the last use (LRU) or of the insertion (FIFO, random); 0: never */
  /* [hot_rows + bank_rows + 1]: transaction of the last use, by place (the last element takes stores without a hit); the same array as
   * `stamp` under LRU, so that a hit costs one store */
  uint32_t *used;
  uint64_t *order;        /* [hot_rows]: stamp << 32 | slot, ascending */
  uint64_t *pinned;       /* bit per hot slot */
  uint32_t *bank_mark;    /* [bank_rows + 1]: the announcement that last named the row; the last element takes stores for rows elsewhere */
  kvl_slot *tail_place;   /* [tail_rows], by row modulo tail_rows */
  uint64_t *tail_taken;   /* bit per tail place */
};

struct kvl_resolve_ws {
  uint32_t lanes_max;
  uint32_t epoch;      /* entries of `seen` with another epoch are empty */
  uint32_t seen_mask, seen_shift;
  uint32_t *row, *lane; /* [lanes_max + 1] lanes not resolved yet, as compressed lists */
  uint32_t *miss_row, *miss_lane;
  kvl_row *sorted;      /* [lanes_max + KVL_POOLS_MAX] pools that had to be copied, clipped and sorted, one after the other */
  struct kvl_seen {
    kvl_row row;
    uint32_t epoch;
    uint32_t value;
  } *seen;
};

/* The row table: linear probing, deletion by shifting back (no tombstones). Rows begin at an even entry, so that the first two entries
 * looked at share a cache line and one branch-free look at both finds most rows; four neighbouring rows share a line (pools are runs of
 * rows). The hash is multiplicative, of row / 4. */
static inline uint32_t kvl_row_hash(uint32_t row, uint32_t shift)
{
  return (row * 0x9e3779b1u) >> shift;
}

static inline uint32_t kvl_table_pair(uint32_t row, uint32_t line_shift)
{
  return (kvl_row_hash(row >> 2, line_shift) << 3) | ((row & 3) << 1);
}

static inline uint32_t kvl_table_home(const struct kvl_cache *c, uint32_t row)
{
  return kvl_table_pair(row, c->line_shift);
}

/* Where `row` (>= 0) is, or the empty entry where it would go. There always is one: a table is at most two thirds full, plus one row. */
static inline uint32_t kvl_table_seek(const struct kvl_cache *c, uint32_t row)
{
  uint32_t h = kvl_table_home(c, row);
  while (c->table[h].row != (kvl_row)row && c->table[h].row != KVL_NONE) {
    h = (h + 1) & c->table_mask;
  }
  return h;
}

/* The place of `row` (>= 0), or KVL_NONE. */
static inline int32_t kvl_table_find(const struct kvl_cache *c, uint32_t row)
{
  const struct kvl_place_entry *e = &c->table[kvl_table_seek(c, row)];
  return e->row == KVL_NONE ? KVL_NONE : e->place;
}

static inline void kvl_table_remove(struct kvl_cache *c, kvl_row row)
{
  uint32_t mask = c->table_mask;
  uint32_t hole = kvl_table_seek(c, (uint32_t)row);
  for (uint32_t h = (hole + 1) & mask; c->table[h].row != KVL_NONE; h = (h + 1) & mask) {
    uint32_t home = kvl_table_home(c, (uint32_t)c->table[h].row);
    if (((h - home) & mask) >= ((h - hole) & mask)) { /* its home is not between the hole and here */
      c->table[hole] = c->table[h];
      hole = h;
    }
  }
  c->table[hole].row = KVL_NONE;
}

static inline bool kvl_hot_is_pinned(const struct kvl_cache *c, uint32_t slot)
{
  return (c->pinned[slot >> 6] >> (slot & 63)) & 1u;
}

static inline kvl_addr kvl_place_addr(const struct kvl_cache *c, int32_t place)
{
  int32_t hot_rows = (int32_t)c->geometry->hot_rows;
  return place < hot_rows ? c->bases.hot + place : c->bases.bank + (place - hot_rows);
}

/* The frame that holds `row`, or KVL_NONE. */
static inline kvl_frame kvl_row_frame(const struct kvl_cache *c, uint32_t row)
{
  uint32_t page = row >> c->geometry->page_shift;
  return page < c->pages ? c->frame_of_page[page] : KVL_NONE;
}

/* Victims (victim_ref.c). `begin` at the start of each transaction; `take` returns a hot slot that is neither used in this transaction nor
 * pinned, or KVL_NONE; the caller stamps the slot before the next call. */
void kvl_victim_begin(struct kvl_cache *c);
kvl_slot kvl_victim_take(struct kvl_cache *c);

/* A new, empty epoch of ws->seen. */
void kvl_seen_clear(struct kvl_resolve_ws *ws);

/* Finds or adds `row`; *added says which. Returns its value field. */
static inline uint32_t *kvl_seen_add(struct kvl_resolve_ws *ws, kvl_row row, bool *added)
{
  uint32_t h = kvl_row_hash((uint32_t)row, ws->seen_shift);
  while (ws->seen[h].epoch == ws->epoch) {
    if (ws->seen[h].row == row) {
      *added = false;
      return &ws->seen[h].value;
    }
    h = (h + 1) & ws->seen_mask;
  }
  ws->seen[h].row = row;
  ws->seen[h].epoch = ws->epoch;
  *added = true;
  return &ws->seen[h].value;
}

#endif
