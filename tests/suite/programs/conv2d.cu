// SPDX-License-Identifier: Apache-2.0
// Direct convolution of images with several channels (NCHW).
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

__global__ void conv2d_nchw(const float* input, const float* filters, const float* bias, float* output, int C, int H,
                            int W, int K, int R, int S) {
  int OH = H - R + 1, OW = W - S + 1;
  int ow = blockIdx.x * blockDim.x + threadIdx.x;
  int oh = blockIdx.y * blockDim.y + threadIdx.y;
  int nk = blockIdx.z;
  int n = nk / K, k = nk % K;
  if (ow >= OW || oh >= OH) return;

  float sum = bias[k];
  for (int c = 0; c < C; c++)
    for (int r = 0; r < R; r++)
      for (int s = 0; s < S; s++)
        sum += input[((n * C + c) * H + oh + r) * W + ow + s] * filters[((k * C + c) * R + r) * S + s];
  output[((n * K + k) * OH + oh) * OW + ow] = sum;
}

static float noise(int i) { return ((i * 1103515245u + 12345u) >> 16 & 0x7fff) / 32768.0f - 0.5f; }

int main(int argc, char** argv) {
  int N = 16, C = 32, H = 128, W = 128, K = 32, R = 3, S = 3;
  if (argc > 4) { N = atoi(argv[1]); C = atoi(argv[2]); H = W = atoi(argv[3]); K = atoi(argv[4]); }
  int OH = H - R + 1, OW = W - S + 1;
  size_t ni = (size_t)N * C * H * W, nf = (size_t)K * C * R * S, no = (size_t)N * K * OH * OW;
  float *in = (float*)malloc(ni * 4), *f = (float*)malloc(nf * 4), *b = (float*)malloc(K * 4), *out = (float*)malloc(no * 4);
  for (size_t i = 0; i < ni; i++) in[i] = noise(i);
  for (size_t i = 0; i < nf; i++) f[i] = noise(i + 77);
  for (int i = 0; i < K; i++) b[i] = noise(i + 5);
  float *d_in, *d_f, *d_b, *d_out;
  cudaMalloc(&d_in, ni * 4);
  cudaMalloc(&d_f, nf * 4);
  cudaMalloc(&d_b, K * 4);
  cudaMalloc(&d_out, no * 4);
  cudaMemcpy(d_in, in, ni * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(d_f, f, nf * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(d_b, b, K * 4, cudaMemcpyHostToDevice);
  dim3 block(16, 16, 1), grid((OW + 15) / 16, (OH + 15) / 16, N * K);
  for (int i = 0; i < 3; i++) conv2d_nchw<<<grid, block>>>(d_in, d_f, d_b, d_out, C, H, W, K, R, S);
  cudaMemcpy(out, d_out, no * 4, cudaMemcpyDeviceToHost);
  int errors = 0;
  for (size_t o = 0; o < no; o += 4099) {
    int ow = o % OW, oh = o / OW % OH, k = o / OW / OH % K, n = o / OW / OH / K;
    double want = b[k];
    for (int c = 0; c < C; c++)
      for (int r = 0; r < R; r++)
        for (int s = 0; s < S; s++)
          want += (double)in[((n * C + c) * H + oh + r) * W + ow + s] * f[((k * C + c) * R + r) * S + s];
    errors += fabs(want - out[o]) > 1e-4;
  }
  printf("errors %d\n", errors);
  return errors != 0;
}
