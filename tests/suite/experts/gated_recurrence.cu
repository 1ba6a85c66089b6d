// SPDX-License-Identifier: Apache-2.0
// A gated linear recurrence in bfloat16, h_t = a_t h_{t-1} + (1 - a_t) x_t with a_t = sigmoid(gate_t): a thread a channel.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define cudaCheck(err) (cuda_check(err, __LINE__))
inline void cuda_check(cudaError_t err, int line) {
    if (err != cudaSuccess) {
        fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(err));
        exit(EXIT_FAILURE);
    }
}

constexpr int kWarps = 8, kSteps = 8;  // a block takes 64 channels, and kWarps * kSteps steps at a time

__device__ __forceinline__ float sigmoid(float v) { return __fdividef(1.0f, 1.0f + __expf(-v)); }

// gate, x, out: (batch, steps, channels). Each warp makes of its steps one, h -> A h + B; a carry goes through these.
__global__ void __launch_bounds__(32 * kWarps)
    recurrence_forward(const __nv_bfloat16* __restrict__ gate, const __nv_bfloat16* __restrict__ x,
                       __nv_bfloat16* __restrict__ out, int steps, int channels) {
    const size_t sequence = (size_t)blockIdx.y * steps * channels;
    if (channels % 2) {  // pairs of channels would not be aligned
        int c = blockIdx.x * 64 + threadIdx.x;
        if (threadIdx.x >= 64 || c >= channels) return;
        float h = 0.0f;
        for (int t = 0; t < steps; t++) {
            size_t at = sequence + (size_t)t * channels + c;
            float a = sigmoid(__bfloat162float(gate[at]));
            h = a * h + (1.0f - a) * __bfloat162float(x[at]);
            out[at] = __float2bfloat16(h);
        }
        return;
    }

    __shared__ float2 all_a[2][kWarps][32], all_b[2][kWarps][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int c = blockIdx.x * 64 + 2 * lane;
    const int last = c < channels ? steps : 0;
    const size_t start = sequence + c;
    __nv_bfloat162 g[kSteps], v[kSteps];
#pragma unroll
    for (int k = 0; k < kSteps; k++) {
        int t = warp * kSteps + k;
        if (t < last) {
            g[k] = __ldcs((const __nv_bfloat162*)(gate + start + (size_t)t * channels));
            v[k] = __ldcs((const __nv_bfloat162*)(x + start + (size_t)t * channels));
        }
    }

    float2 carry = make_float2(0.0f, 0.0f);
    int buffer = 0;
    for (int tile = 0; tile < steps; tile += kWarps * kSteps, buffer ^= 1) {
        const int first = tile + warp * kSteps;
        float2 a[kSteps], b[kSteps];
        float2 product = make_float2(1.0f, 1.0f), sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int k = 0; k < kSteps; k++) {
            a[k] = make_float2(1.0f, 1.0f);
            b[k] = make_float2(0.0f, 0.0f);
            if (first + k < last) {
                float2 gates = __bfloat1622float2(g[k]), values = __bfloat1622float2(v[k]);
                a[k] = make_float2(sigmoid(gates.x), sigmoid(gates.y));
                b[k] = make_float2((1.0f - a[k].x) * values.x, (1.0f - a[k].y) * values.y);
            }
            product.x *= a[k].x;
            product.y *= a[k].y;
            sum.x = a[k].x * sum.x + b[k].x;
            sum.y = a[k].y * sum.y + b[k].y;
        }
        // the next tile's loads, before this one waits
#pragma unroll
        for (int k = 0; k < kSteps; k++) {
            int t = first + kWarps * kSteps + k;
            if (t < last) {
                g[k] = __ldcs((const __nv_bfloat162*)(gate + start + (size_t)t * channels));
                v[k] = __ldcs((const __nv_bfloat162*)(x + start + (size_t)t * channels));
            }
        }
        all_a[buffer][warp][lane] = product;
        all_b[buffer][warp][lane] = sum;
        __syncthreads();
        float2 h = carry;
#pragma unroll
        for (int w = 0; w < kWarps; w++) {
            if (w == warp) h = carry;
            float2 A = all_a[buffer][w][lane], B = all_b[buffer][w][lane];
            carry.x = A.x * carry.x + B.x;
            carry.y = A.y * carry.y + B.y;
        }
#pragma unroll
        for (int k = 0; k < kSteps; k++) {
            h.x = a[k].x * h.x + b[k].x;
            h.y = a[k].y * h.y + b[k].y;
            if (first + k < last)
                __stcs((__nv_bfloat162*)(out + start + (size_t)(first + k) * channels), __floats2bfloat162_rn(h.x, h.y));
        }
    }
}

int main(int argc, char** argv) {
    int batch = argc > 1 ? atoi(argv[1]) : 8;
    int steps = argc > 2 ? atoi(argv[2]) : 1536;
    int channels = argc > 3 ? atoi(argv[3]) : 2048;
    int block = argc > 4 ? atoi(argv[4]) : 128;
    size_t n = (size_t)batch * steps * channels;

    std::vector<__nv_bfloat16> gate(n), x(n), out(n);
    unsigned s = 123;
    for (size_t i = 0; i < n; i++) {
        s = s * 69069u + 1u;
        gate[i] = __float2bfloat16((s >> 24) / 64.0f - 0.5f);
        x[i] = __float2bfloat16((s >> 8 & 0xff) / 128.0f - 1.0f);
    }

    __nv_bfloat16 *d_gate, *d_x, *d_out;
    cudaCheck(cudaMalloc(&d_gate, n * sizeof(__nv_bfloat16)));
    cudaCheck(cudaMalloc(&d_x, n * sizeof(__nv_bfloat16)));
    cudaCheck(cudaMalloc(&d_out, n * sizeof(__nv_bfloat16)));
    cudaCheck(cudaMemcpy(d_gate, gate.data(), n * sizeof(__nv_bfloat16), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_x, x.data(), n * sizeof(__nv_bfloat16), cudaMemcpyHostToDevice));

    for (int layer = 0; layer < 4; layer++) {
        recurrence_forward<<<dim3((channels + 63) / 64, batch), 256>>>(d_gate, d_x, d_out, steps, channels);
        cudaCheck(cudaGetLastError());
    }
    cudaCheck(cudaDeviceSynchronize());
    cudaCheck(cudaMemcpy(out.data(), d_out, n * sizeof(__nv_bfloat16), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int b = 0; b < batch; b++)
        for (int c = b; c < channels; c += 1 + channels / 20) {
            double h = 0;
            for (int t = 0; t < steps; t++) {
                size_t at = ((size_t)b * steps + t) * channels + c;
                double a = 1 / (1 + std::exp(-(double)__bfloat162float(gate[at])));
                h = a * h + (1 - a) * __bfloat162float(x[at]);
                worst = std::fmax(worst, std::fabs(h - __bfloat162float(out[at])));
            }
        }
    cudaCheck(cudaFree(d_gate));
    cudaCheck(cudaFree(d_x));
    cudaCheck(cudaFree(d_out));
    bool ok = worst < 5e-3;
    printf("%s\n", ok ? "ok" : "wrong");
    return ok ? 0 : 1;
}
