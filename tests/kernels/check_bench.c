/* The timed half of check_kernels: the very calls that it checks, with the floors beside.
 *
 *   peer   one call, requests x 2,048 selections, hot cache 4,096 rows of 656 B, 32,768 rows of history a request, each step keeping 100,
 *   95, 87 or
 *          70 % of the previous selection: the shape in which other systems' kernels were measured. Every call's addresses and the final
 *          state are compared with the reference.
 *   v41    the eight selections of 512 of a decode step in one graph, rows of 288 B, 500,000 tokens a request: everything resident, and
 *   with
 *          the newest 45 % of the pages lent and re-references as published (preset hot-a).
 *   copy   population of one session, page by page, against one DMA copy.
 *   step   the kernels of a decode step (bench_step.c).
 *
 * Modes: `event`: events around a single call; `gated`: the same with L2 flushed and the stream held by a spinning kernel until all is
 * queued, so that launch cost stays out; `graph`: all steps as nodes of one graph, time a node. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "kernels/segments.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/check_kernels.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/now.h"

enum { STEPS = BENCH_STEPS, SKIP = 4, WARM = 6, FLUSH_BYTES = 128 << 20 };

static FILE *json;
static cudaEvent_t before, after;
static unsigned char *flush;
static const char *trouble;

#define TRY(call) \
  do { \
    if ((call) != 0 && trouble == NULL) { \
      trouble = #call; \
    } \
  } while (0)

static int ascending(const void *a, const void *b)
{
  float x = *(const float *)a;
  float y = *(const float *)b;
  return (x > y) - (x < y);
}

static struct times summary(float *t, int n)
{
  qsort(t, (size_t)n, sizeof *t, ascending);
  return (struct times){t[n / 2], t[n / 10], t[n - 1 - n / 10]};
}

/* Events around single calls, one a step. */
struct times time_calls(call_fn *call, void *arg, int steps, bool gated, void *stream)
{
  float t[STEPS];
  int n = 0;
  for (int s = 0; s < steps; s++) {
    float ms = 0;
    if (gated) {
      TRY(cudaMemsetAsync(flush, s, FLUSH_BYTES, stream));
      TRY(floor_spin(40000, stream));
    } else {
      TRY(cudaStreamSynchronize(stream));
    }
    TRY(cudaEventRecord(before, stream));
    TRY(call(arg, s, stream));
    TRY(cudaEventRecord(after, stream));
    TRY(cudaEventSynchronize(after));
    TRY(cudaEventElapsedTime(&ms, before, after));
    if (s >= SKIP) {
      t[n++] = ms * 1000;
    }
  }
  return summary(t, n);
}

/* All steps in one graph, launched three times (prepare() puts the state back); us a step of the median launch. */
float time_graph(call_fn *call, void *arg, int from, int steps, void (*prepare)(void *), void *stream)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  float t[3] = {0};
  TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int s = from; s < from + steps; s++) {
    TRY(call(arg, s, stream));
  }
  TRY(cudaStreamEndCapture(stream, &graph));
  TRY(cudaGraphInstantiate(&exec, graph, 0));
  if (trouble != NULL) {
    return 0;
  }
  for (int i = 0; i < 3; i++) {
    if (prepare != NULL) {
      prepare(arg);
    }
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaEventRecord(before, stream));
    TRY(cudaGraphLaunch(exec, stream));
    TRY(cudaEventRecord(after, stream));
    TRY(cudaEventSynchronize(after));
    TRY(cudaEventElapsedTime(&t[i], before, after));
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  return summary(t, 3).median * 1000 / (float)steps;
}

/* ---- peer ---- */

struct peer {
  struct gpu *g;
  const struct kvl_resolve_variant *variant;
  kvl_row *d_rows;        /* [STEPS][requests * k] */
  kvl_addr *d_addresses;  /* the same */
  uint64_t *d_index;      /* rows to gather, all steps */
  uint32_t first[STEPS + 1];
  unsigned char *gather_to;
  uint32_t blocks, threads;
  int32_t *map, *out;
  uint32_t *stamp, *misses;
};

static int call_resolve(void *arg, int step, void *stream)
{
  struct peer *p = arg;
  struct kvl_resolve_batch b = p->g->batch;
  size_t lanes = (size_t)b.entries * b.k;
  b.rows = p->d_rows + (size_t)step * lanes;
  b.addresses = p->d_addresses + (size_t)step * lanes;
  return p->variant->run(&b, stream);
}

static int call_gather(void *arg, int step, void *stream)
{
  struct peer *p = arg;
  return floor_gather(p->g->pool, p->d_index + p->first[step], p->gather_to, p->first[step + 1] - p->first[step], p->g->c.row_bytes,
                      p->blocks,
                      p->threads, stream);
}

static int call_hit(void *arg, int step, void *stream)
{
  struct peer *p = arg;
  const struct gpu *g = p->g;
  return floor_hit(p->d_rows + (size_t)step * g->c.requests * g->c.k, p->map, g->c.rows_max, g->c.k, g->c.requests, p->stamp,
                   g->c.geometry.hot_rows,
                   (uint32_t)step, p->out, p->misses, stream);
}

static void restore(void *arg)
{
  gpu_restore(((struct peer *)arg)->g);
}

