# SPDX-License-Identifier: Apache-2.0
"""Kernels without a program, judged on a card through the programs that are generated from their launch specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import Allowed
from warplens.measure.pool.local import local_pool
from warplens.measure.pool.messages import judge_setup
from warplens.measure.verdict import Candidate
from warplens.read_settings import load
from warplens.service.workloads import workload_of
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import InputError
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit

CODE = """constexpr int kBlock = 64;
void on_the_host(const double* x, double* y, double alpha, int n)
{
    for (int i = 0; i < n; ++i) y[i] = alpha * x[i] + 1;
}
/* warplens: launch
shapes = [{ n = 4194304 }, { n = 1000003 }]
grid = "(n + kBlock - 1) / kBlock"
block = "kBlock"
arguments.x = { count = "n" }
arguments.y = { count = "n", fill = "zeros" }
arguments.alpha = 2.5
reference = "on_the_host"
*/
__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * kBlock + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 64; ++k) sum += sinf(0.0f * k);
    if (i < n) y[i] = alpha * x[i] + 1 + sum;
}
"""
SLOW = "    for (int k = 0; k < 64; ++k) sum += sinf(0.0f * k);\n"


def workload(folder: Path, code: str = CODE) -> Workload:
    path = folder / "k.cu"
    path.write_text(code)
    made = workload_of(path, path, load(folder))
    assert made.generated
    return made


def candidates() -> list[Candidate]:
    text = SourceText(CODE)

    def edited(name: str, old: str, new: str) -> Candidate:
        start = text.text.index(old)
        return Candidate(name, "", "scale", (TextEdit(text.span(start, start + len(old)), new),))

    return [
        edited("right", SLOW, ""),
        edited("wrong", "alpha * x[i] + 1 + sum", "2.0f * x[i] + 1 + sum"),
        edited("at the edge", "if (i < n)", "if (i < n - 1)"),
        edited("size", "kBlock = 64", "kBlock = 256"),
    ]


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_generated_program_is_judged_as_any_other(tmp_path: Path) -> None:
    with Judge(workload(tmp_path), kernel="scale") as judge:
        baseline = judge.baseline()
        assert baseline.kernel == "scale" and baseline.timing.block == (64, 1, 1)
        right, wrong, edge, size = judge.judge(candidates())
        assert right.state in ("faster", "same"), right.reason
        assert (wrong.state, edge.state) == ("wrong", "wrong")
        # its geometry is the rebuilt program's
        assert size.state in ("faster", "same", "slower"), size.reason
        if right.state == "faster":
            confirmed = judge.confirm(candidates()[0])
            assert confirmed.verdict.state == "faster", confirmed.verdict.reason


@pytest.mark.gpu
@pytest.mark.timeout(200)
def test_a_kernel_that_is_not_its_reference_is_told_before_anything_is_judged(tmp_path: Path) -> None:
    made = workload(tmp_path, CODE.replace("alpha * x[i] + 1;", "alpha * x[i] + 2;"))
    with Judge(made, kernel="scale") as judge, pytest.raises(InputError, match="the reference says"):
        judge.baseline()


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_pool_says_what_one_judge_says(tmp_path: Path) -> None:
    made = workload(tmp_path)
    card = present_gpus()[0].uuid
    with Judge(made, kernel="scale") as judge:
        alone = judge.judge(candidates())
    with local_pool(judge_setup(made, "scale", "", Allowed()), [card]) as pool:
        together = pool.judge(candidates())
        assert pool.confirmation_seconds() > 0
    measured = {"faster", "same", "slower"}
    for one, other in zip(alone, together, strict=True):
        assert one.state == other.state or {one.state, other.state} <= measured, (one.reason, other.reason)
        assert other.conditions is None or other.conditions.uuid == card
