# SPDX-License-Identifier: Apache-2.0
"""`warplens bench kernelbench`: solutions of KernelBench's tasks, by its own rule and by this judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from warplens.cli.interrupt import command_task
from warplens.cli.main import EXIT_CLEAN
from warplens.cli.optimize import settle_consent
from warplens.cli.streams import answering, console, write_json
from warplens.measure.torch_task.suite import THRESHOLDS, TIMED, Summary, numbers_of, problems_of
from warplens.measure.torch_task.task import TorchOptions
from warplens.service.kernelbench import Finder, Report, Suite, judged
from warplens.service.model import Choice
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens_tools.errors import InputError

app = App(name="bench", help="Solutions of public tasks, judged.", help_format="markdown")
_Switch = Parameter(negative="")
_RULES = {
    "warplens": "by Warplens (docs/pytorch-tasks.md)",
    "kernelbench": "by KernelBench's own rule (1e-2 on the task's own inputs)",
}


@app.command
def kernelbench(
    folder: Path,
    /,
    *,
    level: int,
    results: Path,
    problems: str = "",
    solutions: Path | None = None,
    provider: str = "",
    model: str = "",
    budget: int | None = None,
    seconds: float | None = None,
    python: str = "",
    device: str = "cuda",
    backward: Annotated[bool, _Switch] = False,
    lower_precision: Annotated[bool, _Switch] = False,
    compile: Annotated[bool, Parameter(negative="--no-compile")] = True,
    rounds: int = 10,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """Judge solutions of KernelBench's tasks on this machine's card, or let a model search for them first.

    Each result is kept as soon as it is known: stopped and started again, it goes on with the rest. Runs the
    solutions, with your rights.

    Parameters
    ----------
    folder
        KernelBench's folder, which holds level1, level2, …
    level
        The level.
    results
        A folder for results, and for solutions that are searched for.
    problems
        Numbers such as 1-10,17; all if left out.
    solutions
        A folder of solutions: level1/NAME.py, or level_1_problem_17_….py as KernelBench names them.
    provider
        Without --solutions: who searches for them, as in `warplens optimize`; the setting if left out.
    model
        The model, as its vendor names it; the setting if left out.
    budget
        Versions to judge at most for each task; the setting if left out.
    seconds
        Seconds to search at most for each task; the setting if left out.
    python
        The Python that has PyTorch; the one that runs Warplens if left out.
    device
        Where it is run: cuda, cuda:1, cpu.
    backward
        Compare and time gradients too, in training mode.
    lower_precision
        Take results as precise as half precision, bfloat16 or TF32 leave them.
    compile
        Time torch.compile as well.
    rounds
        Rounds of timing, the first of which is left out.
    yes
        Agree to what is sent to the model's endpoint, unasked.
    format
        Text for people, or one JSON object.
    """
    chosen = tuple(problems_of(folder, level, numbers_of(problems)))
    if solutions is not None and not solutions.is_dir():
        raise InputError(f"{solutions} is no folder", remedy="name the folder that holds the solutions")
    torch = TorchOptions(python, device, backward, compile, lower_precision, max(4, rounds))
    task, find = command_task(), None
    if solutions is None:
        choice = Choice(provider, model)
        service = Service(Path.cwd())
        settle_consent(service.settings_for(chosen[0].path.absolute()), choice, yes=yes)
        options = OptimizeOptions(candidates=budget, seconds=seconds, model=choice)
        find = Finder(service, options, torch, task=task)
    report = judged(Suite(chosen, results, solutions, torch), task=task, find=find)
    with answering():
        if format == "json":
            write_json(report)
        else:
            _print(report)
    return EXIT_CLEAN


def _print(report: Report) -> None:
    terminal = console()
    table = Table("", "this judge", "KernelBench", *TIMED, box=None, pad_edge=False)
    for result in report.results:
        speedups = result.verdict.speedups or result.own.speedups
        shown = (f"{speedups[b][0]:.2f}" if b in speedups else "" for b in TIMED)
        states = (v.state.replace("_", " ") for v in (result.verdict, result.own))
        table.add_row(f"{result.level}/{result.name}", *states, *shown)
    terminal.print(table)
    for summary in report.summaries:
        for line in summary_lines(summary):
            terminal.print(Text(line))
    terminal.print(
        Text(f"on {report.card}; speedups are eager FP32, TF32, BF16 and torch.compile over the solution")
    )


def summary_lines(summary: Summary) -> Iterator[str]:
    """What the results come to by one rule, a line each."""
    right = f"{summary.right} of {summary.tasks} right"
    yield f"{_RULES[summary.rule]}: {right}" + (
        f", {summary.unsolved} without a solution" if summary.unsolved else ""
    )
    for name, found in summary.against.items():
        shares = ", ".join(f"fast_{p:g} {found.fast[f'{p:g}']:.2f}" for p in THRESHOLDS)
        middle = f"geometric mean {found.geometric_mean:.2f}, median {found.median:.2f}"
        yield (
            f"  over {name}: {shares}; of {found.timed} right ones {middle}; of all tasks, "
            f"unsolved as 1, geometric mean {found.geometric_mean_of_all:.2f}"
        )
    if summary.right_here_alone:
        yield f"  right by this rule alone: {', '.join(summary.right_here_alone)}"
