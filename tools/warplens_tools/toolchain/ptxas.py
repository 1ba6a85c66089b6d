# SPDX-License-Identifier: Apache-2.0
"""Reads what `ptxas -v` reports: resources per function.

The same reports come from nvcc with `-Xptxas -v` (CUDA 11 to 13; from 13 on without the constant banks)
and from NVRTC, whose continuation lines start with "ptxas         .".
"""

from __future__ import annotations

import re

import msgspec

_COMPILING = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
_BARRIERS = re.compile(r"used (\d+) barriers")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[(\d+)\]")


class FunctionReport(msgspec.Struct, frozen=True):
    """What ptxas says of one function; bytes. A field that this ptxas does not report is None."""

    name: str
    #: e.g. "sm_90a"; "" for a device function, which is reported without one.
    arch: str = ""
    entry: bool = False
    registers: int | None = None
    stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    shared_bytes: int | None = None
    #: Constant bank number to bytes; None where no bank is reported (ptxas 13).
    constant_bytes: dict[int, int] | None = None
    barriers: int | None = None


def parse_ptxas(text: str) -> tuple[FunctionReport, ...]:
    """Every function that `text`, ptxas' or NVRTC's verbose output, reports; in its order."""
    found: dict[str, FunctionReport] = {}
    current = ""
    for line in text.splitlines():
        if match := _COMPILING.search(line):
            current = match[1]
            found[current] = FunctionReport(name=current, arch=match[2], entry=True)
        elif match := _PROPERTIES.search(line):
            current = match[1]
            found.setdefault(current, FunctionReport(name=current))
        elif not current:
            continue
        elif match := _FRAME.search(line):
            stack, stores, loads = map(int, match.groups())
            found[current] = msgspec.structs.replace(
                found[current], stack_bytes=stack, spill_store_bytes=stores, spill_load_bytes=loads
            )
        elif match := _USED.search(line):
            found[current] = _with_usage(found[current], int(match[1]), match[2])
    return tuple(found.values())


def _with_usage(report: FunctionReport, registers: int, rest: str) -> FunctionReport:
    shared = _SHARED.search(rest)
    barriers = _BARRIERS.search(rest)
    banks = {int(bank): int(size) for size, bank in _CONSTANT.findall(rest)}
    return msgspec.structs.replace(
        report,
        registers=registers,
        # A line that names no shared memory says that there is none.
        shared_bytes=sum(int(part or 0) for part in shared.groups()) if shared else 0,
        constant_bytes=banks or None,
        barriers=int(barriers[1]) if barriers else 0,
    )
