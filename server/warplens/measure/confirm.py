"""A winner's second examination: the whole program rebuilt, and fresh processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from warplens.measure.builds import Built
from warplens.measure.conditions import Watch
from warplens.measure.gate import pooled, verdict_of
from warplens.measure.program import ProgramRun, difference, run_program
from warplens.measure.sanitize import new_reports
from warplens.measure.settings import MeasureSettings
from warplens.measure.survey import survey
from warplens.measure.target import Target
from warplens.measure.timing import bootstrap, ratio
from warplens.measure.verdict import Interval, State, Verdict
from warplens.measure.visits import Heard, Visits
from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect.toolchain import Toolchain
from warplens_tools.errors import CompileError, InputError, TimeLimitError
from warplens_tools.evidence import Resources, Unknown
from warplens_tools.run.build import Overlay, build_program, start_command
from warplens_tools.run.cancel import CancelToken, Progress
from warplens_tools.run.cubin import unit_free_name
from warplens_tools.run.probe.visit import Command
from warplens_tools.run.workload import Workload


class ProgramGain(msgspec.Struct, frozen=True):
    """The whole program, original against rebuilt, in alternating runs."""

    baseline_seconds: Interval
    candidate_seconds: Interval
    #: baseline / candidate: above 1 is faster.
    speedup: Interval


class Confirmation(msgspec.Struct, frozen=True):
    """A winner measured again; its `verdict` alone is what may be reported as a gain."""

    verdict: Verdict
    program: ProgramGain | None = None
    #: What could not be examined.
    unknown: tuple[Unknown, ...] = ()


def confirm(
    built: Built,
    *,
    workload: Workload,
    text: str,
    toolchain: Toolchain,
    arch: str,
    gpu: Gpu,
    program: Path,
    visits: Callable[[], Visits],
    library: Path,
    baseline_resources: Resources,
    target: Target,
    settings: MeasureSettings,
    folder: Path,
    watch: Watch,
    progress: Progress,
    cancel: CancelToken | None,
) -> Confirmation:
    """Rebuild, run, compare, and measure in fresh processes. Raises as `Judge.confirm`."""

    def fail(state: State, reason: str) -> Confirmation:
        resources = built.compiled.resources
        return Confirmation(
            Verdict(
                built.candidate.id, state, reason, resources=resources, baseline_resources=baseline_resources
            )
        )

    progress("rebuilding the program", None)
    try:
        rebuilt = build_program(
            workload,
            toolchain=toolchain,
            arch=arch,
            folder=folder,
            overlay=Overlay(workload.source, text),
            timeout=settings.compile_seconds,
            cancel=cancel,
        )
    except CompileError as error:
        return fail("not_built", str(error))
    old, new = start_command(workload, program), start_command(workload, rebuilt)
    progress("measuring in fresh processes", None)
    heards = _fresh(built, visits, settings, cancel)
    verdict = _verdict(heards, built, gpu, settings, baseline_resources, watch)
    if verdict.state != "faster":
        return Confirmation(verdict)
    progress("running the rebuilt program", None)
    try:
        before, after = _alternating(old, new, workload.time_limit, settings.program_runs, cancel)
    except TimeLimitError:
        return fail("hung", f"the rebuilt program did not end within {workload.time_limit:g} s")
    exact = all(h.result.bitwise for h in heards)
    strange = difference(before, after, exact=exact) or _geometry(new, library, folder, built, target, cancel)
    if strange:
        return fail("wrong" if "prints" in strange or "exits" in strange else "unproven", strange)
    progress("looking for faults with compute-sanitizer", None)
    fault, unknown = new_reports(
        old,
        new,
        kernel=target.compiled.qualified_name.rsplit("::", 1)[-1],
        toolchain=toolchain,
        time_limit=settings.sanitizer_seconds,
        cancel=cancel,
    )
    if fault:
        return fail("wrong", fault)
    return Confirmation(verdict, _gain(before, after, settings), unknown)


def _fresh(
    built: Built, visits: Callable[[], Visits], settings: MeasureSettings, cancel: CancelToken | None
) -> list[Heard]:
    """One visit per process; stops at the first that does not find it right."""
    heards: list[Heard] = []
    for _ in range(settings.confirmations):
        visits().judge([built.job], heards.append, cancel)
        if heards[-1].result.state != "right":
            break
    return heards


def _verdict(
    heards: list[Heard],
    built: Built,
    gpu: Gpu,
    settings: MeasureSettings,
    baseline_resources: Resources,
    watch: Watch,
) -> Verdict:
    def of(heard: Heard) -> Verdict:
        return verdict_of(
            heard,
            gpu=gpu,
            settings=settings,
            resources=built.compiled.resources,
            baseline_resources=baseline_resources,
            conditions=watch.now(),
            build_seconds=built.seconds,
        )

    each = [of(heard) for heard in heards]
    odd = next((v for v in each if v.state != "faster"), None)
    if odd is not None:
        words = f"in fresh process {each.index(odd) + 1}: {odd.reason}"
        return msgspec.structs.replace(odd, reason=words)
    last = heards[-1]
    result = msgspec.structs.replace(last.result, timings=pooled(heards))
    verdict = of(msgspec.structs.replace(last, result=result))
    ratios = ", ".join(f"{v.timings[0].speedup.median:.3f}" for v in each)
    return msgspec.structs.replace(
        verdict, reason=f"{verdict.reason}; in each of {len(each)} fresh processes: {ratios}"
    )


def _alternating(
    old: Command, new: Command, time_limit: float, runs: int, cancel: CancelToken | None
) -> tuple[list[ProgramRun], list[ProgramRun]]:
    before: list[ProgramRun] = []
    after: list[ProgramRun] = []
    for _ in range(runs):
        before.append(run_program(old, time_limit, cancel))
        after.append(run_program(new, time_limit, cancel))
    return before, after


def _geometry(
    new: Command, library: Path, folder: Path, built: Built, target: Target, cancel: CancelToken | None
) -> str:
    """Why the rebuilt program's launches are not those that were judged; "" if they are."""
    try:
        surveyed = survey(new, library, folder, 60.0, cancel)
    except InputError as error:
        return f"the rebuilt program cannot be followed: {error}"
    job, shape = built.job, target.shape
    wanted = (
        job.grid or shape.grid,
        job.block or shape.block,
        shape.shared if job.shared is None else job.shared,
    )
    name = unit_free_name(job.entry)
    found = {(s.grid, s.block, s.shared) for s in surveyed if unit_free_name(s.mangled) == name}
    if wanted in found:
        return ""
    return f"the rebuilt program launches the kernel as {sorted(found)}, judged was {wanted}"


def _gain(before: list[ProgramRun], after: list[ProgramRun], settings: MeasureSettings) -> ProgramGain:
    old, new = [r.seconds for r in before], [r.seconds for r in after]
    return ProgramGain(bootstrap(old, settings), bootstrap(new, settings), ratio(old, new, settings))
