# SPDX-License-Identifier: Apache-2.0
"""Bits that a kernel asks its parameters for, and numbers by which nothing is led, read from its PTX."""

from __future__ import annotations

from warplens_tools.toolchain.ptx_modes import Modes, modes_of

#: `h = (h * base + at[i]) % prime`, with a bit of `flags` that is asked for and a remainder of `n` by 32.
PTX = """
.visible .entry hashed(
	.param .u64 hashed_param_0,
	.param .u32 hashed_param_1,
	.param .u32 hashed_param_2,
	.param .u32 hashed_param_3,
	.param .u32 hashed_param_4
)
{
	ld.param.u64 	%rd1, [hashed_param_0];
	ld.param.u32 	%r1, [hashed_param_1];
	ld.param.u32 	%r2, [hashed_param_2];
	ld.param.u32 	%r3, [hashed_param_3];
	ld.param.u32 	%r4, [hashed_param_4];
	and.b32 	%r5, %r3, 8;
	setp.eq.s32 	%p1, %r5, 0;
	and.b32 	%r6, %r1, 31;
	cvta.to.global.u64 	%rd2, %rd1;
$L__BB0_1:
	add.s32 	%r9, %r9, 1;
	mul.wide.s32 	%rd3, %r9, 4;
	add.s64 	%rd4, %rd2, %rd3;
	ld.global.u32 	%r10, [%rd4];
	mad.lo.s32 	%r11, %r12, %r2, %r10;
	rem.u32 	%r12, %r11, %r4;
	setp.lt.s32 	%p2, %r9, %r1;
	@%p2 bra 	$L__BB0_1;
	st.global.u32 	[%rd2], %r12;
}
"""


def test_bits_that_are_asked_for_and_numbers_that_lead_nowhere() -> None:
    assert modes_of(PTX, "hashed") == Modes(masks=((3, 8),), loose=(2, 4))
    assert modes_of(PTX, "gone") == Modes()


def test_a_place_in_shared_memory_and_a_function_are_led() -> None:
    shared = PTX.replace("st.global.u32 	[%rd2], %r12;", "st.shared.u32 	[%r12], %r11;")
    assert modes_of(shared, "hashed").loose == ()
    called = PTX.replace("st.global.u32 	[%rd2], %r12;", "st.param.b32 	[param0+0], %r2;")
    assert modes_of(called, "hashed").loose == (4,)
