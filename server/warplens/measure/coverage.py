# SPDX-License-Identifier: Apache-2.0
"""What of the judged kernel ran while a candidate was compared with it, and what the candidate changes of the rest."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from warplens.measure.build.candidates import Built
from warplens.measure.company import NoWinnerError
from warplens.measure.costs import Costs
from warplens.measure.kernel.twin import WHAT_RAN, Assembling, Twin
from warplens.measure.kernel.visits import VisitResult
from warplens.measure.session import PreparedWorkload
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import Task
from warplens_tools.toolchain.ptx_marks import marked
from warplens_tools.toolchain.ptx_ran import never_ran, untried
from warplens_tools.tunable.source import File
from warplens_tools.tunable.unseen import unseen_changes
from warplens_tools.tunable.untried import untried_cases, value_of


def kernel_twin(opened: PreparedWorkload, folder: Path, task: Task) -> Twin | Unknown:
    """What marks which of the judged kernel's blocks run, or why there is no such. Raises CancelledError."""
    assembling = _assembling(opened, folder, task)
    return assembling.of_kernel(opened.unit, opened.target.compiled, opened.program.read_bytes())


def candidate_twin(
    opened: PreparedWorkload, built: Built, kernels: Twin | Unknown, task: Task
) -> Twin | Unknown:
    """The same of a candidate, where there is one of the kernel. Raises CancelledError."""
    if isinstance(kernels, Unknown):
        return kernels
    folder = Path(tempfile.mkdtemp(dir=opened.session.folder, prefix="own-"))
    return _assembling(opened, folder, task).of_edited(built, opened.unit)


def _assembling(opened: PreparedWorkload, folder: Path, task: Task) -> Assembling:
    session = opened.session
    return Assembling(session.toolchain, folder, session.settings.compile_seconds, task)


class Coverage:
    """The marks of one candidate's comparisons, the kernel's and its own. Several threads may add to them."""

    def __init__(self, twin: Twin | Unknown, own: Twin | Unknown, further: Iterable[str]) -> None:
        """`own`: the candidate's. `further`: marks of other launch shapes."""
        self._twin, self._own = twin, own
        self._ran = [digits for digits in further if digits]
        self._why = ""
        self._left_out = False
        #: Seconds that the twin took.
        self.seconds = 0.0

    @property
    def asked(self) -> Twin | None:
        """What visits are to run; None for nothing."""
        return self._twin if isinstance(self._twin, Twin) else None

    @property
    def own(self) -> Twin | None:
        """And of the candidate."""
        return self._own if isinstance(self._own, Twin) else None

    def add(self, heard: VisitResult) -> None:
        """Take what one visit's twin left."""
        self.seconds += heard.baseline.twin_seconds
        self._left_out |= bool(heard.baseline.skipped)
        if heard.baseline.twin:
            self._why = f"its twin cannot be asked: {heard.baseline.twin}"
        elif heard.result.ran_unknown:
            some = f"{heard.result.ran_unknown} sets of inputs"
            self._why = f"on {some} its twin was not run, for want of time"
        elif heard.result.ran:
            self._ran.append(heard.result.ran)

    def of(
        self, opened: PreparedWorkload, built: Built, costs: Costs, again: Callable[[], VisitResult]
    ) -> list[Unknown]:
        """What is not known of the candidate. The twin's seconds, a part of the visits' own, go into `costs`.

        `again` compares once more, on other numbers by value alone: it is called where a case has not been met and
        inputs were left out for want of time, since what a case rests on is a length more often than not.

        Raises:
            NoWinnerError: the edit changes what never ran on any inputs; that is not proven. What `again` raises.
        """
        try:
            return self._known(opened, built)
        except NoWinnerError:
            if not self._left_out:
                raise
            heard = again()
            self.seconds += heard.baseline.twin_seconds
            if not heard.baseline.twin and heard.result.ran:
                self._ran.append(heard.result.ran)
            return self._known(opened, built)
        finally:
            costs.add("the kernel's twin", self.seconds)

    def _known(self, opened: PreparedWorkload, built: Built) -> list[Unknown]:
        twin = self._twin
        if isinstance(twin, Unknown):
            return [twin]
        if self._why:
            return [Unknown(WHAT_RAN, self._why)]
        count = max(twin.marks.count, 1)
        ran = never_ran(twin.marks, [digits[:count] for digits in self._ran])
        if ran is None:
            return [Unknown(WHAT_RAN, "its twin was not run")]
        path = opened.session.workload.source
        before = File(opened.text, parse(opened.text, path))
        text = opened.builder.edited(built.candidate)
        after = File(text, parse(text, path))
        found = unseen_changes(before, after, opened.target.compiled.qualified_name, path, ran)
        if found.why:
            raise NoWinnerError("unproven", found.why)
        own = self._untried(opened, before, after, [digits[count:] for digits in self._ran])
        if isinstance(own, str) and own:
            raise NoWinnerError("unproven", own)
        return [*self._left(opened, found.left), *([own] if isinstance(own, Unknown) else [])]

    def _untried(self, opened: PreparedWorkload, before: File, after: File, ran: list[str]) -> str | Unknown:
        """Which case of the candidate's own nothing tried, in words; "" for none."""
        compiled = opened.target.compiled
        tried = untried(self.own.marks, ran) if self.own is not None else None
        known = marked(opened.unit.ptx, compiled.mangled, choices=True)
        if tried is None or known is None:
            return Unknown("which cases of the edit's own ran", "its twin was not run on all inputs")
        constants = (value_of(c) for one in known.marks.comparisons for c in one.constants)
        numbers = frozenset(value for value in constants if value is not None)
        path = opened.session.workload.source
        return untried_cases(before, after, compiled.qualified_name, path, tried, numbers)

    @staticmethod
    def _left(opened: PreparedWorkload, left: tuple[int, ...]) -> list[Unknown]:
        if not left:
            return []
        lines = ", ".join(map(str, left))
        why = "no inputs that were compared led to all of them; the edit leaves them as they are"
        return [Unknown(f"what lines {lines} of {opened.baseline.kernel} do in every case", why)]
