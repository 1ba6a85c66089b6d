# SPDX-License-Identifier: Apache-2.0
"""KernelBench's tasks judged one after another: solutions that are there, or those that a search with a model finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from warplens import __version__
from warplens.agent.judging import JudgeSession
from warplens.agent.llm.editor import AskEditor
from warplens.measure.torch_task.judge import TaskJudge
from warplens.measure.torch_task.suite import (
    RULES,
    Problem,
    Result,
    Summary,
    keep,
    kept,
    key_of,
    solution_for,
    summary_of,
    unsolved,
)
from warplens.measure.torch_task.task import Examine, TorchOptions, TorchTask, card_of, examined, solution_of
from warplens.measure.verdict import RIGHT
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens.service.torch_search import optimize_task
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText


class Suite(msgspec.Struct, frozen=True):
    """What is judged, and where results are kept."""

    problems: tuple[Problem, ...]
    results: Path
    #: Solutions that are there; None for those that a search finds, which are kept beside the results.
    solutions: Path | None = None
    torch: TorchOptions = TorchOptions()

    def asked(self, problem: Problem) -> TorchTask:
        """To examine what there is for a task."""
        return self.torch.asked(problem.path, solution_for(problem, self.solutions or self.results))


class Report(msgspec.Struct, frozen=True):
    """All results, and what they come to by both rules."""

    tool: str
    card: str
    results: tuple[Result, ...]
    summaries: tuple[Summary, ...]


def judged(
    suite: Suite, *, task: Task = UNATTENDED, find: Finder | None = None, examine: Examine = examined
) -> Report:
    """Judge every solution; what an earlier call has judged under the same conditions is taken from there, and a task
    that `find` left without a solution is not searched again on the same budget.

    Raises:
        As `examine`. What was judged before is kept.
    """
    found = card_of(suite.torch.device)
    card = found.name if found is not None else suite.torch.device
    results = tuple(_judged(suite, card, task, find, examine))
    return Report(
        f"warplens {__version__}", card, results, tuple(summary_of(results, rule) for rule in RULES)
    )


def _judged(suite: Suite, card: str, task: Task, find: Finder | None, examine: Examine) -> Iterator[Result]:
    for done, problem in enumerate(suite.problems):
        task.check()
        task.say(f"level {problem.level}, {problem.name}", done / len(suite.problems))
        asked = suite.asked(problem)
        key = key_of(asked, card, find.conditions(problem) if find is not None else "")
        result = kept(suite.results, problem, key)
        if result is None and find is not None and not asked.candidate:
            own = solution_of(suite.results / f"level{problem.level}" / problem.path.name)
            own.parent.mkdir(parents=True, exist_ok=True)
            find(problem, own)
            asked = suite.asked(problem)
            key = key_of(asked, card) if asked.candidate else key
        if result is None:
            result = _examined(problem, key, asked, suite, task, examine)
            if asked.candidate or find is not None:
                keep(suite.results, problem, result)
        yield result


def _examined(
    problem: Problem, key: str, asked: TorchTask, suite: Suite, task: Task, examine: Examine
) -> Result:
    """By this judge; where only KernelBench's rule may take it, by that alone as well, so that it is timed."""
    if not asked.candidate:
        return unsolved(problem, key)
    verdict = own = examine(asked, suite.torch.python, task)
    if verdict.state not in RIGHT and verdict.kernelbench:
        own = examine(msgspec.structs.replace(asked, rule="kernelbench"), suite.torch.python, task)
    return Result(problem.level, problem.number, problem.name, key, verdict, own)


class Finder:
    """Finds solutions by a search with a model, each on its own budget: the fastest that is right, faster or not."""

    def __init__(
        self,
        service: Service,
        options: OptimizeOptions,
        torch: TorchOptions,
        *,
        task: Task = UNATTENDED,
        ask_editor: AskEditor | None = None,
        examine: Examine = examined,
    ) -> None:
        self._service, self._torch, self._task = service, torch, task
        self._options = msgspec.structs.replace(options, lower_precision=torch.lower_precision)
        self._ask_editor, self._examine = ask_editor, examine

    def conditions(self, problem: Problem) -> str:
        """What a search for this task rests on, beside the task and how it is run."""
        settings = self._service.settings_for(problem.path.absolute()).settings
        return msgspec.json.encode([self._options, settings.optimize, settings.model]).decode()

    def __call__(self, problem: Problem, into: Path) -> None:
        """Write the solution of a task, if one is found.

        Raises:
            As `optimize_task`; but a task that cannot tell right from wrong has no solution.
        """
        judges: list[TaskJudge] = []

        def opened(asked: TorchTask, text: SourceText, python: str) -> AbstractContextManager[JudgeSession]:
            judges.append(TaskJudge(asked, text, python=python, examine=self._examine))
            return judges[-1]

        try:
            optimize_task(
                self._service,
                problem.path.absolute(),
                self._options,
                self._torch,
                task=self._task,
                judge=opened,
                ask_editor=self._ask_editor,
            )
        except InputError as error:
            # without a provider there is no solution for any
            if not judges:
                raise
            self._task.say(f"{problem.name}: {error}")
        best = judges[-1].best() if judges else None
        if best is not None:
            into.write_text(best.text, "utf-8", newline="")
