# SPDX-License-Identifier: Apache-2.0
"""What the model says of small, natural pieces of CUDA."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.model import SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText

BODY = "{ if (threadIdx.x < 4) a[threadIdx.x] = 0.0f; }\n"


def model(text: str, defines: dict[str, str] | None = None) -> SourceModel:
    return parse(SourceText(text), "k.cu", defines)


def names(text: str) -> list[str]:
    return [k.qualified_name for k in model(text).kernels]


KERNELS: dict[str, tuple[str, list[str]]] = {
    "plain": (f"__global__ void scale(float* a) {BODY}", ["scale"]),
    "two": (f"__global__ void one(float* a) {BODY}\n__global__ void two(float *a) {BODY}", ["one", "two"]),
    "template": (f"template <typename T, int N>\n__global__ void fill(T* a) {BODY}", ["fill"]),
    "specialised": (f"template <> __global__ void fill<float>(float* a) {BODY}", ["fill"]),
    "namespace": (f"namespace a {{ namespace b {{ __global__ void k(float* a) {BODY} }} }}", ["a::b::k"]),
    "nested namespace": (f"namespace a::b {{ __global__ void k(float* a) {BODY} }}", ["a::b::k"]),
    "inline namespace": (f"inline namespace v1 {{ __global__ void k(float* a) {BODY} }}", ["v1::k"]),
    "anonymous namespace": (
        f"namespace {{ __global__ void k(float* a) {BODY} }}",
        ["(anonymous namespace)::k"],
    ),
    "extern C": (f'extern "C" __global__ void k(float* a) {BODY}', ["k"]),
    "extern C block": (f'extern "C" {{ __global__ void k(float* a) {BODY} }}', ["k"]),
    "class member": (f"struct Sum {{ static __global__ void run(float* a) {BODY} }};", ["Sum::run"]),
    "class template": (
        f"template <class T> struct Sum {{ static __global__ void run(T* a) {BODY} }};",
        ["Sum::run"],
    ),
    "out of line": (f"template <class T> __global__ void Sum<T>::run(T* a) {BODY}", ["Sum::run"]),
    "attribute after type": (f"void __global__ k(float* a) {BODY}", ["k"]),
    "static first": (f"static __global__ void k(float* a) {BODY}", ["k"]),
    "inline last": (f"__global__ inline void k(float* a) {BODY}", ["k"]),
    "C++ attribute": (f"[[maybe_unused]] __global__ void k(float* a) {BODY}", ["k"]),
    "trailing return": (f"__global__ auto k(float* a) -> void {BODY}", ["k"]),
    "odd spacing": (f"__global__\nvoid\nk  (float *a,\n    int n)\n{BODY}", ["k"]),
    "bounds first": (f"__launch_bounds__(256) __global__ void k(float* a) {BODY}", ["k"]),
    "bounds last": (f"__global__ void __launch_bounds__(256, 2) k(float* a) {BODY}", ["k"]),
    "cluster": (f"__global__ void __cluster_dims__(2, 1, 1) k(float* a) {BODY}", ["k"]),
    "maxnreg": (f"__global__ void __maxnreg__(64) k(float* a) {BODY}", ["k"]),
    "grid constant": (f"__global__ void k(const __grid_constant__ CUtensorMap m, float* a) {BODY}", ["k"]),
    "forward declaration": (f"__global__ void k(float* a);\n__global__ void k(float* a) {BODY}", ["k"]),
    "only declared": ("__global__ void k(float* a);", []),
    "comment": (f"// __global__ void no(float* a) {{}}\n/* __global__ void n2() {{}} */\n{BODY}"[:-60], []),
    "string": ('const char* s = "__global__ void k(float* a) { a[0] = 1; }";', []),
    "raw string": ('const char* s = R"cu(\n__global__ void k(float* a) { }\n)cu";', []),
    "if 0": (
        f"#if 0\n__global__ void no(float* a) {BODY}#endif\n__global__ void yes(float* a) {BODY}",
        ["yes"],
    ),
    "if 0 else": (
        f"#if 0\n__global__ void no(float* a) {BODY}#else\n__global__ void yes(float* a) {BODY}#endif\n",
        ["yes"],
    ),
    "unknown condition": (
        f"#ifdef HALF\n__global__ void h(float* a) {BODY}#else\n__global__ void f(float* a) {BODY}#endif\n",
        ["h", "f"],
    ),
    "split header": (
        "#ifdef USE_INT\n__global__ void k(int* a) {\n#else\n__global__ void k(float* a) {\n#endif\n"
        f"{BODY}}}\n"
        f"__global__ void next(float* a) {BODY}",
        ["k", "next"],
    ),
    "hidden qualifier": (
        f'#define KERNEL extern "C" __global__\nKERNEL void k(float* a) {BODY}',
        ["k"],
    ),
    "hidden with type": (f"#define KERNEL static __global__ void\nKERNEL k(float* a) {BODY}", ["k"]),
    "macro header": (
        f"#define KERNEL(name) __global__ void __launch_bounds__(256) name\nKERNEL(k)(float* a) {BODY}",
        ["k"],
    ),
    "macro signature": (
        f"#define UNARY(name) __global__ void name##_kernel(float* a, int n)\nUNARY(relu) {BODY}",
        ["relu_kernel"],
    ),
    "macro kernels": (
        "#define DEFINE(name, T) \\\n  __global__ void name(T* a) { \\\n    a[0] = T(1); \\\n  }\n"
        "namespace n {\nDEFINE(one, float)\nDEFINE(two, double);\n}\n",
        ["n::one", "n::two"],
    ),
    "CUTLASS macros": (
        f"CUTLASS_DEVICE float f(float x) {{ return x; }}\nCUTLASS_GLOBAL void k(float* a) {BODY}",
        ["k"],
    ),
    "half-typed line": (
        f"__global__ void a1(float* a) {{\n  a[0] = \n}}\n__global__ void a2(float* a) {BODY}",
        ["a1", "a2"],
    ),
    "missing brace": (
        "__global__ void a1(float* a) {\n  if (a) {\n    a[0] = 1;\n}\n\n"
        f"__global__ void a2(float* a) {BODY}",
        ["a1", "a2"],
    ),
    "open parenthesis": (
        f"__global__ void a1(float* a) {{\n  f(a[0], \n}}\n__global__ void a2(float* a) {BODY}",
        ["a1", "a2"],
    ),
    "extra brace": (
        f"__global__ void a1(float* a) {{ a[0] = 1; }} }}\n__global__ void a2(float* a) {BODY}",
        ["a1", "a2"],
    ),
    "empty": ("", []),
}


@pytest.mark.parametrize("case", KERNELS)
def test_kernels_are_found_by_their_qualified_names(case: str) -> None:
    text, expected = KERNELS[case]
    assert names(text) == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("case", [c for c in KERNELS if "macro" not in c and "hidden" not in c])
def test_spans_cut_out_what_they_claim(case: str, newline: str) -> None:
    text = SourceText("// µ😀\n\t" + KERNELS[case][0].replace("\n", newline))
    for kernel in parse(text, "k.cu").kernels:
        assert text.slice(kernel.name_span) == kernel.name
        assert text.slice(kernel.body).startswith("{")
        assert kernel.span.contains(kernel.body)
        assert kernel.broken or text.slice(kernel.body).endswith("}")
        for parameter in kernel.parameters:
            assert parameter.name in text.slice(parameter.span)


def test_a_kernel_starts_with_its_template_head() -> None:
    text = SourceText(KERNELS["template"][0])
    kernel = parse(text, "k.cu").kernels[0]
    assert text.slice(kernel.span).startswith("template <typename T, int N>")
    assert kernel.template_parameters == ("T", "N")


PARAMETERS: dict[str, tuple[str, bool, bool, bool]] = {
    "float* a": ("float", True, False, False),
    "const float* __restrict__ a": ("float", True, True, True),
    "float const *const __restrict a": ("float", True, True, True),
    "unsigned int *a": ("unsigned int", True, False, False),
    "const float4 a[]": ("float4", True, True, False),
    "float* const a": ("float", True, False, False),
    "float* RESTRICT a": ("float", True, False, True),
    "CONST_IN a": ("CONST_IN", False, False, False),
    "float** a": ("float**", False, False, False),
    "float (&a)[4]": ("float (&)[4]", False, False, False),
    "float& a": ("float&", False, False, False),
    "void (*a)(int)": ("void (*)(int)", False, False, False),
    "struct P a": ("struct P", False, False, False),
    "int a = 3": ("int", False, False, False),
    "real_ptr a": ("real_ptr", False, False, False),
    "std::vector<int>::pointer a": ("std::vector<int>::pointer", False, False, False),
}


@pytest.mark.parametrize("written", PARAMETERS)
def test_parameters(written: str) -> None:
    text = f"#define RESTRICT __restrict__\n__global__ void k(int n, {written}) {{}}"
    parameter = model(text).kernels[0].parameters[1]
    assert parameter.name == "a"
    read = (parameter.element_type, parameter.pointer, parameter.const, parameter.restrict)
    assert read == PARAMETERS[written]


def test_launch_bounds_are_evaluated() -> None:
    text = "#define BLOCK 128\nconstexpr int kMin = 4;\n"
    bounds = (
        model(text + "__global__ void __launch_bounds__(2 * BLOCK, kMin) k() {}").kernels[0].launch_bounds
    )
    assert bounds is not None
    assert (bounds.max_threads, bounds.max_threads_value, bounds.min_blocks_value) == ("2 * BLOCK", 256, 4)


def test_arrays() -> None:
    text = SourceText("""
