# SPDX-License-Identifier: Apache-2.0
"""On recorded output: nvcc 13.0.88 for sm_90, nvdisasm 13.4.92 (`-c -gi`, `-c -lrm count`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.errors import InputError
from warplens_tools.evidence import Instruction, SourceLine
from warplens_tools.toolchain.cubin import parse_cubin, read_cubin
from warplens_tools.toolchain.disassemble import parse_nvdisasm, split_operands, with_lines
from warplens_tools.toolchain.line_table import read_line_table

DATA = Path(__file__).parents[2] / "data" / "collect"
GI = (DATA / "inline.gi.txt").read_text()
LRM = (DATA / "inline.lrm.txt").read_text()


def test_instructions_with_live_registers() -> None:
    code = parse_nvdisasm(LRM)
    assert list(code) == ["_Z6secondPfPi", "_Z5firstPfPi"]
    load = code["_Z5firstPfPi"][6]
    assert (load.address, load.opcode, load.modifiers) == (0x60, "LDG", ("E",))
    assert load.operands == ("R0", "desc[UR4][R2.64]")
    assert load.live_registers == 7
    assert code["_Z5firstPfPi"][-1].opcode == "BRA"


def test_branch_targets_are_addresses_in_the_function() -> None:
    code = parse_nvdisasm(LRM)["_Z6secondPfPi"]
    call = next(i for i in code if i.opcode == "CALL")
    assert (call.operands, call.target) == (("0x150",), 0x150)
    branch = next(i for i in code if i.opcode == "BRA" and i.predicate)
    assert (branch.predicate, branch.target) == ("@!P0", 0x2C0)
    assert next(i for i in code if i.opcode == "RET").target is None


def test_both_forms_of_output_give_the_same_instructions() -> None:
    plain, live = parse_nvdisasm(GI), parse_nvdisasm(LRM)
    assert plain.keys() == live.keys()
    for name, instructions in plain.items():
        assert [_bare(i) for i in instructions] == [_bare(i) for i in live[name]]


def _bare(i: Instruction) -> tuple[object, ...]:
    return i.address, i.opcode, i.modifiers, i.operands, i.predicate, i.target


def test_own_line_table_agrees_with_nvdisasm_wherever_it_prints_a_chain() -> None:
    tables = read_line_table(read_cubin(DATA / "inline.cubin"))
    compared = 0
    for name, chains in _printed_chains(GI).items():
        code = with_lines(parse_nvdisasm(LRM)[name], tables[name])
        by_address = {i.address: i.lines for i in code}
        for address, chain in chains.items():
            assert by_address[address] == chain
            compared += 1
    assert compared > 20


def _printed_chains(text: str) -> dict[str, dict[int, tuple[SourceLine, ...]]]:
    """Chains where nvdisasm prints one; it leaves out one whose innermost line repeats the last."""
    found: dict[str, dict[int, tuple[SourceLine, ...]]] = {}
    name, chain = "", []
    for line in text.splitlines():
        if match := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            name = match[1]
        elif match := re.search(r'## File "([^"]+)", line (\d+)', line):
            chain.append(SourceLine(match[1], int(match[2])))
        elif (match := re.match(r"\s+/\*([0-9a-f]+)\*/", line)) and chain:
            found.setdefault(name, {})[int(match[1], 16)] = tuple(chain)
            chain = []
    return found


def test_the_second_call_of_an_inlined_function_keeps_its_own_call_site() -> None:
    tables = read_line_table(read_cubin(DATA / "inline.cubin"))
    code = with_lines(parse_nvdisasm(LRM)["_Z5firstPfPi"], tables["_Z5firstPfPi"])
    chains = [[line.line for line in i.lines] for i in code if i.opcode == "FFMA"]
    assert chains == [[3, 6, 10], [3, 7, 10]]


def test_code_digest_ignores_lines_and_the_functions_own_name() -> None:
    data = (DATA / "inline.cubin").read_bytes()
    cubin = parse_cubin(data)
    renamed = parse_cubin(data.replace(b"_Z5firstPfPi", b"_Z5frontPfPi"))
    assert cubin.code_digest("_Z5firstPfPi") == renamed.code_digest("_Z5frontPfPi") != ""
    assert cubin.code_digest("_Z5firstPfPi") != cubin.code_digest("_Z6secondPfPi")
    assert cubin.code_digest("none") == ""
    assert cubin.constant_bytes("_Z5firstPfPi") == 544


@given(st.integers(0, 10775), st.integers(0, 255))
def test_a_damaged_cubin_is_an_input_error_at_worst(at: int, value: int) -> None:
    data = bytearray((DATA / "inline.cubin").read_bytes())
    data[at] = value
    try:
        cubin = parse_cubin(bytes(data[: at + 4096]))
        read_line_table(cubin)
        cubin.code_digest("_Z5firstPfPi")
    except InputError:
        pass


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("R4, [R2.64+0x10]", ("R4", "[R2.64+0x10]")),
        ("R0, desc[UR4][R2.64], P0", ("R0", "desc[UR4][R2.64]", "P0")),
        ("R1, c[0x0][0x28] &wr=0x0 ?trans1", ("R1", "c[0x0][0x28]")),
        ("R1, R2 &req={0,1} &rd=0x1 ?WAIT4_END_GROUP", ("R1", "R2")),
        ("`(.L_x_0)", ("`(.L_x_0)",)),
        ("", ()),
    ],
)
def test_operands(text: str, operands: tuple[str, ...]) -> None:
    assert split_operands(text) == operands


OPERANDS = st.lists(
    st.sampled_from(["R1", "RZ", "0x10", "[R2.64+-0x10]", "c[0x0][0x28]", "|R3|", "!P0", "-R5"])
)


@given(
    st.sampled_from(["", "@P0", "@!P6", "@UP1", "@!PT"]),
    st.sampled_from(["LDG", "HFMA2", "S2R", "IMAD", "UTMALDG"]),
    st.lists(st.sampled_from(["E", "128", "CONSTANT", "U32", "WIDE"])),
    OPERANDS,
    st.integers(0, 1 << 20).map(lambda n: n * 16),
    st.one_of(st.none(), st.integers(0, 255)),
)
def test_any_instruction_is_read_back(
    predicate: str, opcode: str, modifiers: list[str], operands: list[str], address: int, live: int | None
) -> None:
    mark = "" if live is None else f"  // | {live or ''} |   |"
    words = " ".join(filter(None, (predicate, ".".join([opcode, *modifiers]), ", ".join(operands))))
    text = f'\t.section\t.text.k,"ax"\n        /*{address:04x}*/                   {words} ;{mark}\n'
    (instruction,) = parse_nvdisasm(text)["k"]
    assert instruction == Instruction(
        address, opcode, tuple(modifiers), tuple(operands), predicate, live_registers=live
    )


@given(st.lists(st.sampled_from((GI + LRM).splitlines()), max_size=60))
def test_lines_in_any_order_never_raise(lines: list[str]) -> None:
    for instructions in parse_nvdisasm("\n".join(lines)).values():
        assert all(i.opcode for i in instructions)
