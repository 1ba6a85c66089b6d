// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss of a dense detector: one logit per anchor and class, one target class per anchor (-1: background).
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void sigmoid_focal_loss(const float* logits, const int* targets, float* losses, int anchors, int classes,
                                   float alpha, float gamma) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx < anchors * classes) {
    int anchor = idx / classes;
    int cls = idx % classes;
    float x = logits[idx];
    float t = targets[anchor] == cls ? 1.0f : 0.0f;

    float p = 1.0f / (1.0f + expf(-x));
    float ce = fmaxf(x, 0.0f) - x * t + log1pf(expf(-fabsf(x)));
    float p_t = p * t + (1.0f - p) * (1.0f - t);
    float alpha_t = alpha * t + (1.0f - alpha) * (1.0f - t);
    losses[idx] = alpha_t * ce * powf(1.0f - p_t, gamma);
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
  int blocks = (int)((total + threads - 1) / threads);
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
