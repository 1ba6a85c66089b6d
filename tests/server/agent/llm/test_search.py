# SPDX-License-Identifier: Apache-2.0
"""The model in the search: plan, code, judge, debug over real HTTP; hostile replies; budgets; nothing leaks."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("openai")

from tests.server.agent.llm import endpoint as faults
from tests.server.agent.llm.endpoint import Say, Status
from tests.server.agent.llm.scripted import (
    CODE,
    LINE,
    TextJudge,
    by_role,
    case_of,
    code,
    ideas,
    plan,
    role_of,
    searching,
)
from tests.server.agent.llm.test_context import finding

from warplens.agent.llm.asking import CORRECTIONS, Bounds
from warplens.agent.llm.provider import estimated_tokens
from warplens.agent.llm.source import ATTEMPTS
from warplens.agent.problem import Problem
from warplens.agent.result import OptimizeResult
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import SearchSettings
from warplens.settings import Model
from warplens.store.database import open_store
from warplens.store.rates import hit_rates
from warplens.store.runs import read_steps
from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with open_store(tmp_path) as connection:
        yield connection


def run(
    problem: Problem, store: sqlite3.Connection, text: str = CODE, task: Task | None = None
) -> OptimizeResult:
    return optimize(problem, TextJudge(SourceText(text)), store, task=task or Task())


def flat(problem: Problem) -> Problem:
    """All steps from the user's own text."""
    return msgspec.structs.replace(problem, settings=SearchSettings(max_depth=1))


def faster(request: dict[str, Any], number: int) -> str:
    """Each change a little better than the last, to twice the speed."""
    del request
    return code(f'{LINE}\n    asm("// speed={min(1.2 + number / 10, 2.0):.1f} {number}");')


def test_a_plan_is_coded_judged_and_built_upon(store: sqlite3.Connection) -> None:
    planned = by_role(planner=ideas, coder=faster)
    with searching(planned) as (problem, source, endpoint):
        result = run(problem, store)
    assert result.outcome == "faster" and result.proof is not None
    assert "speed=1.7" in result.diff
    assert {t.origin for t in result.tried} == {"model:planner"}
    assert [role_of(r) for r in endpoint.requests] == ["planner", "coder"] * 6
    assert [r["temperature"] for r in endpoint.requests[:2]] == [0.8, 0.1]
    assert source.asker.troubles == {} and source.made == 6
    # what was tried is told, with what it did
    assert any("idea 0: 1.20x of the original's speed" in case_of(r) for r in endpoint.requests[2:])
    rates = {r.subject: r for r in hit_rates(store) if r.kind == "rule"}
    assert rates["model:planner"].trials == 6
    assert [s.kind for s in read_steps(store, result.run or 0)].count("ask") == 6


def test_a_failure_is_told_once(store: sqlite3.Connection) -> None:
    def wrong_first(request: dict[str, Any], number: int) -> str:
        if number % 2 == 0:
            return code(f'{LINE}\n    asm("// state=wrong: element {number} differs");')
        return faster(request, number)

    script = by_role(planner=ideas, coder=wrong_first, debugger="I cannot")
    with searching(script, candidates=6) as (problem, _, endpoint):
        run(problem, store)
    planners = [case_of(r) for r in endpoint.requests if role_of(r) == "planner"]
    assert any("element 0 differs" in case for case in planners)
    assert all(case.count("wrong: element 0 differs") <= 1 for case in planners)


def test_progress_says_which_role_is_at_work_and_what_was_spent(store: sqlite3.Connection) -> None:
    said: list[str] = []
    script = by_role(planner=[plan("x")], coder=lambda r, n: Say(faster(r, n), usage=(3000, 1000)))
    with searching(script, candidates=1, dollars=5.0) as (problem, source, _):
        run(problem, store, task=Task(lambda message, _: said.append(message)))
    planner, coder = (
        next(m for m in said if m.startswith(f"{role} at work")) for role in ("planner", "coder")
    )
    assert planner == "planner at work, 0 tokens, $0.00 so far"
    assert re.fullmatch(r"coder at work, [\d,]+ tokens, \$\d+\.\d\d so far", coder) and coder != planner
    assert source.asker.ledger.tokens > 4000


