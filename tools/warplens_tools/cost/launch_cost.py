# SPDX-License-Identifier: Apache-2.0
"""How long one launch of a kernel lasts, where that is certain to be short, and what launching costs."""

from __future__ import annotations

import math

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.cost.geometry import Geometry, geometry
from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.facts.host_copies import idle_waits
from warplens_tools.cuda.facts.host_loops import HostCall, HostLoop, launch_loop
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.evidence import Tier
from warplens_tools.memory.traffic import dram_bytes_per_clock, global_traffic
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.view import KernelView

#: Nanoseconds from one asynchronous launch of the host to the next ("launch_period" of docs/benchmarks/calibrate.json).
LAUNCH_NS = 3_300.0
#: Nanoseconds the device idles per wait of the host: the wait's return plus the next launch's latency.
WAIT_NS = 8_000.0
#: Start and end of a kernel on the device, nanoseconds, however little it does: an H200 took 1.2 us for each node of
#: the graph of planted ring_automaton's twin.
LEAST_NS = 1_200.0
#: Nanoseconds by which Nsight Compute's duration of a short launch exceeds CUPTI's, as its caches are cold. On H200,
#: kernels of 3.6 and 5.0 us took 5.1 and 7.0 us.
PROFILED_NS = 1_500.0
#: Iterations of a loop from which its launches are worth saving.
FEWEST_ITERATIONS = 16


class Repeated(msgspec.Struct, frozen=True):
    """A launch that a host loop repeats. `duration_ns` is None where it is not known to be short."""

    loop: HostLoop
    #: Calls in the loop that make the host wait for work of the same iteration.
    waits: tuple[HostCall, ...]
    shape: Geometry | None
    duration_ns: float | None


def repeated_launch(view: KernelView) -> Repeated | None:
    """The kernel's launch in a host loop; None where no loop launches it.

    Loops that take times, record a graph, or have a constant few iterations do not count.
    """
    tree = parse_tree(view.text)
    for site in view.model.launches_of(view.kernel):
        loop = launch_loop(tree, site)
        if loop is not None and not loop.timed and not loop.captured and not _is_brief(view, loop):
            return Repeated(loop, idle_waits(tree, loop), geometry(view), duration(view))
    return None


def _is_brief(view: KernelView, loop: HostLoop) -> bool:
    bound = int(loop.bound) if loop.bound.isdigit() else None
    bound = next((c.value for c in view.model.constants if c.name == loop.bound), bound)
    return bound is not None and bound < FEWEST_ITERATIONS


def launch_bound(view: KernelView) -> str:
    """Why the kernel's launches take longer than the kernel; "" where that is not certain."""
    repeated = repeated_launch(view)
    if repeated is None or repeated.duration_ns is None:
        return ""
    cost, doing = (WAIT_NS, "waiting for it") if repeated.waits else (LAUNCH_NS, "launching it")
    # Another kernel of the loop may be long enough to hide what launching this one costs.
    if repeated.duration_ns >= cost or repeated.loop.launches > 1:
        return ""
    return (
        f"a host loop launches it for about {repeated.duration_ns / 1e3:.1f} us of work each time, and "
        f"{doing} costs {cost / 1e3:.1f} us"
    )


def duration(view: KernelView) -> float | None:
    """Nanoseconds of one launch: as measured, else an estimate where grid and loops are constant."""
    seen, counters = view.evidence.timing, view.evidence.counters
    if seen is not None:
        return seen.median_ns
    if counters is not None and (counted := names.value(counters, names.DURATION)) is not None:
        return max(counted - PROFILED_NS, LEAST_NS)
    shape, compiled = geometry(view), view.evidence.worst
    if shape is None or compiled is None or not compiled.instructions:
        return None
    flow = analyse(compiled.instructions)
    trips = _most_trips(view)
    if trips is None and any(flow.depths):
        return None
    weight = [float(trips or 1) if depth else 1.0 for depth in flow.depths]
    clocks = max(pipe_cycles(compiled.instructions, weight, view.gpu).values())
    clocks = max(clocks, global_traffic(compiled, weight, view).upper / dram_bytes_per_clock(view.gpu))
    sms = view.gpu.multiprocessors
    per_sm = math.ceil(shape.warps / min(shape.blocks, sms))
    # A lone warp still waits for each of its instructions: four clocks for arithmetic at the least.
    latency = 4.0 * sum(weight)
    return LEAST_NS + max(per_sm * clocks, latency) / view.gpu.clock_hz * 1e9


def duration_origin(view: KernelView) -> tuple[Tier, str]:
    """The tier that `duration` is of, and what gave it."""
    timing, counters = view.evidence.timing, view.evidence.counters
    if timing is not None:
        return "timing", timing.origin
    if counters is not None and names.value(counters, names.DURATION) is not None:
        return "counters", f"{counters.origin}, less {PROFILED_NS:.0f} ns for its cold start"
    return "binary", "bounded model"


def _most_trips(view: KernelView) -> int | None:
    """Iterations of the kernel's deepest nest of loops around an access; None where one is not constant."""
    most = 1
    for access in accesses(parse_tree(view.text), view.kernel):
        trips = [loop.trips for loop in access.loops]
        known = [t for t in trips if t is not None]
        if len(known) != len(trips):
            return None
        most = max(most, math.prod(known))
    return most if most > 1 else None
