# SPDX-License-Identifier: Apache-2.0
"""Steps of a confirmation that need no clock, side by side on one card, and what of their errors company may do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from typing import TypeVar

from warplens.measure.verdict import State
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.nvml import free_bytes
from warplens_tools.errors import InputError, MissingToolError, TimeLimitError, ToolFailedError
from warplens_tools.process.task import Task

#: Beside one another: so many processes at most, in so much of the memory that is free, each with a driver context of
#: so many bytes.
#: All by judgement, none measured, and on the side of not running short: a fifth is left to other users and to what an
#: allocator rounds up, and a context is taken as larger than one is before kernels ask for stack, heap and printing.
_MOST_BESIDE, _ROOM, _CONTEXT = 6, 0.8, 2 << 30
#: States that a card which others use as well may bring about.
_OF_COMPANY = frozenset({"crashed", "hung", "unproven"})
#: Seconds between two looks at whether a wait is to end.
_LOOKS = 0.1
Step = Callable[[Task], object]
T = TypeVar("T")


class NoWinnerError(Exception):
    """The candidate is no winner: its state and why."""

    def __init__(self, state: State, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


def may_be_company(error: Exception, settled: Sequence[Future[T]]) -> bool:
    """Whether others' memory or time on the card may have brought an error about; what `settled` steps, which need no
    card, raise is none of it."""
    if any(future.done() and future.exception() is error for future in settled):
        return False
    if isinstance(error, NoWinnerError):
        return error.state in _OF_COMPANY
    return isinstance(error, InputError | TimeLimitError | ToolFailedError)


def side_by_side(
    steps: Sequence[Step], at_once: int, task: Task, doubtful: Callable[[Exception], bool]
) -> list[Step]:
    """Run steps, so many at once. The first one that raises ends the others, and its error is raised.

    Returns those whose error was `doubtful`, which may be the company's doing: they are to be run again, alone.
    """
    again: list[Step] = []
    with task.branch() as branch, ThreadPoolExecutor(max(1, at_once)) as pool:

        def run(step: Step) -> None:
            branch.check()
            try:
                step(branch)
            except Exception as error:
                if not doubtful(error):
                    raise
                again.append(step)

        try:
            for done in as_completed([pool.submit(run, step) for step in steps]):
                done.result()
        except BaseException:
            branch.token.cancel()
            raise
    return again


def waited(future: Future[T], task: Task) -> T:
    """The result of what runs meanwhile; whatever that raises, too.

    Raises:
        CancelledError: nobody waits for it any more, though it may still run.
    """
    while not future.done():
        task.check()
        wait([future], _LOOKS)
    return future.result()


def beside(gpu: Gpu, program: int) -> int:
    """How many processes of a program of so many bytes may share what is free of a card: each holds a copy of the
    program's memory, its inputs elsewhere, and a context of its own."""
    try:
        free = min(gpu.memory_bytes, free_bytes(gpu.uuid))
    except MissingToolError:
        free = gpu.memory_bytes
    each = 3 * program + _CONTEXT
    return max(1, min(_MOST_BESIDE, int(_ROOM * free) // each))
