# SPDX-License-Identifier: Apache-2.0
"""Tables of CUDA's mathematical functions, which nothing writes."""

from __future__ import annotations

import pytest

from warplens_tools.toolchain.ptx_tables import tables_in

PTX = """\
.version 9.0
.func (.param .b64 result) __internal_trig_reduction_slowpathd ( .param .b64 a );
.global .align 4 .b8 __cudart_i2opi_f[24] = {65, 144, 67, 60, 153, 149, 98, 219, 192, 221, 52, 245, 209, 87, 39, 252, \
41, 21, 68, 78, 110, 131, 249, 162};
.global .align 8 .u64 own = 3;
.visible .entry _Z4turnPfi(
	.param .u64 _Z4turnPfi_param_0
)
{
	ld.param.u64 	%rd1, [_Z4turnPfi_param_0];
	mov.u64 	%rd18, __cudart_i2opi_f;
$L__BB0_2:
	add.s64 	%rd19, %rd18, %rd17;
	// begin inline asm
	ld.global.nc.u32 	%r9, [%rd19];
	st.global.u32 	[%rd1], %r9;
	@%p1 bra 	$L__BB0_2;
	ret;
}
"""


def test_a_table_that_is_read_alone_is_the_librarys() -> None:
    assert tables_in(PTX) == {"__cudart_i2opi_f": 24}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # other numbers, another length, one that others see, one that has no numbers
        ("{65, 144", "{66, 144"),
        ("_f[24]", "_f[28]"),
        (".global .align 4 .b8 __", ".visible .global .align 4 .b8 __"),
        # written, by what is worked out of its address, by an atomic, and on one line with what reads
        ("st.global.u32 	[%rd1], %r9;", "st.global.u32 	[%rd19], %r9;"),
        ("st.global.u32 	[%rd1], %r9;", "st.global.u32 	[__cudart_i2opi_f+4], %r9;"),
        ("st.global.u32 	[%rd1], %r9;", "atom.global.add.u32 	%r10, [%rd18], %r9;"),
        ("[%rd19];", "[%rd19]; { .reg .u64 a; add.u64 a, %rd19, 4; st.global.u32 [a], 7; }"),
        # its address handed on: into memory, into another variable, into a number
        ("st.global.u32 	[%rd1], %r9;", "st.global.u64 	[%rd1], %rd19;"),
        ("own = 3", "own = __cudart_i2opi_f"),
        ("st.global.u32 	[%rd1], %r9;", "cvta.global.u64 	%rd20, %rd19;"),
        ("st.global.u32 	[%rd1], %r9;", "mov.b64 	{%r11, %r12}, %rd19;"),
    ],
)
def test_a_variable_by_its_name_that_is_anything_else_is_not(old: str, new: str) -> None:
    assert old in PTX
    assert tables_in(PTX.replace(old, new)) == {}
