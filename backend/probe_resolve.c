/* Resolve: requests x rows selected, over how many of each request's rows come from the host. A graph has NODES selections one after the other, each of caches
 * of its own, as a step's selections are; between samples L2 is swept, as the model's own layers sweep it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/probe_state.h"

enum { NODES = 4, LANES = 512, HOT_ROWS = 2048, TAIL_ROWS = 64, PAGE_SHIFT = 5, ROW_BYTES = 288, ROWS_MAX = 1 << 18, BATCH_MAX = 128 };

struct layout { /* of one slot's state, in words */
  uint64_t head, pages, place, stamp, row, pinned, tail, words;
};

struct resolve {
  struct kvl_prober *p;
  struct layout at;
  uint32_t batch_max, batch, slots; /* slots: NODES x batch_max */
  uint32_t rows_max, fresh_mask;    /* rows [LANES, LANES + fresh_mask] are brought in turn */
  uint64_t share;                   /* host bytes of a slot */
  uint32_t *state;                  /* device; a blank one behind the slots' */
  struct kvl_resolve_entry *entry;
  struct kvl_batch_query *query;
  kvl_addr *addresses;
  uint32_t *fetch_count, *work;
  struct kvl_resolve_counts *counts;
  struct kvl_gpu_graph *graph;
  uint64_t fresh;                   /* rows brought to each slot so far, beyond the kept ones */
  uint64_t expected;                /* fetches that all launches so far must have made */
};

static uint64_t take(uint64_t *words, uint64_t n)
{
  uint64_t at = *words;
  *words = (at + n + 3) / 4 * 4;
  return at;
}

static struct layout layout_of(uint32_t rows_max)
{
  struct layout l;
  uint64_t words = 0;
  l.head = take(&words, sizeof(struct kvl_cache_head) / 4);
  l.pages = take(&words, rows_max >> PAGE_SHIFT);
  l.place = take(&words, rows_max);
  l.stamp = take(&words, HOT_ROWS);
  l.row = take(&words, HOT_ROWS);
  l.pinned = take(&words, HOT_ROWS / 32);
  l.tail = take(&words, TAIL_ROWS);
  l.words = words;
  return l;
}

static int upload_state(struct resolve *r, struct kvl_err *err)
{
  struct kvl_prober *p = r->p;
  uint32_t *blank = calloc(r->at.words, 4);
  struct kvl_resolve_entry *entry = calloc(r->slots, sizeof *entry);
  struct kvl_batch_query *query = calloc(r->batch_max, sizeof *query);
  int rc = blank == NULL || entry == NULL || query == NULL ? kvl_err_set(err, -ENOMEM, "no memory for the state of a look-up") : 0;
  if (rc == 0) {
    struct kvl_cache_head head = {.committed = r->rows_max, .tail_first = r->rows_max};
    memcpy(&blank[r->at.head], &head, sizeof head);
    memset(&blank[r->at.pages], 0xff, (size_t)(r->rows_max >> PAGE_SHIFT) * 4);
    for (uint32_t i = 0; i < r->rows_max; i++) {
      blank[r->at.place + i] = (uint32_t)KVL_PLACE_EMPTY;
    }
    memset(&blank[r->at.row], 0xff, HOT_ROWS * 4);
    memset(&blank[r->at.tail], 0xff, TAIL_ROWS * 4);
  }
  for (uint32_t s = 0; rc == 0 && s < r->slots; s++) {
    uint32_t *at = r->state + s * r->at.words;
    kvl_addr base = (kvl_addr)(s * (HOT_ROWS + LANES + 2 * TAIL_ROWS));
    entry[s] = (struct kvl_resolve_entry){
      .request = (int32_t)(s % r->batch_max), .query_count = 1, .pages = r->rows_max >> PAGE_SHIFT, .rows_max = r->rows_max,
      .bases = {.hot = base, .bank = base, .overflow = base + HOT_ROWS, .tail = base + HOT_ROWS + LANES, .scratch = base + HOT_ROWS + LANES + TAIL_ROWS},
      .head = (struct kvl_cache_head *)(void *)(at + r->at.head), .frame_of_page = (const kvl_frame *)(const void *)(at + r->at.pages),
      .place_of_row = (int32_t *)(void *)(at + r->at.place), .stamp = at + r->at.stamp, .row_of_place = (kvl_row *)(void *)(at + r->at.row),
      .pinned = at + r->at.pinned, .tail_place = (const kvl_slot *)(const void *)(at + r->at.tail), .host_rows = p->pool + ((uint64_t)(s % r->batch_max) * NODES + s / r->batch_max) * r->share, /* the first requests lie together */
    };
  }
  rc = rc != 0 ? rc : kvl_gpu_copy(p->gpu, r->state + r->slots * r->at.words, blank, r->at.words * 4, p->work, err);
  for (uint32_t i = 0; rc == 0 && i < r->batch_max; i++) {
    query[i] = (struct kvl_batch_query){.boundary = (kvl_row)r->rows_max, .n = LANES};
  }
  rc = rc != 0 ? rc : kvl_gpu_copy(p->gpu, r->entry, entry, r->slots * sizeof *entry, p->work, err);
  rc = rc != 0 ? rc : kvl_gpu_copy(p->gpu, r->query, query, r->batch_max * sizeof *query, p->work, err);
  rc = rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
  free(blank);
  free(entry);
  free(query);
  return rc;
}

