# SPDX-License-Identifier: Apache-2.0
"""What a kernel compares its inputs with, read from its PTX."""

from __future__ import annotations

from warplens_tools.toolchain.ptx_asks import Asked, asked

PTX = """
.visible .entry find(
	.param .u64 find_param_0,
	.param .u64 find_param_1,
	.param .u32 find_param_2
)
{
	ld.param.u64 	%rd5, [find_param_0];
	ld.param.u64 	%rd6, [find_param_1];
	setp.eq.s64 	%p1, %rd6, 0;
	@%p1 bra 	$L__BB0_2;
	ld.global.u8 	%rs1, [%rd5];
	setp.eq.s16 	%p2, %rs1, 63;
	add.s16 	%rs2, %rs1, -65;
	setp.lt.u16 	%p3, %rs2, 26;
	setp.gt.s32 	%p4, %r7, %r8;
}
.visible .entry other() { setp.eq.s32 %p1, %r1, 4711; }
"""


def test_constants_and_pointers_that_a_kernel_asks_for() -> None:
    found = asked(PTX, "find")
    assert {63, 65, 91} <= set(found.constants) and not {62, 4711} & set(found.constants)
    assert found.optional == {1}
    assert set(asked(PTX, "other").constants) == {4711}
    assert asked(PTX, "gone") == Asked()


def test_doubles_that_come_of_computed_floats() -> None:
    head = ".visible .entry add(.param .u64 add_param_0)\n{\n"
    loaded = "ld.global.f32 %f1, [%rd1];\nmov.f32 %f2, %f1;\ncvt.f64.f32 %fd1, %f2;\n"
    assert not asked(head + loaded + "add.f64 %fd2, %fd2, %fd1;\n}", "add").widened
    summed = loaded.replace("mov.f32 %f2, %f1;", "add.f32 %f3, %f1, %f1;\nmov.f32 %f2, %f3;")
    assert asked(head + summed + "}", "add").widened
    shared = "fma.rn.f32 %f3, %f1, %f1, %f1;\nst.shared.f32 [%r1], %f3;\n"
    shared += "ld.shared.f32 %f4, [%r1];\ncvt.f64.f32 %fd1, %f4;\n"
    assert asked(head + shared + "}", "add").widened


def test_parameters_that_the_code_never_reads() -> None:
    assert asked(PTX, "find").unread == (2,)
    assert (
        asked(PTX.replace("%r7, %r8;", "%r7, %r8;\n\tld.param.u32 %r8, [find_param_2+4];"), "find").unread
        == ()
    )


def test_floats_that_stand_for_what_is_missing() -> None:
    code = """
	mov.f32 	%f2, 0fC61C3C00;
	setp.eq.f32 	%p2, %f1, %f2;
	setp.gt.f32 	%p3, %f1, 0f3FC00000;
	setp.lt.f64 	%p4, %fd1, 0d4000000000000000;
	setp.gt.f32 	%p5, %f1, 0f7F800000;
	setp.eq.f32 	%p6, %f1, 0f00000000;
"""
    assert asked(f".visible .entry gaps() {{{code}}}\n", "gaps").floats == (-9999.0, 1.5, 2.0)


def test_what_a_kernel_asks_for_is_the_same_in_every_process() -> None:
    """A range's ends come from the lengths that stand in the code alone, in whatever order its ranges are met."""
    code = "".join(
        f"\tadd.s16 %rs{n}, %rs1, {low};\n\tsetp.lt.u16 %p{n}, %rs{n}, 26;\n"
        for n, low in enumerate((-12, -48, -65), 2)
    )
    found = asked(f".visible .entry letters() {{\n{code}}}\n", "letters")
    # the length and its neighbours, each beginning, and what lies a length behind it
    assert found.constants == (12, 25, 26, 27, 37, 38, 39, 48, 65, 73, 74, 75, 90, 91, 92)


