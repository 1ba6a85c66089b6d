# SPDX-License-Identifier: Apache-2.0
"""A search and its judge apart: candidates and verdicts travel as files, so that each may live on a machine of its own.

    FOLDER/
        exchange.json               what is judged: written once
        project/                    a copy of the project, which is built and run where the card is
        asks/baseline.json          what is to be measured; likewise asks/judge-c7-HASH.json, asks/confirm-c7-HASH.json
        answers/baseline.json       what was measured, under the same name

An ask is never taken back and an answer never changed: each file appears whole, under its final name, or not at all.
So either side may be killed at any point and started again, and what was measured is not measured twice.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import filelock
import msgspec

from warplens.measure.confirm import Confirmation
from warplens.measure.judge_settings import Allowed
from warplens.measure.measures import Measures
from warplens.measure.session import Baseline
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError, WarplensError
from warplens_tools.process.task import UNATTENDED, Task

T = TypeVar("T")
#: Name of the ask for the kernel as it is.
BASELINE = "baseline"
#: Reading an answer takes no time; the loop's bound on a confirmation has to be positive.
_SECONDS = 60.0


class Description(msgspec.Struct, frozen=True):
    """What is judged."""

    #: Of this exchange alone: a search's journal goes by it.
    id: str
    #: Of the file with the kernel, within the project.
    source: str
    #: The same on the machine of the search.
    path: str
    #: SHA-256 of its text.
    text_hash: str
    #: "" for the hottest.
    kernel: str = ""
    #: "" for the card's own.
    arch: str = ""
    allowed: Allowed = Allowed()
    #: The kernel's hardware counters are wanted with the baseline.
    counters: bool = False
    #: Of the search, for its own side.
    options: dict[str, Any] = {}
    version: int = 1


class Counted(msgspec.Struct, frozen=True):
    """What was counted of the kernel as it is."""

    launches: tuple[ProfiledLaunch, ...] = ()
    #: Why there are none.
    why: str = ""


class _Answered(msgspec.Struct, frozen=True):
    """One answer: a result, or why the workload itself could not be measured."""

    baseline: Baseline | None = None
    verdict: Verdict | None = None
    confirmation: Confirmation | None = None
    #: The card of a baseline, where it is known.
    card: Gpu | None = None
    #: Goes with a baseline where it was wanted.
    counted: Counted | None = None


class AwaitingError(WarplensError):
    """Nothing more can be done before the answers are there."""

    def __init__(self, waiting: Sequence[str]) -> None:
        super().__init__(f"{len(waiting)} asks wait for their answers")
        self.waiting = tuple(waiting)


class Exchange:
    """The files of one exchange."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self._asks, self._answers = folder / "asks", folder / "answers"

    @property
    def begun(self) -> bool:
        """Whether it says what is judged."""
        return (self.folder / "exchange.json").is_file()

    def begin(self, description: Description) -> None:
        """Say what is judged, after the project was laid."""
        for folder in (self._asks, self._answers):
            folder.mkdir(parents=True, exist_ok=True)
        _put(self.folder / "exchange.json", description)

    def description(self) -> Description:
        """What is judged.

        Raises:
            InputError: the folder is no exchange, or of a later version.
        """
        path = self.folder / "exchange.json"
        if not path.is_file():
            raise InputError(
                f"{self.folder} holds no candidates",
                remedy=f"begin with: warplens optimize FILE --ask {self.folder}",
            )
        found = _read(path, Description)
        if found.version != 1:
            raise InputError(
                f"{path} is of version {found.version}", remedy="use the same Warplens on both sides"
            )
        return found

    def ask(self, name: str, what: Candidate | None) -> None:
        """Ask for a measurement; once is enough."""
        path = self._asks / f"{name}.json"
        if not path.exists():
            _put(path, what)

    def waiting(self) -> list[str]:
        """Asks without an answer, in the order in which they are to be answered."""
        names = [path.stem for path in self._asks.glob("*.json") if not (self._answers / path.name).exists()]
        return sorted(names, key=lambda name: (name != BASELINE, name.startswith("confirm"), len(name), name))

    def candidate(self, name: str) -> Candidate:
        """What an ask is about."""
        return _read(self._asks / f"{name}.json", Candidate)

    def put(
        self,
        name: str,
        answer: Baseline | Verdict | Confirmation,
        card: Gpu | None = None,
        counted: Counted | None = None,
    ) -> None:
        """Answer an ask; the first answer stays. `card` goes with a baseline that was measured on it, and what was
        counted there."""
        path = self._answers / f"{name}.json"
        if path.exists():
            return
        if isinstance(answer, Baseline):
            measured_here = card is not None and card.name == answer.conditions.gpu
            _put(path, _Answered(baseline=answer, card=card if measured_here else None, counted=counted))
        elif isinstance(answer, Verdict):
            _put(path, _Answered(verdict=answer))
        else:
            _put(path, _Answered(confirmation=answer))

    def answer(self, name: str) -> _Answered | None:
        """The answer to an ask, if it is there."""
        path = self._answers / f"{name}.json"
        return _read(path, _Answered) if path.is_file() else None

    def card(self) -> Gpu | None:
        """The card that judges; None until the baseline is measured, and where its limits are not known."""
        answered = self.answer(BASELINE)
        return answered.card if answered is not None else None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Answer as the only one: two would measure the same.

        Raises:
            InputError: another process does.
        """
        lock = filelock.FileLock(self.folder / "evaluate.lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout as error:
            raise InputError(
                f"another process evaluates {self.folder}", remedy="wait for it, or end it"
            ) from error
        try:
            yield
        finally:
            lock.release()


def judged_as(candidate: Candidate) -> str:
    """The name of the ask to judge a candidate: the text is in it, so that an answer never counts for another."""
    return f"judge-{candidate.id}-{candidate.text_hash[:16]}"


def confirmed_as(candidate: Candidate) -> str:
    """The name of the ask to confirm a candidate."""
    return f"confirm-{candidate.id}-{candidate.text_hash[:16]}"


class FileJudge:
    """A judge that answers from an exchange; what is not answered there it asks, where `asks`, and raises."""

    def __init__(self, exchange: Exchange, *, asks: bool) -> None:
        self.exchange, self._writes = exchange, asks

    def baseline(self, *, task: Task = UNATTENDED) -> Baseline:
        """As it was measured.

        Raises:
            AwaitingError: it was not yet.
        """
        del task
        answer = self._answered(BASELINE, None)
        if answer is None or answer.baseline is None:
            raise AwaitingError([BASELINE])
        return answer.baseline

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = UNATTENDED,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        """The verdicts that are there; `on_verdict` gets them before the rest is said to be missing.

        Raises:
            AwaitingError: some are not there.
        """
        verdicts, missing = [], []
        for candidate in candidates:
            task.check()
            answer = self._answered(judged_as(candidate), candidate)
            if answer is None or answer.verdict is None:
                missing.append(judged_as(candidate))
                continue
            verdicts.append(answer.verdict)
            if on_verdict is not None:
                on_verdict(answer.verdict)
        if missing:
            raise AwaitingError(missing)
        return tuple(verdicts)

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        """As it was confirmed.

        Raises:
            AwaitingError: it was not yet.
        """
        del task
        answer = self._answered(confirmed_as(candidate), candidate)
        if answer is None or answer.confirmation is None:
            raise AwaitingError([confirmed_as(candidate)])
        return answer.confirmation

    def confirmation_seconds(self) -> float:
        """A bound on reading."""
        return _SECONDS

    def _answered(self, name: str, what: Candidate | None) -> _Answered | None:
        answer = self.exchange.answer(name)
        if answer is None and self._writes:
            self.exchange.ask(name, what)
        return answer


def evaluate(
    exchange: Exchange,
    judge: Measures,
    source: str,
    *,
    card: Gpu | None = None,
    count: Callable[[str], Counted | None] = lambda _: None,
    task: Task = UNATTENDED,
) -> int:
    """Answer all that waits, each answer kept as soon as it is known; how many there were.

    `source`: where the file with the kernel lies here. `card`: the one that is here. `count`: reads the counters of the
    kernel of that qualified name where they are wanted.

    Raises:
        as the judge's methods, where the workload itself fails.
    """
    answered = 0
    waiting = exchange.waiting()
    if BASELINE in waiting:
        baseline = judge.baseline(task=task)
        exchange.put(BASELINE, baseline, card, count(baseline.kernel))
        answered += 1
    names: dict[str, str] = {}
    candidates = []
    for name in waiting:
        if name.startswith("judge-"):
            candidate = msgspec.structs.replace(exchange.candidate(name), path=source)
            names[candidate.id] = name
            candidates.append(candidate)

    def keep(verdict: Verdict) -> None:
        exchange.put(names[verdict.candidate], verdict)

    if candidates:
        for verdict in judge.judge(candidates, task=task, on_verdict=keep):
            keep(verdict)
        answered += len(candidates)
    for name in waiting:
        if name.startswith("confirm-"):
            candidate = msgspec.structs.replace(exchange.candidate(name), path=source)
            exchange.put(name, judge.confirm(candidate, task=task))
            answered += 1
    return answered


def _put(path: Path, value: object) -> None:
    """Write a file whole and for good."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=1))
            file.flush()
            os.fsync(file.fileno())
        # the folder may be read by another user's process
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _read(path: Path, kind: type[T]) -> T:
    try:
        return from_json(path.read_bytes(), kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{path} cannot be read: {error}", remedy="begin anew in another folder") from error
