# SPDX-License-Identifier: Apache-2.0
"""Both in one pass."""

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
    "void f(const float* x, float* s, float* p, long m, long n) { for (long i = 0; i < m; ++i) { double a = 0;"
    " float top = -INFINITY; for (long j = 0; j < n; ++j) { a += x[i * n + j]; top = fmaxf(top, x[i * n + j]); }"
    " s[i] = a; p[i] = top; } }"
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total, peak = torch.empty(x.shape[0]), torch.empty(x.shape[0])
        sizes: list[Any] = [*x.shape]
        LIBRARY.f(*at(x, total, peak), *map(ctypes.c_long, sizes))
        return total, peak
