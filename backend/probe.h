/* What a node can do, measured through the same device seam (gpu.h) that the CUDA plane uses: copies, gathers of small rows, kernels and graphs, resolve,
 * pinned memory. `kvloan calibrate` fits its hardware descriptor to these points (sim/calibrate.h).
 *
 * Each point is the median of `n` samples with their 10th and 90th percentile. A sample stands between two events of a stream that is held until all samples
 * of the point are enqueued, so that the host's launch cost stays out; what the events and a graph's own launch cost is measured first and taken off. Gathers and
 * resolves are nodes of a graph, as in a decode step: their time is from node to node. */
#ifndef KVL_BACKEND_PROBE_H
#define KVL_BACKEND_PROBE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/base/err.h"

enum kvl_probe_kind {
  KVL_PROBE_PIN,      /* `bytes` of host memory: touched and registered (host clock) */
  KVL_PROBE_UNPIN,    /* the same, given back */
  KVL_PROBE_EVENTS,   /* two events with nothing between */
  KVL_PROBE_KERNEL,   /* one empty kernel, no graph; events taken off */
  KVL_PROBE_GRAPH,    /* a graph of `count` empty kernels one after the other; events taken off */
  KVL_PROBE_SUBMIT,   /* the host's time to launch that graph (host clock) */
  KVL_PROBE_HBM_COPY, /* `bytes` from device to device: reads and writes as many */
  KVL_PROBE_HBM_READ, /* a kernel that reads `bytes` */
  KVL_PROBE_COPY,     /* one copy of `bytes` by the copy engine, of several back to back */
  KVL_PROBE_GATHER,   /* `count` rows of `bytes` each, anywhere in `range_bytes` of pinned memory, to the GPU; a graph's node */
  KVL_PROBE_PAGES,    /* `count` pieces of `bytes` each, anywhere in `range_bytes` of pinned memory, to the GPU by one kernel on a few multiprocessors */
  KVL_PROBE_RESOLVE,  /* one look-up of `batch` requests x `lanes` rows, of which `count` of each request come from the host; a graph's node */
  KVL_PROBE_KINDS
};
enum kvl_probe_beside {
  KVL_BESIDE_NOTHING,
  KVL_BESIDE_COPY_IN,  /* the copy engine, host to GPU */
  KVL_BESIDE_COPY_OUT, /* GPU to host */
  KVL_BESIDE_PAGES,    /* pages by a kernel, host to GPU */
  KVL_BESIDE_HBM,      /* a kernel that reads HBM as fast as it can, half of each multiprocessor's threads left free */
  KVL_BESIDES
};

struct kvl_probe_point {
  enum kvl_probe_kind kind;
  enum kvl_probe_beside beside;
  bool to_host;             /* copies */
  bool ascending;           /* gathers: rows in order of address */
  bool covered;             /* what ran beside was there from the first sample's start to the last one's end (true when nothing was to) */
  uint64_t count, bytes, range_bytes;
  uint32_t batch, lanes;
  uint32_t n;
  uint64_t median_ps, p10_ps, p90_ps;
};

struct kvl_probe_config {
  uint32_t gpu;
  uint64_t host_bytes;      /* pinned memory that gathers range over */
  bool quick;               /* fewer points, fewer samples */
  uint64_t seed;            /* of the rows gathered */
  void (*say)(void *context, const char *what, uint32_t done_percent); /* may be NULL */
  void *context;
  const volatile sig_atomic_t *stop; /* may be NULL; not 0: -EINTR at the next point */
};

struct kvl_probe {
  char device[96], driver[32];
  uint64_t hbm_bytes, host_bytes;
  uint32_t multiprocessors;
  uint64_t wall_ns;         /* the whole measurement took this long */
  struct kvl_probe_point *point;
  uint32_t count, capacity;
};

/* Errors as in gpu.h, and -EINTR. On an error there is nothing to free. */
int kvl_probe_run(struct kvl_probe *probe, const struct kvl_probe_config *config, struct kvl_err *err);
int kvl_probe_add(struct kvl_probe *probe, const struct kvl_probe_point *point); /* -ENOMEM */
void kvl_probe_free(struct kvl_probe *probe);

const char *kvl_probe_kind_name(enum kvl_probe_kind kind); /* "pin", "unpin", "events", "kernel", "graph", "submit", "hbm_copy", ... */
const char *kvl_probe_beside_name(enum kvl_probe_beside beside); /* "nothing", "copy_in", "copy_out", "pages", "hbm" */

#endif
