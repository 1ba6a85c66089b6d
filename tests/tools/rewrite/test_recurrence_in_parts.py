# SPDX-License-Identifier: Apache-2.0
"""Linear recurrences of columns, shared among several threads of a block."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SMOOTH = """
__global__ void smooth(const float* x, float* y, float keep, int steps, int channels) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float h = 0.5f;
  for (int t = 0; t < steps; ++t) {
    h = keep * h + (1.0f - keep) * x[t * channels + c];
    y[t * channels + c] = h;
  }
}
"""
GATED = """
__global__ void gated(const float* gate, const float* x, float* out, float* last, int steps, int channels) {
  const int c = threadIdx.x + blockIdx.x * blockDim.x, b = blockIdx.y;
  if (c < channels) {
    size_t at = (size_t)b * steps * channels + c;
    const float* g = gate + at;
    float state = x[at];
    for (int t = 1; t < steps; t++) {
      float a = 1.0f / (1.0f + expf(-g[channels]));
      state = state * a + (1.0f - a) * x[at + channels];
      float shown = 2.0f * state;
      out[at + channels] = shown;
      at += channels;
      g += channels;
    }
    last[b * channels + c] = state;
  }
}
"""
MAIN = (
    "  int steps = atoi(argv[1]), n = atoi(argv[2]); Device<float> x(steps * n), y(steps * n, 2);\n"
    "  smooth<<<(n + 63) / 64, 64>>>(x, y, 0.75f, steps, n); y.show();"
)
STEPS = {
    "a mean that is corrected": "h += keep * (x[t * channels + c] - h)",
    "fused": "h = fmaf(h, -keep, x[t * channels + c])",
    "halves": "h = (h + x[t * channels + c] / 2) / 2.0f",
    "a product": "h *= x[t * channels + c] * 0.25f",
    "a difference": "h = x[t * channels + c] - keep * h - 1.0f",
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", STEPS)
def test_a_linear_step_is_taken_in_parts(name: str) -> None:
    whole = SMOOTH[SMOOTH.index("    h = ") + 4 : SMOOTH.index(";\n    y[")]
    text = program(SMOOTH.replace(whole, STEPS[name]), MAIN)
    after = holds("recurrence-in-parts", text, (100, 40), (7, 3), (1, 70), relative=1e-4, absolute=1e-5)
    assert "dim3(kColumns, kParts)" in after
    assert rewritten("recurrence-in-parts", after)[0].refused


@pytest.mark.compiler
def test_indices_that_move_on_begin_where_the_stretch_does() -> None:
    main = (
        "  int steps = atoi(argv[1]), n = atoi(argv[2]); int all = 3 * steps * n;\n"
        "  Device<float> g(all), x(all, 2), y(all, 3), z(3 * n, 4);\n"
        "  gated<<<dim3((n + 63) / 64, 3), 64>>>(g, x, y, z, steps, n); y.show(); z.show();"
    )
    text = program(GATED, main)
    after = holds("recurrence-in-parts", text, (100, 40), (7, 3), (1, 70), relative=1e-4, absolute=1e-5)
    assert "if (threadIdx.y == kParts - 1) last[" in after


@pytest.mark.compiler
def test_unsigned_integers_wrap_alike() -> None:
    code = SMOOTH.replace("float h = 0.5f", "unsigned int h = 7").replace(
        "h = keep * h + (1.0f - keep) * x[t * channels + c]",
        "h = h * 31u + (unsigned int)(x[t * channels + c] + 9)",
    )
    holds("recurrence-in-parts", program(code.replace("= h;", "= h % 65536u;"), MAIN), (100, 40), (7, 3))


CHANGES = {
    "a sum alone": ("keep * h +", "h +"),
    "a square": ("keep * h +", "h * h +"),
    "a minimum": ("keep * h +", "fminf(h, keep) +"),
    "nothing carried": ("keep * h +", "keep +"),
    "a condition": ("    h = ", "    if (t % 2) h = "),
    "signed integers": ("float h = 0.5f", "int h = 1"),
    "two carried": ("    y[t", "    keep = keep * 0.5f + h;\n    y[t"),
    "what another step stores": ("* x[t * channels + c]", "* y[(t - 1) * channels + c]"),
    "rows": ("x[t * channels + c]", "x[c * steps + t]"),
    "a store before": ("  float h", "  y[c] = 0.0f;\n  float h"),
    "a step that data end": ("    y[t", "    if (h > 9) break;\n    y[t"),
    "an index that moves before": ("    h = ", "    x += channels;\n    h = "),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_kernels_are_left_alone(name: str) -> None:
    old, new = CHANGES[name]
    code = SMOOTH.replace(old, new)
    if name == "rows":
        code = code.replace("y[t * channels + c]", "y[c * steps + t]")
    assert old in SMOOTH and rewritten("recurrence-in-parts", program(code, MAIN))[0].refused
