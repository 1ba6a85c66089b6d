// SPDX-License-Identifier: Apache-2.0
// One step of Adam over all parameters.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ __forceinline__ float moved(float p, float g, float& m, float& v, float beta1, float beta2, float rate,
                                       float root, float eps) {
  m = beta1 * m + (1.0f - beta1) * g;
  v = beta2 * v + (1.0f - beta2) * g * g;
  return p - rate * m / (sqrtf(v) * root + eps);
}

// Four parameters a thread, in float; what no element changes is computed once.
__global__ void adam_step(float* p, const float* g, float* m, float* v, int n, float lr, float beta1, float beta2,
                          float eps, int step) {
  float rate = lr / (1.0f - powf(beta1, step)), root = rsqrtf(1.0f - powf(beta2, step));
  int tid = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  for (int i = tid; i < n / 4; i += all) {
    float4 p4 = ((float4*)p)[i], g4 = __ldcs((const float4*)g + i), m4 = ((float4*)m)[i], v4 = ((float4*)v)[i];
    p4.x = moved(p4.x, g4.x, m4.x, v4.x, beta1, beta2, rate, root, eps);
    p4.y = moved(p4.y, g4.y, m4.y, v4.y, beta1, beta2, rate, root, eps);
    p4.z = moved(p4.z, g4.z, m4.z, v4.z, beta1, beta2, rate, root, eps);
    p4.w = moved(p4.w, g4.w, m4.w, v4.w, beta1, beta2, rate, root, eps);
    ((float4*)p)[i] = p4;
    ((float4*)m)[i] = m4;
    ((float4*)v)[i] = v4;
  }
  int i = n / 4 * 4 + tid;
  if (i < n) p[i] = moved(p[i], g[i], m[i], v[i], beta1, beta2, rate, root, eps);
}

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1 << 25;
  std::vector<float> p(n), g(n);
  for (int i = 0; i < n; i++) p[i] = 0.01f * (i % 100), g[i] = 0.1f * ((i * 7) % 13) - 0.6f;
  float *dp, *dg, *dm, *dv;
  for (float** q : {&dp, &dg, &dm, &dv}) cudaMalloc(q, n * sizeof(float));
  cudaMemcpy(dp, p.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dg, g.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemset(dm, 0, n * sizeof(float));
  cudaMemset(dv, 0, n * sizeof(float));
  for (int step = 1; step <= 4; step++) adam_step<<<132 * 16, 256>>>(dp, dg, dm, dv, n, 1e-3f, 0.9f, 0.999f, 1e-8f, step);
  std::vector<float> got(n);
  cudaMemcpy(got.data(), dp, n * sizeof(float), cudaMemcpyDeviceToHost);
  double worst = 0;
  for (int i = 0; i < n; i += 61) {
    double q = p[i], m = 0, v = 0;
    for (int step = 1; step <= 4; step++) {
      m = 0.9 * m + 0.1 * g[i];
      v = 0.999 * v + 0.001 * g[i] * g[i];
      q -= 1e-3 * (m / (1 - std::pow(0.9, step))) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
    }
    worst = std::fmax(worst, std::fabs(q - got[i]));
  }
  printf("%s\n", worst < 1e-4 ? "ok" : "wrong");
  return worst < 1e-4 ? 0 : 1;
}
