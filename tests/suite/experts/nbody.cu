// SPDX-License-Identifier: Apache-2.0
// Forces between all pairs of bodies, then a step.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define SOFTENING 1e-9f

typedef struct { float x, y, z, vx, vy, vz; } Body;

constexpr int kTile = 256;

// Bodies pass through shared memory a tile at a time, as positions alone.
__global__ void __launch_bounds__(kTile) bodyForce(Body *p, float dt, int n) {
  __shared__ float4 tile[kTile];
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  float x = 0, y = 0, z = 0, Fx = 0.0f, Fy = 0.0f, Fz = 0.0f;
  if (i < n) x = p[i].x, y = p[i].y, z = p[i].z;
  for (int first = 0; first < n; first += kTile) {
    int j = first + threadIdx.x;
    tile[threadIdx.x] = j < n ? make_float4(p[j].x, p[j].y, p[j].z, 1.0f) : make_float4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll 16
    for (int k = 0; k < kTile; k++) {
      float4 b = tile[k];
      float dx = b.x - x, dy = b.y - y, dz = b.z - z;
      float invDist = rsqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
      float invDist3 = b.w * invDist * invDist * invDist;
      Fx += dx * invDist3;
      Fy += dy * invDist3;
      Fz += dz * invDist3;
    }
    __syncthreads();
  }
  if (i < n) {
    p[i].vx += dt * Fx;
    p[i].vy += dt * Fy;
    p[i].vz += dt * Fz;
  }
}

__global__ void integrate(Body *p, float dt, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) {
    p[i].x += p[i].vx * dt;
    p[i].y += p[i].vy * dt;
    p[i].z += p[i].vz * dt;
  }
}

int main(int argc, char **argv) {
  int nBodies = argc > 1 ? atoi(argv[1]) : 65536, nIters = argc > 2 ? atoi(argv[2]) : 3;
  const float dt = 0.01f;
  std::vector<Body> p(nBodies);
  srand(42);
  for (Body &b : p) {
    float *f = &b.x;
    for (int k = 0; k < 6; k++) f[k] = 2.0f * (rand() / (float)RAND_MAX) - 1.0f;
  }
  std::vector<Body> first = p;
  Body *d_p;
  cudaMalloc(&d_p, nBodies * sizeof(Body));
  cudaMemcpy(d_p, p.data(), nBodies * sizeof(Body), cudaMemcpyHostToDevice);
  int blockSize = 256;
  int nBlocks = (nBodies + blockSize - 1) / blockSize;
  for (int it = 0; it < nIters; it++) {
    bodyForce<<<nBlocks, blockSize>>>(d_p, dt, nBodies);
    integrate<<<nBlocks, blockSize>>>(d_p, dt, nBodies);
  }
  cudaMemcpy(p.data(), d_p, nBodies * sizeof(Body), cudaMemcpyDeviceToHost);
  double energy = 0;
  int bad = 0;
  for (int i = 0; i < nBodies; i++) {
    energy += 0.5 * (p[i].vx * p[i].vx + p[i].vy * p[i].vy + p[i].vz * p[i].vz);
    bad += !(std::fabs(p[i].x) < 1e6f);
  }
  printf("bodies %d, lost %d, energy %.1e\n", nBodies, bad, energy);
  return bad != 0;
}
