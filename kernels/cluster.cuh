// Blocks that work together: the cluster's barrier, stores into each other's shared memory (sm_90; one block alone elsewhere), and sums
// over a block. Included by kernels/*.cu only.
#ifndef KVL_KERNELS_CLUSTER_CUH
#define KVL_KERNELS_CLUSTER_CUH

#include <cstdint>

namespace {

struct cluster_barrier { // hardware barrier of the cluster; a block alone needs only its own
  uint32_t blocks;
  __device__ void arrive() const
  {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    }
#endif
  }
  __device__ void wait() const
  {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
      return;
    }
#endif
    __syncthreads();
  }
};

__device__ void store_in_block(uint32_t *shared, uint32_t block, uint32_t value) // to the same variable of another block of the cluster
{
#if __CUDA_ARCH__ >= 900
  uint32_t local = (uint32_t)__cvta_generic_to_shared(shared);
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(block));
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(value) : "memory");
#else
  (void)block;
  *shared = value;
#endif
}

__device__ void flip_in_block(uint32_t *shared, uint32_t block, uint32_t value)
{
#if __CUDA_ARCH__ >= 900
  uint32_t local = (uint32_t)__cvta_generic_to_shared(shared);
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(block));
  asm volatile("red.relaxed.cluster.shared::cluster.xor.b32 [%0], %1;" ::"r"(remote), "r"(value) : "memory");
#else
  (void)block;
  atomicXor(shared, value);
#endif
}

// To the same variable of every block of the cluster, by a whole warp.
__device__ __forceinline__ void add_in_all(uint32_t *shared, uint32_t blocks, uint32_t value)
{
  const uint32_t block = threadIdx.x & 31;
  if (blocks == 1) {
    if (block == 0) {
      atomicAdd(shared, value);
    }
    return;
  }
#if __CUDA_ARCH__ >= 900
  if (block < blocks) {
    uint32_t local = (uint32_t)__cvta_generic_to_shared(shared);
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(block));
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(remote), "r"(value) : "memory");
  }
#endif
}

__device__ void store_in_block(uint2 *shared, uint32_t block, uint2 value)
{
#if __CUDA_ARCH__ >= 900
  uint32_t local = (uint32_t)__cvta_generic_to_shared(shared);
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(block));
  asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};" ::"r"(remote), "r"(value.x), "r"(value.y) : "memory");
#else
  (void)block;
  *shared = value;
#endif
}

// Exclusive prefix sum over the block; *total is the sum. Two barriers.
template <int NT> __device__ uint32_t block_scan(uint32_t value, uint32_t *scan, uint32_t *total)
{
  uint32_t lane = threadIdx.x & 31;
  uint32_t warp = threadIdx.x >> 5;
  uint32_t sum = value;
  for (int d = 1; d < 32; d *= 2) {
    uint32_t below = __shfl_up_sync(~0u, sum, d);
    sum += lane >= (uint32_t)d ? below : 0;
  }
  __syncthreads();
  if (lane == 31) {
    scan[warp] = sum;
  }
  __syncthreads();
  uint32_t base = 0;
  uint32_t all = 0;
  for (int w = 0; w < NT / 32; w++) {
    uint32_t s = scan[w];
    base += (uint32_t)w < warp ? s : 0;
    all += s;
  }
  *total = all;
  return base + sum - value;
}

template <int NT> __device__ uint32_t block_min(uint32_t value, uint32_t *scan)
{
  value = __reduce_min_sync(~0u, value);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) {
    scan[threadIdx.x >> 5] = value;
  }
  __syncthreads();
  for (int w = 0; w < NT / 32; w++) {
    value = min(value, scan[w]);
  }
  return value;
}

} // namespace

#endif
