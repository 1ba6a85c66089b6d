# SPDX-License-Identifier: Apache-2.0
"""How far apart lanes are is said in bytes only where it is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from warplens_tools.cuda.values.forms import number
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.micro.common.sectors import lane_words


@pytest.mark.parametrize(("stride", "said"), [(256, "256 bytes apart"), (4 << 40, "not side by side")])
def test_a_distance_that_stands_for_an_unknown_one_is_not_said(stride: int, said: str) -> None:
    access = SimpleNamespace(index=SimpleNamespace(growth=lambda _: number(stride // 4)))
    warp = cast("WarpAccess", SimpleNamespace(stride=stride, access=access))
    assert said in lane_words(warp)
