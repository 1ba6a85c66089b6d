# SPDX-License-Identifier: Apache-2.0
"""The card that is measured on."""

from __future__ import annotations

from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import present_gpus, query_devices
from warplens_tools.errors import MissingToolError


def card_of(ordinal: int) -> Gpu:
    """The card of that number, as the CUDA driver counts.

    Raises:
        MissingToolError: there is none; says why.
    """
    gpus = present_gpus()
    if ordinal < len(gpus):
        return gpus[ordinal]
    why = query_devices().error or f"there is no GPU {ordinal}"
    raise MissingToolError(f"nothing can be measured: {why}", remedy="run on a machine with an NVIDIA GPU")
