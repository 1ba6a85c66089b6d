# SPDX-License-Identifier: Apache-2.0
"""Which kinds of findings may warn follows from the labels alone, and a kind without labels from those like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.earned import UNLAUNCHED, WARNS, Labels, earned, kind_of, share_of, table
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.registry import TOOLS
from warplens_tools.text import Span

_BRANCH = "how often the branch of line 9 is taken"


@pytest.mark.parametrize(
    ("tiers", "missing", "kind"),
    [
        (["binary"], [], "WL101 compiled, seen"),
        (["source", "binary"], ["the block size", "the grid size"], "WL101 source, size unseen"),
        (["source"], ["the grid size", _BRANCH], "WL101 source, weight unseen"),
        (["source"], ["the grid size", UNLAUNCHED], "WL101 source, use unseen"),
        (["source"], ["whether HAVE_CUB is defined"], "WL101 source, use unseen"),
    ],
)
def test_a_kind_is_a_check_what_told_it_and_what_was_seen(
    tiers: list[str], missing: list[str], kind: str
) -> None:
    assert kind_of("WL101", tiers, missing) == kind


def test_few_labels_tell_little_and_many_tell_what_they_say() -> None:
    usual = {"WL999 source, seen": Labels(30, 100)}
    one = share_of("WL101 source, seen", {**usual, "WL101 source, seen": Labels(1, 1)})
    many = share_of("WL101 source, seen", {**usual, "WL101 source, seen": Labels(100, 100)})
    assert 0.3 < one < WARNS < 0.9 < many
    # Right where the source told it says little of where compiled code alone did, and nothing of other facts.
    labels = {**usual, "WL101 source, seen": Labels(40, 40)}
    assert share_of("WL101 compiled, seen", labels) > share_of("WL102 compiled, seen", labels)
    assert share_of("WL101 source, weight unseen", labels) == 0.0


def test_that_more_was_seen_is_not_held_against_a_check() -> None:
    usual = {"WL999 source, seen": Labels(80, 100), "WL101 source, size unseen": Labels(36, 40)}
    one = share_of("WL101 source, seen", {**usual, "WL101 source, seen": Labels(0, 1)})
    alone = share_of("WL102 source, seen", {**usual, "WL102 source, seen": Labels(0, 1)})
    assert alone < WARNS < one < 0.9
    # What was not seen is no excuse for what was.
    assert share_of("WL101 source, size unseen", {**usual, "WL101 source, seen": Labels(0, 40)}) > 0.8


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_a_share_is_one_and_grows_with_every_right_label(a: int, b: int, c: int, d: int) -> None:
    labels = {"WL101 source, seen": Labels(a, a + b), "WL102 source, seen": Labels(c, c + d)}
    more = {**labels, "WL101 source, seen": Labels(a + 1, a + b + 1)}
    before, after = (share_of("WL101 source, seen", found) for found in (labels, more))
    assert 0.0 <= before <= after <= 1.0


def test_the_table_knows_its_checks_and_counts_no_label_twice() -> None:
    codes = {tool.code for tool in TOOLS}
    for kind, labels in table().kinds.items():
        assert kind.split()[0] in codes
        assert 0 <= labels.right <= labels.of


def test_what_may_not_run_never_warns() -> None:
    seen = (Observation("source", "tree-sitter", "sectors per request", 32.0),)
    found = Finding(
        "WL102", "s", "k", Span(1, 1, 1, 2), "warning", "medium", "m", "g", seen, Gain.of(8.0, 8.0)
    )
    assert earned(found) >= WARNS
    for fact in (UNLAUNCHED, _BRANCH, "whether X is defined"):
        unseen = Finding(
            "WL102", "s", "k", found.span, "warning", "medium", "m", "g", seen, found.gain, missing=(fact,)
        )
        assert earned(unseen) == 0.0
