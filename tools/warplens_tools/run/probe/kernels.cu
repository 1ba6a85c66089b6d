// SPDX-License-Identifier: Apache-2.0
// The probe's own kernels, loaded from a cubin beside the user's.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using u64 = unsigned long long;

__device__ inline u64 mix(u64 x) {  // the finalizer of SplitMix64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// One keyed 64-bit checksum per chunk of 64 KiB, of whole words where `base` is aligned, else of bytes.
// Whoever does not know the key cannot make other contents with the same sum.
extern "C" __global__ void warplens_checksum(const unsigned char* base, u64 bytes, u64 key, u64* sums) {
    constexpr u64 chunk = 65536;
    const u64 begin = blockIdx.x * chunk, end = min(begin + chunk, bytes);
    u64 sum = 0;
    const u64 words_end = reinterpret_cast<u64>(base) % 8 ? begin : end / 8 * 8;
    for (u64 at = begin + threadIdx.x * 8ull; at < words_end; at += blockDim.x * 8ull)
        sum += mix(*reinterpret_cast<const u64*>(base + at) ^ mix(key + at));
    for (u64 at = words_end + threadIdx.x; at < end; at += blockDim.x) sum += mix(base[at] ^ mix(key + at));
    __shared__ u64 parts[32];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += parts[warp];
    sums[blockIdx.x] = sum;
}

// The same value to seven bits, below them a pattern that a rounding or cut to half, bfloat16 or TF32 takes off:
// always downwards, so that it does not average out in a sum.
__device__ inline float filled(float x) {
    return __uint_as_float((__float_as_uint(x) & 0xffff0000u) | 0x6fffu);
}
__device__ inline double filled(double x) {  // likewise, for a rounding to float
    return __longlong_as_double((__double_as_longlong(x) & ~0x1fffffffll) | 0x0fffffffll);
}
template <class T>
__device__ T filled(T x) {
    return x;
}

// The value to five bits, which every format holds: what it is summed or multiplied with, a lower precision of the
// inputs changes nothing.
template <class T>
__device__ T shortened(T x) {
    return static_cast<T>(__uint_as_float(__float_as_uint(static_cast<float>(x)) & 0xfff80000u));
}
template <>
__device__ inline double shortened(double x) {
    return __longlong_as_double(__double_as_longlong(x) & ~0xffffffffffffll);
}

template <class T>
__device__ void move_inputs(T* data, u64 count, double scale, double noise, u64 seed) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
        const double uniform = double(mix(seed + i) >> 11) * 0x1p-52 - 1;  // [-1, 1)
        const double value = static_cast<double>(data[i]);
        // 0, infinity and NaN stay what they are: they often mean something (padding, a mask)
        if (value != 0 && isfinite(value))
            data[i] = scale   ? static_cast<T>(value * scale * (1 + noise * uniform))
                      : noise ? shortened(data[i])
                              : filled(data[i]);
    }
}

#define WARPLENS_MOVE(name, type)                                                                      \
    extern "C" __global__ void name(type* data, u64 count, double scale, double noise, u64 seed) {     \
        move_inputs(data, count, scale, noise, seed);                                                  \
    }
WARPLENS_MOVE(warplens_move_f64, double)
WARPLENS_MOVE(warplens_move_f32, float)
WARPLENS_MOVE(warplens_move_f16, __half)
WARPLENS_MOVE(warplens_move_bf16, __nv_bfloat16)

// Other contents of the same kind, so that whatever a launch writes there is seen. Integers change in their
// lowest bit alone: one that is an index stays in its array.
template <class T>
__device__ void fill_outputs(T* data, u64 count) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
        const double value = static_cast<double>(data[i]);
        data[i] = static_cast<T>(isfinite(value) ? -1.25 * value - 1 : 1.0);
    }
}

#define WARPLENS_FILL(name, type) \
    extern "C" __global__ void name(type* data, u64 count) { fill_outputs(data, count); }
WARPLENS_FILL(warplens_fill_f64, double)
WARPLENS_FILL(warplens_fill_f32, float)
WARPLENS_FILL(warplens_fill_f16, __half)
WARPLENS_FILL(warplens_fill_bf16, __nv_bfloat16)

extern "C" __global__ void warplens_fill_bytes(unsigned char* data, u64 count) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)
        if (i % 4 == 0) data[i] ^= 1;
}
