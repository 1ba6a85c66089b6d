# SPDX-License-Identifier: Apache-2.0
"""The binary tier of one unit: nvcc's resource report first, then SASS with source lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from warplens_tools.collect.cache import BinaryCache, unit_key
from warplens_tools.errors import InputError, ToolFailedError
from warplens_tools.evidence import BinaryEvidence, CompilerMessage, Instruction
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.compile import DEFAULT_TIME_LIMIT, check_unit, compile_unit
from warplens_tools.toolchain.cubin import Cubin, read_cubin
from warplens_tools.toolchain.disassemble import disassemble, with_lines
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.line_table import read_line_table
from warplens_tools.toolchain.locate import Tool, Toolchain, tool_version

Stage = Callable[[BinaryEvidence], None]


def collect_binary(
    unit: Path,
    *,
    toolchain: Toolchain,
    flags: CompileFlags,
    arch: str,
    cache: BinaryCache,
    overlay: str | None = None,
    sass: bool = True,
    live_registers: bool = False,
    on_start: Callable[[], None] | None = None,
    on_stage: Stage | None = None,
    task: Task = UNATTENDED,
    timeout: float | None = DEFAULT_TIME_LIMIT,
) -> BinaryEvidence:
    """Compile `unit`, or find it in the cache, and disassemble what has not been disassembled before.

    Where there is no nvdisasm, or it fails, the evidence has `disassembled` false (and, if it failed, a
    message): the resource report stands by itself.

    Args:
        overlay: text to compile in place of the file's own.
        live_registers: count live registers at every instruction too; nvdisasm takes up to a fifth longer.
        on_start: called while nvcc runs; not where the unit is found in the cache.
        on_stage: gets the evidence when the resource report is there, while the SASS is being made.

    Raises:
        As `compile_unit`.
    """
    unit = unit.absolute()
    check_unit(unit, overlay)
    text = unit.read_bytes() if overlay is None else overlay.encode()
    toolchain.require("nvcc")
    toolchain.require("host_compiler")
    key = unit_key(unit, text, flags=flags.arguments, directory=flags.directory, arch=arch, tools=toolchain)
    nvdisasm = toolchain.find("nvdisasm") if sass else None
    disassembler = _Disassembler(nvdisasm, cache, live_registers, on_stage, task)
    found = cache.load(key)
    if found is not None:
        found = msgspec.structs.replace(found, messages=_with_flag_messages(found, flags))
        return _with_sass(found, disassembler)
    with cache.workdir() as workdir:
        started = time.time_ns()
        fresh = compile_unit(
            unit,
            toolchain=toolchain,
            flags=flags,
            arch=arch,
            workdir=workdir,
            overlay=overlay,
            task=task,
            timeout=timeout,
            through=die_with_parent,
            on_start=on_start,
            special_functions=False,
            relocatable=True,
        )
        fresh = cache.keep(fresh)
    # Hashing what the unit was built from takes as long as parsing the SASS; nvdisasm leaves a core free.
    storing = threading.Thread(target=cache.store, args=(key, fresh), kwargs={"started_ns": started})
    storing.start()
    try:
        return _with_sass(fresh, disassembler)
    finally:
        storing.join()


def _with_flag_messages(evidence: BinaryEvidence, flags: CompileFlags) -> tuple[CompilerMessage, ...]:
    """The cached messages; what the flags say now comes first, as it may have changed with their origin."""
    others = tuple(m for m in evidence.messages if m not in flags.messages)
    return (*flags.messages, *others)


class _Disassembler(NamedTuple):
    tool: Tool | None
    cache: BinaryCache
    live_registers: bool
    on_stage: Stage | None
    task: Task


def _with_sass(evidence: BinaryEvidence, using: _Disassembler) -> BinaryEvidence:
    if using.tool is None:
        return evidence
    path = Path(evidence.cubin_path)
    cubin = read_cubin(path)
    variant = tool_version(using.tool) + ("-live" if using.live_registers else "")
    keys = {k.mangled: f"{cubin.code_digest(k.mangled)}-{variant}" for k in evidence.kernels}
    known = {name: using.cache.load_sass(key) for name, key in keys.items()}
    code = {name: instructions for name, instructions in known.items() if instructions is not None}
    unknown = [name for name in keys if name not in code]
    tell = using.on_stage
    try:
        new = disassemble(
            using.tool.path,
            path,
            cubin,
            unknown,
            live_registers=using.live_registers,
            task=using.task,
            on_start=None if tell is None else (lambda: tell(evidence)),
        )
    except ToolFailedError as error:
        said = CompilerMessage(severity="warning", text=f"{error}; {error.remedy}")
        return msgspec.structs.replace(evidence, messages=(*evidence.messages, said))
    for name, instructions in new.items():
        using.cache.store_sass(keys[name], instructions)
    return _joined(evidence, cubin, code | new)


def _joined(
    evidence: BinaryEvidence, cubin: Cubin, code: dict[str, tuple[Instruction, ...]]
) -> BinaryEvidence:
    """The evidence with each kernel's instructions on their lines."""
    messages = evidence.messages
    try:
        lines = read_line_table(cubin)
    except InputError as error:
        lines = {}
        messages = (*messages, CompilerMessage(severity="warning", text=f"no source lines: {error}"))
    kernels = tuple(
        msgspec.structs.replace(k, instructions=with_lines(code.get(k.mangled, ()), lines.get(k.mangled, ())))
        for k in evidence.kernels
    )
    return msgspec.structs.replace(evidence, kernels=kernels, messages=messages, disassembled=True)
