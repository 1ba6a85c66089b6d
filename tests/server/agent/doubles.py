# SPDX-License-Identifier: Apache-2.0
"""A judge that computes instead of measuring, for tests of the loop around it. Says nothing of real kernels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from tests.server.agent.bench import timed
from tests.server.agent.snippets import LIMITS

from warplens.agent.actions import KernelSpace
from warplens.agent.priors import Cause
from warplens.agent.problem import Problem
from warplens.agent.search_settings import Budget
from warplens.measure.judge import Baseline, Confirmation, ProgramRun
from warplens.measure.verdict import Candidate, Conditions, Verdict
from warplens_tools.errors import MissingToolError
from warplens_tools.evidence import CompiledKernel, LaunchTiming, Resources, Unknown
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText

CODE = """#define BLOCK 256
__global__ void __launch_bounds__(1024) scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < 8; ++k)
        if (i < n) x[i] *= 2;
}
int main() {
    float* x;
    const int n = 1 << 20;
    cudaMalloc(&x, n * sizeof(float));
    scale<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, n);
    return cudaDeviceSynchronize();
}
"""


class ComputedJudge:
    """Best at BLOCK 128 and unroll 4; BLOCK 1024 gives wrong results. `after` is called after each verdict."""

    def __init__(self, text: SourceText, after: Callable[[int], None] = lambda _: None) -> None:
        self.text = text
        self.judged: list[str] = []
        self.confirmed: list[str] = []
        self.confirms = True
        self.uuid = "GPU-0"
        self._after = after

    def baseline(self, *, task: Task = UNATTENDED) -> Baseline:
        task.say("baseline", None)
        task.check()
        return Baseline(
            kernel="scale",
            compiled=CompiledKernel("_Z5scalePfi", "scale(float*, int)", "scale", "sm_90", Resources(32)),
            timing=LaunchTiming("a test double", 1, (4096, 1, 1), (256, 1, 1), 0, 1e3, 1e3, 1e3, share=1.0),
            program=ProgramRun(0, 0.5, "", ""),
            conditions=Conditions("a test double", self.uuid, "0", "0"),
            kernels=(),
        )

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = UNATTENDED,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        verdicts = []
        for candidate in candidates:
            task.say(candidate.title, None)
            task.check()
            self.judged.append(candidate.text_hash)
            verdicts.append(self._verdict(candidate))
            if on_verdict is not None:
                on_verdict(verdicts[-1])
            self._after(len(self.judged))
        return tuple(verdicts)

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        task.say(candidate.title, None)
        task.check()
        self.confirmed.append(candidate.id)
        verdict = self._verdict(candidate)
        return Confirmation(
            verdict if self.confirms else Verdict(candidate.id, "wrong", "it prints other text"),
            unknown=(Unknown("races in global memory", "nothing looks for them"),),
        )

    def confirmation_seconds(self) -> float:
        return 60.0

    def _verdict(self, candidate: Candidate) -> Verdict:
        text = self.text.apply(list(candidate.edits)).text
        block = int(re.findall(r"#define BLOCK (\d+)", text)[0])
        # A rewrite may have written the loop anew, without its pragma; a dispatch has the user's before its own.
        unroll = int(["1", *re.findall(r"unroll (\d+)", text)][-1])
        if block == 1024:
            return Verdict(candidate.id, "wrong", "planted")
        gain = 1.6 * 0.8 ** abs(math.log2(block / 128)) * 0.9 ** abs(math.log2(unroll / 4))
        start = 1.6 * 0.8 * 0.9**2
        return timed(candidate.id, gain / start)


class NoGpu(ComputedJudge):
    """A machine that cannot measure."""

    def baseline(self, *, task: Task = UNATTENDED) -> Baseline:
        del task
        raise MissingToolError("there is no CUDA GPU in this machine", remedy="run it where there is one")


def problem(
    code: str = CODE, *, path: str = "/k.cu", causes: Sequence[Cause] = (), **fields: object
) -> Problem:
    """A problem over a text that is in no file."""
    text = SourceText(code)

    def space(kernel: str) -> KernelSpace:
        return KernelSpace(text, path=path, kernel=kernel, limits=LIMITS, causes=causes)

    defaults: dict[str, object] = {"budget": Budget(candidates=24, seconds=600, batch=4)}
    return Problem(text=text, path=path, name="k.cu", space=space, workload="nvcc", **(defaults | fields))  # type: ignore[arg-type]
