# SPDX-License-Identifier: Apache-2.0
"""Counters that a block's loop divides into row and column, as two loops, alone and in vectors."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

NORM = """
__global__ void moments(const float* x, float* y, float* out, int N, int C, int HW) {
  __shared__ float s1[128];
  __shared__ float s2[128];
  const int c = blockIdx.x, t = threadIdx.x;
  const int total = HW * N;
  float a = 0.0f, b = 0.0f;
  for (int i = t; i < total; i += blockDim.x) {
    const int n = i / HW;
    const int p = i % HW;
    const float v = x[(n * C + c) * HW + p];  // one of the channel's
    a += v;
    if (v > 0.0f) {
      b += v * v;
    }
  }
  s1[t] = a; s2[t] = b;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (t < s) { s1[t] += s1[t + s]; s2[t] += s2[t + s]; }
    __syncthreads();
  }
  const float mean = s1[0] / total;
  if (t == 0) out[c] = s2[0];
  for (int i = t; i < N * HW; i += 128) {
    int n = i / HW, p = i % HW;
    y[(n * C + c) * HW + p] = x[(n * C + c) * HW + p] - mean;
  }
}
"""
MAIN = (
    "  int N = atoi(argv[1]), C = atoi(argv[2]), HW = atoi(argv[3]);\n"
    "  Device<float> x(N * C * HW), y(N * C * HW, 2), out(C, 3);\n"
    "  moments<<<C, 128>>>(x, y, out, N, C, HW); out.show(); y.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["walk-by-rows", "walk-rows-in-vectors"])
def test_rows_are_walked_without_a_division(slug: str) -> None:
    runs = (3, 2, 200), (5, 1, 33), (1, 3, 1)
    after = holds(slug, program(NORM, MAIN), *runs, relative=1e-4, absolute=1e-5)
    assert "/ HW" not in after and "% HW" not in after
    assert ("float4" in after) == (slug == "walk-rows-in-vectors") == ("one of the channel's" not in after)
    assert rewritten("walk-by-rows", after)[0].refused


FIRST = NORM[: NORM.index("  const float mean")] + "  if (t == 0) out[c] = s1[0] + s2[0];\n}\n"
REFUSED = {
    "the counter is used": FIRST.replace("+ p];", "+ p] + i;"),
    "columns of another number": FIRST.replace("i % HW", "i % C"),
    "elements of another number": FIRST.replace("HW * N", "N"),
    "up to the last": FIRST.replace("i < total", "i <= total"),
    "another stride": FIRST.replace("i += blockDim.x", "i += 2 * blockDim.x"),
    "a column that is changed": FIRST.replace("const int p", "int p").replace(
        "    a += v", "    p = 0;\n    a += v + p"
    ),
    "an iteration that needs the one before": FIRST.replace("a += v", "a = a * 0.5f + v"),
    "two types": FIRST.replace("const int p", "const unsigned p"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_loops_are_left_alone(name: str) -> None:
    assert rewritten("walk-by-rows", program(REFUSED[name], MAIN))[0].refused


CONSTANT = "\n#define THREADS 128\n" + NORM.replace("i += blockDim.x", "i += THREADS")


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["walk-by-rows", "walk-rows-in-vectors"])
def test_a_constant_that_the_launches_have_for_their_block_is_one(slug: str) -> None:
    main = MAIN.replace("<<<C, 128>>>", "<<<C, THREADS>>>")
    after = holds(slug, program(CONSTANT, main), (3, 2, 200), (5, 1, 33), relative=1e-4, absolute=1e-5)
    assert "/ HW" not in after
    other = CONSTANT.replace("THREADS 128", "THREADS 64").replace("i += 128", "i += 64")
    assert rewritten(slug, program(other, MAIN))[0].refused
