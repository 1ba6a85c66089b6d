# SPDX-License-Identifier: Apache-2.0
"""Replies as hostile input: prose around code, halves, repetitions, control characters, wrong shapes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.agent.llm.provider import Finish, Reply, Usage
from warplens.agent.llm.replies import (
    PLAN_SCHEMA,
    Blocks,
    Look,
    ReplyError,
    blocks_of,
    looks_of,
    plans_of,
    sound,
    whole,
)

ANCHOR = {"id": "A1", "first_line": 3, "last_line": 4, "first_text": "x", "last_text": "y", "change": "tile"}
PLAN = {"title": "Tile it", "idea": "shared memory", "answers": ["WL101"], "gain": 1.5, "anchors": [ANCHOR]}


def kind_of(error: pytest.ExceptionInfo[ReplyError]) -> str:
    return error.value.kind


@pytest.mark.parametrize(
    "around",
    ["{}", "Sure! Here is the plan:\n```json\n{}\n```\nGood luck.", '{{not json}} {{"a": 1}} then {}'],
)
def test_a_plan_is_found_among_prose(around: str) -> None:
    plan = plans_of(around.format(json.dumps(PLAN)))[0]
    assert (plan.title, plan.gain, plan.answers) == ("Tile it", 1.5, ("WL101",))
    assert plan.claims[0].first_line == 3 and plan.claims[0].change == "tile"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "[]",
        "{",
        "{" * 5000,
        json.dumps({"title": "x"}),
        json.dumps({**PLAN, "title": 3}),
        '{"a":' * 3000,
    ],
)
def test_what_is_no_plan_is_said_so(text: str) -> None:
    with pytest.raises(ReplyError) as caught:
        plans_of(text)
    assert kind_of(caught) == "no_plan"


def test_a_plan_of_wrong_parts_keeps_what_is_right() -> None:
    odd = {
        **PLAN,
        "gain": float("inf"),
        "answers": "WL101",
        "anchors": [3, None, {"id": 4}, ANCHOR],
        "idea": None,
    }
    (plan,) = plans_of(json.dumps(odd))
    assert len(plan.claims) >= 1 and plan.answers == () and 1.0 <= plan.gain <= 10.0
    assert plans_of(json.dumps({**PLAN, "gain": "huge"}))[0].gain == 1.1
    assert plans_of(json.dumps({**PLAN, "gain": 1e9}))[0].gain == 10.0
    assert plans_of(json.dumps({**PLAN, "gain": float("nan")}))[0].gain == 1.1


def test_titles_are_one_short_line_without_control_characters() -> None:
    title = plans_of(json.dumps({**PLAN, "title": "a\x1b[31m red\n\n# heading\r" + "x" * 500}))[0].title
    assert title.startswith("a [31m red # heading") and len(title) <= 100 and title.isprintable()


@pytest.mark.parametrize(
    "text", ["I'm sorry, but I can't help with that.", "I cannot assist with this request."]
)
def test_declining_in_words_is_a_refusal(text: str) -> None:
    for understand in (plans_of, blocks_of):
        with pytest.raises(ReplyError) as caught:
            understand(text)
        assert kind_of(caught) == "refused"


@pytest.mark.parametrize(
    ("finish", "text", "kind"),
    [("refusal", "", "refused"), ("length", "half", "truncated"), ("stop", "  \n", "empty")],
)
def test_a_reply_that_did_not_end_well_is_not_read(finish: Finish, text: str, kind: str) -> None:
    with pytest.raises(ReplyError) as caught:
        whole(Reply(text, finish, Usage()))
    assert kind_of(caught) == kind


def test_blocks_are_taken_out_of_prose_fences_marks_and_line_numbers() -> None:
    text = """Here you go.
<anchor id="A1">
```cuda
int i = 0;
  y[i] = 1;
```
</anchor>
and
<anchor id='A2'>
<<<A2
  12 | float z;
  13 |
  14 |   z = 2;
