/* CUDA's words for kernels that run on the CPU (machine.cpp): every thread a fiber, all in one thread of the process, switched where CUDA's threads
 * meet - warp operations, barriers - and now and then at an atomic operation, in an order that a seed decides. What is not CUDA, aborts with its place:
 * threads that wait for each other for ever, a barrier reached from two places, stores into a block that has not begun or has ended. */
#ifndef KVL_TESTS_EMULATE_CUDA_RUNTIME_H
#define KVL_TESTS_EMULATE_CUDA_RUNTIME_H

#include "tests/kernels/emulate/cuda_runtime_api.h"

#ifdef __cplusplus

#include <type_traits>

#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__

struct uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) int4 {
  int32_t x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return uint4{x, y, z, w}; }
inline int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w) { return int4{x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return ulonglong2{x, y}; }
struct dim3 {
  uint32_t x, y, z;
  dim3(uint32_t a = 1, uint32_t b = 1, uint32_t c = 1) : x(a), y(b), z(c) {}
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim; // of the fiber that runs

namespace emulated {

struct place {
  const char *file;
  int line;
  bool operator==(const place &o) const { return line == o.line && file == o.file; }
};
#define HERE emulated::place here = {__builtin_FILE(), __builtin_LINE()}

// machine.cpp
void run(dim3 grid, dim3 block, uint32_t cluster, size_t dynamic, void (*body)(void *), void *arg);
void *shared_at(int id, size_t bytes, size_t align);
void *dynamic_shared();
uint32_t shared_address(const void *p);
void give_way();     // lets others run
void now_and_then(); // sometimes
void sync_block(place here);
enum warp_kind { SYNC, BALLOT, MATCH, SHUFFLE, SUM, LEAST };
uint64_t warp(warp_kind kind, uint32_t mask, uint64_t value, uint32_t from, place here);

template <int ID, typename T> T &shared() { return *static_cast<T *>(shared_at(ID, sizeof(T), alignof(T))); }

template <typename F> void run_with(dim3 grid, dim3 block, uint32_t cluster, size_t dynamic, F f)
{
  run(grid, block, cluster, dynamic, [](void *arg) { (*static_cast<F *>(arg))(); }, &f);
}
template <typename... P> auto launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t dynamic = 0, cudaStream_t = nullptr)
{
  return [=](P... a) { run_with(grid, block, 1, dynamic, [&]() { kernel(a...); }); };
}

struct operand {
  const void *at;
  size_t bytes;
  template <typename T> operand(T &&x) : at(&x), bytes(sizeof x) {}
  uint64_t get() const;
  void set(uint64_t value) const;
};
void instruction(const char *text, const operand *operands, int count, place here);
struct text_here { // an instruction and where it stands
  const char *text;
  place at;
  text_here(const char *t, HERE) : text(t), at(here) {}
};
template <typename... A> void ptx(text_here t, A &&...a)
{
  const operand list[sizeof...(A) + 1] = {operand(a)..., operand(0)};
  instruction(t.text, list, (int)sizeof...(A), t.at);
}

} // namespace emulated

struct cudaLaunchAttribute {
  int id;
  struct {
    dim3 clusterDim;
    int programmaticStreamSerializationAllowed;
  } val;
};
enum { cudaLaunchAttributeClusterDimension = 1, cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};
template <typename... P, typename... A> cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*kernel)(P...), A &&...a)
{
  uint32_t cluster = 1;
  for (unsigned i = 0; i < c->numAttrs; i++) {
    cluster = c->attrs[i].id == cudaLaunchAttributeClusterDimension ? c->attrs[i].val.clusterDim.x : cluster;
  }
  emulated::run_with(c->gridDim, c->blockDim, cluster, c->dynamicSmemBytes, [&]() { kernel(a...); });
  return cudaSuccess;
}
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
enum { cudaSharedmemCarveoutMaxShared = 100 };
template <typename F> cudaError_t cudaFuncSetAttribute(F, int, int) { return cudaSuccess; }
template <typename F> cudaError_t cudaOccupancyMaxActiveClusters(int *n, F, const cudaLaunchConfig_t *c)
{
  *n = c->attrs[0].val.clusterDim.x <= 1u << emulated_device ? 16 : 0;
  return cudaSuccess;
}

