# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer on the program with a candidate's device code: faults that this card happened to forgive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warplens_tools.collect.sanitizer import RACES, TOOLS, Fault, examine
from warplens_tools.errors import CancelledError, TimeLimitError, WarplensError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.probe.visit import Command, environment_of
from warplens_tools.toolchain.locate import Toolchain

#: Launches of the kernel that are examined: each costs some ten to a hundred times its own time.
_LAUNCHES = 2


def new_reports(
    before: Command,
    after: Command,
    *,
    kernel: str,
    toolchain: Toolchain,
    time_limit: float,
    tools: Sequence[str] = TOOLS,
    task: Task = UNATTENDED,
) -> tuple[str, tuple[Unknown, ...]]:
    """What compute-sanitizer's `tools` report of the kernel in the program `after` and not in the original.

    `after` holds no host code of the candidate: the tools reach a program by sockets, which no fence lets through.
    `kernel` is its plain name, `time_limit` in seconds for one run. The second part says what could not be examined;
    where one tool does not come to its end, those after it are not tried.
    """
    if toolchain.find("compute-sanitizer") is None:
        gone = toolchain.missing["compute-sanitizer"]
        return "", (Unknown("memory errors the GPU does not trap", gone.why, gone.remedy),)

    def faults(tool: str, command: Command) -> tuple[Fault, ...]:
        return examine(
            tool,
            command.arguments,
            toolchain=toolchain,
            kernel=kernel,
            launches=_LAUNCHES,
            cwd=Path(command.directory) if command.directory else None,
            env=environment_of(command),
            time_limit=time_limit,
            task=task,
        ).faults

    unknown = []
    for tool in tools:
        try:
            found = faults(tool, after)
            # The original is asked only where there is something to excuse.
            known = {f.message for f in faults(tool, before)} if found else set()
        except CancelledError:
            raise
        except WarplensError as error:
            unknown.append(Unknown(f"{tool} of the candidate's device code", str(error), error.remedy))
            if isinstance(error, TimeLimitError):
                break
            continue
        new = next((f for f in found if f.message not in known), None)
        if new is not None:
            return f"compute-sanitizer {tool}: {new.message}", tuple(unknown)
    return "", (*unknown, RACES)
