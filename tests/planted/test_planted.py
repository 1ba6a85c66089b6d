# SPDX-License-Identifier: Apache-2.0
"""The binary tier names planted causes, keeps quiet on tuned kernels, and falls silent once a cause is gone."""

from __future__ import annotations

import statistics

import pytest
from tests.planted.scoring import LINES_APART, Score, examine, factors, mark_of, planted, twin_of

from warplens_tools.micro.registry import TOOLS


@pytest.fixture(scope="module")
def score() -> Score:
    return examine((), "binary", "sm_90")


def test_every_program_has_one_mark_a_class_and_a_twin() -> None:
    slugs = {tool.slug for tool in TOOLS}
    for path in planted():
        mark = mark_of(path)
        assert mark.slug in slugs, path.name
        assert mark.bound in ("memory", "compute", "latency", "launch"), path.name
        assert "expect:" not in twin_of(path).read_text("utf-8"), path.name


@pytest.mark.compiler
@pytest.mark.timeout(300)
def test_the_cause_comes_first_on_its_line(score: Score) -> None:
    assert score.share(within=1) >= 0.9
    assert score.line >= 0.9
    assert score.bound >= 0.9
    for outcome in score.outcomes:
        assert outcome.lines_apart is None or outcome.lines_apart <= LINES_APART, outcome.program


@pytest.mark.compiler
def test_tuned_kernels_get_no_warning(score: Score) -> None:
    assert [c for c in score.controls if c.warnings] == []


@pytest.mark.compiler
def test_a_repaired_program_no_longer_has_the_finding(score: Score) -> None:
    assert [o.program for o in score.outcomes if not o.twin_clean] == []


@pytest.mark.compiler
def test_gains_are_promised_near_what_the_twins_gained_on_a_card(score: Score) -> None:
    apart = factors(score)
    assert len(apart) >= len(planted()) - 1
    assert statistics.median(apart.values()) <= 1.25
    assert [name for name, factor in apart.items() if factor > 2.0] == []
