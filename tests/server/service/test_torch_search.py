# SPDX-License-Identifier: Apache-2.0
"""A PyTorch task searched over real HTTP by scripted proposals: a first right module, a better one, repairs, refusals.

The examiner is stood in for by one that reads states and times from the text; `tests/gpu/test_torch_search.py` runs
the real one on a card.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")

from tests.server.agent.llm.endpoint import Answer, Endpoint, serving
from tests.server.agent.llm.scripted import by_role, case_of, code, plan, role_of

from warplens.agent.result import OptimizeResult
from warplens.agent.task_space import first_solution, is_task, numbers_of, python_essence, why_no_solution
from warplens.measure.torch_task.judge import TaskJudge
from warplens.measure.torch_task.task import TorchTask, TorchVerdict, solution_of
from warplens.service.applying import apply_result
from warplens.service.model import Choice
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens.service.torch_search import (
    begin_solution,
    findings_of,
    is_task_file,
    optimize_task,
)
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText

TASK = '''\
"""Rows scaled."""

import torch
from torch import nn


class Model(nn.Module):
    """Model of rows."""

    def __init__(self, factor):
        super(Model, self).__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return [2.0]
'''
FORWARD = "        return x * self.factor"
KERNELS = '''\
CUDA = r"""
#include <torch/extension.h>
__global__ void first(const float* x, float* y, int n, int m)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) for (int c = 0; c < m; c++) y[row * m + c] = 2 * x[row * m + c];
}
__global__ void second(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] += 1; }
torch::Tensor run(torch::Tensor x) { auto y = torch::empty_like(x); first<<<2, 32>>>(x.data_ptr<float>(),
    y.data_ptr<float>(), x.size(0), x.size(1)); return y; }
