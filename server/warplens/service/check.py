"""One saved file through the tiers: source at once, then ptxas, then SASS, each stage reported as it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from warplens.service.build_messages import build_findings
from warplens.service.report import FileReport
from warplens.service.reporting import file_report, unknown_kernels
from warplens.service.suppression import suppressions, wanted
from warplens.settings import Settings
from warplens_tools.analysis import analyse_file
from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect.binary import collect_binary
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import CancelledError, CompileError, WarplensError
from warplens_tools.evidence import BinaryEvidence, CompiledKernel, CompilerMessage, KernelEvidence, Unknown
from warplens_tools.finding import Finding
from warplens_tools.memo import KernelMemo
from warplens_tools.micro.registry import all_tools
from warplens_tools.process.cancel import CancelToken
from warplens_tools.text import SourceText
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain


class Checked(msgspec.Struct, frozen=True):
    """A file's report at one stage, with what that stage could not know."""

    report: FileReport
    unknown: tuple[Unknown, ...] = ()

    def lacking(self, unknown: Unknown) -> Checked:
        """The same, with one more thing that is not known, said first."""
        return Checked(self.report, (unknown, *self.unknown))


class FileCheck:
    """The state of one check: the parsed file, and what each stage adds to it."""

    def __init__(
        self, path: Path, text: SourceText, gpu: Gpu, settings: Settings, memo: KernelMemo | None = None
    ) -> None:
        self.path = path
        self.memo = memo
        self.text = text
        self.gpu = gpu
        self.settings = settings
        self.model = parse(text, str(path))

    def source(self) -> Checked:
        """What the text alone says."""
        return self._checked({}, (), ("source",), compiled=False)

    def binary(self, evidence: BinaryEvidence) -> Checked:
        """What the text and the compiled unit say."""
        return self._checked(
            by_kernel(evidence),
            build_findings(self.path, self.text, evidence.messages),
            ("source", "binary"),
            compiled=True,
        )

    def measured(
        self, binary: BinaryEvidence | None, evidence: dict[str, KernelEvidence], tiers: tuple[str, ...]
    ) -> Checked:
        """What the text, the compiled unit where there is one, and measurements by qualified name say."""
        messages = build_findings(self.path, self.text, binary.messages) if binary else ()
        return self._checked(evidence, messages, tiers, compiled=binary is not None)

    def failed(self, error: WarplensError) -> Checked:
        """The source tier, and why the binary tier is missing."""
        messages: Sequence[CompilerMessage] = getattr(error, "messages", ())
        remedy = error.remedy or ("" if not isinstance(error, CompileError) else "mend the compiler's errors")
        # what does not compile is a finding of its own, an error
        failed = not isinstance(error, CompileError)
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
    ) -> Checked:
        analyses = analyse_file(self.model, self.text, self.gpu, evidence, all_tools(), self.memo)
        found = [*file_findings, *(f for a in analyses for f in a.findings)]
        kept = wanted(found, suppressions(self.text), self.settings.ignore)
        report = file_report(
            str(self.path), self.model, analyses, kept, self.gpu, tiers, digest=self.text.digest
        )
        return Checked(report, tuple(unknown_kernels(analyses, self.model, compiled=compiled)))


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


def check_binary(
    check: FileCheck,
    tier: BinaryTier,
    *,
    cancel: CancelToken | None = None,
    on_partial: Callable[[Checked], None] | None = None,
) -> Checked:
    """The binary tier of one file; where it cannot be had, the source tier and the reason.

    `on_partial` gets the source tier, then that with the resource report, while the compiler's tools run.

    Raises:
        CancelledError: `cancel` was triggered; nothing runs any more.
    """

    told: list[Checked] = []

    def tell(checked: Callable[[], Checked]) -> None:
        if on_partial is not None:
            told.append(checked())
            on_partial(told[-1])

    def stage(evidence: BinaryEvidence) -> None:
        if not told:
            tell(check.source)
        tell(lambda: check.binary(evidence))

    try:
        evidence = collect_binary(
            tier.unit,
            toolchain=tier.toolchain,
            flags=tier.flags,
            arch=tier.arch,
            cache=tier.cache,
            overlay=tier.overlay,
            on_start=lambda: tell(check.source),
            on_stage=stage,
            cancel=cancel,
            timeout=tier.timeout,
        )
    except CancelledError:
        raise
    except WarplensError as error:
        return check.failed(error)
    if not told:
        tell(check.source)
    return check.binary(evidence)


def by_kernel(evidence: BinaryEvidence) -> dict[str, KernelEvidence]:
    """Compiled instantiations gathered under their kernel's qualified name."""
    groups: dict[str, list[CompiledKernel]] = {}
    for compiled in evidence.kernels:
        groups.setdefault(compiled.qualified_name, []).append(compiled)
    return {name: KernelEvidence(compiled=tuple(group), binary=evidence) for name, group in groups.items()}
