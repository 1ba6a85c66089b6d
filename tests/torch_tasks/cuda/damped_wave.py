# SPDX-License-Identifier: Apache-2.0
"""The chain in one kernel."""

from __future__ import annotations

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
torch::Tensor launch(torch::Tensor x, torch::Tensor t)
{
    auto y = torch::empty_like(x);
    wave<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), t.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
OWN = load_inline(
    "damped_wave", "torch::Tensor launch(torch::Tensor x, torch::Tensor t);", CUDA, functions=["launch"]
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return OWN.launch(x, t)
