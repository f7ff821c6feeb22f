// Writes a list of words (pokes.h), one a thread.
#include <cuda_runtime.h>

#include <cerrno>

#include "kernels/pokes.h"

namespace {

constexpr uint32_t NT = 256;

__global__ void __launch_bounds__(NT) pokes_kernel(const kvl_pokes p)
{
  const uint32_t count = min(*p.count, p.pokes_max);
  for (uint32_t i = blockIdx.x * NT + threadIdx.x; i < count; i += gridDim.x * NT) {
    p.base[p.poke[i].word] = p.poke[i].value;
  }
}

} // namespace

extern "C" int kvl_pokes_cuda(const struct kvl_pokes *pokes, void *context)
{
  if (pokes->pokes_max == 0) {
    return 0;
  }
  pokes_kernel<<<min((pokes->pokes_max + NT - 1) / NT, 512u), NT, 0, (cudaStream_t)context>>>(*pokes);
  return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}
