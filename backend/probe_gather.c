/* Gathers of small rows from pinned memory: row size, row count, range and order; then beside copies and beside a kernel that reads HBM. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "backend/probe_state.h"

enum { NODES_MAX = 8, ROWS_FOR_ONE_NODE = 8192, ENTRIES_MAX = 256 };

/* A graph a sample, each node with rows of its own, so that nothing is gathered twice. */
struct gather {
  struct kvl_prober *p;
  struct kvl_resolve_entry *entry; /* device, ENTRIES_MAX: all of them the pool's start */
  uint32_t *count;                 /* device, ENTRIES_MAX */
  uint32_t rows, row_bytes, nodes;
  uint32_t entries;                /* the rows are dealt to as many: a warp takes one's rows, so few rows are spread over the whole chip */
  uint32_t built;                  /* the sample whose graph is being built */
  struct kvl_gpu_graph *graph[KVL_PROBE_SAMPLES_MAX];
};

static uint64_t list_at(const struct gather *g, uint32_t sample, uint32_t node)
{
  return ((uint64_t)sample * g->nodes + node) * g->rows * sizeof(struct kvl_fetch);
}

struct one_graph { /* what a graph is built from: lives as long as the graph (a device without graphs builds anew at each launch) */
  struct gather *gather;
  uint32_t sample;
};

static int build(void *context, kvl_gpu_stream stream, struct kvl_err *err)
{
  const struct one_graph *one = context;
  const struct gather *g = one->gather;
  int rc = 0;
  for (uint32_t node = 0; rc == 0 && node < g->nodes; node++) {
    struct kvl_bank_copy copy = {.entries = g->entries, .bank_rows = g->rows / g->entries, .row_bytes = g->row_bytes, .entry = g->entry,
                                 .copies = (const struct kvl_fetch *)(const void *)(g->p->list + list_at(g, one->sample, node)),
                                 .copy_count = g->count, .arena = g->p->arena};
    rc = kvl_gpu_launched(g->p->k->bank_copy(&copy, stream), "bank_copy", err);
  }
  return rc;
}

static int launch(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct gather *g = context;
  return kvl_gpu_graph_launch(g->p->gpu, g->graph[sample], stream, err);
}

static int by_row(const void *a, const void *b)
{
  kvl_row x = ((const struct kvl_fetch *)a)->row, y = ((const struct kvl_fetch *)b)->row;
  return (x > y) - (x < y);
}

/* The rows of a list that are looked at afterwards. */
static uint32_t checked(const struct gather *g, int which)
{
  return which == 0 ? 0 : which == 1 ? g->rows / 2 : g->rows - 1;
}

/* Rows of every sample and node, uniform over the range. Those that are looked at afterwards get bytes that no other has. */
static int upload(struct gather *g, uint32_t samples, uint64_t range, bool ascending, uint64_t seed, struct kvl_err *err)
{
  struct kvl_prober *p = g->p;
  uint64_t last = range / g->row_bytes;
  uint32_t span = last < INT32_MAX ? (uint32_t)last : INT32_MAX;
  struct kvl_rng rng;
  kvl_rng_init(&rng, p->config->seed, "probe gather", seed);
  for (uint32_t s = 0; s < samples * g->nodes; s++) {
    struct kvl_fetch *f = (struct kvl_fetch *)(void *)(p->stage + list_at(g, 0, s));
    for (uint32_t i = 0; i < g->rows; i++) {
      f[i] = (struct kvl_fetch){.row = (kvl_row)kvl_rng_below(&rng, span)};
    }
    if (ascending) {
      qsort(f, g->rows, sizeof *f, by_row);
    }
    for (uint32_t i = 0; i < g->rows; i++) {
      f[i].to = (kvl_addr)i;
    }
  }
  const struct kvl_fetch *last_list = (const struct kvl_fetch *)(const void *)(p->stage + list_at(g, samples - 1, g->nodes - 1));
  for (int i = 0; i < 3; i++) {
    uint64_t word = kvl_rng_next(&rng);
    memcpy(p->pool + (uint64_t)(uint32_t)last_list[checked(g, i)].row * g->row_bytes, &word, sizeof word);
  }
  uint32_t count[ENTRIES_MAX];
  for (uint32_t e = 0; e < ENTRIES_MAX; e++) {
    count[e] = g->rows / g->entries;
  }
  int rc = kvl_gpu_copy(p->gpu, p->list, p->stage, list_at(g, samples, 0), p->work, err);
  rc = rc != 0 ? rc : kvl_gpu_copy(p->gpu, g->count, count, sizeof count, p->work, err);
  return rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
}

