# SPDX-License-Identifier: Apache-2.0
"""What a micro-profiling tool is.

One file per tool, listed in `warplens_tools.micro.registry` (other distributions join through the
entry-point group `warplens.micro`). The module's docstring is the tool's page. Stage 1 classifies the
kernel (`warplens_tools.roofline.classify`), stage 2 runs every tool relevant to the class, in list order,
deterministically.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import ClassVar, Self

import msgspec

from warplens_tools.evidence import KernelEvidence, Observation, Tier
from warplens_tools.finding import BottleneckClass, Confidence, Finding, Fix, Gain, RelatedSpan, Severity
from warplens_tools.kernel import KernelView
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.rewrite.base import Rewrite, Target
from warplens_tools.sass.listing import heaviest
from warplens_tools.text import Span

#: What was measured says of a finding: the finding confirmed or refined, as it is where the measurement does not tell,
#: or None where it is contradicted.
Judge = Callable[[KernelEvidence, Finding], Finding | None]

#: Gain from which what counters alone show is told: no code was read that says why.
SPOTTED = 1.2


class Place(msgspec.Struct, frozen=True):
    """A line of the file and, where it is a device function's, the line of the kernel that calls it."""

    line: int | None
    related: tuple[RelatedSpan, ...] = ()


class MicroTool:
    """One cause of lost time. A class is the tool; an instance of it looks at one kernel."""

    code: ClassVar[str]
    slug: ClassVar[str]
    title: ClassVar[str]
    #: What not to do about it, told to a model: cures that look right and do not help, or break something.
    avoid: ClassVar[str] = ""
    #: Pattern of the words by which a rule of Nsight Compute names the cause; "" where none of its rules can.
    rule_words: ClassVar[str] = ""
    #: Tiers of which at least one must be present for it to say anything.
    tiers: ClassVar[Sequence[Tier]]
    #: Classes of bottleneck it is relevant to; "mixed" and "unknown" kernels get every tool.
    relevant: ClassVar[Sequence[BottleneckClass]]
    #: Speedup in the bounded model from which it is told, or is more than information.
    worth: ClassVar[float] = 1.1
    #: As `worth`, where accesses whose addresses the source does not tell might hide the cause: told as information.
    doubtful: ClassVar[float] = 1.5
    #: Whether its gain is of the program around the kernel's launches, not of the kernel.
    of_program: ClassVar[bool] = False
    #: Whether it is about how many blocks and threads a launch has.
    of_launch: ClassVar[bool] = False
    #: What it is about in words, where others are about the same: on one line their findings are one cause, one cure.
    family: ClassVar[str] = ""
    #: Asked in turn about each finding where the kernel was measured, each about what the one before it left.
    judges: ClassVar[Sequence[Judge]] = ()

    def __init__(self, view: KernelView) -> None:
        self.view, self.sass, self.gpu = view, view.sass, view.gpu

    def check(self) -> Iterable[Finding]:
        """The findings; none where the evidence it needs is absent."""
        raise NotImplementedError

    def check_counters(self) -> Iterable[Finding]:
        """What counters alone show of the cause. Asked where no tool has a warning of the kernel, and verified as
        well."""
        return ()

    def verify(self, finding: Finding) -> Finding | None:
        """What was measured says of a finding; see `Judge`."""
        left: Finding | None = finding
        for judge in self.judges:
            left = judge(self.view.evidence, left) if left is not None else None
        return left

    @classmethod
    def run(cls, view: KernelView) -> list[Finding]:
        """The findings of `check` that what was measured does not contradict."""
        return cls(view)._verified(cls.told(view))

    @classmethod
    def told(cls, view: KernelView) -> tuple[Finding, ...]:
        """The findings of `check`, looked for once however many ask."""
        if cls not in view.checked:
            view.checked[cls] = tuple(cls(view).check())
        return view.checked[cls]

    @classmethod
    def run_counters(cls, view: KernelView) -> list[Finding]:
        """The warnings of `check_counters` that are worth one."""
        tool = cls(view)
        found = tool._verified(tool.check_counters())
        return [f for f in found if f.severity == "warning" and f.gain and f.gain.estimate >= SPOTTED]

    def _verified(self, found: Iterable[Finding]) -> list[Finding]:
        seen = self.view.evidence
        if seen.timing is None and seen.counters is None and seen.timeline is None:
            return list(found)
        return [kept for finding in found if (kept := self.verify(finding)) is not None]

    def finding(
        self,
        where: Span | int | None,
        *,
        severity: Severity = "warning",
        confidence: Confidence,
        message: str,
        guidance: str,
        evidence: tuple[Observation, ...],
        gain: Gain | None = None,
        fixes: tuple[Fix, ...] = (),
        related: tuple[RelatedSpan, ...] = (),
        index_query: str = "",
        missing: tuple[str, ...] = (),
    ) -> Finding:
        """A finding signed by this tool on its kernel; its parts are those of `Finding`.

        `where` is a place of the file, a line of it, or None for the kernel's name.
        """
        span = where if isinstance(where, Span) else self.view.line_span(where)
        return Finding(
            self.code, self.slug, self.view.kernel.qualified_name, span, severity, confidence, message, guidance,
            evidence, gain, fixes, related, index_query, missing,
        )  # fmt: skip

    def fixes_of(self, rewrite: Rewrite, *names: str, lines: tuple[int, ...] = ()) -> tuple[Fix, ...]:
        """What a rewrite would edit here, aimed at these names and lines if given; empty if it refuses."""
        return rewrite.fixes(self.view.text, self.view.model, self.view.kernel, Target(names, lines))

    def instances(self) -> list[Self]:
        """This tool at each instantiation of the kernel by itself."""
        return [type(self)(self.view.instance(compiled)) for compiled in self.view.evidence.compiled]

    def ratio_above_memory(
        self, before: Mapping[str, float], after: Mapping[str, float], *, cached: bool = False
    ) -> tuple[float, bool]:
        """Bounded time with the pipes' cycles `before` over that with `after`, beside what memory takes; and whether it
        is `worth` a word for sure.

        Accesses that may repeat count as ones that do not, unless they are known to be `cached`. Where that leaves no
        room, they count as served by a cache, and it is not sure.
        """
        served = self.view.traffic.cycles()
        floor = served if cached else self.view.traffic.pessimistic_cycles
        ratio = bound_ratio({**before, **floor}, {**after, **floor})
        if ratio >= self.worth:
            return ratio, True
        return bound_ratio({**before, **served}, {**after, **served}), False

    def written_in(self, indices: Iterable[int]) -> str:
        """ " in grid.cuh:107" where the heaviest of some instructions is written in another file; else ""."""
        heaviest_one = max(indices, key=lambda i: self.sass.weights[i], default=None)
        if heaviest_one is None:
            return ""
        instruction = self.sass.instructions[heaviest_one]
        if not self.sass.table.is_foreign(instruction) or self.sass.table.is_toolkit(instruction):
            return ""
        place = instruction.lines[0]
        return f" in {PurePath(place.path).name}:{place.line}"

    def hottest_place(self, indices: Collection[int]) -> Place:
        """Where the instructions with the largest weight among `indices` are written: in the kernel itself, or in a
        device function of its file that it calls."""
        line = heaviest(self.sass.weights_by_line(indices, self.sass.written))
        if line is None or self.view.kernel.span.contains_line(line):
            return Place(line)
        caller = self.sass.hottest_line([i for i in indices if self.sass.written[i] == line])
        if caller is None:
            return Place(line)
        called = RelatedSpan(self.view.line_span(caller), f"{self.view.kernel.name} calls it here")
        return Place(line, (called,))
