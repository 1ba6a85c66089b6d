# SPDX-License-Identifier: Apache-2.0
"""Scale and shift in a kernel, with its gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <torch/extension.h>
__global__ void apply(const float* x, const float* s, const float* b, float* y, int rows, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < n) for (int i = blockIdx.y; i < rows; i += gridDim.y) y[i * n + j] = x[i * n + j] * s[j] + b[j];
}
__global__ void gradients(const float* g, const float* x, const float* s, float* gx, float* gs, float* gb,
    int rows, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    float a = 0, c = 0;
    for (int i = 0; i < rows; ++i) {
        a += g[i * n + j] * x[i * n + j];
        c += g[i * n + j];
        gx[i * n + j] = g[i * n + j] * s[j];
    }
    gs[j] = a;
    gb[j] = c;
}
torch::Tensor forward(torch::Tensor x, torch::Tensor s, torch::Tensor b)
{
    auto y = torch::empty_like(x);
    int rows = x.size(0), n = x.size(1);
    dim3 grid((n + 127) / 128, rows < 256 ? rows : 256);
    apply<<<grid, 128>>>(x.data_ptr<float>(), s.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, n);
    return y;
}
std::vector<torch::Tensor> backward(torch::Tensor g, torch::Tensor x, torch::Tensor s)
{
    auto gx = torch::empty_like(x), gs = torch::empty_like(s), gb = torch::empty_like(s);
    int rows = x.size(0), n = x.size(1);
    gradients<<<(n + 63) / 64, 64>>>(g.data_ptr<float>(), x.data_ptr<float>(), s.data_ptr<float>(),
        gx.data_ptr<float>(), gs.data_ptr<float>(), gb.data_ptr<float>(), rows, n);
    return {gx, gs, gb};
}
"""
DECLARED = """
torch::Tensor forward(torch::Tensor x, torch::Tensor s, torch::Tensor b);
std::vector<torch::Tensor> backward(torch::Tensor g, torch::Tensor x, torch::Tensor s);
"""
OWN = load_inline("scale_shift", DECLARED, CUDA, functions=["forward", "backward"])


class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, scale)
        return OWN.forward(x, scale, shift)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, scale = ctx.saved_tensors
        return tuple(OWN.backward(g.contiguous(), x, scale))


class ModelNew(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(channels))
        self.shift = nn.Parameter(torch.empty(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Apply.apply(x, self.scale, self.shift)
