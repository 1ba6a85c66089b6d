// SPDX-License-Identifier: Apache-2.0
// Labels spread over a graph: in each round a vertex takes the smallest label among its own and its neighbours'.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#define SAFE(call)                                                                    \
    {                                                                                 \
        cudaError_t code = call;                                                      \
        if (code != cudaSuccess) {                                                    \
            fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(code));     \
            exit(1);                                                                  \
        }                                                                             \
    }

constexpr int kThreads = 256;
constexpr int kTeam = 4;                       // threads for a vertex
constexpr int kVertices = kThreads / kTeam;    // of a block
constexpr int kAhead = 4;                      // neighbours of a thread that are on their way
constexpr int kMany = 128;                     // a vertex with more neighbours is for the whole block

// the smallest label among those of the neighbours first, first + Step, ... before end
template <int Step>
__device__ __forceinline__ int smallest_of(const int* neighbours, const int* labels, int first, int end, int smallest) {
    for (int e = first; e < end; e += kAhead * Step) {
        int from[kAhead], label[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; k++) from[k] = e + k * Step < end ? __ldcs(neighbours + e + k * Step) : -1;
#pragma unroll
        for (int k = 0; k < kAhead; k++) label[k] = from[k] >= 0 ? __ldg(labels + from[k]) : smallest;
#pragma unroll
        for (int k = 0; k < kAhead; k++) smallest = min(smallest, label[k]);
    }
    return smallest;
}

// neighbours of vertex v: neighbours[start[v]] to neighbours[start[v + 1] - 1]
__global__ void __launch_bounds__(kThreads)
    spread_labels(const int* __restrict__ start, const int* __restrict__ neighbours, const int* __restrict__ labels,
                  int* __restrict__ new_labels, int* __restrict__ changed, int vertices) {
    __shared__ int many[kVertices], smallest_many[kVertices];
    __shared__ int count;
    const int mine = threadIdx.x / kTeam, member = threadIdx.x % kTeam;
    const int v = blockIdx.x * kVertices + mine;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();

    int old = 0, smallest = 0;
    bool postponed = false;
    if (v < vertices) {
        const int begin = start[v], end = start[v + 1];
        smallest = old = labels[v];
        postponed = end - begin > kMany;
        if (!postponed) {
            smallest = smallest_of<kTeam>(neighbours, labels, begin + member, end, smallest);
        } else if (member == 0) {
            smallest_many[mine] = old;
            many[atomicAdd(&count, 1)] = mine;
        }
    }
#pragma unroll
    for (int over = 1; over < kTeam; over *= 2) smallest = min(smallest, __shfl_xor_sync(0xffffffffu, smallest, over));
    __syncthreads();

    const int postponed_count = count;
    if (postponed_count) {
        for (int k = 0; k < postponed_count; k++) {
            const int which = many[k], u = blockIdx.x * kVertices + which;
            const int first = start[u] + threadIdx.x, end = start[u + 1];
            const int found = __reduce_min_sync(0xffffffffu, smallest_of<kThreads>(neighbours, labels, first, end, 0x7fffffff));
            if (threadIdx.x % 32 == 0) atomicMin(&smallest_many[which], found);
        }
        __syncthreads();
        if (postponed) smallest = smallest_many[mine];
    }
    const bool leader = member == 0 && v < vertices;
    if (leader) new_labels[v] = smallest;
    const int differ = __syncthreads_count(leader && smallest != old);
    if (threadIdx.x == 0 && differ) atomicAdd(changed, differ);
}

__global__ void first_labels(int* labels, int vertices) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < vertices) labels[v] = (int)(((unsigned)v * 2654435761u) >> 1);
}

