# SPDX-License-Identifier: Apache-2.0
"""Element types behind pointer parameters."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.run.elements import (
    element_of,
    fields_of,
    integer_width,
    optional_names,
    pointer_parameters,
    probed_parameters,
    signature_types,
    stands_in,
    whole_bytes,
)
from warplens_tools.run.probe.job import JobField, JobParameter
from warplens_tools.run.variables import variable_parameters
from warplens_tools.text import SourceText


@pytest.mark.parametrize(
    ("other", "launched", "converted"),
    [
        ("void k<2>(float*, int)", "void k<1>(float*, int)", ()),
        ("void k<__half>(__half const*, float*)", "void k<float>(float const*, float*)", ((0, "f32"),)),
        ("void k<int>(int const*, int*)", "void k<float>(float const*, float*)", ()),
        ("void k<__half>(__half*, __half*)", "void k<double>(double*, double*)", ((0, "f64"), (1, "f64"))),
        # no room, no floats, numbers by value, numbers that belong together, another number of them
        ("void k<double>(double*)", "void k<float>(float*)", None),
        ("void k<float>(float*)", "void k<int>(int*)", None),
        ("void k<double>(float*, double)", "void k<float>(float*, float)", None),
        ("void k<float2>(float2*)", "void k<float4>(float4*)", None),
        ("void k<int>(int*, int)", "void k<float>(float*)", None),
    ],
)
def test_what_may_be_launched_in_anothers_place(
    other: str, launched: str, converted: tuple[tuple[int, str], ...] | None
) -> None:
    assert stands_in(other, launched) == converted


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("float const", "f32"),
        ("float4", "f32"),
        ("double2 const", "f64"),
        ("double4_16a", "f64"),
        ("__half", "f16"),
        ("__half2", "f16"),
        ("__nv_bfloat16", "bf16"),
        ("__nv_bfloat162", "bf16"),
        ("unsigned long long", "integer"),
        ("std::uint8_t", "integer"),
        ("int4", "integer"),
        ("bool", "integer"),
        ("cuda::std::complex<float> const", "f32"),
        ("thrust::complex<double>", "f64"),
        ("cuComplex", "f32"),
        ("cutlass::half_t", "f16"),
        ("c10::BFloat16", "bf16"),
        ("Particle", "other"),
        ("floaty", "other"),
        ("void", "other"),
    ],
)
def test_element_types(text: str, element: str) -> None:
    assert element_of(text) == element


def test_the_demangled_signature_counts() -> None:
    found = pointer_parameters("void ns::k<float, 4>(float const*, int, __half*, Map<int, float>*, float**)")
    assert found == (
        JobParameter(0, "f32", constant=True),
        JobParameter(2, "f16"),
        JobParameter(3, "other"),
        JobParameter(4, "f32", table=True),
    )


def test_without_a_signature_the_source_counts() -> None:
    text = 'extern "C" __global__ void k(const double* __restrict__ in, int n, float4 *out) {}\n'
    (kernel,) = parse(SourceText(text), "k.cu").kernels
    assert pointer_parameters("k", kernel.parameters) == (
        JobParameter(0, "f64", constant=True),
        JobParameter(2, "f32", whole=16),
    )


def test_signatures_with_function_types_and_templates() -> None:
    assert signature_types("k(int (*)(float, int), A<B<int>, C>)") == ["int (*)(float, int)", "A<B<int>, C>"]
    assert signature_types("k()") == []
    assert signature_types("k") is None


@pytest.mark.parametrize(
    ("text", "width"),
    [
        *(("int", 4), ("int4", 4), ("unsigned long long", 8), ("std::uint16_t", 2), ("char", 1), ("bool", 1)),
        *(("size_t", 8), ("unsigned short", 2), ("ulonglong2", 8), ("float", 0), ("Particle", 0)),
    ],
)
def test_integer_widths(text: str, width: int) -> None:
    assert integer_width(text) == width


STRUCTURES = """
using Count = int;
struct Point { float x, y; };
struct Particle { Point at; float4 more; double mass[2]; short kind; Count alias; float** rows; };
struct View { const float* field; const int* cell; float softening; int n; };
struct Wide { float values[300]; };
template <class T> struct Pair { T a, b; };
"""


def structure(name: str) -> tuple[tuple[int, str, int, bool], ...]:
    records = layouts_of(parse_tree(SourceText(STRUCTURES))).records
    return tuple((f.offset, f.element, f.width, f.pointer) for f in fields_of(records[name], records))


def test_the_fields_of_structures_are_those_that_the_source_defines() -> None:
    assert structure("Particle") == (
        (0, "f32", 0, False),
        (4, "f32", 0, False),
        *((16 + 4 * i, "f32", 0, False) for i in range(4)),
        (32, "f64", 0, False),
        (40, "f64", 0, False),
        (48, "integer", 2, False),
    )
    assert structure("View") == (
        (0, "f32", 0, True),
        (8, "integer", 4, True),
        (16, "f32", 0, False),
        (20, "integer", 4, False),
    )
    assert structure("Wide") == ()


@pytest.mark.parametrize(
    ("text", "whole"),
    [*(("float4", 16), ("double2", 16), ("__half2", 4), ("thrust::complex<float>", 8), ("int3", 12)),
     *(("float", 0), ("half", 0), ("unsigned long long", 0), ("double4_16a", 32), ("float1", 0))],
)  # fmt: skip
def test_the_numbers_of_a_vector_belong_together(text: str, whole: int) -> None:
    assert whole_bytes(text) == whole


BODIES = """
typedef struct { float x, y, z, vx, vy, vz; } Body;
struct __align__(16) Point { float x, y, z; };
struct Tagged { union { float f; int i; }; int kind; };
struct Packed { int a : 3; int b : 29; float c; };
struct Shape { virtual void draw(); float size; };
struct Place { float x, y, z; };
struct Atom : Place { int type; double mass; };
struct Loose { double x; char c; };
struct Tight : Loose { char d; };
struct Both : public Place, Cell { int e; };
struct Seen : Shape { int e; };
struct Half { __half2 a, b; };
struct Cell { float value; int count; };
__device__ float total; __constant__ Body sun[3]; static __device__ unsigned long long seen, *where;
namespace inner { __managed__ Cell cells[4]; __device__ float4 mean = {1, 2, 3, 4}; }
"""


def test_a_structure_of_floats_is_floats() -> None:
    records = layouts_of(parse_tree(SourceText(BODIES))).records
    assert set(records) == {"Body", "Point", "Half", "Cell", "Place", "Atom", "Loose"}
    atom = [(m.name, m.offset) for m in records["Atom"].members]
    assert atom == [("x", 0), ("y", 4), ("z", 8), ("type", 12), ("mass", 16)] and records["Atom"].size == 24
    bodies, points, halves, cells = pointer_parameters("k(Body*, Point*, Half*, Cell*)", (), records)
    assert bodies == JobParameter(0, "f32", whole=24)
    assert (points.element, points.size, len(points.fields), points.whole) == ("other", 16, 3, 16)
    assert halves == JobParameter(2, "f16", whole=8)
    assert cells.fields == (JobField(0, "f32"), JobField(4, "integer", 4))


def test_variables_hold_what_they_are_declared_as() -> None:
    tree = parse_tree(SourceText(BODIES))
    names = ["total", "sun", "_ZL4seen", "_ZL5where", "_ZN5inner5cellsE", "_ZN5inner4meanE", "unknown"]
    held = variable_parameters([tree], names, layouts_of(tree).records)
    assert held["total"] == JobParameter(-1, "f32")
    assert held["sun"] == JobParameter(-1, "f32", whole=24)
    assert held["_ZL4seen"] == JobParameter(-1, "integer", width=8)
    assert len(held["_ZN5inner5cellsE"].fields) == 2
    assert held["_ZN5inner4meanE"].whole == 16
    assert set(names) - set(held) == {"_ZL5where", "unknown"}


def test_structures_and_integers_passed_by_value_are_varied() -> None:
    records = layouts_of(parse_tree(SourceText(STRUCTURES))).records
    particles, view, many = probed_parameters(
        "k(Particle const*, View, unsigned long, Wide, Pair<int>)", (), records
    )
    assert (particles.index, particles.element, particles.size, particles.constant) == (0, "other", 64, True)
    assert len(particles.fields) == 9
    assert (view.index, view.scalar, view.size) == (1, True, 24)
    assert view.fields[1] == JobField(8, "integer", 4, pointer=True)
    assert many == JobParameter(2, "integer", scalar=True, width=8)


def test_floats_passed_by_value_are_varied() -> None:
    assert probed_parameters("k(int const*, float, double, int, __half)") == (
        JobParameter(0, "integer", constant=True, width=4),
        JobParameter(1, "f32", scalar=True),
        JobParameter(2, "f64", scalar=True),
        JobParameter(3, "integer", scalar=True, width=4),
        JobParameter(4, "f16", scalar=True),
    )


def test_pointers_that_the_source_asks_for_may_be_null() -> None:
    text = "if (!mask || mask[i]) x += gain ? gain[i] : 1; if (bias) y += bias[j]; if (left != nullptr && n) z();"
    assert optional_names(text) >= {"mask", "gain", "bias", "left"}
    assert not optional_names("y[i] = a[i] * b[i];") & {"a", "b", "y"}


def test_vectors_halves_and_unknown_types_by_value() -> None:
    found = {p.index: p for p in probed_parameters("k(int3, float4, __half, Mode, float2 const*)")}
    assert [f.offset for f in found[0].fields] == [0, 4, 8] and found[0].fields[0].width == 4
    assert (found[1].size, {f.element for f in found[1].fields}) == (16, {"f32"})
    assert found[2] == JobParameter(2, "f16", scalar=True)
    # what nobody knows is told by its contents
    assert set(found) == {0, 1, 2, 4} and not found[4].scalar
