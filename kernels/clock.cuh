// The GPU's global timer, and time stamps of a launch. Included by kernels/*.cu only.
#ifndef KVL_KERNELS_CLOCK_CUH
#define KVL_KERNELS_CLOCK_CUH

#include <cstdint>

namespace {

__device__ __forceinline__ uint64_t now_ns()
{
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// By one thread a block; `stamp` may be NULL.
__device__ __forceinline__ void stamp_first(uint64_t *stamp)
{
  if (stamp != nullptr) {
    atomicMin((unsigned long long *)stamp, (unsigned long long)now_ns());
  }
}

__device__ __forceinline__ void stamp_last(uint64_t *stamp)
{
  if (stamp != nullptr) {
    atomicMax((unsigned long long *)stamp + 1, (unsigned long long)now_ns());
  }
}

__device__ __forceinline__ void stamp_both(uint64_t *stamp) // a moment that is neither the launch's first nor its last
{
  if (stamp != nullptr) {
    unsigned long long now = now_ns();
    atomicMin((unsigned long long *)stamp, now);
    atomicMax((unsigned long long *)stamp + 1, now);
  }
}

} // namespace

#endif
