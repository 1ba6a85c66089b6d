# SPDX-License-Identifier: Apache-2.0
"""A kernel's twin: where marks stand, and what they say of what never ran."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.toolchain.ptx_blocks import blocks_of, loops_of
from warplens_tools.toolchain.ptx_marks import MARKS, Line, Marks, marked
from warplens_tools.toolchain.ptx_ran import OneSided, never_ran, untried

PTX = """.version 8.8
.target sm_90
.address_size 64
	.file	1 "/a/sum.cu"
	.file	2 "/usr/include/other.h"
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0
)
;
.visible .entry sum(
	.param .u64 sum_param_0,
	.param .u32 sum_param_1
)
{
	.reg .pred 	%p<4>;
	.reg .b32 	%r<5>;
	.loc	1 10 5
	ld.param.u32 	%r1, [sum_param_1];
	.loc	1 11 5
	setp.lt.s32 	%p1, %r1, 1;
	@%p1 bra 	$L__BB0_3;

	mov.u32 	%r2, 0;

$L__BB0_2:
	.pragma "nounroll";
	.loc	1 12 9
	and.b32 	%r3, %r2, 4;
	setp.ne.s32 	%p2, %r3, 0;
	selp.b32 	%r4, 1, 2, %p2;
	.loc	1 11 20
	add.s32 	%r2, %r2, 1;
	.loc	1 11 5
	setp.lt.s32 	%p3, %r2, %r1;
	@%p3 bra 	$L__BB0_2;
	bra.uni 	$L__BB0_3;

$L__BB0_3:
	.loc	2 90 3, function_name $L__info_string0, inlined_at 1 14 5
	bar.sync 	0;
	.loc	1 15 1
	ret;

}
.visible .entry other(
	.param .u32 other_param_0
)
{
	ret;

}
"""


def _marks() -> Marks:
    twin = marked(PTX, "sum")
    assert twin is not None
    return twin.marks


def _digits(marks: Marks, *unset: int) -> str:
    return "".join("0" if k in unset else "1" for k in range(marks.count))


def test_each_block_comparison_and_loop_has_its_marks() -> None:
    marks = _marks()
    here = [block for block in marks.blocks if block]
    assert [sorted({line.line for line in block}) for block in here] == [
        [10, 11],
        [11],
        [11, 12],
        [11],
        [15, 90],
    ]
    assert [(c.at.line, c.operator, c.constants) for c in marks.comparisons] == [
        (11, "lt", ("1",)),
        (12, "eq", ("0", "4")),
        (11, "lt", ()),
    ]
    (loop,) = marks.loops
    assert (loop.at, loop.length) == (Line("/a/sum.cu", 11, 5), 6)


def test_the_twin_is_the_kernel_with_marks_and_other_kernels_stay() -> None:
    twin = marked(PTX, "sum")
    assert twin is not None
    assert f".global .align 8 .b8 {MARKS}[{twin.marks.count}];" in twin.text
    kept = [line for line in twin.text.splitlines() if line and "wl" not in line and MARKS not in line]
    assert kept == [line for line in PTX.splitlines() if line]
    # a loop's pragma stays at its head
    assert re.search(r"\$L__BB0_2:\n\t\.pragma \"nounroll\";", twin.text)
    assert twin.text.endswith(PTX[PTX.index(".visible .entry other") :])
    assert marked(PTX, "none") is None


def test_what_is_not_marked_never_ran() -> None:
    marks = _marks()
    everything = never_ran(marks, [_digits(marks)])
    assert (
        everything is not None and not everything.places and not everything.one_sided and not everything.once
    )
    asked = marks.comparisons[1]
    body = next(k for k, lines in enumerate(marks.blocks) if any(line.line == 12 for line in lines))
    found = never_ran(marks, [_digits(marks, asked.holds, marks.loops[0].again, body)])
    assert found is not None
    assert {(line.line, line.column) for line in found.places} == {(12, 9), (11, 20)}
    assert OneSided(asked.at, asked.constants) in found.one_sided
    assert found.once == {marks.loops[0].at}
    # on other inputs it did
    both = never_ran(marks, [_digits(marks, asked.holds), _digits(marks, asked.fails)])
    assert both is not None and not both.one_sided
    assert never_ran(marks, ["1"]) is None
    assert never_ran(marks, []) is None


CASES = PTX.replace(
    "\tselp.b32 \t%r4, 1, 2, %p2;\n", "\tmin.s32 \t%r4, %r1, 64;\n\tmin.s32 \t%r4, %r4, %r1;\n"
)


def test_the_smaller_of_something_and_a_number_is_a_comparison_where_that_is_asked() -> None:
    assert len(marked(CASES, "sum").marks.comparisons) == 3  # type: ignore[union-attr]
    twin = marked(CASES, "sum", choices=True)
    assert twin is not None
    (chosen,) = (c for c in twin.marks.comparisons if c.constants == ("64",))
    assert (chosen.operator, chosen.asks, chosen.at.line) == ("lt", True, 12)
    assert twin.text.index("setp.lt.s32 %wlp1, %r1, 64") < twin.text.index("min.s32 \t%r4, %r1, 64;")


def test_what_data_lead_to_and_nothing_ran_of_is_untried() -> None:
    marks = _marks()
    _, before, turn, *_ = (k for k, lines in enumerate(marks.blocks) if lines)
    kept = untried(marks, [_digits(marks)])
    assert kept is not None and not kept.places and not kept.one_sided
    # the loop is behind a comparison with a number by value, its remainder's is of the loop's own counter
    asked = marks.comparisons
    assert [c.asks for c in asked] == [True, False, True]
    unset = [before, turn, asked[0].fails, asked[1].holds, asked[1].fails, asked[2].holds, asked[2].fails]
    found = untried(marks, [_digits(marks, *unset)])
    assert found is not None and {line.line for line in found.places} == {11, 12}
    assert found.one_sided == (OneSided(asked[0].at, asked[0].constants),)
    assert untried(marks, ["1"]) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=6))
def test_every_instruction_is_in_one_block_whatever_branches_there_are(
    branches: list[tuple[int, bool]],
) -> None:
    lines = []
    for number, (target, guarded) in enumerate(branches):
        lines += [f"$L_{number}:", "\tadd.s32 %r1, %r1, 1;"]
        lines += [f"\t{'@%p1 ' if guarded else ''}bra $L_{min(target, len(branches) - 1)};"]
    blocks = blocks_of("\n".join([*lines, "\tret;"]), {})
    numbered = [number for block in blocks for number, _ in block.instructions]
    assert numbered == [k for k, line in enumerate([*lines, "ret"]) if not line.endswith(":")]
    for tail, head, length in loops_of(blocks):
        assert head <= tail or blocks[tail].targets
        assert length > 0
