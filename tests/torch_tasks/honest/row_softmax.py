# SPDX-License-Identifier: Apache-2.0
"""Softmax, a row at a time."""

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
    "void f(const float* x, float* y, float t, long m, long n) { for (long i = 0; i < m; ++i) {"
    " float top = -INFINITY; double sum = 0; const float* r = x + i * n; float* o = y + i * n;"
    " for (long j = 0; j < n; ++j) top = fmaxf(top, r[j] / t);"
    " for (long j = 0; j < n; ++j) sum += o[j] = expf(r[j] / t - top);"
    " for (long j = 0; j < n; ++j) o[j] /= sum; } }"
)


class ModelNew(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        sizes: list[Any] = [ctypes.c_float(self.temperature), *map(ctypes.c_long, x.shape)]
        LIBRARY.f(*at(x, y), *sizes)
        return y
