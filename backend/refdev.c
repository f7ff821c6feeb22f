#include "backend/refdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "kernels/resolve_ref.h"

struct slot {
  bool open;
  void *memory;                /* of all caches; kept from request to request */
  struct kvl_cache *cache[KVL_REFDEV_CACHES];
};

struct worker {
  struct kvl_resolve_ws *ws;
  kvl_addr *addresses;
  struct kvl_fetch *fetches;
};

struct kvl_refdev {
  struct kvl_refdev_config config;
  struct kvl_cache_geometry geometry[KVL_REFDEV_CACHES];
  uint64_t private_bytes;      /* of one slot: hot, bank, tail, scratch and overflow rows of all caches */
  uint64_t private_base;       /* byte offset of slot 0's private areas: after the frames */
  struct kvl_cache_bases offset[KVL_REFDEV_CACHES]; /* within the slot, in rows of the cache, base included */
  size_t state_bytes[KVL_REFDEV_CACHES];
  struct slot *slots;
  struct worker *workers;
};

static uint64_t round_up(uint64_t n, uint64_t unit)
{
  return (n + unit - 1) / unit * unit;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
  return b == 0 ? a : gcd(b, a % b);
}

static uint32_t log2_of(uint32_t n)
{
  return 31u - (uint32_t)__builtin_clz(n);
}

/* The arena, in bytes: frames first, then the private areas slot by slot. Each cache sees it as an array of its own rows, so every area
 * of a cache begins at a multiple of its row size. (The policy accounts the private areas in frames; here they only have addresses.) */
static int lay_out(struct kvl_refdev *dev, struct kvl_err *err)
{
  const struct kvl_refdev_config *c = &dev->config;
  uint64_t unit = 1;
  for (uint32_t i = 0; i < c->caches; i++) {
    unit = unit / gcd(unit, c->cache[i].row_bytes) * c->cache[i].row_bytes;
  }
  dev->private_base = round_up((uint64_t)c->frames * c->page_bytes, unit);
  uint64_t in_frame = 0, in_slot = 0;
  for (uint32_t i = 0; i < c->caches; i++) {
    struct kvl_cache_geometry *g = &dev->geometry[i];
    uint32_t row_bytes = c->cache[i].row_bytes;
    uint32_t rows_per_page = c->page_tokens / c->cache[i].tokens_per_row;
    uint32_t k_sum = 0;
    for (uint32_t p = 0; p < c->points; p++) {
      k_sum = c->point[p].cache == i && c->point[p].k > k_sum ? c->point[p].k : k_sum;
    }
    if (c->page_bytes % row_bytes != 0 || in_frame % row_bytes != 0) {
      return kvl_err_set(err, -EINVAL, "cache %u: rows of %u bytes do not divide a page of %llu bytes into whole rows", i, row_bytes,
                         (unsigned long long)c->page_bytes);
    }
    *g = (struct kvl_cache_geometry){
      .page_shift = log2_of(rows_per_page),
      .hot_rows = c->hot_rows,
      .bank_rows = c->bank_rows,
      .tail_rows = c->tail_tokens / c->cache[i].tokens_per_row,
      .scratch_rows = rows_per_page > 8 ? rows_per_page : 8,
      .frame_stride_rows = (uint32_t)(c->page_bytes / row_bytes),
      .frame_offset_rows = (uint32_t)(in_frame / row_bytes),
      .evict = c->evict,
    };
    in_frame += (uint64_t)rows_per_page * row_bytes;
    in_slot = round_up(in_slot, row_bytes);
    uint64_t at = in_slot / row_bytes;
    struct kvl_cache_bases *o = &dev->offset[i];
    o->frames = 0;
    o->hot = (kvl_addr)at;
    o->bank = (kvl_addr)(at += g->hot_rows);
    o->tail = (kvl_addr)(at += g->bank_rows);
    o->scratch = (kvl_addr)(at += g->tail_rows);
    o->overflow = (kvl_addr)(at += g->scratch_rows);
    at += k_sum;
    in_slot = at * row_bytes;
    dev->state_bytes[i] = round_up(kvl_cache_bytes(g), 64);
  }
  dev->private_bytes = round_up(in_slot, unit);
  for (uint32_t i = 0; i < c->caches; i++) {
    uint64_t rows = (dev->private_base + dev->private_bytes * c->slots) / c->cache[i].row_bytes;
    if (rows > INT32_MAX) {
      return kvl_err_set(err, -EINVAL, "cache %u: the arena has %llu rows of %u bytes, more than the %d that an address can name", i,
                         (unsigned long long)rows, c->cache[i].row_bytes, INT32_MAX);
    }
  }
  return 0;
}

