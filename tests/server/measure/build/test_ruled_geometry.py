# SPDX-License-Identifier: Apache-2.0
"""Geometry by the rule of a text's launch."""

from __future__ import annotations

import msgspec
import pytest

from warplens.measure.build.ruled_geometry import by_rule
from warplens.measure.verdict import Candidate
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.text import SourceText

PLAIN = """
__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
    int block = argc > 2 ? atoi(argv[2]) : 256;
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    scale<<<(n + block - 1) / block, block>>>(x, n);
}
"""
FLAT = """
__global__ void copy(const float* in, float* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = in[y * width + x];
}
void run(const float* in, float* out, int width, int height) {
    dim3 block(16, 16);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    copy<<<grid, block>>>(in, out, width, height);
}
"""
GIVEN = """int bx = argc > 1 ? atoi(argv[1]) : 32, by = argc > 2 ? atoi(argv[2]) : 8;
    dim3 block(bx, by)"""


def shape(block: tuple[int, int, int]) -> SurveyedShape:
    return SurveyedShape("k", (4096, 1, 1), block, 0, 3, 0, 3, 0, 1e6, (1e5,))


def placed(
    before: str, after: str, kernel: str, block: tuple[int, int, int], arguments: tuple[str, ...] = ()
) -> Candidate:
    asking = Candidate("c", "/k.cu", kernel, (), asks_program=True)
    shapes = (shape(block),)
    return by_rule(asking, SourceText(before), SourceText(after), kernel, shapes, arguments)


@pytest.mark.parametrize(
    ("before", "old", "new", "kernel", "was", "now"),
    [
        (PLAIN, ": 256", ": 192", "scale", (256, 1, 1), (192, 1, 1)),
        (FLAT, "block(16, 16)", "block(64, 2)", "copy", (16, 16, 1), (64, 2, 1)),
        # numbers that the run may give
        (
            FLAT.replace("dim3 block(16, 16)", GIVEN),
            ": 8;",
            ": 4;",
            "copy",
            (32, 8, 1),
            (32, 4, 1),
        ),
        # another grid with the same block
        (
            PLAIN,
            "(n + block - 1) / block,",
            "(n + 4 * block - 1) / (4 * block),",
            "scale",
            (256, 1, 1),
            (256, 1, 1),
        ),
    ],
)
def test_what_follows_from_what_is_passed_asks_no_program(
    before: str, old: str, new: str, kernel: str, was: tuple[int, int, int], now: tuple[int, int, int]
) -> None:
    assert old in before
    found = placed(before, before.replace(old, new), kernel, was)
    assert (found.asks_program, found.grid_by_rule, found.grid, found.block) == (False, True, None, now)


@pytest.mark.parametrize(
    ("before", "after", "block", "arguments"),
    [
        # the program is not run as its text begins
        (PLAIN, PLAIN.replace(": 256", ": 192"), (128, 1, 1), ()),
        (PLAIN, PLAIN.replace(": 256", ": 192"), (256, 1, 1), ("1000", "256")),
        # a rule with a number that is not passed
        (
            PLAIN.replace("(n + block - 1) / block,", "most / block,"),
            PLAIN.replace("(n + block - 1) / block,", "most / block,").replace(": 256", ": 192"),
            (256, 1, 1),
            (),
        ),
        # shared memory follows the block
        (
            PLAIN.replace("block>>>", "block, block * sizeof(float)>>>"),
            PLAIN.replace("block>>>", "block, block * sizeof(float)>>>").replace(": 256", ": 192"),
            (256, 1, 1),
            (),
        ),
    ],
)
def test_the_program_is_asked_where_the_text_does_not_tell_all(
    before: str, after: str, block: tuple[int, int, int], arguments: tuple[str, ...]
) -> None:
    found = placed(before, after, "scale", block, arguments)
    assert found.asks_program and not found.grid_by_rule


@pytest.mark.parametrize(("other", "ruled"), [((256, 1, 1), True), ((128, 1, 1), False)])
def test_of_several_shapes_all_have_to_have_the_block_that_the_text_tells(
    other: tuple[int, int, int], ruled: bool
) -> None:
    asking = Candidate("c", "/k.cu", "scale", (), asks_program=True)
    texts = SourceText(PLAIN), SourceText(PLAIN.replace(": 256", ": 192"))
    two = (shape((256, 1, 1)), msgspec.structs.replace(shape(other), grid=(8, 1, 1)))
    found = by_rule(asking, *texts, "scale", two, ())
    assert (found.asks_program, found.grid_by_rule) == (not ruled, ruled)
    assert found.block == ((192, 1, 1) if ruled else None)


@pytest.mark.parametrize(
    ("arguments", "ruled"),
    [
        (("1000",), True),
        # the run says how long a block is
        (("1000", "256"), False),
        (("1000", "256", "7"), False),
    ],
)
def test_a_number_that_the_run_is_not_told_is_what_the_text_has_for_it(
    arguments: tuple[str, ...], ruled: bool
) -> None:
    found = placed(PLAIN, PLAIN.replace(": 256", ": 192"), "scale", (256, 1, 1), arguments)
    assert (found.asks_program, found.grid_by_rule) == (not ruled, ruled)
    assert found.block == ((192, 1, 1) if ruled else None)


@pytest.mark.parametrize("read", ["options.block", "atoi(next())", "atoi(argv[at])"])
def test_a_number_that_the_run_may_be_told_anywhere_asks_the_program(read: str) -> None:
    before = PLAIN.replace("atoi(argv[2])", read)
    assert before != PLAIN
    found = placed(before, before.replace(": 256", ": 192"), "scale", (256, 1, 1), ("1000",))
    assert found.asks_program and not found.grid_by_rule


def test_a_geometry_that_is_known_stays() -> None:
    known = Candidate("c", "/k.cu", "scale", (), block=(64, 1, 1))
    texts = SourceText(PLAIN), SourceText(PLAIN.replace(": 256", ": 192"))
    assert by_rule(known, *texts, "scale", (shape((256, 1, 1)),), ()) == known
