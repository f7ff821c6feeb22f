/* The probe: opens a device, holds streams until samples are enqueued, and does the parts that are one kernel or one call. */
#include "backend/probe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/probe_state.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { GATE_NS = 40000, GATE_SAMPLE_NS = 40000, NODES_MAX = 64 };

static uint64_t clock_ns(void)
{
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* ---- samples ---- */

/* The stream waits until the host has had time to enqueue the rest. */
static int gate(struct kvl_prober *p, uint32_t samples, kvl_gpu_stream stream, struct kvl_err *err)
{
  p->word[0] = GATE_NS + GATE_SAMPLE_NS * (uint64_t)samples;
  struct kvl_standin s = {.duration_ns = &p->word[0], .sink = &p->device_word[3], .start = &p->device_word[0]};
  return kvl_gpu_launched(p->k->standin(&s, stream), "standin", err);
}

static int load_copies(struct kvl_prober *p, bool to_host, uint64_t cover_ns, struct kvl_err *err)
{
  uint64_t bytes = (uint64_t)((double)cover_ns / 1e9 * (double)p->copy_bytes_per_s);
  uint64_t copies = bytes / p->copy_max + 1, pieces = p->pool_bytes / p->copy_max;
  int rc = 0;
  for (uint64_t i = 0; rc == 0 && i < copies; i++) {
    unsigned char *host = p->pool + i % pieces * p->copy_max;
    rc = kvl_gpu_copy(p->gpu, to_host ? host : p->other, to_host ? p->other : host, p->copy_max, p->beside, err);
  }
  return rc;
}

static int load_hbm(struct kvl_prober *p, uint64_t cover_ns, struct kvl_err *err)
{
  p->word[1] = cover_ns;
  uint64_t bytes = (uint64_t)((double)cover_ns / 1e9 * (double)p->hbm_read_bytes_per_s);
  struct kvl_standin s = {.duration_ns = &p->word[1], .from = p->arena, .from_bytes = p->arena_bytes / 2, .bytes = bytes / 16 * 16,
                          .sink = &p->device_word[3], .start = &p->device_word[1]};
  return kvl_gpu_launched(p->k->standin(&s, p->beside), "standin", err);
}

int kvl_probe_sequence(struct kvl_prober *p, uint32_t n, kvl_probe_sample_fn *sample, void *context, enum kvl_probe_beside beside, uint64_t cover_ns,
                       int64_t ps[KVL_PROBE_SAMPLES_MAX], bool *covered, struct kvl_err *err)
{
  bool alone = beside == KVL_BESIDE_NOTHING;
  int rc = gate(p, n, alone ? p->work : p->beside, err);
  if (!alone) {
    rc = rc != 0 ? rc : kvl_gpu_event_record(p->gpu, p->begun, p->beside, err);
    rc = rc != 0 ? rc
         : beside == KVL_BESIDE_HBM   ? load_hbm(p, cover_ns, err)
         : beside == KVL_BESIDE_PAGES ? kvl_probe_load_pages(p, cover_ns, err)
                                      : load_copies(p, beside == KVL_BESIDE_COPY_OUT, cover_ns, err);
    rc = rc != 0 ? rc : kvl_gpu_event_record(p->gpu, p->ended, p->beside, err);
    rc = rc != 0 ? rc : kvl_gpu_stream_wait(p->gpu, p->work, p->begun, err);
  }
  rc = rc != 0 ? rc : kvl_gpu_event_record(p->gpu, p->event[0], p->work, err);
  for (uint32_t i = 0; rc == 0 && i < n; i++) {
    rc = sample(context, i, p->work, err);
    rc = rc != 0 ? rc : kvl_gpu_event_record(p->gpu, p->event[i + 1], p->work, err);
  }
  rc = rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
  rc = rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->beside, err);
  for (uint32_t i = 0; rc == 0 && i < n; i++) {
    uint64_t ns = 0;
    rc = kvl_gpu_event_ns(p->gpu, p->event[i], p->event[i + 1], &ns, err);
    ps[i] = (int64_t)ns * 1000;
  }
  *covered = true;
  if (rc == 0 && !alone) {
    uint64_t left = 0;
    rc = kvl_gpu_event_ns(p->gpu, p->event[n], p->ended, &left, err);
    *covered = left != 0 && left < UINT64_C(1) << 62;
  }
  return rc;
}

