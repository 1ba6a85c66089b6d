// SPDX-License-Identifier: Apache-2.0
// Forces between all pairs of bodies, then a step.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define SOFTENING 1e-9f

typedef struct { float x, y, z, vx, vy, vz; } Body;

__global__ void bodyForce(Body *p, float dt, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) {
    float Fx = 0.0f; float Fy = 0.0f; float Fz = 0.0f;
    for (int j = 0; j < n; j++) {
      float dx = p[j].x - p[i].x;
      float dy = p[j].y - p[i].y;
      float dz = p[j].z - p[i].z;
      float distSqr = dx * dx + dy * dy + dz * dz + SOFTENING;
      float invDist = 1.0f / sqrtf(distSqr);
      float invDist3 = invDist * invDist * invDist;
      Fx += dx * invDist3; Fy += dy * invDist3; Fz += dz * invDist3;
    }
    p[i].vx += dt * Fx; p[i].vy += dt * Fy; p[i].vz += dt * Fz;
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