"""
'''


def examined(asked: TorchTask, python: str, task: Task) -> TorchVerdict:
    """By what stands in the module: `# state=wrong: why`, `speed=1.7`, `compiled=1.2` for torch.compile."""
    del python, task
    text = Path(asked.candidate).read_text()
    if failed := re.search(r"# state=(\w+): ([^\n]*)", text):
        return TorchVerdict(failed[1], failed[2])  # type: ignore[arg-type]
    if asked.own_work and "speed=" not in text:
        return TorchVerdict("refused", "the library still does all of the work: mul")

    def factor(name: str) -> float:
        found = re.findall(rf"{name}=([\d.]+)", text)
        return max(map(float, found), default=1.0)

    ratios = {"eager": factor("speed")}
    if asked.baselines:
        ratios |= {"tf32": ratios["eager"], "bf16": ratios["eager"]}
        ratios["compile"] = ratios["eager"] / factor("compiled")
    exact = min(ratios.get("compile", 9.0), ratios["eager"])
    return TorchVerdict(
        "faster" if exact > 1.05 else "slower" if exact < 0.95 else "same",
        "against eager",
        seconds=dict.fromkeys(ratios, (0.0001,) * 3) | {"new": (1e-4 / ratios["eager"],) * 3},
        speedups={name: (r, r, r) for name, r in ratios.items()},
        noise=0.01,
        kernelbench=True,
    )


@contextmanager
def searching(
    folder: Path, script: Callable[[dict[str, Any]], Answer], candidates: int = 4
) -> Iterator[tuple[Callable[[], OptimizeResult], Endpoint, Path]]:
    path = folder / "work" / "rows.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(TASK)
    with serving(script) as endpoint:
        (path.parent / "warplens.toml").write_text(f'[model]\nbase-url = "{endpoint.url}"\n')

        def run() -> OptimizeResult:
            from warplens.service.model import chosen as of
            from warplens.service.model import destination_of, give_consent

            service, choice = Service(path.parent), Choice("openai", "m")
            destination = destination_of(of(service.settings_for(path), choice))
            assert destination is not None
            give_consent(destination)
            return optimize_task(
                service,
                path,
                OptimizeOptions(candidates=candidates, seconds=60, model=choice),
                judge=lambda asked, text, python: TaskJudge(asked, text, python=python, examine=examined),
            )

        yield run, endpoint, path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))


def test_a_solution_begins_as_the_tasks_own_module() -> None:
    first = first_solution(SourceText(TASK)).text
    assert "class ModelNew(nn.Module):" in first and "super(ModelNew, self)" in first
    assert '"""Model of rows."""' in first and why_no_solution(first) == ""
    assert "defines no class" in why_no_solution(TASK) and "no Python" in why_no_solution("class (")
    assert is_task(TASK) and not is_task(first) and not is_task("x = 1")
    with pytest.raises(InputError, match="no PyTorch task"):
        first_solution(SourceText("x = 1"))
    assert python_essence(SourceText("a = 7 // 2  # x\n")) == python_essence(SourceText("\na = 7 // 2\n"))
    assert python_essence(SourceText("a = 7 // 2\n")) != python_essence(SourceText("a = 7 // 3\n"))


def test_named_numbers_of_kernels_are_tuned() -> None:
    text = SourceText(
        'CUDA = r"""\nconstexpr int kTile = 16;\n  const int kOne = 1;\nint i = 3;\n"""\nconst = 5\n'
    )
    steps = [(p.move.title, text.apply(list(p.edits)).text) for p in numbers_of(text)]
    assert [title for title, _ in steps] == ["kTile: 16 to 32", "kTile: 16 to 8", "kOne: 1 to 2"]
    assert "kTile = 32;" in steps[0][1] and "const int kOne = 2;" in steps[2][1]


def test_a_first_right_module_then_a_faster_one_with_two_kernels(tmp_path: Path) -> None:
    def planned(request: dict[str, Any], number: int) -> str:
        line = re.search(r"\| ( +return (?:2 \* x|x \*)[^\n]*)", case_of(request))
        assert line is not None
        return plan(f"idea {number}", "class ModelNew(nn.Module):" if number == 0 else line[1])

    script = by_role(
        planner=planned,
        coder=[
            code(KERNELS + "class ModelNew(nn.Module):  # state=crashed: error: x is undefined"),
            code("        return 2 * x if 'speed=1.6' else x"),
            code("        return 2 * x if 'speed=1.9' else x"),
        ],
        debugger=[
            code(KERNELS + "class ModelNew(nn.Module):")
            + f"<replace>\n<old>\n{FORWARD}\n</old>\n"
            + "<new>\n        return 2 * x if 'speed=0.8' else x\n</new>\n</replace>"
        ],
    )
    with searching(tmp_path, script) as (run, endpoint, path):
        result = run()
        assert [(t.state, t.origin) for t in result.tried] == [
            ("crashed", "model:planner"),
            ("slower", "model:debugger"),
            ("faster", "model:planner"),
            ("faster", "model:planner"),
        ]
        assert result.outcome == "faster" and result.proof is not None and "speed=1.9" in result.diff
        assert result.proof.verdict.timings[0].span == "call"
        assert result.model is not None and result.model.proposals == 4
        # what is asked is about a module, with the time of the task's own
        first = endpoint.requests[0]
        assert (
            "`ModelNew`" in first["messages"][0]["content"]
            and "load_inline" in first["messages"][0]["content"]
        )
        assert "Module ModelNew" in case_of(first) and "takes 100 us in eager FP32" in case_of(first)
        repaired = next(case_of(r) for r in endpoint.requests if role_of(r) == "debugger")
        assert "The judge says crashed: error: x is undefined" in repaired
        # what the tools see in its kernels is told at the lines of its file
        later = [case_of(r) for r in endpoint.requests if role_of(r) == "planner"][1]
        assert "uncoalesced" in later.lower() and "first:" in later
        # it is put beside the task, and the next search begins there
        begin_solution(path)
        apply_result(result)
        assert "speed=1.9" in solution_of(path).read_text() and path.read_text() == TASK
    with searching(tmp_path, by_role(planner=[plan("more", "    def forward(self, x):")], coder="no")) as (
        run,
        endpoint,
        _,
    ):
        again = run()
    assert again.outcome == "nothing" and "speed=1.9" in case_of(endpoint.requests[0])


def test_what_is_right_but_not_faster_than_the_compiler_is_no_winner(tmp_path: Path) -> None:
    script = by_role(
        planner=[plan("a kernel", FORWARD)],
        coder=[code("        return 2 * x if 'speed=1.5 compiled=2.0' else x")],
    )
    with searching(tmp_path, script, candidates=1) as (run, _, _):
        result = run()
    assert result.outcome == "nothing" and result.tried[0].state == "slower"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("        return F.relu(x", "no Python"),
        ("        from rows import Model; return Model(2)(x)", "imports the reference"),
        (
            "        try:\n            return 2 * x\n        except Exception:\n            return x",
            "a way out",
        ),
    ],
)
def test_what_may_not_be_judged_is_sent_back(tmp_path: Path, text: str, why: str) -> None:
    script = by_role(planner=[plan("a kernel", FORWARD)], coder=[code(text)])
    with searching(tmp_path, script, candidates=1) as (run, endpoint, _):
        result = run()
    assert result.tried == () and result.model is not None and result.model.troubles["not_allowed"] > 0
    said = [
        m["content"] for r in endpoint.requests for m in r["messages"] if "cannot be used" in m["content"]
    ]
    assert any(why in words for words in said)


def test_a_task_that_cannot_tell_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text(TASK)
    assert is_task_file(path) and not is_task_file(tmp_path / "none.py")

    def unsound(*_: object) -> TorchVerdict:
        return TorchVerdict("refused", "the task cannot tell right from wrong: its output is constant")

    with (
        TaskJudge(TorchTask(str(path), ""), first_solution(SourceText(TASK)), examine=unsound) as judge,
        pytest.raises(InputError, match="its output is constant"),
    ):
        judge.baseline()
    with pytest.raises(InputError, match="with a language model"):
        optimize_task(Service(tmp_path), path, OptimizeOptions())


def test_findings_of_a_modules_kernels_stand_at_its_own_lines(tmp_path: Path) -> None:
    text = SourceText(KERNELS + TASK.replace("Model", "ModelNew"))
    found = findings_of(Service(tmp_path), tmp_path / "rows_new.py", text)
    assert found and all(f.kernel == "" for f in found)
    lines = {text.line_text(f.line) for f in found if "uncoalesced" in f.slug}
    assert lines == {"    if (row < n) for (int c = 0; c < m; c++) y[row * m + c] = 2 * x[row * m + c];"}
    assert findings_of(Service(tmp_path), tmp_path / "rows_new.py", SourceText("class (")) == ()
