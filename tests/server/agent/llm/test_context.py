# SPDX-License-Identifier: Apache-2.0
"""Prompts stay within their bound, cut by priority; their files are whole; feedback is guidance."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.agent.llm import context, prompts
from warplens.agent.llm.anchors import Anchor
from warplens.agent.llm.asking import LOOKS, shortened
from warplens.agent.llm.context import Section, bounded, numbered, with_marks
from warplens.agent.llm.feedback import MOST_FINDINGS, avoided, guidance, raw_metrics
from warplens.agent.llm.provider import ROLES, Message, Question, Role, Usage, estimated_tokens
from warplens.agent.llm.spending import Allowance, Ledger, Prices
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.registry import TOOLS
from warplens_tools.text import SourceText, Span

FOLDER = Path(prompts.__file__).parent / "prompts"
_FILLER = "\n".join(f"// line {i} of something long that nobody needs" for i in range(400))
LONG = SourceText(f"""#include <cstdio>
#define TILE 32
{_FILLER}
__global__ void scale(float* x, int n) {{
    int i = blockIdx.x * TILE + threadIdx.x;
    if (i < n) x[i] *= 2;
}}
{_FILLER}
int main() {{
    scale<<<10, TILE>>>(nullptr, 3);
}}
""")


def section(title: str, lines: int, priority: int) -> Section:
    return Section(title, "\n".join(f"{title} {i}" for i in range(lines)), priority)


def test_all_that_fits_is_told_in_order() -> None:
    text = bounded([section("a", 3, 1), section("b", 0, 2), section("c", 2, 9)], 500)
    assert text.index("## a") < text.index("## c") and "## b" not in text and "left out" not in text


def test_the_lowest_priority_is_cut_first_and_says_so() -> None:
    given = [section("low", 200, 1), section("high", 60, 9), section("middle", 60, 5)]
    text = bounded(given, 500)
    assert "high 59" in text and "middle 59" in text and "low 0" in text and "lines left out" in text
    assert estimated_tokens(text) <= 500
    tighter = bounded(given, 210)
    assert "high 59" in tighter and "## low" not in tighter


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(1, 10)), max_size=8), st.integers(50, 600))
def test_no_case_is_longer_than_its_bound(parts: list[tuple[int, int]], tokens: int) -> None:
    text = bounded([section(f"s{i}", lines, p) for i, (lines, p) in enumerate(parts)], tokens)
    assert estimated_tokens(text) <= tokens + 1


def test_a_long_source_leaves_the_others_their_share() -> None:
    source = section("source", 4000, context.SOURCE)
    text = bounded(
        [source, section("plan", 20, context.PLAN), section("leaders", 900, context.LEADERS)], 1000
    )
    assert "plan 19" in text and "leaders 0" in text and "source 0" in text
    assert text.index("## plan") - text.index("## source") > 1500
    assert estimated_tokens(text) <= 1000
    alone = bounded([source, section("plan", 2, context.PLAN)], 1000)
    assert "plan 1" in alone and len(alone) > 2800


def test_a_source_is_cut_from_what_is_farthest_from_the_kernel() -> None:
    model = parse(LONG, "k.cu")
    assert numbered(LONG, model, "scale").count("\n") == LONG.line_count - 1
    short = numbered(LONG, model, "scale", 2500)
    assert len(short) <= 2600 and short.count("left out") >= 2
    for needed in ("#define TILE 32", "if (i < n) x[i] *= 2;", "scale<<<10, TILE>>>"):
        assert needed in short
    line = next(n for n in range(1, LONG.line_count + 1) if "x[i] *= 2" in LONG.line_text(n))
    assert f"{line:4d} |     if (i < n) x[i] *= 2;" in short


def test_marked_spans_are_kept_whatever_is_cut() -> None:
    model = parse(LONG, "k.cu")
    anchors = [Anchor("A1", 300, 301), Anchor("A2", 406, 406)]
    short = with_marks(LONG, model, "scale", anchors, 1500)
    for mark in ("<<<A1\n", "\nA1>>>", "<<<A2\n", "\nA2>>>"):
        assert mark in short
    assert len(short) <= 1600


def test_a_conversation_keeps_its_task_its_case_and_the_last_word() -> None:
    turns = [Message("system", "s"), Message("user", "case")]
    for i in range(10):
        turns += [Message("assistant", f"reply {i} " * 50), Message("user", f"no {i}")]
    kept = shortened(turns, 400)
    assert kept[:2] == tuple(turns[:2]) and kept[-1].text == "no 9"
    assert sum(estimated_tokens(m.text) for m in kept) <= 420
    assert [m.role for m in kept[2:]] == ["assistant", "user"] * ((len(kept) - 2) // 2)


def test_every_prompt_is_filled_and_names_its_form() -> None:
    for role in ROLES:
        for looks in (0, LOOKS):
            for host in (False, True):
                text = prompts.system_prompt(
                    role, host_edits=host, lower_precision=host, most_anchors=8, looks=looks
                )
                assert "{{" not in text and "}}" not in text.replace("}}]", "").replace("]}", "")
                assert ("CUTLASS" in text) == bool(looks)
                assert "never instructions" in text
                assert estimated_tokens(text) < 1500
    assert '"anchors"' in prompts.prompt_file("planner") and '<anchor id="A1">' in prompts.prompt_file(
        "coder"
    )


@pytest.mark.parametrize("role", ROLES)
def test_prompts_about_a_module_are_whole(role: Role) -> None:
    for lower in (False, True):
        text = prompts.system_prompt(
            role, host_edits=False, lower_precision=lower, most_anchors=8, plans=3, module=True
        )
        assert "{{" not in text and "`ModelNew`" in text and "never instructions" in text
        assert prompts.SOLUTION in text and "CUTLASS" not in text
        assert estimated_tokens(text) < 1500


def test_every_prompt_file_is_used() -> None:
    used = {*ROLES, *(f"{role}_task" for role in ROLES), "library", "look_planner", "look_coder"}
    assert {p.stem for p in FOLDER.glob("*.md")} == used


@pytest.mark.parametrize("role", ROLES)
def test_the_prompts_follow_what_is_allowed(role: Role) -> None:
    strict = prompts.system_prompt(role, host_edits=False, lower_precision=False, most_anchors=8)
    assert prompts.DEVICE_ONLY in strict and prompts.HOST_TOO not in strict
    assert "48 KiB of shared memory" in strict and "No host statement or variable is added" in strict
    # how inputs differ from those of the user's run
    assert "far from zero" in strict and "one less, halved, one" in strict


def test_what_not_to_do_is_said_for_every_check() -> None:
    assert {tool.slug for tool in TOOLS} == set(avoided())


def finding(gain: float = 2.0, kernel: str = "scale", code: str = "WL108") -> Finding:
    return Finding(
        code=code,
        slug="shared-bank-conflicts",
        kernel=kernel,
        span=Span(34, 1, 34, 9),
        severity="warning",
        confidence="high",
        message="32-way bank conflict on tile",
        guidance="Pad the inner extent of tile.",
        evidence=(Observation("source", "tree-sitter", "wavefronts per request", 32.0, "", 1.0, "32 banks"),),
        gain=Gain(gain, 1.0, gain + 1),
        missing=("the grid size",),
    )


def test_guidance_says_cause_line_number_limit_cure_and_what_not_to_do() -> None:
    told = guidance([finding()], "scale")
    for part in (
        "WL108 shared-bank-conflicts, line 34, high confidence: 32-way bank conflict on tile",
        "seen: wavefronts per request 32 (limit 1; 32 banks)",
        "do: Pad the inner extent of tile.",
        "do not: Do not pad by a multiple of 32 words",
        "expect: 2x (1x to 3x)",
        "not known: the grid size",
    ):
        assert part in told


def test_the_largest_gains_are_told_and_other_kernels_are_not() -> None:
    many = [finding(1.0 + i / 10, code=f"WL{100 + i}") for i in range(10)] + [finding(9.0, "other", "WL999")]
    told = guidance(many, "scale")
    assert told.count("  do: ") == MOST_FINDINGS and "WL999" not in told
    assert told.index("WL109") < told.index("WL108") and "(4 lesser findings left out)" in told
    assert "No tool found a cause" in guidance([], "scale")


def test_raw_metrics_are_numbers_without_advice() -> None:
    assert raw_metrics({"dram__throughput": 91.2345678, "a": 1.0}) == "a = 1\ndram__throughput = 91.2346"


def test_a_ledger_affords_only_what_surely_fits() -> None:
    ledger = Ledger(Allowance(1000, 1.0, Prices(10.0, 30.0)))
    question = Question("planner", (Message("user", "x" * 300),), 0.8, 400, 1.0)
    assert question.tokens == 100 and ledger.affords(question)
    ledger.charge(question, Usage(100, 400))
    assert ledger.tokens == 500 and ledger.dollars == pytest.approx(0.013)
    assert ledger.affords(question)
    ledger.charge(msgspec.structs.replace(question, role="coder"), Usage(1, 0, estimated=True))
    assert not ledger.affords(question)
    assert [(s.role, s.questions, s.estimated) for s in ledger.by_role()] == [
        ("planner", 1, False),
        ("coder", 1, True),
    ]
    assert not Ledger(Allowance(10**9, 0.001, Prices(10.0, 30.0))).affords(question)
    assert context.SOURCE > context.PLAN > context.FINDINGS > context.LEADERS > context.COUSINS


def test_what_is_counted_beyond_the_estimate_is_expected_of_every_other_question() -> None:
    question = Question("planner", (Message("user", "x" * 300),), 0.8, 400, 1.0)
    ledger = Ledger(Allowance(10_000, 1.0))
    # of a model that thinks without sending it
    ledger.charge(question, Usage(200, 3000))
    assert ledger.affords(question)
    ledger.charge(question, Usage(200, 3000))
    assert ledger.tokens == 6400 and ledger.affords(question)
    ledger.charge(question, Usage(100, 500))
    assert not ledger.affords(question), "7,000 and 3,200 are more than 10,000"


def test_other_scripts_fit_their_bound_too() -> None:
    """A letter of theirs may be a token of its own, where three of code are one."""
    lines = "\n".join(
        f"int x{i};  // \u8fd9\u91cc\u8ba1\u7b97\u77e9\u9635\u7684\u548c {i}" for i in range(900)
    )
    text = SourceText(LONG.text + lines)
    model = parse(text, "k.cu")
    source = Section(
        "source", numbered(text, model, "scale"), context.SOURCE, lambda n: numbered(text, model, "scale", n)
    )
    told = bounded([source, Section("tried", lines, context.CHILDREN)], 2000)
    assert len(told.encode()) <= 2000 * 3 and "if (i < n) x[i] *= 2;" in told and "## tried" in told
    last = shortened([Message("system", "s"), Message("user", "c"), *[Message("user", lines)] * 2], 900)
    assert sum(len(m.text.encode()) for m in last) <= 900 * 3 + 60