static void redraw(struct kvl_rng *rng, kvl_row *rows, uint32_t k, uint32_t history, uint32_t n, unsigned char *chosen)
{
  for (uint32_t i = 0; i < k; i++) {
    chosen[rows[i]] = 1;
  }
  for (uint32_t i = 0; i < n; i++) { /* n distinct lanes: a partial shuffle puts them first */
    uint32_t j = i + kvl_rng_below(rng, k - i);
    kvl_row old = rows[j];
    rows[j] = rows[i];
    kvl_row row;
    do {
      row = (kvl_row)kvl_rng_below(rng, history);
    } while (chosen[row]);
    chosen[row] = 1;
    rows[i] = row;
    chosen[old] = 2; /* not again in this step */
  }
  memset(chosen, 0, history);
}

static void peer_cell(struct gpu *g, uint32_t requests, uint32_t keep, struct kvl_rng *rng)
{
  static unsigned char chosen[1 << 16];
  const uint32_t k = g->c.k;
  size_t lanes = (size_t)requests * k;
  struct peer p = {.g = g};
  kvl_row *rows = malloc(STEPS * lanes * sizeof *rows);
  kvl_addr *want = malloc(STEPS * lanes * sizeof *want);
  kvl_addr *got = malloc(STEPS * lanes * sizeof *got);
  uint64_t *index = malloc(STEPS * lanes * sizeof *index);
  if (rows == NULL || want == NULL || got == NULL || index == NULL) {
    trouble = "out of memory";
    return;
  }
  uint32_t n = k - k * keep / 100;
  uint64_t fetched = 0;
  uint64_t counted = 0;
  /* the reference goes first: it leaves the expected addresses, the rows to gather and the final state */
  for (int s = -WARM; s < STEPS; s++) {
    for (uint32_t r = 0; r < requests; r++) {
      redraw(rng, gpu_rows(g, r, 0), k, g->c.rows_max, n, chosen);
      g->query[r] = (struct kvl_batch_query){(kvl_row)g->c.rows_max, k};
    }
    if (s == 0) { /* the device starts from here */
      if ((trouble = gpu_upload_state(g)) != NULL) {
        return;
      }
      gpu_keep(g);
      TRY(cudaStreamSynchronize(g->stream));
      int32_t *map = malloc((size_t)requests * g->c.rows_max * 4);
      TRY(cudaMalloc((void **)&p.map, (size_t)requests * g->c.rows_max * 4));
      for (uint32_t r = 0; r < requests && map != NULL; r++) {
        struct kvl_resolve_entry e;
        gpu_build_entry(g, r, false, &e);
        for (uint32_t i = 0; i < g->c.rows_max; i++) {
          map[(size_t)r * g->c.rows_max + i] = e.place_of_row[i] < 0 ? -1 : e.place_of_row[i];
        }
      }
      TRY(copy_now(p.map, map, (size_t)requests * g->c.rows_max * 4));
      free(map);
    }
    if ((trouble = gpu_reference(g, requests)) != NULL) {
      return;
    }
    if (s < 0) {
      continue;
    }
    memcpy(rows + (size_t)s * lanes, g->rows, lanes * sizeof *rows);
    memcpy(want + (size_t)s * lanes, g->host_batch.addresses, lanes * sizeof *want);
    p.first[s] = (uint32_t)fetched;
    for (uint32_t r = 0; r < requests; r++) {
      for (uint32_t i = 0; i < g->host_batch.fetch_count[r]; i++) {
        const unsigned char *at = gpu_host_rows(g, r) + (size_t)g->host_batch.fetches[(size_t)r * k + i].row * g->c.row_bytes;
        index[fetched++] = (uint64_t)(at - g->pool) / g->c.row_bytes;
      }
    }
    p.first[s + 1] = (uint32_t)fetched;
    counted += s >= SKIP ? fetched - p.first[s] : 0;
  }
  double misses = (double)counted / (STEPS - SKIP) / requests;
  TRY(cudaMalloc((void **)&p.d_rows, STEPS * lanes * 4));
  TRY(cudaMalloc((void **)&p.d_addresses, STEPS * lanes * 4));
  TRY(cudaMalloc((void **)&p.d_index, (fetched + 1) * 8));
  TRY(cudaMalloc((void **)&p.gather_to, lanes * g->c.row_bytes));
  TRY(cudaMalloc((void **)&p.out, lanes * 4));
  TRY(cudaMalloc((void **)&p.stamp, (size_t)requests * g->c.geometry.hot_rows * 4));
  TRY(cudaMalloc((void **)&p.misses, (size_t)requests * 4));
  TRY(copy_now(p.d_rows, rows, STEPS * lanes * 4));
  TRY(copy_now(p.d_index, index, fetched * 8));

  /* Entries and queries were uploaded by a device call that is checked as all others are. */
  p.variant = kvl_resolve_cuda_variants;
  memcpy(g->rows, rows, lanes * sizeof *rows);
  g->batch.entries = requests;

  struct times floor_event = {0};
  struct times floor_gated = {0};
  float floor_graph = 0;
  uint32_t best_blocks = 0;
  uint32_t best_threads = 0;
  if (n == 0) {
    floor_event = time_calls(call_hit, &p, STEPS, false, g->stream);
    floor_gated = time_calls(call_hit, &p, STEPS, true, g->stream);
    floor_graph = time_graph(call_hit, &p, 0, STEPS, NULL, g->stream);
  } else {
    static const uint32_t grids[] = {8, 32, 66, 132, 264, 528};
    static const uint32_t threads[] = {128, 256, 512};
    floor_event.median = 1e9f;
    for (int b = 0; b < 6; b++) {
      for (int t = 0; t < 3; t++) {
        p.blocks = grids[b];
        p.threads = threads[t];
        struct times x = time_calls(call_gather, &p, STEPS, false, g->stream);
        if (x.median < floor_event.median) {
          floor_event = x;
          best_blocks = p.blocks;
          best_threads = p.threads;
        }
      }
    }
    p.blocks = best_blocks;
    p.threads = best_threads;
    floor_gated = time_calls(call_gather, &p, STEPS, true, g->stream);
    floor_graph = time_graph(call_gather, &p, 0, STEPS, NULL, g->stream);
  }
  for (const struct kvl_resolve_variant *v = kvl_resolve_cuda_variants; v->name != NULL && trouble == NULL; v++) {
    p.variant = v;
    gpu_restore(g);
    struct times event = time_calls(call_resolve, &p, STEPS, false, g->stream);
    TRY(copy_now(got, p.d_addresses, STEPS * lanes * 4));
    const char *state = gpu_compare(g, true);
    bool equal = memcmp(got, want, STEPS * lanes * 4) == 0 && state == NULL;
    gpu_restore(g);
    struct times gated = time_calls(call_resolve, &p, STEPS, true, g->stream);
    float graph = time_graph(call_resolve, &p, 0, STEPS, restore, g->stream);
    printf("%4u %7.1f  %-11s %7.1f (%5.1f-%5.1f) %7.1f %7.2f | floor %7.1f %7.1f %7.2f (%ux%u)  %s\n", requests, misses, v->name,
           (double)event.median,
           (double)event.low, (double)event.high, (double)gated.median, (double)graph, (double)floor_event.median,
               (double)floor_gated.median,
           (double)floor_graph, best_blocks, best_threads, equal ? "equal" : state != NULL ? state : "ADDRESSES DIFFER");
    fflush(stdout);
    if (json != NULL) {
      fprintf(json,
              "{\"bench\":\"peer\",\"variant\":\"%s\",\"requests\":%u,\"k\":%u,\"hot_rows\":%u,\"row_bytes\":%u,\"misses_per_request\":%.1f,"
              "\"event_us\":%.2f,\"event_us_p10\":%.2f,\"event_us_p90\":%.2f,\"gated_us\":%.2f,\"graph_us\":%.2f,\"floor_event_us\":%.2f,"
              "\"floor_gated_us\":%.2f,\"floor_graph_us\":%.2f,\"host_bytes\":%.0f,\"equal\":%s}\n",
              v->name, requests, k, g->c.geometry.hot_rows, g->c.row_bytes, misses, (double)event.median, (double)event.low,
                  (double)event.high,
              (double)gated.median, (double)graph, (double)floor_event.median, (double)floor_gated.median, (double)floor_graph,
              misses * requests * g->c.row_bytes, equal ? "true" : "false");
    }
    if (!equal) {
      trouble = "a timed call differs from the reference";
    }
  }
  cudaFree(p.d_rows);
  cudaFree(p.d_addresses);
  cudaFree(p.d_index);
  cudaFree(p.gather_to);
  cudaFree(p.out);
  cudaFree(p.stamp);
  cudaFree(p.misses);
  cudaFree(p.map);
  free(rows);
  free(want);
  free(got);
  free(index);
}

