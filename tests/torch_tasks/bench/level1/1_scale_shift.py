# SPDX-License-Identifier: Apache-2.0
"""Every channel scaled and shifted by learned numbers."""

from __future__ import annotations

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))
        self.shift = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.shift


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(16384, 1024)]


def get_init_inputs() -> list[int]:
    return [1024]
