# SPDX-License-Identifier: Apache-2.0
"""What references in Python expect of a generated program's first launches, computed once and kept."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warplens_tools.cuda.model import SourceModel
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.spec.model import Data, PlacedSpec

_COMPUTE = Path(__file__).with_name("compute.py")
#: Seconds that Python, or the program that writes the inputs, may take.
_LIMIT = 600.0


def expected_results(
    program: Path, model: SourceModel, specs: Sequence[PlacedSpec], folder: Path, *, task: Task = UNATTENDED
) -> Path:
    """The folder for `--expected`: `folder`, filled whole or found there. `program` is the generated one, built; it
    needs no card for this.

    Raises:
        InputError: a statement fails, or gives no output.
        MissingToolError: there is no such Python, or no numpy in it.
        TimeLimitError, CancelledError: as named.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        made = Path(work) / "made"
        made.mkdir()
        done = run([program, "--inputs", made], timeout=_LIMIT, task=task)
        if done.status != 0:
            raise InputError(
                f"the generated program fails before it launches anything: {done.stderr.strip()}"
            )
        for number, placed in enumerate(specs):
            if placed.spec.reference_python:
                _compute(number, placed, model, made, task)
        for inputs in made.iterdir():
            if inputs.suffix != ".expected":
                inputs.unlink()
        if not folder.is_dir():
            shutil.move(made, folder)
    return folder


def _compute(number: int, placed: PlacedSpec, model: SourceModel, folder: Path, task: Task) -> None:
    spec, kernel = placed.spec, model.kernel(placed.kernel)
    arrays = [n for n, data in spec.arguments.items() if isinstance(data, Data) and data.each == ""]
    const = {p.name for p in kernel.parameters if p.const} if kernel is not None else set()
    asked = [
        {
            "launch": f"{number}_{shape}",
            "code": spec.reference_python,
            "arrays": arrays,
            "outputs": [name for name in arrays if name not in const],
        }
        for shape in range(len(spec.shapes or ({},)))
    ]
    task.say(f"computing what {placed.kernel} shall give")
    done = run([spec.python, "-P", _COMPUTE, folder], stdin=json.dumps(asked), timeout=_LIMIT, task=task)
    if done.status == 0:
        return
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if last.startswith("ModuleNotFoundError"):
        raise MissingToolError(
            f"{placed.place}: {spec.python}: {last}",
            remedy='name a Python that has it: python = "path/to/python"',
        )
    raise InputError(f"{placed.place}: the reference of {placed.kernel} fails: {last}")
