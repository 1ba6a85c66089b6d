// SPDX-License-Identifier: Apache-2.0
// The second product of attention: probabilities times values, bfloat16 in and out, for every head of a batch.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef __nv_bfloat16 bf16;

constexpr int HEAD_DIM = 64;

// probs [heads][queries][keys], values [heads][keys][HEAD_DIM], out [heads][queries][HEAD_DIM]
__global__ void attention_pv(const bf16* probs, const bf16* values, bf16* out, int queries, int keys) {
  int d = threadIdx.x;
  int q = blockIdx.x * blockDim.y + threadIdx.y;
  int head = blockIdx.y;
  if (q >= queries) return;

  const bf16* p = probs + ((size_t)head * queries + q) * keys;
  const bf16* v = values + (size_t)head * keys * HEAD_DIM;
  float acc = 0.0f;
  for (int k = 0; k < keys; k++) {
    acc += __bfloat162float(p[k]) * __bfloat162float(v[k * HEAD_DIM + d]);
  }
  out[((size_t)head * queries + q) * HEAD_DIM + d] = __float2bfloat16(acc);
}

int main(int argc, char** argv) {
  int heads = argc > 1 ? atoi(argv[1]) : 64;  // batch * heads
  int queries = argc > 2 ? atoi(argv[2]) : 1024;
  int keys = argc > 3 ? atoi(argv[3]) : queries;

  std::vector<bf16> probs((size_t)heads * queries * keys), values((size_t)heads * keys * HEAD_DIM);
  std::vector<bf16> out((size_t)heads * queries * HEAD_DIM);
  // Not softmaxed, but each row sums to about one.
  bf16 level[64];
  for (int i = 0; i < 64; i++) level[i] = __float2bfloat16((i + 0.5f) / 32.0f / keys);
  for (size_t i = 0; i < probs.size(); i++) probs[i] = level[((unsigned int)i * 2246822519u) >> 26];
  for (size_t i = 0; i < values.size(); i++) values[i] = __float2bfloat16((float)(i * 7919 % 257) / 64.0f - 2.0f);

  bf16 *d_probs, *d_values, *d_out;
  cudaMalloc(&d_probs, probs.size() * sizeof(bf16));
  cudaMalloc(&d_values, values.size() * sizeof(bf16));
  cudaMalloc(&d_out, out.size() * sizeof(bf16));
  cudaMemcpy(d_probs, probs.data(), probs.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(d_values, values.data(), values.size() * sizeof(bf16), cudaMemcpyHostToDevice);

  dim3 block(HEAD_DIM, 4);
  dim3 grid((queries + block.y - 1) / block.y, heads);
  for (int i = 0; i < 15; i++) attention_pv<<<grid, block>>>(d_probs, d_values, d_out, queries, keys);
  cudaMemcpy(out.data(), d_out, out.size() * sizeof(bf16), cudaMemcpyDeviceToHost);

  double worst = 0;
  for (int row = 0; row < heads * queries; row += 1 + heads * queries / 97) {
    int head = row / queries;
    for (int d = 0; d < HEAD_DIM; d++) {
      double want = 0;
      for (int k = 0; k < keys; k++)
        want += (double)__bfloat162float(probs[(size_t)row * keys + k]) *
                __bfloat162float(values[((size_t)head * keys + k) * HEAD_DIM + d]);
      worst = std::fmax(worst, std::fabs(want - __bfloat162float(out[(size_t)row * HEAD_DIM + d])));
    }
  }
  printf("%s\n", worst < 1e-2 ? "attention output matches" : "attention output differs");
  return worst < 1e-2 ? 0 : 1;
}
