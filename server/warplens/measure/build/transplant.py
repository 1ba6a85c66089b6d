# SPDX-License-Identifier: Apache-2.0
"""The user's own program with a candidate's device code in it: the host side is the user's, compiled from their text.

nvcc says with `--dryrun` how it builds the program; its steps are run as they are, but that the machine code they
embed is the candidate's. What comes of it holds no host code of the candidate, so tools that no fence lets through may
look at it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from warplens.measure.build.nvcc_steps import SETTING, script_of, steps_said
from warplens_tools.errors import CompileError, InputError
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.build import flags_of, nvcc_command, place
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.functions import changes
from warplens_tools.toolchain.locate import Toolchain, tool_environment
from warplens_tools.toolchain.symbols import variables

_EMBEDS = re.compile(r'^(?:"[^"]*/|\S*/)?fatbinary"? .*--embedded-fatbin=')
_MACHINE_CODE = re.compile(r"kind=elf,[^\"]*?file=([^\"]+)")
#: Settings that name one path or list of paths; the others are put into the steps by nvcc itself.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "CICC_PATH", "NVVMIR_LIBRARY_DIR", "TOP")


def transplanted(
    workload: Workload,
    cubin: Path,
    *,
    toolchain: Toolchain,
    arch: str,
    folder: Path,
    timeout: float,
    task: Task = UNATTENDED,
) -> Path:
    """Build the program from the user's text, with `cubin` for its device code; `folder` is made, and is its own.

    Raises:
        InputError: its device code cannot be exchanged: why.
        MissingToolError: no compiler.
        CompileError: it does not build.
        TimeLimitError, CancelledError: as named.
    """
    if workload.build:
        raise InputError("a build command of the user's own cannot be told to embed other device code")
    folder.mkdir(parents=True)
    flags = flags_of(workload)
    unit = Path(workload.unit)
    output = folder / "program"
    placed = place(None, unit, flags.arguments, folder / "source")
    command = nvcc_command(workload, toolchain, flags, placed, output, arch)
    directory = Path(flags.directory) if flags.directory else unit.parent

    def step(words: Sequence[str]) -> str:
        done = run(
            die_with_parent(words),
            cwd=directory,
            env=tool_environment(folder),
            timeout=timeout,
            task=task,
        )
        if done.status:
            raise CompileError(
                "the program cannot be built with other device code",
                status=done.status,
                output=done.stderr + done.stdout,
            )
        return done.stderr

    options = ["--dryrun", "--keep", "--keep-dir", str(folder)]
    lines = steps_said(step([*command, *options]))
    steps = [line for line in lines if not SETTING.match(line) and not line.startswith("rm ")]
    embeds = [number for number, line in enumerate(steps) if _EMBEDS.match(line) and " -link " not in line]
    if len(embeds) != 1:
        raise InputError("nvcc does not say how it embeds the program's device code")
    made = [Path(path) for path in _MACHINE_CODE.findall(steps[embeds[0]])]
    if len(made) != 1:
        raise InputError(f"the program carries its device code for {len(made)} architectures")
    step(["/bin/sh", "-c", script_of(lines, steps[: embeds[0]], _KEPT)])
    if strange := _unlike(made[0].read_bytes(), cubin.read_bytes()):
        raise InputError(strange)
    shutil.copyfile(cubin, made[0])
    step(["/bin/sh", "-c", script_of(lines, steps[embeds[0] :], _KEPT)])
    return output


def _unlike(own: bytes, other: bytes) -> str:
    """Why the host's names for kernels and variables do not lead to the other device code; "" where they do."""
    kernels = set(changes(own, own).kernels.values()) - set(changes(own, other).kernels.values())
    gone = kernels | (
        {(v.name, v.bytes) for v in variables(own)} - {(v.name, v.bytes) for v in variables(other)}
    )
    if not gone:
        return ""
    name = min(one if isinstance(one, str) else one[0] for one in gone)
    return f"the candidate's device code has {name} not as the program names it"
