# SPDX-License-Identifier: Apache-2.0
"""One saved file through the tiers: source at once, then ptxas, then SASS, each stage reported as it is known."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import msgspec

from warplens.service.build_messages import build_findings, mend
from warplens.service.report import FileReport
from warplens.service.reporting import file_report, unknown_kernels
from warplens.service.suppression import suppressions, unknown_in, wanted
from warplens.settings import Settings
from warplens_tools.analysis import analyse_file
from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect.binary import Stage, collect_binary
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.surroundings import Surroundings
from warplens_tools.errors import CancelledError, CompileError, WarplensError
from warplens_tools.evidence import BinaryEvidence, CompiledKernel, CompilerMessage, KernelEvidence, Unknown
from warplens_tools.finding import Finding
from warplens_tools.memo import KernelMemo
from warplens_tools.micro.registry import all_tools
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import SETUP_REMEDY, Toolchain


class Checked(msgspec.Struct, frozen=True):
    """A file's report at one stage, with what that stage could not know."""

    report: FileReport
    unknown: tuple[Unknown, ...] = ()
    #: Whether no later stage of the same check follows.
    complete: bool = True
    #: Real paths of the files that the unit was compiled from; empty where nothing was compiled.
    built_from: frozenset[str] = frozenset()

    def before_the_end(self) -> Checked:
        """The same as a stage that others follow; what stays unknown is said by the last."""
        return msgspec.structs.replace(self, unknown=(), complete=False)

    def lacking(self, *unknown: Unknown) -> Checked:
        """The same, with more that is not known, said first."""
        return msgspec.structs.replace(self, unknown=(*unknown, *self.unknown))


class FileCheck:
    """The state of one check: the parsed file, and what each stage adds to it."""

    def __init__(
        self,
        path: Path,
        text: SourceText,
        gpu: Gpu,
        settings: Settings,
        memo: KernelMemo | None = None,
        around: Surroundings | None = None,
    ) -> None:
        self.path = path
        self.memo = memo
        self.text = text
        self.gpu = gpu
        self.settings = settings
        self.around = around or Surroundings()
        self.model = self.around.of(parse(text, str(path)))

    def beside(self, around: Surroundings) -> FileCheck:
        """The same, with what other files say of the launches."""
        return FileCheck(self.path, self.text, self.gpu, self.settings, self.memo, around)

    def source(self) -> Checked:
        """What the text alone says."""
        return self._checked({}, (), ("source",), compiled=False)

    def binary(self, evidence: BinaryEvidence) -> Checked:
        """What the text and the compiled unit say."""
        checked = self._checked(
            by_kernel(evidence, self.model.kernels, str(self.path)),
            build_findings(self.path, self.text, evidence.messages),
            ("source", "binary"),
            compiled=True,
            built_from=frozenset(map(os.path.realpath, evidence.dependencies)),
        )
        return checked if evidence.disassembled else checked.lacking(_no_sass(self.path, evidence))

    def measured(
        self, binary: BinaryEvidence | None, evidence: dict[str, KernelEvidence], tiers: tuple[str, ...]
    ) -> Checked:
        """What the text, the compiled unit where there is one, and measurements by qualified name say."""
        messages = build_findings(self.path, self.text, binary.messages) if binary else ()
        return self._checked(evidence, messages, tiers, compiled=binary is not None)

    def failed(self, error: WarplensError) -> Checked:
        """The source tier, and why the binary tier is missing."""
        messages: Sequence[CompilerMessage] = getattr(error, "messages", ())
        remedy = error.remedy or ("" if not isinstance(error, CompileError) else mend(str(error)))
        # what does not compile is a finding of its own, an error
        failed = not any(message.severity == "error" for message in messages)
        unknown = Unknown(f"binary tier of {self.path.name}", str(error), remedy, failed=failed)
        checked = self._checked(
            {}, build_findings(self.path, self.text, messages), ("source",), compiled=False
        )
        return checked.lacking(unknown)

    def _checked(
        self,
        evidence: dict[str, KernelEvidence],
        file_findings: Sequence[Finding],
        tiers: tuple[str, ...],
        *,
        compiled: bool,
        built_from: frozenset[str] = frozenset(),
    ) -> Checked:
        analyses = analyse_file(self.model, self.text, self.gpu, evidence, all_tools(), self.memo)
        found = [*file_findings, *(f for a in analyses for f in a.findings)]
        comments = suppressions(self.text)
        kept = wanted(found, comments, self.settings.ignore)
        report = file_report(
            str(self.path), self.model, analyses, kept, self.gpu, tiers, digest=self.text.digest
        )
        unknown = (
            *unknown_kernels(analyses, self.model, compiled=compiled),
            *unknown_in(str(self.path), comments),
            *([] if self.around.complete else [_not_all_read(self.path)]),
        )
        return Checked(report, unknown, built_from=built_from)


