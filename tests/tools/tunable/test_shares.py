# SPDX-License-Identifier: Apache-2.0
"""Which numbers only say how a kernel's work is shared: the side of a tile, and nothing that results rest on."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.follows import why_not_followed
from warplens_tools.tunable.shares import shares_of
from warplens_tools.tunable.source import File

PROGRAM = """
#include <cstdlib>
__global__ void product(const float* a, const float* b, float* c, int n, int side) {
    extern __shared__ float both[];
    float* as = both;
    float* bs = both + side * side;
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * side + ty;
    int column = blockIdx.x * side + tx;
    float sum = 0.0f;
    for (int t = 0; t < (n + side - 1) / side; ++t) {
        if (row < n && t * side + tx < n) as[ty * side + tx] = a[row * n + t * side + tx];
        else as[ty * side + tx] = 0.0f;
        bs[ty * side + tx] = column < n && t * side + ty < n ? b[(t * side + ty) * n + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < side; ++k) sum += as[ty * side + k] * bs[k * side + tx];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
int main(int argc, char** argv) {
    int n = atoi(argv[1]), side = argc > 2 ? atoi(argv[2]) : 16;
    float *a, *b, *c;
    cudaMalloc(&a, n * n * sizeof(float));
    cudaMalloc(&b, n * n * sizeof(float));
    cudaMalloc(&c, n * n * sizeof(float));
    dim3 block(side, side), grid((n + side - 1) / side, (n + side - 1) / side);
    product<<<grid, block, 2 * side * side * sizeof(float)>>>(a, b, c, n, side);
}
"""
SUMS = "for (int k = 0; k < side; ++k) sum += as[ty * side + k] * bs[k * side + tx];"
BARRIER = "__syncthreads();\n"
GRID = "grid((n + side - 1) / side, (n + side - 1) / side)"
#: Tiles of the edit's own.
OWN = [
    (PROGRAM[PROGRAM.index("    extern") : PROGRAM.index("}\nint main")], """
    __shared__ float as[32][33], bs[32][33];
    int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int first = 0; first < n; first += 32) {
        int k = first + threadIdx.x, l = first + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < n && k < n ? a[row * n + k] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = column < n && l < n ? b[l * n + column] : 0.0f;
        __syncthreads();
        for (int j = 0; j < 32; ++j) sum += as[threadIdx.y][j] * bs[j][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
"""),
    ("block(side, side)", "block(32, 32)"),
    (GRID, "grid((n + 31) / 32, (n + 31) / 32)"),
]  # fmt: skip


def _file(*edits: tuple[str, str]) -> File:
    text = PROGRAM
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    source = SourceText(text)
    return File(source, parse(source, "k.cu"))


def shares(*edits: tuple[str, str]) -> set[str]:
    file = _file(*edits)
    (kernel,) = file.model.kernels
    return set().union(*(shares_of(file, kernel, site) for site in file.launches_of(kernel)))


@pytest.mark.parametrize(
    "edits",
    [
        (),
        [(GRID, "grid((n - 1) / side + 1, (n + side - 1) / side)")],
        [("float sum = 0.0f;", "float sum = 0.0f, scale = 2.0f;"), ("sum += as", "sum += scale * as")],
        [("a[row * n + t * side + tx]", "__ldg(&a[row * n + (t * side + tx)])")],
    ],
)
def test_the_side_of_a_products_tiles_is_no_length(edits: list[tuple[str, str]]) -> None:
    assert shares(*edits) == {"side"}
    assert why_not_followed(_file(*edits), _file(*OWN)) == ""
    # what it covers is one
    fixed = _file(*OWN[:2], (GRID, "grid(32, 32)"), ("first < n", "first < 1024"))
    assert "follows argv[1]" in why_not_followed(_file(*edits), fixed)


@pytest.mark.parametrize(
    "edits",
    [
        # a result of each block, of each tile, or of a part of them
        [("c[row * n + column] = sum", "c[blockIdx.y * n + column] = sum")],
        [("float sum = 0.0f;\n", "float sum = 0.0f, all = 0.0f;\n"), (SUMS, f"sum = 0.0f; {SUMS} all += sum * sum;")],
        [(SUMS, f"{SUMS[:30]} sum = fmaxf(sum, as[ty * side + k] * bs[k * side + tx]);")],
        [("sum += as[ty * side + k] * bs[k * side + tx]", "sum += (as[ty * side + k] < 1.0f) * bs[k * side + tx]")],
        [("sum += as[ty * side + k] * bs[k * side + tx]", "sum += as[ty * side + k] + bs[k * side + tx]")],
        [("= sum;", "= sum / side;")],
        [("= sum;", "= sum + both[side * side - 1 - tx];")],
        [("int tx", "float* odd = both + 3;\n    int tx"), ("= sum;", "= sum + odd[0];")],
        [("if (row < n && column", "if (tx > 0 && row < n && column")],
        # another's place in a tile, or of all matrices
        [("as[ty * side + k] * bs", "as[tx * side + k] * bs")],
        [("t * side + ty < n ? b[(t * side + ty)", "t * side + ty < n ? b[(t * side + tx)")],
        [("a[row * n + t * side + tx]", "a[ty * n + t * side + tx]")],
        [("a[row * n + t * side + tx]", "a[row * n + t * side + tx + column]")],
        [("for (int k = 0; k < side", "for (int k = 1; k < side")],
        [("for (int k = 0; k < side; ++k)", "for (int k = 0; k < side; ++k) if (k > 2)")],
        # beyond the length there is something
        [("row < n && t * side + tx < n", "row < n")],
        [("t * side + tx < n)", "t * side + tx < n || tx == 0)")],
        [("else as[ty * side + tx] = 0.0f", "else as[ty * side + tx] = 1.0f")],
        [("column] : 0.0f", "column] : 1.0f")],
        [(BARRIER, f"if (tx == ty) as[ty * side + tx] = 0.0f;\n        {BARRIER}")],
        [("    float sum = 0.0f;", "    if (row >= n) return;\n    float sum = 0.0f;")],
        # a tile late
        [("        if (row < n && t", f"        {SUMS}\n        if (row < n && t")],
        # a grid of another shape
        [(GRID, "grid(n / side, (n + side - 1) / side)")],
        [(GRID, "grid((n + side - 1) / side, n)")],
        [("block(side, side)", "block(side, side, side)")],
    ],
)  # fmt: skip
def test_what_results_may_rest_on_is_no_share(edits: list[tuple[str, str]]) -> None:
    assert shares(*edits) == set()
    assert "follow" in why_not_followed(_file(*edits), _file(*OWN))
