// SPDX-License-Identifier: Apache-2.0
// bfloat16 on the CPU: every operation rounds to 16 bits, to nearest even, as on a card.
#pragma once
#include <cuda_fp16.h>

struct __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float f) {
    unsigned u = host_cuda_bits<unsigned>(f);
    bits = std::isnan(f) ? 0x7fff : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  __nv_bfloat16(double f) : __nv_bfloat16(float(f)) {}
  __nv_bfloat16(int f) : __nv_bfloat16(float(f)) {}
  operator float() const { return host_cuda_bits<float>(unsigned(bits) << 16); }
};
using nv_bfloat16 = __nv_bfloat16;
HOST_CUDA_OPERATORS(__nv_bfloat16)
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat162 = __nv_bfloat162;
HOST_CUDA_PAIR(__nv_bfloat16, __nv_bfloat162)
inline float __bfloat162float(__nv_bfloat16 h) { return float(h); }
inline __nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16(f); }
inline __nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16(f); }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {__nv_bfloat16(a), __nv_bfloat16(b)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 f) { return {__nv_bfloat16(f.x), __nv_bfloat16(f.y)}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
inline float2 __bfloat1622float2(__nv_bfloat162 h) { return {float(h.x), float(h.y)}; }
inline float __low2float(__nv_bfloat162 h) { return float(h.x); }
inline float __high2float(__nv_bfloat162 h) { return float(h.y); }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 h) { return h.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 h) { return h.y; }