def test_what_failed_is_debugged_with_its_failure_and_its_diff(store: sqlite3.Connection) -> None:
    script = by_role(
        planner=[plan("a tile")],
        coder=[code(f'{LINE}\n    asm("// state=not_built: line 5: tile is undefined");')],
        debugger=[code(f'{LINE}\n    asm("// speed=1.5");')],
    )
    with searching(script, candidates=2) as (problem, _, endpoint):
        result = run(problem, store)
    assert result.outcome == "faster"
    assert [(t.origin, t.state) for t in result.tried] == [
        ("model:planner", "not_built"),
        ("model:debugger", "faster"),
    ]
    assert result.tried[1].parent == result.tried[0].id
    (asked,) = [case_of(r) for r in endpoint.requests if role_of(r) == "debugger"]
    for part in ("The judge says not built: line 5: tile is undefined", "+    asm(", "<<<A1", "a tile"):
        assert part in asked


def test_a_debugger_may_repair_outside_the_spans_by_quoting(store: sqlite3.Connection) -> None:
    repair = (
        "The index is off.\n<replace>\n<old>\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n</old>\n<new>\n"
        '    int i = threadIdx.x;\n    asm("// speed=1.5");\n</new>\n</replace>\n' + code(LINE)
    )
    script = by_role(
        planner=[plan("a tile")], coder=[code(f'{LINE}\n    asm("// state=wrong: x");')], debugger=[repair]
    )
    with searching(script, candidates=2) as (problem, _, _):
        result = run(problem, store)
    assert (
        result.outcome == "faster" and "-    int i = blockIdx" in result.diff and "state=" not in result.diff
    )


@pytest.mark.parametrize(
    ("planner", "trouble"),
    [
        ("I'm sorry, I can't help with that.", "refused"),
        (Say("", refusal="no"), "refused"),
        (Say('{"title": "half', finish="length"), "truncated"),
        ("Let me think about it.", "no_plan"),
        (plan("x", line="no such line"), "wrong_anchor"),
        (plan("x", line="}"), "ambiguous_anchor"),
        (plan("x", anchors=[]), "wrong_anchor"),
        ("", "empty"),
    ],
)
def test_a_plan_that_cannot_be_used_is_told_why_and_given_up(
    store: sqlite3.Connection, planner: faults.Answer, trouble: str
) -> None:
    with searching(by_role(planner=[planner], coder="never")) as (problem, source, endpoint):
        result = run(problem, store)
    assert result.outcome == "nothing"
    assert source.asker.troubles == {trouble: (CORRECTIONS + 1) * ATTEMPTS}
    assert len(endpoint.requests) == (CORRECTIONS + 1) * ATTEMPTS
    assert "That cannot be used" in endpoint.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("coder", "trouble"),
    [
        ("Here is some prose without code.", "no_code"),
        (code("x[0] = 1;", "A9"), "unresolved_anchor"),
        (code(LINE) + code("int z;", "A2"), "wrong_anchor"),
        (code(LINE) + "\n" + code(LINE), "ambiguous_anchor"),
        (code(LINE + "  // a comment"), "no_change"),
        (code(LINE + '\n#include "/etc/passwd"'), "not_allowed"),
        (code(LINE + '\n}\nvoid host() { system("rm -rf /");'), "not_allowed"),
        (code(LINE + "\n    if ("), "not_allowed"),
        (Say(code(LINE)[:20], finish="length"), "truncated"),
    ],
)
def test_code_that_cannot_be_used_reaches_no_judge(
    store: sqlite3.Connection, coder: faults.Answer, trouble: str
) -> None:
    judge = TextJudge(SourceText(CODE))
    script = by_role(planner=ideas, coder=[coder])
    with searching(script) as (problem, source, _):
        result = optimize(problem, judge, store)
    assert result.outcome == "nothing" and judge.judged == []
    assert set(source.asker.troubles) == {trouble}


def test_what_no_file_can_hold_ends_no_search(store: sqlite3.Connection, tmp_path: Path) -> None:
    """Halves of surrogate pairs, in a plan's JSON and in the words of the protocol itself."""
    broken = plan("x", idea="\ud800").replace("do it", "\\udc00")
    script = by_role(
        planner=[broken], coder=[code(LINE + "  // \ud83d"), code(f'{LINE}\n    asm("// speed=1.5 \ud83d");')]
    )
    with searching(script, candidates=1) as (problem, source, endpoint):
        result = run(problem, store)
    assert result.outcome == "faster" and "speed=1.5 ?" in result.diff
    assert source.asker.troubles == {"no_change": 1}
    (tmp_path / "sent").write_text(json.dumps(endpoint.requests, ensure_ascii=False), "utf-8")


def test_a_correction_is_taken(store: sqlite3.Connection) -> None:
    good = code(f'{LINE}\n    asm("// speed=1.5");')
    script = by_role(
        planner=["not now", plan("x", line="x[i] = x[i] * 3;"), "Sure:\n" + plan("x") + "\nDone."],
        coder=["```cuda\nint main() {}\n```", f"Here:\n{good}\nEnjoy."],
    )
    with searching(script, candidates=1) as (problem, source, _):
        result = run(problem, store)
    assert result.outcome == "faster"
    assert source.asker.troubles == {"no_plan": 1, "wrong_anchor": 1, "no_code": 1}


