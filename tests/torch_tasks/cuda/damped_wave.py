# SPDX-License-Identifier: Apache-2.0
"""The chain in one kernel, and its gradients in another."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <torch/extension.h>
__global__ void wave(const float* x, const float* t, float* y, long n)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = sinf(x[i]) * expf(-fabsf(t[i])) + x[i];
}
__global__ void gradients(const float* g, const float* x, const float* t, float* gx, float* gt, long n)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = expf(-fabsf(t[i])), sign = (t[i] > 0.0f) - (t[i] < 0.0f);
    gx[i] = g[i] * (cosf(x[i]) * e + 1.0f);
    gt[i] = -g[i] * sinf(x[i]) * e * sign;
}
torch::Tensor forward(torch::Tensor x, torch::Tensor t)
{
    auto y = torch::empty_like(x);
    wave<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), t.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
std::vector<torch::Tensor> backward(torch::Tensor g, torch::Tensor x, torch::Tensor t)
{
    auto gx = torch::empty_like(x), gt = torch::empty_like(t);
    gradients<<<(x.numel() + 255) / 256, 256>>>(g.data_ptr<float>(), x.data_ptr<float>(), t.data_ptr<float>(),
        gx.data_ptr<float>(), gt.data_ptr<float>(), x.numel());
    return {gx, gt};
}
"""
DECLARED = """
torch::Tensor forward(torch::Tensor x, torch::Tensor t);
std::vector<torch::Tensor> backward(torch::Tensor g, torch::Tensor x, torch::Tensor t);
"""
OWN = load_inline("damped_wave", DECLARED, CUDA, functions=["forward", "backward"])


class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, t)
        return OWN.forward(x, t)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return tuple(OWN.backward(g.contiguous(), *ctx.saved_tensors))


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return Apply.apply(x, t)
