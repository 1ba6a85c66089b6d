# SPDX-License-Identifier: Apache-2.0
"""Tasks in the form of KernelBench, on the CPU: honest modules pass, cheating ones do not, defective tasks are refused.

Needs a Python with PyTorch: this one, or the one that WARPLENS_TORCH_PYTHON names.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.torch_tasks.cheats import CHEATS, Cheat, cheating

from warplens.measure.torch_task import task
from warplens.measure.torch_task.scan import libraries, suspicions
from warplens.measure.torch_task.task import TorchTask, TorchVerdict, card_of, examine
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.run.confine import Confinement, abilities, confined

HERE = Path(__file__).parents[2] / "torch_tasks"
SOUND = [
    "scale_shift",
    "damped_wave",
    "linear_relu",
    "row_softmax",
    "rms_rows",
    "bag_of_rows",
    "sum_and_peak",
]
MEASURED = {"faster", "same", "slower"}


@functools.cache
def torch_python() -> str:
    """A Python that has PyTorch; "" for none."""
    for python in (os.environ.get("WARPLENS_TORCH_PYTHON", ""), sys.executable):
        if (
            python
            and not subprocess.run(
                [python, "-c", "import torch"], capture_output=True, check=False
            ).returncode
        ):
            return python
    return ""


def test_a_device_names_the_card_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("warplens.measure.torch_task.task.present_gpu", asked.append)
    for device in ("cuda", "cuda:0", "cuda:2", "cpu", "mps:1"):
        card_of(device)
    assert asked == [0, 0, 2]


@pytest.fixture
def python() -> str:
    found = torch_python()
    if not found:
        pytest.skip("no PyTorch; WARPLENS_TORCH_PYTHON may name a Python that has it")
    return found


def examined(python: str, task: str, candidate: Path, **fields: object) -> TorchVerdict:
    given: dict[str, object] = {"device": "cpu", "baselines": (), "rounds": 4, "limit": 60.0, "threads": 1}
    asked = TorchTask(str(HERE / f"tasks/{task}.py"), str(candidate), **(given | fields))  # type: ignore[arg-type]
    return examine(asked, python=python)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_honest_modules_are_right_and_timed(name: str, python: str) -> None:
    verdict = examined(python, name, HERE / f"honest/{name}.py")
    assert verdict.state in MEASURED, verdict.reason
    assert verdict.kernelbench and not verdict.lowered and not verdict.library and verdict.error_ratio <= 1
    assert all(low <= median <= high for median, low, high in verdict.seconds.values())
    assert set(verdict.speedups) == {"eager"} and verdict.noise is not None


@pytest.mark.slow
def test_gradients_are_compared_and_baselines_reported(python: str) -> None:
    honest = HERE / "honest/scale_shift.py"
    verdict = examined(python, "scale_shift", honest, backward=True, baselines=("tf32", "bf16"))
    assert verdict.state in MEASURED, verdict.reason
    assert set(verdict.speedups) == {"eager", "tf32", "bf16"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ones_in_disguise", "does not depend on its inputs"),
        ("weights_alone", "does not depend on its inputs"),
        ("next_to_nothing", "near zero everywhere"),
    ],
)
def test_defective_tasks_are_refused(name: str, said: str, python: str, tmp_path: Path) -> None:
    candidate = module(tmp_path, "return x")
    verdict = examined(python, name, candidate)
    assert verdict.state == "refused" and said in verdict.reason


HEAD = """import os, time, torch
from torch import nn
import torch.nn.functional as F
time.perf_counter = lambda: 0.0
SEEN = {}
class ModelNew(nn.Module):
    def __init__(self, inside=0, outside=0):
        super().__init__()
        self.layer = nn.Linear(inside, outside) if outside else None
    def forward(self, x, t=None):