static void peers(bool quick, uint64_t seed)
{
  static const uint32_t sizes[] = {1, 8, 16, 32, 64};
  static const uint32_t keeps[] = {100, 95, 87, 70};
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "bench peer", 0);
  printf("requests misses variant   event us (p10-p90)  gated  graph | floor: event gated graph (grid)\n");
  for (int i = 0; i < 5 && trouble == NULL; i++) {
    if (quick && i != 0 && i != 4) {
      continue;
    }
    struct gpu_config c = {.requests = sizes[i], .k = 2048, .queries_max = 1, .pool_max = 1, .rows_max = 32768, .pages_max = 1,
                           .frames = 1, .row_bytes = 656};
    c.geometry = (struct kvl_cache_geometry){.page_shift = 6, .hot_rows = 4096, .tail_rows = 1, .scratch_rows = 1, .frame_stride_rows = 64};
    struct gpu *g = NULL;
    const char *bad = gpu_open(&g, &c, seed);
    for (uint32_t r = 0; r < c.requests && bad == NULL; r++) {
      kvl_cache_load(g->cache[r], (kvl_row)c.rows_max);
      g->entry[r] = (struct kvl_resolve_entry){.request = (int32_t)r, .query_count = 1};
      g->query[r] = (struct kvl_batch_query){(kvl_row)c.rows_max, c.k};
      for (uint32_t l = 0; l < c.k; l++) {
        gpu_rows(g, r, 0)[l] = (kvl_row)(l * 16 + kvl_rng_below(&rng, 16));
      }
    }
    bad = bad == NULL ? gpu_push(g) : bad;
    if (bad == NULL) { /* one checked call: it also leaves entries and queries on the device */
      bad = gpu_reference(g, c.requests);
      bad = bad == NULL ? gpu_device(g, kvl_resolve_cuda_variants, c.requests, NULL) : bad;
    }
    trouble = bad;
    for (int k = 0; k < 4 && trouble == NULL; k++) {
      peer_cell(g, c.requests, keeps[k], &rng);
    }
    if (trouble != NULL) {
      fprintf(stderr, "check_kernels: peer bench, %u requests: %s\n", c.requests, trouble);
    }
    gpu_close(g);
  }
}

