/* A decode step on the GPU: its graph, its submission, what came of it.
 *
 * What the graph reads lies in memory that each submission fills anew (items, rows to write, selections, durations), so a graph is built once a batch
 * size. In stream order: population copies, state updates (page maps, heads), the graph, then, when the step is checked, the witness. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plane_cuda_state.h"

enum {
  WRITES = 4,        /* of an item, a cache: accepted and rejected rows, each in the scratch and in the witness */
  READER_SMOOTH = 16 /* steps */
};
#define WEIGHTS_BYTES (UINT64_C(1) << 30) /* that the stand-in layers read round and round: far more than any L2 */

/* ---- a step's lists ----
 * Items, rows to write and rows to commit lie in one block of pinned memory, which the graph's first node copies to the device: kernels that read lists
 * from host memory would wait a microsecond or more each. Its size and offsets depend on the batch size, as the graph does. */

struct block {
  uint64_t write_count, commit_count, item, write, commit, bytes; /* offsets; item: struct kvl_gpu_item [entries] */
  uint32_t writes_max, commits_max;                               /* of one cache; of all */
};

static struct block block_of(const struct cuda_plane *c, uint32_t entries)
{
  uint32_t caches = c->config.device.caches;
  struct block b = {.writes_max = WRITES * entries, .commits_max = entries * caches * c->queries_max};
  b.commit_count = b.write_count + caches * 4;
  b.item = (b.commit_count + 4 + 15) / 16 * 16;
  b.write = b.item + (entries * sizeof(struct kvl_gpu_item) + 15) / 16 * 16;
  b.commit = b.write + (uint64_t)caches * b.writes_max * sizeof(struct kvl_fill);
  b.bytes = b.commit + b.commits_max * sizeof(struct kvl_segment);
  return b;
}

static uint32_t *word_at(unsigned char *block, uint64_t offset)
{
  return (uint32_t *)(void *)(block + offset);
}

static struct kvl_gpu_item *items_at(unsigned char *block, const struct block *b)
{
  return (struct kvl_gpu_item *)(void *)(block + b->item);
}

static struct kvl_fill *writes_at(unsigned char *block, const struct block *b, uint32_t cache)
{
  return (struct kvl_fill *)(void *)(block + b->write) + (uint64_t)cache * b->writes_max;
}

/* ---- memory ---- */

static int open_points(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  uint64_t lanes = (uint64_t)d->slots * c->queries_max, at = 0;
  g->point_host = calloc(c->points_all + 1, sizeof *g->point_host);
  g->addresses = calloc(c->points_all + 1, sizeof *g->addresses);
  g->totals = calloc(c->points_all + 1, sizeof *g->totals);
  int rc = g->point_host == NULL || g->addresses == NULL || g->totals == NULL ? kvl_err_set(err, -ENOMEM, "no memory for %u selections", c->points_all) : 0;
  for (uint32_t p = 0; rc == 0 && p < c->points_all; p++) {
    struct kvl_gpu_point *point = &g->point_host[p];
    point->cache = p < d->points ? d->point[p].cache : c->pool_cache;
    point->k = p < d->points ? d->point[p].k : c->config.pool_blocks * c->config.pool_rows_per_block;
    at = kvl_cuda_aligned_selection(at, c->queries_max);
    point->selection_offset = at;
    at += (uint64_t)c->queries_max * (1 + point->k);
    rc = kvl_gpu_alloc(g->gpu, lanes * sizeof *point->query, 0, "queries", (void **)&point->query, err);
    rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, lanes * point->k * sizeof *point->rows, 0xff, "selected rows", (void **)&point->rows, err);
    rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, d->slots * sizeof *point->counts, 0, "counters", (void **)&point->counts, err);
    rc = rc != 0 || p >= d->points
           ? rc
           : kvl_gpu_alloc(g->gpu, lanes * point->k * sizeof **g->addresses, 0xff, "addresses", (void **)&g->addresses[p], err);
    if (rc == 0 && p < d->points && c->replayed[p]) {
      rc = kvl_gpu_alloc(g->gpu, lanes * point->k * sizeof **g->fetches, 0, "fetch lists", (void **)&g->fetches[p], err);
      rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, d->slots * sizeof **g->fetch_counts, 0, "fetch lists", (void **)&g->fetch_counts[p], err);
    }
  }
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, (c->points_all + 1) * sizeof *g->point, 0, "selections", (void **)&g->point, err);
  rc = rc != 0 ? rc : kvl_gpu_copy(g->gpu, g->point, g->point_host, (c->points_all + 1) * sizeof *g->point, g->main, err);
  return rc != 0 ? rc : kvl_gpu_synchronize(g->gpu, g->main, err);
}

