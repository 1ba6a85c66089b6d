# SPDX-License-Identifier: Apache-2.0
"""Tasks and solutions in KernelBench's folders, results that outlive an interruption, and what they come to.

FOLDER/level1/17_name.py        a task; FOLDER/KernelBench/level1/… is found too
SOLUTIONS/level1/17_name.py     its solution; 17_name_new.py, or level_1_problem_17_*.py in SOLUTIONS itself
RESULTS/level1/17_name.json     what was said of it, under a hash of all that it rests on
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from warplens.measure.torch_task.task import BASELINES, TorchTask, TorchVerdict, solution_of
from warplens.measure.verdict import RIGHT
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError

Rule = Literal["warplens", "kernelbench"]
RULES: tuple[Rule, ...] = ("warplens", "kernelbench")
#: KernelBench's fast_p: the share of all tasks whose solution is right and more than p times as fast.
THRESHOLDS = (0.0, 0.8, 1.0, 1.5, 2.0)
TIMED = ("eager", *BASELINES)
_NAME = re.compile(r"(\d+)_\w[\w.-]*\.py")


class Problem(msgspec.Struct, frozen=True):
    """One task."""

    level: int
    number: int
    path: Path

    @property
    def name(self) -> str:
        """Its file's name without the ending."""
        return self.path.stem


class Result(msgspec.Struct, frozen=True):
    """What was said of one solution. `own` is KernelBench's own rule: 1e-2 on the task's own inputs, nothing else."""

    level: int
    number: int
    name: str
    #: Hash of task, solution and how both were run.
    key: str
    verdict: TorchVerdict
    own: TorchVerdict


class Against(msgspec.Struct, frozen=True):
    """Speedups over one baseline."""

    #: Solutions that are right and were timed against it.
    timed: int
    #: Shares of all tasks, by threshold.
    fast: dict[str, float]
    #: Over the right ones.
    geometric_mean: float
    median: float
    #: Over all tasks, where one without a right solution counts as the baseline itself.
    geometric_mean_of_all: float


class Summary(msgspec.Struct, frozen=True):
    """What the results come to by one rule."""

    rule: Rule
    tasks: int
    #: Tasks without a solution.
    unsolved: int
    right: int
    states: dict[str, int]
    against: dict[str, Against]
    #: Solutions, right by this rule, that the other takes for wrong.
    right_here_alone: tuple[str, ...]


def numbers_of(words: str) -> frozenset[int] | None:
    """Numbers such as 1-10,17; None for all.

    Raises:
        InputError: they are no numbers.
    """
    if not words.strip():
        return None
    found: set[int] = set()
    for word in words.split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", word)
        if ends is None or (ends[2] and int(ends[2]) < int(ends[1])):
            raise InputError(f"{word.strip() or words} names no problems", remedy="write 1-10,17")
        found |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return frozenset(found)


def problems_of(folder: Path, level: int, numbers: frozenset[int] | None) -> list[Problem]:
    """The tasks of a level, by number.

    Raises:
        InputError: there are none, or a number that is asked for is not there.
    """
    home = next(
        (h for h in (folder / f"level{level}", folder / "KernelBench" / f"level{level}") if h.is_dir()), None
    )
    if home is None:
        raise InputError(
            f"{folder} has no level{level}",
            remedy="name the folder of KernelBench that holds level1, level2, …",
        )
    named = {path: name for path in home.iterdir() if (name := _NAME.fullmatch(path.name))}
    solutions = {solution_of(path) for path in named}
    found = [Problem(level, int(name[1]), path) for path, name in named.items() if path not in solutions]
    chosen = sorted((p for p in found if numbers is None or p.number in numbers), key=lambda p: p.number)
    missing = sorted((numbers or frozenset()) - {p.number for p in chosen})
    if missing or not chosen:
        said = ", ".join(map(str, missing)) or "NUMBER_name.py"
        raise InputError(f"{home} has no problem {said}", remedy="see its files for the numbers that it has")
    return chosen


def solution_for(problem: Problem, folder: Path) -> Path | None:
    """A task's solution; None where there is none."""
    level, number = problem.level, problem.number
    named = [
        folder / f"level{level}" / f"{problem.name}.py",
        solution_of(folder / f"level{level}" / problem.path.name),
        *sorted(folder.glob(f"level_{level}_problem_{number}_*.py")),
        folder / f"{problem.name}.py",
        solution_of(folder / problem.path.name),
    ]
    return next((path for path in named if path.is_file()), None)


def key_of(asked: TorchTask, card: str, search: str = "") -> str:
    """What a result rests on, as a hash: the texts, how they are run, and on what; without a solution, how one was
    searched for."""
    said = msgspec.structs.replace(asked, task="", candidate="", builds="")
    sought = "" if asked.candidate else search
    texts = [Path(path).read_bytes() if path else b"" for path in (asked.task, asked.candidate)]
    return hashlib.sha256(
        b"\0".join([*texts, msgspec.json.encode(said), card.encode(), sought.encode()])
    ).hexdigest()


def kept(folder: Path, problem: Problem, key: str) -> Result | None:
    """An earlier result that rests on the same; None where there is none, or it cannot be read."""
    try:
        found = from_json(_place(folder, problem).read_bytes(), Result)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.key == key else None


def keep(folder: Path, problem: Problem, result: Result) -> None:
    """Write a result, whole or not at all."""
    place = _place(folder, problem)
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_suffix(".part")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    partial.replace(place)


def summary_of(results: Sequence[Result], rule: Rule) -> Summary:
    """What they come to; speedups are of the same timing whichever rule says what is right."""
    verdicts = {f"level{r.level}/{r.name}": (r.verdict, r.own) for r in results}
    mine = {name: pair[RULES.index(rule)] for name, pair in verdicts.items()}
    other = {name: pair[1 - RULES.index(rule)] for name, pair in verdicts.items()}
    right = {name: v for name, v in mine.items() if v.state in RIGHT}
    states: dict[str, int] = {}
    for verdict in mine.values():
        states[verdict.state] = states.get(verdict.state, 0) + 1
    ratios = {
        baseline: [v.speedups[baseline][0] for v in right.values() if baseline in v.speedups]
        for baseline in TIMED
    }
    return Summary(
        rule=rule,
        tasks=len(results),
        unsolved=sum(v.reason == UNSOLVED for v in mine.values()),
        right=len(right),
        states=dict(sorted(states.items())),
        against={name: _against(found, len(results)) for name, found in ratios.items() if found},
        right_here_alone=tuple(sorted(name for name in right if other[name].state not in RIGHT)),
    )


#: Reason of the verdict on a task without a solution.
UNSOLVED = "there is no solution"


def unsolved(problem: Problem, key: str) -> Result:
    """The result of a task without a solution."""
    verdict = TorchVerdict("unproven", UNSOLVED)
    return Result(problem.level, problem.number, problem.name, key, verdict, verdict)


def _against(ratios: Sequence[float], tasks: int) -> Against:
    logs = [math.log(ratio) for ratio in ratios]
    return Against(
        timed=len(ratios),
        fast={f"{p:g}": sum(ratio > p for ratio in ratios) / tasks for p in THRESHOLDS},
        geometric_mean=math.exp(sum(logs) / len(logs)),
        median=median(ratios),
        geometric_mean_of_all=math.exp(sum(logs) / tasks),
    )


def _place(folder: Path, problem: Problem) -> Path:
    return folder / f"level{problem.level}" / f"{problem.name}.json"
