# SPDX-License-Identifier: Apache-2.0
"""State that a candidate reads and its baseline does not, by the PTX that nvcc makes of both."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_state import reads_new_state

PLAIN = "out[threadIdx.x + blockIdx.x * blockDim.x] = in[threadIdx.x] * gridDim.x;"


def ptx(body: str, before: str = "") -> str:
    text = (
        f"#include <cstdio>\n#include <cassert>\n{before}\n"
        f"__global__ void k(float* out, const float* in) {{ {body} }}\n"
    )
    # without the headers of mathematics, which no kernel here calls: half of what a small unit takes
    return nvcc_made("k.ptx", text, "-ptx", "-arch=sm_90", "-D__MATH_FUNCTIONS_H__").read_text()


@pytest.fixture(scope="module")
def baseline() -> str:
    return ptx(PLAIN)


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (PLAIN, ""),
        ("out[0] = __popc(__activemask()) + warpSize + (threadIdx.x & 31);", ""),
        ("extern __shared__ float s[]; s[threadIdx.x] = in[0]; __syncthreads(); out[0] = s[31];", ""),
        (
            'unsigned v; asm("{ .reg .u32 %%mine, b; mov.u32 %%mine, %%laneid; mov.u32 %0, %%mine; }" : "=r"(v)); '
            "out[0] = v;",
            "",
        ),
        ("out[0] = clock64();", "the special register %clock64"),
        (
            'unsigned long long v; asm("mov.u64 %0, %%gridid;" : "=l"(v)); out[0] = v;',
            "the special register %gridid",
        ),
        (
            'unsigned v; asm("mov.u32 %0, %%" /**/ "envreg3;" : "=r"(v)); out[0] = v;',
            "the special register %envreg3",
        ),
        (
            'unsigned long long v; asm("{ .reg .b32 %%clock<3>; mov.u32 %%clock1, 0; } mov.u64 %0, %%clock64;" '
            ': "=l"(v)); out[0] = v;',
            "the special register %clock",
        ),
        (
            'unsigned v; asm("{ .reg .b32 %%mine<3>; mov.u32 %%mine2, 7; mov.u32 %0, %%mine2; }" : "=r"(v)); '
            "out[0] = v;",
            "",
        ),
        ('unsigned v; asm("mov.u32 %0, %%smid;" : "=r"(v)); out[0] = v;', "the special register %smid"),
        ('printf("%f", in[0]);', "printf, which writes the device's print buffer"),
        ("out[0] = malloc(8) != nullptr;", "the device's heap (malloc)"),
        ("assert(in[0] > 0);", "assert, which stops the device"),
    ],
)
def test_what_is_read_anew_is_named(baseline: str, body: str, said: str) -> None:
    assert reads_new_state(baseline, ptx(body)) == said


SIBLING = "__global__ void sibling(long long* out) { out[0] = clock64(); }\n"
READER = "__device__ __noinline__ long long read(int i) { return i + clock64(); }\n"
TABLE = READER + "__device__ long long (*const table[2])(int) = {read, read};\n"


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("before", "body", "said"),
    [
        (SIBLING, PLAIN, ""),
        (SIBLING, "out[0] = clock64();", "the special register %clock64"),
        (READER + SIBLING, "out[0] = read(threadIdx.x);", "the special register %clock64"),
        (TABLE + SIBLING, "out[0] = table[threadIdx.x % 2](3);", "the special register %clock64"),
        (
            SIBLING,
            'asm(".pragma \\"/*\\";"); out[0] = clock64(); asm(".pragma \\"*/\\";");',
            "the special register %clock64",
        ),
    ],
)
def test_what_a_sibling_reads_the_kernel_may_not(before: str, body: str, said: str) -> None:
    baseline = ptx(PLAIN, SIBLING)
    assert reads_new_state(baseline, ptx(body, before)) == said


@pytest.mark.compiler
def test_another_instantiation_may_what_the_first_did() -> None:
    def kernel(size: int, body: str) -> str:
        template = f"template <int n> __global__ void t(float* out) {{ {body} }}\n"
        return ptx(PLAIN, f"{template}template __global__ void t<{size}>(float*);\n")

    prints = kernel(1, 'printf("%d", n);')
    assert reads_new_state(prints, kernel(2, 'printf("%d", n);')) == ""
    assert "clock" in reads_new_state(prints, kernel(2, "out[0] = clock64();"))


@pytest.mark.compiler
def test_what_the_baseline_reads_the_candidate_may() -> None:
    prints = ptx('printf("%f %lld", in[0], clock64());')
    assert reads_new_state(prints, ptx('printf("%f", in[1]); out[0] = clock64();')) == ""
    timer = 'unsigned long long v; asm("mov.u64 %0, %%globaltimer;" : "=l"(v)); out[0] = v;'
    assert reads_new_state(prints, ptx(timer)) == "the special register %globaltimer"
