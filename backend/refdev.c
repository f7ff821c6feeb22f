#include "backend/refdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "backend/layout.h"
#include "backend/pool_rows.h"
#include "kernels/resolve_ref.h"

struct slot {
  bool open;
  void *memory;                /* of all caches; kept from request to request */
  struct kvl_cache *cache[KVL_REFDEV_CACHES];
  uint32_t *bank_cost;         /* by bank slot: 0, or 1 + the link time (ns) of a copied row that nobody has named yet; NULL: no bank */
  uint32_t *copied;            /* bank slots of the last announcement's copies */
  uint32_t copied_count;
};

struct worker {
  struct kvl_resolve_ws *ws;
  kvl_addr *addresses;         /* by point, for layers that read later; else all at the same place */
  int32_t *rows;               /* the same, of queries put one after the other */
  uint32_t *lanes;             /* by point */
  struct kvl_fetch *fetches;
  int32_t *pool;               /* rows of the pools */
  kvl_row *dropped;
  struct kvl_numbers seen;        /* rows of a transaction */
  struct kvl_pool_rows pools;
};

struct kvl_refdev {
  struct kvl_refdev_config config;
  struct kvl_layout layout;
  struct kvl_stage *stages;
  bool first[KVL_REFDEV_POINTS]; /* of its selection */
  int bank_cache;              /* -1: none */
  uint64_t lanes_max;          /* of a point: queries_max * k */
  uint64_t pool_max;           /* rows of all pools of an item */
  size_t state_bytes[KVL_REFDEV_CACHES];
  struct slot *slots;
  struct worker *workers;
  struct kvl_prefetch given_up;
};

static uint64_t round_up(uint64_t n, uint64_t unit)
{
  return (n + unit - 1) / unit * unit;
}

static void *aligned(uint64_t bytes)
{
  return aligned_alloc(64, round_up(bytes == 0 ? 64 : bytes, 64));
}

static bool worker_init(struct kvl_refdev *dev, struct worker *w)
{
  uint64_t lanes = dev->lanes_max, all = lanes * (dev->config.points == 0 ? 1 : dev->config.points);
  uint64_t ws_lanes = lanes > dev->pool_max ? lanes : dev->pool_max;
  void *ws = aligned(kvl_resolve_ws_bytes((uint32_t)ws_lanes));
  w->ws = ws == NULL ? NULL : kvl_resolve_ws_init(ws, (uint32_t)ws_lanes);
  w->addresses = aligned(all * sizeof *w->addresses);
  w->rows = aligned(all * sizeof *w->rows);
  w->lanes = calloc(dev->config.points + 1, sizeof *w->lanes);
  w->fetches = aligned(ws_lanes * sizeof *w->fetches);
  w->pool = aligned(dev->pool_max * sizeof *w->pool);
  w->dropped = aligned(dev->pool_max * sizeof *w->dropped);
  return w->ws != NULL && w->addresses != NULL && w->rows != NULL && w->lanes != NULL && w->fetches != NULL && w->pool != NULL &&
         w->dropped != NULL && kvl_numbers_init(&w->seen, lanes) == 0 &&
         kvl_pool_rows_init(&w->pools, (uint64_t)dev->config.queries_max * dev->config.pool_blocks, lanes) == 0;
}

int kvl_refdev_create(struct kvl_refdev **out, const struct kvl_refdev_config *config, struct kvl_err *err)
{
  struct kvl_refdev *dev = calloc(1, sizeof *dev);
  if (dev == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the reference device");
  }
  dev->config = *config;
  dev->config.queries_max = config->queries_max == 0 ? 1 : config->queries_max;
  dev->bank_cache = -1;
  int rc = kvl_layout_init(&dev->layout, &dev->config, err);
  if (rc != 0) {
    free(dev);
    return rc;
  }
  for (uint32_t i = 0; i < config->caches; i++) {
    dev->state_bytes[i] = round_up(kvl_cache_bytes(&dev->layout.geometry[i]), 64);
  }
  uint64_t k_max = 1;
  for (uint32_t p = 0; p < config->points; p++) {
    k_max = config->point[p].k > k_max ? config->point[p].k : k_max;
    dev->first[p] = true;
    for (uint32_t other = 0; other < p; other++) {
      dev->first[p] = dev->first[p] && config->point[other].selection != config->point[p].selection;
    }
  }
  dev->lanes_max = k_max * dev->config.queries_max;
  for (uint32_t i = 0; i < config->stage_count; i++) {
    if (config->stages[i].kind == KVL_STAGE_ANNOUNCE) {
      dev->bank_cache = config->stages[i].cache;
      dev->pool_max = (uint64_t)dev->config.queries_max * config->pool_blocks * config->pool_rows_per_block;
    }
  }
  dev->slots = calloc(config->slots, sizeof *dev->slots);
  dev->workers = calloc(config->threads, sizeof *dev->workers);
  dev->stages = calloc(config->stage_count + 1, sizeof *dev->stages);
  bool ok = dev->slots != NULL && dev->workers != NULL && dev->stages != NULL && dev->lanes_max < INT32_MAX && dev->pool_max < INT32_MAX;
  for (uint32_t i = 0; ok && i < config->threads; i++) {
    ok = worker_init(dev, &dev->workers[i]);
  }
  if (!ok) {
    kvl_refdev_destroy(dev);
    return kvl_err_set(err, -ENOMEM, "no memory for %u batch slots", config->slots);
  }
  memcpy(dev->stages, config->stages, config->stage_count * sizeof *dev->stages);
  dev->config.stages = dev->stages;
  *out = dev;
  return 0;
}

