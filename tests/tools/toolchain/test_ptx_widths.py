# SPDX-License-Identifier: Apache-2.0
"""Offsets that are 32 bits wide where they were 64, seen in what nvcc makes of them."""

from __future__ import annotations

import time

import pytest
from tests.compiled import nvcc_made

from warplens.measure.build.wide import means_wide
from warplens_tools.text import SourceText
from warplens_tools.toolchain.ptx_widths import narrowed, widths_in

pytestmark = pytest.mark.compiler

#: One file for all: compiling is what takes time. Each kernel's twin has the name of the kernel and a number.
KERNELS = {
    "image": """
        const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        if (x < width && y < height) out[SIZE(y) * width + x] = in[SIZE(y) * width + x] + 1;""",
    "array": """
        const SIZE i = SIZE(blockIdx.x) * blockDim.x + threadIdx.x;
        if (i < n) out[i] = in[i] + 1;""",
    "strided": """
        const SIZE step = SIZE(gridDim.x) * blockDim.x;
        for (SIZE i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) out[i] = in[i];""",
    "rows": """
        const int row = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;
        for (SIZE j = offsets[row]; j < SIZE(offsets[row + 1]); ++j) sum += in[j];
        out[row] = sum;""",
    "tiled": """
        __shared__ float tile[32][33];
        for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] =
            in[size_t(blockIdx.y * 32 + threadIdx.y + j) * width + blockIdx.x * 32 + threadIdx.x];
        __syncthreads();
        const float* first = in + size_t(blockIdx.y) * 32 * width;
        out[size_t(blockIdx.x * 32 + threadIdx.y) * height + threadIdx.x] =
            tile[threadIdx.x][threadIdx.y] + first[threadIdx.y * width];""",
    "border": """
        __shared__ float tile[32 * 32];
        const int side = 16 + 2 * width;
        for (int t = threadIdx.x; t < side * side; t += 256)
            tile[t / side * 32 + t % side] = in[(t / side + blockIdx.x) * size_t(side) + SIZE(t % side)];
        __syncthreads();
        out[SIZE(blockIdx.x) * side + threadIdx.x] = tile[threadIdx.x];""",
    "groups": """
        const SIZE each = SIZE(blockDim.x) / width;
        float sum = 0;
        for (int i = threadIdx.x; i < height; i += int(each)) sum += in[(blockIdx.x + size_t(i)) * width];
        out[threadIdx.x] = sum;""",
    "modulo": """
        out[threadIdx.x] = in[size_t(blockIdx.x) * width + SIZE(threadIdx.x) % SIZE(width)];""",
}
#: The same with what a narrow twin says in place of a wide expression: rows of so many elements, products of loaded
#: numbers, 64-bit numbers by value, threads numbered by shifts.
REST = {
    "lines": (
        "size_t(rows[blockIdx.x]) * 96",
        "rows[blockIdx.x] * 96",
        "out[threadIdx.x] = in[IT + threadIdx.x];",
    ),
    "records": (
        "size_t(rows[blockIdx.x]) * 16",
        "rows[blockIdx.x] * 16",
        "out[threadIdx.x] = in[IT + threadIdx.x];",
    ),
    "amounts": (
        "(long long)rows[threadIdx.x] * rows[threadIdx.x + 32]",
        "rows[threadIdx.x] * rows[threadIdx.x + 32]",
        "sums[threadIdx.x] = IT;",
    ),
    "seeds": ("n", "unsigned(n)", "sums[threadIdx.x] = (IT * 6364136223846793005u) >> 7;"),
    "halves": ("n", "n", "sums[threadIdx.x] = unsigned(IT) ^ unsigned(n >> 32);"),
    "shifted": (
        "size_t(blockIdx.x) * blockDim.x + threadIdx.x",
        "(blockIdx.x << 8 | threadIdx.x)",
        "if (IT < n) out[IT] = in[IT];",
    ),
    "squares": (
        "double(i) * i",
        "i * i",
        "double all = 0; for (int i = threadIdx.x; i < width; i += blockDim.x) all += IT; out[threadIdx.x] = all;",
    ),
    "long_squares": (
        "Long(i) * i",
        "i * i",
        "Long all = 0; for (int i = threadIdx.x; i < width; i += blockDim.x) all += IT; sums[threadIdx.x] = all;",
    ),
    "squared_places": (
        "double(in[i]) * in[i]",
        "in[i] * in[i]",
        "double all = 0; for (int i = threadIdx.x; i < width; i += blockDim.x) all += IT; out[threadIdx.x] = all;",
    ),
    "blocks": (
        "size_t(blockIdx.x) * width + threadIdx.x",
        "size_t(blockIdx.x * 64 + threadIdx.x / 4) * width",
        "out[threadIdx.x] = in[IT];",
    ),
}
SAID = {
    "lines": "multiplies the numbers behind parameter 3 in 32 bits",
    "amounts": "multiplies the numbers behind parameter 3 in 32 bits",
    "seeds": "uses half of parameter 6",
    "shifted": "numbers threads in 32 bits",
    "squares": "squares what a loop counts in 32 bits",
    "long_squares": "squares what a loop counts in 32 bits",
}
WIDE = {"image": "size_t", "array": "size_t", "strided": "size_t", "rows": "long long", "tiled": "size_t"}
WIDE |= {"border": "size_t", "modulo": "size_t", "groups": "size_t"}