static int renew_state(struct resolve *r, struct kvl_err *err)
{
  int rc = 0;
  for (uint32_t s = 0; rc == 0 && s < r->slots; s++) {
    rc = kvl_gpu_copy(r->p->gpu, r->state + s * r->at.words, r->state + r->slots * r->at.words, r->at.words * 4, r->p->work, err);
  }
  return rc;
}

static int build(void *context, kvl_gpu_stream stream, struct kvl_err *err)
{
  const struct resolve *r = context;
  int rc = 0;
  for (uint32_t node = 0; rc == 0 && node < NODES; node++) {
    uint64_t first = (uint64_t)node * r->batch_max;
    struct kvl_resolve_batch b = {
      .geometry = {.page_shift = PAGE_SHIFT, .hot_rows = HOT_ROWS, .tail_rows = TAIL_ROWS, .scratch_rows = TAIL_ROWS, .frame_stride_rows = 1 << PAGE_SHIFT},
      .entries = r->batch, .queries_max = 1, .k = LANES, .row_bytes = ROW_BYTES, .entry = r->entry + first, .query = r->query,
      .rows = (const kvl_row *)(const void *)r->p->list + (uint64_t)node * r->batch * LANES, .addresses = r->addresses, .fetch_count = r->fetch_count,
      .counts = r->counts, .arena = r->p->arena, .work = r->work,
    };
    rc = kvl_gpu_launched(r->p->k->resolve(&b, stream), "resolve", err);
  }
  return rc;
}

static int launch(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct resolve *r = context;
  (void)sample;
  return kvl_gpu_graph_launch(r->p->gpu, r->graph, stream, err);
}

/* The next selections: the first LANES - misses rows, which stay in the hot cache, and `misses` that have not been there for a long time, spread between. */
static int select_rows(struct resolve *r, uint32_t misses, struct kvl_err *err)
{
  struct kvl_prober *p = r->p;
  kvl_row *rows = (kvl_row *)(void *)p->stage;
  for (uint32_t s = 0; s < NODES * r->batch; s++) {
    uint32_t kept = 0, fresh = 0;
    for (uint32_t i = 0; i < LANES; i++) {
      bool bring = (i + 1) * misses / LANES > fresh;
      uint64_t turn = (r->fresh + fresh) * UINT64_C(2654435761) + s * UINT64_C(40503); /* an odd factor: every row once before the first comes again */
      rows[s * LANES + i] = bring ? (kvl_row)(LANES + (turn & r->fresh_mask)) : (kvl_row)kept;
      fresh += bring;
      kept += !bring;
    }
  }
  r->fresh += misses;
  int rc = kvl_gpu_copy(p->gpu, p->list, p->stage, (uint64_t)NODES * r->batch * LANES * sizeof *rows, p->work, err);
  /* what the caches of the chip hold goes: the model's layers would have used them */
  rc = rc != 0 ? rc : kvl_gpu_copy(p->gpu, p->other, p->arena + p->arena_bytes - p->copy_max, p->copy_max, p->work, err);
  return rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
}

