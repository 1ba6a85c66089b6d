# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts from the source, and what they add."""

from __future__ import annotations

import pytest
from tests.tools.machine.kernels import view_of

from warplens_tools.arch.load import load_gpu
from warplens_tools.kernel import KernelView
from warplens_tools.machine.conflicts import in_row
from warplens_tools.micro.shared_bank_conflicts import SharedBankConflicts
from warplens_tools.sass.addresses import AddressPattern
from warplens_tools.testing import findings, views

SOURCE = """\
__global__ void k(float *o)
{{
    __shared__ float t[32][{pitch}];
    o[threadIdx.x] = t[threadIdx.x][0];
}}
void f(float *o) {{ k<<<1, 32>>>(o); }}
"""


@pytest.mark.parametrize(("pitch", "degree"), [(32, 32.0), (33, 1.0), (48, 16.0)])
def test_a_column_of_a_tile_falls_into_banks_by_its_pitch(pitch: int, degree: float) -> None:
    view = view_of(SOURCE.format(pitch=pitch), "LDS R4, [R2]\nSTG.E desc[UR4][R6.64], R4\nEXIT", (4, 4, 5))
    (found,) = view.conflicts.every
    assert (found.degree, found.tier) == (degree, "source")
    assert view.conflicts.instructions_on(4) == [0]
    assert view.conflicts.extra_passes([found]) == degree - 1.0


def source(index: str, extents: str, launch: str) -> KernelView:
    text = (
        f"__global__ void k(float *o, int c) {{ __shared__ float t{extents}; o[threadIdx.x] = t{index}; }}\n"
    )
    (view,) = views(text + (f"void f(float *o) {{ k<<<1, {launch}>>>(o, 0); }}\n" if launch else ""))
    return view


@pytest.mark.parametrize(
    ("launch", "degree"), [("", 8.0), ("256", 16.0), ("dim3(16, 16)", 8.0), ("dim3(8, 8)", 4.0)]
)
def test_a_block_that_no_launch_tells_may_be_square(launch: str, degree: float) -> None:
    (found,) = source("[threadIdx.x * 16 + threadIdx.y]", "[8192]", launch).conflicts.every
    assert found.degree == degree


@pytest.mark.parametrize(
    ("index", "helps"),
    [
        ("[threadIdx.x][c]", True),
        ("[c][threadIdx.x * 8]", False),
        ("[threadIdx.x / 8][threadIdx.x % 8 * 4]", True),
    ],
)
def test_padding_parts_rows_alone(index: str, *, helps: bool) -> None:
    view = source(index, "[32][128]", "" if index.startswith("[c]") else "32")
    (found,) = view.conflicts.every
    assert found.degree >= 2.0
    assert view.conflicts.is_padded_away(found, 128) == helps
    (said,) = [f for f in findings(SharedBankConflicts, view.text.text) if f.code == "WL108"]
    assert said.guidance.startswith("Pad") == helps


@pytest.mark.parametrize(
    ("at", "apart"),
    [
        ([row * 528 + n * 128 for row in range(8) for n in range(4)], 128),
        ([n * 128 for n in range(32)], 0),
        ([n % 16 * 64 + n // 16 * 4 for n in range(32)], 0),
        ([row * 512 + n * 16 for row in range(8) for n in range(4)], 0),
    ],
)
def test_lanes_of_one_row_that_meet_are_told_from_rows_that_meet(at: list[int], apart: int) -> None:
    pattern = AddressPattern(0, "shared", 16, conflict=4.0, passes=16, at=tuple(at))
    assert in_row(pattern, load_gpu("sm_90").limits) == apart
