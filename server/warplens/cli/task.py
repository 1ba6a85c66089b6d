# SPDX-License-Identifier: Apache-2.0
"""`warplens task`: is a `ModelNew` right, and faster than PyTorch?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from warplens.cli.interrupt import command_task
from warplens.cli.main import EXIT_CLEAN, EXIT_FINDINGS
from warplens.cli.streams import answering, console, write_json
from warplens.measure.torch_task.task import TorchOptions, TorchVerdict, examine
from warplens.measure.verdict import RIGHT

_Switch = Parameter(negative="")


def task(
    reference: Path,
    candidate: Path,
    /,
    *,
    python: str = "",
    device: str = "cuda",
    backward: Annotated[bool, _Switch] = False,
    lower_precision: Annotated[bool, _Switch] = False,
    compile: Annotated[bool, Parameter(negative="--no-compile")] = True,
    rounds: int = 10,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """Judge a `ModelNew` against a PyTorch task (`Model`, `get_inputs`, `get_init_inputs`), as KernelBench writes them.

    Runs the candidate, in a process that holds no seeds, expected outputs or clock. Exits with 0 if it is right, with
    1 if it is not, or the task cannot tell.

    Parameters
    ----------
    reference
        The file that defines the task.
    candidate
        The file that defines ModelNew. Its host code is run, with your rights.
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
    format
        Text for people, or one JSON object.
    """
    options = TorchOptions(python, device, backward, compile, lower_precision, max(4, rounds))
    verdict = examine(options.asked(reference, candidate), python=python, task=command_task())
    with answering():
        if format == "json":
            write_json(verdict)
        else:
            print_verdict(console(), verdict)
    return EXIT_CLEAN if verdict.state in RIGHT else EXIT_FINDINGS


def print_verdict(terminal: Console, verdict: TorchVerdict) -> None:
    """The verdict, its times against every baseline, and what stands beside it."""
    terminal.print(Text(f"{verdict.state.replace('_', ' ')}: {verdict.reason}", style="bold"))
    for name, (median, low, high) in verdict.speedups.items():
        seconds = verdict.seconds[name][0]
        own = verdict.seconds["new"][0]
        times = f"{1e6 * seconds:.1f} us against {1e6 * own:.1f} us"
        terminal.print(Text(f"  {name}: {median:.3f} times as fast ({low:.3f} to {high:.3f}), {times}"))
    if verdict.noise is not None:
        terminal.print(Text(f"  eager against itself differs by {100 * verdict.noise:.1f} %"))
    if verdict.lowered:
        terminal.print(Text("  its results are of a lower precision"))
    if verdict.library:
        terminal.print(Text(f"  it calls the library: {', '.join(verdict.library)}"))
    if verdict.state not in RIGHT and verdict.kernelbench:
        terminal.print(Text("  KernelBench's own comparison would take it for right"))
    for name, why in verdict.unknown.items():
        terminal.print(Text(f"  not known: {name}: {why}"))
