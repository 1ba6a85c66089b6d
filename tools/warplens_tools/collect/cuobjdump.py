# SPDX-License-Identifier: Apache-2.0
"""Reads `cuobjdump -res-usage`: what kernels of an already built program or cubin take.

`SHARED` there includes the 1 KB per block that the driver reserves from sm_90 on, and spills are not told
apart from other stack.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from warplens_tools.errors import ToolFailedError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.run import run

_ARCH = re.compile(r"^\s*arch\s*=\s*(sm_\w+)")
_FUNCTION = re.compile(r"^\s*Function (\S+):\s*$")
_FIELD = re.compile(r"\b([A-Z]+)(?:\[(\d+)\])?:(\d+)")


class FunctionUsage(msgspec.Struct, frozen=True):
    """One function's line; bytes save registers."""

    name: str
    registers: int
    stack_bytes: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    #: e.g. "sm_90"; "" for a bare cubin, which is not labelled.
    arch: str = ""


def parse_resource_usage(text: str) -> tuple[FunctionUsage, ...]:
    """Every function in the output of `cuobjdump -res-usage`, in its order."""
    found: list[FunctionUsage] = []
    arch = name = ""
    for line in text.splitlines():
        if match := _ARCH.match(line):
            arch = match[1]
        elif match := _FUNCTION.match(line):
            name = match[1]
        elif name and "REG:" in line:
            found.append(_usage(name, arch, line))
            name = ""
    return tuple(found)


def _usage(name: str, arch: str, line: str) -> FunctionUsage:
    values: dict[str, int] = {}
    for key, _bank, value in _FIELD.findall(line):
        values[key] = values.get(key, 0) + int(value)
    return FunctionUsage(
        name=name,
        registers=values.get("REG", 0),
        stack_bytes=values.get("STACK", 0),
        shared_bytes=values.get("SHARED", 0),
        local_bytes=values.get("LOCAL", 0),
        constant_bytes=values.get("CONSTANT", 0),
        arch=arch,
    )


def resource_usage(
    cuobjdump: str | Path, binary: Path, *, cancel: CancelToken | None = None
) -> tuple[FunctionUsage, ...]:
    """Run `cuobjdump -res-usage` on a cubin, object, library or program.

    Raises:
        ToolFailedError: it holds no device code that cuobjdump can read.
        MissingToolError, TimeLimitError, CancelledError: as `run`.
    """
    done = run([cuobjdump, "-res-usage", binary], cancel=cancel, timeout=60)
    if done.status != 0:
        raise ToolFailedError(
            f"cuobjdump read nothing from {binary}", status=done.status, output=done.stdout + done.stderr
        )
    return parse_resource_usage(done.stdout)