/* ---- v41 ---- */

enum { V41_CACHES = 4, V41_SELECTIONS = 8, V41_K = 512, V41_WARM = 40, V41_DEPTH = 64, V41_REQUESTS = 82 };
static const uint32_t v41_rows[V41_CACHES] = {250000, 250000, 250000, 500000};
static const uint32_t v41_hot[V41_CACHES] = {1024, 1024, 1024, 2048};
static const uint32_t v41_cache[V41_SELECTIONS] = {0, 1, 2, 3, 3, 3, 3, 3};

struct v41 {
  struct gpu *g[V41_CACHES];
  uint32_t requests;
  bool whole;
  kvl_row *d_rows;  /* [STEPS][8][requests][512] */
  kvl_addr *d_addresses;
  uint64_t *d_index;
  uint32_t first[STEPS][V41_SELECTIONS + 1];
  uint32_t *d_owned; /* [STEPS][8][requests + 1], from the selection's first */
  unsigned char *gather_to;
  int32_t *d_frames;
  uint32_t blocks, threads; /* of the gather; 0 blocks: one a request */
  const struct kvl_resolve_variant *variant;
};

static int v41_step(void *arg, int step, void *stream)
{
  struct v41 *v = arg;
  size_t lanes = (size_t)v->requests * V41_K;
  for (uint32_t s = 0; s < V41_SELECTIONS; s++) {
    struct kvl_resolve_batch b = v->g[v41_cache[s]]->batch;
    b.entries = v->requests;
    b.rows = v->d_rows + ((size_t)step * V41_SELECTIONS + s) * lanes;
    b.addresses = v->d_addresses + ((size_t)step * V41_SELECTIONS + s) * lanes;
    int err = v->variant->run(&b, stream);
    if (err != 0) {
      return err;
    }
  }
  return 0;
}

static int v41_gather(void *arg, int step, void *stream)
{
  struct v41 *v = arg;
  for (uint32_t s = 0; s < V41_SELECTIONS; s++) {
    const struct gpu *g = v->g[v41_cache[s]];
    const uint64_t *index = v->d_index + v->first[step][s];
    uint32_t rows = v->first[step][s + 1] - v->first[step][s];
    int err = v->blocks > 0
                  ? floor_gather(g->pool, index, v->gather_to, rows, g->c.row_bytes, v->blocks, v->threads, stream)
                  : floor_gather_owned(g->pool, index, v->d_owned + ((size_t)step * V41_SELECTIONS + s) * (v->requests + 1), v->gather_to,
                                       v->requests, g->c.row_bytes, v->threads, stream);
    if (err != 0) {
      return err;
    }
  }
  return 0;
}

static int v41_pages(void *arg, int step, void *stream)
{
  struct v41 *v = arg;
  size_t lanes = (size_t)v->requests * V41_K;
  for (uint32_t s = 0; s < V41_SELECTIONS; s++) {
    int err = floor_pages(v->d_rows + ((size_t)step * V41_SELECTIONS + s) * lanes, v->d_frames, 1954, V41_K, v->requests,
                          v41_cache[s] == 3 ? 8 : 7, v->d_addresses + (size_t)s * lanes, stream);
    if (err != 0) {
      return err;
    }
  }
  return 0;
}

/* What the host rows of this case range over. */
static double v41_gib(const struct v41 *v)
{
  double bytes = 0;
  for (int c = 0; c < V41_CACHES; c++) {
    const struct gpu *g = v->g[c];
    bytes += (double)(gpu_host_rows(g, v->requests - 1) - g->pool) + (double)g->c.rows_max * g->c.row_bytes;
  }
  return bytes / (double)(1 << 30);
}

static uint32_t draw_gap(struct kvl_rng *rng)
{
  static const uint32_t share[] = {2833, 1967, 1367, 1067, 867, 700};
  static const uint32_t from[] = {2, 3, 5, 9, 17, 33};
  static const uint32_t width[] = {1, 2, 4, 8, 16, 31};
  uint32_t x = kvl_rng_below(rng, 10000);
  for (uint32_t i = 0; i < 6; i++) {
    if (x < share[i]) {
      return from[i] + kvl_rng_below(rng, width[i]);
    }
    x -= share[i];
  }
  return 0;
}

