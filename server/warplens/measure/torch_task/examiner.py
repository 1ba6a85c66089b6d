# SPDX-License-Identifier: Apache-2.0
"""Examines a `ModelNew` against a task: a script that reads one JSON request and writes one JSON answer.

It alone holds the seeds, the inputs before the call, the expected outputs and the clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import json
import math
import os
import random
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
import memory
from aside import copying, requesting
from operations import computing
from reference import Task, defect, floating, unlike
from remote import Fence, Worker, WorkerError

#: KernelBench's own tolerance, absolute and relative.
KERNELBENCH = 1e-2
#: Inputs that the program's own distribution does not hold: scales of floating-point ones.
SCALES = {"its own": 1.0, "x 3": 3.0, "x 0.01": 0.01, "negated": -1.0}


class Slots:
    """Memory that the examiner shares with one worker: several calls' inputs and outputs."""

    def __init__(self, task: Task, count: int, backward: bool, folder: str) -> None:
        self.task, self.backward = task, backward
        place = Path(folder)
        example, outputs = task.example
        cotangents = [torch.ones_like(o) for o in outputs]
        gradients = task.gradients(example, cotangents) if backward else []
        self.memory = [
            {
                "inputs": [memory.shared(x, place) for x in example],
                "outputs": [memory.shared(o, place) for o in outputs],
                "cotangents": [memory.shared(c, place) for c in cotangents] if backward else [],
                "gradients": [memory.shared(g, place) for g in gradients],
            }
            for _ in range(count)
        ]

    def given_to(self, worker: Worker) -> None:
        """Let a worker have them."""
        worker.ask("slots", slots=memory.each(self.memory, memory.described))

    def put(self, number: int, inputs: list[Any]) -> None:
        """New inputs, and no outputs: what is not written is not a number."""
        slot = self.memory[number]
        for held, new in zip(slot["inputs"], inputs, strict=True):
            if isinstance(new, torch.Tensor):
                held.copy_(new)
        for buffer in (*slot["outputs"], *(g for g in slot["gradients"] if g is not None)):
            buffer.fill_(float("nan") if buffer.is_floating_point() else -77)
        for cotangent in slot["cotangents"]:
            cotangent.copy_(torch.rand_like(cotangent) + 0.5)
        _settle(self.task.device)

    def touched(self, number: int, inputs: list[Any]) -> bool:
        """Whether a call changed its inputs."""
        held = self.memory[number]["inputs"]
        return any(
            isinstance(b, torch.Tensor) and not torch.equal(a, b) for a, b in zip(held, inputs, strict=True)
        )


