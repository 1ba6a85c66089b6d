# SPDX-License-Identifier: Apache-2.0
"""Defective: a softmax over an axis of one element is one everywhere."""

from __future__ import annotations

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.mean(-1, keepdim=True), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(128, 64)]


def get_init_inputs() -> list[int]:
    return []
