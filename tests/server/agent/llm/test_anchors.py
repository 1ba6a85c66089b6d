# SPDX-License-Identifier: Apache-2.0
"""Anchors: found by their text, never guessed; every one resolved; nothing outside them changed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.agent.llm.anchors import (
    MOST_ANCHORS,
    Anchor,
    AnchorError,
    Claim,
    hunks,
    located,
    replaced,
    resolved,
)
from warplens_tools.text import SourceText

CODE = SourceText("""__global__ void f(float* x) {
    int i = threadIdx.x;
    __syncthreads();
    x[i] = 1;
    __syncthreads();
    x[i] = 2;
}
""")


def kind_of(*claims: Claim) -> str:
    with pytest.raises(AnchorError) as caught:
        located(CODE, claims)
    return caught.value.kind


def test_a_claim_is_found_where_it_says() -> None:
    assert located(CODE, [Claim("A1", 4, 5, "x[i] = 1;", "__syncthreads();")]) == (Anchor("A1", 4, 5),)


def test_the_text_counts_where_the_numbers_are_off() -> None:
    assert located(CODE, [Claim("A1", 9, 10, "x[i] = 1;", "x[i] = 2;")]) == (Anchor("A1", 4, 6),)
    # the last line moves along with the first
    assert located(CODE, [Claim("A1", 5, 6, "x[i] = 1;", "__syncthreads();")]) == (Anchor("A1", 4, 5),)
    assert located(CODE, [Claim("A1", 0, 0, "int i = threadIdx.x;")]) == (Anchor("A1", 2, 2),)


def test_lines_without_a_quotation_are_taken_by_number() -> None:
    assert located(CODE, [Claim("A1", 2, 3)]) == (Anchor("A1", 2, 3),)


@pytest.mark.parametrize(
    ("claims", "kind"),
    [
        ([], "wrong_anchor"),
        ([Claim("A1", 4, 4, "x[j] = 1;", "x[j] = 1;")], "wrong_anchor"),
        ([Claim("A1", 1, 1, "__syncthreads();", "__syncthreads();")], "ambiguous_anchor"),
        ([Claim("A1", 99, 99)], "wrong_anchor"),
        ([Claim("A1", 4, 2, "x[i] = 1;", "int i = threadIdx.x;")], "wrong_anchor"),
        ([Claim("A1", 2, 4), Claim("A2", 4, 5)], "ambiguous_anchor"),
        ([Claim("A1", 2, 2), Claim("A1", 4, 4)], "ambiguous_anchor"),
        ([Claim("../x", 2, 2)], "wrong_anchor"),
        ([Claim(f"A{i}", 2, 2) for i in range(MOST_ANCHORS + 1)], "wrong_anchor"),
        ([Claim("A1", -3, 10**9, "x[i] = 1;", "}")], ""),
    ],
)
def test_a_claim_that_fits_no_place_or_several_is_refused(claims: list[Claim], kind: str) -> None:
    if kind:
        assert kind_of(*claims) == kind
    else:
        assert located(CODE, claims) == (Anchor("A1", 4, 7),)


def test_every_span_must_be_resolved_and_no_other() -> None:
    anchors = located(CODE, [Claim("A1", 2, 2), Claim("A2", 4, 4)])
    for new, kind in (({"A1": "x"}, "unresolved_anchor"), ({"A1": "", "A2": "", "B": ""}, "wrong_anchor")):
        with pytest.raises(AnchorError) as caught:
            resolved(CODE, anchors, new)
        assert caught.value.kind == kind


def test_replacements_keep_the_rest_and_the_newlines_of_the_file() -> None:
    text = SourceText(CODE.text.replace("\n", "\r\n"))
    anchors = located(text, [Claim("A1", 2, 2), Claim("A2", 3, 3)])
    after = text.apply(list(resolved(text, anchors, {"A1": "int i = 0;\nint j = 1;", "A2": ""})))
    assert after.text.startswith(
        "__global__ void f(float* x) {\r\nint i = 0;\r\nint j = 1;\r\n    x[i] = 1;\r\n"
    )


def test_a_span_that_stays_makes_no_edit() -> None:
    anchors = located(CODE, [Claim("A1", 2, 2)])
    assert resolved(CODE, anchors, {"A1": "    int i = threadIdx.x;"}) == ()


def test_a_quotation_must_stand_once() -> None:
    edit = replaced(CODE, "    x[i] = 1;\n", "    x[i] = 3;\n")
    assert "x[i] = 3;" in CODE.apply([edit]).text
    for old, kind in (
        ("__syncthreads();", "ambiguous_anchor"),
        ("nowhere", "wrong_anchor"),
        ("  ", "wrong_anchor"),
    ):
        with pytest.raises(AnchorError) as caught:
            replaced(CODE, old, "")
        assert caught.value.kind == kind


_LINES = st.lists(st.sampled_from(["a;", "b;", "", "{", "}", "x[i] = 1;"]), min_size=1, max_size=30)


@given(_LINES, _LINES)
def test_hunks_cover_all_that_differs(before: list[str], after: list[str]) -> None:
    old, new = SourceText("\n".join([*before, ""])), SourceText("\n".join([*after, ""]))
    spans = hunks(old, new)
    assert len(spans) <= MOST_ANCHORS
    covered = {n for a in spans for n in range(a.first, a.last + 1)}
    left = [new.line_text(n) for n in range(1, new.line_count + 1) if n not in covered]
    # what is outside the spans stood there before, in that order
    remaining = iter([*before, ""])
    assert all(line in remaining for line in left)
    for above, below in itertools.pairwise(spans):
        assert above.last < below.first
    assert all(1 <= a.first <= a.last <= new.line_count for a in spans)


@given(_LINES, st.data())
def test_nothing_outside_the_spans_changes(lines: list[str], data: st.DataObject) -> None:
    text = SourceText("\n".join(lines) + "\n")
    first = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    new = data.draw(st.text(alphabet="xy;\n ", max_size=20))
    after = text.apply(list(resolved(text, [Anchor("A1", first, last)], {"A1": new}))).text
    assert after.startswith("".join(text.lines()[: first - 1]))
    assert after.endswith("".join(text.lines()[last:]))