A2>>>
</anchor>
<anchor id=A3>
</anchor>
Hope this helps!"""
    assert blocks_of(text).texts == {"A1": "int i = 0;\n  y[i] = 1;", "A2": "float z;\n\n  z = 2;", "A3": ""}


def test_launches_in_code_are_no_marks() -> None:
    code = "scale\n<<<\nblocks, threads\n>>>(x);\nif (a<<<b) {}\nthreads>>>\n(x);"
    assert blocks_of(f'<anchor id="A1">\n{code}\n</anchor>').texts["A1"] == code


def test_two_blocks_for_one_span_are_ambiguous() -> None:
    with pytest.raises(ReplyError) as caught:
        blocks_of('<anchor id="A1">\na\n</anchor>\n<anchor id="A1">\nb\n</anchor>')
    assert kind_of(caught) == "ambiguous_anchor"


def test_a_block_without_its_end_is_none() -> None:
    with pytest.raises(ReplyError) as caught:
        blocks_of('<anchor id="A1">\nint i;\n')
    assert kind_of(caught) == "no_code"


def test_a_debugger_may_quote_and_nobody_else() -> None:
    text = "<replace>\n<old>\nint i;\n</old>\n<new>\nlong i;\n</new>\n</replace>"
    assert blocks_of(text, quotations=True) == Blocks({}, (("int i;", "long i;"),))
    with pytest.raises(ReplyError):
        blocks_of(text)


def test_looks_are_read_in_either_form_and_only_known_tools() -> None:
    asked = {"look": [{"tool": "search", "query": "TMA\nload"}, {"tool": "shell", "query": "rm"}, 4]}
    assert looks_of(json.dumps(asked)) == (Look("search", "TMA load"),)
    text = '<look tool="read" line="12">include/x.hpp</look><look tool="open">/etc/passwd</look>'
    assert looks_of(text) == (Look("read", "include/x.hpp", 12),)
    assert looks_of(json.dumps({**PLAN, "look": []})) == ()
    assert looks_of(json.dumps({**PLAN, "look": [{"tool": "search", "query": "x"}]})) == ()
    assert looks_of('<anchor id="A1">\nx\n</anchor>') == ()


def test_the_schema_asks_for_what_is_read() -> None:
    assert set(PLAN_SCHEMA["properties"]) == {*PLAN, "look"} == set(PLAN_SCHEMA["required"])
    assert set(PLAN_SCHEMA["properties"]["anchors"]["items"]["properties"]) == set(ANCHOR)


@given(st.text(alphabet=st.sampled_from('{}[]":,<>/anchorA1 \n`look=replaceoldnewtool'), max_size=400))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    for understand in (plans_of, blocks_of, looks_of):
        try:
            understand(text)
        except ReplyError as error:
            assert error.kind and len(str(error)) < 400


def test_numbers_without_measure_steer_nothing() -> None:
    for number in ("1" + "0" * 400, "-1e999", "1e999"):
        text = json.dumps(PLAN).replace("1.5", number)
        assert plans_of(text)[0].gain == (1.0 if number.startswith("-") else 10.0)


def test_half_a_surrogate_pair_becomes_what_can_be_written() -> None:
    """JSON can name one, and no file and no request can hold it."""
    halves = json.dumps(PLAN).replace("shared memory", r"a \udc00 b").replace('"tile"', r'"\ud83d"')
    plan = plans_of(halves.replace('"x"', r'"\ud83d\ude00 \ud83d"'))[0]
    (claim,) = plan.claims
    assert (plan.idea, claim.change, claim.first_text) == ("a ? b", "?", "\U0001f600 ?")
    assert sound("x\ud800\U0001f600") == "x?\U0001f600"


@pytest.mark.parametrize(
    "code", ["int i;\x1b[2K", "int\x00 i;", "int i;\rint j;", "/* \u202e } \u2066 if (x) */", "\x9b2J"]
)
def test_code_that_shows_as_something_else_is_refused(code: str) -> None:
    for text in (
        f'<anchor id="A1">\n{code}\n</anchor>',
        f"<replace><old>\nx\n</old><new>\n{code}\n</new></replace>",
    ):
        with pytest.raises(ReplyError) as caught:
            blocks_of(text, quotations=True)
        assert kind_of(caught) == "not_text"
    assert blocks_of('<anchor id="A1">\r\n\tint i;\r\n\f// 行\r\n</anchor>').texts["A1"].strip()
