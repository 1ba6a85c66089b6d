# SPDX-License-Identifier: Apache-2.0
"""A dense layer and what is positive of it."""

from __future__ import annotations

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inside, outside)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(64, 128)]


def get_init_inputs() -> list[int]:
    return [128, 96]
