// SPDX-License-Identifier: Apache-2.0
// CUDA C++ on the CPU, for tests of edits: threads of a block are fibers, blocks run one after another.
//
// What it is strict about, since a card would only sometimes show it: reads and writes past the end of an
// allocation (a page that is not there follows it), indices past the end of an array and misaligned vectors (the
// sanitizers it is built with), launches beyond the card's limits, barriers that a thread of the block has left
// out, warp functions whose mask names a lane that has exited. The order of threads and blocks is drawn from
// HOST_CUDA_ORDER, so that what rests on one order differs between two runs. What is no template stands in
// ../runtime.cpp, which is compiled once for all programs; this header once too, with whatever they include.
#ifndef HOST_CUDA_RUNTIME
#define HOST_CUDA_RUNTIME

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __grid_constant__
#define __builtin_align__(n) alignas(n)
#define CUDA_VERSION 13000
#define CUDART_VERSION 13000
#define __CUDA_ARCH__ 900
#define warpSize 32

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 { unsigned x, y, z; };
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// ---- vectors -------------------------------------------------------------------------------------------------

#define HOST_CUDA_VECTOR(type, name, align2, align4)                                                       \
  struct name##1 { type x; };                                                                              \
  struct alignas(align2) name##2 { type x, y; };                                                           \
  struct name##3 { type x, y, z; };                                                                        \
  struct alignas(align4) name##4 { type x, y, z, w; };                                                     \
  inline name##1 make_##name##1(type x) { return {x}; }                                                    \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                         \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                              \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
