// What a launch asks of the current device, once a device; and how a launch ended. Included by kernels/*.cu only.
#ifndef KVL_KERNELS_DEVICE_CUH
#define KVL_KERNELS_DEVICE_CUH

#include <cuda_runtime.h>

#include <cerrno>
#include <cstdint>

namespace {

struct device_size {
  uint32_t multiprocessors;
  bool clusters;
};

// 0 multiprocessors: the device did not answer.
inline device_size current_device()
{
  static device_size known[64];
  int device = 0;
  int multiprocessors = 0;
  int major = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device < 0 || device >= 64) {
    return device_size{0, false};
  }
  if (known[device].multiprocessors == 0) {
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
      return device_size{0, false};
    }
    known[device] = device_size{(uint32_t)multiprocessors, major >= 9};
  }
  return known[device];
}

inline int launched()
{
  return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}

} // namespace

#endif
