# SPDX-License-Identifier: Apache-2.0
"""Kernels that halve whatever block they are given, and edits for one size of it."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.blocks_lost import why_block_lost
from warplens_tools.tunable.source import File

# how many warps there are in all follows from the block, and is no part of it
STRIDED = """
__global__ void strided(const float* x, float* out, int n) {
    const int warps = WARPS;
    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < n; i += warps) out[i] = ROOT(x[i]);
}
int main() { strided<<<64, 256>>>(nullptr, nullptr, 5); }
"""
PROGRAM = """
__device__ float of_block(float x, float* held) { held[threadIdx.x] = x; __syncthreads(); TREE return held[0]; }
__global__ void sums(const float* x, float* out, int n) {
    __shared__ float held[256];
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
    s = of_block(s, held);
    if (threadIdx.x == 0) out[blockIdx.x] = s;
}
int main() { sums<<<64, BLOCK>>>(nullptr, nullptr, 5); }
"""
TREE = """for (int half = blockDim.x / 2; half; half /= 2) {
    if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half]; __syncthreads(); }"""
EIGHT = "if (threadIdx.x < 8) for (int w = 8; w < 256; w += 8) held[threadIdx.x] += held[w + threadIdx.x];"


def _file(program: str) -> File:
    text = SourceText(program)
    return File(text, parse(text, "k.cu"))


def _said(tree: str, block: str = "256") -> str:
    sides = ((TREE, "256"), (tree, block))
    return why_block_lost(
        *(_file(PROGRAM.replace("TREE", how).replace("BLOCK", size)) for how, size in sides)
    )


def test_a_block_of_one_size_is_told() -> None:
    assert "sums halves the block that it is given along x" in _said(EIGHT)


@pytest.mark.parametrize(
    ("tree", "block"),
    [
        (TREE, "256"),
        # who says how large it is goes by that
        (EIGHT, "128"),
        # asked for in another way
        (EIGHT.replace("w < 256", "w < blockDim.x"), "256"),
        ("const int all = blockDim.x; " + EIGHT.replace("256", "all"), "256"),
        (TREE.replace("/ 2;", ">> 1;"), "256"),
        (EIGHT.replace("w < 256", "w < cg::this_thread_block().size()"), "256"),
    ],
)
def test_what_asks_for_its_block_is_not(tree: str, block: str) -> None:
    assert _said(tree, block) == ""


@pytest.mark.parametrize(
    "warps",
    ["gridDim.x * blockDim.x / 32", "(gridDim.x * blockDim.x) >> 5", "blockDim.x * gridDim.x / 32"],
)
def test_the_warps_of_a_grid_are_no_part_of_a_block(warps: str) -> None:
    sides = (STRIDED.replace("WARPS", warps).replace("ROOT", root) for root in ("sqrtf", "__fsqrt_rn"))
    assert why_block_lost(*map(_file, sides)) == ""
