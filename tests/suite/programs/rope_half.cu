// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of a transformer's queries, in half precision: a thread a pair of numbers.
#include <cuda_fp16.h>
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

// x, out: (tokens, heads, dim). Element i of a head turns with element i + dim / 2.
__global__ void rotary_embedding(const half* x, half* out, const int* positions, int tokens, int heads, int dim,
                                 float base) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int half_dim = dim / 2;
    if (idx >= tokens * heads * half_dim) return;
    int i = idx % half_dim;
    int head = idx / half_dim % heads;
    int token = idx / (half_dim * heads);

    float freq = 1.0f / powf(base, 2.0f * i / dim);
    float angle = positions[token] * freq;
    float c = cosf(angle), s = sinf(angle);

    size_t at = ((size_t)token * heads + head) * dim + i;
    float x0 = __half2float(x[at]);
    float x1 = __half2float(x[at + half_dim]);
    out[at] = __float2half(x0 * c - x1 * s);
    out[at + half_dim] = __float2half(x1 * c + x0 * s);
}

int main(int argc, char** argv) {
    int tokens = argc > 1 ? atoi(argv[1]) : 8192;
    int heads = argc > 2 ? atoi(argv[2]) : 32;
    int dim = argc > 3 ? atoi(argv[3]) : 128;
    int block = argc > 4 ? atoi(argv[4]) : 256;
    const float base = 10000.0f;
    if (dim % 2) {
        fprintf(stderr, "dim must be even\n");
        return 2;
    }
    size_t n = (size_t)tokens * heads * dim;

    std::vector<half> values(512), x(n), out(n);
    for (int i = 0; i < 512; i++) values[i] = __float2half(i / 128.0f - 2.0f);
    unsigned s = 77;
    for (half& h : x) h = values[(s = s * 1664525u + 1013904223u) >> 23];
    std::vector<int> positions(tokens);
    for (int t = 0; t < tokens; t++) positions[t] = t % 4096;  // sequences, packed

    half *d_x, *d_out;
    int* d_positions;
    cudaCheck(cudaMalloc(&d_x, n * sizeof(half)));
    cudaCheck(cudaMalloc(&d_out, n * sizeof(half)));
    cudaCheck(cudaMalloc(&d_positions, tokens * sizeof(int)));
    cudaCheck(cudaMemcpy(d_x, x.data(), n * sizeof(half), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_positions, positions.data(), tokens * sizeof(int), cudaMemcpyHostToDevice));

    int pairs = (int)(n / 2);
    for (int layer = 0; layer < 4; layer++) {
        rotary_embedding<<<(pairs + block - 1) / block, block>>>(d_x, d_out, d_positions, tokens, heads, dim, base);
        cudaCheck(cudaGetLastError());
    }
    cudaCheck(cudaMemcpy(out.data(), d_out, n * sizeof(half), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int t = 0; t < tokens; t += 1 + tokens / 200)
        for (int i = 0; i < dim / 2; i++) {
            double angle = positions[t] * std::pow((double)base, -2.0 * i / dim);
            double c = std::cos(angle), sn = std::sin(angle);
            for (int h = t % 3; h < heads; h += 3) {
                size_t at = ((size_t)t * heads + h) * dim + i;
                double x0 = __half2float(x[at]), x1 = __half2float(x[at + dim / 2]);
                worst = std::fmax(worst, std::fabs(x0 * c - x1 * sn - __half2float(out[at])));
                worst = std::fmax(worst, std::fabs(x1 * c + x0 * sn - __half2float(out[at + dim / 2])));
            }
        }
    cudaCheck(cudaFree(d_x));
    cudaCheck(cudaFree(d_out));
    cudaCheck(cudaFree(d_positions));
    printf("%s\n", worst < 1e-2 ? "ok" : "wrong");
    return worst < 1e-2 ? 0 : 1;
}