"""


def module(folder: Path, body: str) -> Path:
    path = folder / "new.py"
    path.write_text(HEAD + "".join(f"        {line}\n" for line in body.splitlines()))
    return path


#: A loop in Python is no library: right, and slow.
WAVE = """y = torch.empty_like(x)
import math
a, b = x.flatten().tolist(), t.flatten().tolist()
y.copy_(torch.tensor([math.sin(p) * math.exp(-abs(q)) + p for p, q in zip(a, b)]).view_as(y))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "task", "body", "state", "said"),
    [
        ("remembers by place", "damped_wave",
         WAVE + "return SEEN.setdefault(x.data_ptr(), y)", "wrong", "element"),
        ("remembers by shape", "damped_wave", WAVE + "return SEEN.setdefault(x.shape, y)", "wrong", "element"),
        ("gives a constant", "linear_relu", "return torch.zeros(64, 96)", "wrong", "element"),
        ("gives nothing", "linear_relu", "return torch.empty(64, 96).fill_(float('nan'))", "wrong", "not finite"),
        ("gives its input", "damped_wave", "return x", "wrong", "element"),
        ("is right on its own distribution alone", "damped_wave",
         WAVE + "return y if x.abs().max() < 6 else x", "wrong", "on inputs x 3"),
        ("is of a lower precision", "damped_wave", WAVE + "return y.bfloat16().float()", "wrong", "lower precision"),
        ("skips a part", "damped_wave", WAVE + "y[-1, -3:] = x[-1, -3:]\nreturn y", "wrong", "element"),
        ("changes its inputs", "damped_wave", WAVE + "x[0, 0] += 1\nreturn y", "wrong", "changes its inputs"),
        ("is another shape", "damped_wave", "return x[:1]", "wrong", "the reference (256, 512)"),
        ("lets the library work", "linear_relu", "return F.relu(self.layer(x))", "refused", "library still does all"),
        ("ends its process", "damped_wave", "os._exit(0)", "crashed", "ended with status 0"),
        ("raises", "damped_wave", "raise RuntimeError('no')", "crashed", "RuntimeError"),
        ("never ends", "damped_wave", "while True: pass", "hung", "did not answer"),
        ("pretends to be done", "damped_wave",
         "import threading\nthreading.Timer(1, lambda: None).start()\nreturn torch.empty_like(x).fill_(float('nan'))",
         "wrong", "not finite"),
    ],
)  # fmt: skip
def test_cheating_modules_do_not_pass(
    what: str, task: str, body: str, state: str, said: str, python: str, tmp_path: Path
) -> None:
    verdict = examined(python, task, module(tmp_path, body), limit=5.0)
    assert (verdict.state, said in verdict.reason) == (state, True), f"{what}: {verdict}"


@pytest.mark.slow
@pytest.mark.skipif(not (abilities().files and abilities().network), reason="this kernel closes nothing")
@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("writes outside its folder", "open('/var/tmp/warplens-cheat', 'w')"),
        ("reads what is the user's", f"open({str(HERE / 'tasks/damped_wave.py')!r})"),
        ("asks the network", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_STREAM)"),
    ],
)
def test_a_module_reaches_nothing_outside_its_folder(
    what: str, body: str, python: str, tmp_path: Path
) -> None:
    verdict = examined(python, "damped_wave", module(tmp_path, f"{body}\n{WAVE}return y"))
    assert (verdict.state, "PermissionError" in verdict.reason) == ("crashed", True), f"{what}: {verdict}"


@pytest.mark.slow
def test_a_lower_precision_wins_only_where_it_may(python: str, tmp_path: Path) -> None:
    body = WAVE + "return y.bfloat16().float()"
    verdict = examined(python, "damped_wave", module(tmp_path, body), lower_precision=True)
    assert verdict.state in MEASURED and verdict.lowered


@pytest.mark.slow
def test_missing_gradients_are_wrong(python: str, tmp_path: Path) -> None:
    verdict = examined(python, "damped_wave", module(tmp_path, WAVE + "return y"), backward=True)
    assert verdict.state == "wrong" and "no gradient" in verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [c for c in CHEATS if c.backward], ids=lambda cheat: cheat.name)
def test_gradients_of_inputs_are_compared_beside_those_of_parameters(
    cheat: Cheat, python: str, tmp_path: Path
) -> None:
    (tmp_path / "new.py").write_text(cheating(cheat, HERE / "honest"))
    shutil.copy(HERE / "honest/c_code.py", tmp_path)
    verdict = examined(python, cheat.task, tmp_path / "new.py", backward=True)
    assert verdict.state == cheat.state and cheat.said in verdict.reason, verdict


#: Sums whose sign, in half of the rows, is a matter of order: a ReLU's gradient jumps there.
KINKS = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu((x[:, 0] + x[:, 1]) + x[:, 2])
def get_inputs():
    a, b, t = torch.randn(512), torch.randn(512), torch.rand(512) + 1
    b[::2], t[::2] = -a[::2], 1e-10 * t[::2]
    return [torch.stack([a, b, t], 1)]
def get_init_inputs():
    return []
"""
OTHER_ORDER = """
import torch
from torch import nn
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        sums = (x[:, 2] + x[:, 0]) + x[:, 1]
        ctx.save_for_backward(sums)
        return sums.clamp(min=0)
    @staticmethod
    def backward(ctx, g):
        (sums,) = ctx.saved_tensors
        return (g * FACTOR * (sums > 0)).unsqueeze(1).expand(-1, 3).contiguous()