static int by_value(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

int kvl_probe_point_of(struct kvl_prober *p, struct kvl_probe_point *point, int64_t *ps, uint32_t n, int64_t base_ps, uint32_t parts, struct kvl_err *err)
{
  for (uint32_t i = 0; i < n; i++) {
    ps[i] = ps[i] > base_ps ? (ps[i] - base_ps) / (int64_t)parts : 0;
  }
  qsort(ps, n, sizeof *ps, by_value);
  point->n = n;
  point->median_ps = (uint64_t)ps[n / 2];
  point->p10_ps = (uint64_t)ps[n / 10];
  point->p90_ps = (uint64_t)ps[n - 1 - n / 10];
  return kvl_probe_add(p->out, point) == 0 ? 0 : kvl_err_set(err, -ENOMEM, "no memory for the measurements");
}

int kvl_probe_next(struct kvl_prober *p, const char *what, struct kvl_err *err)
{
  if (p->config->stop != NULL && *p->config->stop != 0) {
    return kvl_err_set(err, -EINTR, "interrupted");
  }
  if (p->config->say != NULL) {
    p->config->say(p->config->context, what, p->total == 0 ? 0 : (uint32_t)least(99, 100 * (uint64_t)p->done / p->total));
  }
  p->done++;
  return 0;
}

/* ---- axes ---- */

static uint32_t take(uint64_t axis[KVL_PROBE_AXIS_MAX], const uint64_t *from, uint32_t n)
{
  memcpy(axis, from, n * sizeof *from);
  return n;
}

uint32_t kvl_probe_row_bytes(const struct kvl_prober *p, uint64_t axis[KVL_PROBE_AXIS_MAX])
{
  static const uint64_t all[] = {288, 584, 656, 1152, 2624}, quick[] = {288, 1152};
  return p->config->quick ? take(axis, quick, 2) : take(axis, all, 5);
}

uint32_t kvl_probe_row_counts(const struct kvl_prober *p, uint64_t axis[KVL_PROBE_AXIS_MAX])
{
  static const uint64_t all[] = {16, 64, 256, 512, 1024, 2048, 4096, 16384, 65536}, quick[] = {16, 256, 4096};
  return p->config->quick ? take(axis, quick, 3) : take(axis, all, 9);
}

/* A quarter of a GiB, then times four, and all of it. */
uint32_t kvl_probe_ranges(const struct kvl_prober *p, uint64_t axis[KVL_PROBE_AXIS_MAX])
{
  uint32_t n = 0;
  for (uint64_t range = p->config->quick ? GIB : GIB / 4; range <= p->pool_bytes / 2 && n + 1 < KVL_PROBE_AXIS_MAX; range *= p->config->quick ? 32 : 4) {
    axis[n++] = range;
  }
  axis[n++] = p->pool_bytes;
  return n;
}

/* ---- pinning ---- */

static int pin_times(struct kvl_prober *p, struct kvl_err *err)
{
  uint64_t bytes = least(GIB, p->pool_bytes);
  int64_t pin[KVL_PROBE_SAMPLES_MAX], unpin[KVL_PROBE_SAMPLES_MAX];
  uint32_t n = p->config->quick ? 3 : 5;
  int rc = kvl_probe_next(p, "pinning", err);
  for (uint32_t i = 0; rc == 0 && i < n; i++) {
    void *memory = NULL;
    uint64_t from = clock_ns();
    rc = kvl_gpu_pin(p->gpu, bytes, p->copy_max, "the pool that is measured", &memory, err);
    uint64_t to = clock_ns();
    if (rc == 0) {
      kvl_gpu_unpin(p->gpu, memory, bytes, p->copy_max);
    }
    pin[i] = (int64_t)(to - from) * 1000;
    unpin[i] = (int64_t)(clock_ns() - to) * 1000;
  }
  struct kvl_probe_point point = {.kind = KVL_PROBE_PIN, .bytes = bytes, .count = 1, .covered = true};
  rc = rc != 0 ? rc : kvl_probe_point_of(p, &point, pin, n, 0, 1, err);
  point.kind = KVL_PROBE_UNPIN;
  return rc != 0 ? rc : kvl_probe_point_of(p, &point, unpin, n, 0, 1, err);
}

static int open_pool(struct kvl_prober *p, struct kvl_err *err)
{
  int rc = pin_times(p, err);
  rc = rc != 0 ? rc : kvl_probe_next(p, "pinning the whole pool", err);
  uint64_t from = clock_ns();
  rc = rc != 0 ? rc : kvl_gpu_pin(p->gpu, p->pool_bytes, p->copy_max, "the pool that is measured (--host-gib)", (void **)&p->pool, err);
  int64_t ps = (int64_t)(clock_ns() - from) * 1000;
  struct kvl_probe_point point = {.kind = KVL_PROBE_PIN, .bytes = p->pool_bytes, .count = 1, .covered = true};
  return rc != 0 ? rc : kvl_probe_point_of(p, &point, &ps, 1, 0, 1, err);
}

static int close_pool(struct kvl_prober *p, struct kvl_err *err)
{
  uint64_t from = clock_ns();
  kvl_gpu_unpin(p->gpu, p->pool, p->pool_bytes, p->copy_max);
  p->pool = NULL;
  int64_t ps = (int64_t)(clock_ns() - from) * 1000;
  struct kvl_probe_point point = {.kind = KVL_PROBE_UNPIN, .bytes = p->pool_bytes, .count = 1, .covered = true};
  return kvl_probe_point_of(p, &point, &ps, 1, 0, 1, err);
}

/* ---- launches and graphs ---- */

struct nodes {
  struct kvl_prober *p;
  uint32_t count;
  struct kvl_gpu_graph *graph;
};

static int no_work(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  (void)context;
  (void)sample;
  (void)stream;
  (void)err;
  return 0;
}

static int one_kernel(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  (void)sample;
  return kvl_gpu_launched(((struct nodes *)context)->p->k->empty(stream), "empty", err);
}

static int build_nodes(void *context, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct nodes *n = context;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < n->count; i++) {
    rc = kvl_gpu_launched(n->p->k->empty(stream), "empty", err);
  }
  return rc;
}

