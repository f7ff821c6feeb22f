/* The CUDA plane for a scenario: what a step works on comes from here (selections, pools, compute times), the rest is backend/plane_cuda.h. */
#ifndef KVL_SIM_PLANE_REAL_H
#define KVL_SIM_PLANE_REAL_H

#include "sim/plane_model.h"

/* `config` as for the model plane; threads and bytes are not looked at. Errors: kvl_plane_cuda_create's, and -EINVAL of kvl_plane_setup_init. */
int kvl_plane_real_create(struct kvl_plane **plane, const struct kvl_plane_model_config *config, struct kvl_err *err);

/* Estimates of a plane of this kind: its times are real, but the compute that the stand-in layers take is the cost profile's. */
unsigned kvl_plane_real_estimates(const struct kvl_plane_model_config *config);

#endif
