# SPDX-License-Identifier: Apache-2.0
"""Rewrites: their pages are their samples, they refuse what they cannot prove, and their edits parse."""

from __future__ import annotations

import functools
import pkgutil
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_tools import rewrite as package
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.refusal import refusing
from warplens_tools.rewrite.registry import REWRITES, rewrite
from warplens_tools.text import SourceText, TextEdit

FENCE = re.compile(r"```cuda\n(.*?)```", re.DOTALL)


def page(of: Rewrite) -> str:
    module = __import__(of.apply.__module__, fromlist=["__doc__"])
    return module.__doc__ or ""


@functools.lru_cache(maxsize=4)
def parsed(text: str) -> tuple[SourceText, SourceModel]:
    """Read once for all rewrites that are tried on a text in turn, as the product does."""
    source = SourceText(text)
    return source, parse(source, "k.cu")


def run(
    slug: str, text: str, names: tuple[str, ...] = (), lines: tuple[int, ...] = ()
) -> tuple[RewriteResult, str]:
    source, model = parsed(text)
    found = rewrite(slug)
    assert found is not None
    result = found.apply(source, model, model.kernels[0], Target(names, lines))
    after = source.apply(list(result.edits))
    assert len(parse(after, "k.cu").errors) <= len(model.errors)
    assert bool(result.edits) != bool(result.refused)
    return result, after.text


def test_the_registry_lists_the_folder() -> None:
    found = {m.name for m in pkgutil.iter_modules(package.__path__)} - {"base", "registry", "common"}
    assert {r.slug.replace("-", "_") for r in REWRITES} == found
    assert {r.apply.__module__.rsplit(".", 1)[-1] for r in REWRITES} == found


@pytest.mark.parametrize("of", REWRITES, ids=lambda r: r.slug)
def test_a_page_holds_its_sample(of: Rewrite) -> None:
    before, after = FENCE.findall(page(of))
    assert page(of).startswith(of.slug)
    assert run(of.slug, before)[1] == after


@pytest.mark.parametrize("of", REWRITES, ids=lambda r: r.slug)
def test_a_rewrite_is_done_once(of: Rewrite) -> None:
    after = FENCE.findall(page(of))[1]
    result, again = run(of.slug, after)
    assert again == after
    assert result.refused


def tiled(declaration: str, body: str = "a[0] = tile[threadIdx.x][threadIdx.y];", prelude: str = "") -> str:
    return f"{prelude}#define TILE 32\n__global__ void k(float* a, int n) {{\n  {declaration}\n  {body}\n}}\n"


PADDED = {
    "__shared__ float tile[32][32];": "__shared__ float tile[32][32 + 1];",
    "__shared__ float tile[TILE][TILE];": "__shared__ float tile[TILE][TILE + 1];",
    "__shared__ float tile[TILE][2*TILE], other[4];": "__shared__ float tile[TILE][2*TILE + 1], other[4];",
    "__shared__ float tile[8][1 << 5];": "__shared__ float tile[8][(1 << 5) + 1];",
    "__shared__ __align__(16) half tile[8][ 64 /* µ */ ];": "__shared__ __align__(16) half tile[8][ 64 + 1 /* µ */ ];",
    "__shared__ double tile[16][16];": "__shared__ double tile[16][16 + 1];",
}


@pytest.mark.parametrize("declaration", PADDED)
def test_a_tile_is_padded(declaration: str) -> None:
    assert run("pad-shared-tile", tiled(declaration))[1] == tiled(PADDED[declaration])


VECTOR = {
    "float4 v = *reinterpret_cast<float4*>(&tile[threadIdx.y][threadIdx.x * 4]);": ("float", "4"),
    "float4 v = reinterpret_cast<float4*>(&tile[threadIdx.y][0])[0];": ("float", "4"),
    "unsigned p = __cvta_generic_to_shared(&tile[threadIdx.x][8]);": ("half", "8"),
    "__pipeline_memcpy_async(&tile[threadIdx.y][threadIdx.x * 4], a, 16);": ("float", "4"),
    "atomicAdd(&tile[threadIdx.y][threadIdx.x], 1.0f);": ("float", "1"),
    "tile[n][threadIdx.x] += 1; --tile[n][0];": ("float", "1"),
}


@pytest.mark.parametrize("body", VECTOR)
def test_rows_stay_aligned_for_vector_accesses(body: str) -> None:
    element, padding = VECTOR[body]
    after = run("pad-shared-tile", tiled(f"__shared__ {element} tile[TILE][TILE];", body))[1]
    assert f"tile[TILE][TILE + {padding}]" in after


