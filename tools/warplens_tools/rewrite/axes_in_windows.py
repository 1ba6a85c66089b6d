# SPDX-License-Identifier: Apache-2.0
"""axes-in-windows

Number outputs along the axes of the launch, and work out several side by side, their windows in registers.

[index-into-axes](index-into-axes.md) where one number is divided into a place and a row, which tells where windows slide,
and [windows-in-registers](windows-in-registers.md) behind it.

```cuda
__global__ void depthwise(const float* x, const float* w, float* y, int batch, int channels, int length, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * channels * length) return;
  int t = i % length;
  int c = i / length % channels;
  int b = i / (length * channels);
  float sum = 0.0f;
  for (int k = 0; k < taps; ++k) {
    int p = t + k - taps / 2;
    if (p >= 0 && p < length) sum += w[c * taps + k] * x[(b * channels + c) * length + p];
  }
  y[i] = sum;
}
void run(const float* x, const float* w, float* y, int batch, int channels, int length, int taps) {
  depthwise<<<(batch * channels * length + 255) / 256, 256>>>(x, w, y, batch, channels, length, taps);
}
```

```cuda
constexpr int kOutputs = 7;  // of a thread, side by side

__global__ void depthwise(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int batch, int channels, int length, int taps) {
  const int t0 = (blockIdx.y * blockDim.x + threadIdx.x) * kOutputs;
  bool live[kOutputs];
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) live[o] = true;
  int c = blockIdx.z * blockDim.y + threadIdx.y;
  int b = blockIdx.x;
  int i[kOutputs];
  float sum[kOutputs] = {};
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    const int t = t0 + o;
    i[o] = (b * channels + c) * length + t;
    if (t >= length || c >= channels) { live[o] = false; continue; }
  }
  bool all = true;
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) all = all && live[o];
  int least = taps;
  if (!all) least = 0;
  bool inside = true;
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) inside = inside && ((t0 + o) - taps / 2) >= 0 && ((t0 + o) + (taps - 1) - taps / 2) < length;
  if (!inside) least = 0;
  float xWindow[kOutputs];
  if (least > 0) {
    #pragma unroll
    for (int o = 0; o < kOutputs - 1; ++o) xWindow[o + 1] = x[(b * channels + c) * length + ((t0 + o) + 0 - taps / 2)];
  }
  #pragma unroll kOutputs
  for (int k = 0; k < least; ++k) {
    #pragma unroll
    for (int o = 0; o < kOutputs - 1; ++o) xWindow[o] = xWindow[o + 1];
    xWindow[kOutputs - 1] = x[(b * channels + c) * length + ((t0 + kOutputs - 1) + k - taps / 2)];
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) sum[o] += w[c * taps + k] * xWindow[o];
  }
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (!live[o]) continue;
    const int t = t0 + o;
    #pragma unroll 1
    for (int k = least > 0 ? least : 0; k < taps; ++k) {
      int p = t + k - taps / 2;
      if (p >= 0 && p < length) sum[o] += w[c * taps + k] * x[(b * channels + c) * length + p];
    }
  }
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (!live[o]) continue;
    y[i[o]] = sum[o];
  }
}
void run(const float* x, const float* w, float* y, int batch, int channels, int length, int taps) {
  depthwise<<<dim3(batch, ((length + 31) / 32 + kOutputs - 1) / kOutputs, (channels + 7) / 8), dim3(32, 8)>>>(x, w, y, batch, channels, length, taps);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import index_into_axes, windows_in_registers
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(index_into_axes.REWRITE, windows_in_registers.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Number outputs along axes and let their windows slide through registers",
    answers=windows_in_registers.REWRITE.answers,
    useless_at="dram",
    chance=0.5,
    gain=2.2,
    ranges=windows_in_registers.REWRITE.ranges,
)
