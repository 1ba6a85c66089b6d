# SPDX-License-Identifier: Apache-2.0
"""What to do about a reduction of an element or two of each thread, beside its steps."""

from __future__ import annotations

from warplens_tools.sass.listing import Sass
from warplens_tools.sass.pipes import is_load, space_of


def of_elements(sass: Sass) -> str:
    """What else makes the steps few beside the loads, where no loop loads: each thread has an element or two. ""
    where one does, or nothing was compiled."""
    loads = sass.where(lambda x: space_of(x) == "global" and is_load(x)) if sass else []
    if not loads or any(sass.flow.depths[i] for i in loads):
        return ""
    return " Let each thread combine many elements first, in a loop over the grid, so that the steps are few."