static int one_graph(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct nodes *n = context;
  (void)sample;
  return kvl_gpu_graph_launch(n->p->gpu, n->graph, stream, err);
}

static int submit_times(struct kvl_prober *p, struct nodes *nodes, struct kvl_err *err)
{
  int64_t ps[KVL_PROBE_SAMPLES_MAX];
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < p->samples; i++) {
    uint64_t from = clock_ns();
    rc = kvl_gpu_graph_launch(p->gpu, nodes->graph, p->work, err);
    ps[i] = (int64_t)(clock_ns() - from) * 1000;
    rc = rc != 0 ? rc : kvl_gpu_synchronize(p->gpu, p->work, err);
  }
  struct kvl_probe_point point = {.kind = KVL_PROBE_SUBMIT, .count = nodes->count, .covered = true};
  return rc != 0 ? rc : kvl_probe_point_of(p, &point, ps, p->samples, 0, 1, err);
}

static int graph_times(struct kvl_prober *p, struct kvl_err *err)
{
  int64_t ps[KVL_PROBE_SAMPLES_MAX];
  bool covered;
  struct nodes nodes = {.p = p, .count = 1};
  struct kvl_probe_point point = {.kind = KVL_PROBE_EVENTS, .covered = true};
  int rc = kvl_probe_next(p, "launches and graphs", err);
  for (int i = 0; rc == 0 && i < 2; i++) { /* the first round warms up */
    rc = kvl_probe_sequence(p, p->samples, no_work, NULL, KVL_BESIDE_NOTHING, 0, ps, &covered, err);
    rc = rc != 0 || i == 0 ? rc : kvl_probe_point_of(p, &point, ps, p->samples, 0, 1, err);
  }
  p->events_ps = rc != 0 ? 0 : (int64_t)p->out->point[p->out->count - 1].median_ps;
  point = (struct kvl_probe_point){.kind = KVL_PROBE_KERNEL, .count = 1, .covered = true};
  for (int i = 0; rc == 0 && i < 2; i++) {
    rc = kvl_probe_sequence(p, p->samples, one_kernel, &nodes, KVL_BESIDE_NOTHING, 0, ps, &covered, err);
    rc = rc != 0 || i == 0 ? rc : kvl_probe_point_of(p, &point, ps, p->samples, p->events_ps, 1, err);
  }
  int64_t first = 0, last = 0;
  for (nodes.count = 1; rc == 0 && nodes.count <= NODES_MAX; nodes.count *= 4) {
    rc = kvl_gpu_graph_create(p->gpu, p->work, build_nodes, &nodes, &nodes.graph, err);
    point = (struct kvl_probe_point){.kind = KVL_PROBE_GRAPH, .count = nodes.count, .covered = true};
    for (int i = 0; rc == 0 && i < 2; i++) {
      rc = kvl_probe_sequence(p, p->samples, one_graph, &nodes, KVL_BESIDE_NOTHING, 0, ps, &covered, err);
      rc = rc != 0 || i == 0 ? rc : kvl_probe_point_of(p, &point, ps, p->samples, p->events_ps, 1, err);
    }
    if (rc == 0) {
      last = (int64_t)p->out->point[p->out->count - 1].median_ps;
      first = nodes.count == 1 ? last : first;
    }
    rc = rc != 0 ? rc : submit_times(p, &nodes, err);
    kvl_gpu_graph_destroy(p->gpu, nodes.graph);
    nodes.graph = NULL;
  }
  p->node_ps = last > first ? (last - first) / (NODES_MAX - 1) : 0;
  p->graph_ps = p->events_ps + (first > p->node_ps ? first - p->node_ps : 0);
  return rc;
}

