# SPDX-License-Identifier: Apache-2.0
"""Array accesses of kernels: name, space, use, index, loops."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses, escaping
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree
from warplens_tools.cuda.values.forms import describe
from warplens_tools.text import SourceText

PRELUDE = """
#define TILE 32
#define AT(r, c) ((r) * n + (c))
#define EACH(i, n) for (int i = 0; i < (n); ++i)
#define OUT(i) out[i]
struct P { float x, y; };
struct Args { float* data; int n; };
__device__ float weight(float x) { return x; }
__device__ void swap_in(float& x, const float& y) { x = y; }
__constant__ float table[16];
"""
SIGNATURE = (
    "__global__ void k(float* __restrict__ out, const float* in, P* p, float4* v, Args args, int n, int m)"
)


def read(body: str) -> tuple[SourceTree, Kernel, SourceText]:
    text = SourceText(f"{PRELUDE}{SIGNATURE} {{\n{body}\n}}\n")
    tree = parse_tree(text)
    return tree, model_of(tree, "k.cu").kernels[0], text


def found(
    body: str, block: tuple[int | None, int | None, int | None] = (None, None, None)
) -> list[ArrayAccess]:
    tree, kernel, text = read(body)
    result = list(accesses(tree, kernel, block))
    for access in result:
        assert kernel.body.contains(access.span)
        assert text.slice(access.span)
    return result


def use(access: ArrayAccess) -> str:
    return "r" * access.reads + "w" * access.writes + "a" * access.atomic


ONE: dict[str, tuple[str, str, str, str, str | None]] = {
    "out[threadIdx.x] = 1;": ("out", "global", "float", "w", "threadIdx.x"),
    "out[AT(threadIdx.y, threadIdx.x)] += 1;": ("out", "global", "float", "rw", "n * threadIdx.y + threadIdx.x"),
    "out[3]++;": ("out", "global", "float", "rw", "3"),
    "OUT(4) = 1;": ("out", "global", "float", "w", "4"),
    "atomicAdd(&out[m], 1.0f);": ("out", "global", "float", "rwa", "m"),
    "float x = in[n - 1];": ("in", "global", "float", "r", "-1 + n"),
    "float x = __ldg(&in[n]);": ("in", "global", "float", "r", "n"),
    "float x = __ldg(in + n);": ("in", "global", "float", "r", "n"),
    "float4 x = __ldcs(v + threadIdx.x);": ("v", "global", "float4", "r", "threadIdx.x"),
    "__stcs(&out[n], 1.0f);": ("out", "global", "float", "w", "n"),
    "__stcg(out + n, 1.0f);": ("out", "global", "float", "w", "n"),
    "float x = *in;": ("in", "global", "float", "r", "0"),
    "float x = *(in + 4 * threadIdx.x);": ("in", "global", "float", "r", "4 * threadIdx.x"),
    "float x = (in + n)[2];": ("in", "global", "float", "r", "2 + n"),
    "const float* row = in + threadIdx.y * n; float x = row[m];": ("in", "global", "float", "r", "m + n * threadIdx.y"),
    "const float* row = &in[n]; auto cell = row + 1; float x = *cell;": ("in", "global", "float", "r", "1 + n"),
    "float* q = out; q += n; q[1] = 2;": ("out", "global", "float", "w", "1 + n"),
    "out += n; out[1] = 2;": ("out", "global", "float", "w", "1 + n"),
    "if (n) out += n; out[1] = 2;": ("out", "global", "float", "w", None),
    "float* q = out; if (n) q += n; q[1] = 2;": ("out", "global", "float", "w", None),
    "float* q = out; *q++ = 2;": ("out", "global", "float", "w", None),
    "float4 x = reinterpret_cast<const float4*>(in)[threadIdx.x];": ("in", "global", "float4", "r", "threadIdx.x"),
    "float4 x = ((const float4*)(in + 8))[1];": ("in", "global", "float4", "r", "3"),
    "float4 x = ((const float4*)(in + n))[1];": ("in", "global", "float4", "r", None),
    "float x = ((float*)v)[n];": ("v", "global", "float", "r", "n"),
    "p[n].x = 2;": ("p", "global", "P", "w", "n"),
    "p->y += 2;": ("p", "global", "P", "rw", "0"),
    "float x = v[m].w;": ("v", "global", "float4", "r", "m"),
    "args.data[n] = 1;": ("args.data", "global", "float", "w", "n"),
    "args.data = out; args.data[n] = 1;": ("args.data", "unknown", "", "w", None),
    "out[args.n] = 1;": ("out", "global", "float", "w", "args.n"),
    "float x = table[n];": ("table", "constant", "float", "r", "n"),
    "out[0] = weight(2);": ("out", "global", "float", "w", "0"),
    "swap_in(out[1], 2);": ("out", "global", "float", "rw", "1"),
    "swap_in(args.n, out[1]);": ("out", "global", "float", "r", "1"),
    "float& r = out[2]; r = 1;": ("out", "global", "float", "rw", "2"),
    "const float& r = out[2];": ("out", "global", "float", "r", "2"),
    "int i = 2; { int i = threadIdx.x; out[i] = 0; }": ("out", "global", "float", "w", "threadIdx.x"),
    "int i = 2; { int i = threadIdx.x; } out[i] = 0;": ("out", "global", "float", "w", None),
    "out[static_cast<int>(threadIdx.x) + (int)blockIdx.x] = 0;": (
        "out", "global", "float", "w", "blockIdx.x + threadIdx.x",
    ),
    "out[(size_t)(n + 1) * m + (int64_t)(2)] = 0;": ("out", "global", "float", "w", "2 + m + m * n"),
    "out[min(n, 4)] = 0;": ("out", "global", "float", "w", "(n min 4)"),
}  # fmt: skip


@pytest.mark.parametrize("body", ONE)
def test_one_access(body: str) -> None:
    (access,) = found(body)
    index = describe(access.index) if access.index is not None else None
    assert (access.name, access.space, access.element_type, use(access), index) == ONE[body]


def test_shared_tiles_are_flattened() -> None:
    store, load, row = found("""
  __shared__ float tile[TILE][TILE + 1];
  tile[threadIdx.y][threadIdx.x] = 0;
  float x = tile[threadIdx.x][threadIdx.y];
  float* r = tile[2]; r[threadIdx.x] = 1;""")
    assert store.space == "shared"
    assert store.indices == ("threadIdx.y", "threadIdx.x")
    assert store.index is not None
    assert load.index is not None
    assert row.index is not None
    assert (store.index.coefficient("threadIdx.x"), store.index.coefficient("threadIdx.y")) == (1, 33)
    assert (load.index.coefficient("threadIdx.x"), load.index.coefficient("threadIdx.y")) == (33, 1)
    assert describe(row.index) == "66 + threadIdx.x"


def test_the_block_size_becomes_a_number() -> None:
    (access,) = found("out[blockIdx.x * blockDim.x + threadIdx.x] = 0;", (256, 1, 1))
    assert access.index is not None
    assert access.index.coefficient("blockIdx.x") == 256


def test_a_grid_stride_loop_keeps_its_dependence_on_the_thread() -> None:
    (access,) = found(
        "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = 0;"
    )
    assert access.index is not None
    (loop,) = access.loops
    assert access.index.coefficient("threadIdx.x") == 1
    assert access.index.coefficient(loop.counter) is None
    assert (loop.variable, loop.comparison, loop.trips) == ("i", "<", None)
    assert loop.bound is not None and loop.bound.coefficient("n") == 1


def test_loops_are_listed_outermost_first() -> None:
    (access,) = found(
        "for (int i = 0; i < n; ++i) { while (m) EACH(j, 8) { if (j > 2) out[i * 8 + j] = 0; } }"
    )
    assert [loop.variable for loop in access.loops] == ["i", "", "j"]
    assert [loop.trips for loop in access.loops] == [None, None, 8]
    assert access.conditional
    assert access.index is not None
    assert [access.index.coefficient(loop.counter) for loop in access.loops if loop.counter] == [8, 1]


TRIPS = {
    "int i = 0; i < 10; i++": 10,
    "int i = 0; i <= 10; i += 3": 4,
    "int i = 9; i >= 0; --i": 10,
    "int i = TILE; i > 0; i -= 8": 4,
    "int i = 5; i < 2; ++i": 0,
    "int i = 0; 10 > i; ++i": 10,
    "int i = 1; i < 64; i *= 2": None,
    "int i = threadIdx.x; i < 64; i += 32": None,
    "int i = 0, j = 1; i < 64; ++i": None,
}


@pytest.mark.parametrize("header", TRIPS)
def test_trip_counts(header: str) -> None:
    (access,) = found(f"for ({header}) out[0] = i;")
    assert access.loops[0].trips == TRIPS[header]


def test_a_halving_loop_keeps_the_thread_coefficient() -> None:
    store, load = found(
        "for (int s = blockDim.x / 2; s > 0; s >>= 1) out[threadIdx.x] += in[threadIdx.x + s];"
    )
    assert load.index is not None
    assert load.index.coefficient("threadIdx.x") == 1
    assert store.writes


def test_a_variable_that_the_body_changes_is_unknown() -> None:
    assert found("for (int i = 0; i < n; ++i) { if (m) ++i; out[i] = 0; }")[0].index is None
    assert found("int i; for (i = 0; i < n; ++i) {} out[i] = 0;")[0].index is None
    assert found("int i; for (i = 0; i < n; ++i) { out[i] = 0; }")[0].index is not None


def test_conditions_do_not_count_as_conditional() -> None:
    first, second = found("if (in[0] > 0 && in[1] > 0) {}")
    assert (first.conditional, second.conditional) == (False, True)


def test_an_undecided_if_is_conditional() -> None:
    (access,) = found("#ifdef FAST\nout[0] = 1;\n#endif")
    assert access.conditional


def test_a_macro_access_stands_where_the_macro_is_used() -> None:
    tree, kernel, text = read("\n  OUT(2) = in[AT(1, 0)];")
    store, load = accesses(tree, kernel)
    assert text.slice(store.span) == "OUT(2)"
    assert text.slice(load.span) == "in[AT(1, 0)]"


def test_a_kernel_written_by_a_macro_has_accesses() -> None:
    text = SourceText(
        "#define DEF(name, T) __global__ void name(T* a) { a[threadIdx.x * 2] = 1; }\nDEF(k, double)\n"
    )
    tree = parse_tree(text)
    kernel = model_of(tree, "k.cu").kernels[0]
    (access,) = accesses(tree, kernel)
    assert (access.name, access.element_type, text.slice(access.span)) == ("a", "double", "DEF(k, double)")


def test_escaping_arrays() -> None:
    tree, kernel, _ = read("""
  __shared__ float tile[4][4], other[4];
  load(tile[0], in + n); atomicAdd(&out[0], 1); other[0] = 2;""")
    assert escaping(tree, kernel) == ("tile", "in")


RECORDS = """
struct Row { float weight; int cells[16]; float grid[4][4]; float *more; };
struct Table { Row row; int count; };
__global__ void k(Row *a, Table *t, Row own, int n)
{
    int i = threadIdx.x;
"""


@pytest.mark.parametrize(
    ("text", "kind", "element", "index"),
    [
        ("a[n].cells[i]", "global", "int", "1 + 36 * n + threadIdx.x"),
        ("a->cells[i + 1]", "global", "int", "2 + threadIdx.x"),
        ("(*a).cells[3]", "global", "int", "4"),
        ("(a + n)->cells[i]", "global", "int", "1 + 36 * n + threadIdx.x"),
        ("t[n].row.cells[i]", "global", "int", "1 + 38 * n + threadIdx.x"),
        ("t->row.cells[i]", "global", "int", "1 + threadIdx.x"),
        ("a[n].grid[1][i]", "unknown", "", None),
        ("own.cells[i]", "unknown", "", None),
    ],
)
def test_an_array_in_a_record_is_indexed_from_the_record(
    text: str, kind: str, element: str, index: str | None
) -> None:
    tree = parse_tree(SourceText(f"{RECORDS} int x = {text}; }}"))
    (access,) = accesses(tree, model_of(tree, "k.cu").kernels[0])
    assert (access.space, access.element_type) == (kind, element)
    assert (describe(access.index) if access.index else None) == index


@pytest.mark.parametrize("written", ["torch::PackedTensorAccessor32", "const at::PackedTensorAccessor64"])
def test_accessors_of_tensors_are_arrays_of_their_sizes(written: str) -> None:
    body = "int i = threadIdx.x; auto row = t[blockIdx.x][i]; row[2] = t[0][i][1] + t.size(2);"
    text = SourceText(
        f"__global__ void k({written}<float, 3, torch::RestrictPtrTraits> t, int n) {{ {body} }}\n"
    )
    tree = parse_tree(text)
    stored, loaded = accesses(tree, model_of(tree, "k.cu").kernels[0])
    assert (use(stored), use(loaded)) == ("w", "r")
    assert {(a.name, a.space, a.element_type) for a in (stored, loaded)} == {("t", "global", "float")}
    assert stored.index is not None
    assert loaded.index is not None
    assert describe(stored.index) == "2 + blockIdx.x * t.size(1) * t.size(2) + t.size(2) * threadIdx.x"
    assert describe(loaded.index) == "1 + t.size(2) * threadIdx.x"


def test_rows_of_images_are_a_step_apart() -> None:
    body = "int x = threadIdx.x; dst.ptr(blockIdx.y)[x] = src.ptr(2 * blockIdx.y)[2 * x];"
    parameters = "const PtrStepSz<unsigned char> src, cv::cuda::PtrStep<float> dst"
    text = SourceText(f"__global__ void k({parameters}) {{ {body} }}\n")
    tree = parse_tree(text)
    stored, loaded = accesses(tree, model_of(tree, "k.cu").kernels[0])
    assert (use(stored), stored.name, stored.element_type) == ("w", "dst", "float")
    assert (use(loaded), loaded.name, loaded.element_type) == ("r", "src", "unsigned char")
    assert stored.index is not None
    assert loaded.index is not None
    assert describe(stored.index) == "blockIdx.y * dst.step + threadIdx.x"
    assert describe(loaded.index) == "2 * blockIdx.y * src.step + 2 * threadIdx.x"


def test_rows_are_a_pitch_in_bytes_apart() -> None:
    body = "float* row = (float*)((char*)data + blockIdx.y * pitch); row[threadIdx.x] = row[threadIdx.x + 1];"
    text = SourceText(f"__global__ void k(float* data, size_t pitch) {{ {body} }}\n")
    tree = parse_tree(text)
    stored, loaded = accesses(tree, model_of(tree, "k.cu").kernels[0])
    assert (stored.name, stored.space, stored.element_type) == ("data", "global", "float")
    assert stored.index is not None and loaded.index is not None
    assert describe(stored.index) == "blockIdx.y * pitch / 4 + threadIdx.x"
    assert describe(loaded.index) == "1 + blockIdx.y * pitch / 4 + threadIdx.x"


@pytest.mark.parametrize(
    ("index", "name"),
    [("blockIdx.z", "As[blockIdx.z]"), ("n", "As[n]"), ("threadIdx.x", "a"), ("in[0]", "a")],
)
def test_each_block_has_an_array_of_a_table_of_them(index: str, name: str) -> None:
    body = f"const float* a = As[{index}]; out[threadIdx.x] = a[2 * threadIdx.x + 1];"
    text = SourceText(
        f"__global__ void k(const float* const* __restrict__ As, const int* in, float* out, int n) {{ {body} }}\n"
    )
    tree = parse_tree(text)
    found = [a for a in accesses(tree, model_of(tree, "k.cu").kernels[0]) if a.name == name]
    assert len(found) == 1
    (one,) = found
    index_of = describe(one.index) if one.index is not None else None
    known = name != "a"
    assert (one.space, index_of) == (("global", "1 + 2 * threadIdx.x") if known else ("unknown", None))


@pytest.mark.parametrize("real", ["float", "REAL"])
def test_arrays_of_the_file_are_known_where_a_macro_is_in_the_kernel(real: str) -> None:
    """The kernel then has a tree of its own, in which the file's declarations do not stand."""
    source = (
        "#define REAL float\n__constant__ float table[64];\n__device__ int count[8];\n"
        f"__global__ void k({real} *o) {{ o[threadIdx.x] = table[threadIdx.y] + count[0]; }}\n"
    )
    tree = parse_tree(SourceText(source))
    found = accesses(tree, model_of(tree, "k.cu").kernels[0])
    assert [(a.name, a.space) for a in found] == [("o", "global"), ("table", "constant"), ("count", "global")]
    assert [getattr(a.declared, "sizes", None) for a in found[1:]] == [(64,), (8,)]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("int i = threadIdx.x; const float* q; q = in + n; out[i] = q[i];", ("in", "n + threadIdx.x")),
        ("int i = threadIdx.x; const float* q; q = out; q = in + i; out[i] = *q;", ("in", "threadIdx.x")),
        ("int i = threadIdx.x; const float* q; if (n) q = in; else q = out; out[i] = q[i];", ("q", "")),
    ],
)
def test_a_pointer_that_is_set_after_its_declaration_is_followed(body: str, place: tuple[str, str]) -> None:
    read_place = next(a for a in found(body) if a.reads)
    assert (read_place.name, describe(read_place.index) if read_place.index is not None else "") == place
