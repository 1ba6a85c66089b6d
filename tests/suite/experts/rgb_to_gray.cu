// SPDX-License-Identifier: Apache-2.0
// Colour to grey, three bytes a pixel.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

// Sixteen pixels a thread: three loads and one store of sixteen bytes.
__global__ void rgb2gray(unsigned char *__restrict__ gray, const unsigned char *__restrict__ rgb, int numPixels) {
  int idx = threadIdx.x + blockIdx.x * blockDim.x;
  if (idx < numPixels / 16) {
    uint4 in[3], out;
    for (int k = 0; k < 3; k++) in[k] = __ldcs((const uint4 *)rgb + 3 * (size_t)idx + k);
    const unsigned char *c = (const unsigned char *)in;
    unsigned char *g = (unsigned char *)&out;
#pragma unroll
    for (int p = 0; p < 16; p++) g[p] = (unsigned char)(0.21f * c[3 * p] + 0.71f * c[3 * p + 1] + 0.07f * c[3 * p + 2]);
    __stcs((uint4 *)gray + idx, out);
  }
  int p = numPixels / 16 * 16 + idx;
  if (p < numPixels) gray[p] = (unsigned char)(0.21f * rgb[3 * p] + 0.71f * rgb[3 * p + 1] + 0.07f * rgb[3 * p + 2]);
}

int main(int argc, char **argv) {
  int width = argc > 1 ? atoi(argv[1]) : 16384;
  int height = argc > 2 ? atoi(argv[2]) : 8192;
  int n = width * height;
  unsigned char *rgb = (unsigned char *)malloc(3 * (size_t)n), *gray = (unsigned char *)malloc(n);
  for (size_t i = 0; i < 3 * (size_t)n; i++) rgb[i] = (unsigned char)(i * 37 + (i >> 8));
  unsigned char *d_rgb, *d_gray;
  cudaMalloc((void **)&d_rgb, 3 * (size_t)n);
  cudaMalloc((void **)&d_gray, n);
  cudaMemcpy(d_rgb, rgb, 3 * (size_t)n, cudaMemcpyHostToDevice);
  for (int i = 0; i < 5; i++) rgb2gray<<<(n / 16 + 255) / 256 + 1, 256>>>(d_gray, d_rgb, n);
  cudaMemcpy(gray, d_gray, n, cudaMemcpyDeviceToHost);
  long long sum = 0, off = 0;
  for (int i = 0; i < n; i++) {
    float want = 0.21f * rgb[3 * (size_t)i] + 0.71f * rgb[3 * (size_t)i + 1] + 0.07f * rgb[3 * (size_t)i + 2];
    sum += gray[i];
    off += abs((int)want - gray[i]) > 1;
  }
  printf("off %lld of %d, mean %.0f\n", off, n, (double)sum / n);
  return off != 0;
}
