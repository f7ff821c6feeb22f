/* What steps work on: memory on the device and in pinned host memory, sized once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plane_cuda_state.h"

enum {
  WRITES = 4,          /* of an item, a cache: accepted and rejected rows, each in the scratch and in the witness */
  POKES_OF_MAPS = 1024 /* pages that a step's block has room for: twice a give-back's */
};

struct cuda_block kvl_cuda_block(const struct cuda_plane *c, uint32_t entries)
{
  uint32_t caches = c->config.device.caches;
  /* Heads and tail places of each request, and the page maps of a quiet step: what is more goes ahead in a list of its own. */
  uint32_t pokes = entries * caches * (4 + c->queries_max) + POKES_OF_MAPS;
  struct cuda_block b = {.writes_max = WRITES * entries, .commits_max = entries * caches * c->queries_max, .pokes_max = pokes};
  b.commit_count = b.write_count + caches * 4;
  b.poke_count = b.commit_count + 4;
  b.item = (b.poke_count + 4 + 15) / 16 * 16;
  b.write = b.item + (entries * sizeof(struct kvl_gpu_item) + 15) / 16 * 16;
  b.commit = b.write + (uint64_t)caches * b.writes_max * sizeof(struct kvl_fill);
  b.poke = b.commit + b.commits_max * sizeof(struct kvl_segment);
  b.bytes = b.poke + b.pokes_max * sizeof(struct kvl_poke);
  return b;
}

uint32_t *kvl_cuda_word_at(unsigned char *block, uint64_t offset)
{
  return (uint32_t *)(void *)(block + offset);
}

struct kvl_gpu_item *kvl_cuda_items_at(unsigned char *block, const struct cuda_block *b)
{
  return (struct kvl_gpu_item *)(void *)(block + b->item);
}

struct kvl_fill *kvl_cuda_writes_at(unsigned char *block, const struct cuda_block *b, uint32_t cache)
{
  return (struct kvl_fill *)(void *)(block + b->write) + (uint64_t)cache * b->writes_max;
}

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
    if (rc == 0 && p < d->points && kvl_cuda_keeps_list(c, p)) {
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

/* Room for the host rows of any one selection of a full batch. */
static int open_floor(struct cuda_gpu *g, struct kvl_err *err)
{
  const struct cuda_plane *c = g->plane;
  uint64_t most = 0;
  for (uint32_t p = 0; p < c->config.device.points; p++) {
    uint64_t bytes = (uint64_t)c->config.device.slots * c->queries_max * g->point_host[p].k * kvl_cuda_fetch_bytes(c, p);
    most = bytes > most ? bytes : most;
  }
  int rc = kvl_gpu_event_get(g->gpu, false, &g->floor_done, err);
  return rc != 0 ? rc : kvl_gpu_alloc(g->gpu, most, 0x3c, "rows gathered once more (--floor)", (void **)&g->gathered, err);
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
  rc = rc != 0 || !c->config.floor ? rc : open_floor(g, err);
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
    rc = kvl_gpu_alloc(g->gpu, KVL_CUDA_WEIGHTS_BYTES, 0x3c, "the memory that the stand-in layers read", (void **)&g->weights, err);
  }
  rc = rc != 0 ? rc : kvl_gpu_pin(g->gpu, slots * 2 * c->selection_words * 4 + 4, 0, "selections", (void **)&g->selections, err);
  uint64_t block = kvl_cuda_block(c, d->slots).bytes;
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
                    g->witness_digest, g->point_of_reader, g->witness_of_reader, g->stamps_device, g->sink, g->starts, g->selections_device, g->weights, g->block_device, g->gathered};
  for (uint32_t i = 0; i < sizeof device / sizeof device[0]; i++) {
    kvl_gpu_free(g->gpu, device[i]);
  }
  kvl_gpu_unpin(g->gpu, g->selections, slots * 2 * c->selection_words * 4 + 4, 0);
  kvl_gpu_unpin(g->gpu, g->block, kvl_cuda_block(c, d->slots).bytes, 0);
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
