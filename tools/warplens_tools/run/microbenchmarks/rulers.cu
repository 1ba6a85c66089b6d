// SPDX-License-Identifier: Apache-2.0
// Ruler kernels: each drives one unit of the GPU as hard as plain code can, and reports the rate reached.
//
// Prints one JSON object a line: first the device, then {"name", "unit", "samples"} per ruler. A ruler that
// this architecture has no instruction for is left out. Build: nvcc -O3 -std=c++17 -arch=sm_XX rulers.cu
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                    \
    do {                                                                                               \
        cudaError_t status_ = (call);                                                                  \
        if (status_ != cudaSuccess) {                                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_));      \
            std::exit(3);                                                                              \
        }                                                                                              \
    } while (0)

namespace {

constexpr int kThreads = 256;
int samples = 11;
double target_ms = 6.0;

// ---------------------------------------------------------------------------------------------- memory

__global__ void copy_kernel(float4 *__restrict__ out, const float4 *__restrict__ in, size_t count)
{
    size_t stride = size_t(gridDim.x) * blockDim.x;
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        float4 a = __ldcs(in + i), b = __ldcs(in + i + stride);
        float4 c = __ldcs(in + i + 2 * stride), d = __ldcs(in + i + 3 * stride);
        __stcs(out + i, a);
        __stcs(out + i + stride, b);
        __stcs(out + i + 2 * stride, c);
        __stcs(out + i + 3 * stride, d);
    }
    for (; i < count; i += stride) out[i] = in[i];
}

__device__ float sum4(float4 v) { return v.x + v.y + v.z + v.w; }

__global__ void read_kernel(float *sink, const float4 *__restrict__ in, size_t count, int passes)
{
    size_t stride = size_t(gridDim.x) * blockDim.x;
    float sum = 0;
    for (int p = 0; p < passes; ++p) {
        size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
        for (; i + 3 * stride < count; i += 4 * stride) {
            // .cg: from L2, past L1
            float4 a = __ldcg(in + i), b = __ldcg(in + i + stride);
            float4 c = __ldcg(in + i + 2 * stride), d = __ldcg(in + i + 3 * stride);
            sum += sum4(a) + sum4(b) + sum4(c) + sum4(d);
        }
    }
    if (sum == 1.2345f) *sink = sum;
}

__global__ void shared_kernel(float *sink, int passes)
{
    __shared__ float4 tile[2 * kThreads];
    tile[threadIdx.x] = tile[threadIdx.x + kThreads] = make_float4(1, 2, 3, 4);
    __syncthreads();
    uint32_t at = uint32_t(__cvta_generic_to_shared(&tile[threadIdx.x]));
    float sum = 0;
    for (int p = 0; p < passes; ++p) {
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            float x, y, z, w;
            asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                         : "r"(at + (k & 1) * kThreads * 16));
            if (k == 15) sum += x + y + z + w;
        }
    }
    if (sum == 1.2345f) *sink = sum;
}

__global__ void atomic_kernel(int *counters, int mask, int passes)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) & mask;
    for (int p = 0; p < passes; ++p) atomicAdd(counters + ((i + p * 32) & mask), 1);
}

// --------------------------------------------------------------------------------------------- arithmetic

constexpr int kChains = 8;
constexpr int kUnroll = 32;

// Chains differ in their seeds and all reach the sink: the assembler merges equal work and drops unused work.
template <class T, class Op> __device__ void chains(T *sink, T seed, int passes, Op op)
{
    T x[kChains];
#pragma unroll
    for (int c = 0; c < kChains; ++c) x[c] = seed * T(c + 1) + T(threadIdx.x);
    for (int p = 0; p < passes; ++p) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
            for (int c = 0; c < kChains; ++c) op(x[c]);
    }
    T sum = x[0];
#pragma unroll
    for (int c = 1; c < kChains; ++c) sum += x[c];
    if (sum == T(123457)) *sink = sum;
}

