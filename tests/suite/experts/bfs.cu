// SPDX-License-Identifier: Apache-2.0
// Breadth-first search, a level a launch, one thread a vertex.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <queue>
#include <random>
#include <vector>

// A warp 32 vertices: those of this level are taken one after another, their edges by all lanes.
__global__ void bfs_level(const int* __restrict__ offsets, const int* __restrict__ edges, int* distance, int level,
                          int vertices, int* changed) {
  int v = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  bool mine = v < vertices && distance[v] == level;
  int start = mine ? offsets[v] : 0, end = mine ? offsets[v + 1] : 0;
  bool found = false;
  for (unsigned todo = __ballot_sync(0xffffffffu, mine); todo; todo &= todo - 1) {
    int from = __ffs(todo) - 1, last = __shfl_sync(0xffffffffu, end, from);
    for (int e = __shfl_sync(0xffffffffu, start, from) + lane; e < last; e += 32) {
      int to = edges[e];
      if (distance[to] == -1) {
        distance[to] = level + 1;
        found = true;
      }
    }
  }
  if (__any_sync(0xffffffffu, found) && lane == 0) *changed = 1;
}

int main(int argc, char** argv) {
  int vertices = argc > 1 ? atoi(argv[1]) : 1 << 20, degree = argc > 2 ? atoi(argv[2]) : 16;
  std::mt19937 gen(9);
  std::vector<int> offsets(vertices + 1), edges;
  for (int v = 0; v < vertices; v++) {
    int count = v % 64 == 0 ? 8 * degree : degree / 2;
    for (int k = 0; k < count; k++) edges.push_back(gen() % vertices);
    offsets[v + 1] = (int)edges.size();
  }
  std::vector<int> want(vertices, -1), got(vertices);
  std::queue<int> todo;
  want[0] = 0;
  todo.push(0);
  while (!todo.empty()) {
    int v = todo.front();
    todo.pop();
    for (int e = offsets[v]; e < offsets[v + 1]; e++)
      if (want[edges[e]] < 0) {
        want[edges[e]] = want[v] + 1;
        todo.push(edges[e]);
      }
  }
  int *d_offsets, *d_edges, *d_distance, *d_changed;
  cudaMalloc(&d_offsets, offsets.size() * sizeof(int));
  cudaMalloc(&d_edges, edges.size() * sizeof(int));
  cudaMalloc(&d_distance, vertices * sizeof(int));
  cudaMalloc(&d_changed, sizeof(int));
  cudaMemcpy(d_offsets, offsets.data(), offsets.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_edges, edges.data(), edges.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(d_distance, 0xff, vertices * sizeof(int));
  cudaMemset(d_distance, 0, sizeof(int));
  int changed = 1, level = 0;
  while (changed) {
    changed = 0;
    cudaMemcpy(d_changed, &changed, sizeof(int), cudaMemcpyHostToDevice);
    bfs_level<<<(vertices + 255) / 256, 256>>>(d_offsets, d_edges, d_distance, level, vertices, d_changed);
    cudaMemcpy(&changed, d_changed, sizeof(int), cudaMemcpyDeviceToHost);
    level++;
  }
  cudaMemcpy(got.data(), d_distance, vertices * sizeof(int), cudaMemcpyDeviceToHost);
  printf("levels %d, %s\n", level, got == want ? "same" : "different");
  return got != want;
}
