# SPDX-License-Identifier: Apache-2.0
"""Judges a `ModelNew` by the examiner, which runs under the Python that has PyTorch."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from warplens.measure.program.program_sandbox import holds_home
from warplens.measure.torch_task.scan import libraries, suspicions
from warplens.measure.verdict import State
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import present_gpu
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError, MissingToolError, ToolFailedError
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.confine import Confinement, Limits, confined
from warplens_tools.run.gpu_lock import lock_file

_EXAMINER = Path(__file__).with_name("examiner.py")
Baseline = Literal["tf32", "bf16", "compile"]
#: Beside eager execution in FP32.
BASELINES: tuple[Baseline, ...] = ("tf32", "bf16", "compile")
#: Rounds of timing, the first of which is left out.
ROUNDS = 10
#: Of a candidate's process and of each compiler that it starts: what evades the limits on the clock.
_CPU_SECONDS = 3600


class TorchTask(msgspec.Struct, frozen=True):
    """What is examined and how. Paths are absolute."""

    #: Defines Model, get_inputs, get_init_inputs.
    task: str
    #: Defines ModelNew.
    candidate: str
    device: str = "cuda"
    #: Compare and time gradients too, in training mode.
    backward: bool = False
    lower_precision: bool = False
    #: What is right: as `docs/pytorch-tasks.md` says, or as KernelBench itself compares (1e-2, the task's own inputs).
    rule: Literal["warplens", "kernelbench"] = "warplens"
    #: Refuse a candidate that leaves every operation to the library.
    own_work: bool = True
    baselines: tuple[Baseline, ...] = BASELINES
    rounds: int = ROUNDS
    #: Seconds one call may take, and one that compiles.
    limit: float = 60.0
    build_limit: float = 600.0
    #: CPU threads of PyTorch; 0 leaves them.
    threads: int = 0
    #: A folder in which candidates' extensions stay built, which they may write; "" for one that is gone afterwards.
    builds: str = ""


class TorchOptions(msgspec.Struct, frozen=True):
    """How tasks are run, whichever module is examined."""

    #: The Python that has PyTorch; "" for the one that runs Warplens.
    python: str = ""
    device: str = "cuda"
    backward: bool = False
    #: Compare with `torch.compile`, too.
    compile: bool = True
    lower_precision: bool = False
    rounds: int = ROUNDS

    def asked(self, task: Path, candidate: Path | None) -> TorchTask:
        """To examine a candidate, or one that is named later."""
        return TorchTask(
            os.path.abspath(task),  # noqa: PTH100
            os.path.abspath(candidate) if candidate is not None else "",  # noqa: PTH100
            device=self.device,
            backward=self.backward,
            lower_precision=self.lower_precision,
            baselines=tuple(b for b in BASELINES if self.compile or b != "compile"),
            rounds=self.rounds,
        )


class TorchVerdict(msgspec.Struct, frozen=True):
    """What is said of a `ModelNew`. Intervals are median, low, high."""

    state: State
    reason: str
    #: Seconds a call, by "new" and by baseline.
    seconds: dict[str, tuple[float, float, float]] = {}
    #: Over "new", by baseline.
    speedups: dict[str, tuple[float, float, float]] = {}
    #: Of eager execution against itself.
    noise: float | None = None
    #: Whether KernelBench's own comparison (1e-2, the task's own inputs) would have taken it for right.
    kernelbench: bool = False
    #: Its results are of a lower precision, which was allowed.
    lowered: bool = False
    #: Operations of the library that it still calls.
    library: tuple[str, ...] = ()
    #: Largest error in units of its bound.
    error_ratio: float = 0.0
    #: Baselines that could not be had, and why.
    unknown: dict[str, str] = {}


def examine(asked: TorchTask, *, python: str = "", task: Task = UNATTENDED) -> TorchVerdict:
    """Judge a `ModelNew`; `python` has PyTorch, this one if "".

    Raises:
        InputError: a file is not there.
        MissingToolError: that Python has no PyTorch.
        ToolFailedError: the examiner failed.
        CancelledError: as named.
    """
    for path in (asked.task, asked.candidate):
        if not Path(path).is_file():
            raise InputError(f"{path} does not exist")
    text = Path(asked.candidate).read_text("utf-8", errors="replace")
    if asked.rule == "warplens" and (found := suspicions(text, Path(asked.task).stem)):
        return TorchVerdict("refused", "; ".join(found))
    task.say(f"examining {Path(asked.candidate).name}")
    command = (python or sys.executable, "-P", str(_EXAMINER))
    with tempfile.TemporaryDirectory(prefix="warplens-task-") as folder:
        request = json.dumps(msgspec.to_builtins(asked) | _places(asked, Path(folder)))
        done = run(die_with_parent(command), stdin=request, task=task)
    if "No module named 'torch'" in done.stderr:
        raise MissingToolError(
            f"{command[0]} has no PyTorch", remedy="name the Python that has it: --python path/to/python"
        )
    try:
        verdict = from_json(done.stdout.strip().splitlines()[-1], TorchVerdict)
    except (IndexError, msgspec.MsgspecError) as error:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ToolFailedError(
            f"the examiner failed: {last}", status=done.status, output=done.stderr
        ) from error
    names = dict.fromkeys([*verdict.library, *libraries(text)])
    return msgspec.structs.replace(verdict, library=tuple(names))


def solution_of(task: Path) -> Path:
    """Where a task's solution is written: beside it."""
    return task.with_name(f"{task.stem}_new.py")


def examined(asked: TorchTask, python: str, task: Task) -> TorchVerdict:
    """`examine`, as those who judge several modules ask for it. Raises the same."""
    return examine(asked, python=python, task=task)


#: Examines one module by the Python of that name; `examined`, but for tests.
Examine = Callable[[TorchTask, str, Task], TorchVerdict]


def card_of(device: str) -> Gpu | None:
    """The card that PyTorch calls by this name ("cuda", "cuda:1"); None for a device that is no card that is known."""
    kind, _, place = device.partition(":")
    return present_gpu(int(place) if place.isdecimal() else 0) if kind == "cuda" else None


def _places(asked: TorchTask, folder: Path) -> dict[str, object]:
    """Where the workers' arrays lie, what holds the candidate, and the card's lock."""
    own, others = folder / "own", folder / "others"
    own.mkdir()
    others.mkdir()
    builds = Path(asked.builds).absolute() if asked.builds else own / "extensions"
    builds.mkdir(parents=True, exist_ok=True)
    candidate = Path(asked.candidate)
    beside = candidate if holds_home(candidate.parent.resolve()) else candidate.parent
    write = tuple(dict.fromkeys((str(own), str(builds))))
    limits = Limits(cpu_seconds=_CPU_SECONDS, memory_bytes=None)
    command = confined((), Confinement(write, (str(beside),), limits, program=True))
    card = card_of(asked.device)
    return {
        "fence": {"command": command, "folder": str(own), "builds": str(builds)},
        "folder": str(others),
        "lock": str(lock_file(card.uuid)) if card is not None else "",
    }
