# SPDX-License-Identifier: Apache-2.0
"""Many lanes as one judge: candidates go to whichever lane is free, verdicts come as they are known.

A lane's judge measures the baseline on its own card and each candidate beside it there, so the two always meet on one
card. A lane that is lost gives back what it had not answered; the others go on.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

import msgspec

from warplens.measure.confirm import Confirmation
from warplens.measure.pool.lane import Lane
from warplens.measure.pool.messages import LostError, failure, raised
from warplens.measure.pool.pace import FIRST, Pace
from warplens.measure.session import Baseline
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.errors import CancelledError, ToolFailedError, WarplensError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import UNATTENDED, Task

#: Candidates a lane takes at a time at most: as many as one judge gets, since a visit costs about a second whatever it
#: holds. Where each takes long, fewer (`pace.py`).
CHUNK = 8
#: Lanes for which one chunk is asked ahead: those of one card are asked for with all verdicts that there are.
_LANES_AHEAD = 4
#: Seconds between looks at whether the work is to stop.
_POLL = 0.2

#: Gives further candidates. It is told whether a card has nothing to do without them: where that is not so, it may hold
#: some back until a verdict comes.
More = Callable[[bool], Sequence[Candidate]]
#: Gives so many candidates that are likely judged first.
First = Callable[[int], Sequence[Candidate]]


class _Free(msgspec.Struct, frozen=True):
    """A lane ended what it did: whole, or with an error that leaves `open`."""

    lane: int
    open: tuple[Candidate, ...] = ()
    error: WarplensError | None = None


class Pool:
    """A judge made of lanes. Not for use from several threads at once."""

    def __init__(
        self, lanes: Sequence[Lane], close: Callable[[], None] = lambda: None, *, chunk: int = CHUNK
    ) -> None:
        """`chunk`: candidates that a lane takes at a time at most."""
        self._lanes, self._close, self._chunk = list(lanes), close, chunk
        self._by: dict[str, int] = {}
        #: Lanes that open their judge meanwhile, by what opens it.
        self._warming: dict[int, threading.Thread] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def baseline(self, *, task: Task = UNATTENDED, first: First = lambda _: ()) -> Baseline:
        """The baseline on the first card; the others measure theirs at the same time, each for itself. `first` gives,
        in this thread, so many candidates that are likely judged first: the lanes build them meanwhile.

        Raises:
            As `Judge.baseline`, where no card could; ToolFailedError where all workers ended.
        """
        firsts = list(
            {lane.card: n for n, lane in reversed(list(enumerate(self._lanes))) if not lane.lost}.values()
        )
        found: dict[int, Baseline | WarplensError] = {}

        def measure(number: int) -> None:
            try:
                found[number] = self._lanes[number].baseline(task.part(task.say))
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                found[number] = _told_of(error)

        threads = [threading.Thread(target=measure, args=(n,), daemon=True) for n in firsts]
        for thread in threads:
            thread.start()
        self._expect(firsts, first)
        for thread in threads:
            thread.join()
        task.check()
        good = [found[n] for n in sorted(firsts) if isinstance(found[n], Baseline)]
        if good and isinstance(good[0], Baseline):
            unusable = {self._lanes[n].card for n in firsts if not isinstance(found[n], Baseline)}
            self._lanes = [lane for lane in self._lanes if lane.card not in unusable]
            self._warm()
            return good[0]
        error = next((found[n] for n in sorted(firsts)), None)
        if isinstance(error, WarplensError) and not isinstance(error, LostError):
            raise error
        raise ToolFailedError("every worker of the pool ended before a baseline was measured")

    def _expect(self, firsts: Sequence[int], first: First) -> None:
        """Tell lanes, each of another card, what they are given first; they are served in their order."""
        size = min(FIRST, self._chunk)
        # what is wrong with it is said when it is asked for
        with contextlib.suppress(WarplensError):
            candidates = first(size * len(firsts))
            for place, number in enumerate(sorted(firsts)):
                if chunk := candidates[place * size : (place + 1) * size]:
                    self._lanes[number].expect(chunk)

    def _warm(self) -> None:
        """Let the other lanes of each card take what its first one has found, while the first candidates are made."""
        for number, lane in enumerate(self._lanes):
            if number not in self._warming and any(o.card == lane.card for o in self._lanes[:number]):
                self._warming[number] = threading.Thread(target=_opened, args=(lane,), daemon=True)
                self._warming[number].start()

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = UNATTENDED,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        """One verdict per candidate, in their order; `on_verdict` gets each as soon as it is known, in this thread.

        Raises:
            ToolFailedError: all workers ended.
            As `Judge.judge`, where the workload itself fails.
        """
        verdicts: dict[str, Verdict] = {}

        def told(verdict: Verdict) -> None:
            verdicts[verdict.candidate] = verdict
            if on_verdict is not None:
                on_verdict(verdict)

        # each is to have its verdict: how much there is time for only whoever stops it decides
        self.stream(candidates, lambda _idle: (), told, task=Task(task.say, task.token))
        return tuple(verdicts[c.id] for c in candidates)

    def stream(
        self,
        candidates: Sequence[Candidate],
        more: More,
        on_verdict: Callable[[Verdict], None],
        *,
        task: Task = UNATTENDED,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> None:
        """Judge candidates and what `more` gives whenever too few wait for the lanes, until it gives nothing and all
        is judged, or what is left of the task's time would not do for another. Once it gives nothing it is asked again
        when a verdict comes, or where a card has nothing to do. `meanwhile` is called while nothing is heard, again at
        once where it says that it did something. All three are called in this thread. Raises as `judge`."""
        pace = Pace(self._chunk)
        _Stream(
            self._lanes, self._warming, self._by, pace, candidates, more, on_verdict, task, meanwhile
        ).run()

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        """Measure a winner again, on the card that judged it while that is there.

        Raises:
            ToolFailedError: all workers ended.
            As `Judge.confirm`.
        """
        order = sorted(range(len(self._lanes)), key=lambda n: n != self._by.get(candidate.id))
        for number in order:
            if number in self._warming:
                self._warming[number].join()
            if self._lanes[number].lost:
                continue
            try:
                return self._lanes[number].confirm(candidate, task)
            except LostError:
                task.check()
        raise ToolFailedError("every worker of the pool ended")

    def confirmation_seconds(self) -> float:
        """How long `confirm` may take at most; 0 before a baseline is known."""
        return max((lane.confirmation_seconds for lane in self._lanes), default=0.0)

    def confirmation_about(self) -> float:
        """How long it takes as a rule; 0 before a baseline is known."""
        return max((lane.confirmation_about for lane in self._lanes), default=0.0)

    @property
    def alive(self) -> int:
        """Lanes that are not lost."""
        return sum(not lane.lost for lane in self._lanes)


class _Given(msgspec.Struct):
    """Candidates of a busy lane: all that it was given, and those that are not told."""

    all: int
    open: int


class _Stream:
    """One call of `stream`: what waits, and which lanes are busy."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        warming: dict[int, threading.Thread],
        by: dict[str, int],
        pace: Pace,
        candidates: Sequence[Candidate],
        more: More,
        on_verdict: Callable[[Verdict], None],
        task: Task,
        meanwhile: Callable[[], bool],
    ) -> None:
        self._lanes, self._warming, self._by = lanes, warming, by
        self._waiting = deque(candidates)
        #: Were with a worker when it ended: judged again each alone, so that what ends a second one is known.
        self._suspects: deque[Candidate] = deque()
        self._suspected: set[str] = set()
        self._more, self._on_verdict, self._task = more, on_verdict, task
        self._meanwhile = meanwhile
        self._events: queue.SimpleQueue[tuple[int, Verdict] | _Free] = queue.SimpleQueue()
        self._told: set[str] = set()
        #: Lanes that were not open when work was handed out last.
        self._opening: list[int] = []
        #: What each busy lane was given: how many candidates, and how many of them are not told.
        self._busy: dict[int, _Given] = {}
        self._pace = pace
        # nothing more was to be had until a verdict comes: where no card needed it, or at all
        self._held = self._dry = False
        # lanes stop by a token of their own: the caller's may be cancelled while they still answer
        self._stop = CancelToken()

    def run(self) -> None:
        failed: WarplensError | None = None
        try:
            while self._hand_out():
                failed = failed or self._next()
                if failed is not None:
                    break
        finally:
            self._stop.cancel()
            while self._busy:
                self._next()
        self._task.check()
        if failed is not None:
            raise failed

    def _hand_out(self) -> bool:
        """Give work to every free lane; False when all is done."""
        self._task.check()
        self._opening = [n for n, opens in self._warming.items() if opens.is_alive()]
        free = [n for n in range(len(self._lanes)) if self._free(n)]
        if not free and not self._busy:
            for opens in self._warming.values():
                opens.join()
            free = [n for n in range(len(self._lanes)) if self._free(n)]
        for place, number in enumerate(sorted(free, key=self._beside)):
            beside = [b for b in self._busy if self._lanes[b].card == self._lanes[number].card]
            fitting = self._pace.fitting(self._task.left(), sum(self._busy[b].open for b in beside))
            if not fitting:
                continue
            size = min(self._pace.chunk(), fitting)
            self._ask_for(size, idle=not beside)
            chunk = self._chunk(len(free) - place, size)
            if not chunk:
                continue
            self._busy[number] = _Given(len(chunk), len(chunk))
            threading.Thread(target=self._work, args=(number, chunk), daemon=True).start()
        # with many lanes one of them is soon free again, and asking takes a while
        self._ask_for(CHUNK * (len(self._lanes) // _LANES_AHEAD))
        if (self._waiting or self._suspects) and not self._busy and not free:
            raise ToolFailedError(
                "every worker of the pool ended", remedy="what was judged is kept: go on with --resume"
            )
        return bool(self._busy)

    def _ask_for(self, count: int, *, idle: bool = False) -> None:
        """Have so many candidates waiting, as far as there are any; `idle`: a card has nothing to do without one."""
        while len(self._waiting) < count:
            needed = idle and not (self._waiting or self._suspects)
            if self._dry or (self._held and not needed):
                return
            fresh = self._more(needed)
            self._held, self._dry = not fresh, needed and not fresh
            self._waiting.extend(fresh)

    def _beside(self, number: int) -> int:
        """How many lanes of its card come before one: each card is served once before any is twice."""
        card = self._lanes[number].card
        return sum(
            lane.card == card and (n < number or n in self._busy) for n, lane in enumerate(self._lanes)
        )

    def _free(self, number: int) -> bool:
        """Whether a lane may be given work."""
        opens = number in self._warming and self._warming[number].is_alive()
        return number not in self._busy and not self._lanes[number].lost and not opens

    def _chunk(self, free: int, size: int) -> list[Candidate]:
        if self._suspects:
            one = self._suspects.popleft()
            self._suspected.add(one.id)
            return [one]
        # the last few are shared among the lanes rather than all given to one
        share = -(-len(self._waiting) // free) if self._held else size
        share = max(1, min(size, share))
        return [self._waiting.popleft() for _ in range(min(share, len(self._waiting)))]

    def _work(self, number: int, chunk: list[Candidate]) -> None:
        """In a thread of its own."""
        open_ = {c.id: c for c in chunk}

        def told(verdict: Verdict) -> None:
            open_.pop(verdict.candidate, None)
            self._events.put((number, verdict))

        error: WarplensError | None = None
        try:
            self._lanes[number].judge(chunk, told, Task(token=self._stop))
        except Exception as caught:  # noqa: BLE001 - raised where it is waited for
            error = _told_of(caught)
        self._events.put(_Free(number, tuple(open_.values()), error))

    def _next(self) -> WarplensError | None:
        """Take one event; an error of the workload itself ends all."""
        event = self._heard()
        if event is None:
            return None
        if not isinstance(event, _Free):
            lane, verdict = event
            self._tell(lane, verdict, self._busy[lane])
            return None
        given = self._busy.pop(event.lane)
        if isinstance(event.error, LostError):
            self._give_back(event, given)
            return None
        if isinstance(event.error, CancelledError):
            return None
        self._waiting.extendleft(reversed(event.open))
        return event.error

    def _heard(self) -> tuple[int, Verdict] | _Free | None:
        """The next event; until it comes, what else there is to do is done. None where a lane has opened meanwhile."""
        busy = True
        while True:
            with contextlib.suppress(queue.Empty):
                return self._events.get(timeout=0.0 if busy else _POLL)
            if self._task.token.cancelled:
                self._stop.cancel()
            elif any(not self._warming[n].is_alive() for n in self._opening):
                return None
            busy = not self._stop.cancelled and self._meanwhile()

    def _tell(self, lane: int, verdict: Verdict, given: _Given) -> None:
        if verdict.candidate in self._told:
            return
        self._told.add(verdict.candidate)
        self._held = self._dry = False
        self._pace.told(verdict, given.all)
        given.open -= 1
        self._by[verdict.candidate] = lane
        self._on_verdict(verdict)

    def _give_back(self, event: _Free, given: _Given) -> None:
        """What a lost lane had not answered goes to the others, but for what was suspected and ends a second worker."""
        for candidate in event.open:
            if candidate.id in self._suspected:
                odd = Verdict(candidate.id, "unproven", "2 workers ended while they judged it")
                self._tell(event.lane, odd, given)
            elif candidate.id not in self._told:
                self._suspects.append(candidate)


def _told_of(error: Exception) -> WarplensError:
    """What went wrong in a lane's thread, as whoever waits for it gets it."""
    return error if isinstance(error, WarplensError) else raised(failure(error))


def _opened(lane: Lane) -> None:
    # what is wrong with it is said when it is asked to judge
    with contextlib.suppress(WarplensError):
        lane.baseline(UNATTENDED)
