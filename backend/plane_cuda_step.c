/* A decode step submitted. In stream order: population copies, state updates (page maps, heads), the graph, then, when asked for, a bare gather of
 * its host rows, and the witness. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plane_cuda_state.h"

static uint32_t *selection_of(const struct cuda_gpu *g, kvl_request slot, uint32_t half)
{
  return g->selections + ((uint64_t)slot * 2 + half) * g->plane->selection_words;
}

/* The slot's selections for a step at `tokens` committed tokens, into the half of its pinned buffer. */
static void prepare(struct cuda_gpu *g, kvl_request id, uint32_t tokens, uint32_t half)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_plane_inputs *in = &c->config.inputs;
  struct cuda_slot *slot = &g->slot[id];
  uint32_t queries = c->queries_max; /* how many are verified is not known yet; the first of them are the same however many follow */
  uint32_t *buffer = selection_of(g, id, half);
  bool pooled = c->points_all != c->config.device.points;
  if (pooled) {
    kvl_pool_rows_begin(&g->pools, queries, c->config.pool_rows_per_block, tokens / c->config.device.cache[c->pool_cache].tokens_per_row,
                        c->config.device.pool_rows_max);
  }
  if (c->points_all != 0) {
    in->step(in->context, g->index, id, tokens, queries);
  }
  for (uint32_t p = 0; p < c->points_all; p++) {
    const struct kvl_gpu_point *point = &g->point_host[p];
    uint32_t *n = buffer + point->selection_offset;
    for (uint32_t q = 0; q < queries; q++) {
      int32_t *rows = (int32_t *)(void *)(n + c->queries_max) + (uint64_t)q * point->k;
      const int32_t *from;
      if (p < c->config.device.points) {
        n[q] = in->rows(in->context, g->index, id, c->config.device.point[p].selection, q, &from);
        memcpy(rows, from, n[q] * sizeof *rows);
        continue;
      }
      const int32_t *selected;
      uint32_t k = in->rows(in->context, g->index, id, c->config.device.point[c->pool_point].selection, q, &selected);
      uint32_t blocks = in->pool(in->context, g->index, id, q, &from);
      n[q] = kvl_pool_rows_add(&g->pools, from, blocks < c->config.pool_blocks ? blocks : c->config.pool_blocks, selected, k, rows);
      slot->candidates[q] = (uint32_t)g->pools.announced;
    }
  }
  slot->prepared_tokens = tokens;
  slot->prepared_half = half;
}

/* Page maps as the policy has them now, against what the device has. A give-back touches a few pages of every request's thousands: only stretches that
 * changed are looked at (comparing all took 0.15 ms of a step of 82 requests). */
static int poke_map(struct cuda_gpu *g, const struct kvl_step_item *item, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  struct cuda_slot *slot = &g->slot[item->slot];
  kvl_frame *map = slot->page_map;
  uint64_t word = c->state_words * item->slot + c->map_at;
  int rc = 0;
  uint64_t seen = slot->page_map_version;
  uint32_t pages = item->page_map == NULL || seen == item->page_map_version ? 0 : item->pages;
  slot->page_map_version = item->page_map_version;
  for (uint32_t first = 0, end; rc == 0 && first < pages; first = end) {
    end = pages - first < KVL_MAP_STRETCH ? pages : first + KVL_MAP_STRETCH;
    for (uint32_t p = item->page_map_changes[first / KVL_MAP_STRETCH] > seen ? first : end; rc == 0 && p < end; p++) {
      if (map[p] != item->page_map[p]) {
        map[p] = item->page_map[p];
        rc = kvl_cuda_add_poke(g, word + p, (uint32_t)map[p], err);
      }
    }
  }
  return rc;
}

