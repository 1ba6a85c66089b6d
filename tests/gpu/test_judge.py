# SPDX-License-Identifier: Apache-2.0
"""The judge on a card: faults, refusals, cancelling, being killed, and a winner's second examination."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import CancelledError, InputError, WarplensError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import Task
from warplens_tools.run.gpu_lock import holder
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[2] / "examples/first"
SETTINGS = MeasureSettings(measure_identical=True)
START = "    int column = blockIdx"
ENDLESS = f"    while (in[0] != 7.25f) if (__ldcv(in + 1) == 1e30f) break;\n{START}"
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(200)]

KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
from test_judge import ENDLESS, PROGRAMS, START, candidate, workload
from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
settings = MeasureSettings(hang_seconds=100, visit_seconds_per_candidate=100)
with Judge(workload("affine"), settings=settings) as judge:
    judge.baseline()
    print("judging", flush=True)
    judge.judge([candidate("affine", "endless", START, ENDLESS)])
"""


def workload(name: str, *arguments: str) -> Workload:
    path = str(PROGRAMS / f"{name}.cu")
    return Workload(path, path, arguments=arguments)


def candidate(name: str, id: str, old: str, new: str) -> Candidate:
    path = PROGRAMS / f"{name}.cu"
    path = path if path.exists() else EXAMPLES / f"{name}.cu"
    text = SourceText.read(path)
    start = text.text.index(old)
    return Candidate(id, str(path), "", (TextEdit(text.span(start, start + len(old)), new),))


def test_every_fault_has_its_verdict_and_the_next_candidate_its_turn() -> None:
    candidates = [
        candidate("affine", "wrong", "+ shift[column]", "+ shift[column] * 1.001f"),
        candidate("affine", "endless", START, ENDLESS),
        candidate("affine", "slower", "for (int row", "for (int pass = 0; pass < 2; ++pass) for (int row"),
        candidate("affine", "trap", START, f'    if (blockIdx.x == 3) asm volatile("trap;");\n{START}'),
        candidate("affine", "same", START, f"    // nothing\n{START}"),
        candidate("affine", "host", "return 0;", "return 1;"),
    ]
    told: list[str] = []
    with Judge(workload("affine"), settings=SETTINGS) as judge:
        verdicts = judge.judge(candidates, on_verdict=lambda v: told.append(v.candidate))
        assert judge.baseline().timing.share == pytest.approx(1.0)
    assert {v.candidate: v.state for v in verdicts} == {
        "wrong": "wrong",
        "endless": "hung",
        "slower": "slower",
        "trap": "crashed",
        "same": "same",
        "host": "refused",
    }, [f"{v.candidate}: {v.reason}" for v in verdicts]
    assert sorted(told) == sorted(c.id for c in candidates)
    measured = next(v for v in verdicts if v.candidate == "slower")
    assert measured.conditions is not None
    assert measured.conditions.uuid == present_gpus()[0].uuid
    assert measured.conditions.sm_clock_mhz is not None


@pytest.mark.parametrize("name", ["anonymous_globals", "threads", "cooperative", "cluster", "managed_table"])
def test_hostile_programs_are_measured_against_themselves(name: str) -> None:
    kernel = "scale" if name == "threads" else ""
    with Judge(workload(name), kernel=kernel, settings=SETTINGS) as judge:
        (verdict,) = judge.judge([Candidate("same", "", "", ())])
    assert verdict.state == "same", verdict.reason


@pytest.mark.parametrize(
    ("name", "kernel", "launch"),
    [("graph_updated", "push", 6), ("graph_order", "audit", 3), ("graph_child", "blur_columns", 5)],
)
def test_a_launch_inside_a_graph_is_chosen_by_its_number(name: str, kernel: str, launch: int) -> None:
    settings = msgspec.structs.replace(SETTINGS, launch=launch)
    with Judge(workload(name), kernel=kernel, settings=settings) as judge:
        (verdict,) = judge.judge([Candidate("same", "", "", ())])
        assert judge.baseline().timing.launches > launch
    assert verdict.state == "same", verdict.reason


def test_candidates_for_a_kernel_in_a_graph_are_told_apart() -> None:
    sweep = "f.values[i] = 0.25f *"
    candidates = [
        candidate("captured_solver", "wrong", sweep, "f.values[i] = 0.2502f *"),
        candidate("captured_solver", "same", sweep, f"// nothing\n    {sweep}"),
        candidate("captured_solver", "neighbour", sweep, f"f.values[i - 1] = 0; {sweep}"),
    ]
    with Judge(workload("captured_solver"), kernel="relax", settings=SETTINGS) as judge:
        states = {v.candidate: v.state for v in judge.judge(candidates)}
    assert states == {"wrong": "wrong", "same": "same", "neighbour": "wrong"}


@pytest.mark.parametrize(
    ("name", "arguments", "kernel", "said"),
    [
        ("graph_while", (), "improve", "in the body of a conditional node"),
        ("many", ("3",), "", "the program itself exits with 3"),
        ("many", (), "other", "never launches other; it ran tiny"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(
    name: str, arguments: tuple[str, ...], kernel: str, said: str
) -> None:
    with (
        Judge(workload(name, *arguments), kernel=kernel, settings=SETTINGS) as judge,
        pytest.raises(InputError, match=said),
    ):
        judge.baseline()


def test_a_winner_is_confirmed_in_the_rebuilt_program() -> None:
    path = str(EXAMPLES / "transpose.cu")
    with Judge(Workload(path, path), settings=SETTINGS) as judge:
        padded = candidate("transpose", "padded", "[kTile][kTile]", "[kTile][kTile + 1]")
        confirmed = judge.confirm(padded)
    assert confirmed.verdict.state == "faster", confirmed.verdict.reason
    assert confirmed.verdict.timings[0].speedup.low > 1.5
    assert confirmed.program is not None


def test_cancelling_ends_the_program() -> None:
    token = CancelToken()
    settings = MeasureSettings(hang_seconds=100, visit_seconds_per_candidate=100)
    before = psutil.Process().children(recursive=True)
    with Judge(workload("affine"), settings=settings) as judge:
        judge.baseline()
        threading.Timer(4, token.cancel).start()
        started = time.monotonic()
        with pytest.raises(CancelledError):
            judge.judge([candidate("affine", "endless", START, ENDLESS)], task=Task(token=token))
        assert time.monotonic() - started < 15
    assert set(psutil.Process().children(recursive=True)) <= set(before)


def test_being_killed_leaves_no_orphan_and_no_lock() -> None:
    code = [sys.executable, "-c", KILLED, __file__]
    judging = subprocess.Popen(code, stdout=subprocess.PIPE, text=True)
    assert judging.stdout is not None
    try:
        assert judging.stdout.readline() == "judging\n"
        time.sleep(5)
        below = psutil.Process(judging.pid).children(recursive=True)
        assert any("warplens-judge-" in " ".join(p.cmdline()) for p in below)
        assert holder(present_gpus()[0].uuid) is not None
    finally:
        os.kill(judging.pid, signal.SIGKILL)
        judging.wait()
        judging.stdout.close()
    until = time.monotonic() + 10
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in below):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert holder(present_gpus()[0].uuid) is None


def test_a_program_too_slow_for_its_limit_is_named() -> None:
    work = msgspec.structs.replace(workload("affine"), time_limit=0.05)
    with Judge(work, settings=SETTINGS) as judge, pytest.raises(WarplensError, match="did not end within"):
        judge.baseline()
