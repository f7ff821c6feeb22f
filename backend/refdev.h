/* The reference device: the requests' device state of one GPU, kept by the C reference of resolve. The model and host planes run their steps
 * through it. Not the policy: it decides nothing, it looks rows up and replaces hot rows as the kernel would. */
#ifndef KVL_BACKEND_REFDEV_H
#define KVL_BACKEND_REFDEV_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/err.h"
#include "backend/plane.h"
#include "kernels/resolve.h"

enum { KVL_REFDEV_CACHES = 128, KVL_REFDEV_POINTS = 128 };

struct kvl_refdev_config {
  uint32_t slots;          /* batch slots */
  uint32_t frames;
  uint64_t page_bytes;     /* one frame */
  uint32_t page_tokens;    /* a power of two */
  uint32_t caches;
  struct {
    uint32_t tokens_per_row, row_bytes;
    uint32_t parts;        /* layers that each have their own part of the row, row_bytes / parts bytes one after the other; 0 counts as 1 */
    bool bank;             /* has a bank of bank_rows rows: a pool is announced for it */
  } cache[KVL_REFDEV_CACHES];
  uint32_t points;
  struct {
    uint32_t cache, k;
    uint32_t selection;    /* whose rows it has; points of one selection after the first resolve its rows again (layer sharing off) */
  } point[KVL_REFDEV_POINTS];
  uint32_t hot_rows, bank_rows, tail_tokens;
  const struct kvl_stage *stages; /* what a step does, in order (backend/stages.h); copied */
  uint32_t stage_count;
  uint32_t pool_blocks, pool_rows_per_block; /* most blocks of a query's pool, where KVL_STAGE_ANNOUNCE is among the stages */
  uint32_t pool_rows_max;  /* rows announced of all an item's pools together (backend/pool_rows.h); 0: no limit */
  enum kvl_evict evict;
  uint32_t queries_max;    /* of an item; 0 counts as 1 */
  uint32_t threads;        /* that call kvl_refdev_item */
  uint64_t seed;           /* of random eviction */
};

struct kvl_refdev;

/* -EINVAL: row sizes that do not divide the frame, or an arena past the 31-bit address space; -ENOMEM. */
int kvl_refdev_create(struct kvl_refdev **dev, const struct kvl_refdev_config *config, struct kvl_err *err);
void kvl_refdev_destroy(struct kvl_refdev *dev);

/* State for a request of `tokens` tokens; whole pages are on the host, the rest goes to the tail. */
int kvl_refdev_open(struct kvl_refdev *dev, kvl_request slot, uint32_t tokens, struct kvl_err *err);
void kvl_refdev_close(struct kvl_refdev *dev, kvl_request slot);

/* What a step asks of its owner, and tells it, item by item and in the order of the stages. Rows and addresses are valid during the call. `rows` and, with
 * a pool, `pool` must be there; the others move and compare real bytes and may be NULL. */
struct kvl_refdev_hooks {
  /* Selected rows of a query: at most the point's k, distinct, or -1. */
  uint32_t (*rows)(void *context, kvl_request slot, uint32_t selection, uint32_t query, const int32_t **rows);
  /* Blocks of a query's candidate pool, ascending; they cover what the query selected at the announcing layer, whose addresses are still being read. */
  uint32_t (*pool)(void *context, kvl_request slot, uint32_t query, const int32_t **blocks);
  /* Rows [first, first + count) of the cache are computed and lie in the scratch. */
  void (*written)(void *context, const struct kvl_step_item *item, uint32_t cache, kvl_row first, uint32_t count);
  /* Rows to bring from the host now. With parts that follow later (KVL_STAGE_REPLAY), part 0 only. */
  void (*fetch)(void *context, kvl_request slot, uint32_t cache, const struct kvl_fetch *fetches, uint32_t count);
  /* Copies that begin now and run beside what follows: of a pool's rows, or of the parts of a point's fetched rows. */
  void (*announced)(void *context, kvl_request slot, uint32_t cache, const struct kvl_fetch *copies, uint32_t count);
  void (*landed)(void *context, kvl_request slot, const struct kvl_stage *stage); /* KVL_STAGE_WAIT: those of the cache, or of one part, are complete */
  /* A layer reads: the lanes of all queries, one after the other. */
  void (*read)(void *context, const struct kvl_step_item *item, const struct kvl_stage *stage, const int32_t *rows, const kvl_addr *addresses,
               uint32_t lanes);
  /* The step's accepted rows are in the tail now. */
  void (*committed)(void *context, const struct kvl_step_item *item);
};

/* Sums over items, added to; one a thread. */
struct kvl_refdev_counts {
  struct kvl_resolve_counts point[KVL_REFDEV_POINTS];
  uint64_t shared_lanes;
  uint64_t announced_runs;        /* contiguous host rows among the copies of the pool: one transfer each */
  struct kvl_prefetch prefetch;   /* of the pool; without what only a clock knows: groups, landed, link_ns, margin_ns, wait_ns */
};

/* One request's part of a step: all stages in order, then its accepted tokens become history. May run on several threads at once for different slots;
 * `thread` < config.threads. Each item at most once a step. */
void kvl_refdev_item(struct kvl_refdev *dev, uint32_t thread, const struct kvl_step_item *item, const struct kvl_refdev_hooks *hooks, void *context,
                     struct kvl_refdev_counts *counts);

/* After all items: what each row that they copied into the bank cost on the link; counted as wasted when the row goes without having been named. */
void kvl_refdev_price_copies(struct kvl_refdev *dev, const struct kvl_step_item *items, uint32_t count, uint32_t row_ns);
/* Copied rows of requests closed since the last call that nobody had named: `unused` and `unused_link_ns` are added to. */
void kvl_refdev_given_up(struct kvl_refdev *dev, struct kvl_prefetch *prefetch);

const struct kvl_refdev_config *kvl_refdev_config_of(const struct kvl_refdev *dev);
uint64_t kvl_refdev_arena_bytes(const struct kvl_refdev *dev); /* frames and private areas */
kvl_addr kvl_refdev_tail_addr(const struct kvl_refdev *dev, kvl_request slot, uint32_t cache, kvl_row row); /* -1: not in the tail */
kvl_addr kvl_refdev_scratch_addr(const struct kvl_refdev *dev, kvl_request slot, uint32_t cache, uint32_t place);
const struct kvl_cache *kvl_refdev_cache(const struct kvl_refdev *dev, kvl_request slot, uint32_t cache); /* for tests: state of an open slot */
int kvl_refdev_verify(struct kvl_refdev *dev, struct kvl_err *err);

#endif
