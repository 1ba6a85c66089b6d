# SPDX-License-Identifier: Apache-2.0
"""What the launches of a kernel leave to the run: the length of a block, how many blocks lie along an axis.

A program that runs with 128 threads a block, one plane and whole buffers may run with others: what its text works out
as it runs is not what this run made of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.tunable.source import File, Site


def any_block(file: File, kernel: str) -> bool:
    """Whether the length of the kernel's blocks is chosen as the program runs, wherever it is launched."""
    sites = _sites(file, kernel)
    return bool(sites) and all(site.launch.block_value[0] is None for site in sites)


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
