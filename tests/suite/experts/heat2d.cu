// SPDX-License-Identifier: Apache-2.0
// Heat in a plate, explicit steps, two buffers that change places.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define IDX(i, j, nx) ((i) + (j) * (nx))

constexpr int kRows = 8;

// Threads along a row; each walks down eight rows and keeps the three it needs in registers.
__global__ void heat_step(const double* __restrict__ u, double* __restrict__ u_new, int nx, int ny, double alpha) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j0 = (blockIdx.y * blockDim.y + threadIdx.y) * kRows;
  if (i < 1 || i >= nx - 1) return;
  int first = max(j0, 1), last = min(j0 + kRows, ny - 1);
  if (first >= last) return;
  double above = u[IDX(i, (size_t)first - 1, nx)], here = u[IDX(i, (size_t)first, nx)];
#pragma unroll
  for (int j = first; j < last; j++) {
    size_t at = IDX(i, (size_t)j, nx);
    double below = u[at + nx];
    u_new[at] = here + alpha * (u[at - 1] + u[at + 1] + above + below - 4.0 * here);
    above = here;
    here = below;
  }
}

int main(int argc, char** argv) {
  int nx = argc > 1 ? atoi(argv[1]) : 4096, ny = argc > 2 ? atoi(argv[2]) : 4096, steps = argc > 3 ? atoi(argv[3]) : 20;
  std::vector<double> u((size_t)nx * ny, 0.0), want, next;
  for (int j = ny / 4; j < ny / 2; j++)
    for (int i = nx / 4; i < nx / 2; i++) u[IDX(i, (size_t)j, nx)] = 100.0;
  want = next = u;
  double *a, *b;
  cudaMalloc(&a, u.size() * sizeof(double));
  cudaMalloc(&b, u.size() * sizeof(double));
  cudaMemcpy(a, u.data(), u.size() * sizeof(double), cudaMemcpyHostToDevice);
  cudaMemcpy(b, u.data(), u.size() * sizeof(double), cudaMemcpyHostToDevice);
  dim3 threads(128, 2);
  dim3 blocks((nx + threads.x - 1) / threads.x, (ny + threads.y * kRows - 1) / (threads.y * kRows));
  for (int s = 0; s < steps; s++) {
    heat_step<<<blocks, threads>>>(a, b, nx, ny, 0.2);
    std::swap(a, b);
  }
  cudaMemcpy(u.data(), a, u.size() * sizeof(double), cudaMemcpyDeviceToHost);
  for (int s = 0; s < steps; s++) {
    for (int j = 1; j < ny - 1; j++)
      for (int i = 1; i < nx - 1; i++) {
        size_t at = IDX(i, (size_t)j, nx);
        next[at] = want[at] + 0.2 * (want[at - 1] + want[at + 1] + want[at - nx] + want[at + nx] - 4.0 * want[at]);
      }
    std::swap(want, next);
  }
  double worst = 0, heat = 0;
  for (size_t i = 0; i < u.size(); i++) {
    worst = std::fmax(worst, std::fabs(u[i] - want[i]));
    heat += u[i];
  }
  printf("%s, heat %.6e\n", worst < 1e-9 ? "ok" : "wrong", heat);
  return worst < 1e-9 ? 0 : 1;
}