/* A graph a step, each launched once: the state moves on. Median over steps, us. */
static struct times v41_time(call_fn *call, struct v41 *v, void *stream)
{
  float t[STEPS];
  cudaGraphExec_t exec[STEPS];
  int n = 0;
  for (int s = 0; s < STEPS; s++) {
    cudaGraph_t graph;
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    TRY(call(v, s, stream));
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphInstantiate(&exec[s], graph, 0));
    TRY(cudaGraphUpload(exec[s], stream));
    TRY(cudaGraphDestroy(graph));
  }
  for (int s = 0; s < STEPS && trouble == NULL; s++) {
    float ms = 0;
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaEventRecord(before, stream));
    TRY(cudaGraphLaunch(exec[s], stream));
    TRY(cudaEventRecord(after, stream));
    TRY(cudaEventSynchronize(after));
    TRY(cudaEventElapsedTime(&ms, before, after));
    if (s >= SKIP) {
      t[n++] = ms * 1000;
    }
  }
  for (int s = 0; s < STEPS && trouble == NULL; s++) {
    cudaGraphExecDestroy(exec[s]);
  }
  return n > 0 ? summary(t, n) : (struct times){0};
}

static int by_number(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a;
  uint64_t y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* The bare gather of the rows of each selection, in the order of first appearance and by address, by several grids: the best of the first
 * order is the floor. */
static struct times v41_floor(struct v41 *v, uint32_t lent_percent, uint64_t *index, uint64_t fetched, void *stream)
{
  static const uint32_t grids[][2] = {{0, 512}, {0, 1024}, {82, 512}, {132, 256}, {264, 256}, {264, 512}, {528, 512}};
  struct times best = {0};
  for (int sorted = 0; sorted < 2 && fetched > 0; sorted++) {
    for (int step = 0; step < STEPS && sorted; step++) {
      for (int s = 0; s < V41_SELECTIONS; s++) {
        qsort(index + v->first[step][s], v->first[step][s + 1] - v->first[step][s], sizeof *index, by_number);
      }
    }
    TRY(copy_now(v->d_index, index, fetched * 8));
    struct times least = {0};
    v->blocks = 0;
    v->threads = 512;
    (void)v41_time(v41_gather, v, stream); /* untimed: the first gather of new rows takes 10 to 25 % longer, whatever its grid */
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
      v->blocks = grids[i][0];
      v->threads = grids[i][1];
      struct times t = v41_time(v41_gather, v, stream);
      least = least.median == 0 || t.median < least.median ? t : least;
      printf("v41 %2u requests, %3u %% lent  gather, %s, %3u blocks of %u%s: %.1f us (%.1f-%.1f)\n", v->requests, lent_percent,
             sorted ? "by address" : "as selected", v->blocks > 0 ? v->blocks : v->requests, v->threads,
             v->blocks > 0 ? "" : ", one a request", (double)t.median, (double)t.low, (double)t.high);
      if (json != NULL) {
        fprintf(json,
                "{\"bench\":\"v41_gather\",\"requests\":%u,\"lent_percent\":%u,\"pool_gib\":%.2f,\"pool\":\"%s\",\"order\":\"%s\",\"blocks\":%u,"
                "\"block_a_request\":%s,\"threads\":%u,\"us\":%.2f,\"us_p10\":%.2f,\"us_p90\":%.2f}\n",
                v->requests, lent_percent, v41_gib(v), v->g[0]->c.pool_mapped ? "register" : "alloc", sorted ? "address" : "selection",
                v->blocks > 0 ? v->blocks : v->requests, v->blocks > 0 ? "false" : "true", v->threads, (double)t.median, (double)t.low,
                (double)t.high);
      }
    }
    best = sorted ? best : least;
  }
  return best;
}

static uint64_t *v41_stamp;

static int run_stamped(const struct kvl_resolve_batch *batch, void *context)
{
  struct kvl_resolve_batch b = *batch;
  b.stamp = v41_stamp;
  return kvl_resolve_cuda_variants[0].run(&b, context);
}