static void add_write(struct cuda_gpu *g, const struct cuda_block *b, uint32_t cache, unsigned char *to, uint64_t session, kvl_row first, uint32_t rows,
                      uint32_t salt)
{
  if (rows != 0) {
    kvl_cuda_writes_at(g->block, b, cache)[(*kvl_cuda_word_at(g->block, b->write_count + cache * 4))++] =
      (struct kvl_fill){.to = to, .session = session, .cache = cache, .row_bytes = g->plane->config.device.cache[cache].row_bytes, .first_row = first,
                        .rows = rows, .salt = salt};
  }
}

/* The step's own rows: declared as scratch before it, written in it at their layer. Those of drafts that will be rejected carry other bytes. */
static int begin_rows(struct cuda_gpu *g, const struct cuda_block *b, const struct kvl_step_item *item, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  struct cuda_slot *slot = &g->slot[item->slot];
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < d->caches; i++) {
    uint32_t tpr = d->cache[i].tokens_per_row, row_bytes = d->cache[i].row_bytes, first = item->tokens / tpr;
    uint32_t rows = (item->tokens + item->queries) / tpr - first, good = (item->tokens + item->commit) / tpr - first;
    rc = kvl_cache_scratch(slot->mirror[i], rows);
    if (rc != 0) {
      return kvl_err_set(err, rc, "cache %u: the scratch does not hold %u rows", i, rows);
    }
    rc = kvl_cuda_poke_head(g, item->slot, i, rows, err);
    struct kvl_cache_bases bases;
    kvl_layout_bases(&c->layout, d, item->slot, i, &bases);
    unsigned char *scratch = g->arena + (uint64_t)(uint32_t)bases.scratch * row_bytes;
    uint32_t salt = (uint32_t)g->number | 1u;
    add_write(g, b, i, scratch, slot->session, (kvl_row)first, good, 0);
    add_write(g, b, i, scratch + (uint64_t)good * row_bytes, slot->session, (kvl_row)(first + good), rows - good, salt);
    if (g->witness != NULL) {
      unsigned char *witness = g->witness + kvl_cuda_host_offset(c, item->slot, i, (kvl_row)first);
      add_write(g, b, i, witness, slot->session, (kvl_row)first, good, 0);
      add_write(g, b, i, witness + (uint64_t)good * row_bytes, slot->session, (kvl_row)(first + good), rows - good, salt);
    }
  }
  return rc;
}

/* Where an accepted row goes, in bytes of the arena: to its place in the tail, of which the device's map learns with the next step, or, in resident mode, to
 * its frame at once: its page has been in the map since the request was opened, so the tail stays empty. */
static int commit_row(struct cuda_gpu *g, kvl_request id, uint32_t cache, kvl_row row, kvl_slot place, uint64_t *to, struct kvl_err *err)
{
  const struct cuda_plane *c = g->plane;
  const struct kvl_cache_geometry *geometry = &c->layout.geometry[cache];
  uint32_t row_bytes = c->config.device.cache[cache].row_bytes, page = (uint32_t)row >> geometry->page_shift;
  if (!c->config.resident) {
    struct kvl_cache_bases bases;
    kvl_layout_bases(&c->layout, &c->config.device, id, cache, &bases);
    *to = (uint64_t)(uint32_t)(bases.tail + place) * row_bytes;
    return kvl_cuda_add_poke(g, c->state_words * id + c->tail_at[cache] + (uint32_t)row % geometry->tail_rows, (uint32_t)place, err);
  }
  if (page >= g->slot[id].pages) {
    return kvl_err_set(err, -EPROTO, "batch slot %u: row %d of cache %u is past the %u pages that were reserved", id, row, cache, g->slot[id].pages);
  }
  *to = kvl_cuda_frame_offset(c, g->slot[id].page_map[page], cache) + (uint64_t)((uint32_t)row & ((1u << geometry->page_shift) - 1)) * row_bytes;
  return 0;
}

