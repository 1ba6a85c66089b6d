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

// Which of two scores comes first: the greater, or, of equals, that of the earlier expert.
__device__ __forceinline__ bool before(float v, int e, float other, int other_e) {
    return v > other || (v == other && e < other_e);
}

constexpr int kLanes = 8, kLoads = kExperts / 4 / kLanes;

// Eight lanes a token, four scores a load.
__global__ void __launch_bounds__(256) route_tokens(const float* __restrict__ logits, Route* __restrict__ routes,
                                                    int tokens) {
    const int t = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes, lane = threadIdx.x % kLanes;
    const float4* row = (const float4*)(logits + (size_t)min(t, tokens - 1) * kExperts);
    float score[4 * kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; i++) {
        float4 v = __ldcs(&row[i * kLanes + lane]);
        score[4 * i] = v.x;
        score[4 * i + 1] = v.y;
        score[4 * i + 2] = v.z;
        score[4 * i + 3] = v.w;
    }

    int first = kExperts, second = kExperts;
    float best = -INFINITY, next = -INFINITY;
#pragma unroll
    for (int i = 0; i < 4 * kLoads; i++) {
        int e = (i / 4 * kLanes + lane) * 4 + i % 4;
        float v = score[i];
        bool top = v > best, middle = v > next;
        next = top ? best : middle ? v : next;
        second = top ? first : middle ? e : second;
        best = top ? v : best;
        first = top ? e : first;
    }
#pragma unroll
    for (int bits = kLanes / 2; bits > 0; bits /= 2) {
        float best2 = __shfl_xor_sync(0xffffffffu, best, bits), next2 = __shfl_xor_sync(0xffffffffu, next, bits);
        int first2 = __shfl_xor_sync(0xffffffffu, first, bits), second2 = __shfl_xor_sync(0xffffffffu, second, bits);
        bool theirs = before(best2, first2, best, first);
        // the loser of the two first ones, against the winner's second
        float lost = theirs ? best : best2, rest = theirs ? next2 : next;
        int lost_e = theirs ? first : first2, rest_e = theirs ? second2 : second;
        bool lost_next = before(lost, lost_e, rest, rest_e);
        best = theirs ? best2 : best;
        first = theirs ? first2 : first;
        next = lost_next ? lost : rest;
        second = lost_next ? lost_e : rest_e;
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * kLoads; i++) sum += __expf(score[i] - best);
#pragma unroll
    for (int bits = kLanes / 2; bits > 0; bits /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, bits);

    if (lane == 0 && t < tokens) {
        float one = 1.0f / sum;
        int4 packed = make_int4(first, second, __float_as_int(one), __float_as_int(__expf(next - best) * one));
        __stcs((int4*)&routes[t], packed);
    }
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
        route_tokens<<<(tokens + 31) / 32, 256>>>(d_logits, d_routes, tokens);
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