static void v41_case(struct v41 *v, uint32_t requests, uint32_t lent_percent, struct kvl_rng *rng)
{
  size_t lanes = (size_t)requests * V41_K;
  kvl_row *past = malloc((size_t)V41_SELECTIONS * V41_DEPTH * lanes * sizeof *past);
  kvl_addr *want = malloc((size_t)STEPS * V41_SELECTIONS * lanes * sizeof *want);
  kvl_addr *got = malloc((size_t)STEPS * V41_SELECTIONS * lanes * sizeof *got);
  uint64_t *index = malloc((size_t)STEPS * V41_SELECTIONS * lanes * sizeof *index);
  uint32_t *owned = malloc((size_t)STEPS * V41_SELECTIONS * (requests + 1) * sizeof *owned);
  if (past == NULL || want == NULL || got == NULL || index == NULL || owned == NULL) {
    trouble = "out of memory";
    return;
  }
  v->requests = requests;
  v->whole = lent_percent == 100;
  for (int c = 0; c < V41_CACHES; c++) {
    struct gpu *g = v->g[c];
    for (uint32_t r = 0; r < requests; r++) {
      uint32_t pages = g->c.pages_max;
      for (uint32_t p = 0; p < pages; p++) {
        g->page_map[(size_t)r * pages + p] = p >= pages - pages * lent_percent / 100 ? (kvl_frame)(p % g->c.frames) : KVL_NONE;
      }
      g->entry[r] = (struct kvl_resolve_entry){.request = (int32_t)r, .query_count = 1, .whole = v->whole};
      g->query[r] = (struct kvl_batch_query){(kvl_row)g->c.rows_max, V41_K};
    }
  }
  uint64_t fetched = 0;
  uint64_t counted = 0;
  uint64_t tiers[KVL_TIERS] = {0};
  int warm = v->whole ? 0 : V41_WARM;
  for (int step = -warm; step < STEPS && trouble == NULL; step++) {
    uint32_t at = (uint32_t)(step + warm);
    if (step == 0) {
      for (int c = 0; c < V41_CACHES && trouble == NULL; c++) {
        trouble = gpu_push(v->g[c]);
        trouble = trouble == NULL ? gpu_upload_state(v->g[c]) : trouble;
        gpu_keep(v->g[c]);
      }
    }
    for (uint32_t s = 0; s < V41_SELECTIONS && trouble == NULL; s++) {
      struct gpu *g = v->g[v41_cache[s]];
      kvl_row *ring = past + (size_t)s * V41_DEPTH * lanes;
      kvl_row *now = ring + (at % V41_DEPTH) * lanes;
      const kvl_row *last = ring + ((at + V41_DEPTH - 1) % V41_DEPTH) * lanes;
      for (size_t i = 0; i < lanes; i++) {
        now[i] = at > 0 ? last[i] : 0;
        if (at == 0 || kvl_rng_below(rng, 1000) >= 700) {
          uint32_t gap = draw_gap(rng);
          now[i] = gap > 0 && gap <= at ? ring[((at - gap) % V41_DEPTH) * lanes + i / V41_K * V41_K + kvl_rng_below(rng, V41_K)]
                                        : (kvl_row)kvl_rng_below(rng, g->c.rows_max);
        }
      }
      memcpy(g->rows, now, lanes * sizeof *now);
      if ((trouble = gpu_reference(g, requests)) != NULL || step < 0) {
        continue;
      }
      size_t here = ((size_t)step * V41_SELECTIONS + s) * lanes;
      TRY(copy_now(v->d_rows + here, now, lanes * 4));
      memcpy(want + here, g->host_batch.addresses, lanes * 4);
      v->first[step][s] = (uint32_t)fetched;
      uint32_t *mine = owned + ((size_t)step * V41_SELECTIONS + s) * (requests + 1);
      for (uint32_t r = 0; r < requests; r++) {
        mine[r] = (uint32_t)fetched - v->first[step][s];
        for (uint32_t i = 0; i < g->host_batch.fetch_count[r]; i++) {
          const unsigned char *row = gpu_host_rows(g, r) + (size_t)g->host_batch.fetches[(size_t)r * V41_K + i].row * g->c.row_bytes;
          index[fetched++] = (uint64_t)(row - g->pool) / g->c.row_bytes;
        }
        for (int t = 0; t < KVL_TIERS; t++) {
          tiers[t] += g->host_batch.counts[r].lanes[t];
        }
      }
      v->first[step][s + 1] = (uint32_t)fetched;
      mine[requests] = (uint32_t)fetched - v->first[step][s];
      counted += step >= SKIP ? fetched - v->first[step][s] : 0;
    }
  }
  if (trouble == NULL) {
    void *stream = v->g[0]->stream;
    TRY(copy_now(v->d_owned, owned, (size_t)STEPS * V41_SELECTIONS * (requests + 1) * 4));
    struct times pages = v41_time(v41_pages, v, stream);
    struct times gather = v41_floor(v, lent_percent, index, fetched, stream);
    double all = (double)STEPS * V41_SELECTIONS * (double)lanes;
    struct kvl_resolve_variant all_of[8] = {{"overlap+stamp", run_stamped}}; /* and the first one with time stamps */
    for (int i = 0; kvl_resolve_cuda_variants[i].name != NULL && i < 6; i++) {
      all_of[i + 1] = kvl_resolve_cuda_variants[i];
    }
    for (v->variant = all_of; v->variant->name != NULL && trouble == NULL; v->variant++) {
      for (int c = 0; c < V41_CACHES; c++) { /* entries and queries of this case, by hand: a checked call would move the state */
        struct gpu *g = v->g[c];
        gpu_restore(g);
        void *d_query;
        memcpy(&d_query, &g->batch.query, sizeof d_query);
        void *d_entry;
        memcpy(&d_entry, &g->batch.entry, sizeof d_entry);
        for (uint32_t r = 0; r < requests; r++) {
          struct kvl_resolve_entry e;
          gpu_build_entry(g, r, true, &e);
          e.query_count = 1;
          e.whole = v->whole;
          TRY(copy_now((struct kvl_resolve_entry *)d_entry + r, &e, sizeof e));
        }
        TRY(copy_now(d_query, g->query, requests * sizeof g->query[0]));
        TRY(cudaStreamSynchronize(g->stream));
      }
      TRY(fill_now(v->d_addresses, 0x5a, (size_t)STEPS * V41_SELECTIONS * lanes * 4));
      struct times t = v41_time(v41_step, v, stream);
      TRY(copy_now(got, v->d_addresses, (size_t)STEPS * V41_SELECTIONS * lanes * 4));
      bool equal = memcmp(got, want, (size_t)STEPS * V41_SELECTIONS * lanes * 4) == 0;
      const char *state = NULL;
      for (int c = 0; c < V41_CACHES && state == NULL; c++) {
        state = gpu_compare(v->g[c], true);
      }
      equal = equal && state == NULL;
      printf("v41 %2u requests, %3u %% lent, %.1f GiB  %-11s %7.1f us (%.1f-%.1f) a step of 8 resolves | page look-up %.1f, "
           "gather %.1f us of %.0f rows; "
             "borrowed %.1f %% hot %.1f %% host %.1f %%  %s\n",
             requests, lent_percent, v41_gib(v), v->variant->name, (double)t.median, (double)t.low, (double)t.high, (double)pages.median,
                 (double)gather.median,
             (double)counted / (STEPS - SKIP), 100 * (double)tiers[KVL_TIER_PAGE] / all, 100 * (double)tiers[KVL_TIER_HOT] / all,
             100 * (double)tiers[KVL_TIER_HOST] / all, equal ? "equal" : state != NULL ? state : "ADDRESSES DIFFER");
      fflush(stdout);
      if (json != NULL) {
        fprintf(json,
                "{\"bench\":\"v41\",\"variant\":\"%s\",\"requests\":%u,\"lent_percent\":%u,\"pool_gib\":%.2f,\"pool\":\"%s\",\"step_us\":%.2f,\"step_us_p10\":%.2f,\"step_us_p90\":%.2f,"
                "\"floor_pages_us\":%.2f,\"floor_gather_us\":%.2f,\"rows_fetched_per_step\":%.0f,\"row_bytes\":288,\"equal\":%s}\n",
                v->variant->name, requests, lent_percent, v41_gib(v), v->g[0]->c.pool_mapped ? "register" : "alloc", (double)t.median,
                (double)t.low, (double)t.high, (double)pages.median,
                (double)gather.median, (double)counted / (STEPS - SKIP), equal ? "true" : "false");
      }
      if (!equal) {
        trouble = "a timed call differs from the reference";
      }
    }
  }
  free(past);
  free(want);
  free(got);
  free(index);
  free(owned);
}

