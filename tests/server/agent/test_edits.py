# SPDX-License-Identifier: Apache-2.0
"""Chains of edits against the baseline, as properties."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warplens.agent.edits import compose, text_hash
from warplens_tools.text import SourceText, TextEdit

texts = st.text(st.sampled_from("ab \n\rµ😀"), max_size=40)


@st.composite
def edits_of(draw: st.DrawFn, text: str) -> list[TextEdit]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6, unique=True)))
    source = SourceText(text)
    found = [
        TextEdit(source.span(start, end), draw(st.text("xy\n", max_size=3)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    return draw(st.permutations(found))


@given(st.data(), texts)
def test_composed_edits_do_what_one_after_the_other_does(data: st.DataObject, text: str) -> None:
    baseline = SourceText(text)
    first = data.draw(edits_of(text))
    middle = baseline.apply(first)
    second = data.draw(edits_of(middle.text))
    composed = compose(baseline, first, second)
    assert baseline.apply(list(composed)).text == middle.apply(second).text


@given(st.data(), texts)
def test_undoing_an_edit_leaves_no_trace(data: st.DataObject, text: str) -> None:
    baseline = SourceText(text)
    first = data.draw(edits_of(text))
    middle = baseline.apply(first)
    whole = [TextEdit(middle.span(0, len(middle.text)), text)]
    assert compose(baseline, first, whole) == () or middle.text == text == ""


def test_untouched_text_stays_out_of_the_edits() -> None:
    baseline = SourceText("int a = 1;\nint b = 2;\nint c = 3;\n")
    first = [TextEdit(baseline.span(8, 9), "4")]
    middle = baseline.apply(first)
    second = [TextEdit(middle.span(30, 31), "5")]
    assert compose(baseline, first, second) == (
        TextEdit(baseline.span(8, 9), "4"),
        TextEdit(baseline.span(30, 31), "5"),
    )


def test_equal_texts_have_equal_hashes() -> None:
    assert text_hash(SourceText("a\n")) == text_hash(SourceText("a\n")) != text_hash(SourceText("a\r\n"))