/* What was gathered last, against the pool: rows that did not come would make fast gathers. */
static int check(struct gather *g, uint32_t samples, struct kvl_err *err)
{
  struct kvl_prober *p = g->p;
  const struct kvl_fetch *f = (const struct kvl_fetch *)(const void *)(p->stage + list_at(g, samples - 1, g->nodes - 1));
  unsigned char *back = malloc(g->row_bytes);
  int rc = back == NULL ? kvl_err_set(err, -ENOMEM, "no memory for a row") : 0;
  for (int i = 0; rc == 0 && i < 3; i++) {
    rc = kvl_gpu_copy(p->gpu, back, p->arena + (uint64_t)checked(g, i) * g->row_bytes, g->row_bytes, p->work, err);
    rc = rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
    if (rc == 0 && memcmp(back, p->pool + (uint64_t)(uint32_t)f[checked(g, i)].row * g->row_bytes, g->row_bytes) != 0) {
      rc = kvl_err_set(err, -EIO, "a gather of %u rows of %u bytes brought other bytes than the pool's", g->rows, g->row_bytes);
    }
  }
  free(back);
  return rc;
}

static int cell(struct gather *g, uint32_t rows, uint32_t row_bytes, uint64_t range, bool ascending, enum kvl_probe_beside beside, struct kvl_err *err)
{
  struct kvl_prober *p = g->p;
  struct one_graph one[KVL_PROBE_SAMPLES_MAX];
  int64_t ps[KVL_PROBE_SAMPLES_MAX];
  char what[96];
  g->rows = rows;
  g->row_bytes = row_bytes;
  g->entries = rows < ENTRIES_MAX ? rows : ENTRIES_MAX;
  g->nodes = rows >= ROWS_FOR_ONE_NODE ? 1 : ROWS_FOR_ONE_NODE / rows < NODES_MAX ? ROWS_FOR_ONE_NODE / rows : NODES_MAX;
  uint32_t samples = p->samples;
  while (samples > 1 && list_at(g, samples, 0) > p->list_bytes) {
    samples--;
  }
  if (list_at(g, samples, 0) > p->list_bytes || (uint64_t)rows * row_bytes > p->arena_bytes) {
    return 0; /* does not fit: there is no such point */
  }
  (void)snprintf(what, sizeof what, "gathers of %u-byte rows over %.4g GiB%s%s", row_bytes, (double)range / 1073741824.0,
                 beside == KVL_BESIDE_NOTHING ? "" : " beside ", beside == KVL_BESIDE_NOTHING ? "" : kvl_probe_beside_name(beside));
  int rc = kvl_probe_next(p, what, err);
  rc = rc != 0 ? rc : upload(g, samples, range, ascending, p->done, err);
  for (uint32_t s = 0; rc == 0 && s < samples; s++) {
    one[s] = (struct one_graph){.gather = g, .sample = s};
    rc = kvl_gpu_graph_create(p->gpu, p->work, build, &one[s], &g->graph[s], err);
  }
  struct kvl_probe_point point = {.kind = KVL_PROBE_GATHER, .beside = beside, .ascending = ascending, .count = rows, .bytes = row_bytes, .range_bytes = range};
  /* Beside something a gather takes two to three times as long: room for four. Cautious about the rate: 10 million rows a second. */
  uint64_t cover_ns = 400000 + (uint64_t)samples * g->nodes * (80000 + 100 * (uint64_t)rows);
  rc = rc != 0 ? rc : kvl_probe_sequence(p, samples, launch, g, beside, cover_ns, ps, &point.covered, err);
  rc = rc != 0 ? rc : kvl_probe_point_of(p, &point, ps, samples, p->graph_ps, g->nodes, err);
  rc = rc != 0 || beside == KVL_BESIDE_COPY_OUT ? rc : check(g, samples, err); /* those copies write to the pool */
  for (uint32_t s = 0; s < samples; s++) {
    kvl_gpu_graph_destroy(p->gpu, g->graph[s]);
    g->graph[s] = NULL;
  }
  return rc;
}

