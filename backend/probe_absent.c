/* The probe where a build has no CUDA toolkit: it says what is missing. */
#include <errno.h>
#include <stddef.h>

#include "backend/probe.h"

int kvl_probe_run(struct kvl_probe *probe, const struct kvl_probe_config *config, struct kvl_err *err)
{
  (void)config;
  *probe = (struct kvl_probe){.point = NULL};
  return kvl_err_set(err, -ENOSYS, "this build cannot measure a GPU: nvcc or the static CUDA runtime was missing when it was configured");
}
