# SPDX-License-Identifier: Apache-2.0
"""An elementwise chain: a sine, damped."""

from __future__ import annotations

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * torch.exp(-torch.abs(t)) + x


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(16384, 1024), torch.rand(16384, 1024)]


def get_init_inputs() -> list[int]:
    return []
