# SPDX-License-Identifier: Apache-2.0
"""Rows divided by their root mean square."""

from __future__ import annotations

import torch
from torch import nn

#: A card gets enough work for launches not to count.
ROWS, WIDTH = (65536, 2048) if torch.cuda.is_available() else (128, 384)


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs() -> list[int]:
    return [WIDTH]