void kvl_refdev_destroy(struct kvl_refdev *dev)
{
  if (dev == NULL) {
    return;
  }
  for (uint32_t i = 0; dev->slots != NULL && i < dev->config.slots; i++) {
    free(dev->slots[i].memory);
    free(dev->slots[i].bank_cost);
    free(dev->slots[i].copied);
  }
  for (uint32_t i = 0; dev->workers != NULL && i < dev->config.threads; i++) {
    struct worker *w = &dev->workers[i];
    free(w->ws); /* laid out at the start of its memory */
    free(w->addresses);
    free(w->rows);
    free(w->lanes);
    free(w->fetches);
    free(w->pool);
    free(w->dropped);
    kvl_numbers_deinit(&w->seen);
    kvl_pool_rows_deinit(&w->pools);
  }
  free(dev->slots);
  free(dev->workers);
  free(dev->stages);
  free(dev);
}

/* Copied rows that nobody named, of a bank that is given up. */
static void give_up_bank(const struct kvl_refdev *dev, struct slot *slot, struct kvl_prefetch *prefetch)
{
  for (uint32_t i = 0; slot->bank_cost != NULL && i < dev->config.bank_rows; i++) {
    if (slot->bank_cost[i] != 0) {
      prefetch->unused++;
      prefetch->unused_link_ns += slot->bank_cost[i] - 1;
      slot->bank_cost[i] = 0;
    }
  }
  slot->copied_count = 0;
}

int kvl_refdev_open(struct kvl_refdev *dev, kvl_request id, uint32_t tokens, struct kvl_err *err)
{
  const struct kvl_refdev_config *c = &dev->config;
  struct slot *slot = &dev->slots[id];
  if (slot->memory == NULL) { /* memory grows with the largest batch seen, and stays */
    size_t total = 0;
    for (uint32_t i = 0; i < c->caches; i++) {
      total += dev->state_bytes[i];
    }
    slot->memory = aligned_alloc(64, total);
    if (slot->memory == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for batch slot %u (%zu bytes)", id, total);
    }
  }
  if (dev->bank_cache >= 0 && slot->bank_cost == NULL) {
    slot->bank_cost = calloc((size_t)c->bank_rows + 1, sizeof *slot->bank_cost);
    slot->copied = calloc((size_t)c->bank_rows + 1, sizeof *slot->copied);
    if (slot->bank_cost == NULL || slot->copied == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for a bank of %u rows", c->bank_rows);
    }
  }
  unsigned char *at = slot->memory;
  for (uint32_t i = 0; i < c->caches; i++) {
    struct kvl_cache_bases bases;
    kvl_layout_bases(&dev->layout, c, id, i, &bases);
    slot->cache[i] = kvl_cache_init(at, &dev->layout.geometry[i], &bases, kvl_rng_mix(c->seed ^ ((uint64_t)id << 32 | i)));
    at += dev->state_bytes[i];
    /* Whole pages are on the host; the rows of the open page came with the hand-over and wait in the tail. */
    uint32_t rows = tokens / c->cache[i].tokens_per_row;
    uint32_t whole = tokens / c->page_tokens * (c->page_tokens / c->cache[i].tokens_per_row);
    int rc = kvl_cache_load(slot->cache[i], (kvl_row)whole);
    if (rc == 0 && rows > whole) {
      rc = kvl_cache_scratch(slot->cache[i], rows - whole);
      rc = rc != 0 ? rc : kvl_cache_commit(slot->cache[i], rows - whole);
    }
    if (rc != 0) {
      return kvl_err_set(err, rc, "cache %u: the tail of %u tokens does not hold an open page of %u", i, c->tail_tokens, c->page_tokens);
    }
  }
  slot->open = true;
  return 0;
}

