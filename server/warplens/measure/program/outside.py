# SPDX-License-Identifier: Apache-2.0
"""Judges candidates that change host code: nothing of their programs is trusted, only what is seen from outside.

The whole program is rebuilt and run behind a fence (`sandbox.py`). Its exit, output and files are compared with
the baseline's in every run, on other inputs too where there are any, and it is timed from outside: the whole
process by the clock, and the device's doings as traced in runs of their own.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import msgspec

from warplens.measure.conditions import Watch
from warplens.measure.confirm import Confirmation
from warplens.measure.costs import EXAMINE, TIME
from warplens.measure.program.device_work import Tracer
from warplens.measure.program.examine import Rejected, examine
from warplens.measure.program.program_sandbox import forget
from warplens.measure.program.reference import Reference, learn
from warplens.measure.program.rounds import Rounds, gain_of, time_rounds, timings_of
from warplens.measure.program.whole import ProgramRun
from warplens.measure.session import Session
from warplens.measure.timing import overall
from warplens.measure.verdict import Candidate, Outside, State, Timing, Verdict
from warplens_tools.errors import InputError, MissingToolError, TimeLimitError, ToolFailedError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText


class OutsideJudge:
    """Judges host edits of one workload; learns what the baseline does when the first is judged."""

    def __init__(
        self,
        session: Session,
        folder: Path,
        text: SourceText,
        plain: ProgramRun,
        tracer: Tracer,
        *,
        read: tuple[str, ...] = (),
    ) -> None:
        """`plain`: the program as it runs unfenced. `folder` is this judge's alone. `read`: see `learn`."""
        self._session, self._folder, self._text, self._plain = session, folder, text, plain
        self._tracer, self._read = tracer, read
        #: Or why there is none.
        self._reference: Reference | str | None = None

    @property
    def unknown(self) -> tuple[Unknown, ...]:
        """What programs and their builds are not held to here, once one was judged."""
        return self._reference.unknown if isinstance(self._reference, Reference) else ()

    def judge(self, candidate: Candidate, watch: Watch | None = None, task: Task = UNATTENDED) -> Verdict:
        """Build, run, compare, time. What is wrong with the candidate is its verdict.

        Raises:
            CancelledError: as named.
        """
        return self._judged(candidate, watch, task)[0]

    def confirm(
        self, candidate: Candidate, watch: Watch | None = None, task: Task = UNATTENDED
    ) -> Confirmation:
        """Rebuild it, compare and time it once more: no sample of this chose it. Raises as `judge`."""
        verdict, rounds = self._judged(candidate, watch, task)
        if verdict.state != "faster" or rounds is None:
            return Confirmation(verdict, unknown=self.unknown)
        reason = f"{verdict.reason}; rebuilt and measured again"
        return Confirmation(msgspec.structs.replace(verdict, reason=reason), gain_of(rounds), self.unknown)

    def _judged(self, candidate: Candidate, watch: Watch | None, task: Task) -> tuple[Verdict, Rounds | None]:
        started = examined = time.monotonic()
        rounds: Rounds | None = None
        timings: tuple[Timing, ...] = ()
        state: State
        name = hashlib.sha256(candidate.id.encode()).hexdigest()[:16]
        try:
            reference = self._learned(task)
            text = self._text.apply(list(candidate.edits)).text
            examine(reference, name, text, self._tracer, task)
            examined = time.monotonic()
            rounds = time_rounds(reference, name, self._tracer, self._session.settings, task)
            timings = timings_of(rounds, self._session.settings)
            state, reason = overall(timings, self._session.settings)
        except Rejected as odd:
            state, reason = odd.state, odd.reason
        finally:
            if isinstance(self._reference, Reference):
                forget(self._reference.sandbox, name)
        ended = time.monotonic()
        return Verdict(
            candidate.id,
            state,
            f"judged from outside the program: {reason}",
            timings=timings,
            conditions=watch.now() if watch is not None else None,
            outside=self._reference.outside if isinstance(self._reference, Reference) else Outside(),
            cost={
                EXAMINE: (examined if rounds else ended) - started,
                TIME: ended - examined if rounds else 0.0,
            },
        ), rounds

    def _learned(self, task: Task) -> Reference:
        if self._reference is None:
            try:
                self._reference = learn(
                    self._session,
                    self._folder,
                    self._text.text,
                    self._plain,
                    self._tracer,
                    read=self._read,
                    task=task,
                )
            except (InputError, ToolFailedError, MissingToolError, TimeLimitError) as error:
                self._reference = f"{error}{f' ({error.remedy})' if error.remedy else ''}"
        if isinstance(self._reference, str):
            raise Rejected("unproven", self._reference)
        return self._reference