static int cell(struct resolve *r, uint32_t misses, uint32_t samples, struct kvl_err *err)
{
  struct kvl_prober *p = r->p;
  int64_t ps[KVL_PROBE_SAMPLES_MAX];
  int rc = kvl_probe_next(p, "look-ups", err);
  for (uint32_t i = 0; rc == 0 && i < samples; i++) {
    bool covered;
    rc = select_rows(r, misses, err);
    rc = rc != 0 ? rc : kvl_probe_sequence(p, 1, launch, r, KVL_BESIDE_NOTHING, 0, &ps[i], &covered, err);
    r->expected += (uint64_t)NODES * r->batch * misses;
  }
  struct kvl_probe_point point = {.kind = KVL_PROBE_RESOLVE, .covered = true, .count = misses, .bytes = ROW_BYTES, .batch = r->batch, .lanes = LANES,
                                  .range_bytes = (uint64_t)NODES * r->batch * r->rows_max * ROW_BYTES};
  return rc != 0 ? rc : kvl_probe_point_of(p, &point, ps, samples, p->graph_ps, NODES, err);
}

/* The GPU's own counts: a point for misses that were hits would flatter. */
static int check(struct resolve *r, struct kvl_err *err)
{
  struct kvl_resolve_counts *counts = calloc(r->batch_max, sizeof *counts);
  int rc = counts == NULL ? kvl_err_set(err, -ENOMEM, "no memory for counts") : 0;
  rc = rc != 0 ? rc : kvl_gpu_copy(r->p->gpu, counts, r->counts, r->batch_max * sizeof *counts, r->p->work, err);
  rc = rc != 0 ? rc : kvl_gpu_synchronize(r->p->gpu, r->p->work, err);
  uint64_t fetched = 0, violations = 0;
  for (uint32_t i = 0; rc == 0 && i < r->batch_max; i++) {
    fetched += counts[i].fetched;
    violations += counts[i].violations;
  }
  free(counts);
  if (rc == 0 && (fetched != r->expected || violations != 0)) {
    rc = kvl_err_set(err, -EIO, "look-ups fetched %" PRIu64 " rows where %" PRIu64 " were missing (%" PRIu64 " selected rows refused)", fetched, r->expected,
                     violations);
  }
  return rc;
}

static int run(struct resolve *r, struct kvl_err *err)
{
  static const uint32_t all_batches[] = {1, 4, 16, 44, 82, BATCH_MAX}, quick_batches[] = {1, 8}, all_misses[] = {0, 8, 32, 96, 256}, quick_misses[] = {0, 32};
  bool quick = r->p->config->quick;
  const uint32_t *batches = quick ? quick_batches : all_batches, *misses = quick ? quick_misses : all_misses;
  int rc = 0;
  for (int b = 0; rc == 0 && b < (quick ? 2 : 6) && batches[b] <= r->batch_max; b++) {
    r->batch = batches[b];
    rc = renew_state(r, err); /* what a batch left is not the next one's */
    rc = rc != 0 ? rc : select_rows(r, 0, err);
    rc = rc != 0 ? rc : build(r, r->p->work, err); /* brings the kept rows; and a kernel's first launch must not be a graph's */
    rc = rc != 0 ? rc : kvl_gpu_synchronize(r->p->gpu, r->p->work, err);
    rc = rc != 0 ? rc : kvl_gpu_graph_create(r->p->gpu, r->p->work, build, r, &r->graph, err);
    bool covered;
    int64_t ps[KVL_PROBE_SAMPLES_MAX];
    rc = rc != 0 ? rc : kvl_probe_sequence(r->p, 1, launch, r, KVL_BESIDE_NOTHING, 0, ps, &covered, err);
    r->expected += (uint64_t)NODES * r->batch * LANES;
    for (int m = 0; rc == 0 && m < (quick ? 2 : 5); m++) {
      rc = cell(r, misses[m], r->p->samples, err);
    }
    kvl_gpu_graph_destroy(r->p->gpu, r->graph);
    r->graph = NULL;
    rc = rc != 0 ? rc : check(r, err);
  }
  return rc;
}

