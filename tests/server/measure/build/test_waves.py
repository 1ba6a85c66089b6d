# SPDX-License-Identifier: Apache-2.0
"""What comes late does not keep the rest waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.patience import PATIENCE

from warplens.measure.build.waves import in_waves


def everything(one: int) -> int:
    return one


def test_what_comes_together_stays_together() -> None:
    def make(made: Callable[[int], None]) -> None:
        for one in range(5):
            made(one)

    assert list(in_waves(make, 5, everything)) == [[0, 1, 2, 3, 4]]


def test_what_takes_much_longer_than_half_of_them_comes_later() -> None:
    handed_on = threading.Event()

    def make(made: Callable[[int], None]) -> None:
        for one in range(3):
            made(one)
        handed_on.wait(PATIENCE)
        made(3)
        made(4)

    waves = in_waves(make, 5, everything)
    assert next(waves) == [0, 1, 2]
    handed_on.set()
    assert list(waves) == [[3, 4]]


def test_before_half_of_them_is_there_nothing_is_handed_on() -> None:
    going = threading.Timer(0.3, lambda: None)
    going.start()

    def make(made: Callable[[int], None]) -> None:
        made(0)
        going.join()
        for one in range(1, 4):
            made(one)

    assert list(in_waves(make, 4, everything)) == [[0, 1, 2, 3]]


def test_where_all_are_asked_for_at_once_all_are_waited_for() -> None:
    late = threading.Timer(0.3, lambda: None)
    late.start()

    def make(made: Callable[[int], None]) -> None:
        made(0)
        made(1)
        late.join()
        made(2)

    assert list(in_waves(make, 0, everything)) == [[0, 1, 2]]


def test_what_is_not_kept_is_in_no_list_and_counts() -> None:
    handed_on, seen = threading.Event(), list[int]()

    def keep(one: int) -> int | None:
        seen.append(one)
        return one if one > 1 else None

    def make(made: Callable[[int], None]) -> None:
        made(0)
        made(1)
        # nothing is kept when half of them is there: the rest is one list
        handed_on.wait(0.1)
        made(2)
        made(3)

    assert list(in_waves(make, 4, keep)) == [[2, 3]]
    assert seen == [0, 1, 2, 3]


def test_an_error_comes_after_all_that_was_made() -> None:
    def make(made: Callable[[int], None]) -> None:
        made(7)
        raise ValueError("no more")

    waves = in_waves(make, 3, everything)
    assert next(waves) == [7]
    with pytest.raises(ValueError, match="no more"):
        next(waves)


def test_nothing_of_nothing() -> None:
    assert list(in_waves(lambda _: None, 0, everything)) == []
