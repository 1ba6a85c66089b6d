# SPDX-License-Identifier: Apache-2.0
"""The sine and the cosine of one angle come of one call wherever they stand; nothing else of their block changes."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import Target
from warplens_tools.rewrite.sine_with_cosine import REWRITE
from warplens_tools.text import SourceText

SLUG = "sine-with-cosine"
HEAD = "__global__ void k(float* out, const float* in, const double* din, int n) {\n"
INDEX = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"


def kernel(body: str, head: str = HEAD) -> str:
    return f"{head}{INDEX}{body}\n}}\n"


SPELLINGS = {
    "  float x = in[i];\n  float s = sinf(x), c = cosf(x);": "  float s, c;\n  sincosf(x, &s, &c);",
    "  double x = din[i], y;\n  double c = cos(x), s = sin(x);  // 2": "  double c, s;  // 2\n  sincos(x, &s, &c);",
    "  float x = in[i];\n  const float c = std::cos(2 * x);\n  out[i] = c + std::sin(2 * x);": (
        "  float sine, cosine;\n  sincosf(2 * x, &sine, &cosine);\n"
        "  const float c = cosine;\n  out[i] = c + sine;"
    ),
    "  out[i] = cospif(in[i]) * sinpif(in[i]);": (
        "  float sine, cosine;\n  sincospif(in[i], &sine, &cosine);\n  out[i] = cosine * sine;"
    ),
    "  if (i < n) out[i] = cosf(in[i]) * sinf(in[i]);": (
        "  if (i < n) { float sine, cosine; sincosf(in[i], &sine, &cosine); out[i] = cosine * sine; }"
    ),
    "  for (int j = 0; j < n; ++j)\n    out[j] = sin(din[j]) + cos(din[j]) * cos( din[j] );": (
        "  for (int j = 0; j < n; ++j) {\n    double sine, cosine;\n    sincos(din[j], &sine, &cosine);\n"
        "    out[j] = sine + cosine * cosine;\n  }"
    ),
    "  float sine = in[i];\n  out[i] = sinf(sine) + cosf(sine);": (
        "  float sine2, cosine;\n  sincosf(sine, &sine2, &cosine);\n  out[i] = sine2 + cosine;"
    ),
    "  out[i] = sinf(in[i]) + cosf(in[i]) + sinf(in[n]) + cosf(in[n]);": (
        "  float sine, cosine;\n  sincosf(in[i], &sine, &cosine);\n"
        "  float sine2, cosine2;\n  sincosf(in[n], &sine2, &cosine2);\n  out[i] = sine + cosine + sine2 + cosine2;"
    ),
}


@pytest.mark.parametrize("body", SPELLINGS)
def test_both_come_of_one_call(body: str) -> None:
    result, after = rewritten(SLUG, kernel(body))
    assert SPELLINGS[body] in after
    assert result.caveat
    assert rewritten(SLUG, after)[0].refused


@pytest.mark.parametrize(
    "body",
    [
        "  out[i] = sinf(in[i]) + cosf(in[i] + 1);",
        "  out[i] = i % 2 ? sinf(in[i]) : cosf(in[i]);",
        "  out[i] = sinf(in[i]) > 0 && cosf(in[i]) > 0;",
        "  if (sinf(in[i]) > 0) out[i] = cosf(in[i]);",
        "  for (float c = cosf(in[i]); c < 2; c += 1) out[i] = sinf(in[i]);",
        "  out[i] = sinf(draw()) + cosf(draw());",
        "  float x = in[i]; out[i] = sinf(x); x += 1; out[i] += cosf(x);",
        "  float x = in[i]; out[i] = sinf(x); step(&x); out[i] += cosf(x);",
        "  out[i] = sinf(out[i]); out[i] += cosf(out[i]);",
        "  out[i] = sinf(in[i]); out[n + i] = cosf(in[i]);",
        "  float x = in[i], c = cosf(x), s = sinf(x); out[i] = c * s;",
        "  __shared__ float x; out[i] = sinf(x); __syncthreads(); out[i] += cosf(x);",
        "  out[i] = sin(unknown) + cos(unknown);",
        "  out[i] = own::sinf(in[i]) + cosf(in[i]);",
    ],
)
def test_what_may_be_two_angles_or_is_not_known_stays(body: str) -> None:
    assert rewritten(SLUG, kernel(body))[0].refused


def test_a_macro_that_writes_both_is_written_out() -> None:
    _, after = rewritten(SLUG, "#define BOTH(x) (sinf(x) + cosf(x))\n" + kernel("  out[i] = BOTH(in[i]);"))
    assert "  sincosf(in[i], &sine, &cosine);\n  out[i] = (sine + cosine);" in after


def test_loads_that_no_store_can_reach_are_one_angle() -> None:
    head = "__global__ void k(float* out, const float* __restrict__ in, int n) {\n"
    _, after = rewritten(SLUG, kernel("  out[i] = sinf(in[i]);\n  out[n + i] = cosf(in[i]);", head))
    assert "  sincosf(in[i], &sine, &cosine);\n  out[i] = sine;\n  out[n + i] = cosine;" in after


@pytest.mark.parametrize("name", ["sinf", "cosf", "sincosf"])
def test_functions_of_the_file_stay(name: str) -> None:
    own = f"__device__ float {name}(float x) {{ return x; }}\n"
    assert rewritten(SLUG, own + kernel("  out[i] = sinf(in[i]) + cosf(in[i]);"))[0].refused


def test_only_the_lines_asked_for_change() -> None:
    text = kernel("  float x = in[i];\n  out[i] = sinf(x) + cosf(x);\n  out[n] = sinf(2 * x) + cosf(2 * x);")
    _, after = rewritten(SLUG, text, Target(lines=(5,)))
    assert "out[i] = sinf(x) + cosf(x);" in after
    assert "out[n] = sine + cosine;" in after


def test_an_overload_is_edited_itself() -> None:
    plain = kernel("  auto x = in[i];\n  out[i] = x;")
    head = "__global__ void k(double* out, const double* in, int n) {\n"
    source = SourceText(plain + kernel("  auto x = in[i];\n  out[i] = sin(x) + cos(x);", head))
    model = parse(source, "k.cu")
    first, second = (REWRITE.apply(source, model, one, Target()) for one in model.kernels)
    assert first.refused
    after = source.apply(list(second.edits)).text
    assert after.startswith(plain) and "  sincos(x, &sine, &cosine);\n  out[i] = sine + cosine;" in after


def test_a_pragma_stays_with_its_loop() -> None:
    body = "  #pragma unroll\n  for (int j = 0; j < 4; ++j)\n    out[j] = sinf(in[j]) + cosf(in[j]);"
    assert (
        "  #pragma unroll\n  for (int j = 0; j < 4; ++j) {\n    float sine"
        in rewritten(SLUG, kernel(body))[1]
    )


def test_results_are_what_they_were() -> None:
    body = (
        "  if (i >= n) return;\n  float x = in[i];\n  float c = cosf(x), s = sinf(x);\n"
        "  out[i] = c * 3 + s;\n  out[n + i] = sinpif(x) - 2 * cospif(x);\n"
    )
    head = "__global__ void k(float* out, const float* in, int n) {\n"
    main = (
        "  int n = atoi(argv[1]);\n"
        "  Device<float> x(n), y(2 * n, 2); k<<<(n + 63) / 64, 64>>>(y, x, n); y.show();"
    )
    holds(SLUG, program(kernel(body, head), main), (100,), relative=1e-6, absolute=1e-6)
