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
    if (j < n) for (int i = blockIdx.y; i < rows; i += gridDim.y) y[(long)i * n + j] = x[(long)i * n + j] * s[j] + b[j];
}
__global__ void gradients(const float* g, const float* x, const float* s, float* gx, double* gs, double* gb,
    int rows, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    double a = 0, c = 0;
    for (int i = blockIdx.y; i < rows; i += gridDim.y) {
        long at = (long)i * n + j;
        a += (double)g[at] * x[at];
        c += g[at];
        gx[at] = g[at] * s[j];
    }
    atomicAdd(gs + j, a);
    atomicAdd(gb + j, c);
}
torch::Tensor forward(torch::Tensor x, torch::Tensor s, torch::Tensor b)
{
    auto y = torch::empty_like(x);
    int rows = x.size(0), n = x.size(1);
    dim3 grid((n + 127) / 128, rows < 4096 ? rows : 4096);
    apply<<<grid, 128>>>(x.data_ptr<float>(), s.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, n);
    return y;
}
std::vector<torch::Tensor> backward(torch::Tensor g, torch::Tensor x, torch::Tensor s)
{
    auto gx = torch::empty_like(x);
    auto gs = torch::zeros({x.size(1)}, x.options().dtype(torch::kDouble)), gb = torch::zeros_like(gs);
    int rows = x.size(0), n = x.size(1);
    gradients<<<dim3((n + 127) / 128, 256), 128>>>(g.data_ptr<float>(), x.data_ptr<float>(), s.data_ptr<float>(),
        gx.data_ptr<float>(), gs.data_ptr<double>(), gb.data_ptr<double>(), rows, n);
    return {gx, gs.to(torch::kFloat), gb.to(torch::kFloat)};
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
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return tuple(OWN.backward(g.contiguous(), *ctx.saved_tensors))


class ModelNew(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(channels))
        self.shift = nn.Parameter(torch.empty(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Apply.apply(x, self.scale, self.shift)
