// SPDX-License-Identifier: Apache-2.0
// Instructions on drawn and on awkward values, each against plain C++ on the host; prints what differs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

using u32 = unsigned;
using u64 = unsigned long long;

struct Values {
    u32 a, b, c;
    u64 d, e;
    float x, y, z;
    double v, w;
};

constexpr int kResults = 64;

__host__ __device__ u64 raw(float x) {
    u32 r;
    memcpy(&r, &x, 4);
    return x != x ? 0x7fffffff : r;
}
__host__ __device__ u64 raw(double x) {
    u64 r;
    memcpy(&r, &x, 8);
    return x != x ? ~0ull : r;
}
__host__ __device__ u64 raw(u64 x) { return x; }
__host__ __device__ u64 raw(long long x) { return static_cast<u64>(x); }
__host__ __device__ u64 raw(u32 x) { return x; }
__host__ __device__ u64 raw(int x) { return static_cast<u32>(x); }

// What both sides can compute as it stands.
__host__ __device__ int common(const Values& i, u64* to) {
    const int sa = static_cast<int>(i.a), sb = static_cast<int>(i.b);
    const long long sd = static_cast<long long>(i.d), se = static_cast<long long>(i.e);
    int n = 0;
    to[n++] = raw(i.a * i.b + i.c);
    to[n++] = raw(i.b ? i.a / i.b : 0u);
    to[n++] = raw(i.b ? i.a % i.b : 0u);
    to[n++] = raw(sb > 0 ? sa / sb : 0);
    to[n++] = raw(sb > 0 ? sa % sb : 0);
    to[n++] = raw(i.e ? i.d / i.e : 0ull);
    to[n++] = raw(se > 0 ? sd % se : 0ll);
    to[n++] = raw(static_cast<long long>(sa) * sb);
    to[n++] = raw(sa >> (i.c & 31));
    to[n++] = raw(i.d << (i.c & 63) | i.e >> (63 - (i.c & 63)));
    to[n++] = raw(sd < se ? sd : se);
    to[n++] = raw((i.a & i.b) ^ (i.c | ~i.a));
    to[n++] = raw(static_cast<int>(static_cast<short>(i.a)) + static_cast<signed char>(i.b));
    to[n++] = raw(i.x + i.y);
    to[n++] = raw(i.x * i.y);
    to[n++] = raw(i.x / i.y);
    to[n++] = raw(sqrtf(fabsf(i.x)));
    to[n++] = raw(fmaf(i.x, i.y, i.z));
    to[n++] = raw(fma(i.v, i.w, 1.0));
    to[n++] = raw(i.v / i.w);
    to[n++] = raw(static_cast<float>(i.v));
    to[n++] = raw(static_cast<double>(i.x));
    to[n++] = raw(static_cast<float>(sa));
    to[n++] = raw(static_cast<float>(i.d));
    to[n++] = raw(static_cast<double>(sd));
    to[n++] = raw(floorf(i.x)), to[n++] = raw(ceilf(i.y)), to[n++] = raw(truncf(i.z)), to[n++] = raw(rintf(i.x));
    to[n++] = raw(i.x < i.y ? 1 : i.x >= i.y ? 2 : 3);
    to[n++] = raw(!(i.x <= i.y) ? 1 : 0);
    to[n++] = raw(static_cast<int>(fminf(fmaxf(i.x, -1e9f), 1e9f)));
    to[n++] = raw(fmodf(i.x, 3.5f));
    // the math library's, of which an approximation is only the beginning
#ifdef __CUDA_ARCH__
    to[n++] = raw(rsqrt(fabs(i.v)));
#else
    to[n++] = raw(1 / std::sqrt(std::fabs(i.v)));
#endif
    return n;
}

__device__ int intrinsics(const Values& i, u64* to) {
    int n = 0;
    to[n++] = __popc(i.a), to[n++] = __clz(i.a), to[n++] = __ffs(i.b), to[n++] = __brev(i.c);
    to[n++] = __clzll(i.d), to[n++] = __popcll(i.e), to[n++] = __umulhi(i.a, i.b), to[n++] = raw(__mulhi(int(i.a), int(i.b)));
    to[n++] = __umul64hi(i.d, i.e), to[n++] = __byte_perm(i.a, i.b, 0x5140), to[n++] = __funnelshift_l(i.a, i.b, i.c);
    to[n++] = __funnelshift_r(i.a, i.b, i.c);
    to[n++] = raw(__float2int_rz(i.x)), to[n++] = raw(__float2int_rn(i.y)), to[n++] = raw(__float2uint_rz(i.z));
    to[n++] = raw(__fadd_rz(i.x, i.y)), to[n++] = raw(__fmul_ru(i.x, i.y)), to[n++] = raw(__saturatef(i.x));
    to[n++] = __half_as_ushort(__float2half_rn(i.x)), to[n++] = __bfloat16_as_ushort(__float2bfloat16_rn(i.y));
    to[n++] = __half_as_ushort(__hadd(__float2half_rn(i.x), __float2half_rn(i.y)));
    to[n++] = __half_as_ushort(__hfma(__float2half_rn(i.x), __float2half_rn(i.y), __float2half_rn(i.z)));
    to[n++] = raw(__uint_as_float(i.a)), to[n++] = raw(fminf(i.x, i.y)), to[n++] = raw(fmaxf(i.x, i.z));
    return n;
}

