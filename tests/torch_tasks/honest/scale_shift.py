# SPDX-License-Identifier: Apache-2.0
"""Scale and shift, with its gradients."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from c_code import at, compiled

CODE = """
void forward(const float* x, const float* s, const float* b, float* y, long rows, long n)
{ for (long i = 0; i < rows; ++i) for (long j = 0; j < n; ++j) y[i * n + j] = x[i * n + j] * s[j] + b[j]; }
void backward(const float* g, const float* x, const float* s, float* gx, float* gs, float* gb, long rows, long n)
{ for (long j = 0; j < n; ++j) { double a = 0, c = 0;
    for (long i = 0; i < rows; ++i) {
      a += (double)g[i * n + j] * x[i * n + j];
      c += g[i * n + j];
      gx[i * n + j] = g[i * n + j] * s[j];
    }
    gs[j] = a; gb[j] = c; } }
"""
LIBRARY = compiled(CODE)


class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, scale)
        y = torch.empty_like(x)
        LIBRARY.forward(*at(x, scale, shift, y), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x, scale = ctx.saved_tensors
        gx, gs, gb = torch.empty_like(x), torch.empty_like(scale), torch.empty_like(scale)
        where = at(g.contiguous(), x, scale, gx, gs, gb)
        LIBRARY.backward(*where, ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
        return gx, gs, gb


class ModelNew(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(channels))
        self.shift = nn.Parameter(torch.empty(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Apply.apply(x, self.scale, self.shift)
