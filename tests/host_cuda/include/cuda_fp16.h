// SPDX-License-Identifier: Apache-2.0
// Half precision on the CPU: every operation rounds to 16 bits, as on a card.
#pragma once
#include <cuda_runtime.h>

struct __half_raw { unsigned short x; };
struct __half {
  _Float16 v;
  __half() = default;
  __half(float f) : v(_Float16(f)) {}
  __half(double f) : v(_Float16(f)) {}
  __half(int f) : v(_Float16(float(f))) {}
  __half(unsigned f) : v(_Float16(float(f))) {}
  __half(_Float16 f) : v(f) {}
  operator float() const { return float(v); }
  explicit operator int() const { return int(float(v)); }
};
using half = __half;
#define HOST_CUDA_OPERATORS(T)                                                                  \
  inline T operator+(T a, T b) { return T(float(a) + float(b)); }                               \
  inline T operator-(T a, T b) { return T(float(a) - float(b)); }                               \
  inline T operator*(T a, T b) { return T(float(a) * float(b)); }                               \
  inline T operator/(T a, T b) { return T(float(a) / float(b)); }                               \
  inline T operator-(T a) { return T(-float(a)); }                                              \
  inline T& operator+=(T& a, T b) { return a = a + b; }                                         \
  inline T& operator-=(T& a, T b) { return a = a - b; }                                         \
  inline T& operator*=(T& a, T b) { return a = a * b; }                                         \
  inline bool operator<(T a, T b) { return float(a) < float(b); }                               \
  inline bool operator>(T a, T b) { return float(a) > float(b); }                               \
  inline bool operator<=(T a, T b) { return float(a) <= float(b); }                             \
  inline bool operator>=(T a, T b) { return float(a) >= float(b); }                             \
  inline bool operator==(T a, T b) { return float(a) == float(b); }                             \
  inline bool operator!=(T a, T b) { return float(a) != float(b); }                             \
  inline T __hadd(T a, T b) { return a + b; }                                                   \
  inline T __hsub(T a, T b) { return a - b; }                                                   \
  inline T __hmul(T a, T b) { return a * b; }                                                   \
  inline T __hdiv(T a, T b) { return a / b; }                                                   \
  inline T __hneg(T a) { return -a; }                                                           \
  inline T __hfma(T a, T b, T c) { return T(std::fma(float(a), float(b), float(c))); }          \
  inline T __hmax(T a, T b) { return a < b ? b : a; }                                           \
  inline T __hmin(T a, T b) { return b < a ? b : a; }                                           \
  inline T __habs(T a) { return T(std::fabs(float(a))); }                                       \
  inline bool __hgt(T a, T b) { return a > b; }                                                 \
  inline bool __hlt(T a, T b) { return a < b; }                                                 \
  inline bool __hge(T a, T b) { return a >= b; }                                                \
  inline T hexp(T a) { return T(std::exp(float(a))); }                                          \
  inline T hlog(T a) { return T(std::log(float(a))); }                                          \
  inline T hsqrt(T a) { return T(std::sqrt(float(a))); }                                        \
  inline T hrsqrt(T a) { return T(1.0f / std::sqrt(float(a))); }
#define HOST_CUDA_PAIR(T, T2)                                                                   \
  inline T2 operator+(T2 a, T2 b) { return {a.x + b.x, a.y + b.y}; }                            \
  inline T2 operator-(T2 a, T2 b) { return {a.x - b.x, a.y - b.y}; }                            \
  inline T2 operator*(T2 a, T2 b) { return {a.x * b.x, a.y * b.y}; }                            \
  inline T2& operator+=(T2& a, T2 b) { return a = a + b; }                                      \
  inline T2 __hadd2(T2 a, T2 b) { return a + b; }                                               \
  inline T2 __hsub2(T2 a, T2 b) { return a - b; }                                               \
  inline T2 __hmul2(T2 a, T2 b) { return a * b; }                                               \
  inline T2 __hfma2(T2 a, T2 b, T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \
  inline T2 __hmax2(T2 a, T2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                \
  inline T2 __hmin2(T2 a, T2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                \
  inline T2 h2exp(T2 a) { return {hexp(a.x), hexp(a.y)}; }
HOST_CUDA_OPERATORS(__half)
struct alignas(4) __half2 {
  __half x, y;
};
using half2 = __half2;
HOST_CUDA_PAIR(__half, __half2)
inline float __half2float(__half h) { return float(h); }
inline __half __float2half(float f) { return __half(f); }
inline __half __float2half_rn(float f) { return __half(f); }
inline __half __double2half(double f) { return __half(f); }
inline __half __int2half_rn(int i) { return __half(float(i)); }
inline int __half2int_rn(__half h) { return int(std::nearbyint(float(h))); }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half2 make_half2(__half a, __half b) { return {a, b}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 __float2half2_rn(float f) { return {__half(f), __half(f)}; }
inline __half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
inline __half2 __float22half2_rn(float2 f) { return {__half(f.x), __half(f.y)}; }
inline float2 __half22float2(__half2 h) { return {float(h.x), float(h.y)}; }
inline float __low2float(__half2 h) { return float(h.x); }
inline float __high2float(__half2 h) { return float(h.y); }
inline __half __low2half(__half2 h) { return h.x; }
inline __half __high2half(__half2 h) { return h.y; }
inline unsigned short __half_as_ushort(__half h) { return host_cuda_bits<unsigned short>(h); }
inline __half __ushort_as_half(unsigned short u) { return host_cuda_bits<__half>(u); }
