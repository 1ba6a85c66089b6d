# SPDX-License-Identifier: Apache-2.0
"""The counters tier on recordings of a real card: what it names, where, and what the hardware did."""

from __future__ import annotations

import statistics

import pytest
from tests.planted.evaluate import rules_rank
from tests.planted.on_card import recorded_rules
from tests.planted.scoring import (
    LINES_APART,
    RECORDINGS,
    Outcome,
    Score,
    examine_recorded,
    factors,
    planted,
    recordings_in,
)

from warplens.service import check
from warplens_tools.micro.registry import all_tools
from warplens_tools.testing import silenced

#: Programs whose cause is not the first finding, with the reason.
NOT_FIRST: dict[str, str] = {}
#: Programs whose class is not the marked one, with the reason.
OTHER_CLASS = {
    "blurred_lines": "L1 at 62 % and instruction issue at 60 % of their roofs are balanced",
    "camera_frames": "one launch lasts 7 us, too short to fill device memory; the marked class is the program's",
    "tidal_height": "the constant cache, at 62 % of its roof, is busier than the chain's own pipe",
    "tomo_slices": "memory at 60 % and instruction issue at 56 % of their roofs are balanced",
}
RECORDED = sorted(p.stem for p in planted() if p.name in recordings_in(RECORDINGS))

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def score() -> Score:
    return examine_recorded((), recordings_in(RECORDINGS))


def outcome_of(score: Score, program: str) -> Outcome:
    return next(o for o in score.outcomes if o.program == program)


@pytest.mark.parametrize("program", RECORDED)
def test_the_cause_comes_first_on_its_line(score: Score, program: str) -> None:
    outcome = outcome_of(score, program)
    assert (outcome.rank == 1) == (program not in NOT_FIRST), outcome.found
    assert outcome.lines_apart is None or outcome.lines_apart <= LINES_APART


@pytest.mark.parametrize("program", RECORDED)
def test_the_class_is_what_the_hardware_did(score: Score, program: str) -> None:
    outcome = outcome_of(score, program)
    assert (outcome.bound == outcome.expected_bound) == (program not in OTHER_CLASS), outcome.bound


#: Programs whose cause is named by what was counted alone, without a tool that read why.
COUNTED_ALONE = (
    "alpha_coverage", "barrier_paths", "block_error", "byte_histogram", "checker_walk", "codon_scores",
    "decay_response", "film_tone", "head_split", "image_rows", "label_counts", "mixed_filters", "newline_index",
    "plane_waves", "portfolio_total",
)  # fmt: skip


def test_counters_alone_name_what_no_tool_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = tuple(map(silenced, all_tools()))
    monkeypatch.setattr(check, "all_tools", lambda: blind)
    score = examine_recorded((), recordings_in(RECORDINGS))
    named = {o.program for o in score.outcomes if o.rank == 1 and (o.lines_apart or 0) <= LINES_APART}
    assert named >= set(COUNTED_ALONE)


def test_recorded_twins_and_controls_are_silent(score: Score) -> None:
    assert [o.program for o in score.outcomes if o.twin_clean is False] == []
    assert [c for c in score.controls if c.warnings] == []


def test_gains_are_promised_within_a_third(score: Score) -> None:
    apart = factors(score)
    assert len(apart) > 0.9 * len(RECORDED)
    assert statistics.median(apart.values()) <= 1.33


def test_nsight_computes_rules_name_far_fewer_causes_first(score: Score) -> None:
    rules = recorded_rules(recordings_in(RECORDINGS))
    ranks = [
        rules_rank(o.slug, rules[f"{o.program}.cu"]) for o in score.outcomes if f"{o.program}.cu" in rules
    ]
    assert len(ranks) > len(RECORDED) / 2, "recordings of the smallest set of metrics hold no rules"
    assert 0 < ranks.count(1) < len(ranks) / 4
