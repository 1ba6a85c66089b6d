# SPDX-License-Identifier: Apache-2.0
"""KernelBench's tasks judged one after another: solutions that are there, or those that a search with a model finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from warplens.measure.torch_task.task import Examine, TorchTask, examined
from warplens.measure.verdict import RIGHT
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens.service.torch_search import TorchOptions, optimize_task
from warplens_tools.arch.load import present_gpus
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
    lower_precision: bool = False
    rounds: int = 10


class Report(msgspec.Struct, frozen=True):
    """All results, and what they come to by both rules."""

    tool: str
    card: str
    results: tuple[Result, ...]
    summaries: tuple[Summary, ...]


def judged(
    suite: Suite,
    *,
    task: Task = UNATTENDED,
    find: Callable[[Problem, Path], None] | None = None,
    examine: Examine = examined,
) -> Report:
    """Judge every solution; what an earlier call has judged under the same conditions is taken from there. `find`
    writes a solution into the path that it is given, or none.

    Raises:
        As `examine`. What was judged before is kept.
    """
    gpus = present_gpus() if suite.torch.device.startswith("cuda") else ()
    card = gpus[0].name if gpus else suite.torch.device
    results = tuple(_judged(suite, card, task, find, examine))
    return Report(
        f"warplens {__version__}", card, results, tuple(summary_of(results, rule) for rule in RULES)
    )


def _judged(
    suite: Suite, card: str, task: Task, find: Callable[[Problem, Path], None] | None, examine: Examine
) -> Iterator[Result]:
    for done, problem in enumerate(suite.problems):
        task.check()
        task.say(f"level {problem.level}, {problem.name}", done / len(suite.problems))
        solution = solution_for(problem, suite.solutions or suite.results)
        if solution is None and find is not None:
            own = suite.results / f"level{problem.level}" / f"{problem.name}_new.py"
            own.parent.mkdir(parents=True, exist_ok=True)
            find(problem, own)
            solution = own if own.is_file() else None
        asked = TorchTask(
            str(problem.path.absolute()),
            str(solution.absolute()) if solution is not None else "",
            device=suite.torch.device,
            backward=suite.torch.backward,
            lower_precision=suite.lower_precision,
            baselines=suite.torch.baselines,
            rounds=suite.rounds,
        )
        key = key_of(asked, card)
        result = kept(suite.results, problem, key)
        if result is None:
            result = (
                unsolved(problem, key)
                if solution is None
                else _both(problem, key, asked, suite, task, examine)
            )
            if solution is not None:
                keep(suite.results, problem, result)
        yield result


def _both(problem: Problem, key: str, asked: TorchTask, suite: Suite, task: Task, examine: Examine) -> Result:
    """By this judge; where only KernelBench's rule may take it, by that alone as well, so that it is timed."""
    verdict = own = examine(asked, suite.torch.python, task)
    if verdict.state not in RIGHT and verdict.kernelbench:
        own = examine(msgspec.structs.replace(asked, rule="kernelbench"), suite.torch.python, task)
    return Result(problem.level, problem.number, problem.name, key, verdict, own)


def finder(
    service: Service,
    options: OptimizeOptions,
    torch: TorchOptions,
    *,
    task: Task = UNATTENDED,
    ask_editor: AskEditor | None = None,
    examine: Examine = examined,
) -> Callable[[Problem, Path], None]:
    """Finds solutions by a search with a model, each on its own budget: the fastest that is right, faster or not."""

    def find(problem: Problem, into: Path) -> None:
        judges: list[TaskJudge] = []

        def opened(asked: TorchTask, text: SourceText, python: str) -> AbstractContextManager[JudgeSession]:
            judges.append(TaskJudge(asked, text, python=python, examine=examine))
            return judges[-1]

        path = problem.path.absolute()
        try:
            optimize_task(service, path, options, torch, task=task, judge=opened, ask_editor=ask_editor)
        except InputError as error:
            # a task that cannot tell right from wrong has no solution; without a provider there is none for any
            if not judges:
                raise
            task.say(f"{problem.name}: {error}")
        best = judges[-1].best() if judges else None
        if best is not None:
            into.write_text(best.text, "utf-8", newline="")

    return find
