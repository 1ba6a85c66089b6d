# SPDX-License-Identifier: Apache-2.0
"""Both of a row by a warp, in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <torch/extension.h>
__device__ float summed(float v)
{
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
__device__ float highest(float v)
{
    for (int o = 16; o; o /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}
__global__ void both(const float* x, float* sums, float* peaks, int rows, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (long)row * n;
    float sum = 0, most = -INFINITY;
    for (int i = lane; i < n; i += 32) sum += x[i], most = fmaxf(most, x[i]);
    sum = summed(sum), most = highest(most);
    if (lane == 0) sums[row] = sum, peaks[row] = most;
}
__global__ void gradients(const float* gs, const float* gp, const float* x, const float* peaks, float* gx,
    int rows, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (long)row * n, gx += (long)row * n;
    float count = 0;
    for (int i = lane; i < n; i += 32) count += x[i] == peaks[row];
    count = summed(count);
    for (int i = lane; i < n; i += 32) gx[i] = gs[row] + (x[i] == peaks[row] ? gp[row] / count : 0.0f);
}
std::vector<torch::Tensor> forward(torch::Tensor x)
{
    auto sums = torch::empty({x.size(0)}, x.options()), peaks = torch::empty_like(sums);
    both<<<(x.size(0) + 7) / 8, 256>>>(x.data_ptr<float>(), sums.data_ptr<float>(), peaks.data_ptr<float>(), x.size(0),
        x.size(1));
    return {sums, peaks};
}
torch::Tensor backward(torch::Tensor gs, torch::Tensor gp, torch::Tensor x, torch::Tensor peaks)
{
    auto gx = torch::empty_like(x);
    gradients<<<(x.size(0) + 7) / 8, 256>>>(gs.data_ptr<float>(), gp.data_ptr<float>(), x.data_ptr<float>(),
        peaks.data_ptr<float>(), gx.data_ptr<float>(), x.size(0), x.size(1));
    return gx;
}
"""
DECLARED = """
std::vector<torch::Tensor> forward(torch::Tensor x);
torch::Tensor backward(torch::Tensor gs, torch::Tensor gp, torch::Tensor x, torch::Tensor peaks);
"""
OWN = load_inline("sum_and_peak", DECLARED, CUDA, functions=["forward", "backward"])


class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sums, peaks = OWN.forward(x)
        ctx.save_for_backward(x, peaks)
        return sums, peaks

    @staticmethod
    def backward(ctx: Any, gs: torch.Tensor, gp: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (OWN.backward(gs.contiguous(), gp.contiguous(), *ctx.saved_tensors),)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return Apply.apply(x)
