/* A request's device state: opened, mirrored on the host, its bytes made. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plane_cuda_state.h"

/* ---- the device's memory for slots ---- */

static int open_blank(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  uint64_t bytes = c->state_words * 4;
  int rc = kvl_gpu_alloc(g->gpu, bytes, 0, "the blank state of a batch slot", (void **)&g->blank, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, bytes * d->slots + 64, 0, "the state of the batch slots (maps, stamps)", (void **)&g->state, err);
  uint32_t *blank = calloc(c->state_words, 4);
  if (rc == 0 && blank == NULL) {
    rc = kvl_err_set(err, -ENOMEM, "no memory for the state of a batch slot");
  }
  for (uint32_t i = 0; rc == 0 && i < d->caches; i++) {
    const struct kvl_cache_geometry *geometry = &c->layout.geometry[i];
    for (uint32_t k = 0; k < c->rows_max[i]; k++) {
      blank[c->place_at[i] + k] = (uint32_t)KVL_PLACE_EMPTY;
    }
    memset(&blank[c->row_at[i]], 0xff, (size_t)(geometry->hot_rows + geometry->bank_rows) * 4);
    memset(&blank[c->tail_at[i]], 0xff, (size_t)geometry->tail_rows * 4);
  }
  if (rc == 0) {
    memset(&blank[c->map_at], 0xff, (size_t)c->pages_max * 4);
    rc = kvl_gpu_copy(g->gpu, g->blank, blank, bytes, g->main, err);
    rc = rc != 0 ? rc : kvl_gpu_synchronize(g->gpu, g->main, err);
  }
  free(blank);
  return rc;
}

/* Pinned bytes of a slot: the fills of its opening, at most 3 a cache, and two counts. */
static uint64_t fills_of_slot(uint32_t caches)
{
  return (3 * caches * sizeof(struct kvl_fill) + 2 * sizeof(uint32_t) + 15) / 16 * 16;
}

/* What resolve needs to know of a slot and never changes. */
static int open_entries(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  struct kvl_resolve_entry *e = calloc(d->slots, sizeof *e);
  int rc = e == NULL ? kvl_err_set(err, -ENOMEM, "no memory for %u batch slots", d->slots) : 0;
  for (uint32_t i = 0; rc == 0 && i < d->caches; i++) {
    for (uint32_t s = 0; s < d->slots; s++) {
      uint32_t *state = (uint32_t *)(void *)g->state + c->state_words * s;
      e[s] = (struct kvl_resolve_entry){
        .request = (int32_t)s,
        .rows_max = c->rows_max[i],
        .head = (struct kvl_cache_head *)(void *)(state + c->head_at[i]),
        .frame_of_page = (const kvl_frame *)(const void *)(state + c->map_at),
        .place_of_row = (int32_t *)(void *)(state + c->place_at[i]),
        .stamp = state + c->stamp_at[i],
        .row_of_place = (kvl_row *)(void *)(state + c->row_at[i]),
        .pinned = state + c->pinned_at[i],
        .tail_place = (const kvl_slot *)(const void *)(state + c->tail_at[i]),
        /* Resident mode fetches nothing; should it, the bytes would be another request's and be found out. */
        .host_rows = g->host != NULL ? g->host + kvl_cuda_host_offset(c, s, i, 0) : g->staging + c->host_offset[i],
      };
      kvl_layout_bases(&c->layout, d, s, i, &e[s].bases);
    }
    rc = kvl_gpu_alloc(g->gpu, d->slots * sizeof *e, 0, "batch slots", (void **)&g->slot_entry[i], err);
    rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, d->slots * sizeof *e, 0, "batch entries", (void **)&g->entry[i], err);
    rc = rc != 0 ? rc : kvl_gpu_copy(g->gpu, g->slot_entry[i], e, d->slots * sizeof *e, g->main, err);
    rc = rc != 0 ? rc : kvl_gpu_synchronize(g->gpu, g->main, err); /* `e` is used again */
  }
  free(e);
  return rc;
}

