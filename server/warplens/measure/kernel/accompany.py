# SPDX-License-Identifier: Apache-2.0
"""The whole program with candidates' device code in its kernels' places, in the user's own build of it.

    ran = accompany(place, [Replacement(live, job, launches=40, parameters=...)], settings, folder)
    ran.state, ran.reason       # "right", or the first launch that was not
    ran.program                 # its exit and output, to be compared with the baseline's

No host code of a candidate is run. Launches drawn at random are compared with the baseline from equal memory, runs of
two and three consecutive ones among them, all of them where time allows; every launch's results are the candidate's.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens.measure.program.whole import ProgramRun
from warplens.measure.verdict import State
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.probe.job import Job, JobCandidate, JobParameter, Shape
from warplens_tools.run.probe.records import Accompanied, Begin, Compared, Failed, Record, Stage
from warplens_tools.run.probe.visit import ProbeRun, run_with_probe
from warplens_tools.toolchain.demangle import qualified_name

Found = Literal["right"] | State
#: Questions that the baseline itself may not stand, by the stage in which it died.
_QUESTIONS = {"poison": "poison", "fill": "fill", "moved inputs": "perturb"}
#: The program's own start under the probe, and what is beyond the budget of comparisons, in seconds.
_OVERHEAD = 30.0


class Replacement(msgspec.Struct, frozen=True):
    """A candidate for one kernel of the program."""

    #: Mangled, as the running program knows it.
    kernel: str
    candidate: JobCandidate
    #: How many launches of it the program makes, over all shapes.
    launches: int
    parameters: tuple[JobParameter, ...] = ()
    #: Its geometry by the baseline's. Where this is empty `candidate`'s own holds at every shape; where it is not,
    #: launches of other shapes stay the baseline's, which `Accompanied.left` then says.
    geometries: tuple[tuple[Shape, Shape], ...] = ()


class AccompaniedRun(msgspec.Struct, frozen=True):
    """One whole run."""

    #: "right" where every compared launch was; else what the first other one was, or "unproven".
    state: Found
    reason: str
    #: One per kernel; () where the program was ended before its own end.
    kernels: tuple[Accompanied, ...]
    compared: tuple[Compared, ...]
    #: How the program ended and what it printed; None where it was ended.
    program: ProgramRun | None = None
    #: Questions that the baseline did not stand, and that were left out.
    given_up: tuple[str, ...] = ()


def accompany(
    place: VisitSpec,
    replacements: Sequence[Replacement],
    settings: MeasureSettings,
    folder: Path,
    *,
    stands: bool = True,
    task: Task = UNATTENDED,
) -> AccompaniedRun:
    """Run the program once; again without a question that the baseline itself dies of.

    Args:
        stands: launches are the candidates' own; else only those that are compared run them, and the program goes
            on with the baseline's results.

    Raises:
        InputError: the probe cannot work in the program; says why.
        MissingToolError, CancelledError: as named.
    """
    given_up: list[str] = []
    while True:
        run = _run(place, replacements, settings, folder, stands, given_up, task)
        question = _died_of(run.records)
        if question is None or question in given_up:
            return _told(run, replacements, tuple(given_up))
        given_up.append(question)


def _run(
    place: VisitSpec,
    replacements: Sequence[Replacement],
    settings: MeasureSettings,
    folder: Path,
    stands: bool,
    given_up: Sequence[str],
    task: Task,
) -> ProbeRun:
    with tempfile.TemporaryDirectory(dir=folder, prefix="accompany-") as at:
        job = Job(
            mode="accompany",
            result=str(Path(at) / "records.jsonl"),
            parent=os.getpid(),
            helpers=str(place.helpers),
            seed=random.SystemRandom().getrandbits(48),
            variables=place.variables,
            held=place.held,
            candidates=tuple(_candidate(r) for r in replacements),
            options={
                "repeats": settings.accompany_repeats,
                "learn_seconds": settings.learn_seconds,
                "tolerance_factor": settings.tolerance_factor,
                "lowered": settings.lowered_error if settings.lower_precision else 0.0,
                "baseline_limit": place.time_limit,
                "hang_factor": settings.hang_factor,
                "hang_seconds": settings.hang_seconds,
                "poison": "poison" not in given_up,
                "fill": "fill" not in given_up,
                "perturb": settings.perturb_inputs and "perturb" not in given_up,
                "lazily": True,
                "compare_seconds": settings.accompany_seconds / max(1, len(replacements)),
                "stands": stands,
            },
        )
        return run_with_probe(
            place.command,
            job,
            place.library,
            timeout=3 * place.time_limit + _OVERHEAD + 3 * settings.accompany_seconds,
            stall=settings.visit_seconds_per_candidate,
            task=task,
        )


def _candidate(replacement: Replacement) -> JobCandidate:
    return msgspec.structs.replace(
        replacement.candidate,
        kernel=replacement.kernel,
        launches=max(1, replacement.launches),
        parameters=replacement.parameters,
        geometries=replacement.geometries,
    )


def _died_of(records: Sequence[Record]) -> str | None:
    """The question in whose stage the records end, while only the baseline ran; None if they do not."""
    last = next((r for r in reversed(records) if not isinstance(r, Failed)), None)
    return _QUESTIONS.get(last.name) if isinstance(last, Stage) else None


def _told(run: ProbeRun, replacements: Sequence[Replacement], given_up: tuple[str, ...]) -> AccompaniedRun:
    compared = tuple(r for r in run.records if isinstance(r, Compared))
    kernels = tuple(r for r in run.records if isinstance(r, Accompanied))
    state, reason = _state(run, compared, kernels, replacements)
    done = run.completed
    ended = done is None or not kernels
    program = (
        None if done is None or ended else ProgramRun(done.status, done.seconds, done.stdout, done.stderr)
    )
    return AccompaniedRun(state, reason, kernels, compared, program, given_up)


def _state(
    run: ProbeRun,
    compared: Sequence[Compared],
    kernels: Sequence[Accompanied],
    replacements: Sequence[Replacement],
) -> tuple[Found, str]:
    odd = next((c for c in compared if c.state != "right"), None)
    if odd is not None:
        grid = "x".join(map(str, odd.grid))
        return (
            odd.state,
            f"at launch {odd.launch} of {qualified_name(odd.kernel)}, with grid {grid}: {odd.reason}",
        )
    failed = next((r for r in run.records if isinstance(r, Failed)), None)
    if failed is not None:
        raise InputError(f"the program cannot be accompanied: {failed.reason}")
    if run.completed is None:
        last = next((r for r in reversed(run.records) if isinstance(r, Begin | Compared)), None)
        what = "a launch of it did not come back" if isinstance(last, Begin) else "the program did not end"
        return "hung", f"with the candidate in the kernel's place, {what}"
    if not kernels:
        status = run.completed.status
        return "crashed", f"with the candidate in the kernel's place, the program ended early, with {status}"
    return _whole(kernels, replacements)


def _whole(kernels: Sequence[Accompanied], replacements: Sequence[Replacement]) -> tuple[Found, str]:
    never = {r.kernel for r in replacements} - {k.kernel for k in kernels if k.compared}
    if never:
        return "unproven", f"no launch of {min(never)} was compared"
    left = next((k for k in kernels if k.left), None)
    if left is not None:
        return "unproven", f"not every launch of {left.kernel} was the candidate's: {left.left}"
    words = (
        f"{k.compared} of {k.launches} launches of {qualified_name(k.kernel)} compared at {k.shapes} shapes"
        for k in kernels
    )
    return "right", "; ".join(words)
