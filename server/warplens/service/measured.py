# SPDX-License-Identifier: Apache-2.0
"""What was counted of a file's kernels, as the search reads it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from warplens.agent.priors import busy_shares
from warplens.measure.build.includes import uses_cutlass
from warplens.measure.exchange import Counted
from warplens.service.check import by_kernel
from warplens.service.profile import ProfileOptions, launches_of, profile_file
from warplens.service.profile_report import ProfileReport
from warplens.service.report import FileReport, KernelReport
from warplens.service.service import CheckOptions, Service, wants_binary
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import CancelledError, CompileError, WarplensError
from warplens_tools.evidence import CounterEvidence, KernelEvidence, LaunchTiming
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain


def report_of(service: Service, path: Path, arch: str, task: Task) -> FileReport:
    """A file's report, of the tiers that need no run of its program.

    Raises:
        InputError, CompileError, MissingToolError, CancelledError: as `Service.check_file`.
    """
    options = CheckOptions(arch=arch or None)
    return service.check_file(path, options, task=task).files[0]


class Launched(msgspec.Struct, frozen=True):
    """How a kernel of a version is launched and how long that takes, on which card."""

    kernel: str
    timing: LaunchTiming
    gpu: Gpu


def version_report(
    service: Service, path: Path, unit: Path, arch: str, task: Task, text: str, launched: Launched | None
) -> FileReport:
    """The report of a version of a file that is compiled in `unit`: with its machine code where a compiler is here, and
    judged as it was launched where that was measured.

    For versions that were judged: their text was found fit to be compiled, and compiled, by the judge. What includes
    CUTLASS takes minutes to compile, and a header's version is in no unit: of those the source alone.

    Raises:
        CancelledError: `task` was stopped.
    """
    if unit != path or uses_cutlass(text):
        return service.check_text(path, text)
    options = CheckOptions(arch=arch or None)
    if launched is None:
        *_, last = service.stages(path, options, text=SourceText(text), early=False, task=task)
        return last.report
    loaded = service.settings_for(path)
    file = service.opened(path, SourceText(text), unit, loaded, launched.gpu)
    binary = None
    if wants_binary(options, loaded.settings, service.toolchain(loaded.settings)):
        tier = msgspec.structs.replace(service.binary_tier(file, unit, loaded, options.arch), overlay=text)
        # a version that needs other options than the file's check gives is judged by its text and its time
        with contextlib.suppress(CompileError):
            binary = tier.collect(task=task)
    evidence = by_kernel(binary, file.model.kernels, str(path)) if binary is not None else {}
    known = evidence.get(launched.kernel, KernelEvidence())
    evidence[launched.kernel] = msgspec.structs.replace(known, timing=launched.timing)
    tiers = ("source", *(["binary"] if binary is not None else []), "timing")
    return file.measured(binary, evidence, tiers).report


def counted_report(service: Service, path: Path, kernel: str, arch: str, task: Task) -> FileReport | None:
    """A file's report with the counters of one kernel; None where this machine cannot collect them.

    Raises:
        CancelledError: `task` was stopped.
    """
    if not present_gpus() or resolve_toolchain().find("ncu") is None:
        return None
    wanted = ProfileOptions(kernel=kernel, arch=arch or None, tier="counters")
    try:
        return profile_file(service, path, wanted, task=task).files[0]
    except CancelledError:
        raise
    except WarplensError as error:
        # a search does without
        task.say(f"no counters: {error}", None)
        return None


def counted_here(service: Service, path: Path, kernel: str, task: Task) -> Counted:
    """The counters of one kernel on this machine's card, for a search elsewhere; or why there are none.

    Raises:
        CancelledError: `task` was stopped.
    """
    try:
        return Counted(launches_of(service, path, kernel, task=task))
    except CancelledError:
        raise
    except WarplensError as error:
        task.say(f"no counters: {error}", None)
        return Counted(why=str(error))


def counted_elsewhere(
    service: Service, path: Path, kernel: str, arch: str, counted: Counted, task: Task
) -> FileReport | None:
    """A file's report with counters that another machine read; None where it could not.

    Raises:
        CancelledError: `task` was stopped.
    """
    if not counted.launches:
        task.say(f"no counters: {counted.why}", None)
        return None
    wanted = ProfileOptions(kernel=kernel, arch=arch or None, launches=counted.launches)
    return profile_file(service, path, wanted, task=task).files[0]


def busy_of(report: FileReport, kernel: str) -> dict[str, float]:
    """How busy each resource was while the kernel ran, 0 to 1 of its peak; the unseen is absent."""
    profile = _profile(report, kernel)
    if profile is None:
        return {}
    counters = CounterEvidence(
        origin=profile.origin,
        kernel_name=kernel,
        gpu_name=profile.gpu,
        compute_capability="",
        grid=profile.grid,
        block=profile.block,
        metrics=profile.metrics,
    )
    return busy_shares(counters)


def raw_of(kernel: KernelReport) -> dict[str, float]:
    """A kernel's counters and stall shares, named as Nsight Compute names them; where nothing was counted, what its
    code takes."""
    profile, taken = kernel.profile, kernel.resources
    if profile is not None:
        stalls = {
            f"smsp__pcsamp_warps_issue_stalled_{why} (share)": part for why, part in profile.stalls.items()
        }
        return {**profile.metrics, **stalls}
    static = msgspec.structs.asdict(taken) if taken is not None else {}
    return {
        f"static {name}": float(value) for name, value in static.items() if isinstance(value, int | float)
    }


def headroom_of(report: FileReport, kernel: str) -> float | None:
    """The time taken over the time that the nearest roof allows; None where no roof was reached for."""
    profile = _profile(report, kernel)
    if profile is None or profile.roofline is None or not profile.roofline.reaches:
        return None
    # a share above 1 says that the ceiling is too low, not that there is less than no room
    nearest = profile.roofline.reaches[0].headroom
    return None if nearest is None else max(nearest, 1.0)


def _profile(report: FileReport, kernel: str) -> ProfileReport | None:
    return next((k.profile for k in report.kernels if k.qualified_name == kernel), None)