/* Host memory of every slot, at once and touched: a request that is the first in its slot must not wait for pages of memory to appear or to be pinned. */
static int open_mirrors(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  uint32_t caches = c->config.device.caches, slots = c->config.device.slots;
  size_t bytes = 0;
  for (uint32_t i = 0; i < caches; i++) {
    bytes += (kvl_cache_bytes(&c->mirror_geometry[i]) + 63) / 64 * 64;
  }
  int rc = kvl_gpu_pin(g->gpu, slots * fills_of_slot(caches), 0, "the batch slots' fills", (void **)&g->fills, err);
  for (uint32_t s = 0; rc == 0 && s < slots; s++) {
    struct cuda_slot *slot = &g->slot[s];
    slot->mirror = calloc(caches + 1, sizeof(struct kvl_cache *));
    slot->mirror_memory = aligned_alloc(64, bytes + 64);
    slot->page_map = malloc((c->pages_max + 1) * sizeof *slot->page_map);
    if (slot->mirror == NULL || slot->mirror_memory == NULL || slot->page_map == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for batch slot %u of %u", s, slots);
    }
    memset(slot->mirror_memory, 0, bytes);
    memset(slot->page_map, 0xff, c->pages_max * sizeof *slot->page_map);
    slot->fill = (struct kvl_fill *)(void *)(g->fills + s * fills_of_slot(caches));
    slot->fill_count = (uint32_t *)(void *)(slot->fill + 3 * caches);
    rc = kvl_gpu_event_get(g->gpu, false, &slot->filled, err);
  }
  return rc;
}

int kvl_cuda_slots_open(struct cuda_gpu *g, struct kvl_err *err)
{
  g->slot = calloc(g->plane->config.device.slots, sizeof *g->slot);
  if (g->slot == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for %u batch slots", g->plane->config.device.slots);
  }
  int rc = open_blank(g, err);
  rc = rc != 0 ? rc : open_entries(g, err);
  return rc != 0 ? rc : open_mirrors(g, err);
}

void kvl_cuda_slots_close(struct cuda_gpu *g)
{
  const struct kvl_refdev_config *d = &g->plane->config.device;
  for (uint32_t s = 0; g->slot != NULL && s < d->slots; s++) {
    struct cuda_slot *slot = &g->slot[s];
    free(slot->mirror);
    free(slot->mirror_memory);
    free(slot->page_map);
  }
  kvl_gpu_unpin(g->gpu, g->fills, d->slots * fills_of_slot(d->caches), 0);
  free(g->slot);
  for (uint32_t i = 0; i < d->caches; i++) {
    kvl_gpu_free(g->gpu, g->slot_entry[i]);
    kvl_gpu_free(g->gpu, g->entry[i]);
  }
  kvl_gpu_free(g->gpu, g->blank);
  kvl_gpu_free(g->gpu, g->state);
}

/* ---- small updates, collected for the start of the next step ---- */

int kvl_cuda_add_poke(struct cuda_gpu *g, uint64_t word, uint32_t value, struct kvl_err *err)
{
  if (g->poke_count == g->poke_capacity) {
    uint32_t capacity = g->poke_capacity == 0 ? 4096 : 2 * g->poke_capacity;
    struct kvl_poke *grown = realloc(g->poke, capacity * sizeof *grown);
    if (grown == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for %u updates of the GPU's state", capacity);
    }
    g->poke = grown;
    g->poke_capacity = capacity;
  }
  g->poke[g->poke_count++] = (struct kvl_poke){.word = word, .value = value};
  return 0;
}

int kvl_cuda_poke_head(struct cuda_gpu *g, kvl_request slot, uint32_t cache, uint32_t scratch, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_cache *mirror = g->slot[slot].mirror[cache];
  uint64_t word = c->state_words * (uint32_t)slot + c->head_at[cache];
  uint32_t committed = (uint32_t)kvl_cache_committed(mirror);
  int rc = kvl_cuda_add_poke(g, word, committed, err);
  rc = rc != 0 ? rc : kvl_cuda_add_poke(g, word + 1, committed - kvl_cache_tail_rows(mirror), err);
  return rc != 0 ? rc : kvl_cuda_add_poke(g, word + 2, scratch, err);
}

/* ---- a request ---- */

/* Its bytes: the whole history to the host (made in HBM, then copied: what prefill and transfer would have brought), to the witness, and the open page's
 * rows into the tail; in resident mode to its frames and to the witness. All on the fill stream; whoever reads them waits for `filled`. */
