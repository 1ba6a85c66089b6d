# SPDX-License-Identifier: Apache-2.0
"""Ask, evaluate and tell by files: each side may be killed at any point, nothing is lost or judged twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.server.agent.doubles import CODE, ComputedJudge

from warplens.agent.llm.files import ANSWER, PROMPT
from warplens.agent.result import OptimizeResult
from warplens.measure.exchange import Exchange
from warplens.service import exchange as service_exchange
from warplens.service import measured as service_measured
from warplens.service.exchange import answer, ask, file_of, tell
from warplens.service.model import Choice
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.ncu_csv import require_csv
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[3]
RAW = ROOT / "tests/data/reports/saxpy_transpose.raw.csv"
#: Forks for every line of its input: one step of a search in a process of its own, which kills itself at its
#: `limit`-th step to disk, and answers with its status. What all of them import is read once.
STEPS = """
import contextlib, json, os, signal, sqlite3, sys, traceback
from pathlib import Path
from tests.server.agent.doubles import ComputedJudge
from warplens.measure import exchange
from warplens.service.exchange import answer, ask, tell
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens_tools.text import SourceText
import warplens.store.database as database, warplens.store.runs as runs, warplens.agent.journal as journal

steps, limit, log = 0, 0, None
def step():
    global steps
    steps += 1
    if steps == limit:
        os.kill(os.getpid(), signal.SIGKILL)
put, transaction = exchange._put, database.transaction
def counted_put(path, value):
    step(); put(path, value); step()
@contextlib.contextmanager
def counted_transaction(connection):
    step()
    with transaction(connection) as made:
        yield made
    step()
exchange._put = counted_put
for module in (database, runs, journal):
    module.transaction = counted_transaction

class Logged(ComputedJudge):
    def __enter__(self): return self
    def __exit__(self, *error): return None
    def _verdict(self, candidate):
        with log.open("a") as out:
            out.write(candidate.text_hash + "\\n")
        return super()._verdict(candidate)
    def confirm(self, candidate, **fields):
        with log.open("a") as out:
            out.write("confirm\\n")
        return super().confirm(candidate, **fields)

def run(what, file, folder):
    if what == "evaluate":
        answer(folder, judge=lambda *_: Logged(SourceText(file.read_text())))
        return None
    return (ask if what == "ask" else tell)(Service(file.parent), file, folder, OptimizeOptions(candidates=8))

for line in sys.stdin:
    what, file, folder, log, limit = json.loads(line)
    file, folder, log = Path(file), Path(folder), Path(log)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            standing = run(what, file, folder)
            said = "result" if standing is not None and standing.result is not None else "waiting"
        except BaseException:
            said = traceback.format_exc()
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    said = os.fdopen(reading).read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([status, said]), flush=True)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    # the commands' own process has no compiler to look for
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "work" / "scale.cu"
    path.parent.mkdir()
    path.write_text(CODE)
    (path.parent / "warplens.toml").write_text('tier = "source"\n')
    return path


class Judged(ComputedJudge):
    """As a context."""

    def __enter__(self) -> Judged:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def test_a_search_by_files_ends_as_one_at_the_card(file: Path, tmp_path: Path) -> None:
    folder, service, options = tmp_path / "asks", Service(file.parent), OptimizeOptions(candidates=12)
    judge, result, rounds = Judged(SourceText(CODE)), None, []
    while result is None:
        standing = ask(service, file, folder, options)
        assert standing == ask(service, file, folder, options)
        if standing.result is None:
            rounds.append(standing.waiting)
            assert tell(service, file, folder, options).waiting == standing.waiting
            assert answer(folder, judge=lambda *_: judge) == len(standing.waiting)
            assert answer(folder, judge=lambda *_: judge) == 0
        result = tell(service, file, folder, options).result
    # the first candidates are asked for beside the baseline
    assert rounds[0][0] == "baseline" and len(rounds[0]) > 1 and rounds[-1][0].startswith("confirm-")
    assert isinstance(result, OptimizeResult) and result.outcome == "faster" and result.proof is not None
    assert result.proof.verdict.candidate == judge.confirmed[0] and result.diff.startswith("--- a/scale.cu")
    assert len(judge.judged) == len(set(judge.judged)) == 12 and len(judge.confirmed) == 1
    assert (folder / "project/scale.cu").read_text() == CODE and file_of(folder, None) == file
    file.write_text(CODE.replace("256", "512"))
    with pytest.raises(InputError, match="is not the file that the search"):
        ask(service, file, folder, options)