def _settle(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


class Examination:
    """One candidate against one task."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.device: str = request["device"]
        self.backward: bool = request["backward"]
        self.task = Task(request["task"], self.device, self.backward)
        #: Only as KernelBench itself compares.
        self.plain: bool = request["rule"] == "kernelbench"
        self.lowered = False
        self.kernelbench = True
        self.ratio = 0.0
        self.library: list[str] = []

    def run(self) -> dict[str, Any]:
        """The verdict."""
        with contextlib.ExitStack() as ends:

            def started(fence: Fence | None = None) -> Worker:
                worker = Worker(self.device, self.request["limit"], fence)
                ends.callback(worker.close)
                return worker

            # loading PyTorch takes seconds: side by side with this process's own work
            new, eager = started(Fence(self.request["fence"])), started()
            with self.card():
                if not self.plain and (why := defect(self.task)):
                    raise WorkerError("refused", f"the task cannot tell right from wrong: {why}")
            self.load(new, self.request["candidate"], "ModelNew")
            with self.card():
                slots = Slots(self.task, 2, self.backward, self.own)
                slots.given_to(new)
                self.right(new, slots)
            others = {"eager": eager} | {name: started() for name in self.request["baselines"]}
            self.load(eager, self.task.path, "Model")
            if self.request["own_work"] and not self.plain:
                with self.card():
                    self.own_work(new, eager)
            return self.timed(new, others)

    @property
    def own(self) -> str:
        """The folder of the candidate's process."""
        return str(self.request["fence"]["folder"])

    @contextlib.contextmanager
    def card(self) -> Iterator[None]:
        """The card, for this process and its workers alone; what this process no longer needs is given back after."""
        if not self.request["lock"]:
            yield
            return
        with open(self.request["lock"], "a") as file:  # noqa: PTH123
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
            torch.cuda.empty_cache()

    def load(self, worker: Worker, path: str, name: str, mode: str = "eager") -> None:
        """Let a worker make a module. Raises WorkerError."""
        data = io.BytesIO()
        state = {k: v.detach().cpu() for k, v in self.task.model.state_dict().items()}
        torch.save({"init": self.task.init, "state": state}, data)
        fields = {"path": path, "name": name, "mode": mode, "given": data.getvalue()}
        worker.ask("load", limit=self.request["build_limit"], training=self.backward, **fields)

    def right(self, new: Worker, slots: Slots) -> None:
        """Compare on the task's own distribution and on others. Raises WorkerError."""
        names = ["its own"] * 4 + ([] if self.plain else [n for n in SCALES if n != "its own"])
        random.SystemRandom().shuffle(names)
        for name in names:
            inputs = self.task.inputs(SCALES[name])
            if all(torch.isfinite(o).all() for o in self.task.outputs(inputs) if floating(o)):
                self.compared(new, slots, 0, inputs, f"on inputs {name}")

    def compared(self, new: Worker, slots: Slots, number: int, inputs: list[Any], where: str) -> None:
        """One call. Raises WorkerError."""
        slots.put(number, inputs)
        new.ask("run", slots=[number], backward=self.backward)
        self.judged(slots, number, inputs, where)

    def judged(self, slots: Slots, number: int, inputs: list[Any], where: str) -> None:
        """What a call has left in a slot. Raises WorkerError."""
        # the worker may go on writing: what is looked at is a copy of now
        slot = slots.memory[number]
        held = [o.clone() for o in slot["outputs"]]
        grads = [None if g is None else g.clone() for g in slot["gradients"]]
        if not self.plain and slots.touched(number, inputs):
            raise WorkerError("wrong", f"{where}: it changes its inputs, which the reference does not")
        own, truth = self.task.outputs(inputs), self.task.outputs(inputs, double=True)
        self.all_alike(held, truth, own, where)
        if self.backward:
            self.gradients(grads, inputs, [c.clone() for c in slot["cotangents"]], f"{where}, gradients")

    def gradients(self, grads: list[Any], inputs: list[Any], along: list[Any], where: str) -> None:
        """Compare all gradients of one call; where the reference's jump, by how far. Raises WorkerError."""
        fine = self.task.gradients(inputs, along, double=True)
        plain = self.task.gradients(inputs, along)
        there = [n for n, grad in enumerate(grads) if grad is not None]

        def compare(jumps: list[Any] | None) -> None:
            held, truth, own = ([of[n] for n in there] for of in (grads, fine, plain))
            self.all_alike(held, truth, own, where, [jumps[n] for n in there] if jumps else None)

        try:
            compare(None)
        except WorkerError:
            if self.plain:
                raise
            compare(self.task.jumps(inputs, along))

    def all_alike(
        self, held: list[Any], truth: list[Any], own: list[Any], where: str, jumps: list[Any] | None = None
    ) -> None:
        """Compare all arrays of one call. Raises WorkerError."""
        for is_, exact, plain, jump in zip(held, truth, own, jumps or [None] * len(held), strict=True):
            said, ratio, lowered = unlike(is_, exact, plain, jump)
            close = torch.allclose(is_.double(), plain.double(), KERNELBENCH, KERNELBENCH, equal_nan=False)
            self.kernelbench = self.kernelbench and (close or not where.startswith("on inputs its own"))
            if self.plain:
                if not close:
                    raise WorkerError("wrong", f"{where}: {said or 'beyond 1e-2'}")
            elif said and lowered and self.request["lower_precision"]:
                self.lowered = True
            elif said:
                hint = (
                    " (as precise as a lower precision; let that win by --lower-precision)" if lowered else ""
                )
                raise WorkerError("wrong", f"{where}: {said}{hint}")
            else:
                self.ratio = max(self.ratio, ratio)

    def own_work(self, new: Worker, eager: Worker) -> None:
        """Whether the module computes by itself. Raises WorkerError."""
        theirs = Slots(self.task, 1, self.backward, self.request["folder"])
        theirs.given_to(eager)
        asked = {"slot": 0, "backward": self.backward}
        reference, own = (worker.ask("trace", **asked) for worker in (eager, new))
        self.library = sorted(computing(own, "operations") | computing(own, "gradients"))
        for part, what in (("operations", "work"), ("gradients", "work on gradients")):
            operations = computing(reference, part)
            if operations and operations <= computing(own, part):
                said = ", ".join(sorted(operations))
                raise WorkerError("refused", f"the library still does all of the {what}: {said}")

    def timed(self, new: Worker, others: dict[str, Worker]) -> dict[str, Any]:
        """Time against the baselines, comparing what the timed calls gave."""
        failed: dict[str, WorkerError] = {}

        def prepare(name: str, worker: Worker) -> None:
            try:
                if name != "eager":
                    self.load(worker, self.task.path, "Model", name)
                first = Slots(self.task, 1, self.backward, self.request["folder"])
                first.given_to(worker)
                worker.ask("run", slots=[0], backward=self.backward, limit=self.request["build_limit"])
            except WorkerError as error:
                failed[name] = error

        # torch.compile takes longest: side by side, and without the card but for one call each
        with ThreadPoolExecutor(len(others)) as pool:
            for name, worker in others.items():
                pool.submit(prepare, name, worker)
        if "eager" in failed:
            raise failed["eager"]
        workers = {"new": new} | {name: w for name, w in others.items() if name not in failed}
        # memory for many calls is taken only by whoever has the card, and goes with this process
        with self.card():
            slots = self.rooms(workers)
            times = self.rounds(workers, slots)
        return self.verdict(times, {name: error.reason for name, error in failed.items()})

    def rooms(self, workers: dict[str, Worker]) -> dict[str, Slots]:
        """Each contestant's memory: each call of a round has inputs of its own.

        On a card they share half of what is free, 256 calls or 32 GB each at most: at 4 TB/s a request then lasts
        milliseconds. Elsewhere each has half a gigabyte.
        """
        one = Slots(self.task, 1, self.backward, self.own).memory[0]
        held = [t for part in one.values() for t in part if isinstance(t, torch.Tensor)]
        size = sum(t.numel() * t.element_size() for t in held)
        most, count = 512 << 20, 64
        if self.device.startswith("cuda"):
            most, count = min(32 << 30, torch.cuda.mem_get_info()[0] // (2 * len(workers))), 256
        count = max(2, min(count, most // max(1, size)))
        slots = {}
        for name, worker in workers.items():
            folder = self.own if name == "new" else self.request["folder"]
            slots[name] = Slots(self.task, count, self.backward, folder)
            slots[name].given_to(worker)
        return slots

    def rounds(self, workers: dict[str, Worker], slots: dict[str, Slots]) -> dict[str, list[float]]:
        """Seconds a call by contestant; "eager" twice a round, around the others. The first round warms up."""
        base = [self.task.inputs() for _ in range(2)]
        draw = random.SystemRandom()
        times: dict[str, list[float]] = {name: [] for name in (*workers, "eager again")}
        copies, requests = [], []
        count = len(slots["eager"].memory)
        for turn in range(self.request["rounds"]):
            order = draw.sample([n for n in workers if n != "eager"], len(workers) - 1)
            for name in ("eager", *order, "eager again"):
                worker = workers.get(name, workers["eager"])
                seconds = self.measured(
                    worker,
                    slots.get(name, slots["eager"]),
                    base,
                    draw,
                    compare=name == "new" and not self.plain,
                )
                if turn:
                    times[name].append(seconds)
            if turn:
                eager = workers["eager"]
                copies.append(copying(eager, count))
                requests.append(
                    requesting(eager, count, lambda: slots["eager"].put(0, base[0]), backward=self.backward)
                )
        aside = statistics.median(copies) + statistics.median(requests) if copies else 0.0
        return {name: [max(s - aside, 0.05 * s) / count for s in taken] for name, taken in times.items()}

    def measured(
        self, worker: Worker, slots: Slots, base: list[list[Any]], draw: random.SystemRandom, *, compare: bool
    ) -> float:
        """Seconds of one request for calls on as many new inputs as there is room for."""
        count = len(slots.memory)
        given = []
        for number in range(count):
            inputs = [self.task.placed(x, draw.uniform(0.5, 2.0)) for x in draw.choice(base)]
            slots.put(number, inputs)
            given.append(inputs)
        order = draw.sample(range(count), count)
        seconds = float(worker.timed("run", slots=order, backward=self.backward)[1])
        if compare:
            for number in order[:2]:
                self.judged(slots, number, given[number], "while it was timed")
        return seconds

    def verdict(self, times: dict[str, list[float]], unknown: dict[str, str]) -> dict[str, Any]:
        """States, speedups with their intervals, and what was noise."""
        pairs = list(zip(times["eager"], times["eager again"], strict=True))
        noise = statistics.median(abs(a / b - 1.0) for a, b in pairs)
        ratios = {
            name: _interval([b / n for b, n in zip(taken, times["new"], strict=True)])
            for name, taken in times.items()
            if name not in ("new", "eager again")
        }
        bar = 1.0 + max(noise, 0.01)
        exact = [name for name in ratios if name in ("eager", "compile")]
        slowest = min(ratios[name][1] for name in exact)
        fastest = max(ratios[name][2] for name in exact)
        state = "faster" if slowest > bar else "slower" if fastest < 2.0 - bar else "same"
        if state == "same" and min(ratios[n][0] for n in exact) < 2.0 - bar:
            state = "slower"
        return {
            "state": state,
            "reason": f"against {' and '.join(exact)} in full precision",
            "seconds": {name: _interval(taken) for name, taken in times.items() if name != "eager again"},
            "speedups": ratios,
            "noise": noise,
            "unknown": unknown,
        }


def _interval(values: list[float]) -> list[float]:
    """Median, and the innermost two of the sorted values between which it lies in 95 of 100 cases, by the binomial
    distribution: the second least and greatest of nine. Of fewer than six values the least and the greatest, of which
    five hold it in 94."""
    ordered = sorted(values)
    count = len(ordered)
    cut, outside = 0, 2 / 2**count
    while outside + 2 * math.comb(count, cut + 1) / 2**count <= 0.05:
        cut += 1
        outside += 2 * math.comb(count, cut) / 2**count
    return [statistics.median(ordered), ordered[cut], ordered[-1 - cut]]


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # PR_SET_DUMPABLE: another process of this user cannot read this one's memory
    with contextlib.suppress(OSError):
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    request = json.load(sys.stdin)
    if request.get("threads"):
        torch.set_num_threads(request["threads"])
    found: dict[str, Any] = {}
    examination = None
    try:
        examination = Examination(request)
        found = examination.run()
    except WorkerError as error:
        found = {"state": error.state, "reason": error.reason}
    except Exception as error:  # noqa: BLE001 - the task's own failure is said in one sentence
        found = {"state": "refused", "reason": f"the task itself fails: {type(error).__name__}: {error}"}
    if examination is not None:
        found["kernelbench"] = examination.kernelbench and found["state"] not in ("crashed", "hung")
        found |= {
            "lowered": examination.lowered,
            "library": examination.library,
            "error_ratio": examination.ratio,
        }
    answers.write(json.dumps(found) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