HOST_CUDA_VECTOR(signed char, char, 2, 4)
HOST_CUDA_VECTOR(unsigned char, uchar, 2, 4)
HOST_CUDA_VECTOR(short, short, 4, 8)
HOST_CUDA_VECTOR(unsigned short, ushort, 4, 8)
HOST_CUDA_VECTOR(int, int, 8, 16)
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
struct uint1 { unsigned x; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint1 make_uint1(unsigned x) { return {x}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
HOST_CUDA_VECTOR(long long, longlong, 16, 16)
HOST_CUDA_VECTOR(unsigned long long, ulonglong, 16, 16)
HOST_CUDA_VECTOR(float, float, 8, 16)
HOST_CUDA_VECTOR(double, double, 16, 16)

// ---- fibers --------------------------------------------------------------------------------------------------

namespace host_cuda {

[[noreturn]] void fail(const char* format, ...);
// Another fiber's turn.
void yield();
// Waits for the block's other threads; how many of them gave a predicate that holds.
int barrier(int predicate);
// Of the block's threads: how many there are, how many of them have not exited, this one's number, and in its warp.
unsigned threads();
int alive();
unsigned rank();
unsigned lane();

// One warp function that lanes of one mask meet in; lanes that have exited are not waited for.
struct Meeting {
  unsigned arrived = 0;
  unsigned generation = 0;
  unsigned there[2] = {0, 0};
  unsigned char values[2][32][16];
};
// The meeting of the lanes of `mask`, after this lane gave its value and all came; `mine` is its generation.
const Meeting& meet(unsigned mask, const void* value, std::size_t bytes, unsigned& mine);

// The values of lanes that met, and which lanes those are.
template <class T>
struct Met {
  T value[32];
  unsigned lanes;
};

// The lanes of `mask` give a value each; all of them get all values.
template <class T>
const Met<T>& meet(unsigned mask, const T& value) {
  static_assert(sizeof(T) <= 16, "a value of a lane has at most 16 bytes");
  unsigned mine;
  const Meeting& meeting = meet(mask, &value, sizeof(T), mine);
  static Met<T> met;
  for (int i = 0; i < 32; i++) std::memcpy(static_cast<void*>(&met.value[i]), meeting.values[mine & 1][i], sizeof(T));
  met.lanes = meeting.there[mine & 1];
  return met;
}

// What each thread of a launch calls.
struct Body {
  void (*call)(void*);
  void* with;
};

struct Configured {
  dim3 grid, shape;
  std::size_t shared = 0;
  void operator()(Body body) const;
};

template <class A, class B>
Configured configure(A grid, B shape, std::size_t shared = 0, const void* = nullptr) { return {dim3(grid), dim3(shape), shared}; }

// The body of a launch, whatever its argument list is called by.
struct Launcher {
  Configured how;
  template <class F>
  void operator=(F body) const { how(Body{[](void* with) { (*static_cast<F*>(with))(); }, &body}); }
};

extern std::size_t dynamic_limit;
alignas(1024) extern unsigned char dynamic_shared[];

}  // namespace host_cuda

// ---- the runtime's functions ---------------------------------------------------------------------------------

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorInvalidConfiguration = 9, cudaErrorNotReady = 600 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
struct cudaFuncAttributes { std::size_t sharedSizeBytes = 0; };
using cudaStream_t = void*;
struct host_cuda_event {};
using cudaEvent_t = host_cuda_event*;
constexpr unsigned cudaMemAttachGlobal = 1, cudaHostAllocDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2;
struct cudaDeviceProp {
  char name[256] = "host";
  int major = 9, minor = 0, multiProcessorCount = 132, maxThreadsPerBlock = 1024, warpSize_ = 32, maxThreadsPerMultiProcessor = 2048;
  int maxGridSize[3] = {2147483647, 65535, 65535}, maxThreadsDim[3] = {1024, 1024, 64};
  std::size_t sharedMemPerBlock = 48 << 10, sharedMemPerBlockOptin = 227 << 10, totalGlobalMem = std::size_t(64) << 30, totalConstMem = 65536;
  int regsPerBlock = 65536, l2CacheSize = 50 << 20;
};

namespace host_cuda {
extern cudaError_t last;
cudaError_t allocate(void** out, std::size_t bytes);
cudaError_t release(void* pointer);
}  // namespace host_cuda

template <class T> cudaError_t cudaMalloc(T** out, std::size_t bytes) { return host_cuda::allocate(reinterpret_cast<void**>(out), bytes); }
template <class T> cudaError_t cudaMallocManaged(T** out, std::size_t bytes, unsigned = 1) { return cudaMalloc(out, bytes); }
template <class T> cudaError_t cudaMallocHost(T** out, std::size_t bytes, unsigned = 0) { return cudaMalloc(out, bytes); }
template <class T> cudaError_t cudaHostAlloc(T** out, std::size_t bytes, unsigned) { return cudaMalloc(out, bytes); }
template <class T> cudaError_t cudaMallocAsync(T** out, std::size_t bytes, cudaStream_t) { return cudaMalloc(out, bytes); }
template <class T> cudaError_t cudaMallocPitch(T** out, std::size_t* pitch, std::size_t width, std::size_t height) { *pitch = (width + 511) / 512 * 512; return cudaMalloc(out, *pitch * height); }
inline cudaError_t cudaFree(void* p) { return host_cuda::release(p); }
inline cudaError_t cudaFreeHost(void* p) { return host_cuda::release(p); }
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return host_cuda::release(p); }
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) { std::memmove(to, from, bytes); return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t = nullptr) { std::memmove(to, from, bytes); return cudaSuccess; }
inline cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height, cudaMemcpyKind) {
  for (std::size_t row = 0; row < height; row++) std::memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) { std::memset(to, value, bytes); return cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t = nullptr) { return cudaMemset(to, value, bytes); }
template <class T> cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, std::size_t bytes, std::size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice) { std::memcpy(reinterpret_cast<char*>(&symbol) + offset, from, bytes); return cudaSuccess; }
template <class T> cudaError_t cudaMemcpyFromSymbol(void* to, T& symbol, std::size_t bytes, std::size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost) { std::memcpy(to, reinterpret_cast<char*>(&symbol) + offset, bytes); return cudaSuccess; }
template <class T> cudaError_t cudaGetSymbolAddress(void** out, T& symbol) { *out = const_cast<void*>(static_cast<const void*>(&symbol)); return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaThreadSynchronize() { return cudaSuccess; }
inline cudaError_t cudaDeviceReset() { return cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* d) { *d = 0; return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* d) { *d = 1; return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) { *p = cudaDeviceProp{}; return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int) { *v = a == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 << 10 : 132; return cudaSuccess; }
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { auto e = host_cuda::last; host_cuda::last = cudaSuccess; return e; }
inline cudaError_t cudaPeekAtLastError() { return host_cuda::last; }
inline const char* cudaGetErrorString(cudaError_t e) { return e == cudaSuccess ? "no error" : e == cudaErrorInvalidConfiguration ? "invalid configuration argument" : "error"; }
inline const char* cudaGetErrorName(cudaError_t e) { return cudaGetErrorString(e); }
inline cudaError_t cudaEventCreate(cudaEvent_t* e) { *e = new host_cuda_event; return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return cudaEventCreate(e); }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { *ms = 1.0f; return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) { delete e; return cudaSuccess; }
inline cudaError_t cudaStreamCreate(cudaStream_t* s) { *s = nullptr; return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { *s = nullptr; return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
template <class F> cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute a, int value) {
  if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) host_cuda::dynamic_limit = std::max(host_cuda::dynamic_limit, std::size_t(std::min(value, 227 << 10)));
  return cudaSuccess;
}
template <class F> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, F) { *a = {}; return cudaSuccess; }
template <class F> cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache) { return cudaSuccess; }
template <class F> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int threads, std::size_t) { *blocks = 2048 / std::max(threads, 1); return cudaSuccess; }

