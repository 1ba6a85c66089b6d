# SPDX-License-Identifier: Apache-2.0
"""An elementwise chain: a sine, damped."""

from __future__ import annotations

import torch
from torch import nn

#: A card gets enough work for launches not to count.
SIZE = (65536, 2048) if torch.cuda.is_available() else (256, 512)


class Model(nn.Module):
    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * torch.exp(-torch.abs(t)) + x


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(SIZE), torch.rand(SIZE)]


def get_init_inputs() -> list[int]:
    return []