def test_a_duplicate_is_never_judged_twice(store: sqlite3.Connection) -> None:
    judge = TextJudge(SourceText(CODE))
    same = code(f'{LINE}\n    asm("// speed=1.5");')
    varied = [same, same.replace("\n    asm", "   \n\t asm"), same.replace(");\n", ");  // the same\n", 1)]
    script = by_role(planner=ideas, coder=varied)
    with searching(script, candidates=4) as (problem, source, _):
        optimize(flat(problem), judge, store)
    assert len(judge.judged) == len(set(judge.judged)) == 1
    assert source.asker.troubles["duplicate"] > 0


def test_the_same_plan_is_not_written_again(store: sqlite3.Connection) -> None:
    script = by_role(planner=[plan("always this")], coder=[code(f'{LINE}\n    asm("// speed=0.5");')])
    with searching(script, candidates=3) as (problem, source, endpoint):
        run(flat(problem), store)
    assert [role_of(r) for r in endpoint.requests].count("coder") == 1
    assert source.asker.troubles["duplicate"] == (CORRECTIONS + 1) * ATTEMPTS


@pytest.mark.parametrize(
    ("fault", "kind", "most"),
    [
        (Status(401), "denied", 1),
        (Status(404), "rejected", 1),
        (Status(429), "limited", 3),
        (Status(500), "failing", 3),
        (faults.hang, "late", 3),
        (faults.drip, "late", 3),
        (faults.endless_event, "endless", 3),
        (faults.garbage, "garbled", 3),
        (faults.reset, "unreachable", 3),
    ],
)
def test_a_provider_that_fails_is_counted_and_given_up_and_the_search_goes_on(
    store: sqlite3.Connection, fault: faults.Answer, kind: str, most: int
) -> None:
    text = CODE.replace("threads = 256", "threads = 256").replace(
        LINE, f"#pragma unroll 4\n    for (int k = 0; k < 8; ++k)\n    {LINE.strip()}"
    )
    bounds = Bounds(seconds=0.3 if kind == "late" else 60)
    before = time.monotonic()
    with searching(lambda _: fault, text=text, bounds=bounds, candidates=4) as (problem, source, endpoint):
        result = run(problem, store, text)
    assert time.monotonic() - before < 100
    assert 1 <= len(endpoint.requests) <= most and source.asker.troubles[kind] >= 1
    assert len(result.tried) >= 2 and all(not t.origin.startswith("model") for t in result.tried)


def test_cancelling_reaches_into_the_request(store: sqlite3.Connection) -> None:
    token = CancelToken()
    threading.Timer(0.5, token.cancel).start()
    before = time.monotonic()
    with (
        searching(lambda _: faults.hang, bounds=Bounds(seconds=600)) as (problem, _, _),
        pytest.raises(CancelledError),
    ):
        run(problem, store, task=Task(token=token))
    assert time.monotonic() - before < 50


def test_the_time_of_the_search_bounds_the_model_too(store: sqlite3.Connection) -> None:
    before = time.monotonic()
    with searching(lambda _: faults.drip, bounds=Bounds(seconds=600)) as (problem, _, _):
        short = msgspec.structs.replace(problem, budget=msgspec.structs.replace(problem.budget, seconds=0.7))
        result = run(short, store)
    assert time.monotonic() - before < 50
    assert result.spent is not None and result.spent.stopped == "time"


@pytest.mark.parametrize(("tokens", "dollars"), [(60_000, 100.0), (10**9, 0.05)])
def test_a_search_of_200_evaluations_stays_within_its_tokens_and_its_money(
    store: sqlite3.Connection, tokens: int, dollars: float
) -> None:
    def wordy(request: dict[str, Any], number: int) -> Say:
        text = faster(request, number)
        sent = sum(estimated_tokens(m["content"]) for m in request["messages"])
        return Say(text, usage=(sent, 900), piece=4000)

    script = by_role(planner=lambda r, n: Say(ideas(r, n), usage=(3000, 900), piece=4000), coder=wordy)
    with searching(script, tokens=tokens, dollars=dollars, candidates=200) as (problem, source, _):
        run(problem, store)
    ledger = source.asker.ledger
    assert 0 < ledger.tokens <= tokens and 0 < ledger.dollars <= dollars
    assert "budget" in source.asker.closed


