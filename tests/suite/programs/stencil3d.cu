// SPDX-License-Identifier: Apache-2.0
// Seven points of a grid in three dimensions; a thread walks a line along x.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void laplace7(float* __restrict__ out, const float* __restrict__ in, int nx, int ny, int nz, float c0,
                         float c1) {
  int y = blockIdx.x * blockDim.x + threadIdx.x + 1;
  int z = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (y >= ny - 1 || z >= nz - 1) return;
  for (int x = 1; x < nx - 1; x++) {
    int p = (z * ny + y) * nx + x;
    out[p] = c0 * in[p] + c1 * (in[p - 1] + in[p + 1] + in[p - nx] + in[p + nx] + in[p - nx * ny] + in[p + nx * ny]);
  }
}

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 512;
  int nx = n, ny = n, nz = argc > 2 ? atoi(argv[2]) : n / 2;
  size_t total = (size_t)nx * ny * nz;
  std::vector<float> in(total), out(total);
  for (size_t i = 0; i < total; i++) in[i] = (i * 2654435761u >> 20) * 0.001f;
  float *d_in, *d_out;
  cudaMalloc(&d_in, total * sizeof(float));
  cudaMalloc(&d_out, total * sizeof(float));
  cudaMemset(d_out, 0, total * sizeof(float));
  cudaMemcpy(d_in, in.data(), total * sizeof(float), cudaMemcpyHostToDevice);
  dim3 block(32, 4), grid((ny + 31) / 32, (nz + 3) / 4);
  for (int t = 0; t < 5; t++) laplace7<<<grid, block>>>(d_out, d_in, nx, ny, nz, 0.4f, 0.1f);
  cudaMemcpy(out.data(), d_out, total * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int z = 1; z < nz - 1; z += 3)
    for (int y = 1; y < ny - 1; y += 5)
      for (int x = 1; x < nx - 1; x++) {
        size_t p = ((size_t)z * ny + y) * nx + x, plane = (size_t)nx * ny;
        double want = 0.4f * in[p] + 0.1f * ((double)in[p - 1] + in[p + 1] + in[p - nx] + in[p + nx] + in[p - plane] + in[p + plane]);
        wrong += std::fabs(want - out[p]) > 1e-4 * (1 + std::fabs(want));
      }
  printf("wrong points: %d\n", wrong);
  return wrong != 0;
}