/* ---- HBM ---- */

static int copy_hbm(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct kvl_prober *p = context;
  (void)sample;
  return kvl_gpu_copy(p->gpu, p->arena, p->arena + p->arena_bytes / 2, p->arena_bytes / 2, stream, err);
}

static int read_hbm(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err)
{
  struct kvl_prober *p = context;
  (void)sample;
  struct kvl_standin s = {.duration_ns = &p->word[2], .from = p->arena, .from_bytes = p->arena_bytes, .bytes = p->arena_bytes, .sink = &p->device_word[3],
                          .start = &p->device_word[2]};
  return kvl_gpu_launched(p->k->standin(&s, stream), "standin", err);
}

static int hbm_times(struct kvl_prober *p, struct kvl_err *err)
{
  int64_t ps[KVL_PROBE_SAMPLES_MAX];
  bool covered;
  struct kvl_probe_point copy = {.kind = KVL_PROBE_HBM_COPY, .count = 1, .bytes = p->arena_bytes / 2, .covered = true};
  struct kvl_probe_point read = {.kind = KVL_PROBE_HBM_READ, .count = 1, .bytes = p->arena_bytes, .covered = true};
  int rc = kvl_probe_next(p, "HBM", err);
  rc = rc != 0 ? rc : kvl_probe_sequence(p, p->samples, copy_hbm, p, KVL_BESIDE_NOTHING, 0, ps, &covered, err);
  rc = rc != 0 ? rc : kvl_probe_point_of(p, &copy, ps, p->samples, p->events_ps, 1, err);
  rc = rc != 0 ? rc : kvl_probe_sequence(p, p->samples, read_hbm, p, KVL_BESIDE_NOTHING, 0, ps, &covered, err);
  rc = rc != 0 ? rc : kvl_probe_point_of(p, &read, ps, p->samples, p->events_ps, 1, err);
  if (rc == 0) {
    uint64_t took = p->out->point[p->out->count - 1].median_ps;
    p->hbm_read_bytes_per_s = took == 0 ? 0 : (uint64_t)((double)p->arena_bytes * 1e12 / (double)took);
  }
  return rc;
}

/* ---- open and close ---- */

