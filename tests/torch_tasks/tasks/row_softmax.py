# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows at a temperature."""

from __future__ import annotations

import torch
from torch import nn

#: A card gets enough work for launches not to count.
SIZE = (262144, 512) if torch.cuda.is_available() else (256, 32)


class Model(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x / self.temperature, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(SIZE)]


def get_init_inputs() -> list[float]:
    return [0.5]
