/* Resolve: from selected rows to attention addresses.
 *
 * A sparse-attention indexer selects rows of one cache of one request. Resolve finds each row in the first tier that holds it -
 * scratch, fresh tail, borrowed page, candidate bank, hot cache, host - brings the distinct missing rows from the host into the hot
 * cache (exact LRU) and writes one flat address a row. This header is shared by the C reference (resolve_ref.c, which is also what the
 * simulator runs) and the CUDA kernel (resolve.cu). The rules are in the project's semantics page; in short:
 *
 *   - one call is one transaction: all queries of one request, of one selection, of one step;
 *   - every row is looked up against the state before the call; only then do the distinct misses take victims, in order of first
 *     appearance;
 *   - -1 and padding touch nothing; a row at or past the query's boundary, or uncommitted and not in scratch, is a violation: address -1;
 *   - a victim is the slot with the smallest (stamp, slot) not used in this transaction and not pinned; no victim left: overflow scratch.
 */
#ifndef KVL_KERNELS_RESOLVE_H
#define KVL_KERNELS_RESOLVE_H

#include <stddef.h>
#include <stdint.h>

#include "backend/base/ids.h"

/* Look-up order: the first tier that holds the row wins. KVL_TIER_PAGE is reported as "borrowed". */
enum kvl_tier { KVL_TIER_SCRATCH, KVL_TIER_TAIL, KVL_TIER_PAGE, KVL_TIER_BANK, KVL_TIER_HOT, KVL_TIER_HOST, KVL_TIERS };

/* Victim choice in the hot cache. LRU is the product; the others are for comparison in the simulator (reference only). */
enum kvl_evict { KVL_EVICT_LRU, KVL_EVICT_FIFO, KVL_EVICT_RANDOM };

/* What is the same for a cache in every request. Rows are counted in this cache's rows. */
struct kvl_cache_geometry {
  uint32_t page_shift;        /* log2 of rows per page */
  uint32_t hot_rows;          /* 0 is legal: every miss goes to overflow */
  uint32_t bank_rows;
  uint32_t tail_rows;         /* capacity; commit returns -ENOSPC past it */
  uint32_t scratch_rows;
  uint32_t frame_stride_rows; /* from one frame to the next in the arena */
  uint32_t frame_offset_rows; /* where this cache's rows begin in a frame */
  enum kvl_evict evict;
};

/* Arena addresses of one request's private areas, and of the frames (common to all requests). */
struct kvl_cache_bases {
  kvl_addr frames, hot, bank, tail, scratch, overflow;
};

/* Selected rows of one query: `boundary` rows may be seen, rows[0..n) may hold -1 anywhere. */
struct kvl_query {
  kvl_row boundary;
  uint32_t n;
  const kvl_row *rows;
};

struct kvl_resolve_counts {
  uint64_t lanes[KVL_TIERS]; /* selected rows by tier, duplicates counted each time; -1 counts nowhere */
  uint64_t violations;
  uint64_t fetched;          /* distinct rows brought from the host, overflow included */
  uint64_t overflow;         /* of those, rows that found no victim */
};

/* One row to bring from the host, in order of first appearance. */
struct kvl_fetch {
  kvl_row row;
  kvl_addr to;
};

#endif
