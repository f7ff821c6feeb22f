/* backend/gpu.h without a GPU: memory is ordinary memory, work is done as it is enqueued, kernels are the references. The plane's own logic (lists, mirrors,
 * maps, what is copied when) is the product's, byte for byte. FAKE_GPU_FAIL=N in the environment makes the N-th call fail (FAKE_GPU_FAIL_CALL=NAME: of those
 * of that name), for tests of errors;
 * FAKE_GPU_LATE_PIN makes memory that is pinned after the first graph an error; FAKE_GPU_TOLD=FILE appends what memory is for, a line each, and "gather" for
 * each such launch. A gather must be of the rows that the resolve of the same turn of the step has fetched, or it is refused. */
#include "backend/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/backend/resolve_plain.h"

struct kvl_gpu_event {
  uint64_t ns;
  struct kvl_gpu_event *next, *next_free; /* all; free */
};
struct kvl_gpu_graph {
  kvl_gpu_build_fn *build;
  void *context;
};
/* Which rows a list names, whatever their order. */
struct fetched {
  uint64_t rows, where; /* where: sum of their addresses and of the bytes of each that are read */
};
struct kvl_gpu {
  struct kvl_gpu_kernels kernels;
  struct kvl_gpu_event *all, *free;
  uint32_t resolves, gathers;              /* since the step began */
  struct fetched fetched[KVL_STEP_POINTS]; /* by each of those resolves */
  uint64_t began, clock;                   /* told to keep time: a read takes READ_NS, a layer what it is told to take, all else nothing */
};

enum { READ_NS = 5000 };

static long calls_left = -1;

static int call(const char *name, struct kvl_err *err)
{
  if (calls_left == -1) {
    const char *fail = getenv("FAKE_GPU_FAIL");
    calls_left = fail == NULL ? 0 : atol(fail);
  }
  const char *only = getenv("FAKE_GPU_FAIL_CALL");
  if (calls_left > 0 && (only == NULL || strcmp(only, name) == 0) && --calls_left == 0) {
    return kvl_err_set(err, -EIO, "GPU: %s: the device without a GPU was told to fail", name);
  }
  return 0;
}