/* What becomes history at the step's end. */
static int end_rows(struct cuda_gpu *g, const struct cuda_block *b, const struct kvl_step_item *item, struct kvl_err *err)
{
  struct kvl_segment *commit = (struct kvl_segment *)(void *)(g->block + b->commit);
  uint32_t *commit_count = kvl_cuda_word_at(g->block, b->commit_count);
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < d->caches; i++) {
    struct kvl_cache *mirror = g->slot[item->slot].mirror[i];
    uint32_t tpr = d->cache[i].tokens_per_row, row_bytes = d->cache[i].row_bytes, tail_rows = c->layout.geometry[i].tail_rows;
    uint32_t first = item->tokens / tpr, rows = (item->tokens + item->commit) / tpr - first, room = tail_rows - kvl_cache_tail_rows(mirror);
    if (rows > room) { /* the engine holds steps back until the oldest tail rows' host copies are complete */
      (void)kvl_cache_written_back(mirror, rows - room);
    }
    rc = kvl_cache_commit(mirror, rows);
    rc = rc != 0 ? rc : kvl_cache_scratch(mirror, 0);
    if (rc != 0) {
      return kvl_err_set(err, rc, "cache %u: the tail of %u rows has no room for %u more", i, tail_rows, rows);
    }
    struct kvl_cache_bases bases;
    kvl_layout_bases(&c->layout, d, item->slot, i, &bases);
    for (uint32_t k = 0; rc == 0 && k < rows; k++) {
      kvl_row row = (kvl_row)(first + k);
      kvl_slot place = kvl_cache_tail_place(mirror, row);
      struct kvl_segment *s = &commit[(*commit_count)++];
      *s = (struct kvl_segment){.from = (uint64_t)((uint32_t)bases.scratch + k) * row_bytes, .bytes = row_bytes};
      g->committed[g->committed_count++] = (struct committed){.slot = item->slot, .cache = (uint16_t)i, .place = place, .row = row};
      rc = commit_row(g, item->slot, i, row, place, &s->to, err);
    }
    if (c->config.resident) {
      (void)kvl_cache_written_back(mirror, rows);
    }
  }
  return rc;
}

static bool is_first_of_selection(const struct kvl_refdev_config *d, uint32_t point)
{
  for (uint32_t p = 0; p < point; p++) {
    if (d->point[p].selection == d->point[point].selection) {
      return false;
    }
  }
  return true;
}

/* What the step selected, page by page, and how many lanes repeat a row of an earlier query: from the selections as they were sent, while the GPU works. */
static void note_selected(struct cuda_gpu *g, const struct kvl_step_item *item, uint32_t half)
{
  struct cuda_plane *c = g->plane;
  for (uint32_t p = 0; p < c->config.device.points && (item->selected_by_page != NULL || item->queries > 1); p++) {
    if (!is_first_of_selection(&c->config.device, p)) {
      continue;
    }
    const struct kvl_gpu_point *point = &g->point_host[p];
    const uint32_t *n = selection_of(g, item->slot, half) + point->selection_offset;
    uint32_t shift = c->layout.geometry[point->cache].page_shift, committed = item->tokens / c->config.device.cache[point->cache].tokens_per_row;
    g->epoch++;
    for (uint32_t q = 0; q < item->queries; q++) {
      const int32_t *rows = (const int32_t *)(const void *)(n + c->queries_max) + (uint64_t)q * point->k;
      for (uint32_t i = 0; i < n[q]; i++) {
        if (rows[i] < 0) {
          continue;
        }
        if (item->selected_by_page != NULL && (uint32_t)rows[i] < committed) { /* what may still be rejected is on no page */
          item->selected_by_page[rows[i] >> shift]++;
        }
        if (item->queries > 1) {
          g->shared_lanes += g->seen[rows[i]] == g->epoch;
          g->seen[rows[i]] = g->epoch;
        }
      }
    }
  }
}