static int open_bank(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  if (c->points_all == c->config.device.points) {
    return 0;
  }
  int ready = kvl_pool_rows_init(&g->pools, (uint64_t)c->queries_max * c->config.pool_blocks, c->k_max);
  if (ready != 0) {
    return kvl_err_set(err, ready, "no memory for the candidate pools");
  }
  uint64_t slots = c->config.device.slots, bank = c->layout.geometry[c->pool_cache].bank_rows;
  uint64_t lanes = (uint64_t)c->queries_max * c->config.pool_blocks * c->config.pool_rows_per_block;
  int rc = kvl_gpu_alloc(g->gpu, slots * bank * sizeof *g->bank_copies, 0, "the list of bank copies", (void **)&g->bank_copies, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, slots * lanes * sizeof *g->bank_dropped, 0, "rows that the bank has no room for", (void **)&g->bank_dropped, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, slots * 4, 0, "counters", (void **)&g->bank_copy_count, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, slots * 4, 0, "counters", (void **)&g->bank_drop_count, err);
  return rc != 0 ? rc : kvl_gpu_alloc(g->gpu, slots * 4 * KVL_ANNOUNCE_WORK_WORDS(lanes, bank), 0, "announce's workspace", (void **)&g->bank_work, err);
}

int kvl_cuda_steps_open(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  uint64_t slots = d->slots, queries = slots * c->queries_max, lanes = (uint64_t)c->queries_max * c->k_max, rows = 1;
  g->graph = calloc(slots + 1, sizeof *g->graph);
  g->ahead = calloc(slots, sizeof *g->ahead);
  g->committed = calloc(slots * d->caches * KVL_STEP_QUERIES_MAX, sizeof *g->committed);
  for (uint32_t i = 0; i < d->caches; i++) {
    rows = c->rows_max[i] > rows ? c->rows_max[i] : rows;
  }
  g->leaving = calloc(slots * d->caches * KVL_STEP_QUERIES_MAX, sizeof *g->leaving);
  g->seen = calloc(rows, sizeof *g->seen);
  if (g->graph == NULL || g->committed == NULL || g->leaving == NULL || g->seen == NULL || g->ahead == NULL) {
    return kvl_err_set(err, -ENOMEM, "no memory for %u batch slots", d->slots);
  }
  int rc = open_points(g, err);
  rc = rc != 0 ? rc : open_bank(g, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, slots * 4, 0, "counters", (void **)&g->fetch_count, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, slots * 4 * KVL_RESOLVE_WORK_WORDS(lanes, d->hot_rows), 0, "resolve's workspace", (void **)&g->work, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, (c->readers + 1) * queries * 8, 0, "digests", (void **)&g->digest, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, (c->witnesses + 1) * queries * 8, 0, "digests", (void **)&g->witness_digest, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, (c->readers + 1) * 4, 0, "readers", (void **)&g->point_of_reader, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, (c->readers + 1) * 4, 0, "readers", (void **)&g->witness_of_reader, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, (uint64_t)c->stamp_pairs * 16, 0, "time stamps", (void **)&g->stamps_device, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, 8, 0, "a word", (void **)&g->sink, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, (uint64_t)c->config.layers * 8, 0, "stand-in layers", (void **)&g->starts, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, slots * 2 * c->selection_words * 4, 0xff, "selections", (void **)&g->selections_device, err);
  if (rc == 0 && c->config.compute_hbm_bytes != 0) {
    rc = kvl_gpu_alloc(g->gpu, WEIGHTS_BYTES, 0x3c, "the memory that the stand-in layers read", (void **)&g->weights, err);
  }
  rc = rc != 0 ? rc : kvl_gpu_pin(g->gpu, slots * 2 * c->selection_words * 4 + 4, 0, "selections", (void **)&g->selections, err);
  uint64_t block = block_of(c, d->slots).bytes;
  rc = rc != 0 ? rc : kvl_gpu_pin(g->gpu, block, 0, "a step's lists", (void **)&g->block, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(g->gpu, block, 0, "a step's lists", (void **)&g->block_device, err);
  rc = rc != 0 ? rc : kvl_gpu_pin(g->gpu, 4, 0, "a step's switch", (void **)&g->check, err);
  rc = rc != 0 ? rc : kvl_gpu_pin(g->gpu, sizeof *g->outcome, 0, "a step's outcome", (void **)&g->outcome, err);
  rc = rc != 0 ? rc : kvl_gpu_pin(g->gpu, sizeof *g->checked, 0, "a step's outcome", (void **)&g->checked, err);
  rc = rc != 0 ? rc : kvl_gpu_pin(g->gpu, (uint64_t)c->stamp_pairs * 16, 0, "time stamps", (void **)&g->stamps, err);
  if (rc == 0 && c->readers != 0) {
    uint32_t *point = malloc(c->readers * sizeof *point), n = 0;
    if (point == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory for %u readers", c->readers);
    }
    for (uint32_t i = 0; i < c->config.stage_count; i++) {
      if (c->stages[i].kind == KVL_STAGE_READ) {
        point[n++] = c->stages[i].point;
      }
    }
    rc = kvl_gpu_copy(g->gpu, g->point_of_reader, point, c->readers * sizeof *point, g->main, err);
    rc = rc != 0 ? rc : kvl_gpu_copy(g->gpu, g->witness_of_reader, c->witness_of_reader, c->readers * sizeof *point, g->main, err);
    rc = rc != 0 ? rc : kvl_gpu_synchronize(g->gpu, g->main, err);
    free(point);
  }
  return rc;
}

void kvl_cuda_steps_close(struct cuda_gpu *g)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  uint64_t slots = d->slots;
  for (uint64_t i = 0; g->graph != NULL && i <= slots; i++) {
    kvl_gpu_graph_destroy(g->gpu, g->graph[i].graph);
  }
  for (uint32_t p = 0; g->point_host != NULL && p < c->points_all; p++) {
    kvl_gpu_free(g->gpu, g->point_host[p].query);
    kvl_gpu_free(g->gpu, g->point_host[p].rows);
    kvl_gpu_free(g->gpu, g->point_host[p].counts);
    kvl_gpu_free(g->gpu, g->addresses == NULL ? NULL : g->addresses[p]);
    kvl_gpu_free(g->gpu, p < KVL_REFDEV_POINTS ? g->fetches[p] : NULL);
    kvl_gpu_free(g->gpu, p < KVL_REFDEV_POINTS ? g->fetch_counts[p] : NULL);
  }
  void *device[] = {g->point, g->bank_copies, g->bank_dropped, g->bank_copy_count, g->bank_drop_count, g->bank_work, g->fetch_count, g->work, g->digest,
                    g->witness_digest, g->point_of_reader, g->witness_of_reader, g->stamps_device, g->sink, g->starts, g->selections_device, g->weights, g->block_device};
  for (uint32_t i = 0; i < sizeof device / sizeof device[0]; i++) {
    kvl_gpu_free(g->gpu, device[i]);
  }
  kvl_gpu_unpin(g->gpu, g->selections, slots * 2 * c->selection_words * 4 + 4, 0);
  kvl_gpu_unpin(g->gpu, g->block, block_of(c, d->slots).bytes, 0);
  kvl_gpu_unpin(g->gpu, g->check, 4, 0);
  kvl_gpu_unpin(g->gpu, g->outcome, sizeof *g->outcome, 0);
  kvl_gpu_unpin(g->gpu, g->checked, sizeof *g->checked, 0);
  kvl_gpu_unpin(g->gpu, g->stamps, (uint64_t)c->stamp_pairs * 16, 0);
  kvl_pool_rows_deinit(&g->pools);
  free(g->graph);
  free(g->committed);
  free(g->leaving);
  free(g->seen);
  free(g->ahead);
  free(g->poke);
  free(g->point_host);
  free(g->addresses);
  free(g->totals);
}

