# SPDX-License-Identifier: Apache-2.0
"""Control flow of SASS: blocks, loops, nesting."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.evidence import Instruction
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.listing import weights


def program(*lines: str | tuple[str, int] | tuple[str, int | None, str]) -> list[Instruction]:
    """Instructions 16 bytes apart; a tuple names a branch, the index it goes to and its guard."""
    made = []
    for i, line in enumerate(lines):
        opcode, target, guard = (*line, "@P0")[:3] if isinstance(line, tuple) else (line, None, "")
        made.append(
            Instruction(
                address=16 * i,
                opcode=opcode,
                modifiers=(),
                operands=(),
                predicate=guard,
                target=None if target is None else 16 * target,
            )
        )
    return made


def test_straight_code_has_one_block_and_no_loop() -> None:
    flow = analyse(program("MOV", "FADD", "EXIT"))
    assert [(b.first, b.last, b.successors) for b in flow.blocks] == [(0, 2, ())]
    assert flow.loops == ()
    assert flow.depths == (0, 0, 0)


def test_a_backward_branch_makes_a_loop_and_an_early_exit_does_not() -> None:
    flow = analyse(program("MOV", ("EXIT", None, "@P1"), "FFMA", "LDG", ("BRA", 2), "STG", "EXIT"))
    assert flow.depths == (0, 0, 1, 1, 1, 0, 0)
    assert len(flow.loops) == 1
    assert flow.instructions_of(flow.loops[0]) == [2, 3, 4]


def test_nested_loops_count_their_depth() -> None:
    flow = analyse(program("MOV", "IADD3", "FFMA", ("BRA", 2), "ISETP", ("BRA", 1), "EXIT"))
    assert flow.depths == (0, 1, 2, 2, 1, 1, 0)
    inner = flow.innermost(2)
    assert inner is not None
    assert inner.depth == 2


def test_the_padding_that_branches_to_itself_is_no_loop() -> None:
    flow = analyse(program("FADD", "EXIT", ("BRA", 2, ""), "NOP"))
    assert flow.loops == ()


def test_a_loop_with_a_branch_inside_holds_both_arms() -> None:
    flow = analyse(program("MOV", ("BRA", 4), "FADD", ("BRA", 5, ""), "FMUL", ("BRA", 1), "EXIT"))
    assert flow.depths == (0, 1, 1, 1, 1, 1, 0)


def test_nothing_gives_nothing() -> None:
    assert analyse([]).blocks == ()


@given(
    st.lists(
        st.tuples(st.sampled_from(["FADD", "BRA", "EXIT"]), st.integers(0, 20), st.booleans()), max_size=20
    )
)
def test_any_control_flow_is_analysed_and_every_loop_is_reachable_from_its_header(
    shape: list[tuple[str, int, bool]],
) -> None:
    lines = [
        (opcode, target % len(shape), "@P0" if guarded else "") if opcode == "BRA" else opcode
        for opcode, target, guarded in shape
    ]
    code = program(*lines)
    flow = analyse(code)
    assert len(flow.depths) == len(code)
    assert sum(b.last - b.first + 1 for b in flow.blocks) == len(code)
    for loop in flow.loops:
        assert loop.header in loop.blocks
        assert loop.depth >= 1
        reached, work = {loop.header}, [loop.header]
        while work:
            for s in flow.blocks[work.pop()].successors:
                if s in loop.blocks and s not in reached:
                    reached.add(s)
                    work.append(s)
        assert reached == loop.blocks
        assert any(loop.header in flow.blocks[b].successors for b in loop.blocks)


def test_the_reduction_of_a_huge_angle_is_rare_and_its_loop_counts_no_trips() -> None:
    code = program(
        "FMUL",
        "FSETP",
        ("BRA", 8, "@!P1"),
        "UMOV",
        "LDG",
        "STL",
        ("BRA", 4, "@P2"),
        "DMUL",
        "FFMA",
        ("BRA", 0),
        "EXIT",
    )
    code[1] = msgspec.structs.replace(
        code[1], modifiers=("GE", "AND"), operands=("P1", "PT", "|R4|", "105615", "PT")
    )
    flow = analyse(tuple(code))
    assert flow.rare == {3, 4, 5, 6, 7}
    assert [loop.depth for loop in flow.loops] == [1]
    assert flow.depths == (1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0)
    assert flow.instructions_of(flow.loops[0]) == [0, 1, 2, 8, 9]
    assert weights(flow)[0] == 32.0
    assert weights(flow)[4] < 1.0


def test_any_other_comparison_hides_nothing() -> None:
    code = program("FSETP", ("BRA", 3, "@!P1"), "DMUL", "EXIT")
    code[0] = msgspec.structs.replace(
        code[0], modifiers=("GE", "AND"), operands=("P1", "PT", "|R4|", "7", "PT")
    )
    assert analyse(tuple(code)).rare == frozenset()