static int make_bytes(struct cuda_gpu *g, kvl_request id, uint32_t tokens, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  struct cuda_slot *slot = &g->slot[id];
  uint32_t n = 0;
  int rc = 0;
  for (uint32_t i = 0; i < d->caches; i++) {
    slot->fill[n++] = (struct kvl_fill){.to = g->staging + c->host_offset[i], .session = slot->session, .cache = i, .row_bytes = d->cache[i].row_bytes,
                                        .first_row = 0, .rows = tokens / d->cache[i].tokens_per_row, .salt = 0};
  }
  slot->fill_count[0] = n;
  uint32_t first = n;
  for (uint32_t i = 0; i < d->caches; i++) {
    uint32_t rows = tokens / d->cache[i].tokens_per_row, tail = kvl_cache_tail_rows(slot->mirror[i]);
    struct kvl_fill f = {.session = slot->session, .cache = i, .row_bytes = d->cache[i].row_bytes};
    if (g->witness != NULL && rows != 0) {
      f.to = g->witness + kvl_cuda_host_offset(c, id, i, 0);
      f.rows = rows;
      slot->fill[n++] = f;
    }
    if (tail != 0) { /* an empty tail is filled from its first place on */
      struct kvl_cache_bases bases;
      kvl_layout_bases(&c->layout, d, id, i, &bases);
      f.to = g->arena + (uint64_t)(uint32_t)bases.tail * d->cache[i].row_bytes;
      f.first_row = (kvl_row)(rows - tail);
      f.rows = tail;
      slot->fill[n++] = f;
    }
  }
  slot->fill_count[1] = n - first;
  struct kvl_fills fills = {.fill = slot->fill, .count = &slot->fill_count[0], .fills_max = first};
  rc = kvl_gpu_launched(g->k->fills(&fills, g->fill), "fills", err);
  if (rc == 0 && c->config.resident) {
    rc = kvl_cuda_history_to_frames(g, id, tokens, err);
  }
  for (uint32_t i = 0; rc == 0 && !c->config.resident && i < d->caches; i++) {
    uint64_t bytes = (uint64_t)(tokens / d->cache[i].tokens_per_row) * d->cache[i].row_bytes;
    if (bytes != 0) {
      rc = kvl_gpu_copy(g->gpu, g->host + kvl_cuda_host_offset(c, id, i, 0), g->staging + c->host_offset[i], bytes, g->fill, err);
    }
  }
  if (rc == 0 && n != first) {
    fills = (struct kvl_fills){.fill = slot->fill + first, .count = &slot->fill_count[1], .fills_max = n - first};
    rc = kvl_gpu_launched(g->k->fills(&fills, g->fill), "fills", err);
  }
  return rc;
}

/* Resident mode: where all pages lie, from now to the end. In the stream that has just laid out the slot's state. */
static int poke_resident_map(struct cuda_gpu *g, kvl_request id, uint32_t pages, struct kvl_err *err)
{
  const struct cuda_plane *c = g->plane;
  struct kvl_poke *poke = malloc(((size_t)pages + 1) * sizeof *poke);
  if (poke == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for a map of %u pages", pages);
  }
  for (uint32_t p = 0; p < pages; p++) {
    poke[p] = (struct kvl_poke){.word = c->state_words * id + c->map_at + p, .value = (uint32_t)g->slot[id].page_map[p]};
  }
  int rc = kvl_cuda_pokes(g, poke, pages, g->fill, err);
  free(poke);
  return rc;
}

/* Where the open page's rows lie in the tail; the heads go with each step. In the stream that has just laid out the slot's state. */
static int poke_tail(struct cuda_gpu *g, kvl_request id, struct kvl_err *err)
{
  const struct cuda_plane *c = g->plane;
  uint32_t caches = c->config.device.caches, n = 0;
  struct kvl_poke *poke = malloc((size_t)caches * c->config.device.page_tokens * sizeof *poke);
  if (poke == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for the rows of an open page");
  }
  for (uint32_t i = 0; i < caches; i++) {
    const struct kvl_cache *mirror = g->slot[id].mirror[i];
    uint32_t tail = kvl_cache_tail_rows(mirror), first = (uint32_t)kvl_cache_committed(mirror) - tail;
    for (uint32_t row = first; row < first + tail; row++) {
      poke[n++] = (struct kvl_poke){.word = c->state_words * id + c->tail_at[i] + row % c->layout.geometry[i].tail_rows,
                                    .value = (uint32_t)kvl_cache_tail_place(mirror, (kvl_row)row)};
    }
  }
  int rc = kvl_cuda_pokes(g, poke, n, g->fill, err);
  free(poke);
  return rc;
}

