# SPDX-License-Identifier: Apache-2.0
"""What of the judged kernel ran while a candidate was compared with it, and what the candidate changes of the rest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from warplens.measure.build.candidates import Built
from warplens.measure.company import NoWinnerError
from warplens.measure.costs import Costs
from warplens.measure.kernel.twin import WHAT_RAN, Twin, twin_of
from warplens.measure.kernel.visits import VisitResult
from warplens.measure.session import PreparedWorkload
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import Task
from warplens_tools.toolchain.ptx_ran import never_ran
from warplens_tools.tunable.source import File
from warplens_tools.tunable.unseen import unseen_changes


def kernel_twin(opened: PreparedWorkload, folder: Path, task: Task) -> Twin | Unknown:
    """What marks which of the judged kernel's blocks run, or why there is no such. Raises CancelledError."""
    return twin_of(
        opened.unit,
        opened.target.compiled,
        opened.program.read_bytes(),
        toolchain=opened.session.toolchain,
        folder=folder,
        timeout=opened.session.settings.compile_seconds,
        task=task,
    )


class Coverage:
    """The marks of one candidate's comparisons. Several threads may add to them."""

    def __init__(self, twin: Twin | Unknown, further: Iterable[str]) -> None:
        """`further`: marks of other launch shapes."""
        self._twin = twin
        self._ran = [digits for digits in further if digits]
        self._why = ""
        #: Seconds that the twin took.
        self.seconds = 0.0

    @property
    def asked(self) -> Twin | None:
        """What visits are to run; None for nothing."""
        return self._twin if isinstance(self._twin, Twin) else None

    def add(self, heard: VisitResult) -> None:
        """Take what one visit's twin left."""
        self.seconds += heard.baseline.twin_seconds
        if heard.baseline.twin:
            self._why = f"its twin cannot be asked: {heard.baseline.twin}"
        elif heard.result.ran_unknown:
            some = f"{heard.result.ran_unknown} sets of inputs"
            self._why = f"on {some} its twin was not run, for want of time"
        elif heard.result.ran:
            self._ran.append(heard.result.ran)

    def of(self, opened: PreparedWorkload, built: Built, costs: Costs) -> list[Unknown]:
        """What is not known of the candidate. The twin's seconds, a part of the visits' own, go into `costs`.

        Raises:
            NoWinnerError: the edit changes what never ran on any inputs; that is not proven.
        """
        costs.add("the kernel's twin", self.seconds)
        twin = self._twin
        if isinstance(twin, Unknown):
            return [twin]
        if self._why:
            return [Unknown(WHAT_RAN, self._why)]
        ran = never_ran(twin.marks, self._ran)
        if ran is None:
            return [Unknown(WHAT_RAN, "its twin was not run")]
        path = opened.session.workload.source
        before = File(opened.text, parse(opened.text, path))
        text = opened.builder.edited(built.candidate)
        after = File(text, parse(text, path))
        found = unseen_changes(before, after, opened.target.compiled.qualified_name, path, ran)
        if found.why:
            raise NoWinnerError("unproven", found.why)
        if not found.left:
            return []
        lines = ", ".join(map(str, found.left))
        why = "no inputs that were compared led to all of them; the edit leaves them as they are"
        return [Unknown(f"what lines {lines} of {opened.baseline.kernel} do in every case", why)]
