# SPDX-License-Identifier: Apache-2.0
"""Whether a rebuilt program holds the machine code that was judged, function by function."""

from __future__ import annotations

from pathlib import Path

from warplens_tools.errors import InputError, MissingToolError, ToolFailedError
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.functions import changes
from warplens_tools.toolchain.locate import Toolchain
from warplens_tools.toolchain.symbols import symbols, unit_free_name

#: Seconds to take a program's device code out of it.
_EXTRACT_SECONDS = 60.0


def shipped_otherwise(
    judged: Path, entry: str, program: Path, *, toolchain: Toolchain, folder: Path, task: Task = UNATTENDED
) -> str:
    """Which function of the rebuilt `program` is not as it was judged, or why that is not known; "" if all are.

    `judged` is the cubin that was judged, `entry` its kernel's mangled name. Files are written in `folder`.

    Raises:
        CancelledError: as named.
    """
    try:
        carried = _carried(program, toolchain, folder, task)
    except (MissingToolError, ToolFailedError) as error:
        return f"the machine code in the rebuilt program is not known: {error}"
    name = unit_free_name(entry)
    ours = judged.read_bytes()
    said = f"the rebuilt program carries no machine code of {name} that is as it was judged"
    for cubin in carried:
        data = cubin.read_bytes()
        if name not in {unit_free_name(other) for other in symbols(data).defined}:
            continue
        found = changes(ours, data)
        odd = next(iter((*found.entries, *found.removed, *found.variables)), "")
        if not odd:
            return ""
        said = f"in the rebuilt program {odd} is not the machine code that was judged"
    return said


def _carried(program: Path, toolchain: Toolchain, folder: Path, task: Task) -> tuple[Path, ...]:
    place = folder / "shipped"
    place.mkdir(parents=True, exist_ok=True)
    command = [toolchain.require("cuobjdump").path, "-xelf", "all", str(program)]
    done = run(command, cwd=place, timeout=_EXTRACT_SECONDS, task=task)
    found = [path for path in sorted(place.glob("*.cubin")) if _readable(path)]
    if not found:
        raise ToolFailedError(
            "no machine code could be taken out of the rebuilt program",
            status=done.status,
            output=done.stderr + done.stdout,
        )
    return tuple(found)


def _readable(path: Path) -> bool:
    try:
        return bool(symbols(path.read_bytes()).defined)
    except InputError:
        return False
