# SPDX-License-Identifier: Apache-2.0
"""Linear recurrences of a thread's own row, carried along it by a warp."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "recurrence-row"
SMOOTH = """
__global__ void smooth(const float* x, float* y, float* last, int rows, int steps, float keep) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float h = x[r * steps];
  y[r * steps] = h;
  for (int t = 1; t < steps; ++t) {
    h = keep * h + (1.0f - keep) * x[r * steps + t];
    y[r * steps + t] = h;
  }
  last[r] = h;
}
"""
MAIN = (
    "  int rows = atoi(argv[1]), n = atoi(argv[2]); Device<float> x(rows * n), y(rows * n, 2), l(rows, 3);\n"
    "  smooth<<<(rows + 63) / 64, 64>>>(x, y, l, rows, n, 0.75f); y.show(); l.show();"
)
#: Advantages of a policy, from the last step to the first.
ADVANTAGES = """
__global__ void advantages(const double* reward, const double* value, const int* done, double* out, int envs, int T) {
  int e = threadIdx.x + blockIdx.x * blockDim.x;
  if (e < envs) {
    double gae = 0.0;
    for (int t = T - 1; t >= 0; t--) {
      double going = 1.0 - done[e * T + t];
      double delta = reward[e * T + t] + 0.99 * value[e * (T + 1) + t + 1] * going - value[e * (T + 1) + t];
      out[e * T + t] -= 0.25 * gae;
      gae = delta + 0.99 * 0.95 * going * gae;
      out[e * T + t] += gae;
    }
  }
}
"""
ADVANTAGES_MAIN = (
    "  int e = atoi(argv[1]), n = atoi(argv[2]); Device<double> r(e * n), v(e * n + e, 2), y(e * n, 3);\n"
    "  Device<int> d(e * n, 4); std::vector<int> h(e * n); for (int i = 0; i < e * n; i++) h[i] = i % 7 == 3;\n"
    "  cudaMemcpy(d.data, h.data(), e * n * sizeof(int), cudaMemcpyHostToDevice);\n"
    "  advantages<<<(e + 31) / 32, 32>>>(r, v, d, y, e, n); y.show();"
)
STEPS = {
    "as it is": "h = keep * h + (1.0f - keep) * x[r * steps + t]",
    "a mean that is corrected": "h += keep * (x[r * steps + t] - h)",
    "fused": "h = fmaf(h, -keep, x[r * steps + t])",
    "a product": "h *= x[r * steps + t] * 0.25f",
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", STEPS)
def test_a_linear_step_is_taken_by_lanes(name: str) -> None:
    text = program(SMOOTH.replace(STEPS["as it is"], STEPS[name]), MAIN)
    after = holds(SLUG, text, (40, 100), (3, 7), (70, 1), (1, 33), relative=1e-4, absolute=1e-5)
    assert "__shfl_up_sync" in after and "if (lane == 0) last[r] = h;" in after
    assert rewritten(SLUG, after)[0].refused


@pytest.mark.compiler
def test_a_loop_that_goes_down_and_shows_what_was_before() -> None:
    after = holds(
        SLUG, program(ADVANTAGES, ADVANTAGES_MAIN), (40, 100), (3, 7), (33, 1), relative=1e-6, absolute=1e-6
    )
    assert "first -= kWarpSize" in after and "gaeBefore" in after


@pytest.mark.parametrize(
    "change",
    [
        (
            "    y[r * steps + t] = h;",
            "    if (h > 3) h = 3;\n    y[r * steps + t] = h;",
        ),  # no factor and term
        ("h = keep * h +", "h = keep * h * h +"),
        ("h = keep * h +", "h = h +"),  # a sum is scan-row's
        ("r * steps + t]", "t * rows + r]"),  # columns of neighbours
        ("x[r * steps + t];", "y[r * steps + t - 1];"),  # a step reads what another stores
        ("  float h = x", "  int h = x"),
        ("  last[r] = h;", "  atomicAdd(last, h);"),
        ("++t", "t += 2"),
    ],
)
def test_what_is_no_such_recurrence_stays(change: tuple[str, str]) -> None:
    code = SMOOTH.replace(*change)
    assert code != SMOOTH
    assert rewritten(SLUG, program(code, MAIN))[0].refused