// ---- device functions ----------------------------------------------------------------------------------------

inline void __syncthreads() { host_cuda::barrier(0); }
inline int __syncthreads_count(int p) { return host_cuda::barrier(p); }
inline int __syncthreads_or(int p) { return host_cuda::barrier(p) != 0; }
inline int __syncthreads_and(int p) { int live = host_cuda::alive(); return host_cuda::barrier(p) == live; }
inline void __syncwarp(unsigned mask = ~0u) { host_cuda::meet(mask, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) { host_cuda::yield(); }
inline long long clock64() { static long long t; return t += 10; }
inline void __trap() { host_cuda::fail("__trap"); }
// A mask that is always right: threads here never run in step.
inline unsigned __activemask() { return 1u << host_cuda::lane(); }

template <class T> T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  unsigned me = host_cuda::lane(), base = me & ~unsigned(width - 1);
  return host_cuda::meet(mask, value).value[base + (unsigned(from) & unsigned(width - 1))];
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  unsigned me = host_cuda::lane(), from = me ^ unsigned(bits), end = (me & ~unsigned(width - 1)) + unsigned(width);
  const T* all = host_cuda::meet(mask, value).value;
  return all[from < end ? from : me];
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  unsigned me = host_cuda::lane(), from = me + by, end = (me & ~unsigned(width - 1)) + unsigned(width);
  const T* all = host_cuda::meet(mask, value).value;
  return all[from < end ? from : me];
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  unsigned me = host_cuda::lane(), base = me & ~unsigned(width - 1);
  const T* all = host_cuda::meet(mask, value).value;
  return all[me >= base + by ? me - by : me];
}
namespace host_cuda {
template <class T, class F> T reduce(unsigned mask, T value, F both) {
  const Met<T>& all = meet(mask, value);
  T sum = value;
  bool first = true;
  for (int i = 0; i < 32; i++)
    if (all.lanes >> i & 1) { sum = first ? all.value[i] : both(sum, all.value[i]); first = false; }
  return sum;
}
}  // namespace host_cuda
inline unsigned __ballot_sync(unsigned mask, int p) { return host_cuda::reduce(mask, p ? 1u << host_cuda::lane() : 0u, [](unsigned a, unsigned b) { return a | b; }); }
inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }
template <class T> T __reduce_add_sync(unsigned mask, T v) { return host_cuda::reduce(mask, v, [](T a, T b) { return T(a + b); }); }
template <class T> T __reduce_max_sync(unsigned mask, T v) { return host_cuda::reduce(mask, v, [](T a, T b) { return std::max(a, b); }); }
template <class T> T __reduce_min_sync(unsigned mask, T v) { return host_cuda::reduce(mask, v, [](T a, T b) { return std::min(a, b); }); }
template <class T> T __reduce_or_sync(unsigned mask, T v) { return host_cuda::reduce(mask, v, [](T a, T b) { return T(a | b); }); }
template <class T> T __reduce_and_sync(unsigned mask, T v) { return host_cuda::reduce(mask, v, [](T a, T b) { return T(a & b); }); }
template <class T> unsigned __match_any_sync(unsigned mask, T v) {
  const host_cuda::Met<T>& all = host_cuda::meet(mask, v);
  unsigned same = 0;
  for (int i = 0; i < 32; i++) if (all.lanes >> i & 1 && !std::memcmp(&all.value[i], &v, sizeof v)) same |= 1u << i;
  return same;
}

