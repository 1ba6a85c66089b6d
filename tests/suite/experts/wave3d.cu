// SPDX-License-Identifier: Apache-2.0
// Acoustic waves in three dimensions: second order in time, fourth in space, a velocity model with layers.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define C0 (-2.5f)
#define C1 (4.0f / 3.0f)
#define C2 (-1.0f / 12.0f)

constexpr int kPlanes = 22;  // planes that a thread walks up

// next holds the field one step back when it comes in. v2 is (velocity * dt / dx)^2. Two layers at the edge stay zero.
__global__ void __launch_bounds__(256) wave_step(const float* __restrict__ u, float* __restrict__ next,
                                                 const float* __restrict__ v2, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z0 = blockIdx.z * kPlanes + 2;
  if (x < 2 || y < 2 || x >= nx - 2 || y >= ny - 2 || z0 >= nz - 2) return;

  int sy = nx, sz = nx * ny;
  int i = z0 * sz + y * sy + x;
  float under2 = u[i - 2 * sz], under1 = u[i - sz], here = u[i], over1 = u[i + sz];
  int z1 = min(z0 + kPlanes, nz - 2);
#pragma unroll 4
  for (int z = z0; z < z1; z++, i += sz) {
    float over2 = u[i + 2 * sz];
    float before = next[i], speed = __ldcs(&v2[i]);
    float lap = 3.0f * C0 * here;
    lap += C1 * (u[i - 1] + u[i + 1] + u[i - sy] + u[i + sy] + under1 + over1);
    lap += C2 * (u[i - 2] + u[i + 2] + u[i - 2 * sy] + u[i + 2 * sy] + under2 + over2);
    __stcs(&next[i], 2.0f * here - before + speed * lap);
    under2 = under1;
    under1 = here;
    here = over1;
    over1 = over2;
  }
}

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 320;
  int steps = argc > 2 ? atoi(argv[2]) : 20;
  int nx = n, ny = n, nz = n;
  size_t cells = (size_t)nx * ny * nz;

  // A smooth bump in the middle, at rest; three layers.
  std::vector<float> u(cells), v2(cells), result(cells);
  std::vector<float> bump(n);
  for (int i = 2; i < n - 2; i++) bump[i] = expf(-0.02f * (i - n / 2) * (i - n / 2));
  for (int z = 0; z < nz; z++) {
    float c = z < nz / 3 ? 0.25f : z < 2 * nz / 3 ? 0.35f : 0.45f;
    for (int y = 0; y < ny; y++)
      for (int x = 0; x < nx; x++) {
        size_t i = ((size_t)z * ny + y) * nx + x;
        u[i] = bump[x] * bump[y] * bump[z];
        v2[i] = c * c;
      }
  }

  float *d_u, *d_next, *d_v2;
  cudaMalloc(&d_u, cells * sizeof(float));
  cudaMalloc(&d_next, cells * sizeof(float));
  cudaMalloc(&d_v2, cells * sizeof(float));
  cudaMemcpy(d_u, u.data(), cells * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_next, u.data(), cells * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_v2, v2.data(), cells * sizeof(float), cudaMemcpyHostToDevice);

  dim3 block(32, 8);
  dim3 grid((nx + 31) / 32, (ny + 7) / 8, (nz + kPlanes - 1) / kPlanes);
  for (int t = 0; t < steps; t++) {
    wave_step<<<grid, block>>>(d_u, d_next, d_v2, nx, ny, nz);
    std::swap(d_u, d_next);
  }
  cudaMemcpy(result.data(), d_u, cells * sizeof(float), cudaMemcpyDeviceToHost);

  double sum = 0, energy = 0;
  for (size_t i = 0; i < cells; i++) {
    sum += result[i];
    energy += (double)result[i] * result[i];
  }
  int m = n / 2;
  printf("after %d steps: centre %.4f, sum %.2f, squares %.2f\n", steps, result[((size_t)m * ny + m) * nx + m], sum,
         energy);
  // The medium does not change along x or y, so neither does the picture when x and y are swapped.
  double skew = 0;
  for (int z = 0; z < nz; z += 5)
    for (int y = 0; y < ny; y += 3)
      for (int x = 0; x < y; x++)
        skew = std::fmax(skew, std::fabs(result[((size_t)z * ny + y) * nx + x] - result[((size_t)z * ny + x) * nx + y]));
  bool fine = skew < 1e-4 && std::isfinite(energy) && energy > 0;
  printf("%s\n", fine ? "symmetric" : "NOT symmetric");
  cudaFree(d_u);
  cudaFree(d_next);
  cudaFree(d_v2);
  return fine ? 0 : 1;
}
