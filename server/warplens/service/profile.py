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
    import_reports,
    measured_gpu,
    run_and_collect,
)
from warplens.service.profile_report import profile_report
from warplens.service.report import FORMAT_VERSION, FileReport, KernelReport, Report
from warplens.service.service import Service, gpu_for, machine_unknowns
from warplens.settings import Loaded
from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect.binary import collect_binary
from warplens_tools.errors import CancelledError, InputError, WarplensError
from warplens_tools.evidence import BinaryEvidence, KernelEvidence, Unknown
from warplens_tools.run.cancel import CancelToken, Progress, no_progress
from warplens_tools.source.model import Kernel
from warplens_tools.text import SourceText


class ProfileOptions(msgspec.Struct, frozen=True):
    """What to profile. `kernel` "" means every kernel of the file that the program launches."""

    kernel: str = ""
    #: Reports to import; with any, nothing is run.
    reports: tuple[Path, ...] = ()
    #: Architecture to judge against; None means the report's card, the GPU present, the configured one.
    arch: str | None = None


def profile_file(
    service: Service,
    path: Path,
    options: ProfileOptions,
    *,
    progress: Progress = no_progress,
    cancel: CancelToken | None = None,
) -> Report:
    """One file: source and binary tiers, then counters and timeline, imported or collected here.

    A collector that could not run is in `unknown` with its reason; the rest stands without it.

    Raises:
        InputError: the file or a report cannot be read, or the file defines no such kernel.
        MissingToolError: a report needs a tool that is not here.
        CancelledError: `cancel` was triggered.
    """
    loaded = service.settings_for(path.absolute())
    file = FileCheck(path, SourceText.read(path), gpu_for(options.arch, loaded.settings), loaded.settings)
    kernels = _chosen(file, options.kernel)
    binary, unknown = _binary(service, file, loaded, options, progress, cancel)
    arch = binary.arch if binary is not None else file.gpu.arch
    subject = Subject(path, file.text, file.model, loaded, binary, arch)
    toolchain = service.toolchain(loaded.settings)
    gathered = Gathered()
    if options.reports:
        gathered = import_reports(options.reports, subject, toolchain=toolchain, cancel=cancel)
        if options.kernel:
            names = {k.qualified_name for k in kernels}
            gathered.counters = {n: c for n, c in gathered.counters.items() if n in names}
    elif file.gpu.present:
        gathered = run_and_collect(
            subject, kernels, file.gpu, toolchain=toolchain, progress=progress, cancel=cancel
        )
    gpu = file.gpu if options.arch else measured_gpu(gathered, file.gpu)
    checked = _judged(file, gpu, binary, gathered)
    return _report(checked, gathered, measured_gpu(gathered, gpu), gpu, unknown, options)


def _chosen(file: FileCheck, name: str) -> list[Kernel]:
    if not name:
        return [k for k in file.model.kernels if file.model.launches_of(k)]
    kernel = file.model.kernel(name)
    if kernel is None:
        known = ", ".join(k.qualified_name for k in file.model.kernels) or "none"
        raise InputError(f"{file.path} defines no kernel {name}", remedy=f"it defines: {known}")
    return [kernel]


def _binary(
    service: Service,
    file: FileCheck,
    loaded: Loaded,
    options: ProfileOptions,
    progress: Progress,
    cancel: CancelToken | None,
) -> tuple[BinaryEvidence | None, list[Unknown]]:
    """The binary tier, or why there is none."""
    tier = service.binary_tier(file, file.path.absolute(), loaded, options.arch)
    progress(f"compiling {file.path.name}", None)
    try:
        return collect_binary(
            tier.unit,
            toolchain=tier.toolchain,
            flags=tier.flags,
            arch=tier.arch,
            cache=tier.cache,
            cancel=cancel,
            timeout=tier.timeout,
        ), []
    except CancelledError:
        raise
    except WarplensError as error:
        return None, [Unknown(f"binary tier of {file.path.name}", str(error), error.remedy)]


def _judged(file: FileCheck, gpu: Gpu, binary: BinaryEvidence | None, gathered: Gathered) -> Checked:
    """Both stages over all tiers, against the card that was measured."""
    evidence = by_kernel(binary) if binary is not None else {}
    names = {*evidence, *gathered.counters}
    joined = {
        name: msgspec.structs.replace(
            evidence.get(name, KernelEvidence()),
            counters=gathered.counters.get(name),
            timeline=gathered.timeline,
        )
        for name in names
    }
    tiers = ["source"]
    tiers += ["binary"] if binary is not None else []
    tiers += ["counters"] if gathered.counters else []
    tiers += ["timeline"] if gathered.timeline is not None else []
    under = FileCheck(file.path, file.text, gpu, file.settings)
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
    said = [*unknown, *gathered.unknown, *_foreign(gathered, measured, judged), *checked.unknown]
    said += [] if gathered.counters else machine_unknowns()
    return Report(FORMAT_VERSION, f"warplens {__version__}", (file,), tuple(dict.fromkeys(said)))


def _with_profile(kernel: KernelReport, gathered: Gathered, gpu: Gpu) -> KernelReport:
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
