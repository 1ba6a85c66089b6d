# SPDX-License-Identifier: Apache-2.0
"""A judge of `ModelNew` files for a search: each version is examined against its task (`task.py`)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from warplens.measure.confirm import Confirmation
from warplens.measure.program.whole import ProgramRun
from warplens.measure.session import Baseline
from warplens.measure.torch_task.task import Examine, TorchTask, TorchVerdict, card_of, examined
from warplens.measure.verdict import RIGHT, Candidate, Conditions, Interval, Timing, Verdict
from warplens_tools.errors import InputError
from warplens_tools.evidence import CompiledKernel, LaunchTiming, Resources, Unknown
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText

#: Seconds that a confirmation may take: it compiles the reference and the candidate anew.
_CONFIRMATION_SECONDS = 900.0
#: Rounds of timing while searching, and when a winner is measured again.
_ROUNDS, _CONFIRMING_ROUNDS = 6, 10


class TaskJudge:
    """Judges versions of one text, the first of which is the reference itself.

    While searching, versions are timed against eager execution in FP32; a winner also against TF32, BF16 and
    `torch.compile`, and it must be faster than that, too.
    """

    def __init__(
        self, asked: TorchTask, text: SourceText, *, python: str = "", examine: Examine = examined
    ) -> None:
        """`asked.candidate` is left open; `text` is what candidates edit."""
        self._asked, self._text, self._python, self._examine = asked, text, python, examine
        self._folder = tempfile.TemporaryDirectory(prefix="warplens-solutions-")
        #: Speedups over eager execution of the versions that were right, with their texts.
        self._right: list[tuple[float, SourceText]] = []

    def __enter__(self) -> TaskJudge:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def baseline(self, *, task: Task = UNATTENDED) -> Baseline:
        """The reference in eager execution, against itself.

        Raises:
            InputError: the task fails, or cannot tell right from wrong.
            As `examine`.
        """
        found = self._one("baseline", self._text, task, rounds=_ROUNDS, own_work=False)
        if found.state not in RIGHT:
            raise InputError(
                f"the task cannot be searched: {found.reason}", remedy="see docs/pytorch-tasks.md"
            )
        median, low, high = (1e9 * s for s in found.seconds["eager"])
        timing = LaunchTiming("PyTorch, eager FP32", 1, (0, 0, 0), (0, 0, 0), 0, median, low, high)
        card = card_of(self._asked.device)
        return Baseline(
            kernel="ModelNew",
            compiled=CompiledKernel(
                "", "ModelNew", "ModelNew", card.arch if card is not None else "", Resources(0)
            ),
            timing=timing,
            program=ProgramRun(0, median / 1e9, "", ""),
            conditions=Conditions(
                gpu=card.name if card is not None else self._asked.device,
                uuid=card.uuid if card is not None else "",
                driver="",
                cuda="",
            ),
            kernels=(),
        )

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = UNATTENDED,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        """One after another. Raises as `examine`."""
        verdicts = []
        for candidate in candidates:
            task.check()
            text = self._text.apply(list(candidate.edits))
            found = self._one(candidate.id, text, task, rounds=_ROUNDS)
            verdicts.append(verdict_of(candidate.id, found))
            if on_verdict is not None:
                on_verdict(verdicts[-1])
        return tuple(verdicts)

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        """In fresh processes, on other inputs, against all baselines. Raises as `examine`."""
        text = self._text.apply(list(candidate.edits))
        asked = self._asked.baselines
        found = self._one(f"{candidate.id}-again", text, task, rounds=_CONFIRMING_ROUNDS, baselines=asked)
        unknown = tuple(Unknown(name, why) for name, why in found.unknown.items())
        return Confirmation(verdict_of(candidate.id, found), unknown=unknown)

    def confirmation_seconds(self) -> float:
        """A bound on `confirm`."""
        return _CONFIRMATION_SECONDS

    def best(self) -> SourceText | None:
        """The fastest version that was right, faster than the reference or not; None for none."""
        return max(self._right, key=lambda pair: pair[0])[1] if self._right else None

    def _one(self, name: str, text: SourceText, task: Task, **changed: object) -> TorchVerdict:
        path = Path(self._folder.name) / name / "solution.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.text, "utf-8", newline="")
        asked = msgspec.structs.replace(self._asked, **{"candidate": str(path), "baselines": (), **changed})
        found = self._examine(asked, self._python, task)
        if found.state in RIGHT and asked.own_work:
            self._right.append((found.speedups["eager"][0], text))
        return found


def verdict_of(candidate: str, found: TorchVerdict) -> Verdict:
    """A module's verdict as the search reads it: the time of a call, against the fastest in full precision."""
    reason = found.reason
    if found.library and found.state in RIGHT:
        reason += f"; left to the library: {', '.join(found.library)}"
    if found.state not in RIGHT:
        return Verdict(candidate, found.state, reason)
    exact = [name for name in ("eager", "compile") if name in found.speedups]
    against = min(exact, key=lambda name: found.speedups[name][0])
    timing = Timing(
        baseline_ns=_nanoseconds(found.seconds[against]),
        candidate_ns=_nanoseconds(found.seconds["new"]),
        speedup=Interval(*found.speedups[against]),
        noise=found.noise or 0.0,
        rounds=0,
        span="call",
    )
    return Verdict(candidate, found.state, reason, timings=(timing,), error_ratio=found.error_ratio)


def _nanoseconds(seconds: tuple[float, float, float]) -> Interval:
    return Interval(*(1e9 * s for s in seconds))