/* ---- the graph ---- */

static int enqueue_begin(struct cuda_gpu *g, uint32_t entries, const struct block *b_of, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  struct kvl_step_begin b = {.entries = entries, .queries_max = c->queries_max, .caches = d->caches, .points = c->points_all,
                             .item = items_at(g->block_device, b_of),
                             .point = g->point, .selections = g->selections_device, .selection_words = c->selection_words,
                             .stamps = g->stamps_device, .stamp_pairs = c->stamp_pairs};
  for (uint32_t i = 0; i < d->caches; i++) {
    b.tokens_per_row[i] = d->cache[i].tokens_per_row;
    b.slot_entry[i] = g->slot_entry[i];
    b.entry[i] = g->entry[i];
  }
  return kvl_gpu_launched(g->k->begin(&b, stream), "begin", err);
}

static uint32_t part_bytes(const struct cuda_plane *c, uint32_t cache)
{
  uint32_t parts = c->config.device.cache[cache].parts;
  return c->config.device.cache[cache].row_bytes / (parts == 0 ? 1 : parts);
}

static bool has_parts(const struct cuda_plane *c, uint32_t cache)
{
  return c->config.device.cache[cache].parts > 1;
}

static int enqueue_resolve(struct cuda_gpu *g, uint32_t entries, uint32_t p, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_gpu_point *point = &g->point_host[p];
  struct kvl_resolve_batch b = {
    .geometry = c->layout.geometry[point->cache],
    .entries = entries,
    .queries_max = c->queries_max,
    .k = point->k,
    .row_bytes = c->config.device.cache[point->cache].row_bytes,
    .entry = g->entry[point->cache],
    .query = point->query,
    .rows = point->rows,
    .addresses = g->addresses[p],
    .fetches = c->replayed[p] ? g->fetches[p] : NULL,
    .fetch_count = c->replayed[p] ? g->fetch_counts[p] : g->fetch_count,
    .counts = point->counts,
    .fetch_bytes = c->replayed[p] ? part_bytes(c, point->cache) : 0,
    .arena = g->arena,
    .work = g->work,
    .stamp = g->stamps_device + 2 * (c->stamp_resolve + p),
  };
  return kvl_gpu_launched(g->k->resolve(&b, stream), "resolve", err);
}

/* The fetch list again, for the parts that later layers read: one copy a part, in order, each with an event that its layer waits for. */
static int enqueue_replay(struct cuda_gpu *g, uint32_t entries, uint32_t p, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_gpu_point *point = &g->point_host[p];
  int rc = kvl_gpu_event_record(g->gpu, g->side_fork, stream, err);
  rc = rc != 0 ? rc : kvl_gpu_stream_wait(g->gpu, g->side, g->side_fork, err);
  for (uint32_t part = 1; rc == 0 && part < c->config.device.cache[point->cache].parts; part++) {
    struct kvl_bank_copy copy = {.entries = entries, .bank_rows = c->queries_max * point->k, .row_bytes = c->config.device.cache[point->cache].row_bytes,
                                 .entry = g->entry[point->cache], .copies = g->fetches[p], .copy_count = g->fetch_counts[p], .arena = g->arena,
                                 .blocks_max = COPY_BLOCKS, .stamp = g->stamps_device + 2 * (c->stamp_replay + p),
                                 .part_offset = part * part_bytes(c, point->cache), .part_bytes = part_bytes(c, point->cache)};
    rc = kvl_gpu_launched(g->k->bank_copy(&copy, g->side), "replay of a fetch list", err);
    rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->part_done[part], g->side, err);
  }
  return rc;
}

