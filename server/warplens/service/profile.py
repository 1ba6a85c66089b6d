# SPDX-License-Identifier: Apache-2.0
"""`profile`: everything that is known of a file's kernels, measurements included."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens import __version__
from warplens.service.check import Checked, FileCheck, by_kernel
from warplens.service.profile_collect import (
    Gathered,
    Subject,
    count_launches,
    import_reports,
    measured_gpu,
    run_and_collect,
    take_launches,
)
from warplens.service.profile_report import profile_report
from warplens.service.report import FORMAT_VERSION, FileReport, KernelReport, Report
from warplens.service.service import (
    CheckOptions,
    Service,
    gpu_for,
)
from warplens.service.unknowns import machine_unknowns, not_included
from warplens.settings import Loaded
from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect.profiled import ProfiledLaunch, representative
from warplens_tools.cuda.model import Kernel
from warplens_tools.errors import CancelledError, CompileError, InputError, WarplensError
from warplens_tools.evidence import BinaryEvidence, KernelEvidence, Tier, Unknown
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import Toolchain


class ProfileOptions(msgspec.Struct, frozen=True):
    """What to profile. `kernel` "" means every kernel of the file that the program launches."""

    kernel: str = ""
    #: Reports to import; with any, nothing is run.
    reports: tuple[Path, ...] = ()
    #: Architecture to judge against; None means the report's card, the GPU present, the configured one.
    arch: str | None = None
    #: The highest tier to collect by running the program; imported reports count whatever theirs is.
    tier: Tier = "timeline"
    #: Whether that tier was asked for by name: then what is missing of it is a failure, not a circumstance.
    named: bool = False
    #: Launches that were profiled on another machine; with any, nothing is run either.
    launches: tuple[ProfiledLaunch, ...] = ()

    @property
    def imports(self) -> bool:
        """Whether measurements come from elsewhere."""
        return bool(self.reports or self.launches)


def profile_file(service: Service, path: Path, options: ProfileOptions, *, task: Task = UNATTENDED) -> Report:
    """One file: source and binary tiers, then counters and timeline, imported or collected here.

    A collector that could not run is in `unknown` with its reason; the rest stands without it.

    Raises:
        InputError: the file or a report cannot be read, or the file defines no such kernel.
        MissingToolError: a report needs a tool that is not here.
        CancelledError: `task` was stopped.
    """
    subject, file, unknown = _opened(service, path, options.arch, task)
    kernels = _chosen(file, options.kernel)
    if not options.imports and not file.gpu.present and subject.unit is not None:
        unknown.append(_no_card(path, options.tier))
    toolchain = service.toolchain(subject.loaded.settings)
    gathered = _gathered(subject, file, kernels, options, toolchain, task)
    gpu = file.gpu if options.arch else measured_gpu(gathered, file.gpu)
    checked = _judged(file, gpu, subject.binary, gathered)
    return _report(checked, gathered, measured_gpu(gathered, gpu), gpu, unknown, options)


def launches_of(
    service: Service, path: Path, kernel: str, *, task: Task = UNATTENDED
) -> tuple[ProfiledLaunch, ...]:
    """The launch of one kernel that stands for all, with its counters, from a run of the file's program here; none
    where the program never launched it.

    Raises:
        InputError: the file cannot be read, or defines no such kernel.
        MissingToolError: there is no Nsight Compute.
        WarplensError: the counters cannot be read.
    """
    subject, file, _ = _opened(service, path, None, task)
    (chosen,) = _chosen(file, kernel)
    toolchain = service.toolchain(subject.loaded.settings)
    launches = count_launches(subject, chosen, file.gpu, toolchain=toolchain, task=task)
    return (representative(launches),) if launches else ()


def _opened(
    service: Service, path: Path, arch: str | None, task: Task
) -> tuple[Subject, FileCheck, list[Unknown]]:
    """The file as it is compiled, and why its binary tier is missing where it is."""
    loaded = service.settings_for(path.absolute())
    unit = service.unit(path.absolute(), loaded)
    file = service.opened(path, SourceText.read(path), unit, loaded, gpu_for(arch, loaded.settings))
    binary, unknown = _binary(service, file, unit, loaded, arch, task)
    built = binary.arch if binary is not None else file.gpu.arch
    return Subject(path, unit, file.text, file.model, loaded, binary, built), file, unknown


def _gathered(
    subject: Subject,
    file: FileCheck,
    kernels: Sequence[Kernel],
    options: ProfileOptions,
    toolchain: Toolchain,
    task: Task,
) -> Gathered:
    """The reports' measurements, or those of a run here; of the chosen kernels."""
    if options.imports:
        gathered = import_reports(options.reports, subject, toolchain=toolchain, task=task)
        if options.launches:
            take_launches(options.launches, gathered, subject, "")
        if options.kernel:
            names = {k.qualified_name for k in kernels}
            gathered.counters = {n: c for n, c in gathered.counters.items() if n in names}
        return gathered
    if not file.gpu.present or subject.unit is None:
        return Gathered()
    tier, gpu = options.tier, file.gpu
    return run_and_collect(subject, kernels, gpu, tier=tier, toolchain=toolchain, task=task)


