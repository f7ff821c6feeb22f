/* Inside of the probe: what its files share. Nobody else includes this. */
#ifndef KVL_BACKEND_PROBE_STATE_H
#define KVL_BACKEND_PROBE_STATE_H

#include "backend/gpu.h"
#include "backend/probe.h"

enum { KVL_PROBE_SAMPLES_MAX = 16 };

struct kvl_prober {
  const struct kvl_probe_config *config;
  struct kvl_probe *out;
  struct kvl_gpu *gpu;
  const struct kvl_gpu_kernels *k;
  kvl_gpu_stream work, beside;
  struct kvl_gpu_event *event[KVL_PROBE_SAMPLES_MAX + 1], *begun, *ended;
  unsigned char *pool;             /* pinned, host_bytes, in pieces of whole `copy_max` */
  uint64_t pool_bytes, copy_max;
  unsigned char *arena;            /* device */
  uint64_t arena_bytes;
  unsigned char *other;            /* device, copy_max: the far end of copies beside */
  unsigned char *list, *stage;     /* device and pinned, list_bytes each: what a sequence's kernels read, laid out by the host */
  uint64_t list_bytes;
  uint64_t *word;                  /* pinned: durations of the gate [0] and of the load beside [1], 0 [2] */
  uint64_t *device_word;           /* device: starts of stand-ins [0..2], a sink [3] */
  uint32_t samples;                /* a point */
  int64_t events_ps, graph_ps, node_ps; /* two events; a graph's launch; an empty node */
  uint64_t hbm_read_bytes_per_s, copy_bytes_per_s, load_piece_bytes;
  uint32_t done, total;            /* points, for whoever watches */
};

/* One sample of a sequence, enqueued on `stream`. */
typedef int kvl_probe_sample_fn(void *context, uint32_t sample, kvl_gpu_stream stream, struct kvl_err *err);

/* `n` samples back to back, each between two events, held until all are enqueued; picoseconds of each, as the events say. With something beside, it begins
 * before the first and is meant to last `cover_ns`; *covered: it did. */
int kvl_probe_sequence(struct kvl_prober *p, uint32_t n, kvl_probe_sample_fn *sample, void *context, enum kvl_probe_beside beside, uint64_t cover_ns,
                       int64_t ps[KVL_PROBE_SAMPLES_MAX], bool *covered, struct kvl_err *err);

/* Takes `base_ps` off each, divides by `parts`, sorts, and adds the point with its spread. */
int kvl_probe_point_of(struct kvl_prober *p, struct kvl_probe_point *point, int64_t *ps, uint32_t n, int64_t base_ps, uint32_t parts, struct kvl_err *err);

/* Between points: tells whoever watches; -EINTR when asked to stop. */
int kvl_probe_next(struct kvl_prober *p, const char *what, struct kvl_err *err);

/* Row sizes, row counts and ranges of the gathers; each returns how many. */
enum { KVL_PROBE_AXIS_MAX = 12 };
uint32_t kvl_probe_row_bytes(const struct kvl_prober *p, uint64_t axis[KVL_PROBE_AXIS_MAX]);
uint32_t kvl_probe_row_counts(const struct kvl_prober *p, uint64_t axis[KVL_PROBE_AXIS_MAX]);
uint32_t kvl_probe_ranges(const struct kvl_prober *p, uint64_t axis[KVL_PROBE_AXIS_MAX]);

int kvl_probe_copies(struct kvl_prober *p, struct kvl_err *err);   /* probe_link.c: copies both ways, alone and both at once */
int kvl_probe_copies_beside(struct kvl_prober *p, uint64_t bytes, bool to_host, enum kvl_probe_beside beside, struct kvl_err *err);
int kvl_probe_pages(struct kvl_prober *p, struct kvl_err *err);    /* probe_pages.c */
int kvl_probe_load_pages(struct kvl_prober *p, uint64_t cover_ns, struct kvl_err *err); /* enqueues on `beside`; pages have been measured */
int kvl_probe_gathers(struct kvl_prober *p, struct kvl_err *err);  /* probe_gather.c */
int kvl_probe_resolves(struct kvl_prober *p, struct kvl_err *err); /* probe_resolve.c */

#endif