def test_whether_the_code_asks_what_is_nan() -> None:
    head = ".visible .entry mean(.param .u64 mean_param_0)\n{\n"
    for asks in (
        "setp.nan.f32 \t%p1, %f1, %f1;",
        "setp.gtu.f32 \t%p1, %f2, 0f7F800000;",
        "setp.le.f64 \t%p1, %fd2, 0d7FF0000000000000;",
    ):
        assert asked(f"{head}{asks}\n}}", "mean").nan
    for other in (
        "setp.eq.f32 \t%p1, %f2, 0f7F800000;",
        "setp.gtu.f32 \t%p1, %f2, %f3;",
        "max.f32 %f1, %f2, %f3;",
    ):
        assert not asked(f"{head}{other}\n}}", "mean").nan


def test_pointers_behind_which_no_number_leads_anywhere_or_decides_anything() -> None:
    head = ".visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)\n{\n"
    head += "ld.param.u64 %rd1, [k_param_0];\nld.param.u64 %rd2, [k_param_1];\nld.global.u32 %r1, [%rd1];\n"

    def free(code: str) -> tuple[int, ...]:
        return asked(f"{head}{code}\n}}", "k").free

    result = "shr.s32 %r2, %r1, 3;\nst.global.u32 [%rd2], %r2;"
    assert free(result) == (0,)
    gathered = "mul.wide.s32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd2, %rd3;\nld.global.u32 %r2, [%rd4];"
    assert free(gathered) == (1,)
    assert free("setp.lt.s32 %p1, %r1, 8;") == ()
    assert free("st.shared.u32 [%r9], %r1;") == ()
    rounded = "cvt.rn.f32.s32 %f1, %r1;\nmul.f32 %f2, %f1, 0f3F000000;\ncvt.rzi.s32.f32 %r3, %f2;\n"
    assert free(f"{rounded}{gathered.replace('%r1', '%r3')}") == (1,)
    assert free(f"{rounded}st.global.u32 [%rd2], %r3;") == (0,)


def test_numbers_that_are_asked_whether_they_are_below_zero() -> None:
    head = ".visible .entry find(\n.param .u32 find_param_0,\n.param .u32 find_param_1,\n.param .u32 find_param_2)\n{\n"
    loaded = "".join(f"ld.param.u32 %r{k}, [find_param_{k}];\n" for k in range(3))
    # a loop of that many, a sign, and what a radius is taken from
    loop = "setp.lt.s32 %p1, %r0, 1;\n"
    sign = "cvt.s64.s32 %rd1, %r1;\nsetp.gt.s64 %p2, %rd1, -1;\n"
    radius = (
        "neg.s32 %r4, %r2;\nsetp.gt.s32 %p3, %r4, %r2;\nadd.s32 %r5, %r4, %r6;\nsetp.lt.s32 %p4, %r5, 0;\n"
    )
    assert asked(head + loaded + loop + sign + radius + "}", "find").below == (1,)
    assert asked(head + loaded + "setp.eq.s32 %p1, %r2, -1;\n}", "find").below == (2,)
    assert asked(head + loaded + "max.s32 %r4, %r0, 0;\n}", "find").below == (0,)
    # a remainder is below zero where what is divided is, as an offset that goes backwards
    wrapped = "mul.lo.s32 %r6, %r2, %r7;\nadd.s32 %r8, %r6, %r5;\nrem.s32 %r9, %r8, %r1;\n"
    assert asked(head + loaded + wrapped + "shr.s32 %r10, %r9, 31;\n}", "find").below == (2,)
    assert asked(head + loaded + wrapped + "setp.lt.s32 %p1, %r9, 0;\n}", "find").below == (2,)
    assert asked(head + loaded + wrapped + "shr.s32 %r10, %r8, 31;\n}", "find").below == ()


def test_roundings_that_are_asked_for() -> None:
    head = ".visible .entry find(.param .u64 find_param_0)\n{\n"
    said = "sub.rn.f32 %f3, %f1, %f2;\n"
    assert asked(head + said + "mul.f32 %f4, %f3, %f3;\n}", "find").rounded
    # of code without contractions all are written so
    assert not asked(head + said + "mul.rn.f32 %f4, %f3, %f3;\n}", "find").rounded
