# SPDX-License-Identifier: Apache-2.0
"""Root mean square and scaling, a row at a time."""

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
    "void f(const float* x, const float* w, float* y, long m, long n) { for (long i = 0; i < m; ++i) {"
    " double s = 0; for (long j = 0; j < n; ++j) s += (double)x[i * n + j] * x[i * n + j];"
    " float r = 1 / sqrt(s / n + 1e-6); for (long j = 0; j < n; ++j) y[i * n + j] = x[i * n + j] * r * w[j]; } }"
)


class ModelNew(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        sizes: list[Any] = [*x.shape]
        LIBRARY.f(*at(x, self.weight, y), *map(ctypes.c_long, sizes))
        return y
