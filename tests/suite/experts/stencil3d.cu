// SPDX-License-Identifier: Apache-2.0
// Seven points of a grid in three dimensions; a thread walks a line along x.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kPlanes = 16;

// Threads along x; each walks up sixteen planes and keeps the three it needs in registers.
__global__ void laplace7(float* __restrict__ out, const float* __restrict__ in, int nx, int ny, int nz, float c0,
                         float c1) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
  int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  int z0 = blockIdx.z * kPlanes + 1;
  if (x >= nx - 1 || y >= ny - 1 || z0 >= nz - 1) return;
  int plane = nx * ny, p = (z0 * ny + y) * nx + x;
  float under = in[p - plane], here = in[p];
#pragma unroll 4
  for (int z = z0; z < min(z0 + kPlanes, nz - 1); z++, p += plane) {
    float over = in[p + plane];
    __stcs(&out[p], c0 * here + c1 * (in[p - 1] + in[p + 1] + in[p - nx] + in[p + nx] + under + over));
    under = here;
    here = over;
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
  dim3 block(32, 8), grid((nx + 31) / 32, (ny + 7) / 8, (nz + kPlanes - 1) / kPlanes);
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