REFUSED_TILES = [
    ("extern __shared__ float tile[];", ""),
    ("__shared__ float tile[1024];", ""),
    ("__shared__ float tile[4][32][32];", ""),
    ("float tile[32][32];", ""),
    ("__shared__ float tile[32][33];", "a[0] = tile[n][n];"),
    ("__shared__ float tile[TILE][TILE];", "load(tile);"),
    ("__shared__ float tile[TILE][TILE];", "load(tile[n], a);"),
    ("__shared__ float tile[TILE][TILE];", "load(&tile[n][0], a);"),
    ("__shared__ float tile[TILE][TILE];", "float* row = tile[n]; row[n] = 0;"),
    ("__shared__ float tile[TILE][TILE];", "for (int i = 0; i < sizeof(tile) / 4; ++i) a[i] = 0;"),
    ("__shared__ float tile[TILE][TILE];", "tile[0][threadIdx.y * TILE + threadIdx.x] = 0;"),
    (
        "__shared__ float tile[TILE][TILE];",
        "float4* v = reinterpret_cast<float4*>(&tile[n][0]); a[0] = v[n].x;",
    ),
    ("__shared__ float tile[TILE][TILE];", "(&tile[0][0])[threadIdx.x] = 0;"),
    ("__shared__ float tile[TILE][TILE];", "nvcuda::wmma::load_matrix_sync(f, &tile[0][0], TILE);"),
    (
        "__shared__ float tile[TILE][TILE];",
        'asm volatile("cp.async.bulk.tensor.2d.shared" :: "r"(&tile[n][0]));',
    ),
    ("__shared__ float tile[96][128];", "tile[n][n] = 0;"),
    ("__shared__ T tile[TILE][TILE];", "float4 v = *reinterpret_cast<float4*>(&tile[n][0]);"),
]


@pytest.mark.parametrize(("declaration", "body"), REFUSED_TILES)
def test_a_tile_is_refused(declaration: str, body: str) -> None:
    assert run("pad-shared-tile", tiled(declaration, body))[0].refused


def test_one_tile_of_two() -> None:
    both = tiled("__shared__ float tile[TILE][TILE], other[TILE][TILE];", "tile[n][n] = other[n][n];")
    assert run("pad-shared-tile", both, names=("other",))[1].count("TILE + 1") == 1
    assert run("pad-shared-tile", both)[1].count("TILE + 1") == 2
    assert run("pad-shared-tile", both, names=("missing",))[0].refused
    assert run("pad-shared-tile", both, lines=(99,))[0].refused


def test_a_use_hidden_in_a_macro_is_seen() -> None:
    text = tiled("__shared__ float tile[TILE][TILE];", "LOAD(n);", "#define LOAD(i) fill(tile, i)\n")
    assert run("pad-shared-tile", text)[0].refused


QUALIFIED = {
    "float* a, float* b": ("a[n] = b[n];", "float* __restrict__ a, const float* __restrict__ b"),
    "float *a, const float *b": ("a[n] = b[n];", "float *__restrict__ a, const float *__restrict__ b"),
    "float* const a, float const* b": (
        "a[n] = b[n];",
        "float* const __restrict__ a, float const* __restrict__ b",
    ),
    "float* __restrict__ a, float* b": ("a[n] = b[n];", "float* __restrict__ a, const float* __restrict__ b"),
    "float* a, float* b  ": ("atomicAdd(a, b[n]);", "float* __restrict__ a, const float* __restrict__ b  "),
    "float* a, float* b   ": (
        "auto p = b + n; *a = *p;",
        "float* __restrict__ a, const float* __restrict__ b   ",
    ),
    "float* a, float* b /*w*/": (
        "float* p = b; p[n] = *a;",
        "const float* __restrict__ a, float* __restrict__ b /*w*/",
    ),
    "float* a, float* b, int m": (
        "a[n] = __ldg(&b[n]);",
        "float* __restrict__ a, const float* __restrict__ b, int m",
    ),
    "float* a, float* b, char c": (
        "a[n] = f(b);",
        "float* __restrict__ a, const float* __restrict__ b, char c",
    ),
    "float* a, float* b, long c": ("a[n] = g(b);", "float* __restrict__ a, float* __restrict__ b, long c"),
    "float* a, float* b, bool c": (
        "g(&b[1]); *a = 0;",
        "float* __restrict__ a, float* __restrict__ b, bool c",
    ),
    "float* a, float4* b": (
        "float4 v = reinterpret_cast<float4*>(b)[n]; *a = v.x;",
        "float* __restrict__ a, float4* __restrict__ b",
    ),
}
HELPERS = "__device__ float f(const float* x) { return *x; }\n__device__ float g(float* x) { return *x; }\n"


