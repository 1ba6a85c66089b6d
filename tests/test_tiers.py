# SPDX-License-Identifier: Apache-2.0
"""Which cases `make test` keeps, and which share of the others is asked for."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.tiers import mark_tiers, spread


class Item:
    """As much of a test as is looked at."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid = nodeid
        self._marks = list(marks)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((decorator.mark for decorator in self._marks if decorator.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self._marks.append(mark)


def left(items: list[Item], mark: str = "thorough", share: str = "") -> list[str]:
    """Names of those that get the mark."""
    mark_tiers(cast(Any, items), share)
    return [item.nodeid for item in items if item.get_closest_marker(mark)]


def test_a_sample_is_spread_over_all_cases_and_begins_with_the_first() -> None:
    assert spread(range(10), 3) == [0, 3, 6]
    assert spread(range(2), 3) == [0, 1]
    assert spread("abcdef", 6) == list("abcdef")


def test_so_many_cases_of_each_function_stay_and_what_has_no_mark_stays_whole() -> None:
    two = pytest.mark.sampled(2)
    cases = [Item(f"a.py::{name}[{n}]", two) for name in ("f", "g") for n in range(4)]
    plain = [Item(f"a.py::h[{n}]") for n in range(3)]
    assert left([*cases, *plain]) == [f"a.py::{name}[{n}]" for name in ("f", "g") for n in (1, 3)]


def test_cases_that_are_thorough_anyway_are_not_counted() -> None:
    one = pytest.mark.sampled(1)
    items = [Item("a.py::f[0]", one, pytest.mark.thorough), Item("a.py::f[1]", one), Item("a.py::f[2]", one)]
    assert left(items) == ["a.py::f[0]", "a.py::f[2]"]


def test_named_cases_stay() -> None:
    items = [Item(f"a.py::f[{name}]", pytest.mark.sampled(of={"b", "d"})) for name in "abcd"]
    assert left(items) == ["a.py::f[a]", "a.py::f[c]"]


def test_shares_hold_every_thorough_test_once_and_no_other() -> None:
    names = [f"a.py::f[{n}]" for n in range(50)]
    found = [
        name
        for number in range(7)
        for name in left([Item(name, pytest.mark.thorough) for name in names], "in_share", f"{number}/7")
    ]
    assert sorted(found) == sorted(names)
    assert left([Item("a.py::f")], "in_share", "0/1") == []


@pytest.mark.parametrize("share", ["7/7", "1", "-1/3", "a/b", "0/0"])
def test_a_share_that_is_none_is_refused(share: str) -> None:
    with pytest.raises(pytest.UsageError, match="K/N"):
        mark_tiers([], share)
