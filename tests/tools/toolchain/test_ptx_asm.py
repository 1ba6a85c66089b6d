# SPDX-License-Identifier: Apache-2.0
"""Inline assembler that does more than compute is told from assembler that does not."""

from __future__ import annotations

import pytest

from warplens_tools.toolchain.ptx_asm import escapes, new_blocks

HONEST = (
    "mov.u32 %r1, %laneid;",
    "{ .reg .pred p; setp.ne.b32 p, %r1, 0; @p bra DONE; add.s32 %r1, %r1, 1; DONE: }",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
    "{%f1,%f2,%f3,%f4};",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];",
    "ld.global.nc.L1::no_allocate.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1]; // ret; and .global in words",
    "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2;\n@P1 bra.uni DONE;\n"
    "bra.uni LAB_WAIT;\nDONE:\n}",
    "{.reg.b32 low,high; mov.b64 {low,high}, %rd1; add.u32 %r1, low, high;}",
)
ESCAPING = {
    "} .global .b32 kept; {": "not its own",
    "{ mov.u32 %r1, 0;": "not its own",
    ".global .b32 kept;": "declares by .global",
    "{ .reg_global .b32 kept; }": "declares by .reg_global",
    "{ .shared .b32 kept[4]; }": "declares by .shared",
    "mov.b32 %r1, 0; .pragma \"nounroll\";": "declares by .pragma",
    ".section .debug_str { }": "declares by .section",
    "L: .loc 1 2 3;": "declares by .loc",
    "{ .param .b32 x; call.uni vprintf, (x); }": "declares by .param",
    "call.uni f;": "leaves its function by call.uni",
    "@p ret;": "leaves its function by ret",
    "@!%p1 exit;": "leaves its function by exit",
    "/* */ ret.uni;": "leaves its function by ret.uni",
    "bra $L__BB0_3;": "leaves its text by bra",
    "brx.idx %r1, targets;": "leaves its function by brx.idx",
}  # fmt: skip


def ptx(text: str) -> str:
    return f".entry k()\n{{\n\tret;\n\t// begin inline asm\n\t{text}\n\t// end inline asm\n\tret;\n}}\n"


@pytest.mark.parametrize("text", HONEST)
def test_assembler_that_computes_is_let_through(text: str) -> None:
    assert escapes("", ptx(text)) == ""


@pytest.mark.parametrize("text", ESCAPING)
def test_assembler_that_leaves_or_declares_is_named(text: str) -> None:
    assert ESCAPING[text] in escapes("", ptx(text))


def test_what_the_baseline_has_is_not_looked_at() -> None:
    assert escapes(ptx("@%p1 exit;"), ptx("@%p7 exit;")) == ""
    assert new_blocks(ptx("mov.u32 %r1, 3;"), ptx("mov.u32 %r9, 3;")) == ()
