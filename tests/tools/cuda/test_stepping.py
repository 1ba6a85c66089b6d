# SPDX-License-Identifier: Apache-2.0
"""Loops that step their variable in the body, helper functions in an index, layouts of structs."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.facts.launch_arguments import argument_values
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.forms import describe
from warplens_tools.text import SourceText

HELPERS = "__device__ int at(int r, int c, int w) { return r * w + c; }\n"


def index_of(body: str) -> str | None:
    """The first access's index, of a kernel with that body."""
    text = SourceText(f"{HELPERS}__global__ void k(float *a, int n, int w)\n{{\n{body}\n}}\n")
    model = parse(text, "k.cu")
    (first, *_) = accesses(parse_tree(text), model.kernels[0], (256, 1, 1))
    return describe(first.index) if first.index is not None else None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int i = threadIdx.x; while (i < n) { a[i] = 0; i += 256; }", "256 * iteration + threadIdx.x"),
        ("int i = threadIdx.x; for (; i < n; i += w) a[i] = 0;", "iteration * w + threadIdx.x"),
        ("int i = 4; do { a[i] = 0; ++i; } while (i < n);", "4 + iteration"),
        ("int i = threadIdx.x; while (i < n) { i += 256; a[i] = 0; }", "256 + 256 * iteration + threadIdx.x"),
        ("int i = threadIdx.x; while (i < n) { a[i] = 0; if (w) i += 256; }", None),
        (
            "int i = threadIdx.x; while (i < n) { a[i] = 0; i += 256; } i = 3;",
            "256 * iteration + threadIdx.x",
        ),
        (
            "int i = 7; for (int j = 0; j < n; ++j) { i = threadIdx.x; while (i < w) { a[i] = 0; i += 8; } }",
            "8 * iteration + threadIdx.x",
        ),
        (
            "int i; i = threadIdx.x; while (i < n) { a[i] = 0; i += 8; } i = w; while (i) --i;",
            "8 * iteration + threadIdx.x",
        ),
        ("int i; for (i = 0; i < w; ++i) ; i = 3; while (i < n) { a[i] = 0; i++; }", "3 + iteration"),
        ("int i; if (w) i = 3; while (i < n) { a[i] = 0; i += 2; } i = 3;", None),
        ("int i = 0; for (int j = 0; j < n; ++j) { while (i < w) { a[i] = 0; i += 8; } i += 3; }", None),
        ("int i = 0; while (i < n) { if (w) i = 2; a[i] = 0; i += 8; } i = 3;", None),
        ("int i = 0, *p = &i; while (i < n) { *p = 5; a[i] = 0; i += 8; } i = 3;", None),
        ("int i = 0; while (i < n) { if (w) { i += 8; continue; } a[i] = 0; } i = 3;", None),
        ("int i = 0; while (i < n) { a[i] = 0; i += threadIdx.x; }", None),
        (
            "float *p = a + threadIdx.x * n; for (int k = 0; k < n; ++k) { *p = 0; p++; }",
            "k + n * threadIdx.x",
        ),
        ("float *p = a + threadIdx.x; while (n--) { p[1] = 0; p += w; }", "1 + iteration * w + threadIdx.x"),
        (
            "float *p; for (int j = 0; j < n; ++j) { p = a + j; for (int k = 0; k < w; ++k) { *p = 0; p += 8; } }",
            "j + 8 * k",
        ),
        ("float *p = a; for (int j = 0; j < n; ++j) for (int k = 0; k < w; ++k) { *p = 0; p += 8; }", None),
        ("float *p = a; for (int k = 0; k < w; ++k) { p += 8; *p = 0; }", "8 + 8 * k"),
        ("float *p = a; for (int k = 0; k < w; ++k) { *p = 0; if (k & n) p += 8; }", None),
        (
            "const int2 v = make_int2(threadIdx.x, blockIdx.x); a[v.y * n + v.x] = 0;",
            "blockIdx.x * n + threadIdx.x",
        ),
        ("uint3 v{threadIdx.x, 2, 3}; a[v.x + v.z] = 0;", "3 + threadIdx.x"),
        ("int2 v = make_int2(threadIdx.x, 2); v.x += w; a[v.x] = 0;", None),
        ("int2 v = make_int2(threadIdx.x, 2); a[v.z] = 0;", None),
        ("float2 v = make_float2(threadIdx.x, 2); a[(int)v.x] = 0;", None),
        ("int i = threadIdx.x; curand_init(n, i, 0, &state); a[i] = 0;", "threadIdx.x"),
        ("int i = threadIdx.x; moved(i); a[i] = 0;", None),
        ("int i = threadIdx.x; *(a + i) = 0;", "threadIdx.x"),
        ("int i = threadIdx.x; (*(a + w * 4 + (i))) += 1;", "threadIdx.x + 4 * w"),
        ("int i = threadIdx.x; (i) = 3; *(a + i * n) = 0;", None),
        ("a[at(threadIdx.y, threadIdx.x, w)] = 0;", "threadIdx.x + threadIdx.y * w"),
        ("a[at(threadIdx.y, (int)a[0], w)] = 0;", None),
    ],
)
def test_index(body: str, expected: str | None) -> None:
    found = index_of(body)
    at = None if found is None else found.split("@")
    plain = None if at is None else at[0] + "".join(part.lstrip("0123456789") for part in at[1:])
    assert plain == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("m->data[threadIdx.x * m->cols + 1] = 0;", [("m->data", "1 + m->cols * threadIdx.x")]),
        ("m->cols = 4; m->data[threadIdx.x * m->cols] = 0;", [("m->data", None)]),
        ("put(m);", []),
    ],
)
def test_a_structure_that_a_kernel_is_led_to(body: str, expected: list[tuple[str, str | None]]) -> None:
    text = SourceText(
        "struct M { int cols; float *data; };\n__device__ void put(M *m) { m->data[m->cols] = 0; }\n"
        f"__global__ void k(M *m)\n{{\n{body}\n}}\n"
    )
    found = accesses(parse_tree(text), parse(text, "k.cu").kernels[0])
    written = [a for a in found if a.writes and a.name.endswith("data")]
    assert [(a.name, describe(a.index) if a.index is not None else None) for a in written] == expected