static struct kvl_announce_batch announce_batch(const struct cuda_gpu *g, uint32_t entries)
{
  const struct cuda_plane *c = g->plane;
  const struct kvl_gpu_point *pool = &g->point_host[c->config.device.points];
  return (struct kvl_announce_batch){
    .geometry = c->layout.geometry[pool->cache],
    .entries = entries,
    .queries_max = c->queries_max,
    .pool_max = pool->k,
    .entry = g->entry[pool->cache],
    .query = pool->query,
    .pools = pool->rows,
    .copies = g->bank_copies,
    .dropped = g->bank_dropped,
    .copy_count = g->bank_copy_count,
    .drop_count = g->bank_drop_count,
    .work = g->bank_work,
  };
}

/* The pool's copies run on a stream of their own until the WAIT stage joins it. */
static int enqueue_announce(struct cuda_gpu *g, uint32_t entries, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  struct kvl_announce_batch a = announce_batch(g, entries);
  struct kvl_bank_copy copy = {.entries = entries, .bank_rows = a.geometry.bank_rows, .row_bytes = c->config.device.cache[c->pool_cache].row_bytes,
                               .entry = a.entry, .copies = g->bank_copies, .copy_count = g->bank_copy_count, .arena = g->arena,
                               .blocks_max = COPY_BLOCKS, .stamp = g->stamps_device + 2 * c->stamp_bank};
  int rc = kvl_gpu_launched(g->k->announce(&a, stream), "announce", err);
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->side_fork, stream, err);
  rc = rc != 0 ? rc : kvl_gpu_stream_wait(g->gpu, g->side, g->side_fork, err);
  rc = rc != 0 ? rc : kvl_gpu_launched(g->k->bank_copy(&copy, g->side), "bank copy", err);
  return rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->side_join, g->side, err);
}

static int enqueue_read(struct cuda_gpu *g, uint32_t entries, uint32_t p, uint32_t part, uint32_t reader, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_gpu_point *point = &g->point_host[p];
  struct kvl_reader r = {.entries = entries, .queries_max = c->queries_max, .k = point->k, .row_bytes = c->config.device.cache[point->cache].row_bytes,
                         .entry = g->entry[point->cache], .query = point->query, .addresses = g->addresses[p], .arena = g->arena,
                         .digest = g->digest + (uint64_t)reader * entries * c->queries_max,
                         .stamp = g->stamps_device + 2 * (c->stamp_reader + reader)};
  if (has_parts(c, point->cache)) {
    r.part_bytes = part_bytes(c, point->cache);
    r.part_offset = part * r.part_bytes;
  }
  return kvl_gpu_launched(g->k->reader(&r, stream), "reader", err);
}

static int enqueue_compute(struct cuda_gpu *g, uint32_t layer, bool reads, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  uint64_t bytes = c->config.compute_hbm_bytes / c->config.layers;
  struct kvl_standin s = {.duration_ns = &g->duration[reads ? 1 : 0], .from = g->weights, .from_bytes = g->weights == NULL ? 0 : WEIGHTS_BYTES,
                          .bytes = bytes, .from_offset = (uint64_t)layer * bytes % WEIGHTS_BYTES / 4096 * 4096, .sink = g->sink,
                          .start = &g->starts[layer], .stamp = g->stamps_device + 2 * (c->stamp_layer + layer)};
  return kvl_gpu_launched(g->k->standin(&s, stream), "stand-in layer", err);
}

static int enqueue_write(struct cuda_gpu *g, uint32_t cache, const struct block *b, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct kvl_fills f = {.fill = writes_at(g->block_device, b, cache), .count = word_at(g->block_device, b->write_count + cache * 4),
                        .fills_max = b->writes_max};
  return kvl_gpu_launched(g->k->fills(&f, stream), "written rows", err);
}

static int enqueue_end(struct cuda_gpu *g, uint32_t entries, bool check, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  struct kvl_step_end e = {.entries = entries, .queries_max = c->queries_max, .points = c->config.device.points, .readers = check ? c->readers : 0,
                           .point = g->point, .entry = g->entry[0], .digest = g->digest, .witness = g->witness_digest,
                           .point_of_reader = g->point_of_reader, .witness_of_reader = g->witness_of_reader, .check = g->check, .copy_count = g->bank_copy_count, .drop_count = g->bank_drop_count,
                           .stamps = g->stamps_device, .outcome = check ? g->checked : g->outcome};
  return kvl_gpu_launched(g->k->end(&e, stream), "end", err);
}

