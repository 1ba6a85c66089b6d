# SPDX-License-Identifier: Apache-2.0
"""Waits that no warp hides and block starts bound short kernels, on cards of any balance."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.service.service import CheckOptions, Service
from warplens_tools.machine.waiting import stretches
from warplens_tools.sass.flow import Block, Flow, Loop

DATA = Path(__file__).parents[2] / "data" / "micro"


def test_each_loop_has_its_own_code_and_what_is_left_is_outside() -> None:
    blocks = tuple(Block(2 * n, 2 * n + 1, ()) for n in range(4))
    inner, outer = Loop(2, frozenset({2}), 2), Loop(1, frozenset({1, 2}), 1)
    flow = Flow(blocks, (outer, inner), (0, 0, 1, 1, 2, 2, 0, 0))
    assert stretches(flow) == [(0, [0, 1, 6, 7]), (2, [4, 5]), (1, [2, 3])]


@pytest.mark.compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_a_byte_a_thread_waits_and_sixteen_do_not(arch: str) -> None:
    (file,) = Service(DATA).check([DATA / "short_blocks.cu"], CheckOptions(tier="binary", arch=arch)).files
    bounds = {kernel.name: kernel.bottleneck.bound for kernel in file.kernels}
    assert bounds["inverted_bytes"] == "latency"
    assert bounds["inverted_words"] == "memory"
    assert ("inverted_bytes", "scalar-access") in {(f.kernel, f.slug) for f in file.findings}