@pytest.mark.parametrize("parameters", QUALIFIED)
def test_parameters_are_qualified(parameters: str) -> None:
    body, expected = QUALIFIED[parameters]
    before = f"{HELPERS}__global__ void k({parameters}, int n) {{ {body} }}\n"
    assert run("restrict-const", before)[1] == before.replace(parameters, expected)


KERNEL = "__global__ void k(float* a, float* b, int n) { a[n] = b[n]; }\n"


@pytest.mark.parametrize(
    "host",
    [
        "k<<<1, 2>>>(d, d, 3);",
        "k<<<1, 2>>>(d, d + n, 3);",
        "k<<<1, 2>>>(&d[0], (float*)d, 3);",
        "k<<<1, 2>>>(x, y, 3); k<<<1, 2>>>(y, y, 3);",
        "float* e = d; k<<<1, 2>>>(d, e, 3);",
        "void* args[] = {&d, &d, &n}; cudaLaunchKernel((void*)k, 1, 2, args);",
    ],
)
def test_one_buffer_passed_twice_is_refused(host: str) -> None:
    result, _ = run("restrict-const", f"{KERNEL}void h() {{ {host} }}\n", names=("a",))
    assert "one buffer" in result.refused


@pytest.mark.parametrize(
    "host", ["k<<<1, 2>>>(x, y, 3);", "k<<<1, 2>>>(s.x, s.y, 3);", "k<<<1, 2>>>(d[0], d[1], 3);"]
)
def test_distinct_buffers_are_not_refused(host: str) -> None:
    assert "__restrict__ a" in run("restrict-const", f"{KERNEL}void h() {{ {host} }}\n")[1]


@pytest.mark.parametrize(
    "body", ["a = b + n; a[0] = 1;", "float* p = n ? a : b; *p = 1;", "if (a < b) a[0] = 1;"]
)
def test_mixed_pointers_are_refused(body: str) -> None:
    result, _ = run(
        "restrict-const", f"__global__ void k(float* a, float* b, int n) {{ {body} }}", names=("a",)
    )
    assert "mixes" in result.refused


def test_declarations_follow() -> None:
    before = (
        "namespace n {\n__global__ void k(float*, float* in, int n);\n"
        "__global__ void k(double* a, double* b, int n);\n"
        f"{KERNEL}}}\n__global__ void k(float* a, float* b, int n);\n"
    )
    after = run("restrict-const", before)[1]
    assert "void k(float* __restrict__, const float* __restrict__ in, int n);" in after
    assert "void k(double* a, double* b, int n);" in after
    assert after.endswith("\n__global__ void k(float* a, float* b, int n);\n")


@pytest.mark.parametrize(
    "also",
    [
        "template __global__ void k<float>(float* a, float* b, int n);",
        "template <> __global__ void k<int>(int* a, int* b, int n) { }",
        "void (*fn)(float*, float*, int) = k<float>;",
    ],
)
def test_a_fixed_signature_keeps_its_types(also: str) -> None:
    before = f"template <typename T> __global__ void k(T* a, T* b, int n) {{ a[n] = b[n]; }}\n{also}\n"
    after = run("restrict-const", before)[1]
    assert "k(T* __restrict__ a, T* __restrict__ b, int n)" in after


def test_literals_on_a_line() -> None:
    before = "__global__ void k(float* a) {\n  a[0] *= 2.5;\n  a[1] *= 3.5;\n}\n"
    assert run("float-literals", before, lines=(3,))[1] == before.replace("3.5", "3.5f")
    result, after = run("float-literals", before)
    assert after == before.replace("2.5", "2.5f").replace("3.5", "3.5f")
    assert "float" in result.caveat
    assert run("float-literals", before.replace("float* a", "double* a"))[0].refused


@pytest.mark.parametrize("slug", [r.slug for r in REWRITES])
@pytest.mark.parametrize(
    "text",
    [
        "#define DEF(name) __global__ void name(float* a, float* b) { __shared__ float t[32][32]; }\nDEF(k)\n",
        "__global__ void k(float* a, float* b) { __shared__ float t[32][32]; t[0][ = 1; }\n",
        "__global__ void k() {}\n",
    ],
)
def test_what_cannot_be_changed_is_refused(slug: str, text: str) -> None:
    assert run(slug, text)[0].refused