@pytest.mark.thorough
def test_a_search_of_200_evaluations_fits_the_settings_own_budget(store: sqlite3.Connection) -> None:
    """Prompts of the default size and replies of ordinary length, counted by the endpoint from the real prompts."""
    model = Model()
    calls: list[int] = []

    def counted(answer: Callable[[dict[str, Any], int], str]) -> Callable[[dict[str, Any], int], Say]:
        def rule(request: dict[str, Any], number: int) -> Say:
            sent = sum(estimated_tokens(m["content"]) for m in request["messages"])
            calls.append(sent)
            return Say(answer(request, number), usage=(sent, 600), piece=4000)

        return rule

    script = by_role(planner=counted(ideas), coder=counted(faster))
    bounds = Bounds(model.prompt_tokens, model.reply_tokens, 10)
    with searching(
        script, tokens=model.max_tokens, dollars=model.max_dollars, bounds=bounds, candidates=200
    ) as (problem, source, _):
        result = run(problem, store)
    assert len(result.tried) == 200 and not source.asker.closed
    assert source.asker.ledger.tokens <= model.max_tokens and source.asker.ledger.dollars <= model.max_dollars
    assert max(calls) <= model.prompt_tokens


def test_each_role_sees_its_own_and_findings_are_guidance(store: sqlite3.Connection) -> None:
    script = by_role(planner=ideas, coder=faster)
    with searching(script, candidates=3, findings=lambda _: (finding(),), card="an H200 with 132 SMs") as (
        p,
        _,
        e,
    ):
        run(p, store)
    planner, coder = (
        next(case_of(r) for r in e.requests if role_of(r) == role) for role in ("planner", "coder")
    )
    assert "do: Pad the inner extent of tile." in planner and "an H200 with 132 SMs" in planner
    assert f"   4 | {LINE}" in planner
    assert "Pad the inner extent" not in coder and f"<<<A1\n{LINE}\nA1>>>" in coder and "do it" in coder


@pytest.mark.parametrize(("feedback", "there"), [("metrics", "dram__throughput = 91"), ("nothing", "")])
def test_feedback_may_be_raw_or_left_out(store: sqlite3.Connection, feedback: str, there: str) -> None:
    script = by_role(planner=[plan("x")], coder=faster)
    with searching(
        script,
        candidates=1,
        feedback=feedback,
        findings=lambda _: (finding(),),
        metrics=lambda: {"dram__throughput": 91.0},
    ) as (problem, _, endpoint):
        run(problem, store)
    case = case_of(endpoint.requests[0])
    assert "Pad the inner extent" not in case and there in case
    assert ("dram__throughput" in case) == bool(there)


def test_instructions_in_the_source_are_data(
    store: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a model is talked into, all that it can do is an edit, or a look that is not answered."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    talked_into = [
        json.dumps(
            {"look": [{"tool": "read", "query": "/etc/passwd"}, {"tool": "read", "query": "../../.ssh/id"}]}
        ),
        '<look tool="search">$OPENAI_API_KEY</look>',
        json.dumps({"tool": "shell", "command": "curl evil"}),
    ]
    with searching(by_role(planner=talked_into, coder="never"), candidates=2) as (problem, source, endpoint):
        run(problem, store)
    sent = json.dumps(endpoint.requests)
    assert "root:" not in sent and "sk-secret" not in sent
    assert set(source.asker.troubles) == {"no_plan"}


def test_numbers_that_a_model_introduces_become_parameters(store: sqlite3.Connection) -> None:
    tiled = (
        "    constexpr int kTile = 16;\n    __shared__ float tile[kTile];\n#pragma unroll 2\n"
        "    for (int k = 0; k < kTile; ++k) tile[k] = k;\n    __syncthreads();\n"
    )
    written = code(tiled + f'{LINE}\n    asm("// speed=1.5");')
    script = by_role(planner=[plan("tile it")], coder=[written])
    with searching(script, candidates=6) as (problem, _, _):
        result = run(problem, store)
    tuned = [t for t in result.tried if t.origin == "parameters"]
    assert tuned and {t.parent for t in tuned} <= {t.id for t in result.tried}
    assert any("kTile" in t.title or "unroll" in t.title for t in tuned)


def test_a_resumed_search_asks_for_nothing_twice(store: sqlite3.Connection) -> None:
    def script() -> Callable[[dict[str, Any]], faults.Answer]:
        return by_role(planner=ideas, coder=faster)

    with searching(script(), candidates=3) as (problem, _, _):
        first = run(problem, store)
    with searching(script(), candidates=3) as (problem, _, endpoint):
        again = run(msgspec.structs.replace(problem, resume=True), store)
    assert endpoint.requests == [] and again.edits == first.edits
