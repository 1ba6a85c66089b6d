# SPDX-License-Identifier: Apache-2.0
"""A program's timeline from CUPTI activity records, through the probe: for where Nsight Systems is not.

The program runs once with the probe inside, which writes what every device and every CUDA call of the host
did. As with Nsight Systems the timeline is that of the device that worked longest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from warplens_tools.collect.timeline import DIRECTIONS, Activity, HostCall, build_timeline
from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.evidence import TimelineEvidence
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.probe.job import Job
from warplens_tools.run.probe.records import Failed, Record, TracedActivity, TracedCall, TraceEnd
from warplens_tools.run.probe.visit import Command, run_with_probe
from warplens_tools.toolchain.demangle import demangle

#: CUpti_ActivityMemoryKind of host memory.
_HOST_MEMORY = {1: "pageable", 2: "pinned", 5: "managed", 7: "managed"}


def trace_timeline(
    command: Command,
    library: Path,
    *,
    workdir: Path,
    gpu_name: str,
    time_limit: float = 120.0,
    task: Task = UNATTENDED,
) -> TimelineEvidence:
    """Run `command` with the probe (`probe_library`) and read what it wrote. `time_limit` in seconds.

    Raises:
        InputError: CUPTI refused, or the program used no GPU, or ended without telling.
        TimeLimitError, MissingToolError, CancelledError: as named.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    job = Job(mode="trace", result=str(workdir / "trace.jsonl"), parent=os.getpid())
    run = run_with_probe(command, job, library, timeout=time_limit, task=task)
    if run.completed is None:
        raise TimeLimitError(
            f"the program did not end within {time_limit:g} s while it was traced",
            remedy="give it less work by its arguments, or raise its time limit",
        )
    return read_trace(run.records, gpu_name=gpu_name)


def read_trace(records: Sequence[Record], *, gpu_name: str) -> TimelineEvidence:
    """The timeline of the device that worked longest; `gpu_name` is that of the machine's card.

    Raises:
        InputError: the probe failed, or its records are incomplete or hold no activity.
    """
    failed = next((r for r in records if isinstance(r, Failed)), None)
    if failed is not None:
        raise InputError(f"the program cannot be traced: {failed.reason}")
    end = next((r for r in records if isinstance(r, TraceEnd)), None)
    if end is None:
        raise InputError("the program ended before its trace was complete", remedy="let it end by returning")
    activities = _of_busiest([r for r in records if isinstance(r, TracedActivity) and r.start <= r.end])
    calls, inner = _outermost([r for r in records if isinstance(r, TracedCall)])
    cut = " (cut)" if end.dropped else ""
    timeline = build_timeline(
        [_activity(a, inner.get(a.correlation, a.correlation)) for a in activities],
        [HostCall(c.start, c.end, c.name, c.correlation) for c in calls],
        origin=f"CUPTI activity {end.cupti}{cut}",
        gpu_name=gpu_name,
    )
    if timeline is None:
        raise InputError("the program used no GPU while it was traced")
    return timeline


def _of_busiest(activities: Sequence[TracedActivity]) -> list[TracedActivity]:
    """Those of one device."""
    busy: dict[int, int] = {}
    for a in activities:
        busy[a.device] = busy.get(a.device, 0) + a.end - a.start
    device = max(busy, key=lambda d: busy[d], default=0)
    return [a for a in activities if a.device == device]


def _outermost(calls: Sequence[TracedCall]) -> tuple[list[TracedCall], dict[int, int]]:
    """Calls that no other call of their thread made, and by whose correlation theirs is meant."""
    outer: list[TracedCall] = []
    open_call: dict[int, TracedCall] = {}
    inner: dict[int, int] = {}
    for call in sorted(calls, key=lambda c: (c.start, -c.end)):
        around = open_call.get(call.thread)
        if around is not None and call.end <= around.end:
            inner[call.correlation] = around.correlation
        else:
            open_call[call.thread] = call
            outer.append(call)
    return outer, inner


def _activity(a: TracedActivity, correlation: int) -> Activity:
    direction = DIRECTIONS.get(a.copy, "unknown") if a.kind == "transfer" else ""
    host_side = a.target if direction.endswith("to host") else a.source
    names = {"kernel": demangle(a.name) if a.name else "kernel", "transfer": f"copy {direction}"}
    return Activity(
        start=a.start,
        end=a.end,
        kind=a.kind,
        name=names.get(a.kind, a.kind),
        correlation=correlation,
        grid=a.grid,
        block=a.block,
        registers=a.registers,
        bytes=a.bytes,
        direction=direction,
        host_memory=_HOST_MEMORY.get(host_side, "") if "host" in direction else "",
    )