__global__ void fp32_kernel(float *sink, float a, int passes)
{
    chains(sink, a, passes, [a](float &x) { asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(a)); });
}
__global__ void fp64_kernel(double *sink, double a, int passes)
{
    chains(sink, a, passes, [a](double &x) { asm volatile("fma.rn.f64 %0, %0, %1, %1;" : "+d"(x) : "d"(a)); });
}
__global__ void fp16_kernel(uint32_t *sink, uint32_t a, int passes)
{
    chains(sink, a, passes,
           [a](uint32_t &x) { asm volatile("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(x) : "r"(a)); });
}
__global__ void int32_kernel(int *sink, int a, int passes)
{
    chains(sink, a, passes, [a](int &x) { asm volatile("mad.lo.s32 %0, %0, %1, %1;" : "+r"(x) : "r"(a)); });
}
__global__ void sfu_kernel(float *sink, float a, int passes)
{
    chains(sink, a, passes, [](float &x) { asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x)); });
}

// ------------------------------------------------------------------------------------- tensor, mma.sync

enum class Type { bf16, fp16, tf32, fp8, int8, fp64 };

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
template <Type type> __device__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    uint32_t *i = reinterpret_cast<uint32_t *>(d);
    if constexpr (type == Type::bf16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    if constexpr (type == Type::fp16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    if constexpr (type == Type::tf32)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    if constexpr (type == Type::int8)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+r"(i[0]), "+r"(i[1]), "+r"(i[2]), "+r"(i[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    if constexpr (type == Type::fp8)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

template <Type type> __global__ void mma_kernel(float *sink, uint32_t seed, int passes)
{
    uint32_t a[4] = {seed, seed + 1, seed + 2, seed + 3}, b[2] = {seed, seed + 1};
    float d[kChains][4];
#pragma unroll
    for (int c = 0; c < kChains; ++c) d[c][0] = d[c][1] = d[c][2] = d[c][3] = float(c);
    for (int p = 0; p < passes; ++p)
#pragma unroll
        for (int u = 0; u < 4; ++u)
#pragma unroll
            for (int c = 0; c < kChains; ++c) mma<type>(d[c], a, b);
    float sum = 0;
#pragma unroll
    for (int c = 0; c < kChains; ++c) sum += d[c][0] + d[c][3];
    if (sum == 1.2345f) *sink = sum;
}

__global__ void dmma_kernel(double *sink, double seed, int passes)
{
    double d[kChains][4];
#pragma unroll
    for (int c = 0; c < kChains; ++c) d[c][0] = d[c][1] = d[c][2] = d[c][3] = c;
    for (int p = 0; p < passes; ++p)
#pragma unroll
        for (int u = 0; u < 4; ++u)
#pragma unroll
            for (int c = 0; c < kChains; ++c) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%4,%4,%4}, "
                             "{%4,%4}, {%0,%1,%2,%3};"
                             : "+d"(d[c][0]), "+d"(d[c][1]), "+d"(d[c][2]), "+d"(d[c][3])
                             : "d"(seed));
#else
                asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%2}, {%0,%1};"
                             : "+d"(d[c][0]), "+d"(d[c][1])
                             : "d"(seed));
#endif
            }
    double sum = 0;
#pragma unroll
    for (int c = 0; c < kChains; ++c) sum += d[c][0] + d[c][3];
    if (sum == 1.2345) *sink = sum;
}
#else
template <Type type> __global__ void mma_kernel(float *, uint32_t, int) {}
__global__ void dmma_kernel(double *, double, int) {}
#endif

// ---------------------------------------------------------------------------------------- tensor, wgmma

// Two warpgroups a block, each with a 64x256 accumulator; operands stay in shared memory, K-major, in the
// 128-byte swizzled layout: 8 rows of 128 bytes make one 1024-byte atom (PTX ISA, "Shared memory matrix layout").
constexpr int kWgmmaThreads = 256;
constexpr int kWgmmaPerPass = 32;
constexpr int kWgmmaShared = 1024 + 64 * 128 * 2 + 256 * 128;