static void v41(const struct bench_options *options)
{
  const uint64_t seed = options->seed;
  const uint64_t pool_bytes = (options->pool_gib > 0 ? options->pool_gib : 8) << 30;
  static struct v41 v;
  struct kvl_rng rng;
  kvl_rng_init(&rng, seed, "bench v41", 0);
  for (int c = 0; c < V41_CACHES && trouble == NULL; c++) {
    struct gpu_config config = {.requests = V41_REQUESTS, .k = V41_K, .queries_max = 1, .pool_max = 1, .rows_max = v41_rows[c],
                                .pages_max = 1954, .frames = 16,
                                .row_bytes = 288, .pool_mapped = !options->pool_alloc};
    /* below the real range each cache has a quarter, and requests share it; from 28 GiB on each request has its own rows, as in a run */
    config.pool_most = pool_bytes < UINT64_C(28) << 30 ? pool_bytes / V41_CACHES : 0;
    config.geometry = (struct kvl_cache_geometry){.page_shift = c == 3 ? 8 : 7, .hot_rows = v41_hot[c], .tail_rows = 1, .scratch_rows = 1,
                                                  .frame_stride_rows = 256};
    trouble = gpu_open(&v.g[c], &config, seed + (uint64_t)c);
    for (uint32_t r = 0; r < V41_REQUESTS && trouble == NULL; r++) {
      kvl_cache_load(v.g[c]->cache[r], (kvl_row)v41_rows[c]);
    }
  }
  size_t all = (size_t)STEPS * V41_SELECTIONS * V41_REQUESTS * V41_K;
  TRY(cudaMalloc((void **)&v41_stamp, 16));
  TRY(cudaMalloc((void **)&v.d_rows, all * 4));
  TRY(cudaMalloc((void **)&v.d_addresses, all * 4));
  TRY(cudaMalloc((void **)&v.d_index, all * 8));
  TRY(cudaMalloc((void **)&v.d_owned, (size_t)STEPS * V41_SELECTIONS * (V41_REQUESTS + 1) * 4));
  TRY(cudaMalloc((void **)&v.gather_to, (size_t)V41_REQUESTS * V41_K * 288));
  TRY(cudaMalloc((void **)&v.d_frames, (size_t)V41_REQUESTS * 1954 * 4));
  TRY(fill_now(v.d_frames, 0, (size_t)V41_REQUESTS * 1954 * 4));
  static const uint32_t batches[] = {44, 82};
  for (int i = options->quick ? 1 : 0; i < 2 && trouble == NULL; i++) {
    v41_case(&v, batches[i], 100, &rng);
    if (trouble == NULL) {
      v41_case(&v, batches[i], 45, &rng);
    }
  }
  if (trouble != NULL) {
    fprintf(stderr, "check_kernels: v41 bench: %s\n", trouble);
  }
  for (int c = 0; c < V41_CACHES; c++) {
    gpu_close(v.g[c]);
  }
  cudaFree(v41_stamp);
  cudaFree(v.d_rows);
  cudaFree(v.d_addresses);
  cudaFree(v.d_index);
  cudaFree(v.d_owned);
  cudaFree(v.gather_to);
  cudaFree(v.d_frames);
}

/* ---- copy ---- */

