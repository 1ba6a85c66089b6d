# SPDX-License-Identifier: Apache-2.0
"""Three tasks of our own in KernelBench's form on a card: one solution right, one right to 1e-2 alone, one wrong.

Needs the Python with PyTorch that WARPLENS_TORCH_PYTHON names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from warplens.measure.torch_task.suite import problems_of
from warplens.measure.torch_task.task import TorchOptions
from warplens.service.kernelbench import Suite, judged
from warplens_tools.errors import MissingToolError

BENCH = Path(__file__).parents[1] / "torch_tasks" / "bench"


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_rules_on_a_card(tmp_path: Path) -> None:
    torch = TorchOptions(os.environ.get("WARPLENS_TORCH_PYTHON", sys.executable), rounds=6)
    suite = Suite(tuple(problems_of(BENCH, 1, None)), tmp_path, BENCH / "solutions", torch)
    try:
        report = judged(suite)
    except MissingToolError as error:
        pytest.skip(str(error))
    right, coarse, wrong = report.results
    assert right.verdict.state in ("faster", "same", "slower") and right.own == right.verdict
    assert coarse.verdict.state == "wrong" and coarse.own.state in ("faster", "same", "slower")
    assert wrong.verdict.state == "wrong"
    assert report.summaries[1].right >= report.summaries[0].right == 1
