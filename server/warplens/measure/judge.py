"""The judge: opens a workload, measures its baseline, judges candidates against it.

    with Judge(workload, kernel="ns::scale") as judge:
        baseline = judge.baseline()
        verdicts = judge.judge(candidates, on_verdict=tell)
        proof = judge.confirm(best)

The order of the gate: edit allowed, builds, resources legal, runs within its limit, right, faster than
the noise of the same visit; `confirm` adds the rebuilt program and fresh processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

import msgspec

from warplens.measure.settings import MeasureSettings
from warplens.measure.verdict import Candidate, Conditions, Interval, Verdict
from warplens_tools.evidence import CompiledKernel, LaunchTiming, Unknown
from warplens_tools.run.cancel import CancelToken, Progress, no_progress
from warplens_tools.run.workload import Workload


class KernelShare(msgspec.Struct, frozen=True):
    """One kernel of the running program."""

    mangled: str
    #: Name without template arguments, parameters or return type, e.g. "ns::scale".
    qualified_name: str
    launches: int
    total_ns: float
    #: Of the program's total kernel time, 0 to 1.
    share: float
    #: Distinct (grid, block, dynamic shared bytes).
    shapes: int
    #: The workload's source file defines it, so candidates for it can be judged.
    in_source: bool


class ProgramRun(msgspec.Struct, frozen=True):
    """How the whole program ran."""

    status: int
    #: Seconds from start to exit.
    seconds: float
    stdout: str
    stderr: str


class Baseline(msgspec.Struct, frozen=True):
    """The kernel as the user wrote it, in the user's own program."""

    #: Qualified name of the judged kernel; the hottest that the source defines if none was named.
    kernel: str
    #: The instantiation that takes most time.
    compiled: CompiledKernel
    #: Its heaviest launch shape; `share` is the kernel's share over all shapes and instantiations.
    timing: LaunchTiming
    program: ProgramRun
    conditions: Conditions
    #: Every kernel the program ran, hottest first.
    kernels: tuple[KernelShare, ...]
    #: What could not be established, e.g. that output differs from run to run.
    unknown: tuple[Unknown, ...] = ()


class ProgramGain(msgspec.Struct, frozen=True):
    """The whole program, original against rebuilt, in alternating runs."""

    baseline_seconds: Interval
    candidate_seconds: Interval
    #: baseline / candidate: above 1 is faster.
    speedup: Interval


class Confirmation(msgspec.Struct, frozen=True):
    """A winner measured again; its `verdict` alone is what may be reported as a gain."""

    verdict: Verdict
    program: ProgramGain | None = None


class Judge:
    """Judges candidates for one kernel of one workload.

    Holds the GPU lock only while the GPU is in use. Not safe for use from several threads at once; the
    cancel token may be triggered from any thread, and stops builds and programs with their children.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        kernel: str = "",
        arch: str = "",
        device: int = 0,
        settings: MeasureSettings | None = None,
    ) -> None:
        """`kernel`: plain, qualified or mangled name, "" for the hottest that the source defines.

        `arch`: e.g. "sm_90"; "" means the device's own. `device` is the ordinal as the CUDA driver counts.
        """
        self.workload = workload
        self.settings = settings or MeasureSettings()
        self._kernel, self._arch, self._device = kernel, arch, device

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the build folder."""
        raise NotImplementedError

    def baseline(self, *, progress: Progress = no_progress, cancel: CancelToken | None = None) -> Baseline:
        """Build the program, run it as it is, survey its kernels; repeated calls answer from memory.

        Raises:
            MissingToolError: no GPU, driver, compiler or CUPTI.
            CompileError: the program does not build.
            InputError: it fails, or never launches the kernel, or its launch cannot be visited.
            TimeLimitError, CancelledError: as named.
        """
        raise NotImplementedError

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        progress: Progress = no_progress,
        cancel: CancelToken | None = None,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        """One verdict per candidate, in their order; `on_verdict` gets each as soon as it is known.

        A candidate never raises: what is wrong with it is its verdict. Calls `baseline` first if needed.

        Raises:
            as `baseline`, where the workload itself fails.
        """
        raise NotImplementedError

    def confirm(
        self,
        candidate: Candidate,
        *,
        progress: Progress = no_progress,
        cancel: CancelToken | None = None,
    ) -> Confirmation:
        """Rebuild the whole program with the candidate and measure it again in fresh processes.

        The verdict is `faster` only if the rebuilt program exits and prints as before, and every fresh
        process finds it faster; its timings are of samples that did not choose the candidate.
        """
        raise NotImplementedError