template <class T, class U> T atomicAdd(T* p, U v) { T old = *p; *p = T(old + T(v)); return old; }
template <class T, class U> T atomicSub(T* p, U v) { T old = *p; *p = T(old - T(v)); return old; }
template <class T, class U> T atomicMax(T* p, U v) { T old = *p; *p = std::max(old, T(v)); return old; }
template <class T, class U> T atomicMin(T* p, U v) { T old = *p; *p = std::min(old, T(v)); return old; }
template <class T, class U> T atomicExch(T* p, U v) { T old = *p; *p = T(v); return old; }
template <class T, class U> T atomicAnd(T* p, U v) { T old = *p; *p = old & T(v); return old; }
template <class T, class U> T atomicOr(T* p, U v) { T old = *p; *p = old | T(v); return old; }
template <class T, class U> T atomicXor(T* p, U v) { T old = *p; *p = old ^ T(v); return old; }
template <class T, class U, class V> T atomicCAS(T* p, U expected, V v) { T old = *p; if (old == T(expected)) *p = T(v); return old; }
inline unsigned atomicInc(unsigned* p, unsigned v) { unsigned old = *p; *p = old >= v ? 0 : old + 1; return old; }
inline unsigned atomicDec(unsigned* p, unsigned v) { unsigned old = *p; *p = old == 0 || old > v ? v : old - 1; return old; }
#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd

template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldca(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> T __ldlu(const T* p) { return *p; }
template <class T> T __ldcv(const T* p) { return *p; }
template <class T> void __stcs(T* p, T v) { *p = v; }
template <class T> void __stcg(T* p, T v) { *p = v; }
template <class T> void __stwb(T* p, T v) { *p = v; }
template <class T> void __stwt(T* p, T v) { *p = v; }

template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) { using T = std::common_type_t<A, B>; return T(b) < T(a) ? T(b) : T(a); }
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) { using T = std::common_type_t<A, B>; return T(a) < T(b) ? T(b) : T(a); }
using std::isfinite; using std::isinf; using std::isnan; using std::signbit;

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0f, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __saturatef(float x) { return std::fmin(1.0f, std::fmax(0.0f, x)); }
inline float exp10f_(float x) { return std::pow(10.0f, x); }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678f); }
inline double sinpi(double x) { return std::sin(std::fmod(x, 2.0) * 3.14159265358979323846); }
inline double cospi(double x) { return std::cos(std::fmod(x, 2.0) * 3.14159265358979323846); }
inline float sinpif(float x) { return (float)sinpi(x); }
inline float cospif(float x) { return (float)cospi(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x); *c = cospif(x); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x); *c = cospi(x); }
inline void __sincosf(float x, float* s, float* c) { *s = std::sin(x); *c = std::cos(x); }
inline float rhypotf(float x, float y) { return 1.0f / std::hypot(x, y); }
inline float norm3df(float x, float y, float z) { return std::sqrt(x * x + y * y + z * z); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) { unsigned r = 0; for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i); return r; }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned long long both = (unsigned long long)b << 32 | a; unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= unsigned(both >> ((s >> 4 * i & 7) * 8) & 0xff) << 8 * i;
  return r;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned by) { by &= 31; return by ? hi << by | lo >> (32 - by) : hi; }
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned by) { by &= 31; return by ? lo >> by | hi << (32 - by) : lo; }
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __umul24(unsigned a, unsigned b) { return a * b; }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned __sad(int a, int b, unsigned c) { return unsigned(std::abs(a - b)) + c; }
inline int __dp4a(int a, int b, int c) { for (int i = 0; i < 4; i++) c += int((signed char)(a >> 8 * i)) * int((signed char)(b >> 8 * i)); return c; }
template <class To, class From> To host_cuda_bits(From from) { static_assert(sizeof(To) == sizeof(From)); To to; std::memcpy(&to, &from, sizeof to); return to; }
inline int __float_as_int(float x) { return host_cuda_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return host_cuda_bits<unsigned>(x); }
inline float __int_as_float(int x) { return host_cuda_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return host_cuda_bits<float>(x); }
inline long long __double_as_longlong(double x) { return host_cuda_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return host_cuda_bits<double>(x); }
inline int __float2int_rn(float x) { return int(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return int(x); }
inline int __float2int_rd(float x) { return int(std::floor(x)); }
inline unsigned __float2uint_rn(float x) { return unsigned(std::nearbyint(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline std::size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<std::size_t>(p); }
#define CUDART_INF_F INFINITY
#define CUDART_INF INFINITY
#define CUDART_PI_F 3.141592654f

#define HOST_CUDA_DYNAMIC(type) reinterpret_cast<type*>(host_cuda::dynamic_shared)

#endif
