# SPDX-License-Identifier: Apache-2.0
"""PyTorch tasks on a card, with inline CUDA. Needs the Python with PyTorch that WARPLENS_TORCH_PYTHON names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from warplens.measure.torch_task.task import TorchTask, TorchVerdict, examine
from warplens_tools.errors import MissingToolError

TASKS = Path(__file__).parents[1] / "torch_tasks"


def examined(task: str, *, backward: bool = False, candidate: str = "") -> TorchVerdict:
    path = TASKS / "cuda" / f"{candidate or task}.py"
    asked = TorchTask(
        str(TASKS / f"tasks/{task}.py"), str(path), backward=backward, baselines=("tf32", "bf16")
    )
    try:
        return examine(asked, python=os.environ.get("WARPLENS_TORCH_PYTHON", sys.executable))
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("task", "backward"), [("damped_wave", False), ("scale_shift", False), ("scale_shift", True)]
)
def test_honest_cuda_is_right_and_timed(task: str, backward: bool) -> None:
    verdict = examined(task, backward=backward)
    assert verdict.state in ("faster", "same", "slower"), verdict.reason
    assert verdict.kernelbench and not verdict.library and set(verdict.speedups) == {"eager", "tf32", "bf16"}


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("task", ["ones_in_disguise", "weights_alone", "next_to_nothing"])
def test_defective_tasks_are_refused_on_a_card(task: str) -> None:
    verdict = examined(task, candidate="damped_wave")
    assert verdict.state == "refused" and "cannot tell right from wrong" in verdict.reason
