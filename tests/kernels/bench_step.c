/* Times of the kernels of a decode step (kernels/step.h) at the V4.1 shape: eight points of 512 rows of 288 B, 38 reading layers, 44 and 82 requests.
 *
 * `event`: events around one launch (5 to 6 us of it are launch and events); `gated`: L2 flushed, stream held until all is queued; `graph`: a node of a
 * graph. Rows that the readers read lie in 8 GB and differ from launch to launch, so they come from HBM. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/rng.h"
#include "kernels/segments.h"
#include "kernels/step.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/check_kernels.h"
#include "tests/kernels/now.h"

enum { POINTS = 8, K = 512, ROW_BYTES = 288, READERS = 38, REQUESTS_MAX = 82, CACHES = 4 };
static const uint64_t arena_bytes = UINT64_C(8) << 30;
static const uint64_t pool_bytes = UINT64_C(1) << 30;

static const char *trouble;
static FILE *json;
static void *stream;
static struct kvl_rng rng;
static unsigned char *arena, *pool; /* device; pinned host memory */

#define TRY(call) \
  do { \
    if (trouble == NULL && (call) != 0) { \
      trouble = #call; \
    } \
  } while (0)

/* A line of text and the same as JSON: name, then pairs of (key, number) up to NULL. */
static void report(const char *kernel, ...)
{
  va_list list;
  va_start(list, kernel);
  if (json != NULL) {
    fprintf(json, "{\"bench\":\"step\",\"kernel\":\"%s\"", kernel);
  }
  printf("step %-9s", kernel);
  for (const char *key = va_arg(list, const char *); key != NULL; key = va_arg(list, const char *)) {
    double x = va_arg(list, double);
    printf(" %s %.10g", key, (double)(int64_t)(x * 100 + 0.5) / 100);
    if (json != NULL) {
      fprintf(json, ",\"%s\":%.10g", key, (double)(int64_t)(x * 100 + 0.5) / 100);
    }
  }
  va_end(list);
  printf("\n");
  fflush(stdout);
  if (json != NULL) {
    fprintf(json, "}\n");
  }
}

static void *device(size_t bytes)
{
  void *p = NULL;
  TRY(cudaMalloc(&p, bytes));
  return p;
}

static void *pinned(size_t bytes)
{
  void *p = NULL;
  TRY(cudaHostAlloc(&p, bytes, cudaHostAllocDefault));
  return p;
}

static void *sent(const void *from, size_t bytes)
{
  void *p = device(bytes);
  TRY(copy_now(p, from, bytes));
  return p;
}

static double mean_stamp(const uint64_t *stamp) /* device: us between its two words */
{
  uint64_t t[2] = {0, 0};
  TRY(copy_now(t, stamp, sizeof t));
  return (double)(t[1] - t[0]) / 1000;
}

static void reset_stamp(uint64_t *stamp)
{
  const uint64_t t[2] = {UINT64_MAX, 0};
  TRY(copy_now(stamp, t, sizeof t));
}

static void three_ways(const char *kernel, call_fn *call, void *arg, int nodes, double requests, double queries, double bytes)
{
  if (trouble != NULL) {
    return;
  }
  struct times event = time_calls(call, arg, BENCH_STEPS, false, stream);
  struct times gated = time_calls(call, arg, BENCH_STEPS, true, stream);
  float graph = time_graph(call, arg, 0, nodes, NULL, stream);
  report(kernel, "requests", requests, "queries", queries, "bytes", bytes, "event_us", (double)event.median, "gated_us", (double)gated.median, "graph_us",
         (double)graph, "gb_s", bytes / (double)graph / 1e3, (char *)NULL);
}

/* ---- the clock ---- */

