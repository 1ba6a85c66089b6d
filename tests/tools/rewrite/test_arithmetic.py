# SPDX-License-Identifier: Apache-2.0
"""Powers, roots, divisions, intrinsics, launch bounds and reduction trees."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

from warplens_tools.rewrite.registry import REWRITES

N = "  int n = atoi(argv[1]);\n"


def kernel(expression: str, parameters: str = "", before: str = "") -> str:
    return (
        f"__global__ void k(float* out, const float* in, int n{parameters}) {{\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) {{\n    float x = in[i];\n{before}"
        f"    out[i] = {expression};\n  }}\n}}\n"
    )


POWERS = {
    "powf(x, 2.0f)": "(x * x)",
    "powf(x + 1, 2)": "((x + 1) * (x + 1))",
    "pow(in[i], 3.0f)": "(in[i] * in[i] * in[i])",
    "powf(x, 0.5f)": "sqrtf(x)",
    "powf(x, -0.5f)": "rsqrtf(x)",
    "powf(x, 1.5f)": "(x * sqrtf(x))",
    "powf(x, -2.f)": "(1.0f / (x * x))",
    "powf(x, -1)": "(1.0f / x)",
    "powf(x, -1.5f)": "(rsqrtf(x) / x)",
    "pow((double)x, 2)": "((double)x) * ((double)x))",
    "__powf(x, 1.0f)": "x",
}


@pytest.mark.parametrize("power", POWERS)
def test_powers_become_products(power: str) -> None:
    assert (
        f"out[i] = {POWERS[power].replace('((double)x) *', '(((double)x) *')}"
        in rewritten("constant-power", kernel(power))[1]
    )


@pytest.mark.parametrize(
    "power",
    [
        "powf(x, n)",
        "powf(f(x), 2)",
        "powf(x, 2.3f)",
        "powf(x, 13)",
        "powf(x, 4.5f)",
        "pow(n, 2)",
        "powf(x++, 2)",
    ],
)
def test_other_powers_stay(power: str) -> None:
    assert rewritten("constant-power", kernel(power))[0].refused


def test_high_powers_have_a_variable() -> None:
    product = " * ".join(["base"] * 6)
    after = rewritten("constant-power", kernel("1 + pow(in[i] / x, 6)"))[1]
    assert f"    const float base = in[i] / x;\n    out[i] = 1 + ({product});" in after
    assert "(x * x * x * x * x)" in rewritten("constant-power", kernel("powf(x, 5)"))[1]
    for maybe in (
        "n > 2 ? powf(in[i] / x, 6) : 0",
        "(x = 2) + powf(x / n, 6)",
        "n && powf(in[i + 1] - x, 5)",
    ):
        assert rewritten("constant-power", kernel(maybe))[0].refused, maybe
    main = N + "  Device<float> x(n), y(n, 2); k<<<(n + 63) / 64, 64>>>(y, x, n); y.show();"
    body = kernel("pow(in[i] / x, 6) + powf(x, 12)", before="    x = x / 4 + 2.0f;\n")
    holds("constant-power", program(body, main), (100,), relative=1e-5)


SQUARES = {
    "sqrtf(x) < 2.0f": "x < 4.0f",
    "x * x > 1 && sqrt(x * x + 1) <= 2.5f": "x * x > 1 && x * x + 1 <= 2.5f * 2.5f",
    "0.5 >= sqrtf(x - 1)": "0.5 * 0.5 >= x - 1",
    "sqrtf(x) < sqrtf(x + 1)": "x < x + 1",
    "(sqrtf(x)) < radius": "x < radius * radius",
    "sqrt((double)(i * i)) < n": "(double)(i * i) < n * n",
}


@pytest.mark.parametrize("test", SQUARES)
def test_squares_are_compared(test: str) -> None:
    after = rewritten("compare-squares", kernel(test, ", float radius"))[1]
    assert f"out[i] = {SQUARES[test]};" in after


@pytest.mark.parametrize(
    "test",
    ["sqrtf(x) < f(x)", "sqrtf(x) + 1 < 2", "sqrtf(x) < -1.0f", "sqrtf(x) < limit", "x < 2", "sqrtf(x) == 2"],
)
def test_other_roots_stay(test: str) -> None:
    assert rewritten("compare-squares", kernel(test, ", double limit"))[0].refused


def test_a_root_of_the_files_own_stays() -> None:
    own = "__device__ float sqrtf(float x) { return x + 2; }\n"
    assert rewritten("compare-squares", own + kernel("sqrtf(x) < 2"))[0].refused


def test_a_power_of_the_files_own_stays() -> None:
    own = "__device__ float powf(int x, float e) { return x + e; }\n"
    assert rewritten("constant-power", own + kernel("powf(x, 2)"))[0].refused


def test_powers_are_what_they_were() -> None:
    body = kernel(
        "powf(x, 3) + powf(fabsf_(x), 1.5f) + powf(x, -2)", before="    x = x * x + 1.0f;\n"
    ).replace("fabsf_(x)", "x")
    main = N + "  Device<float> x(n), y(n, 2); k<<<(n + 63) / 64, 64>>>(y, x, n); y.show();"
    holds("constant-power", program(body, main), (100,), relative=1e-5)


ROOTS = {
    "1.0f / sqrtf(x)": "rsqrtf(x)",
    "x / sqrt(x + 1.0f)": "x * rsqrtf(x + 1.0f)",
    "(x + 1) / sqrtf(x)": "(x + 1) * rsqrtf(x)",
    "1 / sqrt((double)n)": "rsqrt((double)n)",
}


@pytest.mark.parametrize("root", ROOTS)
def test_roots_are_inverted_at_once(root: str) -> None:
    assert f"out[i] = {ROOTS[root]};" in rewritten("reciprocal-root", kernel(root))[1]
    assert rewritten("reciprocal-root", kernel("x / n"))[0].refused


FAST = {
    "expf(x) / n": ("fast-intrinsics", "__expf(x) / n"),
    "1.0f / (1.0f + expf(-x))": ("fast-intrinsics", "__fdividef(1.0f, (1.0f + __expf(-x)))"),
    "exp(x) * std::sin(x)": ("fast-intrinsics", "__expf(x) * std::sin(x)"),
    "expf(x) + logf(x)": ("fast-sines", "expf(x) + __logf(x)"),
    "expf(x) * std::sin(x)": ("fast-sines", "expf(x) * __sinf(x)"),
    "powf(x, n) / x": ("fast-sines", "__powf(x, n) / x"),
}


@pytest.mark.parametrize("slow", FAST)
def test_fast_intrinsics(slow: str) -> None:
    slug, fast = FAST[slow]
    result, after = rewritten(slug, kernel(slow))
    assert f"out[i] = {fast};" in after
    assert "precision" in result.caveat


def test_only_what_is_off_by_more_than_rounding_lowers() -> None:
    assert [r.slug for r in REWRITES if r.lowers] == ["fast-sines"]


HELPER = """
__device__ float frequency(int i, float base) { return powf(base, -2.0f * i); }
"""


def test_fast_intrinsics_in_a_function_that_the_kernel_alone_calls() -> None:
    own = HELPER + kernel("frequency(n, x) * cosf(x)")
    after = rewritten("fast-sines", own)[1]
    assert "__powf(base" in after and "__cosf(x)" in after
    for other in (
        "void other(float* o) { *o = frequency(1, 2.0f); }",
        "__global__ void second() { frequency(1, 2.0f); }",
    ):
        assert "__powf" not in rewritten("fast-sines", own + other)[1]
    both = own.replace("__device__ float", "__host__ __device__ float")
    assert "__powf" not in rewritten("fast-sines", both)[1]


SIGMOID = """
__device__ float share(float2 v, const float total, int n) {
  float below = 1.0f + v.y;
  return (v.x - below) / total + n / 2 - 1 / (below * below) + sqrtf(v.x) / 4.0f;
}
"""


def test_divisions_of_floats_in_a_function_that_the_kernel_alone_calls() -> None:
    own = SIGMOID + kernel("share(make_float2(x, 2 * x), x + 3, n)")
    after = rewritten("fast-intrinsics", own)[1]
    assert (
        "__fdividef((v.x - below), total) + n / 2 - __fdividef(1, (below * below)) + sqrtf(v.x) / 4.0f"
        in after
    )
    main = N + "  Device<float> o(n), a(n, 5); k<<<(n + 31) / 32, 32>>>(o, a, n); o.show();"
    holds("fast-intrinsics", program(own, main), (70,), relative=1e-5)
    for other in (
        own.replace("__device__ float", "__host__ __device__ float"),
        own.replace("float2 v, const float", "double2 v, const double").replace(
            "float below", "double below"
        ),
        own + "__global__ void second(float* o) { *o = share(make_float2(1, 2), 1.0f, 2); }",
    ):
        assert rewritten("fast-intrinsics", other)[0].refused


def test_divisions_count_for_more_where_a_loop_comes_to_them_again() -> None:
    likely = next(r for r in REWRITES if r.slug == "fast-intrinsics").likely
    once = kernel("x / in[0]")
    assert likely(once) < likely(once.replace("out[i] =", "for (int k = 0; k < n; k++) out[i] +="))


@pytest.mark.parametrize("kept", ["x / 2.0f", "exp((double)x)", "x * x", "n / 3", "sin((double)x)"])
def test_what_has_no_fast_form_stays(kept: str) -> None:
    assert rewritten("fast-intrinsics", kernel(kept))[0].refused
    assert rewritten("fast-sines", kernel(kept))[0].refused


LOOPS = """
__global__ void norm(double* a, const double* s, int n, int w) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  double total = s[r] + 9.0;
  #pragma unroll 4
  for (int c = 0; c < w; c++) a[r * w + c] = a[r * w + c] / total;
  for (int c = 0; c < w; c++) { a[r * w + c] /= total; }
}
"""


def test_a_loop_divides_once() -> None:
    main = N + "  Device<double> a(n * 5), s(n, 2); norm<<<(n + 31) / 32, 32>>>(a, s, n, 5); a.show();"
    after = holds("divide-once", program(LOOPS, main), (70,), relative=1e-6)
    assert after.count("1.0 / total;\n") == 2
    assert "1.0 / total;\n  #pragma unroll 4\n" in after


@pytest.mark.parametrize(
    "change", [("/ total", "/ s[c]"), ("{ a[", "{ total += 1; a["), ("double total", "int total")]
)
def test_divisors_that_change_stay(change: tuple[str, str]) -> None:
    text = LOOPS.replace("c++) a[r * w + c] = a[r * w + c] / total", "c++) a[r * w + c] = 0")
    text = text.replace("a[r * w + c] /= total", "a[r * w + c] = a[r * w + c] / total")
    assert rewritten("divide-once", text.replace(*change))[0].refused


def test_launch_bounds_say_the_block() -> None:
    launched = (
        kernel("x")
        + "#define B 128\nvoid h(float* p, int n) { k<<<n / B, B>>>(p, p, n); k<<<n, 64>>>(p, p, n); }\n"
    )
    assert "void __launch_bounds__(128) k(" in rewritten("launch-bounds", launched)[1]
    assert rewritten("launch-bounds", launched.replace("64", "n"))[0].refused
    assert rewritten("launch-bounds", launched.replace("64", "1024"))[0].refused
    assert rewritten("launch-bounds", kernel("x"))[0].refused
    named = (
        "constexpr int kBlock = 96;\n"
        + kernel("x")
        + "void h(float* p, int n) { k<<<n, kBlock>>>(p, p, n); }\n"
    )
    assert "__launch_bounds__(kBlock) k(" in rewritten("launch-bounds", named)[1]


TREE = """
__global__ void total(const float* in, float* out, int n) {
  extern __shared__ float sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? in[i] : 0;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}
