# SPDX-License-Identifier: Apache-2.0
"""The chain in one pass."""

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
    "void f(const float* x, const float* t, float* y, long n)"
    "{ for (long i = 0; i < n; ++i) y[i] = sinf(x[i]) * expf(-fabsf(t[i])) + x[i]; }"
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        LIBRARY.f(*at(x, t, y), ctypes.c_long(x.numel()))
        return y


_ = Any
