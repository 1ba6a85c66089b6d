"""compute-sanitizer on the rebuilt program: faults that this card happened to forgive."""

from __future__ import annotations

import re
from pathlib import Path

from warplens_tools.collect.toolchain import Toolchain
from warplens_tools.errors import TimeLimitError
from warplens_tools.evidence import Unknown
from warplens_tools.run.cancel import CancelToken
from warplens_tools.run.guard import guarded
from warplens_tools.run.probe.visit import Command, environment_of
from warplens_tools.run.process import Completed, run

#: Out-of-bounds and misaligned accesses; races, in shared memory only; global memory read before it was written;
#: barriers not reached by all.
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_RACES = Unknown("races in global memory", "compute-sanitizer's racecheck sees shared memory only")
_FOUND = 77
#: Launches of the kernel that are examined: each costs some ten to a hundred times its own time.
_LAUNCHES = 2
_REPORT = re.compile(r"^=+ (?!COMPUTE-SANITIZER|\s|ERROR SUMMARY|RACECHECK SUMMARY)(.+)$", re.MULTILINE)


def new_reports(
    before: Command,
    after: Command,
    *,
    kernel: str,
    toolchain: Toolchain,
    time_limit: float,
    cancel: CancelToken | None = None,
) -> tuple[str, tuple[Unknown, ...]]:
    """What compute-sanitizer reports of the rebuilt program's kernel and not of the original's.

    `kernel` is its plain name, `time_limit` in seconds for one run. The second part says what could not be
    examined.
    """
    tool = toolchain.find("compute-sanitizer")
    if tool is None:
        gone = toolchain.missing["compute-sanitizer"]
        return "", (Unknown("faults that the card forgives", gone.why, gone.remedy),)
    unknown = []
    for name in TOOLS:
        arguments = (
            tool.path, "--tool", name, "--kernel-name", f"kns={kernel}", "--launch-count", str(_LAUNCHES),
            "--print-limit", "3", "--error-exitcode", str(_FOUND),
        )  # fmt: skip
        done = _run(arguments, after, time_limit, cancel)
        if done is None or done.status not in (0, _FOUND):
            why = "it took too long" if done is None else f"it ended with {done.status}"
            unknown.append(Unknown(f"{name} of the rebuilt program", why))
        elif done.status == _FOUND:
            original = _run(arguments, before, time_limit, cancel)
            if original is not None and original.status == 0:
                return f"compute-sanitizer {name}: {_first(done)}", tuple(unknown)
    return "", (*unknown, _RACES)


def _run(
    tool: tuple[str, ...], command: Command, time_limit: float, cancel: CancelToken | None
) -> Completed | None:
    directory = Path(command.directory) if command.directory else None
    try:
        return run(
            guarded((*tool, *command.arguments)),
            cwd=directory,
            env=environment_of(command),
            timeout=time_limit,
            cancel=cancel,
        )
    except TimeLimitError:
        return None


def _first(done: Completed) -> str:
    reports = _REPORT.findall(done.stdout + done.stderr)
    return next((r.strip() for r in reports), "a fault")
