# SPDX-License-Identifier: Apache-2.0
"""Products of several sizes in one launch, which a block finds in memory: tiled, and left by blocks without outputs."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

GROUPED = """
__global__ void grouped(const float* X, const float* W, float* Y, const int* tokens, int T, int D, int F) {
  int f = blockIdx.x * blockDim.x + threadIdx.x;
  int t = blockIdx.y * blockDim.y + threadIdx.y;
  int e = blockIdx.z;
  if (t >= tokens[e] || f >= F) return;
  float sum = 0.0f;
  for (int d = 0; d < D; d++) sum += X[(e * T + t) * D + d] * W[(e * F + f) * D + d];
  Y[(e * T + t) * F + f] = sum;
}
"""
MAIN = (
    "  int T = atoi(argv[1]), D = atoi(argv[2]), F = atoi(argv[3]);\n"
    "  Device<float> x(4 * T * D), w(4 * F * D, 3), y(4 * T * F, 2); Device<int> t(4, 5);\n"
    "  int own[4] = {T, T / 3, 1, 0}; cudaMemcpy(t, own, sizeof(own), cudaMemcpyHostToDevice);\n"
    "  grouped<<<dim3((F + 15) / 16, (T + 15) / 16, 4), dim3(16, 16)>>>(x, w, y, t, T, D, F); y.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["register-tile", "shared-tile"])
def test_a_limit_that_memory_says_is_read_once(slug: str) -> None:
    after = holds(slug, program(GROUPED, MAIN), (150, 33, 70), (5, 3, 1))
    assert after.count("tokens[e]") == 1
    assert "if (t0 >= limit) return;" in after


REFUSED = {
    "written by the kernel": GROUPED.replace("const int* tokens", "int* tokens").replace(
        "  float sum", "  if (f == 0) tokens[e] = 1;\n  float sum"
    ),
    "of each thread": GROUPED.replace("tokens[e]", "tokens[f]"),
    "kept inside by the same condition": GROUPED.replace("if (t >=", "if (e >= 4 || t >="),
    "an element of an element": GROUPED.replace("tokens[e]", "tokens[tokens[e]]"),
    "a grid that the block's extents say": GROUPED,
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_limits_are_left_alone(name: str) -> None:
    main = MAIN
    if name.startswith("a grid"):
        main = main.replace("(T + 15) / 16", "(T + b.y - 1) / b.y").replace(
            "  grouped<<<", "  dim3 b(16, 16); grouped<<<"
        )
        main = main.replace("dim3(16, 16)>>>", "b>>>")
    assert rewritten("register-tile", program(REFUSED[name], main))[0].refused
