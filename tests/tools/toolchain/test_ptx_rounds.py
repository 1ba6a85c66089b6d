# SPDX-License-Identifier: Apache-2.0
"""An instantiation that the program does not launch is not rounded more than it was, by what nvcc makes of it."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_rounds import rounds_in, rounds_unseen

pytestmark = pytest.mark.compiler

KERNEL = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
template <class T> __global__ void scale(const T* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = HELD(wide(in[i])) * wide(in[n - i - 1]);
}
template __global__ void scale<float>(const float*, float*, int);
template __global__ void scale<__half>(const __half*, float*, int);
template <class T> __global__ void other(const T* in, float* out) { out[threadIdx.x] = ALSO(wide(in[threadIdx.x])); }
template __global__ void other<float>(const float*, float*);
"""
HALF = "__half2float(__float2half(x))"


@pytest.fixture(scope="module")
def compiled() -> dict[str, str]:
    found = {}
    for name, held, also in (("as it is", "x", "x"), ("halves", HALF, "x"), ("elsewhere", "x", HALF)):
        macros = (
            f"#define {what}(y) [](float x) {{ return {of}; }}(y)\n"
            for what, of in (("HELD", held), ("ALSO", also))
        )
        text = "".join(macros) + KERNEL
        found[name] = nvcc_made("k.ptx", text, "-arch=sm_90", "-std=c++17", "-ptx").read_text()
    return found


def test_another_instantiation_is_not_rounded_to_halves(compiled: dict[str, str]) -> None:
    was, now = rounds_in(compiled["as it is"]), rounds_in(compiled["halves"])
    halves, floats = (next(name for name in was if f"scale<{of}>" in name) for of in ("__half", "float"))
    assert "rounds to half in" in rounds_unseen(was, now, halves) and "float" in rounds_unseen(
        was, now, halves
    )
    # where the instantiation that is compared is rounded too, its results tell
    assert rounds_unseen(was, now, floats) == ""
    assert rounds_unseen(was, was, halves) == "" == rounds_unseen(now, was, halves)


def test_other_kernels_are_judged_by_themselves(compiled: dict[str, str]) -> None:
    was, now = rounds_in(compiled["as it is"]), rounds_in(compiled["elsewhere"])
    assert all(rounds_unseen(was, now, name) == "" for name in was)


DOUBLES = """
template <class T> __global__ void root(const T* in, T* out, float* kept) {
    const T found = HELD;
    out[threadIdx.x] = found;
    kept[threadIdx.x] = (float)found;
}
template __global__ void root<float>(const float*, float*, float*);
template __global__ void root<double>(const double*, double*, float*);
"""


def test_another_instantiation_in_double_is_not_worked_out_in_float() -> None:
    def made(held: str) -> str:
        text = DOUBLES.replace("HELD", held)
        return nvcc_made("k.ptx", text, "-arch=sm_90", "-std=c++17", "-ptx").read_text()

    was, now = (
        rounds_in(made(f"(T)1 / sqrt({held})")) for held in ("in[threadIdx.x]", "(float)in[threadIdx.x]")
    )
    (floats,) = (name for name in was if "root<float>" in name)
    assert "rounds to float in void root<double>" in rounds_unseen(was, now, floats)
    assert rounds_unseen(was, was, floats) == ""