static int open_device(struct kvl_prober *p, struct kvl_err *err)
{
  uint32_t present = 0;
  int rc = kvl_gpu_count(&present, err);
  if (rc == 0 && p->config->gpu >= present) {
    rc = kvl_err_set(err, -ENODEV, "GPU %u is asked for (--gpu), this machine has %u, numbered from 0", p->config->gpu, present);
  }
  rc = rc != 0 ? rc : kvl_gpu_open(&p->gpu, p->config->gpu, err);
  if (rc != 0) {
    return rc;
  }
  struct kvl_gpu_info info;
  kvl_gpu_info(p->gpu, &info);
  (void)snprintf(p->out->device, sizeof p->out->device, "%s", info.name);
  (void)snprintf(p->out->driver, sizeof p->out->driver, "%s", info.driver);
  p->out->multiprocessors = info.multiprocessors;
  p->out->hbm_bytes = info.memory_bytes;
  p->k = kvl_gpu_kernels(p->gpu);
  p->arena_bytes = least(GIB, p->config->host_bytes / 4096 * 4096);
  p->copy_max = least(256 * MIB, p->arena_bytes / 4 / 4096 * 4096);
  p->pool_bytes = p->copy_max == 0 ? 0 : p->config->host_bytes / p->copy_max * p->copy_max;
  p->list_bytes = least(8 * MIB, p->arena_bytes);
  p->samples = p->config->quick ? 5 : 11;
  if (p->pool_bytes == 0) {
    return kvl_err_set(err, -EINVAL, "%" PRIu64 " bytes of host memory are too few to measure anything", p->config->host_bytes);
  }
  p->out->host_bytes = p->pool_bytes;
  rc = kvl_gpu_stream_open(p->gpu, true, &p->work, err);
  rc = rc != 0 ? rc : kvl_gpu_stream_open(p->gpu, false, &p->beside, err);
  for (uint32_t i = 0; rc == 0 && i <= KVL_PROBE_SAMPLES_MAX; i++) {
    rc = kvl_gpu_event_get(p->gpu, true, &p->event[i], err);
  }
  rc = rc != 0 ? rc : kvl_gpu_event_get(p->gpu, true, &p->begun, err);
  rc = rc != 0 ? rc : kvl_gpu_event_get(p->gpu, true, &p->ended, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, p->arena_bytes, 0x33, "the far end of what is measured", (void **)&p->arena, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, p->copy_max, 0x33, "the far end of copies beside", (void **)&p->other, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, p->list_bytes, 0, "lists of rows", (void **)&p->list, err);
  rc = rc != 0 ? rc : kvl_gpu_alloc(p->gpu, 64, 0, "starts of stand-ins", (void **)&p->device_word, err);
  rc = rc != 0 ? rc : kvl_gpu_pin(p->gpu, p->list_bytes, 0, "lists of rows", (void **)&p->stage, err);
  rc = rc != 0 ? rc : kvl_gpu_pin(p->gpu, 4096, 0, "durations of stand-ins", (void **)&p->word, err);
  if (rc == 0) {
    memset(p->word, 0, 4096);
    uint64_t axis[KVL_PROBE_AXIS_MAX];
    p->total = 20 + 2 * kvl_probe_row_bytes(p, axis) * kvl_probe_row_counts(p, axis) * kvl_probe_ranges(p, axis) + 56;
  }
  return rc;
}

static void close_device(struct kvl_prober *p)
{
  if (p->gpu == NULL) {
    return;
  }
  if (p->work != NULL) { /* after an error something may still run that reads the memory */
    (void)kvl_gpu_synchronize(p->gpu, p->work, NULL);
  }
  if (p->beside != NULL) {
    (void)kvl_gpu_synchronize(p->gpu, p->beside, NULL);
  }
  kvl_gpu_unpin(p->gpu, p->pool, p->pool_bytes, p->copy_max);
  kvl_gpu_unpin(p->gpu, p->stage, p->list_bytes, 0);
  kvl_gpu_unpin(p->gpu, p->word, 4096, 0);
  kvl_gpu_free(p->gpu, p->arena);
  kvl_gpu_free(p->gpu, p->other);
  kvl_gpu_free(p->gpu, p->list);
  kvl_gpu_free(p->gpu, p->device_word);
  kvl_gpu_stream_close(p->gpu, p->work);
  kvl_gpu_stream_close(p->gpu, p->beside);
  kvl_gpu_close(p->gpu);
}

int kvl_probe_run(struct kvl_probe *probe, const struct kvl_probe_config *config, struct kvl_err *err)
{
  *probe = (struct kvl_probe){.point = NULL};
  struct kvl_prober p = {.config = config, .out = probe};
  uint64_t from = clock_ns();
  int rc = open_device(&p, err);
  rc = rc != 0 ? rc : open_pool(&p, err);
  rc = rc != 0 ? rc : graph_times(&p, err);
  rc = rc != 0 ? rc : hbm_times(&p, err);
  rc = rc != 0 ? rc : kvl_probe_copies(&p, err);
  rc = rc != 0 ? rc : kvl_probe_pages(&p, err);
  rc = rc != 0 ? rc : kvl_probe_gathers(&p, err);
  rc = rc != 0 ? rc : kvl_probe_resolves(&p, err);
  rc = rc != 0 ? rc : close_pool(&p, err);
  close_device(&p);
  probe->wall_ns = clock_ns() - from;
  if (rc != 0) {
    kvl_probe_free(probe);
  }
  return rc;
}