#define TILE 32
template <int N>
__global__ void k(float* a) {
  __shared__ float tile[TILE][TILE + 1], row[TILE];
  extern __shared__ __align__(16) unsigned char pool[];
  __shared__ alignas(16) float templated[N][4];
  float acc[2][4] = {}, *p = a;
  double w[] = {1.0, 2.0, 3.0};
  static const float table[3] = {1, 2, 3};
  float (*rows)[TILE + 1] = tile;
  int TILEX = 3;
}
""")
    arrays = {a.name: a for a in parse(text, "k.cu").kernels[0].arrays}
    assert {n: (a.space, a.sizes) for n, a in arrays.items()} == {
        "tile": ("shared", (32, 33)),
        "row": ("shared", (32,)),
        "pool": ("shared", ()),
        "templated": ("shared", (None, 4)),
        "acc": ("local", (2, 4)),
        "w": ("local", (3,)),
    }
    assert arrays["pool"].dynamic
    assert [text.slice(s) for s in arrays["tile"].extent_spans] == ["TILE", "TILE + 1"]
    assert arrays["w"].element_type == "double"


def test_a_constant_that_a_parameter_hides_is_unknown() -> None:
    text = "constexpr int N = 8;\ntemplate <int N> __global__ void k() { float x[N]; }"
    assert model(text).kernels[0].arrays[0].sizes == (None,)


def test_calls_name_functions_of_the_file() -> None:
    text = """
