# SPDX-License-Identifier: Apache-2.0
"""Kernels that halve whatever block they are given, and edits for one size of it."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.blocks_lost import why_block_lost
from warplens_tools.tunable.source import File

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


def _said(tree: str, block: str = "256") -> str:
    files = []
    for how, size in ((TREE, "256"), (tree, block)):
        text = SourceText(PROGRAM.replace("TREE", how).replace("BLOCK", size))
        files.append(File(text, parse(text, "k.cu")))
    return why_block_lost(*files)


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
