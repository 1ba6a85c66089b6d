# SPDX-License-Identifier: Apache-2.0
"""Sines of multiples of pi, taken by their multiples."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

CODE = """
#define PI (3.14159265358979f)
#define TURN (2.0f * 3.14159265358979f)
__global__ void waves(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i] * 0.25f;
  BODY
}
"""
MAIN = (
    "  int n = atoi(argv[1]); Device<float> a(n), b(n, 2); waves<<<(n + 63) / 64, 64>>>(a, b, n); b.show();"
)
TAKEN = {
    "out[i] = sinf(2.0f * 3.14159265f * x);": "sinpif(2.0f * x)",
    "out[i] = cosf(-(x * i) * 6.2831853f / 7);": "cospif(-(x * i) * 2.0f / 7)",
    "float angle = PI * x; out[i] = sinf(angle) + cosf(angle);": "angle = 1.0f * x",
    "float a = 2.0f * PI * (i * x), s, c; sincosf(a, &s, &c); out[i] = s - c;": "sincospif(a",
    "out[i] = (float)sin(M_PI * i / 9);": "sinpi(1.0 * i / 9)",
    "out[i] = sin(3.141592653589793 * x) * std::cos(3.1415927f * x);": "sinpi(1.0 * x) * cospif(1.0f * x)",
}


@pytest.mark.compiler
@pytest.mark.parametrize("body", TAKEN)
def test_sines_are_taken_by_multiples_of_pi(body: str) -> None:
    text = program(CODE.replace("BODY", body), MAIN)
    after = holds("sines-by-pi", text, (200,), relative=1e-4, absolute=2e-4)
    assert TAKEN[body] in after
    assert rewritten("sines-by-pi", after)[0].refused


@pytest.mark.parametrize(
    "body",
    [
        "out[i] = sinf(x);",
        "out[i] = sinf(3.14f * x);",
        "out[i] = sinf(3.14159265f + x);",
        "float a = 3.14159265f * x; out[i] = sinf(a) + a;",
        "float a = 3.14159265f * x; a += 1.0f; out[i] = sinf(a);",
        "out[i] = sinf(TURN * x);",
        "out[i] = tanf(3.14159265f * x);",
        "out[i] = sinf(x / 3.14159265f);",
    ],
)
def test_other_angles_are_left_alone(body: str) -> None:
    assert rewritten("sines-by-pi", program(CODE.replace("BODY", body), MAIN))[0].refused
