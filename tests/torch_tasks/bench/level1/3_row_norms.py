# SPDX-License-Identifier: Apache-2.0
"""Euclidean norms of rows."""

from __future__ import annotations

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt((x * x).sum(dim=1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(16384, 1024)]


def get_init_inputs() -> list[int]:
    return []
