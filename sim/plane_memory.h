/* What the host plane takes of the machine's memory, known before it takes any. */
#ifndef KVL_SIM_PLANE_MEMORY_H
#define KVL_SIM_PLANE_MEMORY_H

#include "backend/base/err.h"
#include "backend/refdev.h"
#include "sim/model.h"

/* Arenas of all decode GPUs, and the histories of as many sessions as a closed loop keeps on the node (other arrivals: of one). `device`: a GPU's, with its slots and frames; tokens_max:
 * longest request; available: bytes (kvl_memory_available). -ENOMEM and a line with what is wanted, what is there and the keys that bound it; -EINVAL: a device
 * that cannot be (kvl_layout_init). A batch slot keeps its history's memory, so slots of several GPUs and arrivals in bursts may take more: kvl_bytes_open looks
 * again before each. */
int kvl_plane_memory_check(const struct kvl_scenario *scenario, const struct kvl_refdev_config *device, uint32_t tokens_max, uint64_t available, struct kvl_err *err);

#endif