static void clock_resolution(void)
{
  enum { N = 4096 };
  static uint64_t timer[N], cycles[N];
  uint64_t *d = device(2 * sizeof timer);
  TRY(floor_clock(d, d + N, N, stream));
  TRY(cudaStreamSynchronize(stream));
  TRY(copy_now(timer, d, sizeof timer));
  TRY(copy_now(cycles, d + N, sizeof cycles));
  uint64_t least = UINT64_MAX;
  uint64_t changes = 0;
  for (uint32_t i = 1; i < N; i++) {
    uint64_t step = timer[i] - timer[i - 1];
    changes += step > 0;
    least = step > 0 && step < least ? step : least;
  }
  report("clock", "readings", (double)N, "least_step_ns", (double)least, "steps", (double)changes, "ns", (double)(timer[N - 1] - timer[0]), "cycles",
         (double)(cycles[N - 1] - cycles[0]), (char *)NULL);
  cudaFree(d);
}

/* ---- begin and end ---- */

static int call_begin(void *arg, int step, void *on)
{
  (void)step;
  return kvl_step_begin_cuda(arg, on);
}

static int call_end(void *arg, int step, void *on)
{
  (void)step;
  return kvl_step_end_cuda(arg, on);
}

static void begin_and_end(uint32_t requests, uint32_t queries)
{
  size_t words = POINTS * (size_t)((queries * (K + 1) + 3) / 4 * 4);
  size_t all = (size_t)requests * queries;
  uint32_t *selection = malloc(requests * 2 * words * 4);
  struct kvl_gpu_point point[POINTS];
  struct kvl_gpu_item *item = pinned(requests * sizeof *item);
  uint64_t *digest = device(READERS * all * 8);
  uint64_t *witness = device(POINTS * all * 8);
  uint32_t *check = pinned(4);
  struct kvl_step_outcome *outcome = pinned(sizeof *outcome);
  uint32_t point_of_reader[READERS];
  if (trouble != NULL || selection == NULL) {
    free(selection);
    return;
  }
  struct kvl_step_begin b = {.entries = requests, .queries_max = queries, .caches = CACHES, .points = POINTS, .item = item, .selection_words = words,
                             .stamp_pairs = 100, .stamps = device(1600)};
  for (uint32_t p = 0; p < POINTS; p++) { /* rows on a vector's boundary: the offset makes up for the counts before them */
    point[p] = (struct kvl_gpu_point){.cache = p < 3 ? p : 3, .k = K, .selection_offset = p * (words / POINTS) + (4 - queries % 4) % 4,
                                      .query = device(all * sizeof(struct kvl_batch_query)), .rows = device(all * K * 4),
                                      .counts = device(requests * sizeof(struct kvl_resolve_counts))};
  }
  for (uint32_t s = 0; s < requests * 2; s++) {
    for (size_t i = 0; i < words; i++) {
      selection[s * words + i] = i % (words / POINTS) < 8 ? K : kvl_rng_below(&rng, 250000);
    }
  }
  for (uint32_t e = 0; e < requests; e++) {
    item[e] = (struct kvl_gpu_item){.slot = (int32_t)e, .tokens = 500000, .queries = queries, .pages = 1954, .half = e % 2};
  }
  struct kvl_resolve_entry *entries = calloc(requests, sizeof *entries);
  for (uint32_t c = 0; c < CACHES && entries != NULL; c++) {
    b.tokens_per_row[c] = c < 3 ? 2 : 1;
    b.slot_entry[c] = sent(entries, requests * sizeof *entries);
    b.entry[c] = device(requests * sizeof *entries);
  }
  b.point = sent(point, sizeof point);
  b.selections = sent(selection, requests * 2 * words * 4);
  three_ways("begin", call_begin, &b, 20, requests, queries, (double)all * POINTS * K * 8);
  TRY(kvl_step_begin_cuda(&b, stream));

  for (uint32_t r = 0; r < READERS; r++) {
    point_of_reader[r] = r < 18 ? r / 6 : 3 + (r - 18) / 4;
  }
  TRY(fill_now(digest, 1, READERS * all * 8));
  TRY(fill_now(witness, 1, POINTS * all * 8));
  struct kvl_step_end end = {.entries = requests, .queries_max = queries, .points = POINTS, .readers = READERS, .point = b.point, .entry = b.entry[0],
                             .digest = digest, .witness = witness, .point_of_reader = sent(point_of_reader, sizeof point_of_reader), .check = check,
                             .stamps = b.stamps, .outcome = outcome};
  for (uint32_t i = 0; i < 2 && trouble == NULL; i++) {
    *check = i;
    three_ways(i == 0 ? "end" : "end+check", call_end, &end, 20, requests, queries, (double)READERS * (double)all * 16);
  }
  if (trouble == NULL && (outcome->digests != READERS * all || outcome->mismatches != 0 || outcome->rows_checked != READERS * all * K)) {
    trouble = "end: wrong sums";
  }
  for (uint32_t p = 0; p < POINTS; p++) {
    cudaFree(point[p].query);
    cudaFree(point[p].rows);
    cudaFree(point[p].counts);
  }
  free(entries);
  free(selection);
  cudaFreeHost(item);
}

