// SPDX-License-Identifier: Apache-2.0
// Distance of every crossing of a road network to the nearest depot: Bellman and Ford's rounds over a list of edges.
#include <cuda_runtime.h>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define checkCuda(x)                                                                         \
    do {                                                                                     \
        cudaError_t e = (x);                                                                 \
        if (e != cudaSuccess) {                                                              \
            fprintf(stderr, "CUDA error in line %d: %s\n", __LINE__, cudaGetErrorString(e)); \
            exit(EXIT_FAILURE);                                                              \
        }                                                                                    \
    } while (0)

const int INFINITE = INT_MAX;
const int DEGREE = 16;

struct Edge {
    int from, to, length;
};

constexpr int kThreads = 256;

// A distance that another thread has just lowered may be read as it was before: then the atomic below does nothing.
__device__ __forceinline__ void relax(int reached, int to, int length, int* next) {
    const int through = reached + length;
    if (reached != INFINITE && through < next[to]) atomicMin(&next[to], through);
}

// next holds the same as dist when it comes in. A thread takes four edges, three words of 16 bytes; most edges change
// nothing, and to see that is a read.
__global__ void __launch_bounds__(kThreads)
    relax_edges(const Edge* __restrict__ edges, const int* __restrict__ dist, int* next, int num_edges) {
    const long long e = 4 * ((long long)blockIdx.x * kThreads + threadIdx.x);
    if (e + 4 <= num_edges) {
        const int4* words = (const int4*)(edges + e);
        const int4 a = words[0], b = words[1], c = words[2];
        const int r0 = dist[a.x], r1 = dist[a.w], r2 = dist[b.z], r3 = dist[c.y];
        const int n0 = next[a.y], n1 = next[b.x], n2 = next[b.w], n3 = next[c.z];
        if (r0 != INFINITE && r0 + a.z < n0) atomicMin(&next[a.y], r0 + a.z);
        if (r1 != INFINITE && r1 + b.y < n1) atomicMin(&next[b.x], r1 + b.y);
        if (r2 != INFINITE && r2 + c.x < n2) atomicMin(&next[b.w], r2 + c.x);
        if (r3 != INFINITE && r3 + c.w < n3) atomicMin(&next[c.z], r3 + c.w);
    } else
        for (long long last = e; last < num_edges; last++)
            relax(dist[edges[last].from], edges[last].to, edges[last].length, next);
}

__global__ void set_depots(int* dist, int vertices, int apart) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < vertices) dist[v] = v % apart == 0 ? 0 : INFINITE;
}

int main(int argc, char** argv) {
    int vertices = argc > 1 ? atoi(argv[1]) : 1000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    int apart = 1 + vertices / 250;

    // most edges lead near by, a few far away
    std::vector<Edge> edges;
    edges.reserve((size_t)vertices * DEGREE);
    unsigned s = 77;
    for (int v = 0; v < vertices; v++)
        for (int k = 0; k < DEGREE; k++) {
            s = s * 1664525u + 1013904223u;
            int to = k < DEGREE - 1 ? v + (int)(s >> 8 & 1023) - 512 : (int)((unsigned long long)s * vertices >> 32);
            to = (to % vertices + vertices) % vertices;
            s = s * 1664525u + 1013904223u;
            edges.push_back({v, to, 1 + (int)(s >> 24)});
        }
    int num_edges = (int)edges.size();

    Edge* d_edges;
    int *d_dist, *d_next;
    size_t bytes = vertices * sizeof(int);
    checkCuda(cudaMalloc(&d_edges, num_edges * sizeof(Edge)));
    checkCuda(cudaMalloc(&d_dist, bytes));
    checkCuda(cudaMalloc(&d_next, bytes));
    checkCuda(cudaMemcpy(d_edges, edges.data(), num_edges * sizeof(Edge), cudaMemcpyHostToDevice));
    set_depots<<<(vertices + 255) / 256, 256>>>(d_dist, vertices, apart);
    checkCuda(cudaGetLastError());

    cudaEvent_t start, stop;
    checkCuda(cudaEventCreate(&start));
    checkCuda(cudaEventCreate(&stop));
    checkCuda(cudaEventRecord(start));
    for (int round = 0; round < rounds; round++) {
        checkCuda(cudaMemcpy(d_next, d_dist, bytes, cudaMemcpyDeviceToDevice));
        relax_edges<<<(num_edges + 4 * kThreads - 1) / (4 * kThreads), kThreads>>>(d_edges, d_dist, d_next, num_edges);
        checkCuda(cudaGetLastError());
        std::swap(d_dist, d_next);
    }
    checkCuda(cudaEventRecord(stop));
    checkCuda(cudaEventSynchronize(stop));
    float ms;
    checkCuda(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%d rounds in %.2f ms\n", rounds, ms);

    // d_next is one round behind: the last round again, on the CPU
    std::vector<int> dist(vertices), before(vertices);
    checkCuda(cudaMemcpy(dist.data(), d_dist, bytes, cudaMemcpyDeviceToHost));
    checkCuda(cudaMemcpy(before.data(), d_next, bytes, cudaMemcpyDeviceToHost));
    std::vector<int> want = before;
    for (const Edge& e : edges)
        if (before[e.from] != INFINITE && before[e.from] + e.length < want[e.to]) want[e.to] = before[e.from] + e.length;

    int wrong = 0, reached = 0;
    long long sum = 0;
    for (int v = 0; v < vertices; v++) {
        wrong += dist[v] != want[v] || (v % apart == 0) != (dist[v] == 0);
        if (dist[v] == INFINITE) continue;
        reached++;
        sum += dist[v];
    }
    wrong += reached < vertices / 2;
    checkCuda(cudaFree(d_edges));
    checkCuda(cudaFree(d_dist));
    checkCuda(cudaFree(d_next));
    printf("%d reached, mean distance %.4f\n%s\n", reached, (double)sum / reached, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
