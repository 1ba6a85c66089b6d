# SPDX-License-Identifier: Apache-2.0
"""Hit rates, decisions and kept evidence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from warplens.store.database import open_store
from warplens.store.rates import HitRate, Trial, hit_rates, record_decision, record_trials


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with open_store(tmp_path) as connection:
        yield connection


def test_a_trial_counts_as_much_as_its_kernel_is_like_the_one_asked_for(store: sqlite3.Connection) -> None:
    row_walk = {"text:loops": 0.5, "text:double": 0.0, "finding:uncoalesced-global-read": 0.6}
    stencil = {"text:loops": 0.0, "text:double": 1.0, "finding:scalar-access": 0.4}
    good = [Trial("rule", "warp-per-row", "faster", 4.0, 5.0, True, features=row_walk) for _ in range(4)]
    bad = [Trial("rule", "warp-per-row", "slower", 4.0, 0.8, False, features=stencil) for _ in range(4)]
    record_trials(store, None, [*good, *bad, Trial("rule", "warp-per-row", "same", 4.0, 1.0, False)])
    (alike,), (other,), (plain,) = (hit_rates(store, like) for like in (row_walk, stencil, None))
    assert (plain.trials, plain.hits) == (9, 4)
    assert alike.hits / alike.trials > 0.8 > 0.2 > other.hits / other.trials
    assert (alike.mean_measured or 0) > 3 > 1 > (other.mean_measured or 9)
    (near,) = hit_rates(store, row_walk | {"text:loops": 0.75})
    assert other.hits / other.trials < near.hits / near.trials


def test_rates_set_the_prediction_beside_the_measurement(store: sqlite3.Connection) -> None:
    record_trials(
        store,
        None,
        [
            Trial("rule", "pad-shared-tile", "faster", 2.0, 1.5, True),
            Trial("rule", "pad-shared-tile", "faster", 2.0, 6.0, True),
            Trial("rule", "pad-shared-tile", "wrong", 2.0, None, False),
            Trial("tool", "WL104", "same", None, 1.0, False),
        ],
    )
    rule, tool = hit_rates(store)
    assert (rule.kind, rule.subject, rule.trials, rule.hits) == ("rule", "pad-shared-tile", 3, 2)
    assert rule.mean_predicted == pytest.approx(2.0)
    assert rule.mean_measured == pytest.approx(3.0)
    assert tool == HitRate("tool", "WL104", 1, 0, None, None)


def test_what_users_took_and_turned_down_is_counted(store: sqlite3.Connection) -> None:
    record_trials(store, None, [Trial("rule", "restrict-const", "faster", 1.2, 1.1, True)])
    record_trials(store, None, [Trial("tool", "WL106", "faster", 1.2, 1.1, True)])
    for accepted in (True, True, False):
        record_decision(
            store, path="/k.cu", kernel="k", rule="restrict-const", finding="WL106", accepted=accepted
        )
    assert [(r.kind, r.accepted, r.rejected) for r in hit_rates(store)] == [("rule", 2, 1), ("tool", 2, 1)]


def test_a_rule_that_was_only_decided_on_is_listed_too(store: sqlite3.Connection) -> None:
    record_decision(store, path="/k.cu", kernel="k", rule="float-literals", accepted=False)
    assert hit_rates(store) == [HitRate("rule", "float-literals", 0, 0, None, None, 0, 1)]
