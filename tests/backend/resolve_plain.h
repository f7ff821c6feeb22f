/* Resolve and announce over the arrays that a GPU works on (struct kvl_resolve_entry), written from the rules alone, one row at a time: for the device
 * without a GPU (gpu_host.c). Slow. Also moves the bytes, as the kernels do. */
#ifndef KVL_TESTS_BACKEND_RESOLVE_PLAIN_H
#define KVL_TESTS_BACKEND_RESOLVE_PLAIN_H

#include "kernels/resolve_batch.h"

kvl_resolve_batch_fn resolve_plain;
kvl_announce_batch_fn announce_plain, end_group_plain;

#endif