"""
LARGEST = (
    TREE.replace("sdata[tid] += sdata[tid + s];", "{ sdata[tid] = fmaxf(sdata[tid], sdata[s + tid]); }")
    .replace("s >>= 1", "s /= 2")
    .replace("float sdata[]", "float sdata[]")
)
TREE_MAIN = (
    N
    + "  int b = (n + 127) / 128; Device<float> x(n), y(b, 2); total<<<b, 128, 128 * 4>>>(x, y, n); y.show();"
)


@pytest.mark.parametrize("tree", [TREE, LARGEST, TREE.replace("tid < s", "s > tid")])
def test_the_last_warp_shuffles(tree: str) -> None:
    after = holds("tree-by-shuffle", program(tree, TREE_MAIN), (1000,), (64,), relative=1e-5)
    assert after.count("__shfl_down_sync") == 1
    assert rewritten("tree-by-shuffle", after)[0].refused


UP = "for (unsigned int s = 1; s < blockDim.x; s *= 2) {"
DOWN = "for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {"
TREES = {
    "halved": TREE,
    "largest": LARGEST,
    "every second thread": TREE.replace(DOWN, UP).replace("tid < s", "tid % (2 * s) == 0"),
    "by mask": TREE.replace(DOWN, UP.replace("s *= 2", "s <<= 1")).replace(
        "tid < s", "(tid & (2 * s - 1)) == 0"
    ),
    "strided": TREE.replace(DOWN, UP).replace(
        "if (tid < s) sdata[tid] += sdata[tid + s];",
        "int index = 2 * s * tid;\n    if (index < blockDim.x) { sdata[index] += sdata[index + s]; }",
    ),
    "while": TREE.replace(DOWN, "int s = blockDim.x / 2;\n  while (s != 0) {").replace(
        "    __syncthreads();\n  }", "    __syncthreads();\n    s /= 2;\n  }"
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_is_reduced_by_warps(name: str) -> None:
    after = holds("warp-reduction", program(TREES[name], TREE_MAIN), (1000,), (64,), relative=1e-5)
    assert "tid % 32 == 0" in after and "blockDim.x / 2" not in after
    assert rewritten("warp-reduction", after)[0].refused


@pytest.mark.parametrize(
    "change",
    [("= sdata[0]", "= sdata[1]"), ("s > 0", "s > 4"), ("blockDim.x / 2", "blockDim.x / 4"),
     ("= threadIdx.x", "= threadIdx.x / 2"), ("blockDim.x / 2", "100 / 2")],
)  # fmt: skip
def test_other_trees_are_not_reduced_by_warps(change: tuple[str, str]) -> None:
    assert rewritten("warp-reduction", TREE.replace(*change))[0].refused


@pytest.mark.parametrize(
    "change",
    [("= sdata[0]", "= sdata[1]"), ("s > 0", "s > 4"), ("s >>= 1", "s -= 1"), ("tid + s]", "tid + 1]"),
     ("extern __shared__ float sdata[];", "float* sdata = out;"), ("sdata[tid] +=", "sdata[tid] *=")],
)  # fmt: skip
def test_other_trees_stay(change: tuple[str, str]) -> None:
    assert rewritten("tree-by-shuffle", TREE.replace(*change))[0].refused
