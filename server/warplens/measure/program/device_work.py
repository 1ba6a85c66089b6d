# SPDX-License-Identifier: Apache-2.0
"""What devices did for a program: how long they were busy, and what came back to the host."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from warplens.measure.program.whole import ProgramRun
from warplens_tools.collect.timeline import DIRECTIONS
from warplens_tools.errors import TimeLimitError
from warplens_tools.process.task import Task
from warplens_tools.run.probe.job import Job
from warplens_tools.run.probe.records import Failed, Record, TracedActivity, TraceEnd
from warplens_tools.run.probe.visit import Command, run_with_probe

#: Activities that the probe keeps at most (`kMost` in trace.cpp).
_KEPT = 200_000
#: Following every activity costs a program of tiny kernels about as much as they do themselves.
_OVERHEAD = 3.0


class DeviceWork(msgspec.Struct, frozen=True):
    """The doings of all devices in one run, as CUPTI traced them from within the program's process."""

    kernels: int
    #: Time in which a device did anything, copies and fills among it; summed over devices.
    busy_ns: float
    #: Bytes that copies brought to the host.
    host_bytes: int


#: Runs a command and traces its devices; records may be written in the folder. None where nothing was told.
Tracer = Callable[[Command, Path, float, Task], tuple[ProgramRun, DeviceWork | None]]


def probe_tracer(library: Path) -> Tracer:
    """Traces by the probe, whose `library` is loaded into the program."""

    def trace(
        command: Command, folder: Path, time_limit: float, task: Task
    ) -> tuple[ProgramRun, DeviceWork | None]:
        job = Job(mode="trace", result=str(folder / "trace.jsonl"), parent=os.getpid())
        run = run_with_probe(command, job, library, timeout=_OVERHEAD * time_limit, task=task)
        done = run.completed
        if done is None:
            raise TimeLimitError(
                f"the program did not end within {_OVERHEAD * time_limit:g} s while it was traced",
                remedy="give it less work by its arguments, or raise its time limit",
            )
        return ProgramRun(done.status, done.seconds, done.stdout, done.stderr), work_of(run.records)

    return trace


def work_of(records: Sequence[Record]) -> DeviceWork | None:
    """The sum of a trace; None where it is not complete."""
    end = next((r for r in records if isinstance(r, TraceEnd)), None)
    activities = [r for r in records if isinstance(r, TracedActivity) and r.start <= r.end]
    # calls beyond what is kept are dropped as well, and are not asked for
    cut = end is not None and end.dropped and len(activities) >= _KEPT
    if end is None or cut or any(isinstance(r, Failed) for r in records):
        return None
    back = [a for a in activities if a.kind == "transfer" and DIRECTIONS.get(a.copy, "").endswith("to host")]
    return DeviceWork(
        kernels=sum(a.kind == "kernel" for a in activities),
        busy_ns=_busy_ns(activities),
        host_bytes=sum(a.bytes for a in back),
    )


def _busy_ns(activities: Sequence[TracedActivity]) -> float:
    by_device: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for a in activities:
        by_device[a.device].append((a.start, a.end))
    total = 0
    for spans in by_device.values():
        last = 0
        for start, end in sorted(spans):
            total += max(0, end - max(start, last))
            last = max(last, end)
    return float(total)


def too_little(work: DeviceWork | None, baseline: DeviceWork | None, share: float) -> str:
    """Why so little device work is not believed to give the baseline's results; "" if it may."""
    if work is None or baseline is None:
        return "what the device did could not be traced"
    if baseline.kernels and not work.kernels:
        return "it launches no kernel at all, so its results need not have been computed"
    if work.busy_ns < share * baseline.busy_ns:
        text = f"{work.busy_ns:.0f} ns against the original's {baseline.busy_ns:.0f} ns"
        return f"the device is busy for {text}, too little to have computed the same"
    if work.host_bytes < baseline.host_bytes:
        text = f"{work.host_bytes} bytes against the original's {baseline.host_bytes}"
        return f"it brings fewer results back from the device: {text}"
    return ""
