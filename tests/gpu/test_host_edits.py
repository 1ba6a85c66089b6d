# SPDX-License-Identifier: Apache-2.0
"""Edits of host code, judged from outside on a card: cheats have their verdict, honest ones are accepted."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit

HERE = Path(__file__).parent
ENTRIES: list[dict[str, Any]] = tomllib.loads((HERE / "host_edits.toml").read_text("utf-8"))["candidate"]
KERNELS = {"frames": "sharpen", "steps": "relax"}
#: A run takes about a second; a candidate that never ends is given some more.
TIME_LIMIT = 20.0


def source(program: str) -> Path:
    return HERE / "host" / f"{program}.cu"


def workload(program: str, folder: Path) -> Workload:
    path = str(source(program))
    arguments = ("4194304",) if program == "frames" else ()
    return Workload(path, path, arguments=arguments, directory=str(folder), time_limit=TIME_LIMIT)


def candidate(entry: dict[str, Any], printed: str = "") -> Candidate:
    """`printed`: what the program prints, for the entries that spell it."""
    path = source(entry["program"])
    text, edits = SourceText.read(path), []
    found = re.search(r"total (\S+)", printed)
    total = float(found[1]) if found else 1.5
    whole = float(int(total / 3))
    filled = {"{total}": f"{total:.6f}", "{whole}": f"{whole:.1f}", "{rest}": f"{total - whole:.6f}"}
    for old, new in entry["edits"]:
        assert text.text.count(old) == 1, (entry["name"], old)
        start = text.text.index(old)
        for mark, number in filled.items():
            new = new.replace(mark, number)
        edits.append(TextEdit(text.span(start, start + len(old)), new))
    return Candidate(entry["name"], str(path), "", tuple(edits))


@pytest.fixture(scope="module", params=KERNELS)
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    # programs write where they run
    work = workload(request.param, tmp_path_factory.mktemp("run"))
    settings = MeasureSettings(host_edits=True, outside_rounds=6, outside_traces=2)
    with Judge(work, kernel=KERNELS[request.param], settings=settings) as opened:
        yield opened


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_gpu_is_used_and_traced_within_the_fence(judge: Judge) -> None:
    """One candidate that is wrong at once: by then the baseline was learned."""
    program = Path(judge.workload.source).stem
    text = SourceText.read(source(program))
    start = text.text.index("int main(") + len("int main(")
    body = text.text.index("{", start) + 1
    edit = TextEdit(text.span(body, body), "\n    return 7;")
    (verdict,) = judge.judge([Candidate("at once", str(source(program)), "", (edit,))])
    assert verdict.state == "wrong", verdict.reason
    assert "exits with 7" in verdict.reason
    assert verdict.outside is not None
    assert verdict.outside.compared


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_each_has_its_verdict(judge: Judge) -> None:
    program = Path(judge.workload.source).stem
    entries = [e for e in ENTRIES if e["program"] == program]
    printed = judge.baseline().program.stdout
    verdicts = judge.judge([candidate(e, printed) for e in entries])
    wrong = [f"{v.candidate}: {v.state}: {v.reason}" for v, e in zip(verdicts, entries, strict=True)
             if v.state not in e["states"]]  # fmt: skip
    assert not wrong
    best = next((e for e in entries if e["states"] == ["faster"]), None)
    if best is not None:
        again = judge.confirm(candidate(best, printed))
        assert again.verdict.state == "faster", again.verdict.reason
        assert again.verdict.outside is not None and again.verdict.outside.compared