def test_layouts_are_those_of_the_compiler() -> None:
    tree = parse_tree(
        SourceText(
            "#define N 3\nstruct V { float x, y, z; };\n"
            "typedef struct { double m; V p; int id[N]; char flag; } P;\n"
            "struct alignas(16) A { float a, b, c; static int count; float get() const; };\n"
            "struct Q { Unknown u; };\nstruct D : V { int w; };\n"
        )
    )
    layouts = layouts_of(tree)
    assert {name: r.size for name, r in layouts.records.items()} == {"V": 12, "P": 40, "A": 16, "D": 16}
    assert layouts.place("P", ".p.y") == (12, 4)
    assert layouts.place("P", ".flag") == (32, 1)
    assert layouts.place("float4", ".z") == (8, 4)
    assert layouts.place("P", ".none") is None
    assert layouts.bytes("Q") is None


def test_arguments_that_all_launches_agree_on() -> None:
    text = SourceText(
        "__global__ void k(float *a, int n, int pitch, int once) {}\n"
        "int main() { const int n = 1 << 20; int pitch = 1001;\n"
        "  k<<<n / 256, 256>>>(p, n, pitch, 1); k<<<1, 256>>>(p, n, pitch, 2); }\n"
    )
    model = parse(text, "k.cu")
    assert argument_values(parse_tree(text), model, model.kernels[0]) == {"n": 1 << 20, "pitch": 1001}


@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        ("typedef unsigned int u32;", "u32 i = threadIdx.x; a[i * n] = 0;", "n * threadIdx.x"),
        ("using Row = std::uint64_t;", "Row i = threadIdx.x; a[i * n] = 0;", "n * threadIdx.x"),
        ("namespace q { typedef long row_t; }", "q::row_t i = threadIdx.x; a[i * n] = 0;", "n * threadIdx.x"),
        ("typedef int A; typedef A B;", "const B i = threadIdx.x; a[B(i) * n] = 0;", "n * threadIdx.x"),
        ("#ifdef WIDE\ntypedef long R;\n#else\ntypedef int R;\n#endif", "R i = 3; a[(R)i * n] = 0;", "3 * n"),
        ("typedef float R;", "R i = threadIdx.x; a[(int)i * n] = 0;", None),
        ("#ifdef REAL\ntypedef float R;\n#else\ntypedef int R;\n#endif", "R i = 3; a[(int)i] = 0;", None),
        ("typedef unsigned char small;", "small i = n; a[i] = 0;", None),
        ("struct R { int v; };", "R i = f(); a[i] = 0;", None),
        ("typedef R R;", "R i = threadIdx.x; a[i] = 0;", None),
    ],
)
def test_integers_by_other_names(before: str, body: str, expected: str | None) -> None:
    text = SourceText(f"{before}\n__global__ void k(float *a, int n)\n{{\n{body}\n}}\n")
    model = parse(text, "k.cu")
    (first, *_) = accesses(parse_tree(text), model.kernels[0], (256, 1, 1))
    assert (describe(first.index) if first.index is not None else None) == expected


def test_a_template_parameter_that_is_called_an_index_is_one() -> None:
    for name, known in (
        ("IndexT", True),
        ("index_t", True),
        ("SizeType", True),
        ("T", False),
        ("PointT", False),
    ):
        text = SourceText(
            f"template <typename {name}> __global__ void k(float *a, {name} n)\n"
            f"{{ {name} i = threadIdx.x; a[i * n] = 0; }}\n"
        )
        (first, *_) = accesses(parse_tree(text), parse(text, "k.cu").kernels[0], (256, 1, 1))
        assert (first.index is not None) is known, name
