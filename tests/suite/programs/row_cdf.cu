// SPDX-License-Identifier: Apache-2.0
// Turns rows of weights into cumulative distributions to sample from: the running sum of a row over its total.
#include <cuda_runtime.h>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

template <typename T>
__global__ void cumulative_rows(const T* weights, T* cdf, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const T* w = weights + (size_t)r * cols;
  T* out = cdf + (size_t)r * cols;

  T total = 0;
  for (int c = 0; c < cols; c++) total += w[c];

  T running = 0;
  for (int c = 0; c < cols; c++) {
    running += w[c];
    out[c] = running / total;
  }
}

// How often each eighth of the columns is drawn with one number per row, by bisection.
template <typename T>
__global__ void sample_rows(const T* cdf, int* drawn, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  T u = (T)((r * 2654435761u >> 8) + 0.5f) / (T)16777216;
  int low = 0, high = cols - 1;
  while (low < high) {
    int mid = (low + high) / 2;
    if (cdf[(size_t)r * cols + mid] < u)
      low = mid + 1;
    else
      high = mid;
  }
  atomicAdd(&drawn[low * 8LL / cols], 1);
}

int main(int argc, char** argv) {
  int rows = argc > 1 ? std::stoi(argv[1]) : 8192;
  int cols = argc > 2 ? std::stoi(argv[2]) : 4096;
  int threads = argc > 3 ? std::stoi(argv[3]) : 64;
  size_t total = (size_t)rows * cols;
  std::vector<float> weights(total), cdf(total);
  for (size_t i = 0; i < total; i++) weights[i] = 0.05f + (((unsigned int)i * 2246822519u) >> 20) * 0.001f;

  float *d_weights, *d_cdf;
  int *d_drawn, drawn[8];
  cudaMalloc(&d_weights, total * sizeof(float));
  cudaMalloc(&d_cdf, total * sizeof(float));
  cudaMalloc(&d_drawn, sizeof(drawn));
  cudaMemcpy(d_weights, weights.data(), total * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemset(d_drawn, 0, sizeof(drawn));

  int blocks = (rows + threads - 1) / threads;
  for (int i = 0; i < 10; i++) {
    cumulative_rows<float><<<blocks, threads>>>(d_weights, d_cdf, rows, cols);
    sample_rows<float><<<blocks, threads>>>(d_cdf, d_drawn, rows, cols);
  }
  cudaMemcpy(cdf.data(), d_cdf, total * sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(drawn, d_drawn, sizeof(drawn), cudaMemcpyDeviceToHost);

  double worst = 0;
  for (int r = 0; r < rows; r += 1 + rows / 200) {
    double sum = 0, running = 0;
    for (int c = 0; c < cols; c++) sum += weights[(size_t)r * cols + c];
    for (int c = 0; c < cols; c++) {
      running += weights[(size_t)r * cols + c];
      worst = std::fmax(worst, std::fabs(running / sum - cdf[(size_t)r * cols + c]));
    }
  }
  int draws = 0;
  for (int d : drawn) draws += d;
  bool good = worst < 1e-4 && draws == 10 * rows;
  std::cout << draws << " draws" << std::endl << (good ? "PASS" : "FAIL") << std::endl;
  cudaFree(d_weights);
  cudaFree(d_cdf);
  cudaFree(d_drawn);
  return good ? 0 : 1;
}
