# SPDX-License-Identifier: Apache-2.0
"""The list of idioms, in the order in which they are offered.

An idiom is a `Rewrite` that replaces a whole computation: its page, its sample and what it promises are those of
`warplens_tools.rewrite.base`. They are a list of their own, so that a search can do without them.
"""

from __future__ import annotations

from warplens_tools.idioms import (
    bins_by_lane,
    matrix_product,
    nearest_rows,
    row_in_registers,
    row_in_warp,
    tensor_product,
)
from warplens_tools.rewrite.base import Rewrite

IDIOMS: tuple[Rewrite, ...] = (
    tensor_product.REWRITE,
    matrix_product.REWRITE,
    nearest_rows.REWRITE,
    row_in_registers.REWRITE,
    row_in_warp.REWRITE,
    bins_by_lane.REWRITE,
)


def idiom(slug: str) -> Rewrite | None:
    """The idiom of that slug."""
    return next((r for r in IDIOMS if r.slug == slug), None)