class ModelNew(nn.Module):
    def forward(self, x):
        return Own.apply(x)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "right"), [("1", True), ("1.001", False)])
def test_a_gradient_may_jump_where_rounding_alone_decides(
    factor: str, right: bool, python: str, tmp_path: Path
) -> None:
    (tmp_path / "kinks.py").write_text(KINKS)
    (tmp_path / "new.py").write_text(OTHER_ORDER.replace("FACTOR", factor))
    asked = TorchTask(
        str(tmp_path / "kinks.py"), str(tmp_path / "new.py"), device="cpu", baselines=(), rounds=4, limit=60.0,
        threads=1, backward=True, own_work=False,
    )  # fmt: skip
    verdict = examine(asked, python=python)
    assert (verdict.state in MEASURED) == right, verdict


#: Forward by a loop of its own; the gradients are the library's, of the same chain.
LENT = """
class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, t):
        import math
        ctx.save_for_backward(x, t)
        a, b = x.flatten().tolist(), t.flatten().tolist()
        return torch.tensor([math.sin(p) * math.exp(-abs(q)) + p for p, q in zip(a, b)]).view_as(x)
    @staticmethod
    def backward(ctx, g):
        x, t = (v.detach().requires_grad_() for v in ctx.saved_tensors)
        with torch.enable_grad():
            y = torch.sin(x) * torch.exp(-torch.abs(t)) + x
        return torch.autograd.grad(y, (x, t), g)
"""


@pytest.mark.slow
def test_gradients_that_the_library_works_out_are_refused(python: str, tmp_path: Path) -> None:
    path = module(tmp_path, "return Apply.apply(x, t)")
    path.write_text(path.read_text() + LENT)
    verdict = examined(python, "damped_wave", path, backward=True)
    assert verdict.state == "refused" and "all of the work on gradients: " in verdict.reason, verdict


def test_what_rests_on_the_reference_is_refused_on_sight() -> None:
    cases = {
        "from tasks.linear_relu import Model\n": "imports the reference",
        "import linear_relu as L\n": "imports the reference",
        "class ModelNew(Model):\n    pass\n": "not a plain nn.Module",
        "class ModelNew(nn.Module):\n def forward(s, x):\n  try:\n   return own(x)\n  except Exception:\n   return x\n":
            "where its own code fails",
        "def (": "does not parse",
    }  # fmt: skip
    for text, said in cases.items():
        assert any(said in found for found in suspicions(text, "linear_relu")), text
    assert suspicions("import torch\nclass ModelNew(torch.nn.Module):\n    pass\n", "linear_relu") == ()
    assert libraries('SOURCE = "cublasSgemm(h); at::matmul(a, b);"') == ("at::matmul", "cublasSgemm")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    task = str(HERE / "tasks/linear_relu.py")
    with pytest.raises(InputError, match="does not exist"):
        examine(TorchTask(task, str(tmp_path / "none.py")))
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    bare.chmod(0o755)
    candidate = module(tmp_path, "return x")
    with pytest.raises(MissingToolError, match="has no PyTorch"):
        examine(TorchTask(task, str(candidate), device="cpu"), python=str(bare))


def test_of_few_rounds_the_interval_is_all_of_them(python: str) -> None:
    folder = Path(sys.modules[TorchTask.__module__].__file__ or "").parent
    of = "examiner._interval([float(i) for i in range(n)])"
    code = f"import json, examiner; print(json.dumps([{of} for n in (5, 6, 9, 15)]))"
    run = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [[2.0, 0.0, 4.0], [2.5, 0.0, 5.0], [4.0, 1.0, 7.0], [7.0, 3.0, 11.0]]


@pytest.mark.skipif(not abilities().files, reason="this kernel has no Landlock")
def test_the_fence_opens_the_python_that_runs_and_nothing_else(tmp_path: Path) -> None:
    own, secret = tmp_path / "own", tmp_path / "secret"
    own.mkdir()
    secret.write_text("swordfish")
    command = confined((), Confinement((str(own),), (), program=True))
    said = json.dumps({"command": command, "folder": str(own), "builds": str(own)})
    around = "import json, remote, sys\nprint(json.dumps(remote.Fence(json.loads(sys.argv[1])).around(sys.argv[2:])))"
    tried = f"import site\ntry:\n    open({str(secret)!r})\nexcept PermissionError:\n    print('refused')"
    environment = {**os.environ, "PYTHONPATH": str(Path(task.__file__).parent)}
    words = [sys.executable, "-c", around, said, sys.executable, "-c", tried]
    made = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    subprocess.run(json.loads(made.stdout), capture_output=True, check=True, cwd=own)
    assert (own / "stdout").read_text() == "refused\n"