STATEMENTS = [
    "a[i] = b[i] * 0.3 + tile[threadIdx.x][j];", "tile[j][threadIdx.x] = b[i];", "for (int q = 0; q < n; ++q) {",
    "}", "float x = 1.5 * b[0];", "b[j] += pow(a[i], 2);", "load(tile[j], a);", "atomicAdd(&tile[i][j], 0.5);",
    "if (a == b) return;", "float* p = a + i;", "p[0] = 2.0 * p[1];", "(", "x = x > 0.1 ? x : 0.0;",
]  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(STATEMENTS), max_size=8), st.sampled_from([r.slug for r in REWRITES]))
def test_edits_apply_to_any_kernel(statements: list[str], slug: str) -> None:
    body = "\n  ".join(
        ["__shared__ float tile[32][32];", "int i = threadIdx.x, j = threadIdx.y;", *statements]
    )
    run(slug, f"__global__ void k(float* a, float* b, int n) {{\n  {body}\n}}\n")


COMPILED = [
    *[
        f"__device__ float g(float* x);\n{tiled(d, 'a[0] = float(tile[threadIdx.x][threadIdx.y]);')}"
        for d in PADDED
    ],
    *[tiled(f"__shared__ {VECTOR[b][0]} tile[TILE][TILE];", b) for b in VECTOR],
    *[f"{HELPERS}__global__ void k({p}, int n) {{ {QUALIFIED[p][0]} }}\n" for p in QUALIFIED],
    f"__global__ void k(float*, float* in, int n);\n{KERNEL}",
    "#define EPS 1e-5\n__global__ void k(float* a, float4* v, int n) {\n  float x = a[n];\n  if (x < -1.5) x += 0.25;\n"
    "  a[0] = pow(x, 2) + x * M_PI + sqrt(x + EPS) + n * 0.1;\n  v[0].x *= x > 0.1 ? 0.3 : 0.7;\n}\n",
]


@pytest.mark.compiler
def test_edited_samples_compile(tmp_path: Path) -> None:
    """One translation unit with the sample of every rewrite after it, each in its own namespace."""
    assert compiled([(FENCE.findall(page(of))[0], (of,)) for of in REWRITES], tmp_path) == len(REWRITES)


@pytest.mark.compiler
@pytest.mark.thorough
def test_edited_kernels_still_compile(tmp_path: Path) -> None:
    """And with every sample after every other."""
    samples = [*COMPILED, *(FENCE.findall(page(r))[0] for r in REWRITES)]
    assert compiled([(sample, REWRITES) for sample in samples], tmp_path) > len(COMPILED)


def compiled(samples: Sequence[tuple[str, Sequence[Rewrite]]], folder: Path) -> int:
    """How many edits rewrites made in samples; nvcc took each."""
    parts = ["#include <cuda_fp16.h>\n#include <cuda_pipeline.h>\n#include <math.h>\n#include <mma.h>\n"]
    changed = 0
    for number, (sample, rewrites) in enumerate(samples):
        for of in rewrites:
            result, after = run(of.slug, sample)
            if not result.edits:
                continue
            changed += 1
            undefined = "".join(f"#undef {name}\n" for name in re.findall(r"#define (\w+)", after))
            parts.append(f"namespace s{number}_{of.slug.replace('-', '_')} {{\n{after}\n}}\n{undefined}")
    unit = folder / "all.cu"
    unit.write_text("".join(parts))
    # read, checked and assembled as ever; nobody runs it, so nobody waits for the optimisers
    hasty = ["-Xcicc", "-O0", "-Xptxas", "-O0"]
    command = ["nvcc", "-cubin", "-arch=sm_90", *hasty, "-o", str(folder / "all.cubin"), str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return changed


def test_what_nests_too_deep_to_be_read_is_refused() -> None:
    def edit(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        return edit(text, model, kernel, target)

    text, model = parsed("__global__ void k(float* y) { y[0] = 1.0f; }\n")
    assert "nests deeper" in refusing(edit)(text, model, model.kernels[0], Target()).refused


def test_edits_that_overlap_in_a_form_of_their_own_are_refused() -> None:
    def edit(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        del model, target
        text.apply([TextEdit(kernel.body, "{ }"), TextEdit(kernel.body, "{}")])
        return RewriteResult()

    text, model = parsed("__global__ void k(float* y) { y[0] = 1.0f; }\n")
    assert refusing(edit)(text, model, model.kernels[0], Target()).refused


def test_an_index_within_an_index_is_written_out_once() -> None:
    code = """
__global__ void decode(const int* codes, const char* names, char* out, int rows, int width) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  for (int first = 0; first < 4; ++first) {
    int at = row + first;
    out[row * width + at] = names[codes[at] * width + at];
  }
}
void run(const int* c, const char* n, char* o) { decode<<<64, 64>>>(c, n, o, 4096, 8); }
"""
    text, model = parsed(code)
    result = rewrite("windows-in-registers").apply(text, model, model.kernels[0], Target())  # type: ignore[union-attr]
    assert result.refused != "what would change stands within what else would"
