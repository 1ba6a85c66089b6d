# SPDX-License-Identifier: Apache-2.0
"""What the launches of a kernel leave to the run: the length of a block, how many blocks lie along an axis.

A program that runs with 128 threads a block, one plane and whole buffers may run with others: what its text works out
as it runs is not what this run made of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.tunable.block_parts import is_of_any_length
from warplens_tools.tunable.source import File, Site


def any_block(file: File, kernel: str) -> int:
    """Whether the length of the kernel's blocks is chosen as the program runs, wherever it is launched: 2 where it is a
    number of the run's that nothing rounds, 1 where it is another, 0 where it is none."""
    sites = _sites(file, kernel)
    if not sites or any(site.launch.block_value[0] is not None for site in sites):
        return 0
    return 2 if all(is_of_any_length(file, site) for site in sites) else 1


def open_axes(file: File, kernel: str) -> frozenset[str]:
    """Of y and z the axes along which the kernel is launched with as many blocks as the run makes it."""
    sites = _sites(file, kernel)
    return frozenset(
        name
        for axis, name in ((1, "y"), (2, "z"))
        if sites and all(site.launch.grid_value[axis] is None for site in sites)
    )


def _sites(file: File, kernel: str) -> Sequence[Site]:
    defined = file.model.kernel(kernel)
    return file.launches_of(defined) if defined is not None else ()
