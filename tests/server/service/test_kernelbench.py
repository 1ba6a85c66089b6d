# SPDX-License-Identifier: Apache-2.0
"""KernelBench's folders with small tasks of our own: both rules, results that outlive an interruption, the summary.

The examiner is stood in for; `tests/gpu/test_kernelbench.py` runs the real one on a card.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("openai")

from tests.server.agent.llm.endpoint import serving
from tests.server.agent.llm.scripted import by_role, code, plan

from warplens.cli.bench import summary_lines
from warplens.cli.main import run
from warplens.measure.torch_task.suite import (
    UNSOLVED,
    Problem,
    Result,
    numbers_of,
    problems_of,
    solution_for,
    summary_of,
)
from warplens.measure.torch_task.task import TorchOptions, TorchTask, TorchVerdict
from warplens.service.kernelbench import Finder, Suite, judged
from warplens.service.model import Choice, chosen, destination_of, give_consent
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens_tools.errors import CancelledError, InputError
from warplens_tools.process.task import Task

BENCH = Path(__file__).parents[2] / "torch_tasks" / "bench"


def said(state: str, *, eager: float = 1.0, **fields: object) -> TorchVerdict:
    ratios = {"eager": eager, "tf32": eager, "compile": eager / 2}
    timed = {name: (r, r, r) for name, r in ratios.items()} if state in ("faster", "same", "slower") else {}
    return msgspec.convert(
        {"state": state, "reason": "", "speedups": timed, "noise": 0.01} | fields, TorchVerdict
    )


class Examiner:
    """Says of a solution what its text says: `# eager=2.0`, `# wrong`, `# coarse` (right to 1e-2 alone)."""

    def __init__(self, stops_after: int = 99) -> None:
        self.asked: list[TorchTask] = []
        self.stops_after = stops_after

    def __call__(self, asked: TorchTask, python: str, task: Task) -> TorchVerdict:
        del python, task
        if len(self.asked) >= self.stops_after:
            raise CancelledError("stopped")
        self.asked.append(asked)
        text = Path(asked.candidate).read_text()
        if not asked.own_work:
            return msgspec.structs.replace(said("same"), seconds={"eager": (1e-4,) * 3, "new": (1e-4,) * 3})
        speed = re.search(r"eager=([\d.]+)", text)
        if "coarse" in text and asked.rule == "warplens":
            return said("wrong", kernelbench=True)
        if speed is None:
            return said("wrong")
        found = said("faster", eager=float(speed[1]), kernelbench=True)
        return msgspec.structs.replace(
            found, seconds=dict.fromkeys(("eager", "compile", "new"), (0.0001,) * 3)
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in ((1, "one"), (2, "two"), (3, "three"), (10, "ten")):
        place = tmp_path / "KernelBench" / "level1" / f"{number}_{name}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((BENCH / "level1" / "1_scale_shift.py").read_text() + f"# {name}\n")
    own = tmp_path / "solutions"
    (own / "level1").mkdir(parents=True)
    (own / "level1" / "1_one.py").write_text("# eager=4.0")
    (own / "level_1_problem_2_sample_0_kernel.py").write_text("# coarse eager=9.0")
    (own / "level1" / "3_three_new.py").write_text("# wrong")
    return tmp_path


def suite(folder: Path) -> Suite:
    return Suite(tuple(problems_of(folder, 1, None)), folder / "results", folder / "solutions")


def test_problems_are_found_by_level_and_number(folder: Path) -> None:
    assert [p.number for p in problems_of(folder, 1, None)] == [1, 2, 3, 10]
    assert [p.number for p in problems_of(folder / "KernelBench", 1, numbers_of("2-3,10"))] == [2, 3, 10]
    home = problems_of(folder, 1, None)[0].path.parent
    (home / "1_one_new.py").write_text("# what a search has written beside its task")
    assert [p.name for p in problems_of(folder, 1, numbers_of("1"))] == ["1_one"]
    for level, words in ((2, ""), (1, "4"), (1, "x"), (1, "3-1")):
        with pytest.raises(InputError):
            problems_of(folder, level, numbers_of(words))
    names = [solution_for(p, folder / "solutions") for p in problems_of(folder, 1, None)]
    assert [n.name if n else "" for n in names] == [
        "1_one.py",
        "level_1_problem_2_sample_0_kernel.py",
        "3_three_new.py",
        "",
    ]


def test_both_rules_are_said_and_what_only_one_takes(folder: Path) -> None:
    examiner = Examiner()
    report = judged(suite(folder), examine=examiner)
    assert [(r.verdict.state, r.own.state) for r in report.results] == [
        ("faster", "faster"),
        ("wrong", "faster"),
        ("wrong", "wrong"),
        ("unproven", "unproven"),
    ]
    # only what KernelBench's rule may take is run again by it
    assert [a.rule for a in examiner.asked] == ["warplens", "warplens", "kernelbench", "warplens"]
    ours, own = report.summaries
    assert (ours.right, ours.tasks, ours.unsolved, ours.right_here_alone) == (1, 4, 1, ())
    assert (own.right, own.right_here_alone) == (2, ("level1/2_two",))
    eager = ours.against["eager"]
    assert eager.fast == {"0": 0.25, "0.8": 0.25, "1": 0.25, "1.5": 0.25, "2": 0.25}
    assert ours.against["compile"].fast["2"] == 0.0 and "bf16" not in ours.against
    assert eager.timed == 1 and eager.geometric_mean == pytest.approx(4) and eager.median == 4
    assert eager.geometric_mean_of_all == pytest.approx(4 ** (1 / 4))
    assert own.against["eager"].geometric_mean == pytest.approx(6) and own.against["eager"].median == 6.5
    lines = list(summary_lines(own))
    assert lines[0].endswith("2 of 4 right, 1 without a solution") and "right by this rule alone" in lines[-1]


def test_what_was_judged_is_not_judged_again(folder: Path) -> None:
    interrupted = Examiner(stops_after=1)
    with pytest.raises(CancelledError):
        judged(suite(folder), examine=interrupted)
    rest = Examiner()
    first = judged(suite(folder), examine=rest)
    assert len(rest.asked) == 3 and first.results[0].verdict.state == "faster"
    nothing = Examiner()
    assert judged(suite(folder), examine=nothing) == first and nothing.asked == []
    # another solution, another way of judging, or a broken file: again
    (folder / "solutions" / "level1" / "1_one.py").write_text("# eager=5.0")
    (folder / "results" / "level1" / "3_three.json").write_text("{")
    changed = Examiner()
    again = judged(suite(folder), examine=changed)
    assert [Path(a.task).name for a in changed.asked] == ["1_one.py", "3_three.py"]
    assert again.results[0].verdict.speedups["eager"][0] == 5.0
    all_again = Examiner()
    judged(
        msgspec.structs.replace(suite(folder), torch=TorchOptions(lower_precision=True)), examine=all_again
    )
    assert len(all_again.asked) == 4


def test_a_summary_of_nothing_right_has_no_figures() -> None:
    wrong = TorchVerdict("wrong", "")
    results = [Result(1, n, f"{n}_x", "", wrong, wrong) for n in range(3)]
    summary = summary_of(results, "warplens")
    assert (summary.right, summary.against, summary.states) == (0, {}, {"wrong": 3})
    assert math.isclose(sum(summary.states.values()), summary.tasks)


def test_solutions_are_searched_for_and_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(folder / "home"))
    line = "        return x * self.scale + self.shift"
    script = by_role(
        planner=[plan("a kernel", line)], coder=[code("        return x if 'eager=0.5' else self.scale")]
    )
    searched = msgspec.structs.replace(suite(folder), solutions=None, problems=suite(folder).problems[:1])
    with serving(script) as endpoint:
        level = folder / "KernelBench" / "level1"
        (level / "warplens.toml").write_text(f'[model]\nbase-url = "{endpoint.url}"\n')
        choice = Choice("openai", "m")
        destination = destination_of(chosen(Service(level).settings_for(level / "1_one.py"), choice))
        assert destination is not None
        give_consent(destination)
        options = OptimizeOptions(candidates=1, seconds=30, model=choice)
        find = Finder(Service(level), options, TorchOptions(device="cpu"), examine=Examiner())
        report = judged(searched, find=find, examine=Examiner())
        # right, though slower than the reference: that counts for fast_0
        assert "eager=0.5" in (folder / "results" / "level1" / "1_one_new.py").read_text()
        assert report.summaries[0].right == 1 and report.summaries[0].against["eager"].fast["0.8"] == 0.0
        asked = len(endpoint.requests)
        judged(searched, find=find, examine=Examiner())
        assert len(endpoint.requests) == asked
    without = Finder(Service(folder), OptimizeOptions(), TorchOptions())
    with pytest.raises(InputError, match="with a language model"):
        without(Problem(1, 2, folder / "KernelBench" / "level1" / "2_two.py"), folder / "x.py")


def test_a_task_left_without_a_solution_is_searched_again_only_on_another_budget(folder: Path) -> None:
    searched: list[str] = []

    class Fruitless(Finder):
        def __call__(self, problem: Problem, into: Path) -> None:
            del into
            searched.append(problem.name)

    def finder(candidates: int) -> Finder:
        return Fruitless(Service(folder), OptimizeOptions(candidates=candidates), TorchOptions())

    both = msgspec.structs.replace(suite(folder), solutions=None, problems=suite(folder).problems[:2])
    report = judged(both, find=finder(1), examine=Examiner())
    assert [r.verdict.reason for r in report.results] == [UNSOLVED] * 2 and searched == ["1_one", "2_two"]
    assert judged(both, find=finder(1), examine=Examiner()) == report and len(searched) == 2
    judged(both, find=finder(2), examine=Examiner())
    assert searched == ["1_one", "2_two"] * 2
    # what was written by hand since is judged
    (folder / "results" / "level1" / "2_two_new.py").write_text("# eager=3.0")
    examiner = Examiner()
    judged(both, find=finder(2), examine=examiner)
    assert len(searched) == 4 and [Path(a.task).name for a in examiner.asked] == ["2_two.py"]


def test_the_command_says_what_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)

    def ran(*words: str) -> tuple[int, str, str]:
        return run(["bench", "kernelbench", str(folder), *words]), *capfd.readouterr()

    results = ["--results", str(folder / "results"), "--solutions", str(folder / "solutions")]
    status, _, said = ran("--level", "3", *results)
    assert status == 2 and "has no level3" in said
    status, unsolved, said = ran("--level", "1", "--problems", "10", *results, "--format", "json")
    assert status == 0, said
    (only,) = json.loads(unsolved)["results"]
    assert only["verdict"]["reason"] == UNSOLVED
    assert "10_ten" in ran("--level", "1", "--problems", "10", *results)[1]
