# SPDX-License-Identifier: Apache-2.0
"""Candidates in programs of several units, with children, and from Python, on a card."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gpu.catalogue import catalogue

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit

#: The sanitizer is not what is tried here, and takes its time where device functions are called.
SETTINGS = MeasureSettings(measure_identical=True, sanitizer_seconds=15.0)
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(300)]

SOFT = "        const float soft = softening(here.w);\n"
HERE = "    const float4 here = position[i];\n"


def workload(name: str) -> Workload:
    return next(p for p in catalogue() if p.name == name).workload()


def candidate(work: Workload, id: str, *changes: tuple[str, str]) -> Candidate:
    text = SourceText.read(Path(work.source))

    def edit(old: str, new: str) -> TextEdit:
        start = text.text.index(old)
        return TextEdit(text.span(start, start + len(old)), new)

    return Candidate(id, work.source, "", tuple(edit(old, new) for old, new in changes))


def test_a_kernel_that_calls_other_units_is_won_and_lost() -> None:
    work = workload("orbit")
    hoisted = candidate(
        work, "hoisted", (SOFT, ""), (HERE, f"{HERE}    const float soft = softening(here.w);\n")
    )
    candidates = [
        hoisted,
        candidate(work, "softer", ("rsqrtf(dx * dx", "rsqrtf(1.01f * dx * dx")),
        candidate(work, "counts twice", ("++steps_done", "steps_done += 2")),
        candidate(work, "does not count", ("if (i == 0) ++steps_done;", "")),
        candidate(work, "without softness", ("softening(here.w)", "0.0f")),
        candidate(
            work, "twice", ("for (int k = 0", "for (int again = 0; again < 2; ++again) for (int k = 0")
        ),
    ]
    with Judge(work, kernel="advance", settings=SETTINGS) as judge:
        states = {v.candidate: (v.state, v.reason) for v in judge.judge(candidates)}
        assert {name: state for name, (state, _) in states.items()} == {
            "hoisted": "faster",
            "softer": "wrong",
            # an integer that no parameter types is, for all that is known, a tiny float
            "counts twice": "unproven",
            "does not count": "unproven",
            "without softness": "wrong",
            "twice": "wrong",
        }, states
        confirmed = judge.confirm(hoisted)
    assert confirmed.verdict.state == "faster", confirmed.verdict.reason
    assert confirmed.verdict.timings[0].speedup.low > 1.5
    assert confirmed.program is not None


def test_what_a_kernel_launches_is_compared_and_timed() -> None:
    work = workload("child_kernels")
    slower = (
        "for (int k = 0; k < 200; ++k) if (x[i] == -7e30f * (k + 1)) x[i] = k;\n    if (i < n) x[i] = sqrtf"
    )
    candidates = [
        candidate(work, "slower child", ("if (i < n) x[i] = sqrtf", slower)),
        candidate(work, "wrong child", ("sqrtf(x[i] + i)", "sqrtf(x[i] + i + 1)")),
        candidate(work, "missing child", ("leaf<<<", "if (blockIdx.x != 3) leaf<<<")),
    ]
    with Judge(work, kernel="parent", settings=SETTINGS) as judge:
        verdicts = {v.candidate: v for v in judge.judge(candidates)}
    states = {name: (v.state, v.reason) for name, v in verdicts.items()}
    assert {name: state for name, (state, _) in states.items()} == {
        "slower child": "slower",
        "wrong child": "wrong",
        "missing child": "wrong",
    }, states
    assert {o.origin for o in verdicts["slower child"].evidence} == {"CUDA events"}


def test_a_kernel_launched_from_python_is_won_and_lost() -> None:
    work = workload("from_python")
    coalesced, wrong = python_candidates(work, "powf(in[i]")
    with Judge(work, settings=SETTINGS) as judge:
        verdicts = {v.candidate: v for v in judge.judge([coalesced, wrong])}
        assert verdicts["wrong"].state == "wrong", verdicts["wrong"].reason
        assert verdicts["coalesced"].state == "faster", verdicts["coalesced"].reason
        confirmed = judge.confirm(coalesced)
    assert confirmed.verdict.state == "faster", confirmed.verdict.reason
    assert confirmed.program is not None


def test_a_pytorch_extension_is_won_and_lost() -> None:
    pytest.importorskip("torch")
    work = workload("torch_extension")
    with Judge(work, settings=SETTINGS) as judge:
        found = {v.candidate: v for v in judge.judge(python_candidates(work, "in[i] / (1"))}
    assert found["wrong"].state == "wrong", found["wrong"].reason
    assert found["coalesced"].state == "faster", found["coalesced"].reason


def python_candidates(work: Workload, formula: str) -> tuple[Candidate, Candidate]:
    index, coalesced = "threadIdx.x * gridDim.x + blockIdx.x", "blockIdx.x * blockDim.x + threadIdx.x"
    return (
        candidate(work, "coalesced", (index, coalesced)),
        candidate(work, "wrong", (formula, f"1.001f * {formula}")),
    )