static uint64_t now_ns(void)
{
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void tell(const char *what)
{
  const char *path = getenv("FAKE_GPU_TOLD");
  FILE *file = path == NULL ? NULL : fopen(path, "a");
  if (file != NULL) {
    (void)fprintf(file, "%s\n", what);
    (void)fclose(file);
  }
}

static struct fetched read_of(const struct kvl_gather *g)
{
  struct fetched f = {0, 0};
  for (uint32_t e = 0; e < g->entries; e++) {
    for (uint32_t i = 0; g->entry[e].request != KVL_NONE && i < g->count[e]; i++) {
      f.rows++;
      f.where += (uint64_t)(uintptr_t)g->entry[e].host_rows + (uint64_t)(uint32_t)g->fetches[(size_t)e * g->rows_max + i].row * g->row_bytes + g->bytes;
    }
  }
  return f;
}

static int begin_noted(const struct kvl_step_begin *begin, void *context)
{
  struct kvl_gpu *gpu = context;
  gpu->resolves = gpu->gathers = 0;
  return kvl_step_begin_ref(begin, context);
}

static int resolve_noted(const struct kvl_resolve_batch *b, void *context)
{
  struct kvl_gpu *gpu = context;
  int rc = resolve_plain(b, context);
  if (rc == 0 && b->fetches != NULL && gpu->resolves < KVL_STEP_POINTS) {
    const struct kvl_gather list = {.entries = b->entries, .rows_max = b->queries_max * b->k, .row_bytes = b->row_bytes,
                                    .bytes = b->fetch_bytes != 0 ? b->fetch_bytes : b->row_bytes, .entry = b->entry, .fetches = b->fetches,
                                    .count = b->fetch_count};
    gpu->fetched[gpu->resolves++] = read_of(&list);
  }
  return rc;
}

static int gather_noted(const struct kvl_gather *g, void *context)
{
  struct kvl_gpu *gpu = context;
  struct fetched now = read_of(g), then = {0, 0};
  if (gpu->gathers < gpu->resolves) {
    then = gpu->fetched[gpu->gathers++];
  }
  tell("gather");
  if (now.rows != then.rows || now.where != then.where) {
    return -EINVAL;
  }
  g->stamp[0] = now_ns();
  int rc = kvl_gather_ref(g, context);
  g->stamp[1] = now_ns();
  return rc;
}

static int begin_timed(const struct kvl_step_begin *begin, void *context)
{
  struct kvl_gpu *gpu = context;
  gpu->began = gpu->clock;
  return begin_noted(begin, context);
}

static int reader_timed(const struct kvl_reader *r, void *context)
{
  struct kvl_gpu *gpu = context;
  r->stamp[0] = gpu->clock;
  gpu->clock += READ_NS;
  r->stamp[1] = gpu->clock;
  return kvl_reader_ref(r, context);
}

static int standin_timed(const struct kvl_standin *s, void *context)
{
  struct kvl_gpu *gpu = context;
  s->stamp[0] = gpu->clock;
  gpu->clock += *s->duration_ns;
  s->stamp[1] = gpu->clock;
  return kvl_standin_ref(s, context);
}

static int end_timed(const struct kvl_step_end *e, void *context)
{
  struct kvl_gpu *gpu = context;
  int rc = kvl_step_end_ref(e, context);
  e->outcome->begin_ns = gpu->began;
  e->outcome->end_ns = gpu->clock;
  return rc;
}

int kvl_gpu_count(uint32_t *count, struct kvl_err *err)
{
  (void)err;
  *count = 8;
  return 0;
}

int kvl_gpu_open(struct kvl_gpu **out, uint32_t index, struct kvl_err *err)
{
  (void)index;
  *out = NULL;
  int rc = call("open", err);
  struct kvl_gpu *gpu = rc == 0 ? calloc(1, sizeof *gpu) : NULL;
  if (gpu == NULL) {
    return rc != 0 ? rc : kvl_err_set(err, -ENOMEM, "no memory");
  }
  gpu->kernels = (struct kvl_gpu_kernels){
    .resolve = resolve_noted,
    .announce = announce_plain,
    .end_group = end_group_plain,
    .segments = kvl_segments_ref,
    .pokes = kvl_pokes_ref,
    .begin = begin_noted,
    .fills = kvl_fills_ref,
    .standin = kvl_standin_ref,
    .reader = kvl_reader_ref,
    .witness = kvl_witness_ref,
    .bank_copy = kvl_bank_copy_ref,
    .gather = gather_noted,
    .end = kvl_step_end_ref,
    .empty = kvl_empty_ref,
  };
  if (getenv("FAKE_GPU_TIMED") != NULL) {
    gpu->clock = 1000000;
    gpu->kernels.begin = begin_timed;
    gpu->kernels.reader = reader_timed;
    gpu->kernels.standin = standin_timed;
    gpu->kernels.end = end_timed;
  }
  *out = gpu;
  return 0;
}

void kvl_gpu_close(struct kvl_gpu *gpu)
{
  while (gpu != NULL && gpu->all != NULL) {
    struct kvl_gpu_event *e = gpu->all;
    gpu->all = e->next;
    free(e);
  }
  free(gpu);
}

void kvl_gpu_info(const struct kvl_gpu *gpu, struct kvl_gpu_info *info)
{
  (void)gpu;
  *info = (struct kvl_gpu_info){.name = "no GPU", .driver = "none", .multiprocessors = 1, .memory_bytes = UINT64_MAX};
}

const struct kvl_gpu_kernels *kvl_gpu_kernels(const struct kvl_gpu *gpu)
{
  return &gpu->kernels;
}

int kvl_gpu_alloc(struct kvl_gpu *gpu, uint64_t bytes, int fill, const char *what, void **memory, struct kvl_err *err)
{
  (void)gpu;
  *memory = NULL;
  int rc = call("alloc", err);
  if (rc != 0) {
    return rc;
  }
  tell(what);
  *memory = aligned_alloc(256, (bytes + 256) / 256 * 256);
  if (*memory == NULL) {
    return kvl_err_set(err, -ENOMEM, "%s wants %llu bytes", what, (unsigned long long)bytes);
  }
  memset(*memory, fill, bytes);
  return 0;
}

void kvl_gpu_free(struct kvl_gpu *gpu, void *memory)
{
  (void)gpu;
  free(memory);
}

static bool graph_launched;

int kvl_gpu_pin(struct kvl_gpu *gpu, uint64_t bytes, uint64_t unit, const char *what, void **memory, struct kvl_err *err)
{
  (void)unit;
  if (graph_launched && getenv("FAKE_GPU_LATE_PIN") != NULL) {
    return kvl_err_set(err, -ENOMEM, "%s is pinned after the first step, which would hold up what runs", what);
  }
  return kvl_gpu_alloc(gpu, bytes, 0x5a, what, memory, err);
}

void kvl_gpu_unpin(struct kvl_gpu *gpu, void *memory, uint64_t bytes, uint64_t unit)
{
  (void)bytes;
  (void)unit;
  kvl_gpu_free(gpu, memory);
}

int kvl_gpu_stream_open(struct kvl_gpu *gpu, bool urgent, kvl_gpu_stream *stream, struct kvl_err *err)
{
  (void)urgent;
  *stream = gpu;
  return call("stream", err);
}

void kvl_gpu_stream_close(struct kvl_gpu *gpu, kvl_gpu_stream stream)
{
  (void)gpu;
  (void)stream;
}

int kvl_gpu_stream_wait(struct kvl_gpu *gpu, kvl_gpu_stream stream, struct kvl_gpu_event *event, struct kvl_err *err)
{
  (void)gpu;
  (void)stream;
  (void)event;
  return call("wait", err);
}

int kvl_gpu_synchronize(struct kvl_gpu *gpu, kvl_gpu_stream stream, struct kvl_err *err)
{
  (void)gpu;
  (void)stream;
  return call("synchronize", err);
}

int kvl_gpu_event_get(struct kvl_gpu *gpu, bool timed, struct kvl_gpu_event **event, struct kvl_err *err)
{
  (void)timed;
  *event = NULL;
  int rc = call("event", err);
  if (rc == 0 && gpu->free == NULL) {
    *event = calloc(1, sizeof **event);
    if (*event == NULL) {
      return kvl_err_set(err, -ENOMEM, "no memory");
    }
    (*event)->next = gpu->all;
    gpu->all = *event;
  } else if (rc == 0) {
    *event = gpu->free;
    gpu->free = (*event)->next_free;
  }
  return rc;
}

void kvl_gpu_event_put(struct kvl_gpu *gpu, struct kvl_gpu_event *event)
{
  if (event != NULL) {
    event->next_free = gpu->free;
    gpu->free = event;
  }
}

int kvl_gpu_event_record(struct kvl_gpu *gpu, struct kvl_gpu_event *event, kvl_gpu_stream stream, struct kvl_err *err)
{
  (void)gpu;
  (void)stream;
  event->ns = now_ns();
  return call("record", err);
}

int kvl_gpu_event_done(struct kvl_gpu *gpu, struct kvl_gpu_event *event, struct kvl_err *err)
{
  (void)gpu;
  (void)event;
  int rc = call("query", err);
  return rc != 0 ? rc : 1;
}

int kvl_gpu_event_ns(struct kvl_gpu *gpu, struct kvl_gpu_event *from, struct kvl_gpu_event *to, uint64_t *ns, struct kvl_err *err)
{
  (void)gpu;
  *ns = to->ns - from->ns;
  return call("elapsed", err);
}

int kvl_gpu_graph_create(struct kvl_gpu *gpu, kvl_gpu_stream stream, kvl_gpu_build_fn *build, void *context, struct kvl_gpu_graph **graph,
                         struct kvl_err *err)
{
  (void)gpu;
  (void)stream;
  *graph = NULL;
  int rc = call("graph", err);
  struct kvl_gpu_graph *g = rc == 0 ? malloc(sizeof *g) : NULL;
  if (g == NULL) {
    return rc != 0 ? rc : kvl_err_set(err, -ENOMEM, "no memory");
  }
  *g = (struct kvl_gpu_graph){.build = build, .context = context};
  *graph = g;
  return 0;
}

int kvl_gpu_graph_launch(struct kvl_gpu *gpu, struct kvl_gpu_graph *graph, kvl_gpu_stream stream, struct kvl_err *err)
{
  (void)gpu;
  int rc = call("launch", err);
  graph_launched = true;
  return rc != 0 ? rc : graph->build(graph->context, stream, err);
}

void kvl_gpu_graph_destroy(struct kvl_gpu *gpu, struct kvl_gpu_graph *graph)
{
  (void)gpu;
  free(graph);
}

int kvl_gpu_copy(struct kvl_gpu *gpu, void *to, const void *from, uint64_t bytes, kvl_gpu_stream stream, struct kvl_err *err)
{
  (void)gpu;
  (void)stream;
  memcpy(to, from, bytes);
  return call("copy", err);
}

int kvl_gpu_copy_2d(struct kvl_gpu *gpu, void *to, uint64_t to_pitch, const void *from, uint64_t from_pitch, uint64_t width, uint64_t rows,
                    kvl_gpu_stream stream, struct kvl_err *err)
{
  (void)gpu;
  (void)stream;
  for (uint64_t i = 0; i < rows; i++) {
    memcpy((unsigned char *)to + i * to_pitch, (const unsigned char *)from + i * from_pitch, width);
  }
  return call("copy", err);
}

int kvl_gpu_launched(int rc, const char *kernel, struct kvl_err *err)
{
  return rc != 0 ? kvl_err_set(err, rc, "GPU: the launch of %s was refused", kernel) : call(kernel, err);
}