def _not_all_read(path: Path) -> Unknown:
    """That launches in other files may have been missed."""
    why = "more files may launch its kernels than are read for one file"
    return Unknown(
        f"some launches of the kernels of {path.name}", why, "leave folders out with the setting `exclude`"
    )


def _no_sass(path: Path, evidence: BinaryEvidence) -> Unknown:
    """Why what bounds a kernel is not known though it was compiled."""
    failed = next((m.text for m in evidence.messages if "nvdisasm" in m.text), "")
    why = failed or "no nvdisasm was found, so what bounds the kernels is not known"
    return Unknown(f"SASS of {path.name}", why, SETUP_REMEDY)


class BinaryTier(msgspec.Struct, frozen=True):
    """What the binary tier of a file is collected with."""

    unit: Path
    toolchain: Toolchain
    flags: CompileFlags
    arch: str
    cache: BinaryCache
    timeout: float
    #: Text to compile in place of the unit's own.
    overlay: str | None = None

    def collect(self, on_stage: Stage | None = None, *, task: Task = UNATTENDED) -> BinaryEvidence:
        """The unit compiled and disassembled, or as it is in the cache. Raises as `collect_binary`."""
        return collect_binary(
            self.unit,
            toolchain=self.toolchain,
            flags=self.flags,
            arch=self.arch,
            cache=self.cache,
            overlay=self.overlay,
            on_stage=on_stage,
            task=task,
            timeout=self.timeout,
        )


def stages(check: FileCheck, tier: BinaryTier, *, early: bool, task: Task = UNATTENDED) -> Iterator[Checked]:
    """The binary tier of one file; where it cannot be had, the source tier and the reason.

    With `early` first the source tier and then that with the resource report, each made while the compiler's
    tools run. The last stage is the only one that is `complete`.

    Raises:
        CancelledError: `task` was stopped; nothing runs any more.
    """
    collected = _collected(tier, task, early=early)
    source = check.source() if early else None
    if source is not None:
        yield source.before_the_end()
    try:
        for evidence, last in collected:
            found = check.binary(evidence)
            yield found if last else found.before_the_end()
    except CancelledError:
        raise
    except WarplensError as error:
        yield check.failed(error)


def _collected(tier: BinaryTier, task: Task, *, early: bool) -> Iterator[tuple[BinaryEvidence, bool]]:
    """Evidence as it comes, and whether it is the last, collected beside the caller from this call on.

    Raises:
        As `collect_binary`.
    """
    arrived: SimpleQueue[BinaryEvidence | None] = SimpleQueue()
    collector = ThreadPoolExecutor(max_workers=1, thread_name_prefix="warplens-collect")
    collecting = collector.submit(tier.collect, arrived.put if early else None, task=task)
    collecting.add_done_callback(lambda _: arrived.put(None))
    collector.shutdown(wait=False)
    return _arriving(arrived, collecting)


def _arriving(
    arrived: SimpleQueue[BinaryEvidence | None], collecting: Future[BinaryEvidence]
) -> Iterator[tuple[BinaryEvidence, bool]]:
    while (evidence := arrived.get()) is not None:
        if not collecting.done():
            yield evidence, False
    yield collecting.result(), True


def by_kernel(
    evidence: BinaryEvidence, kernels: Sequence[Kernel] = (), path: str = ""
) -> dict[str, KernelEvidence]:
    """Compiled instantiations gathered under their kernel's qualified name.

    A macro may make a kernel's name: those of `kernels`, of the file at `path`, that no compiled kernel is called as
    get the ones that were written on their lines and that no other is called as.
    """
    groups: dict[str, list[CompiledKernel]] = {}
    for compiled in evidence.kernels:
        groups.setdefault(compiled.qualified_name, []).append(compiled)
    nameless = set(groups) - {kernel.qualified_name for kernel in kernels}
    for kernel in kernels:
        if nameless and kernel.qualified_name not in groups:
            own = sorted(name for name in nameless if _is_written_in(groups[name], kernel, path))
            nameless -= set(own)
            if own:
                groups[kernel.qualified_name] = [c for name in own for c in groups.pop(name)]
    return {name: KernelEvidence(compiled=tuple(group), binary=evidence) for name, group in groups.items()}


def _is_written_in(group: Sequence[CompiledKernel], kernel: Kernel, path: str) -> bool:
    """Whether the body that all code of a compiled kernel ends in is the one of `kernel`."""
    ends = (x.lines[-1] for compiled in group for x in compiled.instructions if x.lines)
    end = next(ends, None)
    return (
        end is not None
        and os.path.realpath(end.path) == os.path.realpath(path)
        and kernel.span.contains_line(end.line)
    )