/* ---- readers ---- */

struct readers {
  struct kvl_reader reader;
  struct kvl_witness witness;
};

static int call_reader(void *arg, int step, void *on)
{
  const struct readers *r = arg;
  struct kvl_reader reader = r->reader;
  reader.addresses += (size_t)(step % READERS) * reader.entries * reader.queries_max * reader.k;
  return kvl_reader_cuda(&reader, on);
}

static int call_witness(void *arg, int step, void *on)
{
  const struct readers *r = arg;
  struct kvl_witness witness = r->witness;
  witness.rows += (size_t)(step % READERS) * witness.entries * witness.queries_max * witness.k;
  return kvl_witness_cuda(&witness, on);
}

static void readers(uint32_t requests, uint32_t queries, uint32_t row_bytes)
{
  size_t all = (size_t)requests * queries;
  size_t lanes = READERS * all * K;
  uint64_t slot_bytes = arena_bytes / requests / row_bytes * row_bytes / 16 * 16;
  kvl_addr *address = malloc(lanes * sizeof *address);
  kvl_row *row = malloc(lanes * sizeof *row);
  struct kvl_batch_query *query = malloc(all * sizeof *query);
  struct kvl_resolve_entry *entry = calloc(requests, sizeof *entry);
  if (address == NULL || row == NULL || query == NULL || entry == NULL) {
    trouble = "out of memory";
    return;
  }
  for (size_t i = 0; i < lanes; i++) {
    address[i] = (kvl_addr)kvl_rng_below(&rng, (uint32_t)(arena_bytes / row_bytes));
    row[i] = (kvl_row)kvl_rng_below(&rng, (uint32_t)(slot_bytes / row_bytes));
  }
  for (size_t i = 0; i < all; i++) {
    query[i] = (struct kvl_batch_query){INT32_MAX, K};
  }
  for (uint32_t e = 0; e < requests; e++) {
    entry[e].request = (int32_t)e;
    entry[e].query_count = queries;
  }
  kvl_addr *d_address = sent(address, lanes * 4);
  kvl_row *d_row = sent(row, lanes * 4);
  struct kvl_batch_query *d_query = sent(query, all * sizeof *query);
  struct kvl_resolve_entry *d_entry = sent(entry, requests * sizeof *entry);
  uint64_t *digest = device(all * 8);
  struct readers r = {{requests, queries, K, row_bytes, d_entry, d_query, d_address, arena, digest, NULL, 0, 0},
                      {requests, queries, K, row_bytes, d_entry, d_query, d_row, arena, slot_bytes, digest, 0, 0}};
  char name[32];
  snprintf(name, sizeof name, row_bytes == ROW_BYTES ? "reader" : "reader%u", row_bytes);
  double bytes = (double)all * K * row_bytes;
  three_ways(name, call_reader, &r, READERS, requests, queries, bytes);
  r.reader.stamp = device(16);
  if (row_bytes == ROW_BYTES) {
    float graph = time_graph(call_reader, &r, 0, READERS, NULL, stream);
    report("reader+stamp", "requests", (double)requests, "queries", (double)queries, "graph_us", (double)graph, (char *)NULL);
    three_ways("witness", call_witness, &r, READERS, requests, queries, bytes);
  }
  cudaFree(r.reader.stamp);
  cudaFree(d_address);
  cudaFree(d_row);
  cudaFree(d_query);
  cudaFree(d_entry);
  cudaFree(digest);
  free(address);
  free(row);
  free(query);
  free(entry);
}

