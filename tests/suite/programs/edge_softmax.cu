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

// one thread for each head of each node
__global__ void edge_softmax(const int* offsets, const float* scores, float* weights, int nodes) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int node = idx / HEADS, head = idx % HEADS;
    if (node >= nodes) return;

    int begin = offsets[node], end = offsets[node + 1];
    float most = -INFINITY;
    for (int e = begin; e < end; e++) most = fmaxf(most, scores[(size_t)e * HEADS + head]);
    float sum = 0.0f;
    for (int e = begin; e < end; e++) sum += expf(scores[(size_t)e * HEADS + head] - most);
    for (int e = begin; e < end; e++)
        weights[(size_t)e * HEADS + head] = expf(scores[(size_t)e * HEADS + head] - most) / sum;
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
        edge_softmax<<<(nodes * HEADS + block - 1) / block, block>>>(d_offsets, d_scores, d_weights, nodes);
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
