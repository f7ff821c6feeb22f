// Launches of a graph that overlap (sm_90): one may be set up while the one before it ends; and launches of clusters. Included by kernels/*.cu only.
#ifndef KVL_KERNELS_OVERLAP_CUH
#define KVL_KERNELS_OVERLAP_CUH

#include <cuda_runtime.h>

#include <cstdint>

namespace {

// First of all: until then a launch touches no memory but its own.
__device__ __forceinline__ void await_previous_launch()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next launch may be set up as soon as every block has said so or ended; what it awaits is still this one's end.
__device__ __forceinline__ void allow_next_launch()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Adds to a launch that so many of its blocks, along x, make a cluster.
inline void in_clusters(cudaLaunchConfig_t &config, cudaLaunchAttribute *attributes, uint32_t blocks)
{
  if (blocks > 1) {
    cudaLaunchAttribute &cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = blocks;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
  }
}

// Adds to a launch that it may be set up early, where that serves: outside a graph it saves nothing and the call takes longer.
inline void overlap_previous(cudaLaunchConfig_t &config, cudaLaunchAttribute *attributes)
{
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(config.stream, &capture) == cudaSuccess && capture == cudaStreamCaptureStatusActive) {
    cudaLaunchAttribute &overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
}

} // namespace

#endif
