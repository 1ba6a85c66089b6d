# SPDX-License-Identifier: Apache-2.0
"""Reduction trees over several shared arrays at once, which are read as a tree for each."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

MOMENTS = """
__global__ void moments(const float* x, float* out, int n) {
  __shared__ float sums[128], least[128];
  __shared__ int counts[128];
  int t = threadIdx.x;
  float s = 0.0f, m = 1e30f;
  int c = 0;
  for (int i = t; i < n; i += blockDim.x) {
    float v = x[blockIdx.x * n + i];
    s += v;
    m = fminf(m, v);
    c += v > 0.0f;
  }
  sums[t] = s; least[t] = m; counts[t] = c;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) {
      sums[t] += sums[t + k];  // all of them
      if (least[t + k] < least[t]) least[t] = least[t + k];
      counts[t] = counts[t] + counts[t + k];
    }
    __syncthreads();
  }
  if (t == 0) {
    out[3 * blockIdx.x] = sums[0];
    out[3 * blockIdx.x + 1] = least[0];
    out[3 * blockIdx.x + 2] = counts[0];
  }
}
"""
MAIN = (
    "  int rows = atoi(argv[1]), n = atoi(argv[2]); Device<float> x(rows * n), out(3 * rows, 2);\n"
    "  moments<<<rows, 128>>>(x, out, n); out.show();"
)
PLAIN = MOMENTS.replace(
    "if (least[t + k] < least[t]) least[t] = least[t + k];", "least[t] = fminf(least[t], least[t + k]);"
)


#: Elements at the thread's place itself, without a variable for it.
BY_PLACE = (
    PLAIN.replace("[t]", "[threadIdx.x]")
    .replace("[t + k]", "[threadIdx.x + k]")
    .replace("t < k", "threadIdx.x < k")
)


@pytest.mark.compiler
@pytest.mark.parametrize("code", [PLAIN, BY_PLACE])
@pytest.mark.parametrize("slug", ["warp-reduction", "tree-by-shuffle"])
def test_each_array_has_a_tree_of_its_own(slug: str, code: str) -> None:
    after = holds(slug, program(code, MAIN), (3, 300), (1, 5), relative=1e-5)
    assert after.count("__shfl_down_sync") == (6 if slug == "warp-reduction" else 3)


@pytest.mark.compiler
def test_a_tree_may_begin_at_a_number() -> None:
    half = PLAIN.replace("int k = blockDim.x / 2", "int k = 64")
    after = holds("warp-reduction", program(half, MAIN), (3, 300), relative=1e-5)
    assert after.count("__shfl_down_sync") == 6
    assert rewritten("warp-reduction", program(half.replace("= 64", "= 32"), MAIN))[0].refused


REFUSED = {
    "one array of another": PLAIN.replace("counts[t] + counts[t + k]", "counts[t] + sums[t + k]"),
    "one array twice": PLAIN.replace("counts[t] = counts[t] + counts[t + k]", "sums[t] += sums[t + k]"),
    "arrays of unknown places": PLAIN.replace("__shared__ int counts[128]", "int* counts = (int*)least"),
    "something besides": PLAIN.replace("counts[t] = counts[t]", "c += 1; counts[t] = counts[t]"),
    "no barrier": PLAIN.replace("    }\n    __syncthreads();\n  }", "    }\n    __syncwarp();\n  }"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_loops_stay_one(name: str) -> None:
    assert rewritten("warp-reduction", program(REFUSED[name], MAIN))[0].refused
