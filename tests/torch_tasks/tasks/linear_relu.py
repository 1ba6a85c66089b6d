# SPDX-License-Identifier: Apache-2.0
"""A dense layer and what is positive of it."""

from __future__ import annotations

import torch
from torch import nn

#: A card gets enough work for launches not to count.
ROWS, INSIDE, OUTSIDE = (8192, 1024, 1024) if torch.cuda.is_available() else (64, 128, 96)


class Model(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inside, outside)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, INSIDE)]


def get_init_inputs() -> list[int]:
    return [INSIDE, OUTSIDE]
