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


def test_what_a_kernel_asks_for_is_the_same_in_every_process() -> None:
    """A range's ends come from the lengths that stand in the code alone, in whatever order its ranges are met."""
    code = "".join(
        f"\tadd.s16 %rs{n}, %rs1, {low};\n\tsetp.lt.u16 %p{n}, %rs{n}, 26;\n"
        for n, low in enumerate((-12, -48, -65), 2)
    )
    found = asked(f".visible .entry letters() {{\n{code}}}\n", "letters")
    # the length and its neighbours, each beginning, and what lies a length behind it
    assert found.constants == (12, 25, 26, 27, 37, 38, 39, 48, 65, 73, 74, 75, 90, 91, 92)