int kvl_probe_resolves(struct kvl_prober *p, struct kvl_err *err)
{
  struct resolve r = {.p = p, .batch_max = p->config->quick ? 8 : BATCH_MAX};
  uint64_t per_slot = (uint64_t)(HOT_ROWS + LANES + 2 * TAIL_ROWS) * ROW_BYTES;
  uint64_t list = (uint64_t)NODES * LANES * sizeof(kvl_row);
  while (r.batch_max > 1 && (NODES * r.batch_max * per_slot > p->arena_bytes || r.batch_max * list > p->list_bytes ||
                             p->pool_bytes / (NODES * r.batch_max) < 4u * HOT_ROWS * ROW_BYTES)) {
    r.batch_max /= 2;
  }
  r.slots = NODES * r.batch_max;
  uint64_t rows = p->pool_bytes / r.slots / ROW_BYTES;
  r.rows_max = rows < ROWS_MAX ? (uint32_t)rows >> PAGE_SHIFT << PAGE_SHIFT : ROWS_MAX;
  if (r.rows_max < 4 * HOT_ROWS || r.slots * per_slot > p->arena_bytes) {
    return 0; /* no room for one request: there are no such points */
  }
  r.share = (uint64_t)r.rows_max * ROW_BYTES;
  for (r.fresh_mask = 1; 2 * r.fresh_mask + 1 + LANES < r.rows_max; r.fresh_mask = 2 * r.fresh_mask + 1) {
  }
  r.at = layout_of(r.rows_max);
  uint64_t lanes = (uint64_t)r.batch_max * LANES, counts_bytes = r.batch_max * sizeof *r.counts;
  int rc = kvl_gpu_alloc(p->gpu, (r.slots + 1) * r.at.words * 4, 0, "state of look-ups", (void **)&r.state, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, r.slots * sizeof *r.entry, 0, "entries", (void **)&r.entry, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, r.batch_max * sizeof *r.query, 0, "queries", (void **)&r.query, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, lanes * sizeof(kvl_addr), 0, "addresses", (void **)&r.addresses, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, (uint64_t)r.batch_max * 4, 0, "fetch counts", (void **)&r.fetch_count, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, counts_bytes, 0, "counts", (void **)&r.counts, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, r.batch_max * KVL_RESOLVE_WORK_WORDS(LANES, HOT_ROWS) * 4, 0, "resolve's workspace", (void **)&r.work, err);
  rc = rc != 0 ? rc : upload_state(&r, err);
  rc = rc != 0 ? rc : run(&r, err);
  if (rc != 0) { /* nothing may still read what is freed now */
    (void)kvl_gpu_synchronize(p->gpu, p->work, NULL);
  }
  kvl_gpu_free(p->gpu, r.state);
  kvl_gpu_free(p->gpu, r.entry);
  kvl_gpu_free(p->gpu, r.query);
  kvl_gpu_free(p->gpu, r.addresses);
  kvl_gpu_free(p->gpu, r.fetch_count);
  kvl_gpu_free(p->gpu, r.counts);
  kvl_gpu_free(p->gpu, r.work);
  return rc;
}
