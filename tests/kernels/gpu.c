#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "tests/kernels/gpu.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/empty.h"
#include "kernels/pokes.h"
#include "kernels/state_ref.h"
#include "tests/kernels/now.h"

enum { RED = 64, RED_BYTE = 0x5a, POKES_MAX = 1 << 20, FILL_THREADS = 16 };

#define CUDA(call) \
  do { \
    cudaError_t err_ = (call); \
    if (err_ != cudaSuccess) { \
      snprintf(g->text, sizeof g->text, "%s: %s", #call, cudaGetErrorString(err_)); \
      return g->text; \
    } \
  } while (0)

const char *gpu_absent(void)
{
  int n = 0;
  cudaError_t err = cudaGetDeviceCount(&n);
  return err != cudaSuccess ? cudaGetErrorString(err) : n == 0 ? "no CUDA device" : NULL;
}

const char *gpu_name(char *text, size_t room)
{
  struct cudaDeviceProp p;
  int driver = 0;
  int runtime = 0;
  if (cudaGetDeviceProperties(&p, 0) != cudaSuccess || cudaDriverGetVersion(&driver) != cudaSuccess ||
      cudaRuntimeGetVersion(&runtime) != cudaSuccess) {
    return "unknown device";
  }
  snprintf(text, room, "%s, %d multiprocessors, CUDA driver %d.%d, runtime %d.%d", p.name, p.multiProcessorCount, driver / 1000,
           driver % 1000 / 10,
           runtime / 1000, runtime % 1000 / 10);
  return text;
}

/* Where the arrays of a request lie in its part of the state. */
struct offsets {
  size_t head, pages, place, stamp, row, pinned, tail, bytes;
};

static size_t take(size_t *at, size_t bytes)
{
  size_t here = *at;
  *at = (here + bytes + 15) / 16 * 16 + RED;
  return here;
}

static struct offsets offsets_of(const struct gpu_config *c)
{
  struct offsets o;
  size_t at = RED;
  const struct kvl_cache_geometry *g = &c->geometry;
  o.head = take(&at, sizeof(struct kvl_cache_head));
  o.pages = take(&at, (size_t)c->pages_max * 4);
  o.place = take(&at, (size_t)c->rows_max * 4);
  o.stamp = take(&at, (size_t)g->hot_rows * 4);
  o.row = take(&at, ((size_t)g->hot_rows + g->bank_rows) * 4);
  o.pinned = take(&at, ((size_t)g->hot_rows + 31) / 32 * 4);
  o.tail = take(&at, (size_t)g->tail_rows * 4);
  o.bytes = (at + 255) / 256 * 256;
  return o;
}

static struct kvl_cache_bases bases_of(const struct gpu_config *c, uint32_t request)
{
  const struct kvl_cache_geometry *g = &c->geometry;
  uint32_t lanes = c->queries_max * c->k;
  uint32_t each = g->hot_rows + g->bank_rows + g->tail_rows + g->scratch_rows + lanes + 5;
  kvl_addr at = (kvl_addr)(c->frames * g->frame_stride_rows + request * each);
  struct kvl_cache_bases b = {.frames = 0, .hot = at + 1}; /* a red row before each area */
  b.bank = b.hot + (kvl_addr)g->hot_rows + 1;
  b.tail = b.bank + (kvl_addr)g->bank_rows + 1;
  b.scratch = b.tail + (kvl_addr)g->tail_rows + 1;
  b.overflow = b.scratch + (kvl_addr)g->scratch_rows + 1;
  return b;
}

const unsigned char *gpu_host_rows(const struct gpu *g, uint32_t request)
{
  uint64_t each = (uint64_t)g->c.rows_max * g->c.row_bytes;
  uint64_t span = g->pool_bytes - g->c.pool_skip - each; /* where a range may begin */
  uint64_t step = g->c.requests > 1 ? span / (g->c.requests - 1) / 16 * 16 : 0;
  return g->pool + g->c.pool_skip + request * (step < each ? step : each);
}

void gpu_build_entry(const struct gpu *g, uint32_t request, bool device, struct kvl_resolve_entry *entry)
{
  struct offsets o = offsets_of(&g->c);
  unsigned char *s = (device ? g->state : g->state_host) + request * g->request_bytes;
  *entry = (struct kvl_resolve_entry){.request = (int32_t)request,
                                      .query_count = g->c.queries_max,
                                      .pages = g->c.pages_max,
                                      .rows_max = g->c.rows_max,
                                      .bases = bases_of(&g->c, request),
                                      .head = (struct kvl_cache_head *)(void *)(s + o.head),
                                      .frame_of_page = (kvl_frame *)(void *)(s + o.pages),
                                      .place_of_row = (int32_t *)(void *)(s + o.place),
                                      .stamp = (uint32_t *)(void *)(s + o.stamp),
                                      .row_of_place = (kvl_row *)(void *)(s + o.row),
                                      .pinned = (uint32_t *)(void *)(s + o.pinned),
                                      .tail_place = (kvl_slot *)(void *)(s + o.tail),
                                      .host_rows = gpu_host_rows(g, request)};
}

/* Writes the expected device state of one request, from the reference. */
static void expect(struct gpu *g, uint32_t request)
{
  struct kvl_resolve_entry e;
  gpu_build_entry(g, request, false, &e);
  const struct kvl_cache *c = g->cache[request];
  const struct kvl_cache_geometry *geo = &g->c.geometry;
  *e.head = (struct kvl_cache_head){.committed = c->committed, .tail_first = c->tail_first, .scratch = c->scratch, .seq = c->seq,
                                    .bank_used = c->bank_used};
  struct offsets o = offsets_of(&g->c);
  memcpy(g->state_host + request * g->request_bytes + o.pages, g->page_map + (size_t)request * g->c.pages_max, (size_t)g->c.pages_max * 4);
  for (uint32_t i = 0; i < g->c.rows_max; i++) {
    e.place_of_row[i] = KVL_PLACE_EMPTY;
  }
  for (uint32_t p = 0; p < geo->hot_rows + geo->bank_rows; p++) {
    kvl_row row = p < geo->hot_rows ? kvl_cache_hot_row(c, (kvl_slot)p) : kvl_cache_bank_row(c, (kvl_slot)(p - geo->hot_rows));
    e.row_of_place[p] = row;
    if (row >= 0) {
      e.place_of_row[row] = (int32_t)p;
    }
  }
  for (uint32_t s = 0; s < geo->hot_rows; s++) {
    e.stamp[s] = (uint32_t)kvl_cache_hot_stamp(c, (kvl_slot)s);
  }
  for (uint32_t w = 0; w < (geo->hot_rows + 31) / 32; w++) {
    e.pinned[w] = (uint32_t)(c->pinned[w / 2] >> (32 * (w & 1)));
  }
  memcpy(g->state_host + request * g->request_bytes + o.tail, c->tail_place, (size_t)geo->tail_rows * 4);
}

/* Brings state_host up to the reference, when something has run since. */
static void refresh(struct gpu *g)
{
  for (uint32_t r = 0; g->stale && r < g->c.requests; r++) {
    expect(g, r);
  }
  g->stale = false;
}

const char *gpu_upload_state(struct gpu *g)
{
  g->stale = true;
  refresh(g);
  CUDA(copy_now(g->state, g->state_host, g->state_bytes));
  CUDA(copy_now(g->d_arena, g->arena, g->arena_bytes));
  return NULL;
}

static void *host(struct gpu *g, size_t bytes)
{
  void *p = NULL;
  if (posix_memalign(&p, 64, bytes > 0 ? bytes : 64) != 0) {
    abort();
  }
  g->memory[g->memory_count++] = p;
  return p;
}

struct fill {
  unsigned char *pool;
  size_t from, to; /* multiples of 8 */
  uint64_t seed;
};

static void *fill(void *arg)
{
  const struct fill *f = arg;
  for (size_t i = f->from; i < f->to; i += 8) {
    uint64_t x = (f->seed + i) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    memcpy(f->pool + i, &x, 8);
  }
  return NULL;
}

/* Also the first touch of a mapped pool, which costs more than the bytes: many threads. */
static void fill_pool(const struct gpu *g, uint64_t seed)
{
  pthread_t thread[FILL_THREADS];
  struct fill part[FILL_THREADS];
  bool started[FILL_THREADS];
  size_t begin = g->c.pool_skip / 8 * 8;
  size_t share = ((g->pool_bytes - begin) / FILL_THREADS + 4095) / 4096 * 4096;
  for (size_t i = 0; i < FILL_THREADS; i++) {
    size_t end = g->pool_bytes / 8 * 8;
    size_t from = begin + i * share < end ? begin + i * share : end;
    part[i] = (struct fill){g->pool, from, from + share < end ? from + share : end, seed};
    started[i] = pthread_create(&thread[i], NULL, fill, &part[i]) == 0;
    if (!started[i]) {
      fill(&part[i]);
    }
  }
  for (int i = 0; i < FILL_THREADS; i++) {
    if (started[i]) {
      pthread_join(thread[i], NULL);
    }
  }
}

/* The outputs of a device run as one block with red zones. */
struct outputs {
  size_t addresses, fetches, fetch_count, counts, copies, dropped, copy_count, drop_count, bytes;
};

static struct outputs outputs_of(const struct gpu_config *c)
{
  struct outputs o;
  size_t at = RED;
  size_t lanes = (size_t)c->queries_max * c->k;
  o.addresses = take(&at, c->requests * lanes * sizeof(kvl_addr));
  o.fetches = take(&at, c->requests * lanes * sizeof(struct kvl_fetch));
  o.fetch_count = take(&at, c->requests * 4);
  o.counts = take(&at, c->requests * sizeof(struct kvl_resolve_counts));
  o.copies = take(&at, (size_t)c->requests * c->geometry.bank_rows * sizeof(struct kvl_fetch));
  o.dropped = take(&at, (size_t)c->requests * c->queries_max * c->pool_max * sizeof(kvl_row));
  o.copy_count = take(&at, c->requests * 4);
  o.drop_count = take(&at, c->requests * 4);
  o.bytes = at;
  return o;
}

const char *gpu_open(struct gpu **out, const struct gpu_config *config, uint64_t seed)
{
  struct gpu *g = calloc(1, sizeof *g);
  if (g == NULL) {
    return "out of memory";
  }
  *out = g;
  g->c = *config;
  const struct gpu_config *c = &g->c;
  size_t lanes = (size_t)c->queries_max * c->k;
  size_t pool_lanes = (size_t)c->queries_max * c->pool_max;
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  g->stream = stream;
  g->request_bytes = offsets_of(c).bytes;
  g->state_bytes = g->request_bytes * c->requests;
  struct kvl_cache_bases last = bases_of(c, c->requests);
  g->arena_bytes = (size_t)last.hot * c->row_bytes;
  g->pool_bytes = (size_t)c->requests * c->rows_max * c->row_bytes;
  if (c->pool_most > 0 && g->pool_bytes > c->pool_most) {
    g->pool_bytes = c->pool_most;
  }
  g->pool_bytes += c->pool_skip;
  g->out_bytes = outputs_of(c).bytes;
  CUDA(cudaMalloc((void **)&g->state, g->state_bytes));
  CUDA(cudaMalloc((void **)&g->state_copy, g->state_bytes));
  CUDA(cudaMalloc((void **)&g->d_arena, g->arena_bytes));
  CUDA(cudaMalloc((void **)&g->arena_copy, g->arena_bytes));
  CUDA(cudaMalloc((void **)&g->d_out, g->out_bytes));
  if (c->pool_mapped) {
    g->pool = mmap(NULL, g->pool_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g->pool == MAP_FAILED) {
      g->pool = NULL;
      return "out of memory";
    }
    (void)madvise(g->pool, g->pool_bytes, MADV_HUGEPAGE);
    fill_pool(g, seed);
    CUDA(cudaHostRegister(g->pool, g->pool_bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
  } else {
    CUDA(cudaHostAlloc((void **)&g->pool, g->pool_bytes, cudaHostAllocDefault));
    fill_pool(g, seed);
  }
  g->state_host = host(g, g->state_bytes);
  g->state_down = host(g, g->state_bytes);
  g->arena = host(g, g->arena_bytes);
  g->arena_down = host(g, g->arena_bytes);
  g->out = host(g, g->out_bytes);
  memset(g->state_host, RED_BYTE, g->state_bytes);
  memset(g->arena, RED_BYTE, g->arena_bytes);
  g->held = host(g, (size_t)c->requests * c->geometry.hot_rows * sizeof g->held[0]);
  for (size_t i = 0; i < (size_t)c->requests * c->geometry.hot_rows; i++) {
    g->held[i] = c->row_bytes;
  }
  g->cache = host(g, c->requests * sizeof g->cache[0]);
  size_t ws_lanes = lanes > pool_lanes ? lanes : pool_lanes;
  g->ws = kvl_resolve_ws_init(host(g, kvl_resolve_ws_bytes((uint32_t)ws_lanes)), (uint32_t)ws_lanes);
  g->page_map = host(g, (size_t)c->requests * c->pages_max * 4);
  size_t cache_bytes = kvl_cache_bytes(&c->geometry);
  unsigned char *caches = host(g, cache_bytes * c->requests);
  for (uint32_t r = 0; r < c->requests; r++) {
    struct kvl_cache_bases b = bases_of(c, r);
    g->cache[r] = kvl_cache_init(caches + r * cache_bytes, &c->geometry, &b, 0);
    for (uint32_t p = 0; p < c->pages_max; p++) {
      g->page_map[(size_t)r * c->pages_max + p] = KVL_NONE;
    }
    kvl_cache_set_page_map(g->cache[r], g->page_map + (size_t)r * c->pages_max, c->pages_max);
    expect(g, r);
  }
  CUDA(copy_now(g->state, g->state_host, g->state_bytes));
  CUDA(copy_now(g->d_arena, g->arena, g->arena_bytes));

  g->entry = host(g, c->requests * sizeof g->entry[0]);
  g->host_entry = host(g, c->requests * sizeof g->entry[0]);
  g->query = host(g, c->requests * c->queries_max * sizeof g->query[0]);
  g->rows = host(g, c->requests * lanes * sizeof(kvl_row));
  g->pools = host(g, c->requests * pool_lanes * sizeof(kvl_row));
  unsigned char *in = NULL;
  size_t entry_bytes = c->requests * sizeof g->entry[0];
  size_t query_bytes = c->requests * c->queries_max * sizeof g->query[0];
  size_t rows_bytes = c->requests * (lanes + pool_lanes) * sizeof(kvl_row);
  CUDA(cudaMalloc((void **)&in, entry_bytes + query_bytes + rows_bytes));
  size_t work = KVL_RESOLVE_WORK_WORDS((uint32_t)lanes, c->geometry.hot_rows);
  size_t announce_work = KVL_ANNOUNCE_WORK_WORDS((uint32_t)pool_lanes, c->geometry.bank_rows);
  uint32_t *d_work = NULL;
  CUDA(cudaMalloc((void **)&d_work, c->requests * (work > announce_work ? work : announce_work) * 4));
  CUDA(fill_now(d_work, 0xee, c->requests * (work > announce_work ? work : announce_work) * 4));
  struct outputs o = outputs_of(c);
  g->batch = (struct kvl_resolve_batch){.geometry = c->geometry,
                                        .queries_max = c->queries_max,
                                        .k = c->k,
                                        .row_bytes = c->row_bytes,
                                        .entry = (void *)in,
                                        .query = (void *)(in + entry_bytes),
                                        .rows = (void *)(in + entry_bytes + query_bytes),
                                        .addresses = (void *)(g->d_out + o.addresses),
                                        .fetches = (void *)(g->d_out + o.fetches),
                                        .fetch_count = (void *)(g->d_out + o.fetch_count),
                                        .counts = (void *)(g->d_out + o.counts),
                                        .arena = g->d_arena,
                                        .work = d_work};
  if (c->stamped) {
    CUDA(cudaMalloc((void **)&g->batch.stamp, 16));
  }
  g->host_batch = g->batch;
  g->host_batch.stamp = NULL;
  g->host_batch.entry = g->host_entry;
  g->host_batch.query = g->query;
  g->host_batch.rows = g->rows;
  g->host_batch.addresses = host(g, c->requests * lanes * sizeof(kvl_addr));
  g->host_batch.fetches = host(g, c->requests * lanes * sizeof(struct kvl_fetch));
  g->host_batch.fetch_count = host(g, c->requests * 4);
  g->host_batch.counts = host(g, c->requests * sizeof(struct kvl_resolve_counts));
  g->host_batch.arena = g->arena;
  g->announce = (struct kvl_announce_batch){.geometry = c->geometry,
                                            .queries_max = c->queries_max,
                                            .pool_max = c->pool_max,
                                            .entry = g->batch.entry,
                                            .query = g->batch.query,
                                            .pools = g->batch.rows + c->requests * lanes,
                                            .copies = (void *)(g->d_out + o.copies),
                                            .dropped = (void *)(g->d_out + o.dropped),
                                            .copy_count = (void *)(g->d_out + o.copy_count),
                                            .drop_count = (void *)(g->d_out + o.drop_count),
                                            .work = d_work};
  g->host_announce = g->announce;
  g->host_announce.entry = g->host_entry;
  g->host_announce.query = g->query;
  g->host_announce.pools = g->pools;
  g->host_announce.copies = host(g, (size_t)c->requests * c->geometry.bank_rows * sizeof(struct kvl_fetch));
  g->host_announce.dropped = host(g, c->requests * pool_lanes * sizeof(kvl_row));
  g->host_announce.copy_count = host(g, c->requests * 4);
  g->host_announce.drop_count = host(g, c->requests * 4);
  return NULL;
}

void gpu_close(struct gpu *g)
{
  if (g == NULL) {
    return;
  }
  cudaFree(g->state);
  cudaFree(g->state_copy);
  cudaFree(g->d_arena);
  cudaFree(g->arena_copy);
  cudaFree(g->d_out);
  cudaFree(g->batch.work);
  cudaFree(g->batch.stamp);
  void *in;
  memcpy(&in, &g->batch.entry, sizeof in);
  cudaFree(in);
  if (g->c.pool_mapped && g->pool != NULL) {
    cudaHostUnregister(g->pool);
    munmap(g->pool, g->pool_bytes);
  } else {
    cudaFreeHost(g->pool);
  }
  cudaStreamDestroy(g->stream);
  for (int i = 0; i < g->memory_count; i++) {
    free(g->memory[i]);
  }
  free(g);
}

kvl_row *gpu_rows(struct gpu *g, uint32_t entry, uint32_t query)
{
  return g->rows + ((size_t)entry * g->c.queries_max + query) * g->c.k;
}

kvl_row *gpu_pool(struct gpu *g, uint32_t entry, uint32_t query)
{
  return g->pools + ((size_t)entry * g->c.queries_max + query) * g->c.pool_max;
}

const char *gpu_push(struct gpu *g)
{
  unsigned char *before = g->state_down; /* borrowed as scratch memory */
  memcpy(before, g->state_host, g->state_bytes);
  static struct kvl_poke *list;
  if (list == NULL && (list = malloc(POKES_MAX * sizeof *list)) == NULL) {
    return "out of memory";
  }
  uint32_t n = 0;
  struct offsets o = offsets_of(&g->c);
  g->stale = true;
  refresh(g);
  for (uint32_t r = 0; r < g->c.requests; r++) {
    size_t base = r * g->request_bytes;
    const struct {
      size_t at, bytes;
    } parts[] = {{o.head, 16}, {o.pages, (size_t)g->c.pages_max * 4}, {o.tail, (size_t)g->c.geometry.tail_rows * 4}};
    for (int p = 0; p < 3; p++) {
      for (size_t at = base + parts[p].at; at < base + parts[p].at + parts[p].bytes; at += 4) {
        if (memcmp(before + at, g->state_host + at, 4) != 0 && n < POKES_MAX) {
          list[n].word = at / 4;
          memcpy(&list[n].value, g->state_host + at, 4);
          list[n++].unused = 0;
        }
      }
    }
  }
  if (n == 0) {
    return NULL;
  }
  unsigned char *d_list = NULL;
  CUDA(cudaMalloc((void **)&d_list, 16 + n * sizeof *list));
  CUDA(copy_now(d_list, &n, 4));
  CUDA(copy_now(d_list + 16, list, n * sizeof *list));
  struct kvl_pokes pokes = {(uint32_t *)(void *)g->state, (void *)(d_list + 16), (void *)d_list, n};
  if (kvl_pokes_cuda(&pokes, g->stream) != 0) {
    return "poke launch refused";
  }
  CUDA(cudaStreamSynchronize(g->stream));
  CUDA(cudaFree(d_list));
  return NULL;
}

void gpu_keep(struct gpu *g)
{
  cudaMemcpyAsync(g->state_copy, g->state, g->state_bytes, cudaMemcpyDeviceToDevice, g->stream);
  cudaMemcpyAsync(g->arena_copy, g->d_arena, g->arena_bytes, cudaMemcpyDeviceToDevice, g->stream);
}

void gpu_restore(struct gpu *g)
{
  cudaMemcpyAsync(g->state, g->state_copy, g->state_bytes, cudaMemcpyDeviceToDevice, g->stream);
  cudaMemcpyAsync(g->d_arena, g->arena_copy, g->arena_bytes, cudaMemcpyDeviceToDevice, g->stream);
}

static void host_entries(struct gpu *g, uint32_t entries)
{
  for (uint32_t e = 0; e < entries; e++) {
    if (g->entry[e].request == KVL_NONE) {
      g->host_entry[e] = g->entry[e];
      continue;
    }
    gpu_build_entry(g, (uint32_t)g->entry[e].request, false, &g->host_entry[e]);
    g->host_entry[e].query_count = g->entry[e].query_count;
    g->host_entry[e].whole = g->entry[e].whole;
  }
}

void gpu_fetch_bytes(struct gpu *g, uint32_t bytes)
{
  g->batch.fetch_bytes = bytes;
  g->host_batch.fetch_bytes = bytes;
}

void gpu_in_graph(struct gpu *g, bool in_graph)
{
  g->in_graph = in_graph;
}

/* The launch, by itself or as the middle one of three nodes: a variant may be set up while the node before it ends, and the one after it must not run ahead. */
static const char *launch(struct gpu *g, const struct kvl_resolve_variant *variant)
{
  int rc;
  if (!g->in_graph || !g->launched) {
    rc = variant->run(&g->batch, g->stream);
    g->launched = true;
  } else {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal));
    rc = kvl_empty_cuda(g->stream);
    rc = rc != 0 ? rc : variant->run(&g->batch, g->stream);
    rc = rc != 0 ? rc : kvl_empty_cuda(g->stream);
    CUDA(cudaStreamEndCapture(g->stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphLaunch(exec, g->stream));
    CUDA(cudaStreamSynchronize(g->stream));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
  }
  if (rc != 0) {
    snprintf(g->text, sizeof g->text, "%s: the launch was refused: %s", variant->name, cudaGetErrorString(cudaGetLastError()));
  }
  return rc != 0 ? g->text : NULL;
}

static void note_held(struct gpu *g, uint32_t entries)
{
  const struct kvl_resolve_batch *b = &g->host_batch;
  const uint32_t hot_rows = g->c.geometry.hot_rows;
  for (uint32_t e = 0; e < entries; e++) {
    for (uint32_t i = 0; i < b->fetch_count[e]; i++) {
      uint32_t slot = (uint32_t)(b->fetches[(size_t)e * b->queries_max * b->k + i].to - b->entry[e].bases.hot);
      if (slot < hot_rows) {
        g->held[(size_t)g->entry[e].request * hot_rows + slot] = b->fetch_bytes != 0 ? b->fetch_bytes : b->row_bytes;
      }
    }
  }
}

const char *gpu_reference(struct gpu *g, uint32_t entries)
{
  struct kvl_resolve_host context = {g->cache, g->ws};
  host_entries(g, entries);
  g->host_batch.entries = entries;
  memset(g->host_batch.counts, 0, entries * sizeof g->host_batch.counts[0]);
  int err = kvl_resolve_batch_ref(&g->host_batch, &context);
  g->stale = true;
  if (err == 0) {
    note_held(g, entries);
  }
  return err == 0 ? NULL : "the reference refused the batch";
}

/* Uploads entries, queries and rows, in the order given; poisons all outputs. */
static const char *upload(struct gpu *g, uint32_t entries, const uint32_t *order, bool pools)
{
  size_t lanes = (size_t)g->c.queries_max * (pools ? g->c.pool_max : g->c.k);
  const kvl_row *from = pools ? g->pools : g->rows;
  unsigned char *to = (unsigned char *)0;
  const void *d_rows = pools ? g->announce.pools : g->batch.rows;
  memcpy(&to, &d_rows, sizeof to);
  for (uint32_t i = 0; i < entries; i++) {
    uint32_t e = order != NULL ? order[i] : i;
    struct kvl_resolve_entry entry = g->entry[e];
    if (entry.request != KVL_NONE) {
      gpu_build_entry(g, (uint32_t)entry.request, true, &entry);
      entry.query_count = g->entry[e].query_count;
      entry.whole = g->entry[e].whole;
    }
    void *d_entry;
    void *d_query;
    memcpy(&d_entry, &g->batch.entry, sizeof d_entry);
    memcpy(&d_query, &g->batch.query, sizeof d_query);
    CUDA(cudaMemcpyAsync((struct kvl_resolve_entry *)d_entry + i, &entry, sizeof entry, cudaMemcpyHostToDevice, g->stream));
    CUDA(cudaMemcpyAsync((struct kvl_batch_query *)d_query + (size_t)i * g->c.queries_max, g->query + (size_t)e * g->c.queries_max,
                         g->c.queries_max * sizeof g->query[0], cudaMemcpyHostToDevice, g->stream));
    CUDA(cudaMemcpyAsync(to + i * lanes * sizeof(kvl_row), from + e * lanes, lanes * sizeof(kvl_row), cudaMemcpyHostToDevice, g->stream));
    CUDA(cudaStreamSynchronize(g->stream)); /* `entry` goes out of scope */
  }
  CUDA(cudaMemsetAsync(g->d_out, RED_BYTE, g->out_bytes, g->stream));
  CUDA(cudaMemsetAsync(g->d_out + outputs_of(&g->c).counts, 0, entries * sizeof(struct kvl_resolve_counts), g->stream));
  return NULL;
}

static const char *download(struct gpu *g)
{
  CUDA(cudaMemcpyAsync(g->out, g->d_out, g->out_bytes, cudaMemcpyDeviceToHost, g->stream));
  CUDA(cudaStreamSynchronize(g->stream));
  return NULL;
}

/* Nothing between the outputs, or past the entries of a batch, was written. */
static bool poisoned(const struct gpu *g, size_t from, size_t to)
{
  for (size_t i = from; i < to; i++) {
    if (g->out[i] != RED_BYTE) {
      return false;
    }
  }
  return true;
}

#define DIFFERS(...) return snprintf(g->text, sizeof g->text, __VA_ARGS__), g->text

const char *gpu_device(struct gpu *g, const struct kvl_resolve_variant *variant, uint32_t entries, const uint32_t *order)
{
  size_t lanes = (size_t)g->c.queries_max * g->c.k;
  const char *bad = upload(g, entries, order, false);
  if (bad != NULL) {
    return bad;
  }
  g->batch.entries = entries;
  uint64_t stamp[2] = {UINT64_MAX, 0};
  if (g->batch.stamp != NULL) {
    CUDA(cudaMemcpyAsync(g->batch.stamp, stamp, sizeof stamp, cudaMemcpyHostToDevice, g->stream));
  }
  if ((bad = launch(g, variant)) != NULL || (bad = download(g)) != NULL) {
    return bad;
  }
  if (g->batch.stamp != NULL) {
    bool real = false; /* padding leaves no stamp */
    for (uint32_t e = 0; e < entries; e++) {
      real = real || g->entry[e].request != KVL_NONE;
    }
    CUDA(copy_now(stamp, g->batch.stamp, sizeof stamp));
    if (real ? stamp[0] == 0 || stamp[0] > stamp[1] || stamp[1] == UINT64_MAX : stamp[0] != UINT64_MAX || stamp[1] != 0) {
      DIFFERS("%s: stamps %llu and %llu", variant->name, (unsigned long long)stamp[0], (unsigned long long)stamp[1]);
    }
  }
  struct outputs o = outputs_of(&g->c);
  const kvl_addr *addresses = (const void *)(g->out + o.addresses);
  const struct kvl_fetch *fetches = (const void *)(g->out + o.fetches);
  const uint32_t *fetch_count = (const void *)(g->out + o.fetch_count);
  const struct kvl_resolve_counts *counts = (const void *)(g->out + o.counts);
  for (uint32_t i = 0; i < entries; i++) {
    uint32_t e = order != NULL ? order[i] : i;
    const struct kvl_resolve_batch *want = &g->host_batch;
    for (size_t l = 0; l < lanes; l++) {
      if (addresses[i * lanes + l] != want->addresses[e * lanes + l]) {
        DIFFERS("%s: entry %u (request %d) lane %zu row %d: address %d, want %d", variant->name, i, g->entry[e].request, l,
                g->rows[e * lanes + l],
                addresses[i * lanes + l], want->addresses[e * lanes + l]);
      }
    }
    if (fetch_count[i] != want->fetch_count[e]) {
      DIFFERS("%s: entry %u: %u rows fetched, want %u", variant->name, i, fetch_count[i], want->fetch_count[e]);
    }
    if (memcmp(fetches + i * lanes, want->fetches + e * lanes, fetch_count[i] * sizeof fetches[0]) != 0) {
      DIFFERS("%s: entry %u: the fetch lists differ", variant->name, i);
    }
    if (!poisoned(g, o.fetches + (i * lanes + fetch_count[i]) * sizeof fetches[0], o.fetches + (i + 1) * lanes * sizeof fetches[0])) {
      DIFFERS("%s: entry %u: something was written past the fetch list", variant->name, i);
    }
    if (memcmp(&counts[i], &want->counts[e], sizeof counts[i]) != 0) {
      DIFFERS("%s: entry %u: the counters differ", variant->name, i);
    }
  }
  if (!poisoned(g, 0, o.addresses) || !poisoned(g, o.addresses + entries * lanes * 4, o.fetches) ||
      !poisoned(g, o.fetches + entries * lanes * sizeof fetches[0], o.fetch_count) || !poisoned(g, o.fetch_count + entries * 4, o.counts) ||
      !poisoned(g, o.counts + entries * sizeof counts[0], o.bytes)) {
    DIFFERS("%s: a red zone of the outputs was written", variant->name);
  }
  return NULL;
}

const char *gpu_announce(struct gpu *g, uint32_t entries)
{
  struct kvl_resolve_host context = {g->cache, g->ws};
  size_t lanes = (size_t)g->c.queries_max * g->c.pool_max;
  host_entries(g, entries);
  g->host_announce.entries = entries;
  g->announce.entries = entries;
  if (kvl_announce_batch_ref(&g->host_announce, &context) != 0) {
    return "the reference refused the announcement";
  }
  g->stale = true;
  const char *bad = upload(g, entries, NULL, true);
  if (bad != NULL) {
    return bad;
  }
  if (kvl_announce_batch_cuda(&g->announce, g->stream) != 0) {
    DIFFERS("announce: the launch was refused: %s", cudaGetErrorString(cudaGetLastError()));
  }
  if ((bad = download(g)) != NULL) {
    return bad;
  }
  struct outputs o = outputs_of(&g->c);
  const uint32_t *copy_count = (const void *)(g->out + o.copy_count);
  const uint32_t *drop_count = (const void *)(g->out + o.drop_count);
  const struct kvl_fetch *copies = (const void *)(g->out + o.copies);
  const kvl_row *dropped = (const void *)(g->out + o.dropped);
  for (uint32_t e = 0; e < entries; e++) {
    const struct kvl_announce_batch *want = &g->host_announce;
    if (copy_count[e] != want->copy_count[e] || drop_count[e] != want->drop_count[e]) {
      DIFFERS("announce: entry %u: %u copies and %u dropped, want %u and %u", e, copy_count[e], drop_count[e], want->copy_count[e],
              want->drop_count[e]);
    }
    size_t bank = (size_t)e * g->c.geometry.bank_rows;
    if (memcmp(copies + bank, want->copies + bank, copy_count[e] * sizeof copies[0]) != 0 ||
        memcmp(dropped + e * lanes, want->dropped + e * lanes, drop_count[e] * sizeof dropped[0]) != 0) {
      DIFFERS("announce: entry %u: the lists differ", e);
    }
  }
  if (!poisoned(g, 0, o.counts) || !poisoned(g, o.copy_count + entries * 4, o.drop_count) || !poisoned(g, o.drop_count + entries * 4,
                                                                                                       o.bytes)) {
    DIFFERS("announce: a red zone of the outputs was written");
  }
  return NULL;
}

const char *gpu_end_group(struct gpu *g, uint32_t entries)
{
  struct kvl_resolve_host context = {g->cache, g->ws};
  host_entries(g, entries);
  g->host_announce.entries = entries;
  g->announce.entries = entries;
  kvl_end_group_batch_ref(&g->host_announce, &context);
  g->stale = true;
  const char *bad = upload(g, entries, NULL, true);
  if (bad == NULL && kvl_end_group_batch_cuda(&g->announce, g->stream) != 0) {
    bad = "end_group: the launch was refused";
  }
  return bad != NULL ? bad : download(g);
}

const char *gpu_compare(struct gpu *g, bool bytes)
{
  struct offsets o = offsets_of(&g->c);
  refresh(g);
  CUDA(cudaMemcpyAsync(g->state_down, g->state, g->state_bytes, cudaMemcpyDeviceToHost, g->stream));
  CUDA(cudaStreamSynchronize(g->stream));
  if (memcmp(g->state_down, g->state_host, g->state_bytes) != 0) {
    size_t at = 0;
    while (g->state_down[at] == g->state_host[at]) {
      at++;
    }
    size_t in = at % g->request_bytes;
    const char *array = in < o.head                         ? "red zone"
                        : in < o.pages                      ? "head"
                        : in < o.place                      ? "page map"
                        : in < o.stamp                      ? "place_of_row"
                        : in < o.row                        ? "stamp"
                        : in < o.pinned                     ? "row_of_place"
                        : in < o.tail                       ? "pinned"
                                                            : "tail_place";
    size_t start = in < o.head ? 0 : in < o.pages ? o.head : in < o.place ? o.pages : in < o.stamp ? o.place : in < o.row ? o.stamp
                   : in < o.pinned ? o.row : in < o.tail ? o.pinned : o.tail;
    int32_t got;
    int32_t want;
    memcpy(&got, g->state_down + at / 4 * 4, 4);
    memcpy(&want, g->state_host + at / 4 * 4, 4);
    DIFFERS("state of request %zu: %s (or its red zone), element %zu: %d, want %d", at / g->request_bytes, array, (in - start) / 4, got,
            want);
  }
  if (bytes) {
    CUDA(cudaMemcpyAsync(g->arena_down, g->d_arena, g->arena_bytes, cudaMemcpyDeviceToHost, g->stream));
    CUDA(cudaStreamSynchronize(g->stream));
    if (memcmp(g->arena_down, g->arena, g->arena_bytes) != 0) {
      size_t at = 0;
      while (g->arena_down[at] == g->arena[at]) {
        at++;
      }
      DIFFERS("bytes of the arena differ at address %zu, byte %zu", at / g->c.row_bytes, at % g->c.row_bytes);
    }
    /* and a hot row holds the bytes of its row, as many as were asked for, whatever either side copied */
    for (uint32_t r = 0; r < g->c.requests; r++) {
      struct kvl_cache_bases b = bases_of(&g->c, r);
      for (uint32_t s = 0; s < g->c.geometry.hot_rows; s++) {
        kvl_row row = kvl_cache_hot_row(g->cache[r], (kvl_slot)s);
        if (row >= 0 && memcmp(g->arena_down + ((size_t)b.hot + s) * g->c.row_bytes,
                               gpu_host_rows(g, r) + (size_t)row * g->c.row_bytes, g->held[(size_t)r * g->c.geometry.hot_rows + s]) != 0) {
          DIFFERS("hot slot %u of request %u does not hold the bytes of row %d", s, r, row);
        }
      }
    }
  }
  return NULL;
}

const kvl_addr *gpu_addresses(const struct gpu *g, uint32_t e, uint32_t q)
{
  return (const kvl_addr *)(const void *)(g->out + outputs_of(&g->c).addresses) + ((size_t)e * g->c.queries_max + q) * g->c.k;
}
