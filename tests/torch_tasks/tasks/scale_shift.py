# SPDX-License-Identifier: Apache-2.0
"""Every channel scaled and shifted by learned numbers."""

from __future__ import annotations

import torch
from torch import nn

#: A card gets enough work for launches not to count.
ROWS, WIDTH = (65536, 2048) if torch.cuda.is_available() else (512, 256)


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))
        self.shift = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.shift


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs() -> list[int]:
    return [WIDTH]
