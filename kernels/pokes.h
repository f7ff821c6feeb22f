/* Small updates of state in device memory, in stream order: page maps (a page lent, revoked, invalidated), scalars of a cache head, places
 * of tail rows. One launch writes a list of 32-bit words. No two pokes of a list may name one word. */
#ifndef KVL_KERNELS_POKES_H
#define KVL_KERNELS_POKES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvl_poke {
  uint64_t word; /* index from the base: state may be larger than 4 GiB */
  uint32_t value;
  uint32_t unused;
};

struct kvl_pokes {
  uint32_t *base;
  const struct kvl_poke *poke; /* [pokes_max] */
  const uint32_t *count;       /* one number, <= pokes_max */
  uint32_t pokes_max;
};

/* `context`: a cudaStream_t; not used by the reference. 0, or -EIO when the launch was refused. */
typedef int kvl_pokes_fn(const struct kvl_pokes *pokes, void *context);
kvl_pokes_fn kvl_pokes_ref;
kvl_pokes_fn kvl_pokes_cuda;

#ifdef __cplusplus
}
#endif

#endif
