# SPDX-License-Identifier: Apache-2.0
"""Which kernels an edit changes, told from real cubins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiled import nvcc_made

from warplens_tools.errors import InputError
from warplens_tools.toolchain.functions import Changes, changes

CODE = """
__device__ int table[4] = {1, 2, 3, 4};
__device__ int sums[4];
__constant__ float first[4] = {1, 2, 3, 4};
__constant__ float second[4] = {5, 6, 7, 8};
__device__ __noinline__ float helper(float x) { return x * 3 + first[0]; }
template <int B> __global__ void scale(float* x) { x[threadIdx.x] *= B; }
__global__ void calls(float* x) { x[threadIdx.x] = helper(x[threadIdx.x]); }
__global__ void reads(float* x) { x[threadIdx.x] += table[threadIdx.x & 3] + sums[1] + second[1]; }
namespace { __global__ void hidden(float* x) { x[threadIdx.x] += 1; } }
int main() {
    scale<1><<<1, 32>>>(nullptr);
    scale<2><<<1, 32>>>(nullptr);
    calls<<<1, 32>>>(nullptr);
    reads<<<1, 32>>>(nullptr);
    hidden<<<1, 32>>>(nullptr);
}
"""
BARE = ("-D__CUDA_RUNTIME_H__", "-include", str(Path(__file__).parent / "bare.cuh"))
Compile = Callable[[str], bytes]
CALLS, READS = "calls(float*)", "reads(float*)"
SCALES = {"void scale<1>(float*)", "void scale<2>(float*)"}


@pytest.fixture(scope="module", params=["whole", "relocatable"])
def compiled(request: pytest.FixtureRequest) -> Compile:
    mode = [*BARE, *(["-rdc=true"] if request.param == "relocatable" else [])]

    def compile_(text: str) -> bytes:
        return nvcc_made("k.cubin", text, "-arch=sm_90", "-lineinfo", "-cubin", *mode).read_bytes()

    return compile_


def changed(compiled: Compile, old: str, new: str) -> Changes:
    assert old in CODE
    return changes(compiled(CODE), compiled(CODE.replace(old, new)))


pytestmark = pytest.mark.compiler


def test_a_comment_a_line_and_a_file_of_another_name_change_nothing(compiled: Compile) -> None:
    found = changed(compiled, "template <int B>", "\n// a comment\n\ntemplate <int B>")
    assert (found.entries, found.removed, found.variables) == ({}, (), ())


def test_one_kernel_alone(compiled: Compile) -> None:
    found = changed(compiled, "+= table", "-= table")
    assert set(found.entries) == {READS}


def test_every_instantiation(compiled: Compile) -> None:
    found = changed(compiled, "*= B", "*= B + 1")
    assert set(found.entries) == SCALES
    assert "scaleILi1EE" in found.entries["void scale<1>(float*)"]
    found = changed(compiled, "*= B", "*= B == 2 ? 5 : B")
    assert set(found.entries) == {"void scale<2>(float*)"}


def test_a_function_changes_its_callers(compiled: Compile) -> None:
    assert set(changed(compiled, "x * 3", "x * 4").entries) == {CALLS}


def test_launch_bounds_and_names_local_to_the_unit(compiled: Compile) -> None:
    found = changed(compiled, "__global__ void calls", "__global__ void __launch_bounds__(32) calls")
    assert set(found.entries) == {CALLS}
    found = changed(compiled, "+= 1;", "+= 2;")
    assert {name.rsplit("::", 1)[-1] for name in found.entries} == {"hidden(float*)"}


def test_a_constant_added_leaves_the_others_as_they_are(compiled: Compile) -> None:
    found = changed(
        compiled,
        "template <int B> __global__ void scale(float* x) { x[threadIdx.x] *= B; }",
        "__constant__ float zlast[2] = {3, 4};\n"
        "template <int B> __global__ void scale(float* x) { x[threadIdx.x] *= B * zlast[threadIdx.x & 1]; }",
    )
    assert set(found.entries) >= SCALES and "calls" not in str(found.variables)
    assert found.variables == ()


def test_another_first_value_is_a_change(compiled: Compile) -> None:
    assert changed(
        compiled, "{1, 2, 3, 4};\n__device__ int sums", "{1, 2, 3, 5};\n__device__ int sums"
    ).variables == ("table",)
    assert changed(compiled, "second[4] = {5", "second[4] = {9").variables == ("second",)
    assert changed(compiled, "sums[4];", "sums[4] = {1};").variables == ("sums",)


def test_variables_that_trade_places_change_whoever_reads_them(compiled: Compile) -> None:
    swapped = (
        CODE.replace(" first[4]", " other[4]")
        .replace(" second[4]", " first[4]")
        .replace(" other[4]", " second[4]")
    )
    found = changes(compiled(CODE), compiled(swapped))
    assert {CALLS, READS} <= set(found.entries) or set(found.variables) == {"first", "second"}


def test_a_kernel_taken_away_is_named(compiled: Compile) -> None:
    found = changed(compiled, "    scale<2><<<1, 32>>>(nullptr);\n", "")
    assert found.removed == ("void scale<2>(float*)",)


@given(st.binary(max_size=200))
def test_what_is_no_cubin_is_said(data: bytes) -> None:
    with pytest.raises(InputError):
        changes(data, data)