int main(int argc, char** argv) {
    int vertices = argc > 1 ? atoi(argv[1]) : 1000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 15;
    const int threads = 256;

    // some vertices have a great many neighbours; most neighbours are near in the numbering
    std::vector<int> start(vertices + 1), neighbours;
    unsigned s = 5;
    auto next = [&s] { return (s = s * 1664525u + 1013904223u) >> 8; };
    for (int v = 0; v < vertices; v++) {
        double u = (next() + 1) / 16777216.0;
        int degree = (int)std::fmin(6.0 * std::pow(u, -0.6), 2000.0);
        start[v] = (int)neighbours.size();
        for (int e = 0; e < degree; e++) {
            long long r = next();
            int near = v + (int)(r % 1024) - 512;
            bool far = r >> 10 & 1 || near < 0 || near >= vertices;
            neighbours.push_back(far ? (int)((long long)next() * vertices >> 24) : near);
        }
    }
    int edges = start[vertices] = (int)neighbours.size();

    int *d_start, *d_neighbours, *d_labels, *d_new, *d_changed;
    SAFE(cudaMalloc(&d_start, (vertices + 1) * sizeof(int)));
    SAFE(cudaMalloc(&d_neighbours, edges * sizeof(int)));
    SAFE(cudaMalloc(&d_labels, vertices * sizeof(int)));
    SAFE(cudaMalloc(&d_new, vertices * sizeof(int)));
    SAFE(cudaMalloc(&d_changed, rounds * sizeof(int)));
    SAFE(cudaMemcpy(d_start, start.data(), (vertices + 1) * sizeof(int), cudaMemcpyHostToDevice));
    SAFE(cudaMemcpy(d_neighbours, neighbours.data(), edges * sizeof(int), cudaMemcpyHostToDevice));
    SAFE(cudaMemset(d_changed, 0, rounds * sizeof(int)));

    int blocks = (vertices + threads - 1) / threads;
    first_labels<<<blocks, threads>>>(d_labels, vertices);
    SAFE(cudaGetLastError());
    cudaEvent_t begin, end;
    SAFE(cudaEventCreate(&begin));
    SAFE(cudaEventCreate(&end));
    SAFE(cudaEventRecord(begin));
    for (int round = 0; round < rounds; round++) {
        spread_labels<<<(vertices + kVertices - 1) / kVertices, kThreads>>>(d_start, d_neighbours, d_labels, d_new,
                                                                            d_changed + round, vertices);
        SAFE(cudaGetLastError());
        std::swap(d_labels, d_new);
    }
    SAFE(cudaEventRecord(end));
    SAFE(cudaEventSynchronize(end));
    float ms;
    SAFE(cudaEventElapsedTime(&ms, begin, end));
    fprintf(stderr, "%d edges, %.3f ms a round\n", edges, ms / rounds);

    std::vector<int> labels(vertices), before(vertices), changed(rounds);
    SAFE(cudaMemcpy(labels.data(), d_labels, vertices * sizeof(int), cudaMemcpyDeviceToHost));
    SAFE(cudaMemcpy(before.data(), d_new, vertices * sizeof(int), cudaMemcpyDeviceToHost));
    SAFE(cudaMemcpy(changed.data(), d_changed, rounds * sizeof(int), cudaMemcpyDeviceToHost));

    // the last round again, and on a small graph all of them
    int wrong = 0;
    for (int v = 0; v < vertices; v++) {
        int smallest = before[v];
        for (int e = start[v]; e < start[v + 1]; e++) smallest = std::min(smallest, before[neighbours[e]]);
        wrong += labels[v] != smallest;
    }
    if (vertices < 10000) {
        std::vector<int> a(vertices), b(vertices);
        for (int v = 0; v < vertices; v++) a[v] = (int)(((unsigned)v * 2654435761u) >> 1);
        for (int round = 0; round < rounds; round++) {
            int differ = 0;
            for (int v = 0; v < vertices; v++) {
                b[v] = a[v];
                for (int e = start[v]; e < start[v + 1]; e++) b[v] = std::min(b[v], a[neighbours[e]]);
                differ += b[v] != a[v];
            }
            wrong += differ != changed[round];
            a.swap(b);
        }
        for (int v = 0; v < vertices; v++) wrong += a[v] != labels[v];
    }
    long long total = 0;
    std::set<int> kinds;
    for (int label : labels) {
        total += label;
        if (kinds.size() < 1000) kinds.insert(label);
    }
    SAFE(cudaFree(d_start));
    SAFE(cudaFree(d_neighbours));
    SAFE(cudaFree(d_labels));
    SAFE(cudaFree(d_new));
    SAFE(cudaFree(d_changed));
    for (int round = 0; round < rounds; round++) printf("%d ", changed[round]);
    printf("changed\n%d labels, sum %lld\n%d wrong\n", (int)kinds.size(), total, wrong);
    return wrong ? 1 : 0;
}
