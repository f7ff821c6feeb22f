/* The few things the CUDA plane asks of a device: memory, streams, events, graphs, bulk copies. gpu_cuda.c is the only file of the product's C side that
 * sees CUDA; gpu_cuda_absent.c stands in where a build has no toolkit; tests have a third that does everything at once in ordinary memory, so that the
 * plane's own logic is tested without a GPU.
 *
 * One object is one GPU. Calls that fail return -ENOMEM (the line says what was asked for and what is free), -EIO (the line names the call and the
 * device's own words), -ENOSYS (no CUDA in this build) or -ENODEV (no GPU, or no such GPU). After -EIO nothing but kvl_gpu_close may follow. */
#ifndef KVL_BACKEND_GPU_H
#define KVL_BACKEND_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "kernels/empty.h"
#include "kernels/gather.h"
#include "kernels/resolve_batch.h"
#include "kernels/pokes.h"
#include "kernels/segments.h"
#include "kernels/step.h"

enum {
  KVL_GPU_COPY_BLOCKS = 16,            /* multiprocessors for a page copy by a kernel: enough for the whole link (results/hardware) */
  KVL_GPU_PIECE_BYTES_MIN = 64 * 1024  /* pages whose pieces are smaller go through that kernel, not through the copy engine */
};

struct kvl_gpu;
typedef void *kvl_gpu_stream; /* what the kernels' `context` is */
struct kvl_gpu_event;
struct kvl_gpu_graph;

struct kvl_gpu_info {
  char name[96];
  char driver[32];
  uint32_t multiprocessors;
  uint64_t memory_bytes;
};

/* The kernels that suit this device. */
struct kvl_gpu_kernels {
  kvl_resolve_batch_fn *resolve;
  kvl_announce_batch_fn *announce;
  kvl_announce_batch_fn *end_group;
  kvl_segments_fn *segments;
  kvl_pokes_fn *pokes;
  kvl_step_begin_fn *begin;
  kvl_fills_fn *fills;
  kvl_standin_fn *standin;
  kvl_reader_fn *reader;
  kvl_witness_fn *witness;
  kvl_bank_copy_fn *bank_copy;
  kvl_gather_fn *gather;
  kvl_step_end_fn *end;
  kvl_empty_fn *empty;
};

int kvl_gpu_open(struct kvl_gpu **gpu, uint32_t index, struct kvl_err *err); /* below kvl_gpu_count: a caller whose user chose says which choice was too large */
void kvl_gpu_close(struct kvl_gpu *gpu); /* waits for what runs; memory, streams and graphs must have been freed, events go with it; NULL is fine */
void kvl_gpu_info(const struct kvl_gpu *gpu, struct kvl_gpu_info *info);
const struct kvl_gpu_kernels *kvl_gpu_kernels(const struct kvl_gpu *gpu);
int kvl_gpu_count(uint32_t *count, struct kvl_err *err);

/* Device memory, filled with `fill` (what was never written must not pass for data). `what` names it in an error. */
int kvl_gpu_alloc(struct kvl_gpu *gpu, uint64_t bytes, int fill, const char *what, void **memory, struct kvl_err *err);
void kvl_gpu_free(struct kvl_gpu *gpu, void *memory);

/* Pinned host memory that every GPU of the node reaches at the same address: huge pages where the system has them, touched by several threads, then
 * registered (fast to pin), in pieces of about 1 GiB (bounded to tear down). A copy must not cross from one piece into the next (CUDA refuses it): pieces
 * are whole multiples of `unit` bytes, itself a multiple of 4,096; unit 0: all in one piece. The same unit for both calls. -ENOMEM before a page is touched
 * when that is more than the machine, or the control group that the process runs in, has left. */
int kvl_gpu_pin(struct kvl_gpu *gpu, uint64_t bytes, uint64_t unit, const char *what, void **memory, struct kvl_err *err);
void kvl_gpu_unpin(struct kvl_gpu *gpu, void *memory, uint64_t bytes, uint64_t unit);

/* Streams; `urgent` ones go first where blocks compete. */
int kvl_gpu_stream_open(struct kvl_gpu *gpu, bool urgent, kvl_gpu_stream *stream, struct kvl_err *err);
void kvl_gpu_stream_close(struct kvl_gpu *gpu, kvl_gpu_stream stream);
int kvl_gpu_stream_wait(struct kvl_gpu *gpu, kvl_gpu_stream stream, struct kvl_gpu_event *event, struct kvl_err *err); /* also inside a graph: a join */
int kvl_gpu_synchronize(struct kvl_gpu *gpu, kvl_gpu_stream stream, struct kvl_err *err);

/* Events from a pool that grows; `timed` ones can be subtracted. */
int kvl_gpu_event_get(struct kvl_gpu *gpu, bool timed, struct kvl_gpu_event **event, struct kvl_err *err);
void kvl_gpu_event_put(struct kvl_gpu *gpu, struct kvl_gpu_event *event);
int kvl_gpu_event_record(struct kvl_gpu *gpu, struct kvl_gpu_event *event, kvl_gpu_stream stream, struct kvl_err *err);
int kvl_gpu_event_done(struct kvl_gpu *gpu, struct kvl_gpu_event *event, struct kvl_err *err); /* 1, 0, or an error: also of any kernel before it */
int kvl_gpu_event_ns(struct kvl_gpu *gpu, struct kvl_gpu_event *from, struct kvl_gpu_event *to, uint64_t *ns, struct kvl_err *err); /* both done */

/* `build` enqueues a step's work on `stream`; what it enqueues becomes a graph. It may be called again at any launch (a device without graphs), so it
 * must do the same each time and `context` must live as long as the graph. Work on other streams must be forked and joined by events. */
typedef int kvl_gpu_build_fn(void *context, kvl_gpu_stream stream, struct kvl_err *err);
int kvl_gpu_graph_create(struct kvl_gpu *gpu, kvl_gpu_stream stream, kvl_gpu_build_fn *build, void *context, struct kvl_gpu_graph **graph,
                         struct kvl_err *err);
int kvl_gpu_graph_launch(struct kvl_gpu *gpu, struct kvl_gpu_graph *graph, kvl_gpu_stream stream, struct kvl_err *err);
void kvl_gpu_graph_destroy(struct kvl_gpu *gpu, struct kvl_gpu_graph *graph); /* NULL is fine */

/* Copies in stream order; either side may be device or pinned memory. 2D: `rows` pieces of `width` bytes. */
int kvl_gpu_copy(struct kvl_gpu *gpu, void *to, const void *from, uint64_t bytes, kvl_gpu_stream stream, struct kvl_err *err);
int kvl_gpu_copy_2d(struct kvl_gpu *gpu, void *to, uint64_t to_pitch, const void *from, uint64_t from_pitch, uint64_t width, uint64_t rows,
                    kvl_gpu_stream stream, struct kvl_err *err);

/* What a kernel's return code means, as a line. 0 for 0. */
int kvl_gpu_launched(int rc, const char *kernel, struct kvl_err *err);

#endif
