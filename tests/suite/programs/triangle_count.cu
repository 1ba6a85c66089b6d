// SPDX-License-Identifier: Apache-2.0
// Triangles of a graph. Each edge is kept once, at its lower vertex; neighbours are sorted, and two lists are merged.
#include <cuda_runtime.h>
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

// One thread for each vertex u: the triangles u < v < w.
__global__ void count_triangles(const int* offsets, const int* neighbours, int* triangles, int vertices) {
    int u = blockIdx.x * blockDim.x + threadIdx.x;
    if (u >= vertices) return;

    int end = offsets[u + 1];
    int count = 0;
    for (int i = offsets[u]; i < end; i++) {
        int v = neighbours[i];
        int a = i + 1;
        int b = offsets[v], b_end = offsets[v + 1];
        while (a < end && b < b_end) {
            int x = neighbours[a], y = neighbours[b];
            if (x == y) count++;
            if (x <= y) a++;
            if (y <= x) b++;
        }
    }
    triangles[u] = count;
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
    int block = argc > 2 ? atoi(argv[2]) : 256;

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

    int blocks = (vertices + block - 1) / block;
    count_triangles<<<blocks, block>>>(d_offsets, d_neighbours, d_triangles, vertices);
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
