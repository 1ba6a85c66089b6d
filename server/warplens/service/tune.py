# SPDX-License-Identifier: Apache-2.0
"""`tune`: the numbers of a kernel alone, and the run as autotuners write theirs."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from warplens.agent.actions import KernelSpace
from warplens.agent.past import read_past
from warplens.agent.result import OptimizeResult
from warplens.agent.t4 import t4_of
from warplens.service.optimize import (
    FileInputs,
    OpenJudge,
    OptimizeOptions,
    open_judge,
    optimize_file,
)
from warplens.store.database import data_folder, open_store
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task

#: Sources that `tune` does without.
BEYOND = ("rewrites", "idioms", "model")


def tune_file(
    inputs: FileInputs, options: OptimizeOptions, *, task: Task = UNATTENDED, judge: OpenJudge = open_judge
) -> OptimizeResult:
    """Search the parameters of a kernel's text as it stands. Raises as `optimize_file`."""
    return optimize_file(inputs, msgspec.structs.replace(options, without=BEYOND), task=task, judge=judge)


def write_t4(inputs: FileInputs, result: OptimizeResult, path: Path) -> int:
    """Write a run's configurations in the T4 results format; how many.

    Raises:
        InputError: nothing was measured, or the file cannot be written.
    """
    if result.run is None:
        raise InputError("nothing was measured, so there are no results to write")
    text = inputs.text()
    space = KernelSpace(text, path=result.path, kernel=result.kernel, limits=inputs.gpu.limits)
    values = {p.name: p.value for p in space.template(text).parameters}
    with open_store(data_folder(os.environ)) as store:
        found = t4_of(read_past(store, result.run), values)
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    return len(found["results"])
