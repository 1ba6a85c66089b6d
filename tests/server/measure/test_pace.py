# SPDX-License-Identifier: Apache-2.0
"""How many candidates a lane is given at once follows from what those before it took."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from warplens.measure.pool.pace import FIRST, Pace
from warplens.measure.verdict import State, Verdict


def told(pace: Pace, own: float, once: float, together: int, state: State = "faster") -> None:
    cost = {"build": 2.0, "start": once / together, "compare": 0.0, "time": own}
    pace.told(Verdict("c", state, "", cost=cost), together)


def test_the_first_chunk_is_small_and_knows_of_no_time() -> None:
    assert Pace(8).chunk() == FIRST
    assert Pace(2).chunk() == 2
    assert Pace(8).fitting(0.5, 3) == 8


def test_candidates_that_take_long_are_judged_a_few_at_a_time() -> None:
    slow, quick = Pace(8), Pace(8)
    told(slow, own=1.75, once=3.4, together=7)
    told(quick, own=0.07, once=1.0, together=8)
    assert slow.chunk() == 6
    assert quick.chunk() == 8


def test_no_more_is_begun_than_ends_in_time() -> None:
    pace = Pace(8)
    told(pace, own=2.0, once=3.0, together=4)
    # built first, then on the card
    assert pace.fitting(2.0 + 3.0 + 2 * 2.0 + 0.1, 0) == 2
    # built while four others are at the card
    assert pace.fitting(3.0 + 4 * 2.0 + 3.0 + 2.0 + 0.1, 4) == 1
    assert pace.fitting(4.0, 0) == 0
    assert pace.fitting(math.inf, 9) == 8


def test_a_candidate_that_was_not_timed_says_nothing_of_the_next() -> None:
    pace = Pace(8)
    pace.told(Verdict("c", "wrong", "", cost={"build": 1.0, "compare": 0.1}), 4)
    pace.told(Verdict("c", "same", "", cost={"build": 1.0}), 4)
    assert pace.chunk() == FIRST


@given(
    st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.integers(1, 8), st.floats(0.0, 500.0), st.integers(0, 20)
)
def test_a_chunk_is_never_out_of_bounds(
    own: float, once: float, together: int, left: float, before: int
) -> None:
    pace = Pace(8)
    told(pace, own, once, together)
    assert FIRST <= pace.chunk() <= 8
    assert pace.fitting(left, before) >= 0
