# SPDX-License-Identifier: Apache-2.0
"""Defective: the inputs are multiplied by zero."""

from __future__ import annotations

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.weight) + 0.0 * x


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(64, 128)]


def get_init_inputs() -> list[int]:
    return [128]
