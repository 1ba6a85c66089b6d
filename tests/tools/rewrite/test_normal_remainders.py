# SPDX-License-Identifier: Apache-2.0
"""Remainders that are written as what a quotient leaves."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program
from tests.tools.rewrite.test_normal_ends import plain

GATHER = """
__global__ void gather(const float* table, const int* ids, float* out, int n, int dim) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * dim) {
    int r = i / dim;
    int c = i - r * dim;
    out[i] = table[ids[r] * dim + c];
  }
}
"""
MAIN = """
  int n = atoi(argv[1]), dim = atoi(argv[2]);
  Device<float> t(8 * dim), o(n * dim, 2); Device<int> ids(n);
  std::vector<int> own(n); for (int i = 0; i < n; ++i) own[i] = i * 5 % 8;
  cudaMemcpy(ids, own.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  gather<<<(n * dim + 255) / 256, 256>>>(t, ids, o, n, dim); o.show();
"""


@pytest.mark.compiler
def test_rows_are_found_by_what_a_quotient_leaves() -> None:
    after = holds("rows-in-vectors", program(GATHER, MAIN), (70, 24), (3, 7))
    assert "float4" in after


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("int c = i - r * dim;", "int c = i % dim;"),
        ("int c = i - dim * r;", "int c = i % dim;"),
        ("int c = i - (i / dim) * dim;", "int c = i % dim;"),
        ("int c = 1 + (i - r * dim);", "int c = 1 + (i % dim);"),
    ],
)
def test_it_is_a_remainder(code: str, found: str) -> None:
    assert found in plain(GATHER.replace("int c = i - r * dim;", code))
    wide = GATHER.replace("int r", "size_t r").replace("int c = i - r * dim;", code)
    assert found in plain(wide)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i - r * dim", "i - r * n"),
        ("i - r * dim", "i - r"),
        ("int r = i / dim", "float r = i / dim"),
        ("int c", "r += 1;\\n    int c"),
        ("int c", "dim += 1;\\n    int c"),
    ],
)
def test_other_differences_stay(old: str, new: str) -> None:
    code = GATHER.replace(old, new)
    assert "%" not in plain(code)
