# SPDX-License-Identifier: Apache-2.0
"""From analysis to the wire form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.service.report import FileReport, KernelReport, ResourceReport, page_url
from warplens_tools.analysis import KernelAnalysis
from warplens_tools.arch.gpu import Gpu
from warplens_tools.cuda.model import SourceModel
from warplens_tools.evidence import Unknown
from warplens_tools.finding import Finding
from warplens_tools.kernel_code import MAX_ACCESSES
from warplens_tools.launches import Launches


def file_report(
    path: str,
    model: SourceModel,
    analyses: Sequence[KernelAnalysis],
    findings: Sequence[Finding],
    gpu: Gpu,
    tiers: Sequence[str],
    *,
    digest: str = "",
) -> FileReport:
    """One file; `findings` are those of the file and of its kernels, best first; `digest` is `FileReport`'s."""
    return FileReport(
        path=path,
        kernels=tuple(kernel_report(analysis, model, gpu) for analysis in analyses),
        findings=tuple(msgspec.structs.replace(f, page=page_url(f.code, f.slug)) for f in findings),
        tiers=tuple(tiers),
        digest=digest,
        arch=gpu.arch,
        syntax_errors=len(model.errors),
    )


def kernel_report(analysis: KernelAnalysis, model: SourceModel, gpu: Gpu) -> KernelReport:
    """One kernel."""
    kernel = analysis.kernel
    sites = model.all_launches_of(kernel)
    return KernelReport(
        name=kernel.name,
        qualified_name=kernel.qualified_name,
        line=kernel.span.line,
        end_line=kernel.span.end_line,
        column=kernel.name_span.column,
        name_line=kernel.name_span.line,
        bottleneck=analysis.bottleneck,
        resources=_resources(analysis, model, gpu),
        launch_lines=tuple(site.span.line for site in model.launches_of(kernel)),
        launched_in=tuple(f"{site.path}:{site.span.line}" for site in model.elsewhere if site in sites),
    )


def unknown_kernels(
    analyses: Sequence[KernelAnalysis], model: SourceModel, *, compiled: bool
) -> list[Unknown]:
    """What the tiers collected could not say of each kernel."""
    unknowns = _without_sass(analyses)
    for analysis in analyses:
        name = analysis.kernel.qualified_name
        if compiled and not analysis.evidence.compiled:
            why = "no instantiation of the template is compiled in this unit"
            if not analysis.kernel.template_parameters:
                why = "the compiler emitted no code for it (static and never launched, or excluded by #if)"
            unknowns.append(
                Unknown(f"resources and SASS of {name}", why, "launch or instantiate it in the unit")
            )
        if compiled and analysis.evidence.compiled and not model.all_launches_of(analysis.kernel):
            why = "no launch in this file or in others of its folder names it"
            remedy = "" if analysis.kernel.launch_bounds else "its __launch_bounds__ would do instead"
            unknowns.append(Unknown(f"grid and block of {name}", why, remedy))
        if analysis.left_out:
            why = f"the first {MAX_ACCESSES} array accesses are judged, {analysis.left_out} come after them"
            unknowns.append(Unknown(f"the rest of {name}", why))
        if analysis.bottleneck.bound == "unknown":
            unknowns.append(Unknown(f"what bounds {name}", analysis.bottleneck.reason))
    return unknowns


def _without_sass(analyses: Sequence[KernelAnalysis]) -> list[Unknown]:
    """That the compiled code could not be looked at, and why."""
    units = {id(b): b for a in analyses if (b := a.evidence.binary) is not None and not b.disassembled}
    unknowns = []
    for unit in units.values():
        failed = next((m.text for m in unit.messages if "nvdisasm" in m.text), "")
        why = failed or "nvdisasm was not found"
        remedy = "run `warplens setup toolchain`; `warplens doctor` shows what was looked at"
        unknowns.append(Unknown(f"the machine code (SASS) of {Path(unit.path).name}", why, remedy))
    return unknowns


def _resources(analysis: KernelAnalysis, model: SourceModel, gpu: Gpu) -> ResourceReport | None:
    worst = analysis.evidence.worst
    if worst is None:
        return None
    launches = Launches(analysis.kernel, model)
    found = launches.occupancy(worst, gpu)
    r = worst.resources
    return ResourceReport(
        arch=worst.arch,
        registers=r.registers,
        shared_bytes=r.shared_bytes,
        stack_bytes=r.stack_bytes,
        spill_store_bytes=r.spill_store_bytes,
        spill_load_bytes=r.spill_load_bytes,
        block_threads=launches.threads(worst),
        occupancy=None if found is None else found.occupancy,
        occupancy_limiter=None if found is None else "/".join(found.limiters),
        instantiation=worst.demangled,
        instantiations=len(analysis.evidence.compiled),
    )
