/* Resolve and announce for a batch: one launch for one selection of many requests, the entry points that the GPU runs.
 *
 * Plain C, no CUDA type: a stream is a void pointer. The reference and every CUDA variant have the same signature and stand in one table,
 * so that a checker compares and times the very calls that a plane makes. Meaning: resolve.h.
 *
 * Where the CPU keeps a small hash table, a GPU keeps the dense map of a cache, place_of_row: 4 bytes a row of history (under 1.5 % of a
 * V4.1 session's rows); a hit is one load and one stamp. All pointers below are device pointers for CUDA; the reference reads the same
 * structs from host memory, but works on struct kvl_cache (struct kvl_resolve_host).
 *
 * Limits: entries 1..65535; queries_max * k <= 32768 (8 queries of 4096); hot_rows, bank_rows < 2^30; row_bytes a multiple of 8 (of 16 is
 * faster), arena and host rows aligned to 16; at most one entry a request. An overflow area has room for queries_max * k rows; a cache
 * has fewer than 2^32 - 1 transactions. Memory of one launch is the caller's: KVL_RESOLVE_WORK_WORDS an entry. No allocation, no
 * synchronisation; capturable in a graph (the first launch on a device asks it what it can do: it must come before, and from one thread).
 * Variant `overlap`: in a graph, sm_90 and later, a resolve that follows another kernel is set up while that one ends (a programmatic edge).
 * Variant `prepared`: the same; of at most 8 requests victims are prepared for while look-ups go on. */
#ifndef KVL_KERNELS_RESOLVE_BATCH_H
#define KVL_KERNELS_RESOLVE_BATCH_H

#include "kernels/resolve.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVL_LANES_MAX = 32768, KVL_PLACE_EMPTY = INT32_MIN };

/* Scalars of one cache of one request, in device memory. The plane writes the first three (pokes.h) as history grows, kernels the others. */
struct kvl_cache_head {
  uint32_t committed, tail_first, scratch; /* as in struct kvl_cache */
  uint32_t seq;                            /* transactions so far */
  uint32_t bank_used;                      /* bank slots [0, bank_used) hold a row */
  uint32_t unused[3];
};

/* One request's part of a batch: where its state is. */
struct kvl_resolve_entry {
  int32_t request;               /* KVL_NONE: padding: outputs -1, nothing else touched */
  uint32_t query_count;          /* <= queries_max */
  uint32_t whole;                /* not 0: the direct path (a hint, as in kvl_resolve_ref) */
  uint32_t pages;
  uint32_t rows_max;             /* rows that place_of_row has room for; committed <= rows_max */
  uint32_t unused;
  struct kvl_cache_bases bases;
  struct kvl_cache_head *head;
  const kvl_frame *frame_of_page;
  int32_t *place_of_row;         /* hot slot, hot_rows + bank slot, or KVL_PLACE_EMPTY */
  uint32_t *stamp;               /* [hot_rows] */
  kvl_row *row_of_place;         /* [hot_rows + bank_rows], KVL_NONE when empty */
  uint32_t *pinned;              /* bit per hot slot, 32 a word */
  const kvl_slot *tail_place;    /* [tail_rows], by row modulo tail_rows */
  const unsigned char *host_rows; /* pinned host memory: row r at byte r * row_bytes; may lie beyond 4 GiB of its pool */
};

struct kvl_batch_query {
  kvl_row boundary; /* rows it may see */
  uint32_t n;       /* selections, <= k; the lanes after them are -1 */
};

struct kvl_resolve_batch {
  struct kvl_cache_geometry geometry;
  uint32_t entries, queries_max, k;
  uint32_t row_bytes;
  const struct kvl_resolve_entry *entry;  /* [entries] */
  const struct kvl_batch_query *query;    /* [entries][queries_max] */
  const kvl_row *rows;                    /* [entries][queries_max][k] */
  kvl_addr *addresses;                    /* [entries][queries_max][k]; every element is written */
  struct kvl_fetch *fetches;              /* [entries][queries_max * k] or NULL */
  uint32_t *fetch_count;                  /* [entries] */
  struct kvl_resolve_counts *counts;      /* [entries], added to */
  /* address a is at byte a * row_bytes; fetched rows are copied here. NULL for the reference: no bytes */
  unsigned char *arena;
  uint32_t *work;                         /* [entries][KVL_RESOLVE_WORK_WORDS(queries_max * k, hot_rows)], contents irrelevant */
  /* NULL, or two words: [0] lowered to the earliest, [1] raised to the latest moment (the GPU's global timer, ns) at which a request had looked up
   * and placed its rows and had only host rows, if any, to wait for. The reference does not look at it. */
  uint64_t *stamp;
  uint32_t fetch_bytes; /* of a missing row, from its first byte on, that are copied; a multiple of 8; 0: all of it */
};

/* Victims, three lists of misses. */
#define KVL_RESOLVE_WORK_WORDS(lanes, hot_rows) (3 * ((size_t)(lanes) + 64) + (size_t)((lanes) < (hot_rows) ? (lanes) : (hot_rows)))

/* Pools of a batch (semantics: section 5). Each pool ascends and names no row twice, as an indexer emits it. */
struct kvl_announce_batch {
  struct kvl_cache_geometry geometry;
  uint32_t entries, queries_max, pool_max;
  const struct kvl_resolve_entry *entry;
  const struct kvl_batch_query *query; /* [entries][queries_max]: n rows of the pool; the boundary is not looked at */
  const kvl_row *pools;                /* [entries][queries_max][pool_max] */
  struct kvl_fetch *copies;            /* [entries][bank_rows] */
  kvl_row *dropped;                    /* [entries][queries_max * pool_max] */
  uint32_t *copy_count, *drop_count;   /* [entries] */
  uint32_t *work;                      /* [entries][KVL_ANNOUNCE_WORK_WORDS(queries_max * pool_max, bank_rows)] */
};
#define KVL_ANNOUNCE_WORK_WORDS(lanes, bank_rows) \
  ((((size_t)(lanes) + 31) / 32) * 2 + (size_t)(bank_rows) + ((size_t)(bank_rows) + 31) / 32)

/* What the reference works on: the cache of each request id, and a workspace for queries_max * k (or pool) lanes. */
struct kvl_resolve_host {
  struct kvl_cache **caches;
  struct kvl_resolve_ws *ws;
};

/* `context`: a cudaStream_t for CUDA, a struct kvl_resolve_host for the reference. 0; -EINVAL: a limit above is broken; -EIO: the launch
 * was refused (nothing runs); -EOVERFLOW (reference): see kvl_resolve_ref. */
typedef int kvl_resolve_batch_fn(const struct kvl_resolve_batch *batch, void *context);
typedef int kvl_announce_batch_fn(const struct kvl_announce_batch *batch, void *context);

struct kvl_resolve_variant {
  const char *name;
  kvl_resolve_batch_fn *run;
};

kvl_resolve_batch_fn kvl_resolve_batch_ref;
kvl_announce_batch_fn kvl_announce_batch_ref;
int kvl_end_group_batch_ref(const struct kvl_announce_batch *batch, void *context);

/* resolve.cu, announce.cu: present only where CUDA is. The table ends with a NULL name; its first is the one a plane uses. */
extern const struct kvl_resolve_variant kvl_resolve_cuda_variants[];
kvl_announce_batch_fn kvl_announce_batch_cuda;
int kvl_end_group_batch_cuda(const struct kvl_announce_batch *batch, void *context); /* reads geometry, entries and entry only */

#ifdef __cplusplus
}
#endif

#endif
