/* A decode step as a graph, built once a batch size from the stages; what changes from step to step lies in the memory it reads. And the comparison behind it. */
#include "backend/plane_cuda_state.h"

uint32_t kvl_cuda_part_bytes(const struct cuda_plane *c, uint32_t cache)
{
  uint32_t parts = c->config.device.cache[cache].parts;
  return c->config.device.cache[cache].row_bytes / (parts == 0 ? 1 : parts);
}

bool kvl_cuda_keeps_list(const struct cuda_plane *c, uint32_t point)
{
  return c->replayed[point] || c->config.floor;
}

uint32_t kvl_cuda_fetch_bytes(const struct cuda_plane *c, uint32_t point)
{
  uint32_t cache = c->config.device.point[point].cache;
  return c->replayed[point] ? kvl_cuda_part_bytes(c, cache) : c->config.device.cache[cache].row_bytes;
}

static bool has_parts(const struct cuda_plane *c, uint32_t cache)
{
  return c->config.device.cache[cache].parts > 1;
}

static int enqueue_begin(struct cuda_gpu *g, uint32_t entries, const struct cuda_block *b_of, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  const struct kvl_refdev_config *d = &c->config.device;
  struct kvl_step_begin b = {.entries = entries, .queries_max = c->queries_max, .caches = d->caches, .points = c->points_all,
                             .item = kvl_cuda_items_at(g->block_device, b_of),
                             .point = g->point, .selections = g->selections_device, .selection_words = c->selection_words,
                             .stamps = g->stamps_device, .stamp_pairs = c->stamp_pairs};
  for (uint32_t i = 0; i < d->caches; i++) {
    b.tokens_per_row[i] = d->cache[i].tokens_per_row;
    b.slot_entry[i] = g->slot_entry[i];
    b.entry[i] = g->entry[i];
  }
  return kvl_gpu_launched(g->k->begin(&b, stream), "begin", err);
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
    .fetches = g->fetches[p],
    .fetch_count = kvl_cuda_keeps_list(c, p) ? g->fetch_counts[p] : g->fetch_count,
    .counts = point->counts,
    .fetch_bytes = kvl_cuda_fetch_bytes(c, p),
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
                                 .part_offset = part * kvl_cuda_part_bytes(c, point->cache), .part_bytes = kvl_cuda_part_bytes(c, point->cache)};
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

/* The pool is filtered, and its copies run, on a stream of their own until the WAIT stage joins it. It stands before the next look-up in that cache (stages.h);
 * the layers in between read by address and touch no state. */
static int enqueue_announce(struct cuda_gpu *g, uint32_t entries, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  struct kvl_announce_batch a = announce_batch(g, entries);
  struct kvl_bank_copy copy = {.entries = entries, .bank_rows = a.geometry.bank_rows, .row_bytes = c->config.device.cache[c->pool_cache].row_bytes,
                               .entry = a.entry, .copies = g->bank_copies, .copy_count = g->bank_copy_count, .arena = g->arena,
                               .blocks_max = COPY_BLOCKS, .stamp = g->stamps_device + 2 * c->stamp_bank};
  int rc = kvl_gpu_event_record(g->gpu, g->side_fork, stream, err);
  rc = rc != 0 ? rc : kvl_gpu_stream_wait(g->gpu, g->side, g->side_fork, err);
  rc = rc != 0 ? rc : kvl_gpu_launched(g->k->announce(&a, g->side), "announce", err);
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
    r.part_bytes = kvl_cuda_part_bytes(c, point->cache);
    r.part_offset = part * r.part_bytes;
  }
  return kvl_gpu_launched(g->k->reader(&r, stream), "reader", err);
}

static int enqueue_compute(struct cuda_gpu *g, uint32_t layer, bool reads, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct cuda_plane *c = g->plane;
  uint64_t bytes = c->config.compute_hbm_bytes / c->config.layers;
  struct kvl_standin s = {.duration_ns = &g->duration[reads ? 1 : 0], .from = g->weights, .from_bytes = g->weights == NULL ? 0 : KVL_CUDA_WEIGHTS_BYTES,
                          .bytes = bytes, .from_offset = (uint64_t)layer * bytes % KVL_CUDA_WEIGHTS_BYTES / 4096 * 4096, .sink = g->sink,
                          .start = &g->starts[layer], .stamp = g->stamps_device + 2 * (c->stamp_layer + layer)};
  return kvl_gpu_launched(g->k->standin(&s, stream), "stand-in layer", err);
}

static int enqueue_write(struct cuda_gpu *g, uint32_t cache, const struct cuda_block *b, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct kvl_fills f = {.fill = kvl_cuda_writes_at(g->block_device, b, cache), .count = kvl_cuda_word_at(g->block_device, b->write_count + cache * 4),
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

/* The step's own updates of state. In the graph, because a copy and a launch by themselves before it cost the host 0.07 ms with the GPU waiting. */
static int enqueue_pokes(struct cuda_gpu *g, const struct cuda_block *b, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct kvl_pokes p = {.base = (uint32_t *)(void *)g->state, .poke = (const struct kvl_poke *)(const void *)(g->block_device + b->poke),
                        .count = kvl_cuda_word_at(g->block_device, b->poke_count), .pokes_max = b->pokes_max};
  return kvl_gpu_launched(g->k->pokes(&p, stream), "pokes", err);
}

static int build(void *context, kvl_gpu_stream stream, struct kvl_err *err)
{
  const struct graph *graph = context;
  struct cuda_gpu *g = graph->gpu;
  struct cuda_plane *c = g->plane;
  uint32_t entries = graph->entries, reader = 0;
  bool reads = false, joined = true;
  struct cuda_block b = kvl_cuda_block(c, entries);
  int rc = kvl_gpu_copy(g->gpu, g->block_device, g->block, b.bytes, stream, err);
  rc = rc != 0 ? rc : enqueue_pokes(g, &b, stream, err);
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
                                .count = kvl_cuda_word_at(g->block_device, b.commit_count), .segments_max = b.commits_max, .blocks_max = 0};
  rc = rc != 0 ? rc : kvl_gpu_launched(g->k->segments(&commit, stream), "commit", err);
  rc = rc != 0 ? rc : enqueue_end(g, entries, false, stream, err);
  return rc != 0 ? rc : kvl_gpu_copy(g->gpu, g->stamps, g->stamps_device, (uint64_t)c->stamp_pairs * 16, stream, err);
}

int kvl_cuda_launch(struct cuda_gpu *g, uint32_t entries, struct kvl_err *err)
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
int kvl_cuda_check(struct cuda_gpu *g, uint32_t entries, struct kvl_err *err)
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
      w.part_bytes = kvl_cuda_part_bytes(c, point->cache);
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