/* Duration of a layer, less what its stand-in for attention takes: together they are the layer. */
static int poke_durations(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  uint64_t layer = g->compute_ns / c->config.layers, rest = layer > g->reader_ns ? layer - g->reader_ns : 0;
  uint64_t word = c->state_words * c->config.device.slots;
  int rc = kvl_cuda_add_poke(g, word, (uint32_t)layer, err);
  rc = rc != 0 ? rc : kvl_cuda_add_poke(g, word + 1, (uint32_t)(layer >> 32), err);
  rc = rc != 0 ? rc : kvl_cuda_add_poke(g, word + 2, (uint32_t)rest, err);
  return rc != 0 ? rc : kvl_cuda_add_poke(g, word + 3, (uint32_t)(rest >> 32), err);
}

/* Into the step's block, as many as it holds; those before them go ahead in the stream. */
static int send_pokes(struct cuda_gpu *g, const struct cuda_block *b, struct kvl_err *err)
{
  uint32_t here = g->poke_count < b->pokes_max ? g->poke_count : b->pokes_max, ahead = g->poke_count - here;
  memcpy(g->block + b->poke, &g->poke[ahead], here * sizeof *g->poke);
  *kvl_cuda_word_at(g->block, b->poke_count) = here;
  g->poke_count = 0;
  return kvl_cuda_pokes(g, g->poke, ahead, g->main, err);
}

static int submit_items(struct cuda_gpu *g, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  struct cuda_block b = kvl_cuda_block(c, step->count);
  uint64_t queries = 0, history = 0;
  uint32_t half = step->number & 1u;
  g->candidates = 0;
  int rc = kvl_gpu_stream_wait(g->gpu, g->main, g->uploaded, err);
  for (uint32_t i = 0; rc == 0 && i < step->count; i++) { /* who joins has no selections yet */
    const struct kvl_step_item *item = &step->items[i];
    struct cuda_slot *slot = &g->slot[item->slot];
    rc = kvl_cuda_wait_filled(g, item->slot, g->main, err);
    bool ready = slot->prepared_tokens == item->tokens && slot->prepared_half == half;
    if (!ready) {
      prepare(g, item->slot, item->tokens, half);
    }
    if (!ready || !g->ahead_uploaded) {
      uint64_t at = ((uint64_t)item->slot * 2 + half) * c->selection_words;
      if (rc == 0 && c->selection_words != 0) {
        rc = kvl_gpu_copy(g->gpu, g->selections_device + at, g->selections + at, c->selection_words * 4, g->main, err);
      }
    }
    queries += item->queries;
    history += item->tokens;
    g->candidates += c->points_all == c->config.device.points ? 0 : slot->candidates[item->queries - 1];
    kvl_cuda_items_at(g->block, &b)[i] = (struct kvl_gpu_item){.slot = (int32_t)item->slot, .tokens = item->tokens, .queries = item->queries,
                                       .whole = item->whole || c->config.resident,
                                       .pages = c->config.resident ? slot->pages : item->page_map == NULL ? 0 : item->pages, .half = half};
  }
  uint64_t before = kvl_cuda_wall_ns(c);
  for (uint32_t i = 0; rc == 0 && i < step->count; i++) {
    rc = poke_map(g, &step->items[i], err);
  }
  g->revoked = step->revoked_pages == 0 ? 0 : kvl_cuda_wall_ns(c) - before;
  g->compute_ns = c->config.inputs.compute_ns(c->config.inputs.context, step->count, (uint32_t)queries, history);
  memset(g->block, 0, b.item);
  g->committed_count = 0;
  for (uint32_t i = 0; rc == 0 && i < step->count; i++) {
    rc = begin_rows(g, &b, &step->items[i], err);
  }
  rc = rc != 0 ? rc : poke_durations(g, err);
  rc = rc != 0 ? rc : send_pokes(g, &b, err);
  for (uint32_t i = 0; rc == 0 && i < step->count; i++) {
    rc = end_rows(g, &b, &step->items[i], err);
  }
  rc = rc != 0 ? rc : kvl_cuda_launch(g, step->count, err);
  g->shared_lanes = 0;
  for (uint32_t i = 0; rc == 0 && !c->config.resident && i < step->count; i++) {
    note_selected(g, &step->items[i], half);
  }
  return rc;
}

