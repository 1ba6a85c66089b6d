# SPDX-License-Identifier: Apache-2.0
"""A PyTorch task searched on a card by scripted proposals over real HTTP: broken, and repaired.

Needs the Python with PyTorch that WARPLENS_TORCH_PYTHON names. Where WARPLENS_TRANSCRIPTS names a folder, questions,
answers and verdicts are kept there.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("openai")

from tests.server.agent.llm.endpoint import serving
from tests.server.agent.llm.scripted import by_role, case_of, code, plan

from warplens.measure.torch_task.judge import TaskJudge
from warplens.measure.torch_task.task import TorchOptions, TorchTask, TorchVerdict, examine
from warplens.service.model import Choice, chosen, destination_of, give_consent
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens.service.torch_search import optimize_task
from warplens_tools.errors import MissingToolError
from warplens_tools.process.task import Task

TASK = Path(__file__).parents[1] / "torch_tasks" / "tasks" / "scale_shift.py"
LINE = "        return x * self.scale + self.shift"
#: Built by nvcc alone, without PyTorch's headers, which take half a minute.
FIRST = '''\
import ctypes
import os
import shutil
import subprocess
import tempfile

CUDA = r"""
constexpr int kThreads = 128;
__global__ void apply(const float* x, const float* scale, const float* shift, float* y, long count, int columns)
{
    long i = (long)blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    int column = i % columns;
    y[i] = x[i] * scale[column] + shift[column];
}
extern "C" void run(const float* x, const float* scale, const float* shift, float* y, long count, int columns)
{
    apply<<<(count + kThreads - 1) / kThreads, kThreads>>>(x, scale, shift, y, count, columns);
}
"""


def built(source):
    folder = tempfile.mkdtemp()
    with open(folder + "/k.cu", "w") as file:
        file.write(source)
    nvcc = shutil.which("nvcc") or os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc"
    flags = ["-O3", "-shared", "-Xcompiler", "-fPIC", "-arch=sm_90", "-o", folder + "/k.so"]
    done = subprocess.run([nvcc, *flags, folder + "/k.cu"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return ctypes.CDLL(folder + "/k.so")


OWN = built(CUDA)


class ModelNew(nn.Module):
'''
CALL = """\
        y = torch.empty_like(x)
        given = [ctypes.c_void_p(t.data_ptr()) for t in (x, self.scale, self.shift, y)]
        OWN.run(*given, ctypes.c_long(x.numel()), ctypes.c_int(x.shape[-1]))
        return y"""


def replaced(old: str, new: str) -> str:
    return f"<replace>\n<old>\n{old}\n</old>\n<new>\n{new}\n</new>\n</replace>\n"


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_task_is_searched_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    path = tmp_path / "work" / TASK.name
    path.parent.mkdir()
    shutil.copy(TASK, path)

    def planned(request: dict[str, Any], number: int) -> str:
        case = case_of(request)
        if number == 0:
            return plan("one kernel over all elements", "class ModelNew(nn.Module):")
        line = "constexpr int kThreads = 128;" if "constexpr int kThreads = 128;" in case else ""
        return plan("larger blocks", line or "constexpr int kThreads = 256;")

    broken = FIRST.replace("int column = i % columns;", "int column = i % cols;")
    script = by_role(
        planner=planned,
        coder=[code(broken), code("constexpr int kThreads = 256;"), code("constexpr int kThreads = 512;")],
        debugger=[
            "A name, and the kernel is not called.\n"
            + replaced("    int column = i % cols;", "    int column = i % columns;")
            + replaced(LINE, CALL)
        ],
    )
    began = time.monotonic()

    def said(message: str, share: float | None = None) -> None:
        del share
        sys.stderr.write(f"{time.monotonic() - began:6.1f} s: {message}\n")

    def examined(asked: TorchTask, python: str, task: Task) -> TorchVerdict:
        verdict = examine(asked, python=python, task=task)
        said(f"{Path(asked.candidate).parent.name}: {verdict}")
        return verdict

    python = os.environ.get("WARPLENS_TORCH_PYTHON", sys.executable)
    with serving(script) as endpoint:
        (path.parent / "warplens.toml").write_text(f'[model]\nbase-url = "{endpoint.url}"\n')
        service, choice = Service(path.parent), Choice("openai", "scripted")
        destination = destination_of(chosen(service.settings_for(path), choice))
        assert destination is not None
        give_consent(destination)
        try:
            result = optimize_task(
                service,
                path,
                OptimizeOptions(candidates=2, seconds=400, model=choice),
                TorchOptions(python=python, compile=False),
                task=Task(said),
                judge=lambda asked, text, given: TaskJudge(asked, text, python=given, examine=examined),
            )
        except MissingToolError as error:
            pytest.skip(str(error))
        if folder := os.environ.get("WARPLENS_TRANSCRIPTS"):
            kept = {"requests": endpoint.requests, "result": msgspec.to_builtins(result)}
            (Path(folder) / "torch_search.json").write_text(json.dumps(kept, indent=1))
    states = [t.state for t in result.tried]
    assert states[0] == "crashed" and "cols" in result.tried[0].reason
    assert len(states) == 2 and set(states[1:]) <= {"faster", "same", "slower"}, result.tried
    assert result.model is not None and result.model.proposals == 2
