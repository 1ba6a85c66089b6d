# SPDX-License-Identifier: Apache-2.0
"""Lanes on a Ray cluster: every call is a task that takes one GPU. Needs the extra `cluster`."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from warplens.measure.confirm import Confirmation
from warplens.measure.measures import Measures
from warplens.measure.pool.messages import (
    Answer,
    Baselined,
    Confirmed,
    Confirming,
    Done,
    Failed,
    Judging,
    LostError,
    Request,
    Setup,
    Told,
    done,
    failure,
    opened,
    raised,
)
from warplens.measure.pool.pool import Pool
from warplens.measure.session import Baseline
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.process.task import Task

#: Judges that this process, a Ray worker, keeps between tasks: opening one takes a baseline. By setup and card.
_OPEN: dict[tuple[str, str], tuple[contextlib.ExitStack, Measures]] = {}


def answers(setup: bytes, request: bytes) -> Iterator[bytes]:
    """What a task does: answers one request, in the process that Ray chose, on the GPU that it gave."""
    try:
        judge = _judge(setup)
        for answer in _answers(judge, from_json(request, Request)):
            yield msgspec.json.encode(answer)
    except Exception as error:  # noqa: BLE001 - it travels to whoever asked
        yield msgspec.json.encode(failure(error))


def _judge(setup: bytes) -> Measures:
    key = (setup.decode(), os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    if key not in _OPEN:
        stack = contextlib.ExitStack()
        judge = stack.enter_context(opened(from_json(setup, Setup)))
        _OPEN[key] = (stack, judge)
    return _OPEN[key][1]


def _answers(judge: Measures, request: Request) -> Iterator[Answer]:
    if isinstance(request, Baselined):
        yield Baselined(judge.baseline())
    elif isinstance(request, Judging):
        for verdict in _as_known(judge, request.candidates):
            yield Told(verdict)
    elif isinstance(request, Confirming):
        yield Confirmed(judge.confirm(request.candidate))
    yield done(judge)


def _as_known(judge: Measures, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
    """Each verdict as soon as it is known; the judge goes on once it was taken, so none is lost with a worker."""
    known: queue.SimpleQueue[Verdict | BaseException | None] = queue.SimpleQueue()
    taken = threading.Semaphore(0)
    told: set[str] = set()

    def tell(verdict: Verdict) -> None:
        if verdict.candidate not in told:
            told.add(verdict.candidate)
            known.put(verdict)
            taken.acquire()

    def work() -> None:
        try:
            for verdict in judge.judge(candidates, on_verdict=tell):
                tell(verdict)
            known.put(None)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            known.put(error)

    threading.Thread(target=work, daemon=True).start()
    while (verdict := known.get()) is not None:
        if isinstance(verdict, BaseException):
            raise verdict
        yield verdict
        taken.release()


class RayLane:
    """One GPU of the cluster, whichever is free."""

    def __init__(self, ray: Any, setup: Setup, number: int) -> None:
        self._ray, self._setup = ray, msgspec.json.encode(setup)
        # a lost task is given back by the pool, which knows what it had answered; a worker that has had a GPU is kept
        # with the judge that it has opened, where Ray would begin a new one for every task
        self._task = ray.remote(num_gpus=1, max_retries=0, max_calls=0)(answers).options(
            num_returns="streaming",
            # an answer is taken before the worker goes on to the next
            _generator_backpressure_num_objects=1,
        )
        self.card = f"ray {number}"
        self.confirmation_seconds = self.confirmation_about = 0.0

    @property
    def lost(self) -> bool:
        """Never for good: the next task finds another worker."""
        return False

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """Nothing is built beforehand: which worker will judge them is not known."""

    def baseline(self, task: Task) -> Baseline:
        """Measure the baseline.

        Raises:
            LostError: the worker, or its machine, ended.
            As `Judge.baseline`.
        """
        found = [a.baseline for a in self._ask(Baselined(), task) if isinstance(a, Baselined)]
        if not found or found[0] is None:
            raise LostError("the worker gave no baseline")
        return found[0]

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        """Judge candidates. Raises as `baseline`."""
        for answer in self._ask(Judging(tuple(candidates)), task):
            if isinstance(answer, Told):
                told(answer.verdict)

    def confirm(self, candidate: Candidate, task: Task) -> Confirmation:
        """Measure a winner again. Raises as `baseline`."""
        for answer in self._ask(Confirming(candidate), task):
            if isinstance(answer, Confirmed):
                return answer.confirmation
        raise LostError("the worker gave no confirmation")

    def _ask(self, request: Request, task: Task) -> Iterator[Answer]:
        stream = self._task.remote(self._setup, msgspec.json.encode(request))
        remove = task.token.on_cancel(lambda: self._ray.cancel(stream, force=True))
        try:
            for reference in stream:
                answer: Answer = from_json(self._ray.get(reference), Answer)
                if isinstance(answer, Failed):
                    raise raised(answer)
                if isinstance(answer, Done):
                    self.confirmation_seconds = max(self.confirmation_seconds, answer.confirmation_seconds)
                    self.confirmation_about = max(self.confirmation_about, answer.confirmation_about)
                    return
                yield answer
        except self._ray.exceptions.RayError as error:
            task.check()
            raise LostError(f"a worker of the cluster ended: {str(error).splitlines()[0]}") from error
        finally:
            remove()
        task.check()
        raise LostError("a worker of the cluster ended")


_STARTING = threading.Lock()


def ray_pool(setup: Setup, address: str) -> Pool:
    """A pool of all GPUs of a Ray cluster; `address` "local" starts one on this machine for as long as it is used.

    Raises:
        MissingToolError: Ray is not installed.
        InputError: there is no cluster at the address, or it has no GPU.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingToolError(
            "Ray is not installed here", remedy="install the extra: pip install 'warplens[cluster]'"
        ) from error
    with _STARTING:
        if not ray.is_initialized():
            quiet: dict[str, Any] = {
                "log_to_driver": False,
                "include_dashboard": False,
                "logging_level": "ERROR",
            }
            try:
                if address == "local":
                    ray.init(address="local", **quiet)
                else:
                    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(f"there is no Ray cluster at {address}: {error}") from error
            close = ray.shutdown
        else:
            close = _stays
    count = int(ray.cluster_resources().get("GPU", 0))
    if count < 1:
        close()
        raise InputError(
            f"the Ray cluster at {address} has no GPU", remedy="start its workers with --num-gpus"
        )
    return Pool([RayLane(ray, setup, number) for number in range(count)], close)


def _stays() -> None:
    """A cluster that was there before stays."""
