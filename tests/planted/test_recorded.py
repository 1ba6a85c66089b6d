# SPDX-License-Identifier: Apache-2.0
"""The counters tier on recordings of a real card: what it names, where, and what the hardware did."""

from __future__ import annotations

import functools

import pytest
from tests.planted.evaluate import rules_rank
from tests.planted.on_card import recorded_rules
from tests.planted.scoring import (
    LINES_APART,
    QUICK,
    RECORDINGS,
    Score,
    controls,
    examine_recorded,
    factors,
    mark_of,
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
PLACES = recordings_in(RECORDINGS)
RECORDED = sorted(p.stem for p in planted() if p.name in PLACES)
#: How far a promised gain may lie from what the twin gained on the card, as a factor either way.
NEAR = 1.33
#: Programs whose promise lies farther, with the factor that it may.
FARTHER = {"byte_histogram": 1.8, "chain_walk": 1.5, "codon_scores": 1.45, "film_tone": 2.0}

pytestmark = pytest.mark.compiler


@functools.cache
def examined(program: str) -> Score:
    return examine_recorded((program,), PLACES)


@pytest.mark.parametrize("program", RECORDED)
@pytest.mark.sampled(of=QUICK)
def test_the_cause_comes_first_on_its_line(program: str) -> None:
    (outcome,) = examined(program).outcomes
    assert (outcome.rank == 1) == (program not in NOT_FIRST), outcome.found
    assert outcome.lines_apart is None or outcome.lines_apart <= LINES_APART


@pytest.mark.parametrize("program", RECORDED)
@pytest.mark.sampled(of=QUICK)
def test_the_class_is_what_the_hardware_did(program: str) -> None:
    (outcome,) = examined(program).outcomes
    assert (outcome.bound == outcome.expected_bound) == (program not in OTHER_CLASS), outcome.bound


#: Programs whose cause is named by what was counted alone, without a tool that read why.
COUNTED_ALONE = (
    "alpha_coverage", "barrier_paths", "block_error", "byte_histogram", "checker_walk", "codon_scores",
    "decay_response", "film_tone", "head_split", "image_rows", "label_counts", "mixed_filters", "newline_index",
    "plane_waves", "portfolio_total",
)  # fmt: skip


@pytest.mark.parametrize("program", COUNTED_ALONE)
@pytest.mark.sampled(of=QUICK)
def test_counters_alone_name_what_no_tool_has_read(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = tuple(map(silenced, all_tools()))
    monkeypatch.setattr(check, "all_tools", lambda: blind)
    (outcome,) = examine_recorded((program,), PLACES).outcomes
    assert outcome.rank == 1, outcome.found
    assert (outcome.lines_apart or 0) <= LINES_APART


@pytest.mark.parametrize("program", RECORDED)
@pytest.mark.sampled(of=QUICK)
def test_a_recorded_twin_is_silent(program: str) -> None:
    (outcome,) = examined(program).outcomes
    assert outcome.twin_clean is not False, outcome.twin


@pytest.mark.parametrize("program", sorted(p.stem for p in controls() if p.name in PLACES))
@pytest.mark.sampled(of=QUICK)
def test_a_recorded_control_is_silent(program: str) -> None:
    assert [c.warnings for c in examined(program).controls] == [()]


@pytest.mark.parametrize("program", RECORDED)
@pytest.mark.sampled(of=QUICK)
def test_a_gain_is_promised_near_what_the_twin_gained(program: str) -> None:
    factor = factors(examined(program)).get(program)
    assert factor is not None
    assert factor <= FARTHER.get(program, NEAR)


def test_nsight_computes_rules_name_far_fewer_causes_first() -> None:
    rules = recorded_rules(PLACES)
    marked = {f"{p.stem}.cu": mark_of(p).slug for p in planted() if p.stem in RECORDED}
    ranks = [rules_rank(slug, rules[name]) for name, slug in marked.items() if name in rules]
    assert len(ranks) > len(RECORDED) / 2, "recordings of the smallest set of metrics hold no rules"
    assert 0 < ranks.count(1) < len(ranks) / 4