int kvl_refdev_create(struct kvl_refdev **out, const struct kvl_refdev_config *config, struct kvl_err *err)
{
  struct kvl_refdev *dev = calloc(1, sizeof *dev);
  if (dev == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the reference device");
  }
  dev->config = *config;
  int rc = lay_out(dev, err);
  if (rc != 0) {
    free(dev);
    return rc;
  }
  uint32_t k_max = 1;
  for (uint32_t p = 0; p < config->points; p++) {
    k_max = config->point[p].k > k_max ? config->point[p].k : k_max;
  }
  dev->slots = calloc(config->slots, sizeof *dev->slots);
  dev->workers = calloc(config->threads, sizeof *dev->workers);
  bool ok = dev->slots != NULL && dev->workers != NULL;
  for (uint32_t i = 0; ok && i < config->threads; i++) {
    struct worker *w = &dev->workers[i];
    void *ws = aligned_alloc(64, round_up(kvl_resolve_ws_bytes(k_max), 64));
    w->addresses = aligned_alloc(64, round_up(k_max * sizeof *w->addresses, 64));
    w->fetches = aligned_alloc(64, round_up(k_max * sizeof *w->fetches, 64));
    w->ws = ws == NULL ? NULL : kvl_resolve_ws_init(ws, k_max);
    ok = w->ws != NULL && w->addresses != NULL && w->fetches != NULL;
  }
  if (!ok) {
    kvl_refdev_destroy(dev);
    return kvl_err_set(err, -ENOMEM, "no memory for %u batch slots", config->slots);
  }
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
  }
  for (uint32_t i = 0; dev->workers != NULL && i < dev->config.threads; i++) {
    free(dev->workers[i].ws); /* laid out at the start of its memory */
    free(dev->workers[i].addresses);
    free(dev->workers[i].fetches);
  }
  free(dev->slots);
  free(dev->workers);
  free(dev);
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
  unsigned char *at = slot->memory;
  for (uint32_t i = 0; i < c->caches; i++) {
    kvl_addr base = (kvl_addr)((dev->private_base + dev->private_bytes * id) / c->cache[i].row_bytes);
    struct kvl_cache_bases bases = dev->offset[i];
    bases.hot += base;
    bases.bank += base;
    bases.tail += base;
    bases.scratch += base;
    bases.overflow += base;
    slot->cache[i] = kvl_cache_init(at, &dev->geometry[i], &bases, kvl_rng_mix(c->seed ^ ((uint64_t)id << 32 | i)));
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
}

void kvl_refdev_item(struct kvl_refdev *dev, uint32_t thread, const struct kvl_step_item *item, kvl_rows_fn *rows_of, kvl_resolved_fn *resolved,
                     void *context, struct kvl_resolve_counts *counts)
{
  const struct kvl_refdev_config *c = &dev->config;
  struct slot *slot = &dev->slots[item->slot];
  struct worker *w = &dev->workers[thread];
  for (uint32_t i = 0; i < c->caches; i++) {
    kvl_cache_set_page_map(slot->cache[i], item->page_map, item->pages);
  }
  for (uint32_t p = 0; p < c->points; p++) {
    uint32_t cache = c->point[p].cache;
    struct kvl_query query = {.boundary = (kvl_row)(item->tokens / c->cache[cache].tokens_per_row)};
    query.n = rows_of(context, item->slot, p, &query.rows);
    uint32_t fetch_count = 0;
    (void)kvl_resolve_ref(slot->cache[cache], w->ws, item->whole, &query, 1, w->addresses, resolved != NULL ? w->fetches : NULL, &fetch_count,
                          &counts[p]);
    if (item->selected_by_page != NULL) {
      uint32_t shift = dev->geometry[cache].page_shift;
      for (uint32_t i = 0; i < query.n; i++) {
        if (query.rows[i] >= 0) {
          item->selected_by_page[query.rows[i] >> shift]++;
        }
      }
    }
    if (resolved != NULL) {
      resolved(context, item->slot, p, query.rows, w->addresses, query.n, w->fetches, fetch_count);
    }
  }
  for (uint32_t i = 0; i < c->caches; i++) { /* the step's own token: history once its row's group of tokens is complete */
    uint32_t tpr = c->cache[i].tokens_per_row;
    if ((item->tokens + 1) / tpr > item->tokens / tpr) {
      struct kvl_cache *cache = slot->cache[i];
      if (kvl_cache_tail_rows(cache) == dev->geometry[i].tail_rows) {
        (void)kvl_cache_written_back(cache, 1); /* the engine holds steps back until the oldest tail row's host copy is complete */
      }
      (void)kvl_cache_scratch(cache, 1);
      (void)kvl_cache_commit(cache, 1);
    }
  }
}

const struct kvl_refdev_config *kvl_refdev_config_of(const struct kvl_refdev *dev)
{
  return &dev->config;
}

uint64_t kvl_refdev_arena_bytes(const struct kvl_refdev *dev)
{
  return dev->private_base + dev->private_bytes * dev->config.slots;
}

kvl_addr kvl_refdev_tail_addr(const struct kvl_refdev *dev, kvl_request id, uint32_t cache, kvl_row row)
{
  kvl_slot place = kvl_cache_tail_place(dev->slots[id].cache[cache], row);
  uint32_t row_bytes = dev->config.cache[cache].row_bytes;
  return place == KVL_NONE ? KVL_NONE
                           : (kvl_addr)((dev->private_base + dev->private_bytes * id) / row_bytes) + dev->offset[cache].tail + place;
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