int kvl_cuda_request_open(struct kvl_plane *plane, const struct kvl_plane_request *r, struct kvl_err *err)
{
  struct cuda_plane *c = kvl_cuda_of(plane);
  struct cuda_gpu *g = &c->gpu[r->gpu];
  const struct kvl_refdev_config *d = &c->config.device;
  struct cuda_slot *slot = &g->slot[r->slot];
  int rc = 0;
  unsigned char *at = slot->mirror_memory;
  for (uint32_t i = 0; rc == 0 && i < d->caches; i++) {
    struct kvl_cache_bases bases;
    kvl_layout_bases(&c->layout, d, r->slot, i, &bases);
    slot->mirror[i] = kvl_cache_init(at, &c->mirror_geometry[i], &bases, 0);
    at += (kvl_cache_bytes(&c->mirror_geometry[i]) + 63) / 64 * 64;
    uint32_t rows = r->input_tokens / d->cache[i].tokens_per_row;
    uint32_t whole = c->config.resident ? rows : r->input_tokens / d->page_tokens * (d->page_tokens / d->cache[i].tokens_per_row);
    rc = kvl_cache_load(slot->mirror[i], (kvl_row)whole);
    if (rc == 0 && rows > whole) {
      rc = kvl_cache_scratch(slot->mirror[i], rows - whole);
      rc = rc != 0 ? rc : kvl_cache_commit(slot->mirror[i], rows - whole);
    }
    if (rc != 0) {
      return kvl_err_set(err, rc, "cache %u: the tail of %u tokens does not hold an open page of %u", i, d->tail_tokens, d->page_tokens);
    }
  }
  if (rc != 0) {
    return rc;
  }
  slot->open = true;
  slot->session = r->session;
  slot->prepared_tokens = UINT32_MAX;
  slot->page_map_version = 0;
  memset(slot->page_map, 0xff, c->pages_max * sizeof *slot->page_map);
  if (c->config.resident) {
    if (r->resid == NULL || r->pages > c->pages_max) {
      return kvl_err_set(err, -EINVAL, "a request of resident mode has frames for %u pages at most; this one is said to have %u", c->pages_max, r->pages);
    }
    kvl_resid_reserved(r->resid, r->slot, slot->page_map, r->pages);
    slot->pages = r->pages;
  }
  /* Nobody may still write or read what the slot's last request left: its write-back, page copies from its history, the comparison of its last step. In
   * resident mode the frames, too, are another request's of before: its last step is over, and if it never had one, it was filled in this stream. */
  rc = kvl_cuda_write_back(g, err);
  rc = rc != 0 || !g->check_pending ? rc : kvl_gpu_stream_wait(g->gpu, g->fill, g->check_done, err);
  rc = rc != 0 ? rc : kvl_gpu_stream_wait(g->gpu, g->fill, g->wrote_back, err);
  if (rc == 0 && g->flight_count[0] != 0) {
    rc = kvl_gpu_stream_wait(g->gpu, g->fill, g->flight[0][(g->flight_first[0] + g->flight_count[0] - 1) % g->flight_capacity[0]].end, err);
  }
  rc = rc != 0 ? rc : kvl_gpu_copy(g->gpu, g->state + c->state_words * 4 * r->slot, g->blank, c->state_words * 4, g->fill, err);
  rc = rc != 0 ? rc : c->config.resident ? poke_resident_map(g, r->slot, r->pages, err) : poke_tail(g, r->slot, err);
  rc = rc != 0 ? rc : make_bytes(g, r->slot, r->input_tokens, err);
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, slot->filled, g->fill, err);
  slot->filling = true;
  return rc != 0 || c->config.inputs.open == NULL ? rc : c->config.inputs.open(c->config.inputs.context, r->gpu, r->slot, r->session, r->input_tokens, err);
}

int kvl_cuda_wait_filled(struct cuda_gpu *g, kvl_request slot, kvl_gpu_stream stream, struct kvl_err *err)
{
  if (!g->slot[slot].filling) {
    return 0;
  }
  int done = kvl_gpu_event_done(g->gpu, g->slot[slot].filled, err);
  if (done == 1) {
    g->slot[slot].filling = false;
  }
  return done < 0 ? done : done == 1 ? 0 : kvl_gpu_stream_wait(g->gpu, stream, g->slot[slot].filled, err);
}

void kvl_cuda_request_close(struct kvl_plane *plane, uint32_t gpu, kvl_request slot)
{
  struct cuda_plane *c = kvl_cuda_of(plane);
  struct cuda_gpu *g = &c->gpu[gpu];
  g->slot[slot].open = false;
  /* Updates that wait for the next step and completed pages of this request go nowhere. */
  uint64_t first = c->state_words * slot, end = first + c->state_words;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < g->poke_count; i++) {
    if (g->poke[i].word < first || g->poke[i].word >= end) {
      g->poke[kept++] = g->poke[i];
    }
  }
  g->poke_count = kept;
}
