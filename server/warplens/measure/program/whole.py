# SPDX-License-Identifier: Apache-2.0
"""The whole program: how it runs, and whether a rebuilt one does the same."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.probe.visit import Command, environment_of

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
#: Relative difference of a printed number that a rounding of the results may leave in sums over them, and that a
#: lower precision of them may.
ROUNDING, LOWERED = 1e-4, 2.0**-6


class ProgramRun(msgspec.Struct, frozen=True):
    """How the whole program ran."""

    status: int
    #: Seconds from start to exit.
    seconds: float
    stdout: str
    stderr: str


def run_program(command: Command, timeout: float, task: Task = UNATTENDED) -> ProgramRun:
    """Run the program as the user does.

    Raises:
        TimeLimitError: it ran longer than `timeout` seconds.
        MissingToolError, CancelledError: as named.
    """
    directory = Path(command.directory) if command.directory else None
    try:
        done = run(
            die_with_parent(command.arguments),
            cwd=directory,
            env=environment_of(command),
            timeout=timeout,
            task=task,
        )
    except TimeLimitError as error:
        raise TimeLimitError(
            f"the program did not end within {timeout:g} s",
            remedy="give it less work by its arguments, or raise its time limit",
        ) from error
    return ProgramRun(done.status, done.seconds, done.stdout, done.stderr)


def require_success(result: ProgramRun) -> None:
    """Refuse a program that fails by itself.

    Raises:
        InputError: its exit status is not 0; the message carries its last words.
    """
    if result.status == 0:
        return
    words = (result.stderr.strip() or result.stdout.strip()).splitlines()
    said = f": {words[-1].strip()}" if words else ""
    how = f"is killed by signal {-result.status}" if result.status < 0 else f"exits with {result.status}"
    raise InputError(
        f"the program itself {how}{said}",
        remedy="make it succeed on its own first; its arguments, directory and files can be configured",
    )


def difference(before: Sequence[ProgramRun], after: Sequence[ProgramRun], *, rounding: float) -> str:
    """How the rebuilt program's exit and output differ from the original's; "" if they do not.

    What differs among the original's own runs is not compared. `rounding`: relative difference that printed
    numbers may have; 0 where results are bitwise the same, so that they must be.
    """
    statuses = {r.status for r in before}
    for result in after:
        if result.status not in statuses:
            return f"the rebuilt program exits with {result.status}, the original with {before[0].status}"
    for result in after:
        unlike = unlike_text([r.stdout for r in before], result.stdout, rounding=rounding)
        if unlike is not None:
            return f"the rebuilt program prints {unlike[0]}, the original {unlike[1]}"
    return ""


def unlike_text(before: Sequence[str], after: str, *, rounding: float) -> tuple[str, str] | None:
    """What of a text is not as before, and how it was; None if nothing is, by the rules of `difference`."""
    texts = [text.splitlines() for text in before]
    if len({len(text) for text in texts}) != 1:
        return None
    lines = after.splitlines()
    if len(lines) != len(texts[0]):
        return f"{len(lines)} lines", f"{len(texts[0])}"
    for number, line in enumerate(lines):
        known = {text[number] for text in texts}
        if line in known or (_varies(known) and _shape(line) in {_shape(k) for k in known}):
            continue
        if not any(_close(line, k, rounding) for k in known):
            return repr(line.strip()), repr(texts[0][number].strip())
    return None


def _varies(known: set[str]) -> bool:
    """Whether a line changes by more than rounding from run to run: a time that was taken, say."""
    first = next(iter(known))
    return any(not _close(line, first, ROUNDING) for line in known)


def steady_lines(texts: Sequence[str]) -> list[str]:
    """The lines of a text that are the same each time; [] where their number changes."""
    lines = [text.splitlines() for text in texts]
    if len({len(text) for text in lines}) != 1:
        return []
    return [line for line, *others in zip(*lines, strict=True) if all(line == other for other in others)]


def numbers_in(text: str) -> list[str]:
    """The numbers that a text spells, as it spells them."""
    return _NUMBER.findall(text)


def _shape(line: str) -> str:
    return re.sub(r"\s+", " ", _NUMBER.sub("#", line))


def _close(line: str, known: str, rounding: float) -> bool:
    """The same words, and numbers with a fraction that differ by rounding."""
    if _shape(line) != _shape(known):
        return False
    pairs = zip(_NUMBER.findall(line), _NUMBER.findall(known), strict=True)
    return all(
        a == b or (rounding and "." in a + b and math.isclose(float(a), float(b), rel_tol=rounding))
        for a, b in pairs
    )
