/* Prefetch, the C reference: the union of the pools, the bank slots for what is in no GPU tier, the pins. */
#include "kernels/state_ref.h"

#include <errno.h>

#include "kernels/heap_ref.h"

/* Pools come sorted from an indexer; a heap sort is the safety net. */
KVL_HEAP_SORT(sort_rows, kvl_row)

/* The committed rows of a pool, ascending, each once. */
struct pool {
  const kvl_row *rows;
  uint32_t n;
};

/* Rows below `limit` of an ascending list. */
static uint32_t rows_below(const kvl_row *rows, uint32_t n, uint32_t limit)
{
  uint32_t low = 0;
  while (n > 0) {
    uint32_t half = n / 2;
    bool right = (uint32_t)rows[low + half] < limit;
    low = right ? low + half + 1 : low;
    n = right ? n - half - 1 : half;
  }
  return low;
}

/* An ascending pool is used where it lies; any other is copied to ws->sorted (*used elements of it are taken). */
static struct pool clip_pool(const struct kvl_query *pool, uint32_t committed, kvl_row *copy, uint32_t *used)
{
  const kvl_row *rows = pool->rows;
  uint32_t disorder = 0;
  for (uint32_t i = 1; i < pool->n; i++) {
    disorder |= rows[i - 1] >= rows[i];
  }
  if (pool->n == 0 || (disorder == 0 && rows[0] >= 0)) {
    return (struct pool){rows, rows_below(rows, pool->n, committed)};
  }
  kvl_row *out = copy + *used;
  uint32_t n = 0;
  for (uint32_t i = 0; i < pool->n; i++) {
    if ((uint32_t)rows[i] < committed) {
      out[n++] = rows[i];
    }
  }
  sort_rows(out, n);
  uint32_t distinct = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (distinct == 0 || out[distinct - 1] != out[i]) {
      out[distinct++] = out[i];
    }
  }
  *used += distinct;
  return (struct pool){out, distinct};
}

/* The same, from `from` on, where it is expected to be near: rows are asked for in ascending order. */
static uint32_t rows_below_from(const struct pool *pool, uint32_t from, uint32_t limit)
{
  uint32_t step = 1;
  while (from + step < pool->n && (uint32_t)pool->rows[from + step - 1] < limit) {
    from += step;
    step *= 2;
  }
  uint32_t end = from + step < pool->n ? from + step : pool->n;
  return from + rows_below(pool->rows + from, end - from, limit);
}

static bool pool_has(const struct pool *pool, kvl_row row)
{
  uint32_t at = rows_below(pool->rows, pool->n, (uint32_t)row);
  return at < pool->n && pool->rows[at] == row;
}

struct pools {
  struct pool pool[KVL_POOLS_MAX];
  uint32_t count;
};

static bool in_union(const struct pools *p, kvl_row row)
{
  for (uint32_t q = 0; q < p->count; q++) {
    if (pool_has(&p->pool[q], row)) {
      return true;
    }
  }
  return false;
}

/* Leaves of the ascending `rows`, all of pool `q`, those that no earlier pool names; at[e] is how far pool e is looked through. Returns how many. */
static uint32_t drop_named_before(const struct pools *p, uint32_t q, uint32_t *at, uint32_t *rows, uint32_t n)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    bool before = false;
    for (uint32_t e = 0; e < q && !before; e++) {
      const struct pool *earlier = &p->pool[e];
      at[e] = rows_below_from(earlier, at[e], rows[i]);
      before = at[e] < earlier->n && (uint32_t)earlier->rows[at[e]] == rows[i];
    }
    rows[kept] = rows[i];
    kept += !before;
  }
  return kept;
}

/* Is the bank slot's row in the current union? The look-up marked those it found in the bank; a row that a tier before the bank also holds
 * was found there instead, so it has to be searched for. */
static bool slot_is_named(const struct kvl_cache *c, uint32_t slot, const struct pools *p)
{
  if (c->bank_mark[slot] == c->announced) {
    return true;
  }
  uint32_t row = (uint32_t)c->row_of_place[c->geometry->hot_rows + slot];
  bool elsewhere = row >= c->tail_first || kvl_row_frame(c, row) != KVL_NONE;
  return elsewhere && in_union(p, (kvl_row)row);
}

/* Rows of the pool whose place is not a tier before the bank: at most CHUNK from pool->rows[*at] on, to `out`. Runs of RUN neighbouring
 * rows on one page, which is what pools are made of, are looked at once. */
enum { RUN = 8, CHUNK = 512 };

static uint32_t take_chunk(const struct kvl_cache *c, const struct pool *pool, uint32_t *at, uint32_t *out)
{
  const kvl_row *rows = pool->rows;
  uint32_t shift = c->geometry->page_shift;
  uint32_t i = *at;
  uint32_t n = 0;
  while (i < pool->n && n + RUN <= CHUNK) {
    uint32_t row = (uint32_t)rows[i];
    if (row >= c->tail_first) { /* so are all after it */
      i = pool->n;
      break;
    }
    bool lent = kvl_row_frame(c, row) != KVL_NONE;
    bool run = i + RUN <= pool->n && (uint32_t)rows[i + RUN - 1] == row + RUN - 1 && row >> shift == (row + RUN - 1) >> shift &&
               row + RUN <= c->tail_first;
    uint32_t taken = run ? RUN : 1;
    if (!lent) {
      for (uint32_t k = 0; k < taken; k++) {
        out[n + k] = row + k;
      }
      __builtin_prefetch(&c->table[kvl_table_home(c, row)]);
      __builtin_prefetch(&c->table[kvl_table_home(c, row + taken - 1)]);
      n += taken;
    }
    i += taken;
  }
  *at = i;
  return n;
}