#define WGMMA_REGISTERS \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_FLOAT \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
    "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
    "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
    "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
    "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
    "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), \
    "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
    "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
    "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
    "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), \
    "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), \
    "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), \
    "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
    "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
#define WGMMA_INT \
    "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), \
    "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), \
    "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), \
    "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), \
    "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), \
    "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), \
    "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]), \
    "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63]), \
    "+r"(d[64]), "+r"(d[65]), "+r"(d[66]), "+r"(d[67]), "+r"(d[68]), "+r"(d[69]), "+r"(d[70]), "+r"(d[71]), \
    "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]), "+r"(d[76]), "+r"(d[77]), "+r"(d[78]), "+r"(d[79]), \
    "+r"(d[80]), "+r"(d[81]), "+r"(d[82]), "+r"(d[83]), "+r"(d[84]), "+r"(d[85]), "+r"(d[86]), "+r"(d[87]), \
    "+r"(d[88]), "+r"(d[89]), "+r"(d[90]), "+r"(d[91]), "+r"(d[92]), "+r"(d[93]), "+r"(d[94]), "+r"(d[95]), \
    "+r"(d[96]), "+r"(d[97]), "+r"(d[98]), "+r"(d[99]), "+r"(d[100]), "+r"(d[101]), "+r"(d[102]), "+r"(d[103]), \
    "+r"(d[104]), "+r"(d[105]), "+r"(d[106]), "+r"(d[107]), "+r"(d[108]), "+r"(d[109]), "+r"(d[110]), "+r"(d[111]), \
    "+r"(d[112]), "+r"(d[113]), "+r"(d[114]), "+r"(d[115]), "+r"(d[116]), "+r"(d[117]), "+r"(d[118]), "+r"(d[119]), \
    "+r"(d[120]), "+r"(d[121]), "+r"(d[122]), "+r"(d[123]), "+r"(d[124]), "+r"(d[125]), "+r"(d[126]), "+r"(d[127])

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ uint64_t descriptor(uint32_t address)
{
    constexpr uint64_t kStride = 1024 >> 4, kSwizzle128 = 1;
    return uint64_t((address & 0x3FFFF) >> 4) | (uint64_t(1) << 16) | (kStride << 32) | (kSwizzle128 << 62);
}

template <Type type, class T> __device__ void wgmma(T (&d)[128], uint64_t a, uint64_t b)
{
    if constexpr (type == Type::bf16)
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" WGMMA_REGISTERS
                     "}, %128, %129, 1, 1, 1, 0, 0;" : WGMMA_FLOAT : "l"(a), "l"(b));
    if constexpr (type == Type::fp16)
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" WGMMA_REGISTERS
                     "}, %128, %129, 1, 1, 1, 0, 0;" : WGMMA_FLOAT : "l"(a), "l"(b));
    if constexpr (type == Type::tf32)
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" WGMMA_REGISTERS
                     "}, %128, %129, 1, 1, 1;" : WGMMA_FLOAT : "l"(a), "l"(b));
    if constexpr (type == Type::fp8)
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {" WGMMA_REGISTERS
                     "}, %128, %129, 1, 1, 1;" : WGMMA_FLOAT : "l"(a), "l"(b));
    if constexpr (type == Type::int8)
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" WGMMA_REGISTERS
                     "}, %128, %129, 1;" : WGMMA_INT : "l"(a), "l"(b));
}
#endif

