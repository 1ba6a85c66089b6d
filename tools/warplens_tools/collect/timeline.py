# SPDX-License-Identifier: Apache-2.0
"""Turns device activities and host calls into a timeline: totals, gaps and what caused them.

Activities come from Nsight Systems (`collect.nsys`) or from CUPTI activity records; this module knows
neither tool.
"""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from warplens_tools.evidence import CallTotal, Gap, KernelTotal, TimelineEvidence, TransferTotal

#: A copy of this size or less is "small": at PCIe 4.0 x16's 25 GB/s its bytes take under 3 us, less than
#: the call that starts it costs.
SMALL_BYTES = 64 * 1024
#: Idle stretches kept in the evidence, longest first.
KEPT_GAPS = 20
#: CUpti_ActivityMemcpyKind, which Nsight Systems exports as it is.
DIRECTIONS = {
    1: "host to device", 2: "device to host", 3: "host to array", 4: "array to host", 5: "array to array",
    6: "array to device", 7: "device to array", 8: "device to device", 9: "host to host", 10: "peer to peer",
    11: "unified host to device", 12: "unified device to host", 13: "unified device to device",
}  # fmt: skip

Kind = Literal["kernel", "transfer", "memset"]
Cause = Literal["launch", "synchronisation", "host", "unknown"]


class Activity(msgspec.Struct, frozen=True):
    """Something the device did, in nanoseconds on the tool's clock."""

    start: float
    end: float
    kind: Kind
    name: str
    #: Joins it to the host call that caused it; None where that was not recorded.
    correlation: int | None = None
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    registers: int | None = None
    bytes: int = 0
    direction: str = ""
    host_memory: str = ""


class HostCall(msgspec.Struct, frozen=True):
    """One call of the CUDA runtime or driver API."""

    start: float
    end: float
    name: str
    correlation: int | None = None


def build_timeline(
    activities: Iterable[Activity], calls: Iterable[HostCall], *, origin: str, gpu_name: str = ""
) -> TimelineEvidence | None:
    """The timeline of one device; None where the device did nothing."""
    ordered = sorted((a for a in activities if a.end >= a.start), key=lambda a: (a.start, a.end))
    if not ordered:
        return None
    host = sorted(calls, key=lambda c: c.start)
    gaps = _gaps(ordered, host)
    idle: dict[str, float] = {}
    for gap in gaps:
        idle[gap.cause] = idle.get(gap.cause, 0.0) + gap.length_ns
    span = max(a.end for a in ordered) - ordered[0].start
    return TimelineEvidence(
        origin=origin,
        gpu_name=gpu_name,
        span_ns=span,
        busy_ns=span - sum(gap.length_ns for gap in gaps),
        kernels=_kernels(ordered),
        transfers=_transfers(ordered),
        synchronisations=_calls(host, is_synchronising),
        launches=_merged("kernel launches", [c for c in host if is_launch(c.name)]),
        idle_ns=idle,
        gaps=tuple(sorted(gaps, key=lambda gap: -gap.length_ns)[:KEPT_GAPS]),
    )


def is_launch(name: str) -> bool:
    """Whether an API call starts a kernel or a graph, e.g. "cudaLaunchKernel_v7000"."""
    return name.startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch"))


def is_synchronising(name: str) -> bool:
    """Whether an API call makes the host wait for the device."""
    if "Async" in name:
        return False
    return "Synchronize" in name or name.startswith(("cudaMemcpy", "cuMemcpy"))


def _kernels(ordered: Sequence[Activity]) -> tuple[KernelTotal, ...]:
    grouped: dict[str, list[Activity]] = {}
    for activity in ordered:
        if activity.kind == "kernel":
            grouped.setdefault(activity.name, []).append(activity)
    totals = [_kernel_total(name, group) for name, group in grouped.items()]
    return tuple(sorted(totals, key=lambda k: (-k.total_ns, k.name)))


def _kernel_total(name: str, group: Sequence[Activity]) -> KernelTotal:
    shapes: dict[tuple[tuple[int, int, int], tuple[int, int, int]], float] = {}
    for a in group:
        shapes[a.grid, a.block] = shapes.get((a.grid, a.block), 0.0) + a.end - a.start
    grid, block = max(shapes, key=lambda shape: shapes[shape])
    times = [a.end - a.start for a in group]
    return KernelTotal(
        name, len(group), sum(times), statistics.median(times), grid, block, group[0].registers
    )


def _transfers(ordered: Sequence[Activity]) -> tuple[TransferTotal, ...]:
    grouped: dict[tuple[str, str], list[Activity]] = {}
    for activity in ordered:
        if activity.kind == "transfer":
            grouped.setdefault((activity.direction, activity.host_memory), []).append(activity)
    alone = _alone(ordered)
    totals = []
    for (direction, memory), group in grouped.items():
        small = [a for a in group if a.bytes <= SMALL_BYTES]
        serial = [a for a in group if id(a) in alone]
        totals.append(
            TransferTotal(
                direction=direction,
                host_memory=memory,
                count=len(group),
                bytes=sum(a.bytes for a in group),
                total_ns=_time(group),
                small_count=len(small),
                small_ns=_time(small),
                serial_count=len(serial),
                serial_ns=_time(serial),
            )
        )
    return tuple(sorted(totals, key=lambda t: -t.total_ns))


def _time(group: Iterable[Activity]) -> float:
    return sum(a.end - a.start for a in group)


def _alone(ordered: Sequence[Activity]) -> set[int]:
    """Identities of the activities during which nothing else ran."""
    alone: set[int] = set()
    latest = float("-inf")
    for index, activity in enumerate(ordered):
        following = ordered[index + 1].start if index + 1 < len(ordered) else float("inf")
        if latest <= activity.start and following >= activity.end:
            alone.add(id(activity))
        latest = max(latest, activity.end)
    return alone


def _calls(host: Sequence[HostCall], wanted: Callable[[str], bool]) -> tuple[CallTotal, ...]:
    grouped: dict[str, list[HostCall]] = {}
    for call in host:
        if wanted(call.name):
            grouped.setdefault(call.name.split("_v")[0], []).append(call)
    totals = (_merged(name, group) for name, group in grouped.items())
    return tuple(sorted((t for t in totals if t), key=lambda t: -t.total_ns))


def _merged(name: str, calls: Sequence[HostCall]) -> CallTotal | None:
    return CallTotal(name, len(calls), sum(c.end - c.start for c in calls)) if calls else None


def _gaps(ordered: Sequence[Activity], host: Sequence[HostCall]) -> list[Gap]:
    by_correlation = {c.correlation: c for c in host if c.correlation is not None}
    waits = sorted(c.end for c in host if is_synchronising(c.name))
    gaps: list[Gap] = []
    last = ordered[0]
    for activity in ordered[1:]:
        if activity.start > last.end:
            call = None if activity.correlation is None else by_correlation.get(activity.correlation)
            cause = _cause(last.end, call, waits)
            gaps.append(Gap(last.end, activity.start - last.end, last.name, activity.name, cause))
        if activity.end > last.end:
            last = activity
    return gaps


def _cause(idle_from: float, call: HostCall | None, waits: Sequence[float]) -> Cause:
    """Why the device had nothing to do from `idle_from` until `call` gave it something."""
    if call is None:
        return "unknown"
    if call.start <= idle_from:
        return "launch"
    # The host came out of a wait after the device had finished, and only then went on to the next call.
    at = bisect.bisect_left(waits, idle_from)
    return "synchronisation" if at < len(waits) and waits[at] <= call.start else "host"
