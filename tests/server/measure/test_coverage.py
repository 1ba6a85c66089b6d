# SPDX-License-Identifier: Apache-2.0
"""Where a case was not met for want of time, other lengths are asked before anybody is called unproven."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from warplens.measure.company import NoWinnerError
from warplens.measure.costs import Costs
from warplens.measure.coverage import Coverage
from warplens_tools.evidence import Unknown


class _Meeting(Coverage):
    """A case is met once the third set of marks is there."""

    def _known(self, opened: Any, built: Any) -> list[Unknown]:  # noqa: ARG002
        if len(self._ran) < 3:
            raise NoWinnerError("unproven", "a case always came out the same")
        return []


def _heard(ran: str, *skipped: str, unasked: str = "") -> Any:
    baseline = SimpleNamespace(twin_seconds=0.5, twin=unasked, skipped=skipped)
    return SimpleNamespace(baseline=baseline, result=SimpleNamespace(ran=ran, ran_unknown=0))


def _of(heards: list[Any], again: Any) -> tuple[list[Unknown], float]:
    coverage = _Meeting(Unknown("", ""), Unknown("", ""), ["01"])
    for heard in heards:
        coverage.add(heard)
    costs = Costs()
    known = coverage.of(cast(Any, None), cast(Any, None), costs, lambda: again)
    return known, costs.told()["the kernel's twin"]


def test_other_lengths_may_meet_it() -> None:
    assert _of([_heard("01", "with integers by value one less")], _heard("11")) == ([], 1.0)


def test_who_left_nothing_out_is_not_asked_again() -> None:
    with pytest.raises(NoWinnerError, match="always"):
        _of([_heard("01")], _heard("11"))


def test_what_they_do_not_tell_stays_unproven() -> None:
    for silent in (_heard(""), _heard("11", unasked="it does not give the kernel's own results")):
        with pytest.raises(NoWinnerError, match="always"):
            _of([_heard("01", "halved")], silent)