@pytest.fixture
def steps(file: Path) -> Iterator[subprocess.Popen[str]]:  # noqa: ARG001 - sets the managed folder
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", STEPS], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        yield process


def step(
    steps: subprocess.Popen[str], what: str, file: Path, folder: Path, log: Path, limit: int
) -> tuple[int, str]:
    """Its exit status and what it says."""
    assert steps.stdin is not None and steps.stdout is not None
    print(
        msgspec.json.encode([what, str(file), str(folder), str(log), limit]).decode(),
        file=steps.stdin,
        flush=True,
    )
    status, said = msgspec.json.decode(steps.stdout.readline())
    return status, said


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
@pytest.mark.thorough
def test_each_side_killed_loses_nothing_and_judges_nothing_twice(
    file: Path, steps: subprocess.Popen[str], tmp_path: Path, seed: int
) -> None:
    folder, log, draw = tmp_path / "asks", tmp_path / "log", random.Random(seed)
    killed = {"ask": 0, "evaluate": 0, "tell": 0}
    done = False
    for turn in range(30):
        for what in killed:
            # each is killed in one of its first three turns, at one of its steps to disk
            limit = draw.randint(1, 6) if killed[what] == 0 and turn < 3 else 0
            status, said = step(steps, what, file, folder, log, limit)
            if status == -signal.SIGKILL:
                killed[what] += 1
                status, said = step(steps, what, file, folder, log, 0)
            assert (status, said) in [(0, "waiting"), (0, "result")], said
            done = done or said == "result"
        if done:
            break
    assert done and all(killed.values()), killed
    judged = log.read_text().split()
    answers = [path.name for path in (folder / "answers").glob("judge-*.json")]
    # a verdict that was computed and lost before it was on disk is the only one that is computed again
    assert len(answers) == 8 and len(set(judged) - {"confirm"}) == 8 and len(judged) <= 8 + 2 + 1 + 1
    texts = [msgspec.json.decode(p.read_bytes())["text_hash"] for p in (folder / "asks").glob("judge-*.json")]
    assert len(texts) == len(set(texts)) == 8


