# SPDX-License-Identifier: Apache-2.0
"""Plan, code, judge, debug with the real compiler and the real gates on host code; only times are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("openai")

from tests.server.agent.bench import timed
from tests.server.agent.llm.scripted import TextJudge, by_role, case_of, code, plan, role_of, searching
from tests.standard import STANDARD

from warplens.agent.search_loop import optimize
from warplens.measure.build.candidates import Builder, Built
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens.store.database import open_store
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain

CODE = """#include <cstdio>
#include <cstdlib>
__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 2;
}
int main(int argc, char** argv) {
    float* x;
    int n = atoi(argv[1]), threads = atoi(argv[2]);
    cudaMalloc(&x, n * sizeof(float));
    scale<<<(n + threads - 1) / threads, threads>>>(x, n);
    return cudaDeviceSynchronize();
}
"""
LINE = "    if (i < n) x[i] = x[i] * 2;"


class BuildingJudge(TextJudge):
    """Builds each candidate as the judge does; what builds is timed by its text."""

    def __init__(self, path: Path, folder: Path) -> None:
        super().__init__(SourceText.read(path))
        settings = MeasureSettings(build_jobs=1)
        self.builder = Builder(
            Workload(str(path), str(path), flags=STANDARD),
            toolchain=resolve_toolchain(),
            arch="sm_90",
            folder=folder,
            settings=settings,
        )
        self.unit = self.builder.baseline()

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = UNATTENDED,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        verdicts: list[Verdict] = []

        def take(one: Built | Verdict) -> None:
            verdict = one if isinstance(one, Verdict) else timed(one.candidate.id, self._speed(one.candidate))
            verdicts.append(verdict)
            if on_verdict is not None:
                on_verdict(verdict)

        (kernel,) = self.unit.evidence.kernels
        self.builder.build_all(candidates, self.unit, kernel, b"", task=task, on_done=take)
        return tuple(verdicts)

    def _verdict(self, candidate: Candidate) -> Verdict:
        return timed(candidate.id, self._speed(candidate))

    def _speed(self, candidate: Candidate) -> float:
        return 1.5 if "__stcs" in self.text.apply(list(candidate.edits)).text else 1.0


@pytest.mark.compiler
@pytest.mark.slow
@pytest.mark.thorough
def test_what_the_compiler_refuses_is_repaired_and_host_code_stays(tmp_path: Path) -> None:
    if resolve_toolchain().find("nvcc") is None:
        pytest.skip("no nvcc")
    path = tmp_path / "work" / "k.cu"
    path.parent.mkdir()
    path.write_text(CODE)
    script = by_role(
        planner=[plan("stream the stores", LINE)],
        coder=[code("    if (i < n) __stcs(&x[i], source[i] * 2);")],
        debugger=[code("    if (i < n) __stcs(&x[i], x[i] * 2);")],
    )
    with (
        open_store(tmp_path / "store") as store,
        searching(script, text=CODE, candidates=2) as (problem, source, endpoint),
    ):
        result = optimize(problem, BuildingJudge(path, tmp_path / "build"), store)
    states = [(tried.origin, tried.state) for tried in result.tried]
    assert states == [("model:planner", "not_built"), ("model:debugger", "faster")]
    (asked,) = [case_of(r) for r in endpoint.requests if role_of(r) == "debugger"]
    assert 'identifier "source" is undefined' in asked
    assert result.outcome == "faster" and "__stcs(&x[i]" in result.diff and source.asker.troubles == {}
