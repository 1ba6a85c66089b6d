// Row softmax: a block a row, the row in registers.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int COLUMNS = 4096, THREADS = 256, PER = COLUMNS / (THREADS * 4);

__device__ float block_reduce(float v, bool max, float *scratch)
{
    for (int d = 16; d; d >>= 1) {
        float o = __shfl_xor_sync(~0u, v, d);
        v = max ? fmaxf(v, o) : v + o;
    }
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = scratch[threadIdx.x % (THREADS / 32)];
    for (int d = THREADS / 64; d; d >>= 1) {
        float o = __shfl_xor_sync(~0u, v, d);
        v = max ? fmaxf(v, o) : v + o;
    }
    __syncthreads();
    return v;
}

// class: memory
__global__ void __launch_bounds__(THREADS) softmax(const float4 *__restrict__ logits, float4 *__restrict__ out)
{
    __shared__ float scratch[THREADS / 32];
    const float4 *row = logits + size_t(blockIdx.x) * (COLUMNS / 4);
    float4 v[PER];
    float peak = -INFINITY, sum = 0;
#pragma unroll
    for (int p = 0; p < PER; ++p) {
        v[p] = row[p * THREADS + threadIdx.x];
        peak = fmaxf(peak, fmaxf(fmaxf(v[p].x, v[p].y), fmaxf(v[p].z, v[p].w)));
    }
    peak = block_reduce(peak, true, scratch);
#pragma unroll
    for (int p = 0; p < PER; ++p) {
        v[p] = make_float4(__expf(v[p].x - peak), __expf(v[p].y - peak), __expf(v[p].z - peak), __expf(v[p].w - peak));
        sum += v[p].x + v[p].y + v[p].z + v[p].w;
    }
    float scale = 1.0f / block_reduce(sum, false, scratch);
#pragma unroll
    for (int p = 0; p < PER; ++p)
        out[size_t(blockIdx.x) * (COLUMNS / 4) + p * THREADS + threadIdx.x] =
            make_float4(v[p].x * scale, v[p].y * scale, v[p].z * scale, v[p].w * scale);
}

int main()
{
    const int rows = 16384;
    std::vector<float> host(size_t(rows) * COLUMNS);
    for (size_t i = 0; i < host.size(); ++i) host[i] = float(i % 17) * 0.1f;
    float *in, *out;
    cudaMalloc(&in, host.size() * 4), cudaMalloc(&out, host.size() * 4);
    cudaMemcpy(in, host.data(), host.size() * 4, cudaMemcpyHostToDevice);
    softmax<<<rows, THREADS>>>((const float4 *)in, (float4 *)out);
    cudaMemcpy(host.data(), out, host.size() * 4, cudaMemcpyDeviceToHost);
    for (int r = 0; r < rows; r += 511) {
        double sum = 0;
        for (int c = 0; c < COLUMNS; ++c) sum += host[size_t(r) * COLUMNS + c];
        if (std::fabs(sum - 1) > 1e-3) return puts("wrong"), 1;
    }
    puts("ok");
}