/* ---- fills ---- */

static int call_fills(void *arg, int step, void *on)
{
  (void)step;
  return kvl_fills_cuda(arg, on);
}

struct set {
  unsigned char *to;
  size_t bytes;
};

static int call_set(void *arg, int step, void *on)
{
  const struct set *s = arg;
  return cudaMemsetAsync(s->to, step, s->bytes, on) == cudaSuccess ? 0 : -1;
}

static int call_segments(void *arg, int step, void *on)
{
  (void)step;
  return kvl_segments_cuda(arg, on);
}

static void history(void)
{
  struct kvl_fill *list = pinned(CACHES * sizeof *list);
  uint32_t *count = pinned(4);
  if (trouble != NULL) {
    return;
  }
  static const uint32_t rows[CACHES] = {250000, 250000, 250000, 500000};
  static const uint32_t blocks[] = {0, 0, 4, 8, 16, 32, 66};
  *count = CACHES;
  for (int i = 0; i < 7 && trouble == NULL; i++) {
    unsigned char *to = i == 0 ? arena : pool;
    size_t bytes = 0;
    for (uint32_t c = 0; c < CACHES; c++) {
      list[c] = (struct kvl_fill){.to = to + bytes, .session = 7, .cache = c, .row_bytes = ROW_BYTES, .rows = rows[c]};
      bytes += (size_t)rows[c] * ROW_BYTES;
    }
    struct kvl_fills f = {list, count, CACHES, blocks[i]};
    struct times t = time_calls(call_fills, &f, 12, false, stream);
    struct set set = {to, bytes};
    struct times floor = time_calls(call_set, &set, 12, false, stream);
    report(i == 0 ? "history" : "history-host", "bytes", (double)bytes, "blocks", (double)blocks[i], "event_us", (double)t.median, "gb_s",
           (double)bytes / (double)t.median / 1e3, "memset_us", (double)floor.median, (char *)NULL);
  }
  /* the same bytes from the arena to the host pool, by the kernel that writes tails back */
  const struct kvl_segment segment = {0, 0, 360000000};
  struct kvl_segment *d_segment = sent(&segment, sizeof segment);
  const uint32_t one = 1;
  uint32_t *d_one = sent(&one, sizeof one);
  for (int i = 1; i < 7 && trouble == NULL; i++) {
    struct kvl_segments g = {arena, pool, d_segment, d_one, 1, blocks[i]};
    struct times t = time_calls(call_segments, &g, 12, false, stream);
    report("segment-to-host", "bytes", (double)segment.bytes, "blocks", (double)blocks[i], "event_us", (double)t.median, "gb_s",
           (double)segment.bytes / (double)t.median / 1e3, (char *)NULL);
  }
  cudaFree(d_segment);
  cudaFree(d_one);
  cudaFreeHost(list);
  cudaFreeHost(count);
}

static void single_rows(void)
{
  enum { SINGLES = 300 };
  static struct kvl_fill list[SINGLES];
  static const uint32_t blocks[] = {0, 8, 16, 32};
  const uint32_t counts[] = {SINGLES, 0};
  for (uint32_t i = 0; i < SINGLES; i++) {
    list[i] = (struct kvl_fill){.to = arena + (size_t)kvl_rng_below(&rng, 20000000) * ROW_BYTES, .session = i, .cache = i % CACHES, .row_bytes = ROW_BYTES,
                                .first_row = 500000, .rows = 1};
  }
  for (int in_host = 0; in_host < 2; in_host++) {
    struct kvl_fill *there = in_host ? pinned(sizeof list) : device(sizeof list);
    uint32_t *count = in_host ? pinned(sizeof counts) : device(sizeof counts);
    TRY(copy_now(there, list, sizeof list));
    TRY(copy_now(count, counts, sizeof counts));
    for (int i = 0; i < 4 && trouble == NULL; i++) {
      struct kvl_fills f = {there, count, SINGLES, blocks[i]};
      struct times t = time_calls(call_fills, &f, BENCH_STEPS, false, stream);
      float graph = time_graph(call_fills, &f, 0, 20, NULL, stream);
      f.count = count + 1;
      float none = time_graph(call_fills, &f, 0, 20, NULL, stream);
      report("rows", "rows", (double)SINGLES, "list_in_host", (double)in_host, "blocks", (double)blocks[i], "event_us", (double)t.median, "graph_us",
             (double)graph, "none_graph_us", (double)none, (char *)NULL);
    }
  }
}

