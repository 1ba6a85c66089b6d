// SPDX-License-Identifier: Apache-2.0
// Layer normalisation, one thread a token.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

__global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y, int tokens, int hidden,
                          float eps) {
  unsigned int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= tokens) return;
  const float* row = &x[(long)t * hidden];

  float mean = 0.0f;
  for (int i = 0; i < hidden; i++) mean += row[i];
  mean = mean / hidden;

  float var = 0.0f;
  for (int i = 0; i < hidden; i++) {
    float d = row[i] - mean;
    var += d * d;
  }
  var = var / hidden;

  float inv_std = 1.0f / sqrtf(var + eps);
  for (int i = 0; i < hidden; i++) {
    y[(long)t * hidden + i] = (row[i] - mean) * inv_std * gamma[i] + beta[i];
  }
}

int main(int argc, char** argv) {
  const int tokens = argc > 1 ? std::stoi(argv[1]) : 16384;
  const int hidden = argc > 2 ? std::stoi(argv[2]) : 1024;
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0.5f, 2.0f);
  std::vector<float> x((size_t)tokens * hidden), gamma(hidden), beta(hidden), y(x.size());
  for (auto& v : x) v = normal(rng);
  for (auto& v : gamma) v = 1 + 0.1f * normal(rng);
  for (auto& v : beta) v = normal(rng);

  float *dx, *dg, *db, *dy;
  cudaMalloc(&dx, x.size() * sizeof(float));
  cudaMalloc(&dy, y.size() * sizeof(float));
  cudaMalloc(&dg, hidden * sizeof(float));
  cudaMalloc(&db, hidden * sizeof(float));
  cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dg, gamma.data(), hidden * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(db, beta.data(), hidden * sizeof(float), cudaMemcpyHostToDevice);
  const int threads = 128;
  for (int i = 0; i < 5; i++)
    layernorm<<<(tokens + threads - 1) / threads, threads>>>(dx, dg, db, dy, tokens, hidden, 1e-5f);
  cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost);

  double worst = 0;
  for (int t = 0; t < tokens; t += 101) {
    double mean = 0, var = 0;
    for (int i = 0; i < hidden; i++) mean += x[(size_t)t * hidden + i];
    mean /= hidden;
    for (int i = 0; i < hidden; i++) var += std::pow(x[(size_t)t * hidden + i] - mean, 2);
    var /= hidden;
    for (int i = 0; i < hidden; i++) {
      double want = (x[(size_t)t * hidden + i] - mean) / std::sqrt(var + 1e-5) * gamma[i] + beta[i];
      worst = std::fmax(worst, std::fabs(want - y[(size_t)t * hidden + i]));
    }
  }
  std::printf("%s\n", worst < 1e-3 ? "OK" : "MISMATCH");
  return worst < 1e-3 ? 0 : 1;
}
