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

// gate, x, out: (batch, steps, channels)
__global__ void recurrence_forward(const __nv_bfloat16* __restrict__ gate, const __nv_bfloat16* __restrict__ x,
                                   __nv_bfloat16* __restrict__ out, int steps, int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int b = blockIdx.y;
    if (c >= channels) return;

    size_t at = (size_t)b * steps * channels + c;
    float h = 0.0f;
    for (int t = 0; t < steps; t++) {
        float a = 1.0f / (1.0f + expf(-__bfloat162float(gate[at])));
        h = a * h + (1.0f - a) * __bfloat162float(x[at]);
        out[at] = __float2bfloat16(h);
        at += channels;
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
        recurrence_forward<<<dim3((channels + block - 1) / block, batch), block>>>(d_gate, d_x, d_out, steps, channels);
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