/* ---- stand-in ---- */

static int call_standin(void *arg, int step, void *on)
{
  struct kvl_standin s = *(const struct kvl_standin *)arg;
  s.from_offset = (uint64_t)step * s.bytes % s.from_bytes;
  return kvl_standin_cuda(&s, on);
}

static void standins(void)
{
  uint64_t *duration = pinned(8);
  uint64_t *words = device(64);
  TRY(fill_now(words, 0, 64));
  static const struct {
    uint64_t ns, bytes;
  } cases[] = {{10000, 0}, {100000, 0}, {550000, 0}, {100000, 200 << 20}, {550000, 500 << 20}, {550000, 1600 << 20}, {0, 500 << 20}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0] && trouble == NULL; i++) {
    *duration = cases[i].ns;
    struct kvl_standin s = {duration, arena, arena_bytes, cases[i].bytes, 0, words + 1, words, words + 2};
    double stamp = 0;
    for (int n = 0; n < 8; n++) {
      reset_stamp(words + 2);
      TRY(call_standin(&s, n, stream));
      TRY(cudaStreamSynchronize(stream));
      stamp += mean_stamp(words + 2) / 8;
    }
    s.stamp = NULL;
    struct times event = time_calls(call_standin, &s, BENCH_STEPS, false, stream);
    float graph = time_graph(call_standin, &s, 0, 40, NULL, stream);
    report("standin", "asked_us", (double)cases[i].ns / 1000, "bytes", (double)cases[i].bytes, "stamp_us", stamp, "event_us", (double)event.median,
           "event_high_us", (double)event.high, "graph_us", (double)graph, (char *)NULL);
  }
}

/* ---- bank, alone and beside a stand-in ---- */

static int call_bank(void *arg, int step, void *on)
{
  (void)step;
  return kvl_bank_copy_cuda(arg, on);
}