@pytest.fixture(scope="module")
def ptx() -> dict[str, str]:
    found = {}
    for name, size in (("wide", ""), ("narrow", "int")):
        bodies = [
            f"#undef SIZE\n#define SIZE {(size or WIDE[kernel]).replace('long long', 'Long')}\n"
            f'extern "C" __global__ void {kernel}(const float* in, float* out, const Long* offsets, int width,'
            f" int height, size_t n) {{{body}\n}}"
            for kernel, body in KERNELS.items()
        ]
        bodies += [
            f'extern "C" __global__ void {kernel}(const float* in, float* out, const int* rows, Long* sums, int width,'
            f" size_t n) {{ {body.replace('IT', '(' + both[name == 'narrow'] + ')')} }}"
            for kernel, (*both, body) in REST.items()
        ]
        text = "using Long = long long;\n" + "\n".join(bodies)
        found[name] = nvcc_made("k.ptx", text, "-arch=sm_90", "-std=c++17", "-ptx").read_text()
    return found


def only(ptx: str, kernel: str) -> str:
    start = ptx.index(f".visible .entry {kernel}(")
    end = ptx.find(".visible .entry", start + 1)
    return ptx[start : end if end > 0 else None]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("image", "multiplies parameter 4 in 32 bits"),
        ("array", "multiplies numbers of blocks in 32 bits"),
        ("strided", "in 32 bits"),
        ("rows", "halves of the 64-bit numbers behind parameter 3"),
        ("tiled", ""),
        ("border", "in 32 bits"),
        ("modulo", ""),
        ("groups", ""),
    ],
)
def test_narrow_offsets_are_seen(ptx: dict[str, str], kernel: str, said: str) -> None:
    wide, narrow = (widths_in(only(ptx[width], kernel)) for width in ("wide", "narrow"))
    found = narrowed(wide, narrow)
    assert said in found and bool(said) == bool(found), found
    assert not narrowed(narrow, wide) and not narrowed(wide, wide) and not narrowed(narrow, narrow)


@pytest.mark.parametrize("kernel", list(REST))
def test_numbers_that_are_narrow_otherwise_are_seen(ptx: dict[str, str], kernel: str) -> None:
    wide, narrow = (widths_in(only(ptx[width], kernel)) for width in ("wide", "narrow"))
    found, said = narrowed(wide, narrow), SAID.get(kernel, "")
    assert said in found and bool(said) == bool(found), found
    assert not narrowed(narrow, wide) and not narrowed(wide, wide) and not narrowed(narrow, narrow)


def test_products_of_24_bits_are_narrow(ptx: dict[str, str]) -> None:
    wide, narrow = only(ptx["wide"], "image"), only(ptx["narrow"], "image")
    quick = narrow.replace("mad.lo.s32", "mad24.lo.s32").replace("mul.lo.s32", "mul24.lo.s32")
    assert quick != narrow and "multiplies parameter 4 in 32 bits" in narrowed(
        widths_in(wide), widths_in(quick)
    )


def test_time_grows_with_the_sums_and_no_faster() -> None:
    def seconds(count: int) -> float:
        sums = "".join(f"add.s64 %rd{n + 1}, %rd{n}, %rd{n // 2};\n" for n in range(2, count))
        body = f"ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %ctaid.x;\ncvt.u64.u32 %rd2, %r1;\n{sums}"
        text = f".entry k(.param .u64 k_param_0) {{\n{body}ld.global.f32 %f1, [%rd{count}];\nret; }}"
        started = time.process_time()
        assert widths_in(text)["k"].wide == frozenset()
        return time.process_time() - started

    few = min(seconds(1000) for _ in range(3))
    assert min(seconds(8000) for _ in range(3)) < 24 * few


def test_the_source_says_whether_64_bits_are_meant() -> None:
    host = "int main() { size_t n = 3; return n; }"
    assert means_wide(SourceText("__global__ void k(float* a, size_t n) { a[n] = 1; }" + host))
    assert means_wide(
        SourceText("template <class T>\n__device__ T f(T* a, int n) { return a[long(n) * n]; }")
    )
    assert not means_wide(SourceText("__global__ void k(float* a, int n) { a[n] = 1; }" + host))
