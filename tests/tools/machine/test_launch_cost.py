# SPDX-License-Identifier: Apache-2.0
"""Launches in host loops, and how long one lasts."""

from __future__ import annotations

import msgspec
import pytest
from tests.tools.machine.kernels import COPY, view_of

from warplens_tools.arch.gpu import SHORTEST_KERNEL_NS
from warplens_tools.evidence import LaunchTiming

LOOP = COPY.replace("{ k<<<1024", "{ for (int s = 0; s < 1000; ++s) k<<<1").replace("262144); }", "256); }")


def test_a_short_kernel_in_a_loop_is_bound_by_its_launches() -> None:
    launching = view_of(LOOP).launching
    assert launching.repeated is not None
    assert launching.duration is not None
    assert SHORTEST_KERNEL_NS <= launching.duration < launching.costs.launch_ns
    assert "launching it costs" in launching.bounds


def test_a_few_iterations_do_not_count_and_a_measured_duration_does() -> None:
    assert view_of(LOOP.replace("1000", "4")).launching.repeated is None
    assert view_of(COPY).launching.repeated is None
    view = view_of(LOOP)
    timing = LaunchTiming("CUPTI", 1, (1, 1, 1), (256, 1, 1), 0, 50_000.0, 49_000.0, 51_000.0)
    slow = msgspec.structs.replace(view, evidence=msgspec.structs.replace(view.evidence, timing=timing))
    assert slow.launching.duration == 50_000.0
    assert slow.launching.duration_origin == ("timing", "CUPTI")
    assert slow.launching.bounds == ""


#: Each thread copies 64 elements of its own.
WALK = """\
__global__ void k(const float *a, float *o)
{
    for (int i = 0; i < 64; i++)
        o[threadIdx.x + i * 256] = a[threadIdx.x + i * 256];
}
void f(const float *a, float *o) { k<<<4, 256>>>(a, o); }
"""
STEP = "LDG.E R4, desc[UR4][R2.64]\nSTG.E desc[UR4][R6.64], R4\n"


def lasts(copies: int) -> float:
    """Nanoseconds of the work of a loop whose body the compiler wrote so often."""
    listing = f".L:\n{STEP * copies}@P0 BRA `(.L)\nEXIT"
    found = view_of(WALK, listing, (4,) * (2 * copies) + (3, 5)).launching.counted
    assert found is not None
    return found - SHORTEST_KERNEL_NS


def test_an_unrolled_loop_has_as_many_turns_fewer() -> None:
    assert lasts(1) > 100.0
    assert lasts(8) == pytest.approx(lasts(1), rel=0.35)


def test_few_sms_draw_more_than_their_share_of_device_memory() -> None:
    launching = view_of(WALK, f".L:\n{STEP}@P0 BRA `(.L)\nEXIT", (4, 4, 3, 5)).launching
    warps, gpu = 256 // 32, launching.code.gpu
    shared_out = launching.traffic.moved([64.0] * 4).upper * warps / gpu.dram_bytes_per_clock
    assert lasts(1) < 0.8 * shared_out / gpu.clock_hz * 1e9


def test_a_loop_within_those_that_are_known_may_turn_as_often_as_it_likes() -> None:
    inner = ".M:\nFFMA R8, R8, R9, R9\n@P1 BRA `(.M)\n"
    view = view_of(WALK, f".L:\n{STEP}{inner}@P0 BRA `(.L)\nEXIT", (4, 4, 4, 4, 3, 5))
    assert view.launching.counted is None
    assert view.launching.duration is not None


def busy(elements: int) -> int | None:
    """Blocks, of 4 x 16, with elements of 8 rows and of so many columns."""
    source = f"""\
__global__ void k(const float *a, float *o, int rows, int columns)
{{
    for (int r = blockIdx.x; r < rows; r += gridDim.x)
        for (int c = threadIdx.x + blockIdx.y * blockDim.x; c < columns; c += blockDim.x * gridDim.y)
            o[r * columns + c] = a[r * columns + c];
}}
void f(const float *a, float *o) {{ k<<<dim3(4, 16), 256>>>(a, o, 8, {elements}); }}
"""
    return view_of(source, "", ()).launching.busy_blocks


@pytest.mark.parametrize(
    ("elements", "blocks"), [(1, 4), (256, 4), (257, 8), (2000, 32), (4096, 64), (10000, 64)]
)
def test_blocks_that_find_no_element_left_are_not_busy(elements: int, blocks: int) -> None:
    assert busy(elements) == blocks


def test_blocks_that_deal_out_nothing_are_all_busy() -> None:
    assert view_of(COPY).launching.busy_blocks == 1024
    assert view_of(COPY.replace("<<<1024", "<<<n")).launching.busy_blocks is None
