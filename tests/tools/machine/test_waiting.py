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
@pytest.mark.sampled(1)
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


#: One lane copies: its loads, of `a[{index}]`, each wait for the store before.
ONE_LANE = """\
__global__ void k(const float *a, float *o, int n)
{{
    for (int i = 0; i < n; i++)
        o[i * 64] = a[{index}];
}}
void f(const float *a, float *o) {{ k<<<{launch}>>>(a, o, 4096); }}
"""
ONE_LANE_SASS = ".L:\nLDG.E R4, desc[UR4][R2.64]\nSTG.E desc[UR4][R6.64], R4\n@P0 BRA `(.L)\nEXIT"
ONE_LANE_LINES = (4, 4, 3, 5)


def gathered(index: str, launch: str = "1, 1", listing: str = ONE_LANE_SASS, times: int = 4) -> float:
    view = view_of(ONE_LANE.format(index=index, launch=launch), listing, ONE_LANE_LINES)
    return view.waiting.gathered({0}, 1, times)


def test_loads_that_wait_together_save_all_but_one_wait() -> None:
    assert gathered("i * 64") == pytest.approx(4.0, rel=0.1)
    assert gathered("i * 64", times=1) == pytest.approx(1.0)


def test_loads_that_find_their_sector_in_the_l1_have_less_to_save() -> None:
    assert 1.0 < gathered("i") < 0.6 * gathered("i * 64")


def test_waits_that_other_warps_hide_are_not_saved() -> None:
    assert gathered("blockIdx.x * blockDim.x + threadIdx.x", "4096, 256") < 1.5


def test_a_loop_weighs_what_it_is_of_the_kernel() -> None:
    inner = ".N:\nLDG.E R8, desc[UR4][R10.64]\nFADD R9, R9, R8\n@P1 BRA `(.N)"
    outer = f".M:\nIADD3 R10, R10, R9, RZ\n{inner}\n@P2 BRA `(.M)\n"
    assert gathered("i * 64", listing=ONE_LANE_SASS.replace("EXIT", outer + "EXIT")) < 1.3
