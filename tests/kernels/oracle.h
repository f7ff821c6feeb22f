/* A naive oracle of resolve and announce: plain arrays, linear search, no cleverness. Written from the semantics, not from the reference;
 * the model test compares the two after every operation. Slow on purpose. */
#ifndef KVL_TESTS_KERNELS_ORACLE_H
#define KVL_TESTS_KERNELS_ORACLE_H

#include <stdbool.h>

#include "kernels/resolve.h"

struct oracle {
  struct kvl_cache_geometry g;
  struct kvl_cache_bases b;
  const kvl_frame *frame_of_page;
  uint32_t pages;
  kvl_row *hot;        /* slot -> row */
  uint64_t *stamp;     /* slot -> transaction of last use (LRU) or of insertion (FIFO, random) */
  uint64_t *used;      /* slot -> transaction of last use */
  bool *pinned;
  kvl_row *bank;       /* slot -> row */
  kvl_row *tail;       /* place -> row */
  kvl_row committed;
  uint32_t scratch;
  uint64_t seq;
};

void oracle_init(struct oracle *o, const struct kvl_cache_geometry *g, const struct kvl_cache_bases *b);
void oracle_deinit(struct oracle *o);
int oracle_load(struct oracle *o, kvl_row committed);
int oracle_scratch(struct oracle *o, uint32_t rows);
int oracle_commit(struct oracle *o, uint32_t rows);
int oracle_written_back(struct oracle *o, uint32_t rows);

/* Random eviction has no single right victim: `told` is what the reference chose (its fetch list), checked for being allowed and then
 * followed; returns false when a choice was not allowed. NULL, and always true, for LRU and FIFO. */
bool oracle_resolve(struct oracle *o, const struct kvl_query *queries, uint32_t query_count, const struct kvl_fetch *told,
                    uint32_t told_count,
                    kvl_addr *addresses, struct kvl_fetch *fetches, uint32_t *fetch_count, struct kvl_resolve_counts *counts);
void oracle_announce(struct oracle *o, const struct kvl_query *pools, uint32_t pool_count, struct kvl_fetch *copies, uint32_t *copy_count,
                     kvl_row *dropped, uint32_t *drop_count);
void oracle_end_group(struct oracle *o);

#endif