def check_measured(
    service: Service, paths: Sequence[Path], options: CheckOptions, *, task: Task = UNATTENDED
) -> Report:
    """`check` up to a tier above `binary`: each file's program is run for it. Below, `Service.check`.

    Raises:
        As `Service.check`.
    """
    tier = service.tier_to_run(options)
    if tier is None:
        return service.check(paths, options, task=task)
    wanted = ProfileOptions(arch=options.arch, tier=tier, named=True)
    there = service.files(paths, options.arch)
    files = there.files
    found: list[Report] = []
    for number, path in enumerate(files):
        try:
            found.append(profile_file(service, path, wanted, task=task.step(number, len(files))))
        except InputError as error:
            if len(files) == 1:
                raise
            found.append(service.unreadable(path, error))
    reports = tuple(file for report in found for file in report.files)
    unknown = tuple(dict.fromkeys(u for report in found for u in report.unknown))
    return Report(FORMAT_VERSION, f"warplens {__version__}", reports, unknown, there.skipped)


def _chosen(file: FileCheck, name: str) -> list[Kernel]:
    """The kernel of that name, else all that are launched."""
    if name:
        kernel = file.model.kernel(name)
        if kernel is None:
            known = ", ".join(k.qualified_name for k in file.model.kernels) or "none"
            raise InputError(f"{file.path} defines no kernel {name}", remedy=f"it defines: {known}")
        return [kernel]
    return [k for k in file.model.kernels if file.model.all_launches_of(k)]


def _binary(
    service: Service, file: FileCheck, unit: Path | None, loaded: Loaded, arch: str | None, task: Task
) -> tuple[BinaryEvidence | None, list[Unknown]]:
    """The binary tier, or why there is none."""
    if unit is None:
        return None, [not_included(file.path)]
    tier = service.binary_tier(file, unit, loaded, arch)
    task.say(f"compiling {unit.name}", None)
    try:
        return tier.collect(task=task), []
    except CancelledError:
        raise
    except WarplensError as error:
        failed = not isinstance(error, CompileError)
        return None, [Unknown(f"binary tier of {file.path.name}", str(error), error.remedy, failed=failed)]


def _no_card(path: Path, tier: Tier) -> Unknown:
    return Unknown(
        f"{tier} tier of {path.name}",
        "there is no CUDA GPU in this machine",
        f"run it on a machine with one, or import a report: warplens profile {path.name} --import REPORT.ncu-rep",
        failed=True,
    )


def _judged(file: FileCheck, gpu: Gpu, binary: BinaryEvidence | None, gathered: Gathered) -> Checked:
    """Both stages over all tiers, against the card that was measured."""
    evidence = by_kernel(binary) if binary is not None else {}
    names = {*evidence, *gathered.counters, *gathered.timings}
    joined = {
        name: msgspec.structs.replace(
            evidence.get(name, KernelEvidence()),
            timing=gathered.timings.get(name),
            counters=gathered.counters.get(name),
            timeline=gathered.timeline,
        )
        for name in names
    }
    tiers = ["source"]
    tiers += ["binary"] if binary is not None else []
    tiers += ["timing"] if gathered.timings else []
    tiers += ["counters"] if gathered.counters else []
    tiers += ["timeline"] if gathered.timeline is not None else []
    under = FileCheck(file.path, file.text, gpu, file.settings, around=file.around)
    return under.measured(binary, joined, tuple(tiers))


def _report(
    checked: Checked,
    gathered: Gathered,
    measured: Gpu,
    judged: Gpu,
    unknown: Sequence[Unknown],
    options: ProfileOptions,
) -> Report:
    kernels = [_with_profile(k, gathered, measured) for k in checked.report.kernels]
    findings = checked.report.findings
    if options.kernel:
        chosen = {options.kernel, options.kernel.rsplit("::", 1)[-1]}
        kernels = [k for k in kernels if k.qualified_name in chosen or k.name in chosen]
        names = {k.qualified_name for k in kernels}
        findings = tuple(f for f in findings if not f.kernel or f.kernel in names)
    file: FileReport = msgspec.structs.replace(
        checked.report, kernels=tuple(kernels), findings=findings, timeline=gathered.timeline
    )
    unseen = gathered.unknown
    if not options.named and (gathered.counters or gathered.timings or gathered.timeline):
        unseen = [msgspec.structs.replace(u, failed=False) for u in unseen]
    said = [*unknown, *unseen, *_foreign(gathered, measured, judged), *checked.unknown]
    said += machine_unknowns() if not said and not options.imports else []
    return Report(FORMAT_VERSION, f"warplens {__version__}", (file,), tuple(dict.fromkeys(said)))


def _with_profile(kernel: KernelReport, gathered: Gathered, gpu: Gpu) -> KernelReport:
    kernel = msgspec.structs.replace(kernel, timing=gathered.timings.get(kernel.qualified_name))
    counters = gathered.counters.get(kernel.qualified_name)
    if counters is None:
        return kernel
    report = gathered.reports.get(kernel.qualified_name, "")
    return msgspec.structs.replace(kernel, profile=profile_report(counters, gpu, report=report))


def _foreign(gathered: Gathered, measured: Gpu, judged: Gpu) -> list[Unknown]:
    if not gathered.counters or measured.name == judged.name:
        return []
    return [
        Unknown(
            f"counters on {judged.name}",
            f"they were recorded on {measured.name} and tell of that GPU",
            f"profile on a {judged.arch} GPU, or leave out --arch",
        )
    ]
