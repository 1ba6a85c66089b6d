// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts: softmax over the experts' scores, and the best two of them, a thread a token.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kExperts = 64;

struct Route {
    int expert[2];
    float weight[2];
};

inline void check(cudaError_t e) {
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

__global__ void route_tokens(const float* logits, Route* routes, int tokens) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= tokens) return;
    const float* row = logits + (size_t)t * kExperts;

    int first = -1, second = -1;
    float best = -INFINITY, next = -INFINITY;
    for (int e = 0; e < kExperts; e++) {
        float v = row[e];
        if (v > best) {
            next = best;
            second = first;
            best = v;
            first = e;
        } else if (v > next) {
            next = v;
            second = e;
        }
    }
    float sum = 0.0f;
    for (int e = 0; e < kExperts; e++) sum += expf(row[e] - best);

    Route route;
    route.expert[0] = first;
    route.expert[1] = second;
    route.weight[0] = 1.0f / sum;
    route.weight[1] = expf(next - best) / sum;
    routes[t] = route;
}

// How many tokens go to each expert.
__global__ void count_load(const Route* routes, int* load, int tokens) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= tokens) return;
    atomicAdd(&load[routes[t].expert[0]], 1);
    atomicAdd(&load[routes[t].expert[1]], 1);
}

int main(int argc, char** argv) {
    int tokens = argc > 1 ? atoi(argv[1]) : 1 << 19;
    int block = argc > 2 ? atoi(argv[2]) : 256;
    int layers = argc > 3 ? atoi(argv[3]) : 4;

    size_t n = (size_t)tokens * kExperts;
    std::vector<float> logits(n);
    unsigned s = 31;
    for (float& v : logits) v = ((s = s * 1664525u + 1013904223u) >> 12) * (6.0f / (1 << 20)) - 3.0f;

    float* d_logits;
    Route* d_routes;
    int* d_load;
    check(cudaMalloc(&d_logits, n * sizeof(float)));
    check(cudaMalloc(&d_routes, tokens * sizeof(Route)));
    check(cudaMalloc(&d_load, kExperts * sizeof(int)));
    check(cudaMemcpy(d_logits, logits.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    check(cudaMemset(d_load, 0, kExperts * sizeof(int)));

    int grid = (tokens + block - 1) / block;
    for (int layer = 0; layer < layers; layer++) {
        route_tokens<<<grid, block>>>(d_logits, d_routes, tokens);
        check(cudaGetLastError());
    }
    count_load<<<grid, block>>>(d_routes, d_load, tokens);
    check(cudaGetLastError());

    std::vector<Route> routes(tokens);
    std::vector<int> load(kExperts);
    check(cudaMemcpy(routes.data(), d_routes, tokens * sizeof(Route), cudaMemcpyDeviceToHost));
    check(cudaMemcpy(load.data(), d_load, kExperts * sizeof(int), cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int t = 0; t < tokens; t += tokens > 1000 ? 29 : 1) {
        const float* row = &logits[(size_t)t * kExperts];
        int first = 0, second = -1;
        for (int e = 1; e < kExperts; e++)
            if (row[e] > row[first]) first = e;
        for (int e = 0; e < kExperts; e++)
            if (e != first && (second < 0 || row[e] > row[second])) second = e;
        double sum = 0;
        for (int e = 0; e < kExperts; e++) sum += std::exp((double)row[e] - row[first]);
        const Route& got = routes[t];
        wrong += got.expert[0] != first || got.expert[1] != second;
        wrong += std::fabs(got.weight[0] - 1 / sum) > 1e-5;
        wrong += std::fabs(got.weight[1] - std::exp((double)row[second] - row[first]) / sum) > 1e-5;
    }
    long long routed = 0;
    for (int l : load) routed += l;
    wrong += routed != 2LL * tokens;
    check(cudaFree(d_logits));
    check(cudaFree(d_routes));
    check(cudaFree(d_load));
    printf("%s\n", wrong == 0 ? "ok" : "wrong");
    return wrong == 0 ? 0 : 1;
}
