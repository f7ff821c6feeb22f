/* Where everything of a decode GPU lies in its arena: the frames first, then each batch slot's private areas. The reference device and the CUDA plane
 * share it, so that an address means the same to both. */
#ifndef KVL_BACKEND_LAYOUT_H
#define KVL_BACKEND_LAYOUT_H

#include "backend/refdev.h"

struct kvl_layout {
  struct kvl_cache_geometry geometry[KVL_REFDEV_CACHES];
  struct kvl_cache_bases offset[KVL_REFDEV_CACHES]; /* within a slot's private area, in rows of the cache */
  uint32_t k_max[KVL_REFDEV_CACHES];                /* of the points of a cache */
  uint64_t private_base;                            /* byte offset of slot 0's private area: after the frames */
  uint64_t private_bytes;                           /* of one slot: hot, bank, tail, scratch and overflow rows of all caches */
  uint64_t arena_bytes;
};

/* -EINVAL: row sizes that do not divide the frame, or an arena past the 31-bit address space. */
int kvl_layout_init(struct kvl_layout *layout, const struct kvl_refdev_config *config, struct kvl_err *err);

/* Addresses of a slot's areas of one cache. */
void kvl_layout_bases(const struct kvl_layout *layout, const struct kvl_refdev_config *config, kvl_request slot, uint32_t cache,
                      struct kvl_cache_bases *bases);

#endif
