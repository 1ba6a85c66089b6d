# SPDX-License-Identifier: Apache-2.0
"""Steps side by side on one card: what fails in company is asked again alone, and the first loser ends it all."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import msgspec
import pytest
from tests.patience import PATIENCE

from warplens.measure import company
from warplens.measure.company import NoWinnerError, beside, may_be_company, side_by_side, waited
from warplens.measure.verdict import State
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import CancelledError, InputError, MissingToolError
from warplens_tools.process.task import Task


def doubtful(error: Exception) -> bool:
    return may_be_company(error, ())


@pytest.mark.parametrize("error", [NoWinnerError("crashed", "out of memory"), InputError("out of memory")])
def test_what_fails_in_company_is_to_be_run_again_alone(error: Exception) -> None:
    both, running, alone = threading.Barrier(2), set[str](), list[set[str]]()

    def short(_: Task) -> None:
        if not both.broken and not alone:
            both.wait(PATIENCE)
            alone.append(set())
            raise error
        alone.append(set(running))

    def other(_: Task) -> None:
        running.add("other")
        both.wait(PATIENCE)
        time.sleep(0.05)
        running.discard("other")

    (again,) = side_by_side([short, other], 2, Task(), doubtful)
    again(Task())
    assert alone == [set(), set()]


@pytest.mark.parametrize(("state", "times"), [("crashed", 2), ("unproven", 2), ("wrong", 1), ("refused", 1)])
def test_what_fails_alone_as_well_is_believed_and_wrong_at_once(state: State, times: int) -> None:
    asked: list[int] = []

    def odd(_: Task) -> None:
        asked.append(1)
        raise NoWinnerError(state, "it is so")

    with pytest.raises(NoWinnerError, match="it is so"):
        for again in side_by_side([odd], 2, Task(), doubtful):
            again(Task())
    assert len(asked) == times


def test_who_is_the_only_one_here_may_have_company_of_others() -> None:
    def odd(_: Task) -> None:
        raise InputError("it is so")

    assert side_by_side([odd], 1, Task(), doubtful) == [odd]


def test_what_a_compiler_said_is_no_doing_of_the_card() -> None:
    rebuilding: Future[None] = Future()
    error = NoWinnerError("unproven", "it cannot be compared")
    assert may_be_company(error, (rebuilding,))
    rebuilding.set_exception(error)
    assert not may_be_company(error, (rebuilding,))
    assert may_be_company(NoWinnerError("unproven", "another"), (rebuilding,))


def test_a_loser_waits_for_no_compiler() -> None:
    compiling: Future[None] = Future()
    started = threading.Event()

    def waits(task: Task) -> None:
        started.set()
        waited(compiling, task)

    def wrong(_: Task) -> None:
        started.wait(PATIENCE)
        raise NoWinnerError("wrong", "results differ")

    with pytest.raises(NoWinnerError, match="results differ"):
        side_by_side([waits, wrong], 2, Task(), doubtful)
    assert not compiling.done()
    stopped = Task()
    stopped.token.cancel()
    with pytest.raises(CancelledError):
        waited(compiling, stopped)
    compiling.set_result(None)
    waited(compiling, Task())


def test_so_many_run_beside_one_another_as_free_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, gib = msgspec.structs.replace(load_architecture("sm_90"), memory_bytes=80 << 30), 1 << 30

    def free(now: int) -> int:
        monkeypatch.setattr(company, "free_bytes", lambda _: now)
        return beside(gpu, 2 * gib)

    assert [free(gib * gibs) for gibs in (200, 80, 32, 10, 0)] == [6, 6, 3, 1, 1]

    def unknown(_: str) -> int:
        raise MissingToolError("there is no driver")

    monkeypatch.setattr(company, "free_bytes", unknown)
    assert beside(gpu, 2 * gib) == 6