template <typename T, typename U> auto min(T a, U b) { return b < a ? (std::common_type_t<T, U>)b : (std::common_type_t<T, U>)a; }
template <typename T, typename U> auto max(T a, U b) { return a < b ? (std::common_type_t<T, U>)b : (std::common_type_t<T, U>)a; }
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __ffs(uint32_t x) { return __builtin_ffs((int)x); }
inline int __clz(uint32_t x) { return x == 0 ? 32 : __builtin_clz(x); }
template <typename T> T __ldg(const T *p) { return *p; }
template <typename T> T __ldcs(const T *p) { return *p; }
template <typename T> void __stcs(T *p, T v) { *p = v; }
template <typename T> T __ldcg(const T *p) { return emulated::now_and_then(), *p; }
inline size_t __cvta_generic_to_shared(const void *p) { return emulated::shared_address(p); }

template <typename T, typename U, typename F> T emulated_atomic(T *p, U value, F f)
{
  emulated::now_and_then();
  T old = *p;
  *p = f(old, (T)value);
  return old;
}
template <typename T, typename U> T atomicAdd(T *p, U v) { return emulated_atomic(p, v, [](T a, T b) { return (T)(a + b); }); }
template <typename T, typename U> T atomicOr(T *p, U v) { return emulated_atomic(p, v, [](T a, T b) { return (T)(a | b); }); }
template <typename T, typename U> T atomicXor(T *p, U v) { return emulated_atomic(p, v, [](T a, T b) { return (T)(a ^ b); }); }
template <typename T, typename U> T atomicMin(T *p, U v) { return emulated_atomic(p, v, [](T a, T b) { return b < a ? b : a; }); }
template <typename T, typename U> T atomicMax(T *p, U v) { return emulated_atomic(p, v, [](T a, T b) { return a < b ? b : a; }); }

template <typename T> T atomicCAS(T *p, T was, T v) { return emulated_atomic(p, v, [=](T a, T b) { return a == was ? b : a; }); }
inline void __nanosleep(uint32_t) { emulated::give_way(); }

inline void __syncthreads(HERE) { emulated::sync_block(here); }
inline void __syncwarp(uint32_t mask = ~0u, HERE) { emulated::warp(emulated::SYNC, mask, 0, 0, here); }
inline uint32_t __ballot_sync(uint32_t mask, bool p, HERE) { return (uint32_t)emulated::warp(emulated::BALLOT, mask, p, 0, here); }
inline int __any_sync(uint32_t mask, bool p, HERE) { return emulated::warp(emulated::BALLOT, mask, p, 0, here) != 0; }
inline uint32_t __match_any_sync(uint32_t mask, uint32_t v, HERE) { return (uint32_t)emulated::warp(emulated::MATCH, mask, v, 0, here); }
template <typename T> T __shfl_sync(uint32_t mask, T v, uint32_t from, HERE) { return (T)emulated::warp(emulated::SHUFFLE, mask, (uint64_t)v, from & 31, here); }
template <typename T> T __shfl_up_sync(uint32_t mask, T v, uint32_t by, HERE)
{
  uint32_t lane = threadIdx.x & 31;
  return (T)emulated::warp(emulated::SHUFFLE, mask, (uint64_t)v, lane >= by ? lane - by : lane, here);
}
template <typename T> T __shfl_xor_sync(uint32_t mask, T v, uint32_t by, HERE)
{
  return (T)emulated::warp(emulated::SHUFFLE, mask, (uint64_t)v, (threadIdx.x & 31) ^ by, here);
}
inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t v, HERE) { return (uint32_t)emulated::warp(emulated::SUM, mask, v, 0, here); }
inline uint32_t __reduce_min_sync(uint32_t mask, uint32_t v, HERE) { return (uint32_t)emulated::warp(emulated::LEAST, mask, v, 0, here); }

#undef HERE

#endif
#endif