u32 reversed(u32 x) {
    u32 r = 0;
    for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
    return r;
}
u64 to_half(float x) {
    if (x != x) return 0x7fff;
    const _Float16 h = static_cast<_Float16>(x);
    unsigned short r;
    memcpy(&r, &h, 2);
    return r;
}
float halved(float x) { return static_cast<float>(static_cast<_Float16>(x)); }
u64 to_brain(float x) {
    if (x != x) return 0x7fff;
    u32 b;
    memcpy(&b, &x, 4);
    return (b + 0x7fff + (b >> 16 & 1)) >> 16 & 0xffff;
}
int whole(float x) { return x != x ? 0 : x >= 0x1p31f ? 0x7fffffff : x < -0x1p31f ? int(0x80000000) : static_cast<int>(x); }
float rounded(int mode, float x, float y, bool product) {
    std::fesetround(mode);
    volatile float a = x, b = y, r = product ? a * b : a + b;
    std::fesetround(FE_TONEAREST);
    return r;
}
float least(float x, float y) { return x == y ? (std::signbit(x) ? x : y) : fminf(x, y); }
float most(float x, float y) { return x == y ? (std::signbit(x) ? y : x) : fmaxf(x, y); }

int expected(const Values& i, u64* to) {
    int n = 0;
    const int sh = i.c & 31;
    to[n++] = __builtin_popcount(i.a), to[n++] = i.a ? __builtin_clz(i.a) : 32, to[n++] = __builtin_ffs(int(i.b)), to[n++] = reversed(i.c);
    to[n++] = i.d ? __builtin_clzll(i.d) : 64, to[n++] = __builtin_popcountll(i.e), to[n++] = u64(i.a) * i.b >> 32;
    to[n++] = u32((static_cast<long long>(int(i.a)) * int(i.b)) >> 32), to[n++] = u64((static_cast<unsigned __int128>(i.d) * i.e) >> 64);
    to[n++] = (i.a & 255) | (i.b & 255) << 8 | (i.a >> 8 & 255) << 16 | (i.b >> 8 & 255) << 24;
    to[n++] = u32((u64(i.b) << 32 | i.a) << sh >> 32), to[n++] = u32((u64(i.b) << 32 | i.a) >> sh);
    to[n++] = raw(whole(i.x)), to[n++] = raw(whole(rintf(i.y)));
    to[n++] = i.z != i.z || i.z <= 0 ? 0 : i.z >= 0x1p32f ? 0xffffffffu : u32(i.z);
    to[n++] = raw(rounded(FE_TOWARDZERO, i.x, i.y, false)), to[n++] = raw(rounded(FE_UPWARD, i.x, i.y, true));
    to[n++] = raw(i.x > 0 ? (i.x < 1 ? i.x : 1.0f) : 0.0f);
    to[n++] = to_half(i.x), to[n++] = to_brain(i.y), to[n++] = to_half(halved(i.x) + halved(i.y));
    to[n++] = to_half(float(double(halved(i.x)) * double(halved(i.y)) + double(halved(i.z))));
    float f;
    memcpy(&f, &i.a, 4);
    to[n++] = raw(f), to[n++] = raw(least(i.x, i.y)), to[n++] = raw(most(i.x, i.z));
    return n;
}

__global__ void compute(const Values* in, u64* one, u64* other, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    common(in[i], one + i * kResults);
    intrinsics(in[i], other + i * kResults);
}

int main() {
    const int count = 4000;
    std::vector<Values> in(count);
    u64 state = 1;
    auto draw = [&] { return state = state * 6364136223846793005ull + 1442695040888963407ull, (state >> 33 ^ state << 20) * 0x9e3779b97f4a7c15ull; };
    const float awkward[] = {0.0f, -0.0f, 1.5f, -2.5f, INFINITY, -INFINITY, NAN, 3e9f, 65520.0f, 1.0e-6f};
    auto number = [&]() -> float { return draw() % 8 ? float(int(draw())) * std::exp2f(float(int(draw() % 40)) - 30) : awkward[draw() % 10]; };
    for (Values& v : in) {
        v = {u32(draw()), u32(draw() >> (draw() % 32 + 20)), u32(draw()), draw(), draw() >> draw() % 60, number(), number(), number(), 0, 0};
        if (draw() % 16 == 0) v.a = u32(draw() % 3), v.b = 0;
        v.v = double(v.x) * 1.1, v.w = double(v.y) + 0.3;
    }
    Values* d_in;
    u64 *one, *other;
    const size_t bytes = count * kResults * sizeof(u64);
    cudaMalloc(&d_in, count * sizeof(Values));
    cudaMalloc(&one, bytes);
    cudaMalloc(&other, bytes);
    cudaMemcpy(d_in, in.data(), count * sizeof(Values), cudaMemcpyHostToDevice);
    compute<<<(count + 63) / 64, 64>>>(d_in, one, other, count);
    std::vector<u64> got(count * kResults), more(count * kResults), want(kResults);
    if (cudaMemcpy(got.data(), one, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    cudaMemcpy(more.data(), other, bytes, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < count; ++i) {
        for (int side = 0; side < 2; ++side) {
            const int n = side ? expected(in[i], want.data()) : common(in[i], want.data());
            for (int k = 0; k < n; ++k) {
                const u64 g = (side ? more : got)[i * kResults + k];
                if (g == want[k] || ++wrong > 20) continue;
                std::printf("%s %d: %llx, wanted %llx (a %x b %x c %x d %llx e %llx x %a y %a z %a)\n", side ? "intrinsic" : "common", k, g,
                            want[k], in[i].a, in[i].b, in[i].c, in[i].d, in[i].e, in[i].x, in[i].y, in[i].z);
            }
        }
    }
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}