static void bank(uint32_t requests, uint32_t rows)
{
  enum { BANK = 2048, RUN = 8 };
  struct kvl_fetch *copies = calloc((size_t)requests * BANK, sizeof *copies);
  struct kvl_resolve_entry *entry = calloc(requests, sizeof *entry);
  uint32_t *count = calloc(requests, sizeof *count);
  if (copies == NULL || entry == NULL || count == NULL) {
    trouble = "out of memory";
    return;
  }
  uint64_t each = pool_bytes / requests / ROW_BYTES;
  for (uint32_t e = 0; e < requests; e++) {
    entry[e].request = (int32_t)e;
    entry[e].host_rows = pool + e * each * ROW_BYTES;
    count[e] = rows;
    uint32_t block = 0;
    for (uint32_t i = 0; i < rows; i++) {
      block = i % RUN == 0 ? kvl_rng_below(&rng, (uint32_t)(each / RUN)) : block;
      copies[(size_t)e * BANK + i] = (struct kvl_fetch){(kvl_row)(block * RUN + i % RUN), (kvl_addr)(e * BANK + i)};
    }
  }
  struct kvl_bank_copy b = {requests, BANK, ROW_BYTES, sent(entry, requests * sizeof *entry), sent(copies, (size_t)requests * BANK * sizeof *copies),
                            sent(count, requests * 4), arena, 0, NULL, 0, 0};
  uint64_t *words = device(64);
  double bytes = (double)requests * rows * ROW_BYTES;
  static const uint32_t blocks[] = {0, 4, 8, 16, 32, 66};
  for (int i = 0; i < 6 && trouble == NULL; i++) {
    b.blocks_max = blocks[i];
    struct times t = time_calls(call_bank, &b, 12, false, stream);
    report("bank", "requests", (double)requests, "rows", (double)rows, "blocks", (double)blocks[i], "event_us", (double)t.median, "gb_s",
           bytes / (double)t.median / 1e3, (char *)NULL);
  }
  /* beside a stand-in of 550 us that reads 1 GB: how long each takes */
  cudaStream_t other = NULL;
  TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  uint64_t *duration = pinned(8);
  b.stamp = device(16);
  if (trouble == NULL) {
    *duration = 550000;
  }
  TRY(fill_now(words, 0, 64));
  struct kvl_standin s = {duration, arena, arena_bytes, 1 << 30, 0, words + 1, words, words + 2};
  static const uint32_t beside[] = {8, 16, 32, 132};
  for (int i = 0; i < 4 && trouble == NULL; i++) {
    double copy = 0;
    double layer = 0;
    b.blocks_max = beside[i];
    for (int n = 0; n < 6; n++) {
      reset_stamp(b.stamp);
      reset_stamp(words + 2);
      TRY(cudaDeviceSynchronize());
      TRY(call_standin(&s, n, stream));
      TRY(kvl_bank_copy_cuda(&b, other));
      TRY(cudaDeviceSynchronize());
      copy += mean_stamp(b.stamp) / 6;
      layer += mean_stamp(words + 2) / 6;
    }
    report("bank+standin", "requests", (double)requests, "rows", (double)rows, "blocks", (double)beside[i], "bank_us", copy, "standin_us", layer,
           (char *)NULL);
  }
  cudaStreamDestroy(other);
  cudaFree(words);
  free(copies);
  free(entry);
  free(count);
}

int bench_step(void *to, uint64_t seed, bool readers_alone)
{
  cudaStream_t s = NULL;
  json = to;
  kvl_rng_init(&rng, seed, "bench step", 0);
  TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  stream = s;
  clock_resolution();
  arena = device(arena_bytes);
  pool = pinned(pool_bytes);
  if (trouble == NULL) { /* real bytes everywhere: zeros are faster than data */
    struct kvl_fill *list = pinned(sizeof *list);
    uint32_t *one = pinned(4);
    if (trouble == NULL) {
      *list = (struct kvl_fill){.to = arena, .session = seed, .row_bytes = ROW_BYTES, .rows = (uint32_t)(arena_bytes / ROW_BYTES)};
      *one = 1;
      struct kvl_fills f = {list, one, 1, 0};
      TRY(kvl_fills_cuda(&f, stream));
      TRY(cudaStreamSynchronize(stream));
    }
  }
  for (uint32_t i = 0; readers_alone && i < 4; i++) {
    readers(i % 2 == 0 ? 44 : REQUESTS_MAX, i < 2 ? 1 : 8, ROW_BYTES);
    readers(44, 1, i == 0 ? 584 : i == 1 ? 656 : i == 2 ? 1152 : 2624);
  }
  if (trouble == NULL && !readers_alone) {
    memset(pool, 7, pool_bytes);
    single_rows();
    history();
  }
  static const uint32_t batches[] = {44, REQUESTS_MAX};
  for (int i = 0; i < 2 && trouble == NULL && !readers_alone; i++) {
    begin_and_end(batches[i], 1);
    begin_and_end(batches[i], 8);
    readers(batches[i], 1, ROW_BYTES);
    readers(batches[i], 8, ROW_BYTES);
    bank(batches[i], 128);
  }
  if (trouble == NULL && !readers_alone) {
    readers(44, 1, 584);
    readers(44, 1, 656);
    readers(44, 1, 2624);
    bank(1, 2048);
    standins();
  }
  cudaFree(arena);
  cudaFreeHost(pool);
  if (trouble != NULL) {
    fprintf(stderr, "check_kernels: step bench: %s (%s)\n", trouble, cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  return 0;
}
