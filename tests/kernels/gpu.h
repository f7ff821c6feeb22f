/* A batch of requests twice: on the GPU and in the C reference, with everything needed to compare them bit for bit.
 *
 * All state of the GPU lies in one block of device memory, array after array with red zones between; the same block is built on the host
 * from the reference's state, so that "all state equal" is one comparison. Built with CUDA only (tests link it where CUDA is). */
#ifndef KVL_TESTS_KERNELS_GPU_H
#define KVL_TESTS_KERNELS_GPU_H

#include <stdbool.h>

#include "kernels/resolve_batch.h"
#include "kernels/resolve_ref.h"

struct gpu_config {
  struct kvl_cache_geometry geometry;
  uint32_t requests;
  uint32_t rows_max;    /* of a request */
  uint32_t pages_max;
  uint32_t k, queries_max, pool_max;
  uint32_t row_bytes;
  uint32_t frames;      /* of the arena */
  uint64_t pool_skip;   /* bytes of the host pool before the first row, to get beyond 4 GiB */
  bool stamped;         /* resolve is given a place for its time stamps */
  uint64_t pool_most;   /* 0, or the bytes that the requests' rows may take in all: their ranges then overlap */
  bool pool_mapped;     /* the pool as the plane pins it: mapped, touched in huge pages, registered; else cudaHostAlloc */
};

struct gpu {
  struct gpu_config c;
  void *stream;
  /* reference */
  struct kvl_cache **cache;
  struct kvl_resolve_ws *ws;
  unsigned char *arena;         /* the reference's arena (host) */
  uint32_t *held;               /* [requests][hot_rows]: bytes of its row, from the first on, that a hot slot holds */
  unsigned char *pool;          /* pinned; request r's rows begin at pool + pool_skip + r * rows_max * row_bytes */
  kvl_frame *page_map;          /* [requests][pages_max]; change it, then gpu_push */
  /* device */
  unsigned char *state, *state_copy, *state_host, *state_down; /* device, device, expected, downloaded */
  size_t state_bytes, request_bytes, arena_bytes, pool_bytes;
  unsigned char *d_arena, *arena_copy, *arena_down;
  struct kvl_resolve_batch batch, host_batch; /* device and host pointers */
  struct kvl_announce_batch announce, host_announce;
  struct kvl_resolve_entry *entry, *host_entry;     /* inputs, host side; `entry` has device pointers */
  struct kvl_batch_query *query;
  kvl_row *rows, *pools;
  size_t out_bytes;
  unsigned char *d_out, *out;   /* device outputs as one block, downloaded */
  bool in_graph, launched;
  bool stale;                   /* the reference has moved on since state_host was built */
  void *memory[64];
  int memory_count;
  char text[256];
};

/* NULL, or why there is no GPU to run on. */
const char *gpu_absent(void);
/* Driver, device and runtime in one line. */
const char *gpu_name(char *text, size_t room);

/* NULL and *gpu, or what went wrong. */
const char *gpu_open(struct gpu **gpu, const struct gpu_config *config, uint64_t seed);
void gpu_close(struct gpu *gpu);

kvl_row *gpu_rows(struct gpu *g, uint32_t entry, uint32_t query);  /* where to write the selection of a query */
kvl_row *gpu_pool(struct gpu *g, uint32_t entry, uint32_t query);

/* Sends what the policy changes (heads, page maps, tail places), and the number of transactions, to the device, by the poke kernel. */
const char *gpu_push(struct gpu *g);

/* From here on resolve is launched as a node of a graph, between two other kernels (true), or by itself. The first launch on a device is by itself. */
void gpu_in_graph(struct gpu *g, bool in_graph);

/* From here on resolve copies that many bytes of a missing row; 0: all. */
void gpu_fetch_bytes(struct gpu *g, uint32_t bytes);

/* Runs the batch that g->entry (request ids only), g->query and rows describe: `reference` runs it on the host; `device` one variant, on
 * the GPU, with the entries in the order `order` (NULL: as they are), and compares every output. Device state is taken from the last
 * gpu_keep. */
const char *gpu_reference(struct gpu *g, uint32_t entries);
const char *gpu_device(struct gpu *g, const struct kvl_resolve_variant *variant, uint32_t entries, const uint32_t *order);
const char *gpu_announce(struct gpu *g, uint32_t entries); /* both, compared; pools from g->query and g->pools */
const char *gpu_end_group(struct gpu *g, uint32_t entries);

void gpu_keep(struct gpu *g);    /* the device state now is the one to start from */
void gpu_restore(struct gpu *g); /* back to it */

/* Downloads and compares all state, red zones and (when `bytes`) the arena. NULL or the first difference. */
const char *gpu_compare(struct gpu *g, bool bytes);

/* Outputs of the last device run, of entry e (in the caller's order). */
const kvl_addr *gpu_addresses(const struct gpu *g, uint32_t e, uint32_t q);

const unsigned char *gpu_host_rows(const struct gpu *g, uint32_t request);
/* the reference's state to the device, whole (bench: after a warm-up on the reference alone) */
const char *gpu_upload_state(struct gpu *g);
void gpu_build_entry(const struct gpu *g, uint32_t request, bool device, struct kvl_resolve_entry *entry);

#endif
