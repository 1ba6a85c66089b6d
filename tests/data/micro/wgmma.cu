// A warpgroup product whose accumulator is touched before it is waited for.
#include <cstdint>

__device__ __forceinline__ void product(float (&d)[4], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b));
}

__global__ void serialised(float *out, uint64_t a, uint64_t b, int n)
{
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
    for (int k = 0; k < n; ++k) {
        product(d, a + k, b + k);
        d[0] += 1.0f;  // expect: wgmma-serialized
        asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];  // expect: scalar-access
}

__global__ void pipelined(float *out, uint64_t a, uint64_t b)
{
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) product(d, a + k, b + k);
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];  // expect: scalar-access
}
