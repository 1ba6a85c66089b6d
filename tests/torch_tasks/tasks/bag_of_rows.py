# SPDX-License-Identifier: Apache-2.0
"""The sum of rows of a table that indices name."""

from __future__ import annotations

import torch
from torch import nn

#: A card gets enough work for launches not to count.
ROWS, WIDTH, BAGS = (400000, 256, 131072) if torch.cuda.is_available() else (1000, 64, 128)


class Model(nn.Module):
    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.table[index].sum(1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, ROWS, (BAGS, 20))]


def get_init_inputs() -> list[int]:
    return [ROWS, WIDTH]
