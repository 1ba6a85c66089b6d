// SPDX-License-Identifier: Apache-2.0
// One step of Adam over all parameters.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void adam_step(float* p, const float* g, float* m, float* v, int n, float lr, float beta1, float beta2,
                          float eps, int step) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    m[i] = beta1 * m[i] + (1.0 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1.0 - beta2) * g[i] * g[i];
    float m_hat = m[i] / (1.0 - pow(beta1, step));
    float v_hat = v[i] / (1.0 - pow(beta2, step));
    p[i] -= lr * m_hat / (sqrt(v_hat) + eps);
  }
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
  for (int step = 1; step <= 4; step++) adam_step<<<1024, 256>>>(dp, dg, dm, dv, n, 1e-3f, 0.9f, 0.999f, 1e-8f, step);
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
