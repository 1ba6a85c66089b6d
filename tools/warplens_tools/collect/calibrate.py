# SPDX-License-Identifier: Apache-2.0
"""Builds the ruler kernels and runs them on one card."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

import msgspec

from warplens_tools.arch.ceilings import FORMAT_VERSION, Calibration, Ruler
from warplens_tools.arch.load import Device, driver_version, query_devices
from warplens_tools.arch.nvml import states_around
from warplens_tools.decode import from_json
from warplens_tools.errors import CompileError, InputError, MissingToolError, ToolFailedError
from warplens_tools.home import warplens_home
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.locate import Toolchain, tool_environment, tool_version

#: Seconds; a calibration takes about five on an H200.
TIME_LIMIT = 120.0


def calibrate(*, toolchain: Toolchain, device: int = 0, task: Task = UNATTENDED) -> Calibration:
    """Measure every ceiling of the card with that index, as the CUDA driver counts. The caller holds the GPU's lock.

    Raises:
        MissingToolError: no driver, GPU, nvcc or host compiler.
        InputError: no such device.
        CompileError: nvcc does not build the rulers for this card.
        ToolFailedError: a ruler failed.
        TimeLimitError, CancelledError: as named.
    """
    card = device_at(device)
    task.say("building the ruler kernels", None)
    program = build_rulers(f"{card.major}.{card.minor}", toolchain=toolchain, task=task)
    task.say(f"measuring {card.name}", None)
    environment = {**tool_environment(program.parent), "CUDA_VISIBLE_DEVICES": card.uuid}
    with states_around(card.uuid) as states:
        done = run([program, "0"], env=environment, timeout=TIME_LIMIT, task=task)
    rulers = parse_rulers(done.stdout)
    if done.status != 0 or not rulers:
        raise ToolFailedError(
            f"the ruler kernels failed on {card.name}: {done.stderr.strip() or f'status {done.status}'}",
            status=done.status,
            output=done.stdout + done.stderr,
        )
    return Calibration(
        version=FORMAT_VERSION,
        gpu=card.name,
        uuid=card.uuid,
        driver=driver_version(),
        compute_capability=f"{card.major}.{card.minor}",
        compiler=f"nvcc {tool_version(toolchain.require('nvcc'))}",
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        rulers=rulers,
        states=tuple(states),
    )


def device_at(index: int) -> Device:
    """The card with that index, as the CUDA driver counts.

    Raises:
        MissingToolError: no driver, or no GPU at all.
        InputError: there are GPUs, but not that many.
    """
    answer = query_devices()
    if not answer.devices:
        raise MissingToolError(
            f"there is no GPU to measure: {answer.error or 'the driver lists none'}",
            remedy="run it on the machine with the GPU",
        )
    if not 0 <= index < len(answer.devices):
        names = ", ".join(f"{i}: {d.name}" for i, d in enumerate(answer.devices))
        raise InputError(f"there is no GPU {index}", remedy=f"this machine has {names}")
    return answer.devices[index]


def build_rulers(compute_capability: str, *, toolchain: Toolchain, task: Task = UNATTENDED) -> Path:
    """The built ruler program for a compute capability such as "9.0"; built once per compiler.

    Raises:
        MissingToolError, CompileError, TimeLimitError, CancelledError: as named.
    """
    nvcc = toolchain.require("nvcc")
    toolchain.require("host_compiler")
    arch = "sm_" + compute_capability.replace(".", "")
    # wgmma exists only for the architecture-specific target.
    arch += "a" if arch == "sm_90" else ""
    with as_file(files("warplens_tools.run.microbenchmarks") / "rulers.cu") as source:
        key = hashlib.sha256(source.read_bytes() + f"{arch}/{tool_version(nvcc)}".encode()).hexdigest()[:16]
        folder = warplens_home() / "rulers" / key
        program = folder / "rulers"
        if program.is_file():
            return program
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / "rulers.partial"
        command = [nvcc.path, "-O3", "-std=c++17", f"-arch={arch}", str(source), "-o", str(partial)]
        done = run(command, env=tool_environment(folder), timeout=300.0, task=task)
    if done.status != 0:
        raise CompileError(
            f"nvcc does not build the ruler kernels for {arch}",
            remedy="check that this nvcc knows the card (`warplens doctor`)",
            status=done.status,
            output=done.stdout + done.stderr,
        )
    partial.replace(program)
    return program


def parse_rulers(text: str) -> tuple[Ruler, ...]:
    """The rulers in the program's output; lines that are none, or cut off, are skipped."""
    found: list[Ruler] = []
    for line in text.splitlines():
        try:
            ruler = from_json(line, Ruler)
        except msgspec.MsgspecError:
            continue
        if ruler.samples and all(sample > 0 for sample in ruler.samples):
            found.append(ruler)
    return tuple(found)


def merged(runs: Sequence[Calibration]) -> Calibration:
    """One calibration of several runs on one card: all samples together, the last run's conditions.

    Raises:
        ValueError: `runs` is empty.
    """
    samples: dict[str, tuple[float, ...]] = {}
    for one in runs:
        for ruler in one.rulers:
            samples[ruler.name] = samples.get(ruler.name, ()) + ruler.samples
    last = runs[-1]
    rulers = tuple(msgspec.structs.replace(r, samples=samples[r.name]) for r in last.rulers)
    return msgspec.structs.replace(last, rulers=rulers)
