# SPDX-License-Identifier: Apache-2.0
"""The layer with parameters under names of its own."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from c_code import at, compiled

LIBRARY = compiled(
    "void f(const float* x, const float* w, const float* b, float* y, long m, long k, long n)"
    "{ for (long i = 0; i < m; ++i) for (long j = 0; j < n; ++j) { double a = b[j];"
    " for (long l = 0; l < k; ++l) a += x[i * k + l] * w[j * k + l]; y[i * n + j] = a > 0 ? a : 0; } }"
)


class ModelNew(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(outside, inside))
        self.offset = nn.Parameter(torch.empty(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty(x.shape[0], self.offset.shape[0])
        sizes: list[Any] = [x.shape[0], x.shape[1], y.shape[1]]
        LIBRARY.f(*at(x, self.matrix, self.offset, y), *map(ctypes.c_long, sizes))
        return y
