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
  } cache[KVL_REFDEV_CACHES];
  uint32_t points;
  struct {
    uint32_t cache, k;
  } point[KVL_REFDEV_POINTS];
  uint32_t hot_rows, bank_rows, tail_tokens;
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

/* Selected rows of the item's query at a point. */
typedef uint32_t kvl_rows_fn(void *context, kvl_request slot, uint32_t point, const int32_t **rows);
/* Called after each resolve, before the next: rows fetched and the addresses of all lanes. Optional. */
typedef void kvl_resolved_fn(void *context, kvl_request slot, uint32_t point, const int32_t *rows, const kvl_addr *addresses, uint32_t lanes,
                             const struct kvl_fetch *fetches, uint32_t fetch_count);

/* One request's part of a step: resolves all points in order, then commits the token the step adds. counts: one per point, added to. May run on
 * several threads at once for different slots; `thread` < config.threads. */
void kvl_refdev_item(struct kvl_refdev *dev, uint32_t thread, const struct kvl_step_item *item, kvl_rows_fn *rows, kvl_resolved_fn *resolved,
                     void *context, struct kvl_resolve_counts *counts);

const struct kvl_refdev_config *kvl_refdev_config_of(const struct kvl_refdev *dev);
uint64_t kvl_refdev_arena_bytes(const struct kvl_refdev *dev); /* frames and private areas */
kvl_addr kvl_refdev_tail_addr(const struct kvl_refdev *dev, kvl_request slot, uint32_t cache, kvl_row row); /* -1: not in the tail */
int kvl_refdev_verify(struct kvl_refdev *dev, struct kvl_err *err);

#endif