def test_what_cannot_be_exchanged_is_said(file: Path, tmp_path: Path) -> None:
    service, options = Service(file.parent), OptimizeOptions()
    with pytest.raises(InputError, match="holds no candidates"):
        tell(service, file, tmp_path / "nothing", options)
    with pytest.raises(InputError, match="holds no candidates"):
        answer(tmp_path / "nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        ask(service, file, tmp_path / "full", options)
    # within the project, as one would: the copy does not hold itself
    ask(service, file, file.parent / "asks", options)
    assert not (file.parent / "asks/project/asks").exists()
    exchange = Exchange(file.parent / "asks")
    with exchange.alone(), pytest.raises(InputError, match="another process evaluates"):
        answer(file.parent / "asks")
    shutil.rmtree(file.parent / "asks")


PLAN = {"title": "another block", "idea": "fewer threads", "gain": 1.2, "anchors": [
    {"id": "A1", "first_text": "#define BLOCK 256", "last_text": "#define BLOCK 256", "change": "another size"}
]}  # fmt: skip


def by_model(folder: Path) -> OptimizeOptions:
    """A search of two candidates, for which a model alone is asked."""
    return OptimizeOptions(
        kernel="scale",
        candidates=2,
        batch=1,
        model=Choice(f"files:{folder}/prompts"),
        without=("rewrites", "parameters", "templates"),
    )


def asked_planner(file: Path, folder: Path) -> str:
    """Go on until the planner is asked, answering the coder; its prompt, which is answered too."""
    options = by_model(folder)
    for _ in range(4):
        ask(Service(file.parent), file, folder / "asks", options)
        for prompt in sorted((folder / "prompts").glob(f"*{PROMPT}")):
            path = prompt.with_name(prompt.name.replace(PROMPT, ANSWER))
            if path.exists():
                continue
            planner = "-planner-" in prompt.name
            plan = {**PLAN, "title": f"the block of {prompt.name}"}
            path.write_text(
                msgspec.json.encode(plan).decode()
                if planner
                else '<anchor id="A1">\n#define BLOCK 128\n</anchor>'
            )
            if planner:
                return prompt.read_text()
        assert answer(folder / "asks", judge=lambda *_: Judged(SourceText(CODE)))
    raise AssertionError("no planner was asked")


@pytest.mark.parametrize(
    ("here", "told"),
    [
        ("a test double", "a test double (sm_90): 132 SMs; per SM"),
        (
            "another card",
            "The card that judges is a test double, whose figures are not known here. Typical",
        ),
    ],
)
def test_the_model_is_told_of_the_card_that_judges(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, told: str
) -> None:
    card = msgspec.structs.replace(load_architecture("sm_90"), name=here, present=True)
    ceiling = msgspec.structs.replace(card.ceilings["dram"], value=4.8e12)
    card = msgspec.structs.replace(card, ceilings={**card.ceilings, "dram": ceiling})

    def load(_: object) -> Gpu:
        return card

    monkeypatch.setattr(service_exchange, "load_gpu", load)
    first = asked_planner(file, tmp_path)
    assert "The card that judges is not known yet. Typical of its architecture is H100" in first
    assert "The original is launched" not in first and "An SM holds" not in first
    later = asked_planner(file, tmp_path)
    assert told in later and ("dram 4.8 TB/s" in later) == (here == "a test double")
    assert "The original is launched 1 times" in later
    # the first question, asked again when the verdicts are there, is the same
    assert len(list((tmp_path / "prompts").glob("*-planner-*.prompt.md"))) == 2


def launch() -> ProfiledLaunch:
    """A recorded launch, as if it were one of `scale`."""
    recorded = next(x for x in require_csv(RAW.read_text("utf-8"), name="raw") if "saxpy" in x.kernel)
    return msgspec.structs.replace(
        recorded, kernel="scale(float*, int)", mangled="", instructions=(), advice=()
    )


def asked_first(file: Path, folder: Path, feedback: str) -> list[str]:
    """What waits after the first call where the model is told that of the tools."""
    (file.parent / "warplens.toml").write_text(f'tier = "source"\n[model]\nfeedback = "{feedback}"\n')
    options = by_model(folder)
    return list(ask(Service(file.parent), file, folder / "asks", options).waiting)


def planner_prompts(folder: Path) -> list[str]:
    return [p.read_text() for p in sorted((folder / "prompts").glob(f"*-planner-*{PROMPT}"))]


def test_a_model_told_raw_counters_is_asked_once_they_are_read_where_the_card_is(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    def count(_service: Service, _path: Path, kernel: str, *, task: Task) -> tuple[ProfiledLaunch, ...]:
        task.check()
        counted.append(kernel)
        return (launch(),)

    monkeypatch.setattr(service_measured, "launches_of", count)
    assert asked_first(file, tmp_path, "metrics") == ["baseline"] and not planner_prompts(tmp_path)
    assert answer(tmp_path / "asks", judge=lambda *_: Judged(SourceText(CODE))) == 1
    assert counted == ["scale"]
    (waits,) = asked_first(file, tmp_path, "metrics")
    (prompt,) = planner_prompts(tmp_path)
    assert waits.endswith(ANSWER)
    assert "## Metrics of the original" in prompt and "dram__bytes_read.sum = 5.36876e+08" in prompt
    assert "smsp__pcsamp_warps_issue_stalled_long_scoreboard (share) = 0.872283" in prompt
    assert "## Findings" not in prompt and "What bounds this version" not in prompt
    # the same is asked by the same prompt
    assert asked_first(file, tmp_path, "metrics") == [waits] and planner_prompts(tmp_path) == [prompt]


def test_where_counters_cannot_be_read_a_model_told_raw_figures_gets_those_of_the_code(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise InputError("the driver lets only administrators read counters", remedy="run as root")

    monkeypatch.setattr(service_measured, "launches_of", refused)
    asked_first(file, tmp_path, "metrics")
    answer(tmp_path / "asks", judge=lambda *_: Judged(SourceText(CODE)))
    said = msgspec.json.decode((tmp_path / "asks/answers/baseline.json").read_bytes())
    assert "only administrators" in said["counted"]["why"]
    asked_first(file, tmp_path, "metrics")
    (prompt,) = planner_prompts(tmp_path)
    assert "(none collected)" in prompt or "static registers = " in prompt


@pytest.mark.parametrize("feedback", ["nothing", "guidance"])
def test_counters_are_read_only_for_whoever_is_told_of_them(
    file: Path, tmp_path: Path, feedback: str
) -> None:
    asked_first(file, tmp_path, feedback)
    assert Exchange(tmp_path / "asks").description().counters == (feedback == "guidance")
    ask(Service(file.parent), file, tmp_path / "alone", OptimizeOptions(candidates=2))
    assert not Exchange(tmp_path / "alone").description().counters