__device__ float relu(float x) { return x; }
template <int N> __device__ float scaled(float x) { return N * x; }
__global__ void k(float* a) { a[0] = relu(scaled<4>(sinf(a[1]))); }
"""
    assert model(text).kernels[0].calls == ("relu", "scaled")


CONSTANTS: dict[str, tuple[str, int | None]] = {
    "define": ("#define N 32\n", 32),
    "define of define": ("#define M 4\n#define N (M * 8) // lanes\n", 32),
    "define twice": ("#define N 4\n#undef N\n#define N 8\n", None),
    "define by condition": ("#ifdef A\n#define N 4\n#else\n#define N 8\n#endif\n", None),
    "default": ("#ifndef N\n#define N 16\n#endif\n", 16),
    "constexpr": ("constexpr int N = 1 << 5;\n", 32),
    "static const": ("static const unsigned N = 0x20u;\n", 32),
    "digit separators": ("constexpr int N = 1'000;\n", 1000),
    "function": (
        "constexpr int up(int a, int b) { return (a + b - 1) / b; }\nconst int N = up(100, 32);\n",
        4,
    ),
    "macro function": ("#define UP(a, b) (((a) + (b) - 1) / (b))\nconst int N = UP(100, 32);\n", 4),
    "sizeof": ("constexpr int N = 64 / sizeof(float4);\n", 4),
    "enumerator": ("enum { N = 12 };\n", 12),
    "floating": ("#define N 1.5f\n", None),
    "run time": ("extern int m;\nconst int N = m * 2;\n", None),
    "itself": ("#define N N\n", None),
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants(case: str) -> None:
    text, expected = CONSTANTS[case]
    parsed = model(text + "__global__ void k() { __shared__ float x[N]; }")
    assert parsed.kernels[0].arrays[0].sizes == (expected,)
    listed = [c for c in parsed.constants if c.name == "N"]
    assert all(c.value == expected for c in listed)


def test_a_macro_may_be_undefined_behind_its_uses() -> None:
    text = "#define N 4\n__global__ void k() { __shared__ float x[N]; }\n#undef N\n"
    assert model(text).kernels[0].arrays[0].sizes == (4,)
    assert model(text + "int after[N];\n").kernels[0].arrays[0].sizes == (None,)


def test_the_command_line_defines_macros() -> None:
    text = "#ifndef TILE\n#define TILE 16\n#endif\n__global__ void k() { __shared__ float x[TILE]; }"
    assert model(text, {"TILE": "64"}).kernels[0].arrays[0].sizes == (64,)


def test_includes_main_and_architecture() -> None:
    text = SourceText('#include <cstdio>\n  # include "my µ.cuh" // why\n// wgmma\nint main() {}\n')
    parsed = parse(text, "k.cu")
    assert [(i.target, i.system) for i in parsed.includes] == [("cstdio", True), ("my µ.cuh", False)]
    assert parsed.has_main
    assert not parsed.needs_arch_specific


@pytest.mark.parametrize(
    "text",
    [
        "#include <cute/tensor.hpp>\n",
        '#include "cutlass/gemm/device/gemm.h"\n',
        '__global__ void k() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }',
        "__global__ void k() { cp_async_bulk_tensor_2d(); }",
    ],
)
def test_architecture_specific_code_is_seen(text: str) -> None:
    assert model(text).needs_arch_specific


def test_errors_name_the_broken_place_only() -> None:
    text = "__global__ void a1(float* a) { a[0] = 1; }\n__global__ void a2(float* a) {\n  a[0] = ;\n}\n"
    parsed = model(text)
    assert [k.broken for k in parsed.kernels] == [False, True]
    assert {e.line for e in parsed.errors} == {3}


def test_a_main_whose_body_is_a_try_block_is_a_main() -> None:
    parsed = parse(SourceText("int main() try {\n  return 0;\n} catch (...) {\n  return 1;\n}\n"), "a.cu")
    assert parsed.has_main
