// SPDX-License-Identifier: Apache-2.0
// GELU of bfloat16 values, an element a thread.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float gelu(float v) {
  float cube = 0.044715f * v * v * v;
  return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + cube)));
}

// Eight elements a thread, sixteen bytes an access.
__global__ void gelu_kernel(const bf16* __restrict__ x, bf16* __restrict__ y, int64_t n) {
  int64_t g = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (g < n / 8) {
    uint4 in = __ldcs((const uint4*)x + g), out;
    const __nv_bfloat162* a = (const __nv_bfloat162*)&in;
    __nv_bfloat162* b = (__nv_bfloat162*)&out;
#pragma unroll
    for (int q = 0; q < 4; q++) {
      float2 v = __bfloat1622float2(a[q]);
      b[q] = __floats2bfloat162_rn(gelu(v.x), gelu(v.y));
    }
    __stcs((uint4*)y + g, out);
  }
  if (g < n % 8) y[n / 8 * 8 + g] = __float2bfloat16(gelu(__bfloat162float(x[n / 8 * 8 + g])));
}

int main(int argc, char** argv) {
  int64_t n = argc > 1 ? atoll(argv[1]) : (int64_t)1 << 27;
  std::vector<bf16> x(n), y(n);
  for (int64_t i = 0; i < n; i++) x[i] = __float2bfloat16((i % 2003) * 0.004f - 4.0f);
  bf16 *dx, *dy;
  cudaMalloc(&dx, n * sizeof(bf16));
  cudaMalloc(&dy, n * sizeof(bf16));
  cudaMemcpy(dx, x.data(), n * sizeof(bf16), cudaMemcpyHostToDevice);
  for (int i = 0; i < 3; i++) gelu_kernel<<<(n / 8 + 255) / 256 + 1, 256>>>(dx, dy, n);
  cudaMemcpy(y.data(), dy, n * sizeof(bf16), cudaMemcpyDeviceToHost);
  for (int64_t i = 0; i < n; i += 127) {
    double v = __bfloat162float(x[i]), want = 0.5 * v * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
    if (std::fabs(want - __bfloat162float(y[i])) > 0.01 * std::fabs(want) + 1e-4) {
      std::printf("differs at %lld\n", (long long)i);
      return 1;
    }
  }
  std::printf("all right\n");
  return 0;
}
