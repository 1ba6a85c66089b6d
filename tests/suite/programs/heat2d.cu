// SPDX-License-Identifier: Apache-2.0
// Heat in a plate, explicit steps, two buffers that change places.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define IDX(i, j, nx) ((i) + (j) * (nx))

__global__ void heat_step(const double* u, double* u_new, int nx, int ny, double alpha) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1) {
    u_new[IDX(i, j, nx)] = u[IDX(i, j, nx)] +
                           alpha * (u[IDX(i - 1, j, nx)] + u[IDX(i + 1, j, nx)] + u[IDX(i, j - 1, nx)] +
                                    u[IDX(i, j + 1, nx)] - 4.0 * u[IDX(i, j, nx)]);
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
  dim3 threads(8, 32);
  dim3 blocks((nx + threads.x - 1) / threads.x, (ny + threads.y - 1) / threads.y);
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
