# SPDX-License-Identifier: Apache-2.0
"""What an edit takes for granted that the program leaves to the run."""

from __future__ import annotations

import pytest

from warplens.measure.build.general import why_not_general
from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.toolchain.ptx_between import between_in
from warplens_tools.toolchain.ptx_vectors import accesses_of, axes_of
from warplens_tools.tunable.left_open import any_block, open_axes
from warplens_tools.tunable.placed import placed
from warplens_tools.tunable.source import File

HOST = """
int main(int argc, char** argv) {
    const int n = atoi(argv[1]), batch = argc > 2 ? atoi(argv[2]) : 1, first = argc > 3 ? atoi(argv[3]) : 0;
    const int threads = argc > 4 ? atoi(argv[4]) : 128;
    float *x, *y;
    cudaMalloc(&x, n * 4);
    cudaMalloc(&y, n * 4);
    const dim3 grid((n + 31) / 32, 8, batch);
    k<<<grid, threads>>>(x + first, y, n);
}
"""
KERNEL = "__global__ void k(const float* x, float* y, int n) { y[blockIdx.z * n + threadIdx.x] = x[threadIdx.x]; }\n"
PTX = """
.visible .entry _Z1kPKfPfi(
	.param .u64 _Z1kPKfPfi_param_0,
	.param .u64 _Z1kPKfPfi_param_1,
	.param .u32 _Z1kPKfPfi_param_2
)
{
	ld.param.u64 	%rd1, [_Z1kPKfPfi_param_0];
	ld.param.u64 	%rd2, [_Z1kPKfPfi_param_1];
	mov.u32 	%r1, %ctaid.z;
	ld.global.f32 	%f1, [%rd1];
	st.global.f32 	[%rd2], %f1;
}
"""
VECTORS = PTX.replace("ld.global.f32 	%f1,", "ld.global.v4.f32 	{%f1, %f2, %f3, %f4},")


UNREAD = PTX.replace("	ld.global.f32 	%f1, [%rd1];\n", "").replace(
    "	ld.param.u64 	%rd1, [_Z1kPKfPfi_param_0];\n", ""
)


def _file(text: str) -> File:
    source = SourceText(text)
    return File(source, parse(source, "k.cu"))


def test_what_launches_leave_to_the_run() -> None:
    file = _file(KERNEL + HOST)
    assert any_block(file, "k") == 2 and open_axes(file, "k") == {"z"} and placed(file, "k") == {0}
    fixed = _file(
        KERNEL + HOST.replace("threads>>>", "64>>>").replace("x + first", "x").replace("batch);", "1);")
    )
    rounded = _file(KERNEL + HOST.replace("atoi(argv[4])", "atoi(argv[4]) / 32 * 32"))
    assert any_block(rounded, "k") == 1
    assert not any_block(fixed, "k") and not open_axes(fixed, "k") and not placed(fixed, "k")
    assert not placed(file, "gone")


def test_how_much_is_read_at_once_and_who_asks_for_blocks() -> None:
    assert accesses_of(PTX, "_Z1kPKfPfi").widest == {0: 4, 1: 4}
    assert accesses_of(VECTORS, "_Z1kPKfPfi").widest == {0: 16, 1: 4}
    asked = VECTORS.replace("mov.u32", "and.b64 	%rd9, %rd1, 15;\n	mov.u32")
    assert accesses_of(asked, "_Z1kPKfPfi").guarded == {0}
    assert axes_of(PTX, "_Z1kPKfPfi") == {"z"}


class _Kernel:
    mangled, qualified_name = "_Z1kPKfPfi", "k"


class _Unit:
    """A unit of one kernel, as far as its PTX."""

    def __init__(self, ptx: str) -> None:
        self.ptx, self.evidence = ptx, self
        self.kernels = (_Kernel(),)
        self.between = between_in(ptx)


@pytest.mark.parametrize(
    ("ptx", "why"),
    [
        (PTX, ""),
        (VECTORS, "16 bytes at once behind parameter 1 of k, the kernel 4"),
        (VECTORS.replace("mov.u32", "and.b64 	%rd9, %rd1, 15;\n	mov.u32"), ""),
        (PTX.replace("%ctaid.z", "%tid.z"), "does not ask for blockIdx.z"),
        (UNREAD, "never reads what lies behind parameter 1 of k"),
    ],
)
def test_planes_and_places_that_a_run_chooses(ptx: str, why: str) -> None:
    file = _file(KERNEL + HOST)
    said = why_not_general(file, file, _Unit(PTX), _Unit(ptx))  # type: ignore[arg-type]
    assert why in said and bool(said) == bool(why)


TYPED = """
template <typename T> __global__ void k(T* x) { x[threadIdx.x] += T(1); }
int main() { k<float><<<1, 32>>>(nullptr); k<double><<<1, 32>>>(nullptr); }
"""
BY_SIZE = TYPED.replace("+= T(1)", "+= sizeof(T) == 4 ? T(1) : T(1) + T(0)")
OF_FLOATS, OF_DOUBLES = "_Z1kIfEvPT_", "_Z1kIdEvPT_"


class _Typed(_Unit):
    """A unit of a kernel that is made for two types, each with a body of so many lines."""

    def __init__(self, floats: int, doubles: int) -> None:
        many = {OF_FLOATS: floats, OF_DOUBLES: doubles}
        entry = ".visible .entry {}(\n\t.param .u64 {}_param_0\n)\n{{\n{}\tret;\n}}\n"
        super().__init__("".join(entry.format(n, n, "\tbar.warp.sync -1;\n" * k) for n, k in many.items()))
        self.kernels = tuple(type("K", (_Kernel,), {"mangled": name})() for name in many)


@pytest.mark.parametrize(
    ("text", "unit", "told"),
    [(BY_SIZE, (1, 1), True), (BY_SIZE, (1, 0), False), (TYPED.replace("T(1)", "T(2)"), (1, 1), False)],
)
def test_who_goes_by_types_is_told_where_several_are_changed(
    text: str, unit: tuple[int, int], told: bool
) -> None:
    said = why_not_general(_file(TYPED), _file(text), _Typed(0, 0), _Typed(*unit))  # type: ignore[arg-type]
    assert ("changes it for 2 types" in said) == told == bool(said)


def test_what_the_kernel_writes_as_well_or_does_not_read_either_may_be_left_alone() -> None:
    file = _file(KERNEL + HOST)
    written = PTX.replace("ret;", "").replace("st.global", "st.global.f32 	[%rd1], %f1;\n	st.global")
    for before, after in ((UNREAD, UNREAD), (UNREAD, PTX), (written, UNREAD)):
        assert not why_not_general(file, file, _Unit(before), _Unit(after))  # type: ignore[arg-type]