/* A kernel's first launch must not be a graph's; there is one for rows of whole 16 bytes and one for others. */
static int warm_up(struct gather *g, struct kvl_err *err)
{
  int rc = 0;
  for (uint32_t row_bytes = 288; rc == 0 && row_bytes <= 296; row_bytes += 8) {
    struct one_graph one = {.gather = g};
    g->rows = g->entries = 16;
    g->row_bytes = row_bytes;
    g->nodes = 1;
    rc = upload(g, 1, g->p->pool_bytes, false, 0, err);
    rc = rc != 0 ? rc : build(&one, g->p->work, err);
    rc = rc != 0 ? rc : kvl_gpu_synchronize(g->p->gpu, g->p->work, err);
  }
  return rc;
}

static int alone(struct gather *g, struct kvl_err *err)
{
  uint64_t size[KVL_PROBE_AXIS_MAX], count[KVL_PROBE_AXIS_MAX], range[KVL_PROBE_AXIS_MAX];
  uint32_t sizes = kvl_probe_row_bytes(g->p, size), counts = kvl_probe_row_counts(g->p, count), ranges = kvl_probe_ranges(g->p, range);
  int rc = 0;
  for (uint32_t b = 0; b < sizes; b++) {
    for (uint32_t r = 0; r < ranges; r++) {
      for (int ascending = 0; ascending < 2; ascending++) {
        for (uint32_t c = 0; rc == 0 && c < counts; c++) {
          rc = cell(g, (uint32_t)count[c], (uint32_t)size[b], range[r], ascending == 1, KVL_BESIDE_NOTHING, err);
        }
      }
    }
  }
  return rc;
}

static int beside(struct gather *g, struct kvl_err *err)
{
  static const uint32_t rows[] = {256, 1024, 4096, 16384};
  uint32_t counts = g->p->config->quick ? 1 : 4;
  int rc = 0;
  static const enum kvl_probe_beside company[] = {KVL_BESIDE_COPY_IN, KVL_BESIDE_COPY_OUT, KVL_BESIDE_HBM};
  for (uint32_t b = 0; b < sizeof company / sizeof company[0]; b++) {
    for (uint32_t c = 0; rc == 0 && c < counts; c++) {
      rc = cell(g, rows[c], 288, g->p->pool_bytes, false, company[b], err);
      rc = rc != 0 ? rc : cell(g, rows[c], 1152, g->p->pool_bytes, false, company[b], err);
    }
  }
  return rc;
}

int kvl_probe_gathers(struct kvl_prober *p, struct kvl_err *err)
{
  struct gather g = {.p = p};
  struct kvl_resolve_entry *entry = calloc(ENTRIES_MAX, sizeof *entry);
  int rc = entry == NULL ? kvl_err_set(err, -ENOMEM, "no memory for entries") : 0;
  for (uint32_t e = 0; rc == 0 && e < ENTRIES_MAX; e++) {
    entry[e] = (struct kvl_resolve_entry){.request = (int32_t)e, .host_rows = p->pool};
  }
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, ENTRIES_MAX * sizeof *entry, 0, "entries", (void **)&g.entry, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, ENTRIES_MAX * sizeof *g.count, 0, "counts", (void **)&g.count, err);
  rc = rc != 0 ? rc : kvl_gpu_copy(p->gpu, g.entry, entry, ENTRIES_MAX * sizeof *entry, p->work, err);
  rc = rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
  rc = rc != 0 ? rc : warm_up(&g, err);
  rc = rc != 0 ? rc : alone(&g, err);
  rc = rc != 0 ? rc : beside(&g, err);
  free(entry);
  kvl_gpu_free(p->gpu, g.entry);
  kvl_gpu_free(p->gpu, g.count);
  return rc;
}
