# SPDX-License-Identifier: Apache-2.0
"""Waits that no warp hides and block starts bound short kernels, on cards of any balance."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.machine.kernels import COPY, COPY_SASS, view_of

from warplens.service.service import CheckOptions, Service
from warplens_tools.machine.waiting import stretches
from warplens_tools.sass.blocks import Block
from warplens_tools.sass.flow import Flow, Loop

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


def test_an_sm_holds_as_many_blocks_as_occupancy_and_the_launch_allow() -> None:
    held = view_of().waiting.residency
    assert held is not None
    assert (held.blocks, held.block_warps, held.warps) == (8, 8, 64)
    few = view_of(COPY.replace("<<<1024", "<<<132")).waiting.residency
    assert few is not None
    assert few.blocks == 1
    assert view_of(COPY.replace("<<<1024, 256>>>", "<<<n, n>>>")).waiting.residency is None


def test_a_load_from_device_memory_is_waited_for() -> None:
    view = view_of(
        listing=f"{COPY_SASS.partition('STG')[0]}FADD R4, R4, R4\nSTG.E desc[UR4][R6.64], R4\nEXIT"
    )
    alone = view.waiting.single_warp_cycles
    assert alone >= view.gpu.costs.memory_wait + view.gpu.costs.block_life
    assert view.waiting.floor["waiting"] == pytest.approx(alone / 64)
    assert view.waiting.latency_bound().keys() >= {"dram", "l2", "l1 lines", "waiting", "blocks"}


def test_a_pass_of_a_chain_waits_for_itself() -> None:
    view = view_of(listing=".L:\nFFMA R0, R0, R1, R2\n@P0 BRA `(.L)\nEXIT")
    (only,) = view.waiting.innermost_passes
    assert (only.depth, only.indices) == (1, (0, 1))
    assert only.dependency > 0.0
    assert only.memory == only.barrier == 0.0


def test_few_bytes_in_flight_are_a_shortage_where_registers_limit() -> None:
    view = view_of(registers=255)
    found = view.waiting.shortage("registers")
    assert found is not None
    assert found.in_flight < found.needed
    assert found.gain.estimate > 1.0
    assert view.waiting.shortage_seen(found)[0].metric == "theoretical occupancy"
    assert view_of().waiting.shortage("registers") is None


def test_a_launch_of_few_blocks_leaves_sms_idle() -> None:
    few, many = (view_of(COPY.replace("<<<1024", f"<<<{n}")) for n in (13, 13200))
    assert few.shape is not None
    assert many.shape is not None
    assert few.waiting.idle_ratio(few.shape) > 5.0
    assert many.waiting.idle_ratio(many.shape) < few.waiting.idle_ratio(few.shape)