static int build(void *context, kvl_gpu_stream stream, struct kvl_err *err)
{
  const struct graph *graph = context;
  struct cuda_gpu *g = graph->gpu;
  struct cuda_plane *c = g->plane;
  uint32_t entries = graph->entries, reader = 0;
  bool reads = false, joined = true;
  struct block b = block_of(c, entries);
  int rc = kvl_gpu_copy(g->gpu, g->block_device, g->block, b.bytes, stream, err);
  rc = rc != 0 ? rc : enqueue_begin(g, entries, &b, stream, err);
  for (uint32_t i = 0; rc == 0 && i < c->config.stage_count; i++) {
    const struct kvl_stage *stage = &c->stages[i];
    switch (stage->kind) {
    case KVL_STAGE_WRITE:
      rc = enqueue_write(g, stage->cache, &b, stream, err);
      break;
    case KVL_STAGE_WAIT:
      if (stage->part == 0) {
        rc = kvl_gpu_stream_wait(g->gpu, stream, g->side_join, err);
        joined = true;
      } else {
        rc = kvl_gpu_stream_wait(g->gpu, stream, g->part_done[stage->part], err);
      }
      break;
    case KVL_STAGE_REPLAY:
      rc = enqueue_replay(g, entries, stage->point, stream, err);
      break;
    case KVL_STAGE_RESOLVE:
      rc = enqueue_resolve(g, entries, stage->point, stream, err);
      break;
    case KVL_STAGE_ANNOUNCE:
      rc = enqueue_announce(g, entries, stream, err);
      joined = false;
      break;
    case KVL_STAGE_END_GROUP: {
      struct kvl_announce_batch a = announce_batch(g, entries);
      rc = kvl_gpu_launched(g->k->end_group(&a, stream), "end of a group", err);
      break;
    }
    case KVL_STAGE_READ:
      rc = enqueue_read(g, entries, stage->point, stage->part, reader++, stream, err);
      reads = true;
      break;
    case KVL_STAGE_COMPUTE:
      rc = enqueue_compute(g, stage->layer, reads, stream, err);
      reads = false;
      break;
    }
  }
  if (rc == 0 && !joined) {
    rc = kvl_gpu_stream_wait(g->gpu, stream, g->side_join, err);
  }
  struct kvl_segments commit = {.from = g->arena, .to = g->arena, .segment = (const struct kvl_segment *)(const void *)(g->block_device + b.commit),
                                .count = word_at(g->block_device, b.commit_count), .segments_max = b.commits_max, .blocks_max = 0};
  rc = rc != 0 ? rc : kvl_gpu_launched(g->k->segments(&commit, stream), "commit", err);
  rc = rc != 0 ? rc : enqueue_end(g, entries, false, stream, err);
  return rc != 0 ? rc : kvl_gpu_copy(g->gpu, g->stamps, g->stamps_device, (uint64_t)c->stamp_pairs * 16, stream, err);
}

/* ---- submission ---- */

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

/* Page maps as the policy has them now, against what the device has. */
static int poke_map(struct cuda_gpu *g, const struct kvl_step_item *item, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  struct cuda_slot *slot = &g->slot[item->slot];
  kvl_frame *map = slot->page_map;
  uint64_t word = c->state_words * item->slot + c->map_at;
  int rc = 0;
  if (slot->page_map_version == item->page_map_version) {
    return 0;
  }
  slot->page_map_version = item->page_map_version;
  for (uint32_t p = 0; rc == 0 && item->page_map != NULL && p < item->pages; p++) {
    if (map[p] != item->page_map[p]) {
      map[p] = item->page_map[p];
      rc = kvl_cuda_add_poke(g, word + p, (uint32_t)map[p], err);
    }
  }
  return rc;
}

static void add_write(struct cuda_gpu *g, const struct block *b, uint32_t cache, unsigned char *to, uint64_t session, kvl_row first, uint32_t rows,
                      uint32_t salt)
{
  if (rows != 0) {
    writes_at(g->block, b, cache)[(*word_at(g->block, b->write_count + cache * 4))++] =
      (struct kvl_fill){.to = to, .session = session, .cache = cache, .row_bytes = g->plane->config.device.cache[cache].row_bytes, .first_row = first,
                        .rows = rows, .salt = salt};
  }
}

/* The step's own rows: declared as scratch before it, written in it at their layer. Those of drafts that will be rejected carry other bytes. */
static int begin_rows(struct cuda_gpu *g, const struct block *b, const struct kvl_step_item *item, struct kvl_err *err)
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

