# SPDX-License-Identifier: Apache-2.0
"""Whether a rebuilt program does what the baseline does, and does it with the device."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from warplens.measure.program.device_work import DeviceWork, Tracer, too_little
from warplens.measure.program.effects import RunEffects, unlike
from warplens.measure.program.program_sandbox import build_in, observe
from warplens.measure.program.reference import Reference, same_without_device, traced_run
from warplens.measure.program.whole import numbers_in
from warplens.measure.verdict import State
from warplens_tools.errors import InputError, MissingToolError, TimeLimitError, ToolFailedError
from warplens_tools.process.task import Task

#: Significant digits from which on a number is some result's own.
_FRACTION_DIGITS, _INTEGER_DIGITS = 4, 7
#: Relative difference of numbers that are the same result, spelled with other digits.
_ROUNDING = 1e-4


class Rejected(Exception):  # noqa: N818
    """What ends a candidate's examination before it is timed."""

    def __init__(self, state: State, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


def examine(reference: Reference, name: str, text: str, tracer: Tracer, task: Task) -> None:
    """Build a candidate and see whether it does what the baseline does.

    Raises:
        Rejected: it does not, or that cannot be told.
    """
    if reference.blind:
        raise Rejected("unproven", reference.blind)
    known = remembered(reference, text)
    if known:
        raise Rejected("refused", f"the edit holds {known}, which the program prints or writes as a result")
    try:
        build_in(reference.sandbox, name, text, task)
    except InputError as error:
        raise Rejected("refused", str(error)) from error
    except (ToolFailedError, MissingToolError, TimeLimitError) as error:
        raise Rejected("not_built", str(error)) from error
    same(reference.runs, lambda: observe(reference.sandbox, name, task=task))
    if same_without_device(reference.sandbox, name, reference.runs, task):
        raise Rejected(
            "unproven", "it does the same where it sees no GPU: its results need not come from one"
        )
    for varied in reference.varied:
        there = f" with {varied.trial.title}"
        same(varied.runs, lambda v=varied: observe(reference.sandbox, name, v.trial, task=task), there)  # type: ignore[misc]
    work_like(reference, name, tracer, task)


def same(before: Sequence[RunEffects], run: Callable[[], RunEffects], where: str = "") -> RunEffects:
    """Run a candidate and require of it what the baseline did.

    Raises:
        Rejected: it did otherwise, crashed, or did not end.
    """
    try:
        doings = run()
    except TimeLimitError as error:
        raise Rejected("hung", f"{error}{where}") from error
    except (InputError, ToolFailedError) as error:
        raise Rejected("unproven", f"{error}{where}") from error
    status = doings.run.status
    if status < 0 and status not in {d.run.status for d in before}:
        raise Rejected("crashed", f"the rebuilt program is killed by signal {-status}{where}")
    strange = unlike(before, doings)
    if strange:
        raise Rejected("wrong", f"{strange}{where}")
    return doings


def remembered(reference: Reference, text: str) -> str:
    """A result of the baseline's that an edit spells and the baseline's text does not; "" if there is none."""
    known = set(numbers_in(reference.text))
    added = [n for n in numbers_in(text) if n not in known and _telling(n)]
    results = {float(n) for n in frozenset.intersection(*map(_results, reference.runs)) if _telling(n)}
    return next((n for n in added if any(math.isclose(float(n), r, rel_tol=_ROUNDING) for r in results)), "")


def _results(doings: RunEffects) -> frozenset[str]:
    texts = [w.data.decode(errors="replace") for w in doings.files.values() if w.data and b"\0" not in w.data]
    return frozenset(n for text in (doings.run.stdout, *texts) for n in numbers_in(text))


def _telling(number: str) -> bool:
    """Whether a number is so long that it is some result's own, not a size or a factor."""
    digits = len(re.sub(r"[eE].*|\D", "", number).lstrip("0"))
    return digits >= (_FRACTION_DIGITS if "." in number else _INTEGER_DIGITS)


def work_like(reference: Reference, name: str, tracer: Tracer, task: Task) -> DeviceWork:
    """What the device does for a build, which must do as the baseline did while it is traced.

    Raises:
        Rejected: it does otherwise, or so little on the device that its results are not believed to come from there.
    """
    works: list[DeviceWork | None] = []

    def traced() -> RunEffects:
        doings, work = traced_run(reference.sandbox, name, tracer, task)
        works.append(work)
        return doings

    same(reference.runs, traced, " while it is traced")
    odd = too_little(works[0], reference.work, reference.sandbox.session.settings.outside_share)
    if odd or works[0] is None:
        raise Rejected("unproven", odd)
    return works[0]
