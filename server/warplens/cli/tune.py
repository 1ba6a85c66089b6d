# SPDX-License-Identifier: Apache-2.0
"""`warplens tune`: the numbers of a kernel, searched and proven; its structure stays as it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from warplens.agent.policies import PolicyName
from warplens.cli.interrupt import command_task
from warplens.cli.main import EXIT_CLEAN, EXIT_FAILED
from warplens.cli.optimize import print_result
from warplens.cli.streams import answering, console, write_json
from warplens.service.applying import apply_result
from warplens.service.optimize import OptimizeOptions, inputs_of
from warplens.service.service import Service
from warplens.service.tune import tune_file, write_t4


def tune(
    file: Path,
    /,
    *,
    kernel: str = "",
    budget: int | None = None,
    seconds: float | None = None,
    search: PolicyName = "mcts",
    seed: int = 0,
    arch: str = "",
    apply: Annotated[bool, Parameter(negative="")] = False,
    resume: Annotated[bool, Parameter(negative="")] = False,
    t4: Annotated[Path | None, Parameter(name="--t4")] = None,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """Tune the numbers of a kernel: block sizes, tiles, unroll factors, launch bounds, template arguments.

    They are found in the text, without annotations. The program that the file belongs to is built and run. Exits with
    0 also when nothing faster was found, with 2 where nothing could be measured.

    Parameters
    ----------
    file
        The file that holds the kernel.
    kernel
        The kernel's name, plain or qualified; the hottest by total time if left out.
    budget
        Configurations to judge at most; the setting if left out.
    seconds
        Seconds to search at most; the setting if left out.
    search
        mcts, greedy or random.
    seed
        Seed of the search.
    arch
        Architecture to compile for, such as sm_90; the card's own if left out.
    apply
        Write the proven version over the file. Nothing is written if the file changed meanwhile.
    resume
        Go on with the last run on the same text, program and card: no verdict is paid for twice.
    t4
        Write every configuration with its verdict and time to this file, in the T4 format that Kernel Tuner writes.
    format
        Text for people, or one JSON object.
    """
    service, task = Service(Path.cwd()), command_task()
    options = OptimizeOptions(
        kernel=kernel,
        candidates=budget,
        seconds=seconds,
        arch=arch,
        seed=seed,
        resume=resume,
        search=search,
    )
    inputs = inputs_of(service, file, arch, task=task)
    result = tune_file(inputs, options, task=task)
    with answering():
        if format == "json":
            write_json(result)
        else:
            print_result(console(), result)
    if t4 is not None and result.run is not None:
        sys.stderr.write(f"warplens: {write_t4(inputs, result, t4)} configurations written to {t4}\n")
    if apply and result.proof is not None:
        apply_result(result)
        sys.stderr.write(f"warplens: written to {result.path}\n")
    return EXIT_FAILED if result.outcome == "unproven" else EXIT_CLEAN