static const uint32_t NOWHERE = UINT32_C(1) << 31; /* on a row: it is known not to be in the table */

/* Looks a chunk up in the table: marks bank slots, pins hot slots, adds what is nowhere to ws->row[missing ..]; returns the new number of
 * those. */
static uint32_t look_up_chunk(struct kvl_cache *c, struct kvl_resolve_ws *ws, const uint32_t *rows, uint32_t n, uint32_t missing)
{
  uint32_t hot_rows = c->geometry->hot_rows;
  uint32_t elsewhere = c->geometry->bank_rows;
  uint32_t rest = 0;
  for (uint32_t i = 0; i < n; i++) { /* most are in the bank, at one of two entries: no branch */
    const struct kvl_place_entry *pair = &c->table[kvl_table_home(c, rows[i])];
    uint32_t first = 0u - (uint32_t)((uint32_t)pair[0].row == rows[i]);
    uint32_t second = 0u - (uint32_t)((uint32_t)pair[1].row == rows[i]);
    uint32_t place = ((uint32_t)pair[0].place & first) | ((uint32_t)pair[1].place & second);
    uint32_t banked = (first | second) & (0u - (uint32_t)(place >= hot_rows));
    c->bank_mark[((place - hot_rows) & banked) | (elsewhere & ~banked)] = c->announced;
    uint32_t nowhere = ((uint32_t)pair[0].row | (uint32_t)pair[1].row) & ~(first | second) & NOWHERE; /* a search would end at the empty entry */
    ws->lane[rest] = rows[i] | nowhere;
    rest += 1 + banked;
  }
  for (uint32_t i = 0; i < rest; i++) {
    int32_t place = ws->lane[i] >= NOWHERE ? KVL_NONE : kvl_table_find(c, ws->lane[i]);
    if (place == KVL_NONE) {
      ws->row[missing++] = ws->lane[i] & ~NOWHERE;
    } else if ((uint32_t)place >= hot_rows) {
      c->bank_mark[(uint32_t)place - hot_rows] = c->announced;
    } else if (!kvl_hot_is_pinned(c, (uint32_t)place)) {
      c->pinned[place >> 6] |= UINT64_C(1) << (place & 63);
      c->pins++;
    }
  }
  return missing;
}

/* Slots whose rows are not in the union, lowest first, some at a time: what a row needs of the table is on its way from memory when its turn comes. Nothing
 * that is placed meanwhile makes a slot further on a victim, or no victim. */
enum { AHEAD = 16, VICTIMS = 64 };

struct victims {
  uint32_t slot[VICTIMS], next, count;
  uint32_t cursor; /* slots below it are looked at */
};

static void find_victims(const struct kvl_cache *c, const struct pools *pools, uint32_t wanted, struct victims *v)
{
  v->next = v->count = 0;
  for (wanted = wanted < VICTIMS ? wanted : VICTIMS; v->count < wanted && v->cursor < c->geometry->bank_rows; v->cursor++) {
    if (!slot_is_named(c, v->cursor, pools)) {
      v->slot[v->count++] = v->cursor;
      __builtin_prefetch(&c->table[kvl_table_home(c, (uint32_t)c->row_of_place[c->geometry->hot_rows + v->cursor])], 1);
    }
  }
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

  struct pools union_of = {.count = pool_count};
  uint32_t used = 0;
  for (uint32_t q = 0; q < pool_count; q++) {
    union_of.pool[q] = clip_pool(&pools[q], c->committed, ws->sorted, &used);
  }

  /* Look at the union in order; what no tier holds is left in ws->row. */
  uint32_t missing = 0;
  for (uint32_t q = 0; q < pool_count; q++) {
    uint32_t through[KVL_POOLS_MAX] = {0};
    for (uint32_t at = 0; at < union_of.pool[q].n;) {
      uint32_t rows[CHUNK];
      uint32_t n = take_chunk(c, &union_of.pool[q], &at, rows);
      n = q == 0 ? n : drop_named_before(&union_of, q, through, rows, n);
      missing = look_up_chunk(c, ws, rows, n, missing);
    }
  }

  uint32_t copied = 0;
  uint32_t left_out = 0;
  struct victims v = {.cursor = 0};
  for (uint32_t i = 0; i < missing; i++) {
    kvl_row row = (kvl_row)ws->row[i];
    uint32_t slot;
    if (i + AHEAD < missing) {
      __builtin_prefetch(&c->table[kvl_table_home(c, ws->row[i + AHEAD])], 1);
    }
    if (c->bank_used < g->bank_rows) {
      slot = c->bank_used++;
    } else {
      if (v.next == v.count) {
        find_victims(c, &union_of, missing - i, &v);
      }
      if (v.next == v.count) {
        dropped[left_out++] = row;
        continue;
      }
      slot = v.slot[v.next++];
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
