# SPDX-License-Identifier: Apache-2.0
"""What in PTX rests on data or numbers by value."""

from __future__ import annotations

from warplens_tools.toolchain.ptx_asking import asking_registers

BODY = """
	ld.param.u64 	%rd1, [k_param_0];
	ld.param.u32 	%r1, [k_param_1];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r2, %tid.x;
	and.b64  	%rd3, %rd1, 15;
	setp.ne.s64 	%p1, %rd3, 0;
	ld.param.u64 	%rd6, [k_param_0];
	and.b64  	%rd7, %rd6, 15;
	setp.lt.s32 	%p2, %r2, 32;
	setp.lt.s32 	%p3, %r2, %r1;
	mul.wide.s32 	%rd4, %r2, 4;
	add.s64 	%rd5, %rd2, %rd4;
	ld.global.nc.v2.u32 	{%r3, %r4}, [%rd5];
	add.s32 	%r5, %r4, 1;
	setp.eq.s32 	%p4, %r5, 7;
	and.pred 	%p5, %p4, %p2;
	st.global.u32 	[%rd5], %r2;
"""


def test_data_and_numbers_by_value_ask_and_threads_and_alignment_do_not() -> None:
    found = asking_registers(BODY, called=False)
    assert {"%r1", "%r3", "%r4", "%r5", "%p3", "%p4", "%p5"} <= found
    assert found.isdisjoint({"%rd1", "%rd3", "%rd5", "%rd7", "%r2", "%p1", "%p2"})
    # of a function nobody knows what it is given
    assert {"%rd1", "%p1"} <= asking_registers(BODY, called=True)
