/* backend/gpu.h on the CUDA runtime: the only C file of the product that sees it. */
#define _DEFAULT_SOURCE /* madvise and MAP_ANONYMOUS */
#include "backend/gpu.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/base/memory.h"

enum { TOUCH_THREADS = 16 };
#define PIN_PIECE (UINT64_C(1) << 30) /* registered and released in pieces of about this size */

struct kvl_gpu_event {
  cudaEvent_t event;
  bool timed;
  struct kvl_gpu_event *next_free;
  struct kvl_gpu_event *next; /* all events of the GPU */
};

struct kvl_gpu_graph {
  cudaGraphExec_t exec;
};

struct kvl_gpu {
  int index;
  struct kvl_gpu_info info;
  struct kvl_gpu_kernels kernels;
  struct kvl_gpu_event *all, *free_plain, *free_timed;
};

static int failed(struct kvl_err *err, cudaError_t e, const char *call)
{
  if (e == cudaSuccess) {
    return 0;
  }
  (void)cudaGetLastError();
  int rc = e == cudaErrorNoDevice || e == cudaErrorInvalidDevice ? -ENODEV : e == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
  return kvl_err_set(err, rc, "GPU: %s: %s (%s)", call, cudaGetErrorString(e), cudaGetErrorName(e));
}

/* cudaSetDevice is per thread; a run drives each GPU from one, but may have several. */
static int use(const struct kvl_gpu *gpu, struct kvl_err *err)
{
  return failed(err, cudaSetDevice(gpu->index), "cudaSetDevice");
}

/* Without a driver the runtime says that the driver is too old, which sends one to update what is not there. */
static const char *why_none(cudaError_t e)
{
  int driver = 0;
  bool loaded = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  return e == cudaErrorInsufficientDriver && !loaded ? "no NVIDIA driver is loaded" : cudaGetErrorString(e);
}

int kvl_gpu_count(uint32_t *count, struct kvl_err *err)
{
  int n = 0;
  /* All kernels at once, when the device is opened: a kernel loaded at its first launch waits for whatever runs, and others for it (8 ms in a first step). */
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  cudaError_t e = cudaGetDeviceCount(&n);
  *count = 0;
  if (e != cudaSuccess) {
    (void)cudaGetLastError();
    return kvl_err_set(err, -ENODEV, "no NVIDIA GPU can be used here: %s", why_none(e));
  }
  *count = (uint32_t)n;
  return 0;
}