struct copy {
  struct kvl_segments segments;
  size_t bytes;
};

static int call_segments(void *arg, int step, void *stream)
{
  (void)step;
  return kvl_segments_cuda(&((struct copy *)arg)->segments, stream);
}

static int call_dma(void *arg, int step, void *stream)
{
  const struct copy *c = arg;
  (void)step;
  return cudaMemcpyAsync(c->segments.to, c->segments.from, c->bytes, cudaMemcpyDefault, stream) == cudaSuccess ? 0 : -1;
}

static void copies(void)
{
  enum { PAGES = 1953, PIECES = 4 * PAGES };
  static const uint64_t piece[4] = {128 * 288, 128 * 288, 128 * 288, 256 * 288};
  struct kvl_segment *list = malloc(PIECES * sizeof *list);
  size_t bytes = (size_t)PAGES * 640 * 288;
  unsigned char *pool = NULL;
  unsigned char *frames = NULL;
  unsigned char *d_list = NULL;
  uint32_t n = 0;
  TRY(cudaHostAlloc((void **)&pool, bytes, cudaHostAllocDefault));
  TRY(cudaMalloc((void **)&frames, bytes));
  TRY(cudaMalloc((void **)&d_list, 16 + PIECES * sizeof *list));
  if (trouble != NULL || list == NULL) {
    return;
  }
  memset(pool, 7, bytes);
  uint64_t base = 0;
  for (int c = 0; c < 4; base += piece[c] * PAGES, c++) { /* the rows of a cache lie together on the host, those of a page in a frame */
    for (uint32_t p = 0; p < PAGES; p++) {
      list[n++] = (struct kvl_segment){base + p * piece[c], (uint64_t)(PAGES - 1 - p) * 640 * 288 + (uint64_t)c * piece[0], piece[c]};
    }
  }
  TRY(copy_now(d_list, &n, 4));
  TRY(copy_now(d_list + 16, list, n * sizeof *list));
  static const uint32_t blocks[] = {0, 4, 16, 32, 66, 132};
  struct copy c = {{pool, frames, (void *)(d_list + 16), (void *)d_list, n, 0}, bytes};
  struct times dma = time_calls(call_dma, &c, 8, false, NULL);
  for (int i = 0; i < 6 && trouble == NULL; i++) {
    c.segments.blocks_max = blocks[i];
    struct times t = time_calls(call_segments, &c, 8, false, NULL);
    printf("copy of one session, %.0f MB in %u pieces, %u blocks: %.0f us (%.1f GB/s); one DMA copy %.0f us (%.1f GB/s)\n",
           (double)bytes / 1e6, n,
           blocks[i], (double)t.median, (double)bytes / (double)t.median / 1e3, (double)dma.median,
               (double)bytes / (double)dma.median / 1e3);
    if (json != NULL) {
      fprintf(json, "{\"bench\":\"copy\",\"bytes\":%zu,\"pieces\":%u,\"blocks\":%u,\"us\":%.1f,\"dma_us\":%.1f}\n", bytes, n, blocks[i],
              (double)t.median, (double)dma.median);
    }
  }
  cudaFreeHost(pool);
  cudaFree(frames);
  cudaFree(d_list);
  free(list);
}

static int call_empty(void *arg, int step, void *stream)
{
  (void)arg;
  (void)step;
  return floor_empty(stream);
}

int check_bench(const struct bench_options *options)
{
  const char *file = options->file;
  const char *only = options->only;
  if (file != NULL && (json = fopen(file, "w")) == NULL) {
    fprintf(stderr, "check_kernels: cannot write %s\n", file);
    return 1;
  }
  TRY(cudaEventCreate(&before));
  TRY(cudaEventCreate(&after));
  TRY(cudaMalloc((void **)&flush, FLUSH_BYTES));
  cudaStream_t stream = NULL;
  TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  struct times empty = time_calls(call_empty, NULL, STEPS, false, stream);
  float node = time_graph(call_empty, NULL, 0, STEPS, NULL, stream);
  printf("an empty kernel: %.1f us between events, %.2f us a node in a graph\n", (double)empty.median, (double)node);
  if (json != NULL) {
    fprintf(json, "{\"bench\":\"empty\",\"event_us\":%.2f,\"graph_us\":%.2f}\n", (double)empty.median, (double)node);
  }
  if (only == NULL || strcmp(only, "peer") == 0) {
    peers(options->quick, options->seed);
  }
  if (trouble == NULL && (only == NULL || strcmp(only, "v41") == 0)) {
    v41(options);
  }
  if (trouble == NULL && (only == NULL || strcmp(only, "copy") == 0)) {
    copies();
  }
  if (trouble == NULL && (only == NULL || strcmp(only, "step") == 0 || strcmp(only, "reader") == 0)) {
    TRY(bench_step(json, options->seed, only != NULL && strcmp(only, "reader") == 0));
  }
  if (trouble != NULL) {
    fprintf(stderr, "check_kernels: bench stopped: %s (%s)\n", trouble, cudaGetErrorString(cudaGetLastError()));
  }
  if (json != NULL && fclose(json) != 0) {
    fprintf(stderr, "check_kernels: cannot write %s\n", file);
    return 1;
  }
  return trouble == NULL ? 0 : 1;
}
