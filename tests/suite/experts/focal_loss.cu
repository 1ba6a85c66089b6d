// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss of a dense detector: one logit per anchor and class, one target class per anchor (-1: background).
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ __forceinline__ float focal(float x, bool positive, float alpha, float gamma) {
  float e = __expf(-fabsf(x));
  float large = __fdividef(1.0f, 1.0f + e), small = e * large;  // the sigmoids of |x| and -|x|
  float miss = positive == (x > 0.0f) ? small : large;         // 1 - p_t
  float ce = fmaxf(positive ? -x : x, 0.0f) + log1pf(e);
  return (positive ? alpha : 1.0f - alpha) * ce * exp2f(gamma * __log2f(miss));
}

// Four logits of an anchor a thread.
__global__ void sigmoid_focal_loss(const float* __restrict__ logits, const int* __restrict__ targets,
                                   float* __restrict__ losses, int anchors, int classes, float alpha, float gamma) {
  unsigned int idx = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  unsigned int total = anchors * classes;
  if (classes % 4 == 0) {
    if (idx >= total) return;
    unsigned int anchor = idx / classes;
    int hit = targets[anchor] - (int)(idx - anchor * classes);
    float4 x = __ldcs(reinterpret_cast<const float4*>(logits + idx));
    x.x = focal(x.x, hit == 0, alpha, gamma);
    x.y = focal(x.y, hit == 1, alpha, gamma);
    x.z = focal(x.z, hit == 2, alpha, gamma);
    x.w = focal(x.w, hit == 3, alpha, gamma);
    __stcs(reinterpret_cast<float4*>(losses + idx), x);
  } else {
    for (unsigned int i = idx; i < min(idx + 4, total); i++)
      losses[i] = focal(logits[i], targets[i / classes] == (int)(i % classes), alpha, gamma);
  }
}

static double reference(double x, bool positive, double alpha, double gamma) {
  double p = 1 / (1 + std::exp(-x));
  return positive ? -alpha * std::pow(1 - p, gamma) * std::log(p)
                  : -(1 - alpha) * std::pow(p, gamma) * std::log(1 - p);
}

int main(int argc, char** argv) {
  const int anchors = argc > 1 ? atoi(argv[1]) : 480000;
  const int classes = argc > 2 ? atoi(argv[2]) : 80;
  const float alpha = 0.25f;
  const float gamma = argc > 3 ? atof(argv[3]) : 2.0f;
  const size_t total = (size_t)anchors * classes;

  std::vector<float> logits(total), losses(total);
  std::vector<int> targets(anchors);
  unsigned int state = 7;
  for (auto& v : logits) {
    state = state * 1103515245u + 12345u;
    v = (float)(state >> 16) / 65536.0f * 8.0f - 5.0f;
  }
  for (int i = 0; i < anchors; i++) targets[i] = i % 11 == 0 ? i % classes : -1;

  float *d_logits, *d_losses;
  int* d_targets;
  cudaMalloc((void**)&d_logits, total * sizeof(float));
  cudaMalloc((void**)&d_losses, total * sizeof(float));
  cudaMalloc((void**)&d_targets, anchors * sizeof(int));
  cudaMemcpy(d_logits, logits.data(), total * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_targets, targets.data(), anchors * sizeof(int), cudaMemcpyHostToDevice);

  int threads = 256;
  int blocks = (int)((total + threads * 4 - 1) / (threads * 4));
  for (int it = 0; it < 20; it++)
    sigmoid_focal_loss<<<blocks, threads>>>(d_logits, d_targets, d_losses, anchors, classes, alpha, gamma);
  cudaMemcpy(losses.data(), d_losses, total * sizeof(float), cudaMemcpyDeviceToHost);

  double mean = 0;
  for (size_t i = 0; i < total; i++) mean += losses[i];
  mean /= total;
  int bad = 0;
  for (size_t i = 0; i < total; i += 1 + total / 100000) {
    double want = reference(logits[i], targets[i / classes] == (int)(i % classes), alpha, gamma);
    if (std::fabs(want - losses[i]) > 1e-5 + 1e-4 * want) bad++;
  }
  printf("mean focal loss %.5f, %d wrong\n", mean, bad);
  return bad ? 1 : 0;
}
