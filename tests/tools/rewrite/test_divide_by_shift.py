# SPDX-License-Identifier: Apache-2.0
"""Divisions by strides that double or halve, as shifts and masks."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

STRIDES = """
#define SIZE 64
__global__ void strides(const int* x, int* out, int given) {
  __shared__ int s[SIZE];
  const unsigned t = threadIdx.x;
  for (int i = t; i < SIZE; i += blockDim.x) s[i] = x[blockIdx.x * SIZE + i];
  LOOP {
    __syncthreads();
    BODY
  }
  __syncthreads();
  for (int i = t; i < SIZE; i += blockDim.x) out[blockIdx.x * SIZE + i] = s[i];
}
"""
UP = "for (int len = 1; len < SIZE; len <<= 1)"
FLIES = """for (int i = threadIdx.x; i < SIZE / 2; i += blockDim.x) {
      const int pair = 2 * len;
      int a = s[i / len * pair + i % len], b = s[(i / len) * pair + len + i % len];
      s[i / len * pair + i % len] = a + b;
      s[i / len * pair + len + i % len] = a - b;
    }"""
TREE = "if (t % (2 * len) == 0 && t + len < SIZE) s[t] += s[t + len];"
BODIES = {
    "butterflies": (UP, FLIES),
    "a tree": ("for (unsigned int len = 1; len < blockDim.x; len *= 2)", TREE),
    "halved": ("for (int len = SIZE / 2; len > 0; len /= 2)", FLIES),
    "four at a time": (
        "for (int len = 4; len < SIZE; len = len * 2)",
        "if (t < SIZE / 4) s[4 * t] = s[4 * t] + (blockIdx.x * SIZE + 4 * t) / (len << 1) % len;",
    ),
}
MAIN = (
    "  int n = atoi(argv[1]); Device<int> x(n * SIZE), out(n * SIZE, 2);\n"
    "  strides<<<n, SIZE>>>(x, out, 4); out.show();"
)


def code(loop: str, body: str) -> str:
    """The program with a loop over strides and what it does with them."""
    return program(STRIDES.replace("LOOP", loop).replace("BODY", body), MAIN)


@pytest.mark.compiler
@pytest.mark.parametrize("name", BODIES)
def test_quotients_and_remainders_stay_what_they_are(name: str) -> None:
    after = holds("divide-by-shift", code(*BODIES[name]), (3,))
    assert "% len" not in after and "% (2" not in after and "/ len" not in after


REFUSED = {
    "a stride that is given": (UP, FLIES.replace("/ len", "/ given").replace("% len", "% given")),
    "three, six, twelve": (UP.replace("len = 1", "len = 3"), TREE),
    "set inside": (UP, TREE.replace("s[t] +=", "len += 1, s[t] +=")),
    "below zero": (UP, "int less = (int)t - 8; s[t] += less % len;"),
    "a sum of strides": (UP, TREE.replace("2 * len", "2 + len")),
    "halved down to zero": (
        "for (int len = SIZE / 2; len >= 0; len /= 2)",
        "if (len == 0) break; s[t] += t % len;",
    ),
    "eight bytes": (UP, "size_t wide = t; s[t] += wide % len;"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_divisions_stay(name: str) -> None:
    assert rewritten("divide-by-shift", code(*REFUSED[name]))[0].refused
