# SPDX-License-Identifier: Apache-2.0
"""Relocatable device code: what a built program carries of it, and linking it to a cubin that can be loaded.

A program built with `-rdc=true` keeps every unit's relocatable code, libraries' and the device runtime's too, in the
section `__nv_relfatbin` of its own file: one fatbinary after the other, in the order they were linked. The layout of
a fatbinary is that of the toolkit's `fatbinary_section.h`, its entries' that of `cuobjdump`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from warplens_tools.errors import CompileError, InputError, ToolFailedError
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.cubin import parse_cubin
from warplens_tools.toolchain.locate import Toolchain, tool_environment
from warplens_tools.toolchain.messages import parse_messages

_SECTION = "__nv_relfatbin"
#: Magic number, version, bytes of this header, bytes of the entries.
_HEADER = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
#: Kind, version, bytes of this header, bytes of the contents.
_ENTRY = struct.Struct("<HHIQ")
#: What nvcc leaves of a unit with -dlto, for the device linker to compile.
LINK_TIME = "code for link-time optimisation"
_MACHINE_CODE = "machine code"
_KINDS = {1: "PTX", 2: _MACHINE_CODE, 8: LINK_TIME}
_RELOCATABLE_ELF = 1
_EXTRACT_SECONDS = 60.0
_PROPERTIES = re.compile(
    r"Function properties for '([^']+)':\s*\nnvlink info\s*: used (\d+) registers[^\n]*?"
    r"(?:, (\d+) stack)?, (\d+) bytes smem"
)
_ERROR = re.compile(r"^nvlink (?:error|fatal)\s*: (.+)$", re.MULTILINE)


class LinkReport(msgspec.Struct, frozen=True):
    """What nvlink says of one kernel of a linked cubin; bytes."""

    name: str
    registers: int
    stack_bytes: int
    shared_bytes: int


def carries_relocatable(program: bytes) -> bool:
    """Whether a built program, or library, has relocatable device code in it."""
    try:
        return _SECTION in parse_cubin(program).sections
    except InputError:
        return False


def fatbinaries(section: bytes) -> Iterator[bytes]:
    """The fatbinaries in a section that linking made of several objects' (with padding between them)."""
    at = 0
    while at + _HEADER.size <= len(section):
        magic, _, header, size = _HEADER.unpack_from(section, at)
        if magic != _MAGIC:
            at += 8
            continue
        yield section[at : at + header + size]
        at += (header + size + 7) // 8 * 8


def kinds(fatbinary: bytes) -> tuple[str, ...]:
    """What a fatbinary holds, e.g. ("machine code", "PTX"), each once; a kind not known here is left out."""
    found: dict[str, None] = {}
    at = _HEADER.unpack_from(fatbinary)[2] if len(fatbinary) >= _HEADER.size else len(fatbinary)
    while at + _ENTRY.size <= len(fatbinary):
        kind, _, header, size = _ENTRY.unpack_from(fatbinary, at)
        if header < _ENTRY.size:
            break
        if kind in _KINDS:
            found[_KINDS[kind]] = None
        at += header + size
    return tuple(found)


def carried_units(
    program: bytes, *, toolchain: Toolchain, arch: str, folder: Path, task: Task = UNATTENDED
) -> tuple[Path, ...]:
    """The relocatable cubins for `arch` in a built program, in the order it was linked, written below `folder`.

    Raises:
        InputError: it carries none, or one of its units has no machine code for `arch`.
        MissingToolError: no cuobjdump.
        ToolFailedError: cuobjdump failed.
        CancelledError: as named.
    """
    cuobjdump = toolchain.require("cuobjdump").path
    units = []
    for number, fatbinary in enumerate(_carried(program)):
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        (place / "unit.fatbin").write_bytes(fatbinary)
        command = [cuobjdump, "-xelf", "all", "-arch", arch, "unit.fatbin"]
        done = run(command, cwd=place, timeout=_EXTRACT_SECONDS, task=task)
        found = [path for path in sorted(place.glob("*.cubin")) if _is_relocatable(path)]
        exact = [path for path in found if f".{arch}." in path.name]
        if not found:
            raise _no_code(kinds(fatbinary), arch, done.status, done.stderr)
        units.append((exact or found)[0])
    if not units:
        raise InputError("the program carries no relocatable device code")
    return tuple(units)


def carried_kinds(program: bytes) -> frozenset[str]:
    """What a built program's relocatable device code is, over all its units; see `kinds`."""
    return frozenset(kind for fatbinary in _carried(program) for kind in kinds(fatbinary))


def _carried(program: bytes) -> Iterator[bytes]:
    host = parse_cubin(program, name="the built program")
    section = host.sections.get(_SECTION)
    yield from fatbinaries(host.content(section) if section is not None else b"")


def _is_relocatable(path: Path) -> bool:
    head = path.read_bytes()[:18]
    return len(head) == 18 and head[16] == _RELOCATABLE_ELF


def _no_code(held: Sequence[str], arch: str, status: int, said: str) -> Exception:
    if _MACHINE_CODE in held and status != 0:
        return ToolFailedError("cuobjdump cannot read the program", status=status, output=said)
    what = ", ".join(held) or "nothing"
    return InputError(
        f"a unit of the program carries relocatable device code as {what}, but no machine code for {arch}",
        remedy=f"build the program for {arch}, for example by {{arch}} in its build command",
    )


def device_link(
    units: Sequence[Path],
    *,
    toolchain: Toolchain,
    arch: str,
    folder: Path,
    through: Callable[[Sequence[str | Path]], Sequence[str | Path]] = tuple,
    timeout: float | None = None,
    task: Task = UNATTENDED,
) -> tuple[LinkReport, ...]:
    """Link relocatable cubins to `folder`/linked.cubin (the device runtime is added where it is called).

    Of a weak definition in several units, such as a template's instantiation, the first unit's counts.

    Raises:
        CompileError: something is defined nowhere, or twice.
        MissingToolError, TimeLimitError, CancelledError: as named.
    """
    nvcc = toolchain.require("nvcc").path
    command: list[str | Path] = [nvcc, "-dlink", "-cubin", f"-arch={arch}", "-Xnvlink", "-v", *units]
    done = run(
        through([*command, "-o", folder / "linked.cubin"]),
        cwd=folder,
        env=tool_environment(folder),
        timeout=timeout,
        task=task,
    )
    output = done.stderr + done.stdout
    if done.status != 0:
        said = _ERROR.findall(output)
        first = said[0] if said else next(iter(output.strip().splitlines()[-1:]), "no output")
        raise CompileError(
            f"the device code does not link: {first}",
            status=done.status,
            output=output,
            messages=tuple(parse_messages(output, directory=folder)),
        )
    return parse_link(output)


def parse_link(output: str) -> tuple[LinkReport, ...]:
    """Every kernel that nvlink's verbose output reports."""
    return tuple(
        LinkReport(name, int(registers), int(stack or 0), int(shared))
        for name, registers, stack, shared in _PROPERTIES.findall(output)
    )
