# SPDX-License-Identifier: Apache-2.0
"""Scans by sweeps up and down a tree in shared memory become scans by shuffles."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SCAN = """
#define BLOCK 64
#define ITEMS (2 * BLOCK)
__global__ void prescan(const int *in, int *out, int *sums, int n)
{
    __shared__ int temp[ITEMS];
    int tid = threadIdx.x;
    int base = blockIdx.x * ITEMS;
    temp[2 * tid] = base + 2 * tid < n ? in[base + 2 * tid] : 0;
    temp[2 * tid + 1] = base + 2 * tid + 1 < n ? in[base + 2 * tid + 1] : 0;
    int offset = 1;
    for (int d = ITEMS >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (tid < d) {
            int ai = offset * (2 * tid + 1) - 1;
            int bi = offset * (2 * tid + 2) - 1;
            temp[bi] += temp[ai];
        }
        offset *= 2;
    }
    if (tid == 0) {
        sums[blockIdx.x] = temp[ITEMS - 1];
        temp[ITEMS - 1] = 0;
    }
    for (int d = 1; d < ITEMS; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (tid < d) {
            int ai = offset * (2 * tid + 1) - 1;
            int bi = offset * (2 * tid + 2) - 1;
            int t = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += t;
        }
    }
    __syncthreads();
    if (base + 2 * tid < n) out[base + 2 * tid] = temp[2 * tid];
    if (base + 2 * tid + 1 < n) out[base + 2 * tid + 1] = temp[2 * tid + 1];
}
"""
MAIN = """
  int n = atoi(argv[1]), blocks = (n + ITEMS - 1) / ITEMS; Device<int> in(n), out(n, 2), sums(blocks, 3);
  prescan<<<blocks, BLOCK>>>(in, out, sums, n); out.show(); sums.show();
"""


@pytest.mark.parametrize("kind", ["int", "float", "unsigned"])
def test_sweeps_become_shuffles(kind: str) -> None:
    typed = SCAN.replace("const int *in, int *out, int *sums", f"const {kind} *in, {kind} *out, {kind} *sums")
    typed = typed.replace("__shared__ int", f"__shared__ {kind}").replace("int t = temp", f"{kind} t = temp")
    main = MAIN.replace("Device<int>", f"Device<{kind}>")
    after = holds("scan-sweeps", program(typed, main), (500,), (128,), (3,), relative=1e-5, absolute=1e-4)
    assert "block_scan(left" in after and "offset *" not in after.split("prescan(")[1]
    assert rewritten("scan-sweeps", after)[0].refused


LEFT = {
    "another number": SCAN.replace("(2 * BLOCK)", "BLOCK"),
    "no power of two": SCAN.replace("BLOCK 64", "BLOCK 96"),
    "an offset that begins elsewhere": SCAN.replace("int offset = 1", "int offset = 2"),
    "another place": SCAN.replace("(2 * tid + 2) - 1", "(2 * tid + 2) - 2"),
    "another clear": SCAN.replace("temp[ITEMS - 1] = 0", "temp[ITEMS - 1] = 1"),
    "more between": SCAN.replace("sums[blockIdx.x] = temp[ITEMS - 1]", "sums[blockIdx.x] = temp[3]"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name: str) -> None:
    assert not rewritten("scan-sweeps", program(LEFT[name], MAIN))[0].edits
