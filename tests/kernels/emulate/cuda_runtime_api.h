/* The part of CUDA's host interface that the kernels' launches and tests/kernels/gpu.c use, for kernels that run on the CPU: memory is memory,
 * copies and launches are done when they return, a graph has run when it was captured. */
#ifndef KVL_TESTS_EMULATE_CUDA_RUNTIME_API_H
#define KVL_TESTS_EMULATE_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { cudaSuccess, cudaErrorMemoryAllocation } cudaError_t;
typedef void *cudaStream_t, *cudaGraph_t, *cudaGraphExec_t;
typedef enum { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive } cudaStreamCaptureStatus;
enum { cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2 };
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum { cudaStreamCaptureModeThreadLocal };
enum { cudaDevAttrComputeCapabilityMajor, cudaDevAttrMultiProcessorCount };
#define cudaStreamLegacy ((cudaStream_t)0)
struct cudaDeviceProp {
  char name[64];
  int multiProcessorCount;
};

/* The device that is asked and launched on: 0 to 3; clusters of up to 1 << emulated_device blocks. */
extern int emulated_device;
extern int emulated_capturing;
extern uint64_t emulated_clusters[9]; /* clusters that have run, by their blocks */
void emulated_seed(uint64_t seed);

static inline const char *cudaGetErrorString(cudaError_t e) { return e == cudaSuccess ? "no error" : "out of memory"; }
static inline cudaError_t cudaGetLastError(void) { return cudaSuccess; }
static inline cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
static inline cudaError_t cudaGetDeviceCount(int *n) { return *n = 1, cudaSuccess; }
static inline cudaError_t cudaGetDevice(int *device) { return *device = emulated_device, cudaSuccess; }
static inline cudaError_t cudaDriverGetVersion(int *v) { return *v = 0, cudaSuccess; }
static inline cudaError_t cudaRuntimeGetVersion(int *v) { return *v = 0, cudaSuccess; }
static inline cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device)
{
  (void)device;
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 132;
  return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
  snprintf(p->name, sizeof p->name, "emulated device %d", device);
  p->multiProcessorCount = 132;
  return cudaSuccess;
}
static inline cudaError_t cudaMalloc(void **p, size_t bytes)
{
  return posix_memalign(p, 256, bytes > 0 ? bytes : 256) == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) { return (void)flags, cudaMalloc(p, bytes); }
static inline cudaError_t cudaFree(void *p) { return free(p), cudaSuccess; }
static inline cudaError_t cudaFreeHost(void *p) { return free(p), cudaSuccess; }
static inline cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags) { return (void)p, (void)bytes, (void)flags, cudaSuccess; }
static inline cudaError_t cudaHostUnregister(void *p) { return (void)p, cudaSuccess; }
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
  (void)kind, (void)stream;
  memmove(to, from, bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
  (void)stream;
  memset(to, value, bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags) { return (void)flags, *s = NULL, cudaSuccess; }
static inline cudaError_t cudaStreamDestroy(cudaStream_t s) { return (void)s, cudaSuccess; }
static inline cudaError_t cudaStreamSynchronize(cudaStream_t s) { return (void)s, cudaSuccess; }
static inline cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, int mode) { return (void)s, (void)mode, emulated_capturing = 1, cudaSuccess; }
static inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) { return (void)s, *g = NULL, emulated_capturing = 0, cudaSuccess; }
static inline cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status)
{
  (void)s;
  *status = emulated_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned flags) { return (void)g, (void)flags, *e = NULL, cudaSuccess; }
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s) { return (void)e, (void)s, cudaSuccess; }
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { return (void)e, cudaSuccess; }
static inline cudaError_t cudaGraphDestroy(cudaGraph_t g) { return (void)g, cudaSuccess; }

#ifdef __cplusplus
}
#endif

#endif
