# SPDX-License-Identifier: Apache-2.0
"""Asks ptxas what a kernel would take under other register caps or launch bounds, without the front end.

The PTX kept from the last compilation is assembled again with one entry's directives changed: about 0.1 s
each, where compiling the unit may take half a minute. ptxas alone decides, so the figures are those of a real
compilation with that `__launch_bounds__` or `__maxnreg__`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens_tools.arch.gpu import Limits
from warplens_tools.arch.occupancy import Occupancy, occupancy
from warplens_tools.errors import InputError, ToolFailedError
from warplens_tools.evidence import BinaryEvidence, Resources
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.run import run
from warplens_tools.toolchain.compile import resources_of
from warplens_tools.toolchain.locate import Toolchain, tool_environment
from warplens_tools.toolchain.ptxas import FunctionReport, parse_ptxas

#: Seconds for one entry.
TIME_LIMIT = 60.0
_DIRECTIVES = re.compile(r"^\.(?:maxntid|minnctapersm|maxnreg|reqntid)\b[^\n]*\n", re.MULTILINE)


class Bounds(msgspec.Struct, frozen=True):
    """Launch bounds to try; None leaves that bound out. `registers` is `__maxnreg__`."""

    max_threads: int | None = None
    min_blocks: int | None = None
    registers: int | None = None


class WhatIf(msgspec.Struct, frozen=True):
    """What ptxas answered for one set of bounds."""

    bounds: Bounds
    resources: Resources
    #: At the block size asked for; None where it does not fit.
    occupancy: Occupancy | None


def what_if(
    evidence: BinaryEvidence,
    mangled: str,
    bounds: Sequence[Bounds],
    *,
    block_threads: int,
    limits: Limits,
    toolchain: Toolchain,
    workdir: Path,
    cancel: CancelToken | None = None,
) -> tuple[WhatIf, ...]:
    """Assemble one entry of a compiled unit once per bounds, in their order.

    Args:
        mangled: the entry's name.
        block_threads: threads per block of the launch that occupancy is computed for.
        workdir: takes the edited PTX.

    Raises:
        InputError: no PTX was kept, or it has no such entry, or both `registers` and `min_blocks` are set.
        MissingToolError, TimeLimitError, CancelledError: as named.
        ToolFailedError: ptxas rejected the bounds.
    """
    try:
        text = Path(evidence.ptx_path).read_text("utf-8", errors="replace") if evidence.ptx_path else ""
    except OSError:
        text = ""
    if not text:
        raise InputError(f"the PTX of {evidence.path} was not kept", remedy="compile it again")
    workdir.mkdir(parents=True, exist_ok=True)
    ptxas = toolchain.require("ptxas").path
    answers = []
    for number, wanted in enumerate(bounds):
        edited = workdir / f"whatif-{number}.ptx"
        edited.write_text(with_bounds(text, mangled, wanted), "utf-8")
        report = _assemble(ptxas, evidence.arch, mangled, edited, cancel)
        kept = next((k.resources for k in evidence.kernels if k.mangled == mangled), None)
        resources = resources_of(report, 0 if kept is None else kept.constant_bytes)
        answers.append(_answer(wanted, resources, block_threads, limits))
    return tuple(answers)


def _assemble(ptxas: str, arch: str, mangled: str, ptx: Path, cancel: CancelToken | None) -> FunctionReport:
    output = str(ptx.with_suffix(".cubin"))
    command = [ptxas, "-v", f"-arch={arch}", "--entry", mangled, str(ptx), "-o", output]
    done = run(command, env=tool_environment(ptx.parent), timeout=TIME_LIMIT, cancel=cancel)
    said = done.stderr + done.stdout
    report = next((r for r in parse_ptxas(said) if r.name == mangled and r.entry), None)
    if done.status != 0 or report is None:
        raise ToolFailedError(
            f"ptxas does not assemble {mangled} with these bounds", status=done.status, output=said
        )
    return report


def with_bounds(ptx: str, mangled: str, bounds: Bounds) -> str:
    """The PTX with one entry's performance directives replaced by `bounds`.

    Raises:
        InputError: there is no such entry, or `registers` and `min_blocks` are both set, which PTX forbids.
    """
    if bounds.registers is not None and bounds.min_blocks is not None:
        raise InputError("a register cap and a least number of blocks exclude each other")
    entry = re.search(rf"^[^\n]*\.entry\s+{re.escape(mangled)}\s*\(", ptx, re.MULTILINE)
    if entry is None:
        raise InputError(f"the PTX has no entry {mangled}")
    body = ptx.index("{", entry.end())
    head = _DIRECTIVES.sub("", ptx[entry.end() : body])
    added = ""
    if bounds.max_threads is not None:
        added += f".maxntid {bounds.max_threads}, 1, 1\n"
    if bounds.min_blocks is not None:
        added += f".minnctapersm {bounds.min_blocks}\n"
    if bounds.registers is not None:
        added += f".maxnreg {bounds.registers}\n"
    return ptx[: entry.end()] + head + added + ptx[body:]


def _answer(bounds: Bounds, resources: Resources, block_threads: int, limits: Limits) -> WhatIf:
    fits = block_threads <= (bounds.max_threads or limits.max_threads_per_block)
    found = occupancy(
        limits,
        block_threads=block_threads,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes,
    )
    return WhatIf(bounds, resources, found if fits and found.blocks else None)