/* What becomes history at the step's end: scratch -> tail on the device; the maps learn of it with the next step. */
static int end_rows(struct cuda_gpu *g, const struct block *b, const struct kvl_step_item *item, struct kvl_err *err)
{
  struct kvl_segment *commit = (struct kvl_segment *)(void *)(g->block + b->commit);
  uint32_t *commit_count = word_at(g->block, b->commit_count);
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
      commit[(*commit_count)++] = (struct kvl_segment){.from = (uint64_t)((uint32_t)bases.scratch + k) * row_bytes,
                                                             .to = (uint64_t)(uint32_t)(bases.tail + place) * row_bytes, .bytes = row_bytes};
      g->committed[g->committed_count++] = (struct committed){.slot = item->slot, .cache = (uint16_t)i, .place = place, .row = row};
      rc = kvl_cuda_add_poke(g, c->state_words * item->slot + c->tail_at[i] + (uint32_t)row % tail_rows, (uint32_t)place, err);
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
    uint32_t shift = c->layout.geometry[point->cache].page_shift;
    g->epoch++;
    for (uint32_t q = 0; q < item->queries; q++) {
      const int32_t *rows = (const int32_t *)(const void *)(n + c->queries_max) + (uint64_t)q * point->k;
      for (uint32_t i = 0; i < n[q]; i++) {
        if (rows[i] < 0) {
          continue;
        }
        if (item->selected_by_page != NULL) {
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

static int launch(struct cuda_gpu *g, uint32_t entries, struct kvl_err *err)
{
  struct graph *graph = &g->graph[entries];
  int rc = 0;
  if (graph->graph == NULL) {
    graph->gpu = g;
    graph->entries = entries;
    rc = kvl_gpu_graph_create(g->gpu, g->main, build, graph, &graph->graph, err);
  }
  return rc != 0 ? rc : kvl_gpu_graph_launch(g->gpu, graph->graph, g->main, err);
}

/* The independent run: the same rows from the copy that never moves, in stream order behind the step and before the next one's writes. */
static int check(struct cuda_gpu *g, uint32_t entries, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  int rc = 0;
  for (uint32_t i = 0, reader = 0, next = 0; rc == 0 && i < c->config.stage_count; i++) { /* each (selection, part) once, in order of its first reader */
    const struct kvl_stage *stage = &c->stages[i];
    if (stage->kind != KVL_STAGE_READ || c->witness_of_reader[reader++] != next) {
      continue;
    }
    const struct kvl_gpu_point *point = &g->point_host[stage->point];
    struct kvl_witness w = {.entries = entries, .queries_max = c->queries_max, .k = point->k,
                            .row_bytes = c->config.device.cache[point->cache].row_bytes, .entry = g->entry[point->cache], .query = point->query,
                            .rows = point->rows, .resident = g->witness + c->host_offset[point->cache], .slot_bytes = c->host_slot_bytes,
                            .digest = g->witness_digest + (uint64_t)next * entries * c->queries_max};
    if (has_parts(c, point->cache)) {
      w.part_bytes = part_bytes(c, point->cache);
      w.part_offset = stage->part * w.part_bytes;
    }
    rc = kvl_gpu_launched(g->k->witness(&w, g->main), "witness", err);
    next++;
  }
  *g->check = 1;
  rc = rc != 0 ? rc : enqueue_end(g, entries, true, g->main, err);
  g->check_pending = true;
  return rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->check_done, g->main, err);
}

static int submit_items(struct cuda_gpu *g, const struct kvl_plane_step *step, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  struct block b = block_of(c, step->count);
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
    items_at(g->block, &b)[i] = (struct kvl_gpu_item){.slot = (int32_t)item->slot, .tokens = item->tokens, .queries = item->queries, .whole = item->whole,
                                       .pages = item->page_map == NULL ? 0 : item->pages, .half = half};
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
  rc = rc != 0 ? rc : kvl_cuda_pokes(g, g->poke, g->poke_count, g->main, err);
  g->poke_count = 0;
  for (uint32_t i = 0; rc == 0 && i < step->count; i++) {
    rc = end_rows(g, &b, &step->items[i], err);
  }
  rc = rc != 0 ? rc : launch(g, step->count, err);
  g->shared_lanes = 0;
  for (uint32_t i = 0; rc == 0 && i < step->count; i++) {
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
    rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->serial_begin, g->main, err);
    rc = rc != 0 ? rc : kvl_cuda_pages(g, step->serial, step->serial_count, g->main, err);
    rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->serial_end, g->main, err);
  }
  if (step->count != 0) {
    rc = rc != 0 ? rc : submit_items(g, step, err);
  }
  rc = rc != 0 ? rc : kvl_gpu_event_record(g->gpu, g->step_done, g->main, err);
  g->in_step = rc == 0;
  if (rc == 0 && g->witness != NULL && step->count != 0 && kvl_check_step(c->config.check, step->number)) {
    rc = check(g, step->count, err);
  }
  plan_ahead(g, step);
  return rc != 0 ? rc : kvl_cuda_write_back(g, err);
}

/* ---- what came of it ---- */

static uint64_t span(uint64_t from, uint64_t to)
{
  return to > from ? to - from : 0;
}

/* The step's time line from its stamps: layer by layer, what each moment was spent on. */
static void account(struct cuda_gpu *g, uint64_t *stall)
{
  struct cuda_plane *c = g->plane;
  const uint64_t *stamp = g->stamps;
  uint64_t at = g->outcome->begin_ns, looked_up = 0, reads_ns = 0, reads = 0;
  uint32_t reader = 0, fetched = 0;
  bool resolving = false, waited = false;
  for (uint32_t i = 0; i < c->config.stage_count; i++) {
    const struct kvl_stage *stage = &c->stages[i];
    if (stage->kind == KVL_STAGE_WAIT && stage->part != 0) {
      waited = g->outcome->counts[stage->point].fetched != 0;
      if (waited && stage->part + 1u == c->config.device.cache[stage->cache].parts) {
        const uint64_t *replay = stamp + 2 * (c->stamp_replay + stage->point);
        struct kvl_prefetch *prefetch = &g->result.prefetch;
        uint64_t rows = g->outcome->counts[stage->point].fetched * stage->part;
        prefetch->groups++;
        prefetch->landed += replay[1] <= at;
        prefetch->candidates += rows;
        prefetch->copied += rows;
        prefetch->used += rows;
        prefetch->margin_ns += span(replay[1], at);
        prefetch->wait_ns += span(at, replay[1]);
        prefetch->link_ns += span(replay[0], replay[1]);
        c->measured.traffic[KVL_TRAFFIC_PREFETCH].count++;
        c->measured.traffic[KVL_TRAFFIC_PREFETCH].bytes += rows * part_bytes(c, stage->cache);
        kvl_cuda_count(&c->measured.traffic[KVL_TRAFFIC_PREFETCH].times, span(replay[0], replay[1]));
      }
    } else if (stage->kind == KVL_STAGE_WAIT && stage->part == 0 && g->outcome->copies != 0) {
      const uint64_t *bank = stamp + 2 * c->stamp_bank;
      struct kvl_prefetch *prefetch = &g->result.prefetch;
      prefetch->groups = 1;
      prefetch->landed = bank[1] <= at;
      prefetch->margin_ns = span(bank[1], at);
      prefetch->wait_ns = span(at, bank[1]);
      prefetch->link_ns = span(bank[0], bank[1]);
      stall[KVL_STALL_PREFETCH_WAIT] += span(at, bank[1]);
      at = bank[1] > at ? bank[1] : at;
    } else if (stage->kind == KVL_STAGE_RESOLVE) {
      uint64_t first = stamp[2 * (c->stamp_resolve + stage->point)]; /* the first request that had looked up and began to wait for the host */
      looked_up = resolving && looked_up < first ? looked_up : first;
      fetched += (uint32_t)g->outcome->counts[stage->point].fetched;
      resolving = true;
    } else if (stage->kind == KVL_STAGE_READ || stage->kind == KVL_STAGE_COMPUTE) {
      const uint64_t *s = stamp + 2 * (stage->kind == KVL_STAGE_READ ? c->stamp_reader + reader : c->stamp_layer + stage->layer);
      if (s[0] > s[1]) { /* never stamped: a device without a timer */
        reader += stage->kind == KVL_STAGE_READ;
        continue;
      }
      if (stage->kind == KVL_STAGE_READ && waited) { /* a launch's gap, and whatever had not landed */
        stall[KVL_STALL_PREFETCH_WAIT] += span(at, s[0]);
        at = s[0] > at ? s[0] : at;
        waited = false;
      } else if (stage->kind == KVL_STAGE_READ && !resolving) { /* with the gap before it, which a layer without this stand-in would not have */
        reads_ns += span(at, s[1]);
        reads++;
      }
      if (resolving) {
        uint64_t turn = fetched == 0 || looked_up < at || looked_up > s[0] ? s[0] : looked_up;
        stall[KVL_STALL_RESOLVE] += span(at, turn);
        stall[KVL_STALL_FETCH] += span(turn, s[0]);
        kvl_cuda_count(&c->measured.kernel[KVL_STAGE_RESOLVE], span(at, s[0]));
        if (fetched != 0) {
          kvl_cuda_count(&c->measured.traffic[KVL_TRAFFIC_FETCH].times, span(turn, s[0]));
          c->measured.traffic[KVL_TRAFFIC_FETCH].count++;
        }
        resolving = false;
        looked_up = 0;
        fetched = 0;
      }
      stall[KVL_STALL_COMPUTE] += span(s[0], s[1]);
      kvl_cuda_count(&c->measured.kernel[stage->kind], span(s[0], s[1]));
      at = s[1] > at ? s[1] : at;
      reader += stage->kind == KVL_STAGE_READ;
    }
  }
  if (reads != 0) {
    uint64_t mean = reads_ns / reads;
    g->reader_ns = g->reader_ns == 0 ? mean : (g->reader_ns * (READER_SMOOTH - 1) + mean) / READER_SMOOTH;
  }
}

static void sum_counts(struct cuda_gpu *g)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  struct kvl_step_result *r = &g->result;
  r->shared_lanes = g->shared_lanes;
  uint32_t pool_layer = 0;
  for (uint32_t i = 0; i < c->config.stage_count; i++) {
    pool_layer = c->stages[i].kind == KVL_STAGE_ANNOUNCE ? c->stages[i].layer : pool_layer;
  }
  for (uint32_t i = 0; i < c->config.stage_count; i++) {
    if (c->stages[i].kind != KVL_STAGE_RESOLVE) {
      continue;
    }
    uint32_t p = c->stages[i].point;
    const struct kvl_resolve_counts *n = &g->outcome->counts[p];
    uint64_t bytes = n->fetched * (c->replayed[p] ? part_bytes(c, d->point[p].cache) : d->cache[d->point[p].cache].row_bytes);
    r->link_bytes += c->replayed[p] ? n->fetched * d->cache[d->point[p].cache].row_bytes - bytes : 0;
    bool later = c->points_all != d->points && d->point[p].cache == c->pool_cache && c->stages[i].layer > pool_layer;
    for (int tier = 0; tier < KVL_TIERS; tier++) {
      r->lanes[tier] += n->lanes[tier];
      g->totals[d->point[p].selection].lanes[tier] += n->lanes[tier];
      r->prefetch.later_lanes += later && tier != KVL_TIER_SCRATCH ? n->lanes[tier] : 0;
    }
    r->prefetch.later_demand += later ? n->lanes[KVL_TIER_HOST] : 0;
    r->fetched += n->fetched;
    r->overflow += n->overflow;
    r->violations += n->violations;
    g->totals[d->point[p].selection].fetched += n->fetched;
    g->totals[d->point[p].selection].overflow += n->overflow;
    r->link_bytes += bytes;
    c->measured.traffic[KVL_TRAFFIC_FETCH].bytes += bytes;
  }
  if (c->points_all != d->points) {
    r->prefetch.copied = g->outcome->copies;
    r->prefetch.dropped = g->outcome->dropped;
    r->prefetch.candidates = g->candidates;
    r->prefetch.resident = g->candidates - g->outcome->copies - g->outcome->dropped;
    uint64_t bytes = (uint64_t)g->outcome->copies * d->cache[c->pool_cache].row_bytes;
    r->link_bytes += bytes;
    c->measured.traffic[KVL_TRAFFIC_PREFETCH].bytes += bytes;
    c->measured.traffic[KVL_TRAFFIC_PREFETCH].count += g->outcome->copies != 0;
    if (g->outcome->copies != 0) {
      kvl_cuda_count(&c->measured.traffic[KVL_TRAFFIC_PREFETCH].times, r->prefetch.link_ns);
    }
  }
}

