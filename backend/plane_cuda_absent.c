/* The CUDA plane where a build has no CUDA toolkit: it says what is missing. */
#include <errno.h>

#include "backend/plane_cuda.h"

int kvl_plane_cuda_create(struct kvl_plane **plane, const struct kvl_plane_cuda_config *config, struct kvl_err *err)
{
  (void)config;
  *plane = NULL;
  return kvl_err_set(err, -ENOSYS, "this build has no CUDA plane: nvcc or the static CUDA runtime was missing when it was configured (--plane=host "
                                   "moves real bytes without a GPU)");
}
