// SPDX-License-Identifier: Apache-2.0
// Graph attention: scores of edges become weights by a softmax over the edges that enter a node, for each head.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(x)                                               \
    if (cudaError_t e = (x)) {                                      \
        fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e));     \
        exit(2);                                                    \
    }

constexpr int HEADS = 4;

struct Graph {
    int nodes;
    std::vector<int> offsets;  // of each node's incoming edges
    int edges() const { return offsets[nodes]; }
};

Graph make_graph(int nodes, unsigned seed) {
    Graph g;
    g.nodes = nodes;
    g.offsets.resize(nodes + 1);
    for (int v = 0; v < nodes; v++) {
        seed = seed * 1664525u + 1013904223u;
        int degree = 8 + (seed >> 16) % 49;
        if (v % 1000 == 500) degree *= 4;
        if (v % 5000 == 77) degree = 0;
        g.offsets[v + 1] = g.offsets[v] + degree;
    }
    return g;
}

constexpr int LANES = 8;  // of a node
constexpr int HELD = 8;   // edges of a lane in registers

__device__ __forceinline__ float4 max4(float4 a, float4 b) {
    return make_float4(fmaxf(a.x, b.x), fmaxf(a.y, b.y), fmaxf(a.z, b.z), fmaxf(a.w, b.w));
}

__device__ __forceinline__ float4 add4(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float4 exp4(float4 a, float4 most) {
    return make_float4(__expf(a.x - most.x), __expf(a.y - most.y), __expf(a.z - most.z), __expf(a.w - most.w));
}

__device__ __forceinline__ float4 mul4(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

__device__ __forceinline__ float4 from4(float4 v, int bits) {
    return make_float4(__shfl_xor_sync(0xffffffffu, v.x, bits), __shfl_xor_sync(0xffffffffu, v.y, bits),
                       __shfl_xor_sync(0xffffffffu, v.z, bits), __shfl_xor_sync(0xffffffffu, v.w, bits));
}

// eight lanes for each node, an edge's four heads in one load; what does not fit in registers is read again
__global__ void __launch_bounds__(256) edge_softmax(const int* __restrict__ offsets, const float* __restrict__ scores,
                                                    float* __restrict__ weights, int nodes) {
    static_assert(HEADS == 4, "an edge is a float4");
    int node = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    const float4* in = (const float4*)scores;
    float4* out = (float4*)weights;
    int begin = 0, end = 0;
    if (node < nodes) {
        begin = offsets[node] + lane;
        end = offsets[node + 1];
    }

    float4 held[HELD];
    float4 most = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
#pragma unroll
    for (int k = 0; k < HELD; k++)
        if (begin + k * LANES < end) held[k] = __ldcs(&in[begin + k * LANES]);
#pragma unroll
    for (int k = 0; k < HELD; k++)
        if (begin + k * LANES < end) most = max4(most, held[k]);
    for (int e = begin + HELD * LANES; e < end; e += LANES) most = max4(most, in[e]);
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) most = max4(most, from4(most, bits));

    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < HELD; k++)
        if (begin + k * LANES < end) {
            held[k] = exp4(held[k], most);
            sum = add4(sum, held[k]);
        }
    for (int e = begin + HELD * LANES; e < end; e += LANES) sum = add4(sum, exp4(in[e], most));
#pragma unroll
    for (int bits = LANES / 2; bits > 0; bits /= 2) sum = add4(sum, from4(sum, bits));

    float4 factor = make_float4(1.0f / sum.x, 1.0f / sum.y, 1.0f / sum.z, 1.0f / sum.w);
#pragma unroll
    for (int k = 0; k < HELD; k++)
        if (begin + k * LANES < end) __stcs(&out[begin + k * LANES], mul4(held[k], factor));
    for (int e = begin + HELD * LANES; e < end; e += LANES) __stcs(&out[e], mul4(exp4(in[e], most), factor));
}

int main(int argc, char** argv) {
    int nodes = argc > 1 ? atoi(argv[1]) : 200000;
    int block = argc > 2 ? atoi(argv[2]) : 256;
    int layers = argc > 3 ? atoi(argv[3]) : 4;

    Graph g = make_graph(nodes, 21);
    size_t n = (size_t)g.edges() * HEADS;
    std::vector<float> scores(n), weights(n);
    unsigned s = 9;
    for (float& v : scores) v = ((s = s * 69069u + 1u) >> 8) * (8.0f / (1 << 24)) - 4.0f;

    int* d_offsets;
    float *d_scores, *d_weights;
    CUDA_CHECK(cudaMalloc(&d_offsets, (nodes + 1) * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_scores, n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_weights, n * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_offsets, g.offsets.data(), (nodes + 1) * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_scores, scores.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    for (int layer = 0; layer < layers; layer++) {
        edge_softmax<<<(nodes + 31) / 32, 256>>>(d_offsets, d_scores, d_weights, nodes);
        CUDA_CHECK(cudaGetLastError());
    }
    CUDA_CHECK(cudaMemcpy(weights.data(), d_weights, n * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int v = 0; v < nodes; v += nodes > 1000 ? 50 : 1)
        for (int h = 0; h < HEADS; h++) {
            double sum = 0;
            for (int e = g.offsets[v]; e < g.offsets[v + 1]; e++) sum += std::exp((double)scores[(size_t)e * HEADS + h]);
            for (int e = g.offsets[v]; e < g.offsets[v + 1]; e++) {
                double want = std::exp((double)scores[(size_t)e * HEADS + h]) / sum;
                worst = std::fmax(worst, std::fabs(want - weights[(size_t)e * HEADS + h]));
            }
        }
    cudaFree(d_offsets);
    cudaFree(d_scores);
    cudaFree(d_weights);
    printf("%s\n", worst < 1e-5 ? "ok" : "wrong");
    return worst < 1e-5 ? 0 : 1;
}
