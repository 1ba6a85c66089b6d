# SPDX-License-Identifier: Apache-2.0
"""SASS of a cubin's kernels, each instruction with its source lines and, on request, live registers.

`nvdisasm -c` gives the instructions and, with `-lrm count` (which makes the call up to two fifths slower), live
registers; the lines come from `warplens_tools.toolchain.line_table`, as `-lrm` ignores line options. Only
kernels whose code is not known yet are disassembled: `-fun` restricts the call to them, and where none is
left there is no call at all.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from warplens_tools.errors import ToolFailedError
from warplens_tools.evidence import Instruction, SourceLine
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.cubin import Cubin
from warplens_tools.toolchain.line_table import LineRow

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
_LABEL = re.compile(r"^([.$\w]+):")
_INSTRUCTION = re.compile(
    r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[0-9T]+)\s+)?([A-Z][A-Z0-9_]*)((?:\.[\w:]+)*)\s*([^;]*);(.*)$"
)
#: nvdisasm's own remark on an instruction, e.g. (*"SpillRefill"*).
_NOTE = re.compile(r"\(\*.*?\*\)")
_FILE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)(?: inlined at .*)?$')
_LIVE = re.compile(r"//\s*\|\s*(\d*)\s*\|")
_TARGET = re.compile(r"`\(([.$\w]+)\)")
_SCHEDULING = re.compile(r"\s[&?][\w={},]+")
_BRACKETED_COMMA = re.compile(r"[\[({][^\])}]*,")
_TIME_LIMIT = 300.0


class _Section(msgspec.Struct):
    instructions: list[Instruction]
    labels: dict[str, int]
    #: Labels read since the last instruction: they name the next address.
    pending: list[str]


def parse_nvdisasm(text: str) -> dict[str, tuple[Instruction, ...]]:
    """Instructions by mangled function name from `nvdisasm -c`, with `-gi` or `-lrm count` or neither.

    Branch targets, printed as labels, are given as addresses in the function, e.g. "0x170".
    """
    sections: dict[str, _Section] = {}
    current: _Section | None = None
    chain: list[SourceLine] = []
    continues = False
    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            if current is not None:
                _add(current, match, tuple(chain))
            continues = False
        elif match := _FILE.match(line):
            # Consecutive annotations are one chain; a new group replaces the old.
            chain = [*chain, _line(match)] if continues else [_line(match)]
            continues = True
        elif match := _SECTION.match(line):
            # The chain stays: nvdisasm does not repeat one that the section before ended with.
            current = sections.setdefault(match[1], _Section([], {}, []))
        elif current is not None and (match := _LABEL.match(line)):
            current.pending.append(match[1])
    return {name: _resolved(section) for name, section in sections.items()}


def _line(match: re.Match[str]) -> SourceLine:
    return SourceLine(match[1], int(match[2]))


def _add(section: _Section, match: re.Match[str], chain: tuple[SourceLine, ...]) -> None:
    address = int(match[1], 16)
    section.labels.update(dict.fromkeys(section.pending, address))
    section.pending = []
    live = _LIVE.search(match[6])
    section.instructions.append(
        Instruction(
            address=address,
            opcode=match[3],
            modifiers=tuple(match[4].split(".")[1:]),
            operands=split_operands(_NOTE.sub("", match[5])),
            predicate=match[2] or "",
            spill="SpillRefill" in match[5],
            lines=chain,
            live_registers=int(live[1] or 0) if live else None,
        )
    )


def split_operands(text: str) -> tuple[str, ...]:
    """Operands of one instruction: split at commas outside brackets, scheduling notes (&req, ?wait) removed."""
    if "&" in text or "?" in text:
        text = _SCHEDULING.sub("", text)
    if not _BRACKETED_COMMA.search(text):
        return tuple(part for piece in text.split(",") if (part := piece.strip()))
    found: list[str] = []
    depth = start = 0
    for index, char in enumerate(text):
        depth += (char in "[({") - (char in "])}")
        if char == "," and depth == 0:
            found.append(text[start:index].strip())
            start = index + 1
    found.append(text[start:].strip())
    return tuple(part for part in found if part)


def _resolved(section: _Section) -> tuple[Instruction, ...]:
    code = section.instructions
    while code and code[-1].opcode == "NOP":
        # Padding behind the last branch; with -lrm nvdisasm leaves it out itself.
        code.pop()

    return tuple(_with_target(instruction, section.labels) for instruction in code)


def _with_target(instruction: Instruction, labels: dict[str, int]) -> Instruction:
    found = next((m for operand in instruction.operands if (m := _TARGET.search(operand))), None)
    if found is None or found[1] not in labels:
        return instruction
    address = labels[found[1]]
    operands = tuple(operand.replace(found[0], hex(address)) for operand in instruction.operands)
    # A return names its function only as the base that its address register is relative to.
    target = None if instruction.opcode == "RET" else address
    return msgspec.structs.replace(instruction, operands=operands, target=target)


def with_lines(instructions: Iterable[Instruction], rows: Sequence[LineRow]) -> tuple[Instruction, ...]:
    """The instructions with the inline chain that the line table gives their addresses."""
    starts = [row.address for row in rows]
    located: list[Instruction] = []
    for instruction in instructions:
        index = bisect.bisect_right(starts, instruction.address) - 1
        lines = rows[index].chain if index >= 0 else ()
        located.append(msgspec.structs.replace(instruction, lines=lines))
    return tuple(located)


def disassemble(
    nvdisasm: str | Path,
    path: Path,
    cubin: Cubin,
    names: Sequence[str],
    *,
    live_registers: bool = False,
    task: Task = UNATTENDED,
    on_start: Callable[[], None] | None = None,
) -> dict[str, tuple[Instruction, ...]]:
    """Instructions, without lines, of the functions `names` of the cubin at `path`.

    `on_start` is called while nvdisasm runs; not where there is nothing to disassemble.

    Raises:
        ToolFailedError: nvdisasm rejected the cubin, as an nvdisasm older than the compiler does.
        MissingToolError, TimeLimitError, CancelledError: as `run`.
    """
    functions = cubin.functions() if names else {}
    only = ",".join(str(functions[name].index) for name in names if name in functions)
    if not only:
        return {}
    command = [nvdisasm, "-c", *_analysis(cubin, names, live_registers), "-fun", only, path]
    done = run(command, task=task, timeout=_TIME_LIMIT, on_start=on_start)
    if done.status != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ToolFailedError(
            f"nvdisasm failed: {said[-1] if said else f'status {done.status}'}",
            remedy="use an nvdisasm that is not older than nvcc: `warplens setup toolchain`",
            status=done.status,
            output=done.stdout + done.stderr,
        )
    parsed = parse_nvdisasm(done.stdout)
    return {name: parsed[name] for name in names if name in parsed}


def _analysis(cubin: Cubin, names: Sequence[str], live_registers: bool) -> list[str]:
    """How much nvdisasm looks at beside the instructions: the flow of data takes it a quarter of its time, and of
    what that tells we read live registers and the mark of a spill alone."""
    if live_registers:
        return ["-lrm", "count"]
    return [] if any(cubin.annotated(name) for name in names) else ["-ndf"]