int kvl_gpu_open(struct kvl_gpu **out, uint32_t index, struct kvl_err *err)
{
  uint32_t count;
  int rc = kvl_gpu_count(&count, err);
  if (rc != 0) {
    return rc;
  }
  struct kvl_gpu *gpu = calloc(1, sizeof *gpu);
  struct cudaDeviceProp *p = malloc(sizeof *p);
  if (gpu == NULL || p == NULL) {
    free(gpu);
    free(p);
    return kvl_err_set(err, -ENOMEM, "no memory for a GPU");
  }
  gpu->index = (int)index;
  int driver = 0;
  rc = use(gpu, err);
  rc = rc != 0 ? rc : failed(err, cudaGetDeviceProperties(p, gpu->index), "cudaGetDeviceProperties");
  rc = rc != 0 ? rc : failed(err, cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (rc == 0 && p->major < 8) {
    rc = kvl_err_set(err, -ENODEV, "GPU %u (%s) has compute capability %d.%d; 8.0 or later is needed", index, p->name, p->major, p->minor);
  }
  if (rc == 0) {
    (void)snprintf(gpu->info.name, sizeof gpu->info.name, "%.95s", p->name);
    (void)snprintf(gpu->info.driver, sizeof gpu->info.driver, "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    FILE *version = fopen("/proc/driver/nvidia/version", "r"); /* the driver's own number, where the system shows it */
    char line[256];
    if (version != NULL) {
      if (fgets(line, sizeof line, version) != NULL) {
        size_t length = 0; /* "... Kernel Module for x86_64  580.159.04  Release ...": the first word of digits and dots */
        for (const char *at = line; *at != '\0'; at += length + (at[length] != '\0')) {
          length = strcspn(at, " \t\n");
          if (length > 2 && length < sizeof gpu->info.driver && strspn(at, "0123456789.") == length) {
            (void)snprintf(gpu->info.driver, sizeof gpu->info.driver, "%.*s", (int)length, at);
            break;
          }
        }
      }
      (void)fclose(version);
    }
    gpu->info.multiprocessors = (uint32_t)p->multiProcessorCount;
    gpu->info.memory_bytes = p->totalGlobalMem;
    gpu->kernels = (struct kvl_gpu_kernels){
      .resolve = kvl_resolve_cuda_variants[0].run,
      .announce = kvl_announce_batch_cuda,
      .end_group = kvl_end_group_batch_cuda,
      .segments = kvl_segments_cuda,
      .pokes = kvl_pokes_cuda,
      .begin = kvl_step_begin_cuda,
      .fills = kvl_fills_cuda,
      .standin = kvl_standin_cuda,
      .reader = kvl_reader_cuda,
      .witness = kvl_witness_cuda,
      .bank_copy = kvl_bank_copy_cuda,
      .gather = kvl_gather_cuda,
      .end = kvl_step_end_cuda,
      .empty = kvl_empty_cuda,
    };
  }
  free(p);
  if (rc != 0) {
    free(gpu);
    return rc;
  }
  *out = gpu;
  return 0;
}

void kvl_gpu_close(struct kvl_gpu *gpu)
{
  if (gpu == NULL) {
    return;
  }
  (void)cudaSetDevice(gpu->index);
  (void)cudaDeviceSynchronize();
  while (gpu->all != NULL) {
    struct kvl_gpu_event *event = gpu->all;
    gpu->all = event->next;
    (void)cudaEventDestroy(event->event);
    free(event);
  }
  free(gpu);
}

void kvl_gpu_info(const struct kvl_gpu *gpu, struct kvl_gpu_info *info)
{
  *info = gpu->info;
}

const struct kvl_gpu_kernels *kvl_gpu_kernels(const struct kvl_gpu *gpu)
{
  return &gpu->kernels;
}

/* ---- memory ---- */

int kvl_gpu_alloc(struct kvl_gpu *gpu, uint64_t bytes, int fill, const char *what, void **memory, struct kvl_err *err)
{
  *memory = NULL;
  int rc = use(gpu, err);
  if (rc != 0) {
    return rc;
  }
  cudaError_t e = cudaMalloc(memory, bytes == 0 ? 1 : bytes);
  if (e == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t free_bytes = 0, total = 0;
    (void)cudaMemGetInfo(&free_bytes, &total);
    return kvl_err_set(err, -ENOMEM, "GPU %d: %s wants %.2f GB (%llu bytes) of HBM, %.2f GB of %.2f are free", gpu->index, what, (double)bytes / 1e9,
                       (unsigned long long)bytes, (double)free_bytes / 1e9, (double)total / 1e9);
  }
  rc = failed(err, e, "cudaMalloc");
  /* Our streams do not wait for the default stream, so the fill has to be over before anybody has the memory: cudaMemset would return before. */
  rc = rc != 0 ? rc : failed(err, cudaMemsetAsync(*memory, fill, bytes, cudaStreamLegacy), "cudaMemsetAsync");
  return rc != 0 ? rc : failed(err, cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
}

void kvl_gpu_free(struct kvl_gpu *gpu, void *memory)
{
  if (memory != NULL) {
    (void)cudaSetDevice(gpu->index);
    (void)cudaFree(memory);
  }
}

struct touch {
  unsigned char *from;
  uint64_t bytes;
};

static void *touch(void *context)
{
  struct touch *t = context;
  memset(t->from, 0x5a, t->bytes);
  return NULL;
}

static uint64_t piece_of(uint64_t bytes, uint64_t unit)
{
  return unit == 0 ? bytes : unit >= PIN_PIECE ? unit : PIN_PIECE / unit * unit;
}

int kvl_gpu_pin(struct kvl_gpu *gpu, uint64_t bytes, uint64_t unit, const char *what, void **memory, struct kvl_err *err)
{
  *memory = NULL;
  int rc = use(gpu, err);
  if (rc != 0) {
    return rc;
  }
  /* Asked first: the system does not refuse pages that are not there, it ends the process that touches them. */
  uint64_t available = kvl_memory_available("");
  unsigned char *at = bytes > available ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return kvl_err_set(err, -ENOMEM, "%s wants %.2f GB (%llu bytes) of host memory, %.2f GB are available", what, (double)bytes / 1e9,
                       (unsigned long long)bytes, (double)available / 1e9);
  }
  (void)madvise(at, bytes, MADV_HUGEPAGE);
  pthread_t thread[TOUCH_THREADS];
  struct touch part[TOUCH_THREADS];
  bool started[TOUCH_THREADS];
  uint64_t share = (bytes / TOUCH_THREADS + 4095) / 4096 * 4096;
  for (uint64_t i = 0; i < TOUCH_THREADS; i++) { /* small pools: the last shares are empty */
    uint64_t from = i * share < bytes ? i * share : bytes, to = (i + 1) * share < bytes && i + 1 < TOUCH_THREADS ? (i + 1) * share : bytes;
    part[i] = (struct touch){.from = at + from, .bytes = to - from};
    started[i] = to > from && pthread_create(&thread[i], NULL, touch, &part[i]) == 0;
    if (to > from && !started[i]) {
      (void)touch(&part[i]);
    }
  }
  for (int i = 0; i < TOUCH_THREADS; i++) {
    if (started[i]) {
      (void)pthread_join(thread[i], NULL);
    }
  }
  uint64_t done = 0, size = piece_of(bytes, unit);
  cudaError_t e = cudaSuccess;
  while (e == cudaSuccess && done < bytes) {
    uint64_t piece = bytes - done < size ? bytes - done : size;
    e = cudaHostRegister(at + done, piece, cudaHostRegisterPortable | cudaHostRegisterMapped);
    done += e == cudaSuccess ? piece : 0;
  }
  if (e != cudaSuccess) {
    (void)cudaGetLastError();
    for (uint64_t from = 0; from < done; from += size) {
      (void)cudaHostUnregister(at + from);
    }
    (void)munmap(at, bytes);
    return kvl_err_set(err, e == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "%s wants %.2f GB (%llu bytes) of pinned host memory, %.2f GB are available: %s",
                       what, (double)bytes / 1e9, (unsigned long long)bytes, (double)kvl_memory_available("") / 1e9, cudaGetErrorString(e));
  }
  *memory = at;
  return 0;
}

void kvl_gpu_unpin(struct kvl_gpu *gpu, void *memory, uint64_t bytes, uint64_t unit)
{
  if (memory == NULL) {
    return;
  }
  (void)cudaSetDevice(gpu->index);
  unsigned char *at = memory;
  for (uint64_t from = 0, size = piece_of(bytes, unit); from < bytes; from += size) { /* a piece at a time: hundreds of GiB in one call have wedged nodes */
    uint64_t piece = bytes - from < size ? bytes - from : size;
    (void)cudaHostUnregister(at + from);
    (void)munmap(at + from, piece);
  }
}

/* ---- streams and events ---- */

int kvl_gpu_stream_open(struct kvl_gpu *gpu, bool urgent, kvl_gpu_stream *stream, struct kvl_err *err)
{
  int least = 0, greatest = 0;
  cudaStream_t s = NULL;
  int rc = use(gpu, err);
  rc = rc != 0 ? rc : failed(err, cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  rc = rc != 0 ? rc : failed(err, cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, urgent ? greatest : least), "cudaStreamCreateWithPriority");
  *stream = s;
  return rc;
}

void kvl_gpu_stream_close(struct kvl_gpu *gpu, kvl_gpu_stream stream)
{
  if (stream != NULL) {
    (void)cudaSetDevice(gpu->index);
    (void)cudaStreamDestroy(stream);
  }
}

int kvl_gpu_stream_wait(struct kvl_gpu *gpu, kvl_gpu_stream stream, struct kvl_gpu_event *event, struct kvl_err *err)
{
  int rc = use(gpu, err);
  return rc != 0 ? rc : failed(err, cudaStreamWaitEvent(stream, event->event, 0), "cudaStreamWaitEvent");
}

int kvl_gpu_synchronize(struct kvl_gpu *gpu, kvl_gpu_stream stream, struct kvl_err *err)
{
  int rc = use(gpu, err);
  return rc != 0 ? rc : failed(err, cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

int kvl_gpu_event_get(struct kvl_gpu *gpu, bool timed, struct kvl_gpu_event **event, struct kvl_err *err)
{
  struct kvl_gpu_event **list = timed ? &gpu->free_timed : &gpu->free_plain;
  if (*list != NULL) {
    *event = *list;
    *list = (*event)->next_free;
    return 0;
  }
  int rc = use(gpu, err);
  struct kvl_gpu_event *e = calloc(1, sizeof *e);
  if (rc == 0 && e == NULL) {
    rc = kvl_err_set(err, -ENOMEM, "no memory for an event");
  }
  rc = rc != 0 ? rc : failed(err, cudaEventCreateWithFlags(&e->event, timed ? cudaEventDefault : cudaEventDisableTiming), "cudaEventCreate");
  if (rc != 0) {
    free(e);
    return rc;
  }
  e->timed = timed;
  e->next = gpu->all;
  gpu->all = e;
  *event = e;
  return 0;
}

void kvl_gpu_event_put(struct kvl_gpu *gpu, struct kvl_gpu_event *event)
{
  if (event != NULL) {
    struct kvl_gpu_event **list = event->timed ? &gpu->free_timed : &gpu->free_plain;
    event->next_free = *list;
    *list = event;
  }
}

int kvl_gpu_event_record(struct kvl_gpu *gpu, struct kvl_gpu_event *event, kvl_gpu_stream stream, struct kvl_err *err)
{
  int rc = use(gpu, err);
  return rc != 0 ? rc : failed(err, cudaEventRecord(event->event, stream), "cudaEventRecord");
}

int kvl_gpu_event_done(struct kvl_gpu *gpu, struct kvl_gpu_event *event, struct kvl_err *err)
{
  (void)gpu;
  cudaError_t e = cudaEventQuery(event->event);
  if (e == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return 0;
  }
  int rc = failed(err, e, "work on the GPU failed");
  return rc != 0 ? rc : 1;
}

int kvl_gpu_event_ns(struct kvl_gpu *gpu, struct kvl_gpu_event *from, struct kvl_gpu_event *to, uint64_t *ns, struct kvl_err *err)
{
  (void)gpu;
  float ms = 0;
  int rc = failed(err, cudaEventElapsedTime(&ms, from->event, to->event), "cudaEventElapsedTime");
  *ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
  return rc;
}

/* ---- graphs ---- */

int kvl_gpu_graph_create(struct kvl_gpu *gpu, kvl_gpu_stream stream, kvl_gpu_build_fn *build, void *context, struct kvl_gpu_graph **out, struct kvl_err *err)
{
  *out = NULL;
  int rc = use(gpu, err);
  struct kvl_gpu_graph *g = calloc(1, sizeof *g);
  if (rc == 0 && g == NULL) {
    rc = kvl_err_set(err, -ENOMEM, "no memory for a graph");
  }
  rc = rc != 0 ? rc : failed(err, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  if (rc != 0) {
    free(g);
    return rc;
  }
  int built = build(context, stream, err);
  cudaGraph_t graph = NULL;
  cudaError_t ended = cudaStreamEndCapture(stream, &graph); /* also after a failed build: the stream must leave the capture */
  rc = built != 0 ? built : failed(err, ended, "cudaStreamEndCapture");
  rc = rc != 0 ? rc : failed(err, cudaGraphInstantiate(&g->exec, graph, 0), "cudaGraphInstantiate");
  rc = rc != 0 ? rc : failed(err, cudaGraphUpload(g->exec, stream), "cudaGraphUpload");
  if (graph != NULL) {
    (void)cudaGraphDestroy(graph);
  }
  if (rc != 0) {
    (void)cudaGetLastError();
    kvl_gpu_graph_destroy(gpu, g);
    return rc;
  }
  *out = g;
  return 0;
}

int kvl_gpu_graph_launch(struct kvl_gpu *gpu, struct kvl_gpu_graph *graph, kvl_gpu_stream stream, struct kvl_err *err)
{
  int rc = use(gpu, err);
  return rc != 0 ? rc : failed(err, cudaGraphLaunch(graph->exec, stream), "cudaGraphLaunch");
}

void kvl_gpu_graph_destroy(struct kvl_gpu *gpu, struct kvl_gpu_graph *graph)
{
  if (graph != NULL) {
    (void)cudaSetDevice(gpu->index);
    if (graph->exec != NULL) {
      (void)cudaGraphExecDestroy(graph->exec);
    }
    free(graph);
  }
}

/* ---- copies ---- */

int kvl_gpu_copy(struct kvl_gpu *gpu, void *to, const void *from, uint64_t bytes, kvl_gpu_stream stream, struct kvl_err *err)
{
  int rc = use(gpu, err);
  return rc != 0 ? rc : failed(err, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

int kvl_gpu_copy_2d(struct kvl_gpu *gpu, void *to, uint64_t to_pitch, const void *from, uint64_t from_pitch, uint64_t width, uint64_t rows,
                    kvl_gpu_stream stream, struct kvl_err *err)
{
  int rc = use(gpu, err);
  return rc != 0 ? rc
                 : failed(err, cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, cudaMemcpyDefault, stream), "cudaMemcpy2DAsync");
}

int kvl_gpu_launched(int rc, const char *kernel, struct kvl_err *err)
{
  if (rc == 0) {
    return 0;
  }
  cudaError_t e = cudaGetLastError();
  return kvl_err_set(err, rc, "GPU: the launch of %s was refused: %s", kernel, rc == -EINVAL ? "an argument is past its limit" : cudaGetErrorString(e));
}
