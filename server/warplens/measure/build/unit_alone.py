# SPDX-License-Identifier: Apache-2.0
"""Compiles a workload's unit by itself, as it is or with a candidate's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from warplens.measure.build.unit import Unit
from warplens_tools.process.task import Task
from warplens_tools.run.build import Overlay, place
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.compile import compile_unit
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain
from warplens_tools.toolchain.symbols import code_digest

#: Makes of a command the one that is run.
Through = Callable[[Sequence[str | Path]], Sequence[str | Path]]


def compiled_alone(
    workload: Workload,
    flags: CompileFlags,
    overlay: Overlay | None,
    *,
    toolchain: Toolchain,
    arch: str,
    folder: Path,
    timeout: float,
    through: Through,
    task: Task,
) -> Unit:
    """The unit with one file's text replaced, if any is. Raises as `compile_unit`."""
    unit, text = Path(workload.unit), None
    if overlay is not None:
        # a header's new text lies where the unit's includes find it first
        placed = place(overlay, unit, flags.arguments, folder / "source")
        text = overlay.text if Path(overlay.path) == unit else unit.read_text("utf-8", "replace")
        options = (f"-I{folder / 'source'}",) if Path(overlay.path) != unit else ()
        arguments = (*options, *placed.options, *flags.arguments)
        flags = msgspec.structs.replace(flags, arguments=arguments)
    evidence = compile_unit(
        unit,
        toolchain=toolchain,
        flags=flags,
        arch=arch,
        workdir=folder,
        overlay=text,
        task=task,
        timeout=timeout,
        through=through,
        keep_text=True,
        # host code alone can call them
        special_functions=False,
    )
    cubin = Path(evidence.cubin_path).read_bytes()
    return Unit(evidence, cubin, code_digest(cubin), cubin)
