# SPDX-License-Identifier: Apache-2.0
"""What a search is about, and what it learns of it on the way."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from warplens.agent.policies import POLICIES, PolicyName
from warplens.agent.priors import Cause
from warplens.agent.search_settings import Budget, Objective, SearchSettings
from warplens.agent.searcher import Searcher
from warplens.agent.versions import SearchedSpace
from warplens.measure.judge import Baseline
from warplens.measure.verdict import Candidate
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText


class Learned(msgspec.Struct, frozen=True):
    """What a kernel's counters say to the search."""

    causes: tuple[Cause, ...] = ()
    #: How busy each resource was, 0 to 1 of its peak.
    busy: dict[str, float] = {}
    #: The baseline's time over the roof's.
    headroom: float | None = None


class Problem(msgspec.Struct, frozen=True):
    """One file to make faster, and how to search it."""

    text: SourceText
    path: str
    #: The file as diffs name it, see `OptimizeResult.name`.
    name: str
    #: Steps for the kernel of that qualified name.
    space: Callable[[str], SearchedSpace]
    #: What the program's build and start depend on, as text: verdicts are shared only where it is equal.
    workload: str
    budget: Budget = Budget()
    settings: SearchSettings = SearchSettings()
    seed: int = 0
    #: The kernel's qualified name where it is known before the program ran; "" where the baseline says it.
    kernel: str = ""
    #: Go on with an interrupted or finished run of the same text, workload, card and seed.
    resume: bool = False
    search: PolicyName = "mcts"
    #: Run a random-search baseline of as many candidates as well.
    control: bool = False
    #: What is to be less. The search itself is for time; what it found is confirmed and chosen by this.
    objective: Objective = "time"
    #: The baseline's time over the roof's, where the roofline says so.
    headroom: Callable[[Baseline], float | None] = lambda _: None
    #: Is told the baseline as soon as it is measured.
    measured: Callable[[Baseline], None] = lambda _: None
    #: Reads the kernel's counters, which takes runs of the program: done once the first verdicts are there.
    learn: Callable[[str, Task], Learned] | None = None
    #: When the user asked, on `time.monotonic`'s clock: the budget's seconds count from there; None for now.
    started: float | None = None

    def searcher(
        self, policy: PolicyName, kernel: str, space: SearchedSpace, headroom: float | None
    ) -> Searcher:
        """A search that has asked nothing yet, for the kernel of that qualified name."""
        return POLICIES[policy](
            self.text,
            path=self.path,
            kernel=kernel,
            space=space,
            settings=self.settings,
            seed=self.seed,
            headroom=headroom,
        )

    def first(self, count: int, task: Task) -> list[Candidate]:
        """So many candidates that a search is likely to begin with, as nothing of the baseline goes into them; none
        where the kernel is not known before, or an earlier run is gone on with."""
        if not self.kernel or self.resume:
            return []
        searcher = self.searcher(self.search, self.kernel, self.space(self.kernel), None)
        return [ask.candidate for ask in searcher.ask(min(count, self.budget.candidates), task)]
