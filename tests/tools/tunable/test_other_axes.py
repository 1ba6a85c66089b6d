# SPDX-License-Identifier: Apache-2.0
"""Lengths along axes that have fewer blocks."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.follows import why_not_followed
from warplens_tools.tunable.other_axes import why_along_less
from warplens_tools.tunable.source import File

PROGRAM = """
__global__ void scaled(float* x, int lists, int each) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < lists * each) x[i] *= 2;
}
int main(int argc, char** argv) {
    const int lists = argc > 1 ? atoi(argv[1]) : 4000, each = atoi(argv[2]);
    float* x;
    cudaMalloc(&x, 4 * lists * each);
    scaled<<<(lists * each + 255) / 256, 256>>>(x, lists, each);
}
"""
GRID = "(lists * each + 255) / 256, 256"


def _file(grid: str = GRID, *, declared: str = "") -> File:
    text = PROGRAM.replace(GRID, grid).replace("    scaled<<<", f"{declared}    scaled<<<")
    source = SourceText(text)
    return File(source, parse(source, "k.cu"))


@pytest.mark.parametrize(
    ("grid", "declared"),
    [
        ("dim3(1, lists), 256", ""),
        ("dim3(8, 1, lists), 256", ""),
        ("grid, 256", "    dim3 grid(1, lists);\n"),
        ("dim3(1, tall), 256", "    const int tall = lists;\n"),
        # whatever lies along x
        ("dim3((each + 255) / 256, lists), 256", ""),
    ],
)
def test_what_lay_along_x_is_told_elsewhere(grid: str, declared: str) -> None:
    after = _file(grid, declared=declared)
    assert "65535 blocks are the most" in why_along_less(_file(), after) and why_not_followed(_file(), after)


@pytest.mark.parametrize(
    ("grid", "declared"),
    [
        ("dim3((lists * each + 127) / 128, 1), 128", ""),
        ("dim3(1, std::min(lists, 1 << 15)), 256", ""),
        ("dim3(1, lists < 65535 ? lists : 65535), 256", ""),
        ("dim3(1, down), 256", "    const int down = min(lists, 1024);\n"),
        # tiles of several lists
        ("dim3(1, (lists + 3) / 4), 256", ""),
        ("dim3(1, up(lists, 4)), 256", ""),
        ("dim3((lists * each + 255) / 256, 4), 256", ""),
    ],
)
def test_what_is_bounded_or_stays_is_not(grid: str, declared: str) -> None:
    assert why_along_less(_file(), _file(grid, declared=declared)) == ""


def test_what_the_original_has_there_may_stay_there() -> None:
    before = _file("dim3(1, lists), 256")
    assert why_along_less(before, _file("dim3(1, lists), 128")) == ""
    assert why_along_less(before, _file()) == ""


def test_one_extent_of_a_grid_is_not_the_others() -> None:
    tiles = "    const dim3 grid((lists + 31) / 32, (each + 7) / 8);\n"
    before = _file("grid, 256", declared=tiles)
    assert not why_along_less(before, _file("dim3((grid.x + 3) / 4, grid.y), 256", declared=tiles))
    assert why_along_less(before, _file("dim3(1, grid.x * 32), 256", declared=tiles))