void kvl_refdev_close(struct kvl_refdev *dev, kvl_request id)
{
  dev->slots[id].open = false;
  give_up_bank(dev, &dev->slots[id], &dev->given_up);
}

void kvl_refdev_given_up(struct kvl_refdev *dev, struct kvl_prefetch *prefetch)
{
  prefetch->unused += dev->given_up.unused;
  prefetch->unused_link_ns += dev->given_up.unused_link_ns;
  memset(&dev->given_up, 0, sizeof dev->given_up);
}

void kvl_refdev_price_copies(struct kvl_refdev *dev, const struct kvl_step_item *items, uint32_t count, uint32_t row_ns)
{
  for (uint32_t i = 0; i < count; i++) {
    struct slot *slot = &dev->slots[items[i].slot];
    for (uint32_t k = 0; k < slot->copied_count; k++) {
      if (slot->bank_cost[slot->copied[k]] != 0) { /* not named meanwhile */
        slot->bank_cost[slot->copied[k]] = 1 + row_ns;
      }
    }
    slot->copied_count = 0;
  }
}

/* An item on its way through the stages. */
struct pass {
  struct kvl_refdev *dev;
  struct slot *slot;
  struct worker *w;
  const struct kvl_step_item *item;
  const struct kvl_refdev_hooks *hooks;
  void *context;
  struct kvl_refdev_counts *counts;
};

static uint32_t rows_after(const struct pass *a, uint32_t cache, uint32_t tokens)
{
  return (a->item->tokens + tokens) / a->dev->config.cache[cache].tokens_per_row;
}

/* Rows whose last token is one of the step's; a group that is still open has none. */
static void write_rows(const struct pass *a, uint32_t cache)
{
  uint32_t first = rows_after(a, cache, 0), count = rows_after(a, cache, a->item->queries) - first;
  (void)kvl_cache_scratch(a->slot->cache[cache], count);
  if (count != 0 && a->hooks->written != NULL) {
    a->hooks->written(a->context, a->item, cache, (kvl_row)first, count);
  }
}

static void count_pages(const struct pass *a, uint32_t cache, const int32_t *rows, uint32_t n)
{
  uint32_t shift = a->dev->layout.geometry[cache].page_shift, committed = rows_after(a, cache, 0);
  for (uint32_t i = 0; i < n; i++) {
    if ((uint32_t)rows[i] < committed) {
      a->item->selected_by_page[rows[i] >> shift]++;
    }
  }
}

/* Lanes that an earlier query of the transaction named too. */
static uint64_t shared(struct kvl_numbers *seen, const struct kvl_query *query, uint32_t queries)
{
  uint64_t lanes = 0;
  kvl_numbers_clear(seen);
  for (uint32_t q = 0; q < queries; q++) { /* rows of one query are distinct, so it never meets itself */
    for (uint32_t i = 0; i < query[q].n; i++) {
      lanes += query[q].rows[i] >= 0 && kvl_numbers_add(seen, query[q].rows[i]);
    }
  }
  return lanes;
}

/* Copied rows are used when they are first named. */
static void note_named(const struct pass *a, uint32_t cache, const kvl_addr *addresses, uint32_t lanes)
{
  struct kvl_cache_bases bases;
  kvl_layout_bases(&a->dev->layout, &a->dev->config, a->item->slot, cache, &bases);
  for (uint32_t i = 0; i < lanes; i++) {
    uint32_t place = (uint32_t)(addresses[i] - bases.bank); /* -1 is below every bank */
    if (place < a->dev->config.bank_rows && addresses[i] >= bases.bank && a->slot->bank_cost[place] != 0) {
      a->slot->bank_cost[place] = 0;
      a->counts->prefetch.used++;
    }
  }
}

