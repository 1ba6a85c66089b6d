// SPDX-License-Identifier: Apache-2.0
// Triangles of a graph. Each edge is kept once, at its lower vertex; neighbours are sorted, and two lists are merged.
#include <cuda_runtime.h>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(x)                                               \
    if (cudaError_t e = (x)) {                                      \
        fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e));     \
        exit(2);                                                    \
    }

struct Graph {
    std::vector<int> offsets, neighbours;
};

// Mostly near neighbours, as on a mesh or in a village; a vertex in a hundred knows many.
Graph make_graph(int vertices) {
    Graph g;
    g.offsets.resize(vertices + 1);
    g.neighbours.resize((size_t)vertices * 20 + 1000);
    int* out = g.neighbours.data();
    int edges = 0;
    unsigned s = 31;
    for (int u = 0; u < vertices; u++) {
        s = s * 1664525u + 1013904223u;
        int degree = (s >> 16) % 100 == 0 ? 96 : 6 + (s >> 24) % 21;
        int v = u;
        for (int k = 0; k < degree; k++) {
            s = s * 1664525u + 1013904223u;
            v += 1 + (s >> 29);
            if (v >= vertices) break;
            out[edges++] = v;
        }
        g.offsets[u + 1] = edges;
    }
    g.neighbours.resize(edges);
    return g;
}

constexpr int kWarps = 8;
constexpr int kSlots = 512;  // of a warp's table
constexpr int kAhead = 4;    // neighbours of a neighbour that a lane has on their way

// One warp for each vertex u: the triangles u < v < w. u's neighbours go into a hash table in shared memory; eight lanes
// take a neighbour v and look its neighbours up there.
__global__ void __launch_bounds__(32 * kWarps)
    count_triangles(const int* __restrict__ offsets, const int* __restrict__ neighbours, int* __restrict__ triangles,
                    int vertices) {
    __shared__ int tables[kWarps][kSlots];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int u = blockIdx.x * kWarps + warp;
    if (u >= vertices) return;
    const int begin = offsets[u], end = offsets[u + 1], degree = end - begin;
    if (degree < 2) {
        if (lane == 0) triangles[u] = 0;
        return;
    }

    int* table = tables[warp];
    const bool hashed = degree <= kSlots / 2;
    int bits = 6;
    while (1 << bits < 4 * degree && 1 << bits < kSlots) bits++;
    const unsigned mask = (1u << bits) - 1;
    const int shift = 32 - bits;
    if (hashed) {
        for (int s = lane; s < 1 << bits; s += 32) table[s] = -1;
        __syncwarp();
        for (int i = begin + lane; i < end; i += 32) {
            const int v = neighbours[i];
            unsigned s = (unsigned)v * 2654435761u >> shift;
            while (atomicCAS(&table[s], -1, v) != -1) s = (s + 1) & mask;
        }
        __syncwarp();
    }
    const int highest = neighbours[end - 1];

    int count = 0;
    for (int first = begin; first < end; first += 32) {
        int from = 0, to = 0;
        if (first + lane < end) {
            const int v = neighbours[first + lane];
            from = offsets[v];
            to = offsets[v + 1];
        }
        const int many = min(32, end - first);
        for (int k = 0; k < many; k += 4) {
            int at = __shfl_sync(~0u, from, k + lane / 8) + lane % 8;
            const int last = __shfl_sync(~0u, to, k + lane / 8);
            for (; at < last; at += 8 * kAhead) {
                int w[kAhead];
#pragma unroll
                for (int a = 0; a < kAhead; a++) w[a] = at + 8 * a < last ? neighbours[at + 8 * a] : INT_MAX;
#pragma unroll
                for (int a = 0; a < kAhead; a++) {
                    if (w[a] > highest) break;
                    if (hashed) {
                        unsigned s = (unsigned)w[a] * 2654435761u >> shift;
                        int held = table[s];
                        while (held != -1 && held != w[a]) {
                            s = (s + 1) & mask;
                            held = table[s];
                        }
                        count += held == w[a];
                    } else {
                        int low = begin, high = end;
                        while (low < high) {
                            const int middle = (low + high) / 2;
                            if (neighbours[middle] < w[a])
                                low = middle + 1;
                            else
                                high = middle;
                        }
                        count += neighbours[low] == w[a];
                    }
                }
            }
        }
    }
#pragma unroll
    for (int by = 16; by > 0; by /= 2) count += __shfl_xor_sync(~0u, count, by);
    if (lane == 0) triangles[u] = count;
}

__global__ void total_triangles(const int* triangles, unsigned long long* total, int vertices) {
    __shared__ unsigned long long sums[256];
    unsigned long long sum = 0;
    for (int u = blockIdx.x * 256 + threadIdx.x; u < vertices; u += gridDim.x * 256) sum += triangles[u];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, sums[0]);
}

static int on_the_host(const Graph& g, int u) {
    int count = 0;
    for (int i = g.offsets[u]; i < g.offsets[u + 1]; i++) {
        int v = g.neighbours[i];
        for (int a = i + 1; a < g.offsets[u + 1]; a++)
            for (int b = g.offsets[v]; b < g.offsets[v + 1]; b++) count += g.neighbours[a] == g.neighbours[b];
    }
    return count;
}

int main(int argc, char** argv) {
    int vertices = argc > 1 ? atoi(argv[1]) : 200000;

    Graph g = make_graph(vertices);
    int edges = g.offsets[vertices];

    int *d_offsets, *d_neighbours, *d_triangles;
    unsigned long long* d_total;
    CUDA_CHECK(cudaMalloc(&d_offsets, (vertices + 1) * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_neighbours, edges * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_triangles, vertices * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_total, sizeof(unsigned long long)));
    CUDA_CHECK(cudaMemcpy(d_offsets, g.offsets.data(), (vertices + 1) * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_neighbours, g.neighbours.data(), edges * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_total, 0, sizeof(unsigned long long)));

    int blocks = (vertices + kWarps - 1) / kWarps;
    count_triangles<<<blocks, 32 * kWarps>>>(d_offsets, d_neighbours, d_triangles, vertices);
    CUDA_CHECK(cudaGetLastError());
    total_triangles<<<64, 256>>>(d_triangles, d_total, vertices);
    CUDA_CHECK(cudaGetLastError());

    std::vector<int> triangles(vertices);
    unsigned long long total = 0, sum = 0;
    CUDA_CHECK(cudaMemcpy(triangles.data(), d_triangles, vertices * sizeof(int), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(&total, d_total, sizeof(total), cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int t : triangles) sum += t;
    for (int u = 0; u < vertices; u += vertices > 5000 ? 1 + vertices / 199 : 1) wrong += triangles[u] != on_the_host(g, u);
    wrong += sum != total;
    cudaFree(d_offsets);
    cudaFree(d_neighbours);
    cudaFree(d_triangles);
    cudaFree(d_total);
    printf("%d edges, %llu triangles\n%s\n", edges, total, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