int kvl_cuda_step_poll(struct cuda_gpu *g, struct kvl_completion *completion, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  int rc = g->in_step ? kvl_gpu_event_done(g->gpu, g->step_done, err) : 0;
  if (rc <= 0) {
    return rc;
  }
  struct kvl_step_result *r = &g->result;
  memset(r, 0, sizeof *r);
  r->submit_ns = g->submit_ns;
  r->end_ns = kvl_cuda_wall_ns(c);
  uint64_t population = 0, total = span(r->submit_ns, r->end_ns);
  if (g->had_serial) {
    rc = kvl_gpu_event_ns(g->gpu, g->serial_begin, g->serial_end, &population, err);
    if (rc != 0) {
      return rc;
    }
    c->measured.traffic[KVL_TRAFFIC_POPULATION].count++;
    c->measured.traffic[KVL_TRAFFIC_POPULATION].bytes += g->serial_bytes;
    kvl_cuda_count(&c->measured.traffic[KVL_TRAFFIC_POPULATION].times, population);
    r->link_bytes += g->serial_bytes;
    g->link_busy_ns += population;
  }
  /* Before the graph's first moment: copies, updates of page maps, and, in a step that somebody joins, everything else. */
  uint64_t *stall = r->stall_ns, graph = g->items == 0 ? 0 : span(g->outcome->begin_ns, g->outcome->end_ns);
  uint64_t rest = span(population + g->revoked + graph, total);
  uint64_t between[] = {population, g->revoked, g->joined ? rest : 0};
  static const enum kvl_stall cause[] = {KVL_STALL_POPULATION, KVL_STALL_REVOCATION, KVL_STALL_ADMISSION};
  for (int i = 0; i < 3; i++) {
    stall[cause[i]] = between[i] < total ? between[i] : total;
    total -= stall[cause[i]];
  }
  r->step_begin_ns = r->end_ns - total;
  if (g->items != 0) {
    account(g, stall);
    sum_counts(g);
  }
  uint64_t known = 0;
  for (int i = 0; i < KVL_STALLS_IN_STEP; i++) { /* stamps and the host's clock may differ by a microsecond: the causes still add up */
    stall[i] = stall[i] < total - known ? stall[i] : total - known;
    known += stall[i];
  }
  stall[KVL_STALL_BOOKKEEPING] += total - known;
  g->link_busy_ns += stall[KVL_STALL_FETCH] + r->prefetch.link_ns;
  g->link_bytes += r->link_bytes;
  g->in_step = false;
  *completion = (struct kvl_completion){.kind = KVL_DONE_STEP, .gpu = g->index, .tag = g->number, .step = r};
  return 1;
}

int kvl_cuda_collect_check(struct cuda_gpu *g, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  int rc = g->check_pending ? 0 : 1;
  while (rc == 0) {
    rc = kvl_gpu_event_done(g->gpu, g->check_done, err);
  }
  if (rc < 0 || !g->check_pending) {
    return rc < 0 ? rc : 0;
  }
  g->check_pending = false;
  const struct kvl_step_outcome *o = g->checked;
  struct block b = block_of(c, g->items);
  struct kvl_plane_measured *m = &c->measured;
  m->rows_checked += o->rows_checked;
  if (o->mismatches != 0 && m->mismatches == 0) {
    uint32_t reader = 0;
    for (uint32_t i = 0; i < c->config.stage_count; i++) {
      if (c->stages[i].kind == KVL_STAGE_READ && reader++ == o->first_reader) {
        (void)snprintf(m->first_mismatch, sizeof m->first_mismatch, "decode GPU %u, step %llu, layer %u reads selection %u of batch slot %d, query %u",
                       g->index, (unsigned long long)g->number, c->stages[i].layer, c->stages[i].point, items_at(g->block, &b)[o->first_entry].slot, o->first_query);
      }
    }
  }
  m->mismatches += o->mismatches;
  return 0;
}