static void resolve(const struct pass *a, const struct kvl_stage *stage, bool later)
{
  const struct kvl_refdev_config *c = &a->dev->config;
  uint32_t p = stage->point, cache = c->point[p].cache, lanes = 0;
  bool keep = a->hooks->read != NULL;
  kvl_addr *addresses = a->w->addresses + (keep ? p * a->dev->lanes_max : 0);
  int32_t *rows = a->w->rows + (keep ? p * a->dev->lanes_max : 0);
  struct kvl_query query[KVL_STEP_QUERIES_MAX];
  for (uint32_t q = 0; q < a->item->queries; q++) {
    query[q].boundary = (kvl_row)rows_after(a, cache, q);
    query[q].n = a->hooks->rows(a->context, a->item->slot, c->point[p].selection, q, &query[q].rows);
    if (keep) {
      memcpy(rows + lanes, query[q].rows, query[q].n * sizeof *rows);
    }
    lanes += query[q].n;
  }
  uint32_t fetch_count = 0;
  struct kvl_resolve_counts *counts = &a->counts->point[p];
  uint64_t demand = counts->lanes[KVL_TIER_HOST], all = 0;
  for (int tier = KVL_TIER_TAIL; tier < KVL_TIERS; tier++) {
    all -= counts->lanes[tier];
  }
  (void)kvl_resolve_ref(a->slot->cache[cache], a->w->ws, a->item->whole, query, a->item->queries, addresses, a->hooks->fetch != NULL ? a->w->fetches : NULL,
                        &fetch_count, counts);
  if (later) {
    for (int tier = KVL_TIER_TAIL; tier < KVL_TIERS; tier++) {
      all += counts->lanes[tier];
    }
    a->counts->prefetch.later_lanes += all;
    a->counts->prefetch.later_demand += counts->lanes[KVL_TIER_HOST] - demand;
  }
  if ((int)cache == a->dev->bank_cache) {
    note_named(a, cache, addresses, lanes);
  }
  if (a->dev->first[p]) {
    a->counts->shared_lanes += a->item->queries > 1 ? shared(&a->w->seen, query, a->item->queries) : 0;
    for (uint32_t q = 0; a->item->selected_by_page != NULL && q < a->item->queries; q++) {
      count_pages(a, cache, query[q].rows, query[q].n);
    }
  }
  if (a->hooks->fetch != NULL) {
    a->hooks->fetch(a->context, a->item->slot, cache, a->w->fetches, fetch_count);
  }
  if (keep) {
    a->w->lanes[p] = lanes;
  }
}

static void announce(const struct pass *a, const struct kvl_stage *stage)
{
  struct kvl_prefetch *sums = &a->counts->prefetch;
  uint32_t per_block = a->dev->config.pool_rows_per_block;
  struct kvl_query pool[KVL_STEP_QUERIES_MAX];
  int32_t *out = a->w->pool;
  kvl_pool_rows_begin(&a->w->pools, a->item->queries, per_block, rows_after(a, stage->cache, 0), a->dev->config.pool_rows_max);
  for (uint32_t q = 0; q < a->item->queries; q++) {
    const int32_t *blocks, *selected;
    uint32_t k = a->hooks->rows(a->context, a->item->slot, a->dev->config.point[stage->point].selection, q, &selected);
    uint32_t n = a->hooks->pool(a->context, a->item->slot, q, &blocks);
    n = n < a->dev->config.pool_blocks ? n : a->dev->config.pool_blocks;
    pool[q] = (struct kvl_query){.boundary = INT32_MAX, .rows = out};
    pool[q].n = kvl_pool_rows_add(&a->w->pools, blocks, n, selected, k, out);
    out += pool[q].n;
  }
  uint64_t candidates = a->w->pools.announced;
  uint32_t copied = 0, dropped = 0;
  struct kvl_fetch *copies = a->w->fetches;
  (void)kvl_announce_ref(a->slot->cache[stage->cache], a->w->ws, pool, a->item->queries, copies, &copied, a->w->dropped, &dropped);
  sums->candidates += candidates;
  sums->copied += copied;
  sums->dropped += dropped;
  sums->resident += candidates - copied - dropped;
  struct kvl_cache_bases bases;
  kvl_layout_bases(&a->dev->layout, &a->dev->config, a->item->slot, stage->cache, &bases);
  for (uint32_t i = 0; i < copied; i++) {
    uint32_t place = (uint32_t)(copies[i].to - bases.bank);
    if (a->slot->bank_cost[place] != 0) {
      sums->unused++;
      sums->unused_link_ns += a->slot->bank_cost[place] - 1;
    }
    a->slot->bank_cost[place] = 1;
    a->slot->copied[i] = place;
    bool run = i != 0 && copies[i].row == copies[i - 1].row + 1 && (uint32_t)copies[i].row % per_block != 0;
    a->counts->announced_runs += !run;
  }
  a->slot->copied_count = copied;
  if (a->hooks->announced != NULL) {
    a->hooks->announced(a->context, a->item->slot, stage->cache, copies, copied);
  }
}

/* Accepted tokens are history; the rows of others leave no trace. A tail that is full lets go of rows whose host copy is complete: the engine holds
 * steps back until that is true of the oldest. */