/* While the GPU works: what the same batch will select next, if it goes on. A request at a time, between two looks at
 * what has completed; what is not done when the next step is submitted is made then. */
int kvl_cuda_look_ahead(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  uint32_t half = (g->number + 1) & 1u;
  if (g->ahead_next < g->ahead_count) {
    const struct ahead *a = &g->ahead[g->ahead_next++];
    prepare(g, a->slot, a->tokens, half);
    g->ahead_slots = a->slot >= g->ahead_slots ? a->slot + 1 : g->ahead_slots;
    return 1;
  }
  if (g->ahead_slots == 0) {
    return 0;
  }
  uint64_t words = c->selection_words;
  int rc = kvl_gpu_copy_2d(g->gpu, g->selections_device + half * words, 2 * words * 4, g->selections + half * words, 2 * words * 4, words * 4,
                           g->ahead_slots, g->upload, err);
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->uploaded, g->upload, err);
  g->ahead_uploaded = true;
  g->ahead_slots = 0;
  return rc != 0 ? rc : 1;
}

static void plan_ahead(struct cuda_gpu *g, const struct kvl_plane_step *step)
{
  struct cuda_plane *c = g->plane;
  g->ahead_count = g->ahead_next = g->ahead_slots = 0;
  g->ahead_uploaded = false;
  for (uint32_t i = 0; c->selection_words != 0 && i < step->count; i++) {
    const struct kvl_step_item *item = &step->items[i];
    if (item->tokens + item->commit < c->config.tokens_max) {
      g->ahead[g->ahead_count++] = (struct ahead){item->slot, item->tokens + item->commit};
    }
  }
}

int kvl_cuda_step(struct kvl_plane *plane, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct cuda_plane *c = kvl_cuda_of(plane);
  struct cuda_gpu *g = &c->gpu[step->gpu];
  int rc = kvl_cuda_collect_check(g, err);
  rc = rc != 0 ? rc : kvl_cuda_collect_floor(g, err);
  g->number = step->number;
  g->submit_ns = c->now_ns;
  g->items = step->count;
  g->had_serial = step->serial_count != 0;
  g->serial_bytes = step->serial_count * c->config.device.page_bytes;
  g->revoked = 0;
  g->joined = step->admissions != 0;
  if (g->had_serial) {
    for (uint32_t i = 0; rc == 0 && i < step->serial_count; i++) { /* waiting for a history to appear on the host is not population */
      rc = i != 0 && step->serial[i].request == step->serial[i - 1].request ? 0 : kvl_cuda_wait_filled(g, step->serial[i].request, g->main, err);
    }
    /* An event goes to whichever engine worked for the stream last, in order with all that waits there: after a step that is the one that copies to the host,
     * where whole histories of new sessions may be queued. Behind a kernel it is taken at once. */
    rc = rc != 0 ? rc : kvl_gpu_launched(g->k->empty(g->main), "empty", err);
    rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->serial_begin, g->main, err);
    rc = rc != 0 ? rc : kvl_cuda_pages(g, step->serial, step->serial_count, g->main, err);
    rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->serial_end, g->main, err);
  }
  if (step->count != 0) {
    rc = rc != 0 ? rc : submit_items(g, step, err);
  }
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->step_done, g->main, err);
  g->in_step = rc == 0;
  if (rc == 0 && c->config.floor && step->count != 0 && step->number % KVL_FLOOR_STRIDE == 0) {
    rc = kvl_cuda_floor(g, step->count, err);
  }
  if (rc == 0 && g->witness != NULL && step->count != 0 && kvl_check_step(c->config.check, step->number)) {
    rc = kvl_cuda_check(g, step->count, err);
  }
  plan_ahead(g, step);
  return rc != 0 ? rc : kvl_cuda_write_back(g, err);
}
