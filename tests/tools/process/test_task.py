# SPDX-License-Identifier: Apache-2.0
"""A task tells, stops, and ends in time."""

from __future__ import annotations

import math
import time

import pytest

from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import UNATTENDED, Task


def wait(task: Task, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        task.check()
        time.sleep(0.002)


def test_it_tells_and_its_parts_tell_whom_they_are_given() -> None:
    said, parts = list[tuple[str, float | None]](), list[str]()
    task = Task(lambda words, share: said.append((words, share)))
    task.say("half", 0.5)
    task.part().say("nobody hears this")
    task.part(lambda words, _: parts.append(words)).say("a part")
    with task.within(5) as limit:
        limit.say("bounded")
    assert said == [("half", 0.5), ("bounded", None)] and parts == ["a part"]


def test_steps_are_told_as_shares_of_the_whole() -> None:
    said = list[tuple[str, float | None]]()
    task = Task(lambda words, share: said.append((words, share)))
    task.step(1, 4).say("building", 0.5)
    task.step(3, 4).say("running")
    task.step(0, 1).say("alone", 0.25)
    assert said == [("2 of 4: building", 0.375), ("4 of 4: running", 0.75), ("alone", 0.25)]


def test_a_part_stops_with_the_whole() -> None:
    token = CancelToken()
    task = Task(token=token)
    part = task.part()
    with task.within(60) as limit:
        part.check()
        token.cancel()
        for each in (task, part):
            with pytest.raises(CancelledError):
                each.check()
        assert limit.token.cancelled and not limit.expired


def test_the_end_of_its_time_is_swallowed_and_the_wish_of_the_user_is_not() -> None:
    task = Task()
    with task.within(0.01) as limit:
        wait(limit, 5)
    assert limit.expired and not task.token.cancelled
    task.check()
    with pytest.raises(CancelledError), task.within(60) as limit:
        task.token.cancel()
        limit.check()
    with pytest.raises(CancelledError), task.within(60) as limit:
        wait(limit, 5)


def test_a_task_of_nobody_cannot_be_stopped_for_all() -> None:
    UNATTENDED.check()
    with pytest.raises(RuntimeError, match="nobody's"):
        UNATTENDED.token.cancel()
    with UNATTENDED.within(0.01) as limit:
        wait(limit, 5)
    assert limit.expired


def test_a_branch_stops_with_the_whole_and_alone() -> None:
    said = list[str]()
    task = Task(lambda words, _: said.append(words))
    with task.branch() as part:
        part.say("a branch")
        part.token.cancel()
        with pytest.raises(CancelledError):
            part.check()
        task.check()
    with pytest.raises(CancelledError), task.branch() as part:
        task.token.cancel()
        part.check()
    assert said == ["a branch"]
    with UNATTENDED.branch() as part:
        part.token.cancel()
    UNATTENDED.check()


def test_what_is_left_is_the_shorter_of_both_bounds() -> None:
    assert Task().left() == math.inf
    with Task().within(60) as whole, whole.within(600) as part, whole.within(5) as short:
        assert 55 < part.left() <= 60 and 0 < short.left() <= 5
    with Task().within(0) as over:
        assert over.left() == 0
