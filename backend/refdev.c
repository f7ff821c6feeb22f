#include "backend/refdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "backend/layout.h"
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
  struct kvl_layout layout;
  size_t state_bytes[KVL_REFDEV_CACHES];
  struct slot *slots;
  struct worker *workers;
};

static uint64_t round_up(uint64_t n, uint64_t unit)
{
  return (n + unit - 1) / unit * unit;
}

int kvl_refdev_create(struct kvl_refdev **out, const struct kvl_refdev_config *config, struct kvl_err *err)
{
  struct kvl_refdev *dev = calloc(1, sizeof *dev);
  if (dev == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the reference device");
  }
  dev->config = *config;
  int rc = kvl_layout_init(&dev->layout, config, err);
  if (rc != 0) {
    free(dev);
    return rc;
  }
  for (uint32_t i = 0; i < config->caches; i++) {
    dev->state_bytes[i] = round_up(kvl_cache_bytes(&dev->layout.geometry[i]), 64);
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
      uint32_t shift = dev->layout.geometry[cache].page_shift;
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
      if (kvl_cache_tail_rows(cache) == dev->layout.geometry[i].tail_rows) {
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
  return dev->layout.arena_bytes;
}

kvl_addr kvl_refdev_tail_addr(const struct kvl_refdev *dev, kvl_request id, uint32_t cache, kvl_row row)
{
  kvl_slot place = kvl_cache_tail_place(dev->slots[id].cache[cache], row);
  struct kvl_cache_bases bases;
  kvl_layout_bases(&dev->layout, &dev->config, id, cache, &bases);
  return place == KVL_NONE ? KVL_NONE : bases.tail + place;
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