static void commit_rows(const struct pass *a)
{
  for (uint32_t i = 0; i < a->dev->config.caches; i++) {
    struct kvl_cache *cache = a->slot->cache[i];
    uint32_t rows = rows_after(a, i, a->item->commit) - rows_after(a, i, 0);
    uint32_t full = kvl_cache_tail_rows(cache) + rows;
    if (full > a->dev->layout.geometry[i].tail_rows) {
      (void)kvl_cache_written_back(cache, full - a->dev->layout.geometry[i].tail_rows);
    }
    (void)kvl_cache_commit(cache, rows);
  }
  if (a->hooks->committed != NULL) {
    a->hooks->committed(a->context, a->item);
  }
}

void kvl_refdev_item(struct kvl_refdev *dev, uint32_t thread, const struct kvl_step_item *item, const struct kvl_refdev_hooks *hooks, void *context,
                     struct kvl_refdev_counts *counts)
{
  const struct kvl_refdev_config *c = &dev->config;
  struct pass a = {dev, &dev->slots[item->slot], &dev->workers[thread], item, hooks, context, counts};
  bool grouped = false; /* a pool has been announced and its group goes on */
  uint32_t announcing = 0;
  for (uint32_t i = 0; i < c->caches; i++) {
    kvl_cache_set_page_map(a.slot->cache[i], item->page_map, item->pages);
  }
  for (uint32_t i = 0; i < c->stage_count; i++) {
    const struct kvl_stage *stage = &dev->stages[i];
    switch (stage->kind) {
    case KVL_STAGE_WRITE:
      write_rows(&a, stage->cache);
      break;
    case KVL_STAGE_RESOLVE:
      resolve(&a, stage, grouped && stage->cache == dev->bank_cache && c->point[stage->point].selection != announcing);
      break;
    case KVL_STAGE_ANNOUNCE:
      announce(&a, stage);
      grouped = true;
      announcing = c->point[stage->point].selection;
      break;
    case KVL_STAGE_END_GROUP:
      kvl_end_group_ref(a.slot->cache[stage->cache]);
      grouped = false;
      break;
    case KVL_STAGE_WAIT:
      if (hooks->landed != NULL) {
        hooks->landed(context, item->slot, stage);
      }
      break;
    case KVL_STAGE_READ:
      if (hooks->read != NULL) {
        hooks->read(context, item, stage, a.w->rows + stage->point * dev->lanes_max, a.w->addresses + stage->point * dev->lanes_max,
                    a.w->lanes[stage->point]);
      }
      break;
    case KVL_STAGE_REPLAY: /* the fetch list is known since the resolve */
    case KVL_STAGE_COMPUTE:
      break;
    }
  }
  commit_rows(&a);
}

const struct kvl_refdev_config *kvl_refdev_config_of(const struct kvl_refdev *dev)
{
  return &dev->config;
}

uint64_t kvl_refdev_arena_bytes(const struct kvl_refdev *dev)
{
  return dev->layout.arena_bytes;
}

kvl_addr kvl_refdev_tail_addr(const struct kvl_refdev *dev, kvl_request id, uint32_t cache, kvl_row row)
{
  kvl_slot place = kvl_cache_tail_place(dev->slots[id].cache[cache], row);
  struct kvl_cache_bases bases;
  kvl_layout_bases(&dev->layout, &dev->config, id, cache, &bases);
  return place == KVL_NONE ? KVL_NONE : bases.tail + place;
}

kvl_addr kvl_refdev_scratch_addr(const struct kvl_refdev *dev, kvl_request id, uint32_t cache, uint32_t place)
{
  struct kvl_cache_bases bases;
  kvl_layout_bases(&dev->layout, &dev->config, id, cache, &bases);
  return bases.scratch + (kvl_addr)place;
}

const struct kvl_cache *kvl_refdev_cache(const struct kvl_refdev *dev, kvl_request id, uint32_t cache)
{
  return dev->slots[id].cache[cache];
}

int kvl_refdev_verify(struct kvl_refdev *dev, struct kvl_err *err)
{
  for (uint32_t s = 0; s < dev->config.slots; s++) {
    for (uint32_t i = 0; dev->slots[s].open && i < dev->config.caches; i++) {
      int line = kvl_cache_verify(dev->slots[s].cache[i]);
      if (line != 0) {
        return kvl_err_set(err, -EPROTO, "slot %u, cache %u: check at line %d of the cache's verify failed", s, i, line);
      }
    }
  }
  return 0;
}
