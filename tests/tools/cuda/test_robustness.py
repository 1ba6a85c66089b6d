# SPDX-License-Identifier: Apache-2.0
"""Whatever the text, the parser answers; one broken kernel leaves the others alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_tools.cuda.model import SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText, Span

FIRST = """template <typename T>
__global__ void first(const T* __restrict__ a, T* b, int n) {
  __shared__ T tile[32][33];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < n; ++k) {
    if (i < n) { tile[threadIdx.y][threadIdx.x] = a[i * n + k]; }
    __syncthreads();
    b[i] += tile[threadIdx.x][k & 31] * 2.0f;
  }
}
"""
SECOND = """
// the one that is being typed
__global__ void __launch_bounds__(256) second(float* x, int n) {
  int i = threadIdx.x;
  while (i < n) {
    x[i] = x[i] * 2.0f + sinf(x[i]);
    i += blockDim.x;
  }
}
"""
THIRD = """
__device__ float helper(float v) { return v > 0 ? v : 0.1f * v; }

__global__ void third(float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  y[i] = helper(y[i]);
}

int main() {
  second<<<4, 256>>>(x, n);
  return 0;
}
"""
PIECES = [
    "__global__ void ", "k(float* a)", "{", "}", "(", ")", "[", "]", "<<<", ">>>", "<", ">", ";", ",",
    '"', "'", "/*", "*/", "//", "\n", "\r\n", "\r", "\\", "#if 0\n", "#if X\n", "#else\n", "#endif\n",
    "#elif N > 2\n", "#define N 4\n", "#define F(a, b) a##b N\n", "#define G __global__\n",
    "#define D(n) G void n() { F(n, 1) }\n", "D(q)", "G void g()", "F(x, y)", "template <int N> ",
    "namespace n ", "struct S ", 'extern "C" ', "int x = N;", "dim3 g(N, 2);", "constexpr int M = N * 2;",
    "__shared__ float t[N][M];", "k<<<g, N>>>(a);", "µ", "😀", "\0", "\u2028",
    "for (int i = 0; i < N; ++i) ", "__launch_bounds__(", 'R"(', ')"', "enum { A, B = N };", "=", "&",
]  # fmt: skip


def spans(model: SourceModel) -> list[Span]:
    found = [c.span for c in model.constants] + [c.value_span for c in model.constants]
    found += [i.span for i in model.includes] + list(model.errors)
    for kernel in model.kernels:
        found += [kernel.span, kernel.name_span, kernel.body]
        found += [p.span for p in kernel.parameters] + [a.span for a in kernel.arrays]
        found += [s for a in kernel.arrays for s in a.extent_spans]
    for site in model.launches:
        found += [site.span, site.grid_span, site.block_span]
    return found


def assert_sound(text: str) -> None:
    source = SourceText(text)
    model = parse(source, "k.cu")
    whole = source.span(0, len(text))
    for span in spans(model):
        assert whole.contains(span)
        assert (span.line, span.column) <= (span.end_line, span.end_column)
    for constant in model.constants:
        assert source.slice(constant.value_span) == constant.text
        assert constant.name in source.slice(constant.span)
    for kernel in model.kernels:
        assert kernel.span.contains(kernel.name_span)
        assert kernel.macro or source.slice(kernel.name_span) == kernel.name
    for site in model.launches:
        assert (
            site.span.contains(site.grid_span) or site.grid == "" or "cudaLaunch" in source.slice(site.span)
        )


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_is_answered(text: str) -> None:
    assert_sound(text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
@pytest.mark.thorough
def test_any_unicode_is_answered(text: str) -> None:
    assert_sound(text)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(FIRST + THIRD)), st.sampled_from(["", "\r\n", "{", "(", '"', "/*", "#if 0\n"]))
def test_a_truncated_file_is_answered(at: int, tail: str) -> None:
    assert_sound((FIRST + THIRD)[:at] + tail)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, len(SECOND)),
    st.integers(0, len(SECOND)),
    st.sampled_from(["", "\n", *"(){}[];<>,=&*"]),
)
def test_other_kernels_survive_what_is_typed(a: int, b: int, typed: str) -> None:
    low, high = min(a, b), max(a, b)
    second = SECOND[:low] + typed + SECOND[high:]
    if "/*" in second:
        return  # What is typed opens a comment over everything that follows, as it does for the compiler.
    text = SourceText(FIRST + second + THIRD)
    model = parse(text, "k.cu")
    first, third = model.kernel("first"), model.kernel("third")
    assert first is not None
    assert third is not None
    assert first.template_parameters == ("T",)
    assert [a.sizes for a in first.arrays] == [(32, 33)]
    assert text.slice(first.body) == FIRST[FIRST.index("{") :].rstrip()
    assert text.slice(third.span) == THIRD[THIRD.index("__global__") : THIRD.index("\n\nint main")]
    assert model.has_main


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k(float* a) { a[0] = " + "(" * 100_000 + "1" + ")" * 100_000 + "; }",
        "__global__ void k(float* a) {" + "if (a) {" * 20_000,
        "const int n = " + "+".join(["1"] * 50_000) + ";",
        "const int n = " + "(" * 400 + "1" + ")" * 400 + ";",
        "#define A A A\n" + "A" * 3,
        "#define A0 x\n" + "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(60)) + "int n[A60];",
        "#if X\n" * 10_000,
        "/*" * 20_000,
        "__global__ " * 5_000,
    ],
    ids=[
        "parentheses",
        "braces",
        "sum",
        "constant",
        "self",
        "doubling",
        "conditions",
        "comments",
        "qualifiers",
    ],
)
def test_depth_does_not_matter(text: str) -> None:
    started = time.process_time()
    parse(SourceText(text), "k.cu")
    assert time.process_time() - started < 20  # Guards against quadratic time, not a benchmark.


@pytest.mark.thorough
def test_two_megabytes_are_parsed() -> None:
    one = FIRST + SECOND + THIRD[: THIRD.index("int main")]
    count = 2_000_000 // len(one) + 1
    text = "".join(
        one.replace("first", f"first{i}").replace("second", f"second{i}").replace("third", f"third{i}")
        for i in range(count)
    )
    assert len(parse(SourceText(text), "k.cu").kernels) == 3 * count