template <Type type, class T> __global__ void __launch_bounds__(kWgmmaThreads, 1)
wgmma_kernel(T *sink, uint32_t pattern, int passes)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ uint8_t raw[];
    uint32_t base = (uint32_t(__cvta_generic_to_shared(raw)) + 1023) & ~1023u;
    uint32_t *words = reinterpret_cast<uint32_t *>(raw + (base - uint32_t(__cvta_generic_to_shared(raw))));
    for (int i = threadIdx.x; i < (kWgmmaShared - 1024) / 4; i += blockDim.x) words[i] = pattern * (1 + (i & 1));
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    uint64_t a = descriptor(base + (threadIdx.x / 128) * 64 * 128), b = descriptor(base + 2 * 64 * 128);
    T d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = T(0);
    for (int p = 0; p < passes; ++p) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < kWgmmaPerPass; ++k) wgmma<type>(d, a + (k & 3) * 2, b + (k & 3) * 2);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    T sum = T(0);
#pragma unroll
    for (int i = 0; i < 128; ++i) sum += d[i];
    if (sum == T(123457)) *sink = sum;
#endif
}

__global__ void empty_kernel() {}

// --------------------------------------------------------------------------------------------- harness

double median(std::vector<double> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

void report(const char *name, const char *unit, const std::vector<double> &values)
{
    std::printf("{\"name\": \"%s\", \"unit\": \"%s\", \"samples\": [", name, unit);
    for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.6g", i ? ", " : "", values[i]);
    std::printf("]}\n");
    std::fflush(stdout);
}

// Rates of `launch`, which does `amount` of work; as many launches a sample as `target_ms` needs.
template <class F> void ruler(const char *name, const char *unit, double amount, F launch)
{
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    auto timed = [&](int repeats) {
        CHECK(cudaEventRecord(begin));
        for (int i = 0; i < repeats; ++i) launch();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        return double(ms);
    };
    timed(1);
    int repeats = std::max(1, int(target_ms / std::max(1e-4, timed(1)) + 0.5));
    timed(repeats);
    std::vector<double> rates;
    for (int s = 0; s < samples; ++s) rates.push_back(amount * repeats / (timed(repeats) * 1e-3));
    report(name, unit, rates);
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
}

double host_seconds()
{
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

void launch_rulers()
{
    std::vector<double> period, latency;
    for (int s = 0; s < samples; ++s) {
        constexpr int kLaunches = 2000;
        CHECK(cudaDeviceSynchronize());
        double start = host_seconds();
        for (int i = 0; i < kLaunches; ++i) empty_kernel<<<1, 32>>>();
        CHECK(cudaDeviceSynchronize());
        period.push_back((host_seconds() - start) / kLaunches * 1e9);
        std::vector<double> round;
        for (int i = 0; i < 200; ++i) {
            double from = host_seconds();
            empty_kernel<<<1, 32>>>();
            CHECK(cudaDeviceSynchronize());
            round.push_back((host_seconds() - from) * 1e9);
        }
        latency.push_back(median(round));
    }
    report("launch_period", "ns", period);
    report("launch_round_trip", "ns", latency);
}

void transfer_rulers(void *device)
{
    constexpr size_t kBytes = size_t(64) << 20;
    void *pinned = nullptr, *pageable = std::malloc(kBytes);
    CHECK(cudaMallocHost(&pinned, kBytes));
    std::memset(pinned, 1, kBytes);
    std::memset(pageable, 1, kBytes);
    struct { const char *name; void *host; bool up; } const rulers[] = {
        {"host_to_device_pinned", pinned, true}, {"device_to_host_pinned", pinned, false},
        {"host_to_device_pageable", pageable, true}, {"device_to_host_pageable", pageable, false},
    };
    for (const auto &r : rulers)
        ruler(r.name, "B/s", double(kBytes), [&] {
            if (r.up) CHECK(cudaMemcpy(device, r.host, kBytes, cudaMemcpyHostToDevice));
            else CHECK(cudaMemcpy(r.host, device, kBytes, cudaMemcpyDeviceToHost));
        });
    CHECK(cudaFreeHost(pinned));
    std::free(pageable);
}

void memory_rulers(const cudaDeviceProp &gpu, float4 *in, float4 *out, size_t bytes)
{
    const size_t count = bytes / sizeof(float4);
    const int wide = gpu.multiProcessorCount * (gpu.maxThreadsPerMultiProcessor / kThreads);
    ruler("dram_copy", "B/s", 2.0 * double(bytes), [&] { copy_kernel<<<wide * 4, kThreads>>>(out, in, count); });
    ruler("dram", "B/s", double(bytes), [&] { read_kernel<<<wide, kThreads>>>((float *)out, in, count, 1); });
    // A quarter of L2: fits either half of a split L2 with room to spare. Whole strides only.
    const size_t step = size_t(wide) * kThreads * 4;
    const size_t resident = std::max<size_t>(1, size_t(gpu.l2CacheSize) / 4 / sizeof(float4) / step) * step;
    constexpr int kPasses = 64;
    ruler("l2", "B/s", double(resident) * sizeof(float4) * kPasses,
          [&] { read_kernel<<<wide, kThreads>>>((float *)out, in, resident, kPasses); });
    constexpr int kSharedPasses = 512;
    ruler("shared", "B/s", double(wide) * kThreads * 16.0 * 16 * kSharedPasses,
          [&] { shared_kernel<<<wide, kThreads>>>((float *)out, kSharedPasses); });
    constexpr int kAtomicPasses = 64;
    const double atomics = double(wide) * kThreads * kAtomicPasses;
    ruler("atomic", "op/s", atomics, [&] { atomic_kernel<<<wide, kThreads>>>((int *)out, (1 << 20) - 1, kAtomicPasses); });
    ruler("atomic_one_address", "op/s", atomics, [&] { atomic_kernel<<<wide, kThreads>>>((int *)out, 0, kAtomicPasses); });
}

void arithmetic_rulers(const cudaDeviceProp &gpu, void *sink)
{
    const int blocks = gpu.multiProcessorCount * (gpu.maxThreadsPerMultiProcessor / kThreads);
    const int passes = 256;
    const double ops = double(blocks) * kThreads * passes * kChains * kUnroll;
    ruler("fp32", "FLOP/s", 2 * ops, [&] { fp32_kernel<<<blocks, kThreads>>>((float *)sink, 0.999f, passes); });
    ruler("fp16", "FLOP/s", 4 * ops, [&] { fp16_kernel<<<blocks, kThreads>>>((uint32_t *)sink, 0x3bff3bff, passes); });
    ruler("int32", "op/s", ops, [&] { int32_kernel<<<blocks, kThreads>>>((int *)sink, 3, passes); });
    const int slow = passes / 16;
    ruler("sfu", "op/s", ops / 16, [&] { sfu_kernel<<<blocks, kThreads>>>((float *)sink, 0.9f, slow); });
    ruler("fp64", "FLOP/s", 2 * ops / 16, [&] { fp64_kernel<<<blocks, kThreads>>>((double *)sink, 0.999, slow); });
}

template <Type type> void mma_ruler(const char *name, const char *unit, int k, int blocks, void *sink)
{
    constexpr int kPasses = 256;
    const double warps = double(blocks) * kThreads / 32;
    ruler(name, unit, warps * kPasses * 4 * kChains * 2.0 * 16 * 8 * k,
          [&] { mma_kernel<type><<<blocks, kThreads>>>((float *)sink, 0x2c002c00u, kPasses); });
}

template <Type type, class T> void wgmma_ruler(const char *name, const char *unit, int k, int blocks, void *sink)
{
    constexpr int kPasses = 64;
    CHECK(cudaFuncSetAttribute(wgmma_kernel<type, T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kWgmmaShared));
    ruler(name, unit, double(blocks) * 2 * kPasses * kWgmmaPerPass * 2.0 * 64 * 256 * k, [&] {
        wgmma_kernel<type, T><<<blocks, kWgmmaThreads, kWgmmaShared>>>((T *)sink, 0x2c002c00u, kPasses);
    });
}

void tensor_rulers(const cudaDeviceProp &gpu, void *sink)
{
    const int capability = gpu.major * 10 + gpu.minor;
    const int blocks = gpu.multiProcessorCount * 4;
    if (capability < 80) return;
    // From sm_100 to sm_110 the tensor peak needs tcgen05 instructions, which these rulers do not use.
    if (capability >= 100 && capability < 120) return;
    const double dmma = capability >= 90 ? 16 * 8 * 8 : 8 * 8 * 4;
    if (capability == 80 || capability == 90) {
        constexpr int kPasses = 64;
        ruler("tensor_fp64", "FLOP/s", double(blocks) * kThreads / 32 * kPasses * 4 * kChains * 2.0 * dmma,
              [&] { dmma_kernel<<<blocks, kThreads>>>((double *)sink, 0.5, kPasses); });
    }
    if (capability == 90) {
        wgmma_ruler<Type::bf16, float>("tensor_bf16", "FLOP/s", 16, gpu.multiProcessorCount, sink);
        wgmma_ruler<Type::fp16, float>("tensor_fp16", "FLOP/s", 16, gpu.multiProcessorCount, sink);
        wgmma_ruler<Type::tf32, float>("tensor_tf32", "FLOP/s", 8, gpu.multiProcessorCount, sink);
        wgmma_ruler<Type::fp8, float>("tensor_fp8", "FLOP/s", 32, gpu.multiProcessorCount, sink);
        wgmma_ruler<Type::int8, int>("tensor_int8", "op/s", 32, gpu.multiProcessorCount, sink);
        return;
    }
    mma_ruler<Type::bf16>("tensor_bf16", "FLOP/s", 16, blocks, sink);
    mma_ruler<Type::fp16>("tensor_fp16", "FLOP/s", 16, blocks, sink);
    mma_ruler<Type::tf32>("tensor_tf32", "FLOP/s", 8, blocks, sink);
    mma_ruler<Type::int8>("tensor_int8", "op/s", 32, blocks, sink);
    if (capability >= 89) mma_ruler<Type::fp8>("tensor_fp8", "FLOP/s", 32, blocks, sink);
}

void print_device(const cudaDeviceProp &gpu)
{
    int driver = 0, runtime = 0;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    const auto *u = reinterpret_cast<const unsigned char *>(gpu.uuid.bytes);
    std::printf("{\"device\": \"%s\", \"capability\": \"%d.%d\", \"uuid\": \"GPU-", gpu.name, gpu.major, gpu.minor);
    for (int i = 0; i < 16; ++i) std::printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
    std::printf("\", \"cuda_driver\": %d, \"runtime\": %d, \"multiprocessors\": %d}\n", driver, runtime,
                gpu.multiProcessorCount);
}

}  // namespace

int main(int argc, char **argv)
{
    const int device = argc > 1 ? std::atoi(argv[1]) : 0;
    if (argc > 2) samples = std::max(3, std::atoi(argv[2]));
    if (argc > 3) target_ms = std::max(0.5, std::atof(argv[3]));
    CHECK(cudaSetDevice(device));
    cudaDeviceProp gpu;
    CHECK(cudaGetDeviceProperties(&gpu, device));
    print_device(gpu);
    size_t free_bytes = 0, total = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    // Far beyond L2, and at most a quarter of what is free for each of the two arrays.
    const size_t bytes = std::min(free_bytes / 4, size_t(1) << 30) & ~size_t(0xFFFFF);
    float4 *in = nullptr, *out = nullptr;
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemset(in, 0, bytes));
    CHECK(cudaMemset(out, 0, bytes));
    arithmetic_rulers(gpu, out);
    memory_rulers(gpu, in, out, bytes);
    tensor_rulers(gpu, out);
    launch_rulers();
    transfer_rulers(in);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
    return 0;
}
