# SPDX-License-Identifier: Apache-2.0
"""The launch a kernel is judged by: as measured where it was, else as the file's constants fix it."""

from __future__ import annotations

import math

import msgspec

from warplens_tools.cost.parallelism import MEMORY_LATENCY_CLOCKS, loads_in_flight
from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.evidence import CompiledKernel, Observation, Tier
from warplens_tools.launches import block_size
from warplens_tools.memory.traffic import dram_bytes_per_clock, global_traffic
from warplens_tools.sass.attribution import weights
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.view import KernelView

#: Warp schedulers of an SM (all architectures since sm_70).
SCHEDULERS = 4
#: Warps a scheduler needs to issue every clock when each waits four for its last result ("CUDA C++
#: Programming Guide", "Multiprocessor Level").
WARPS_TO_ISSUE = 4.0
#: Nanoseconds from which a measured kernel is long enough for its shape to matter more than its launch.
LONG_NS = 20_000.0
_LOOPS = "[(for_statement) (while_statement) (do_statement)] @loop"


class Geometry(msgspec.Struct, frozen=True):
    """Blocks and threads per block of one launch, and which evidence gives them."""

    blocks: int
    threads: int
    tier: Tier
    origin: str
    #: None where the launch was measured and the file does not show it.
    site: LaunchSite | None

    @property
    def warps(self) -> int:
        """Warps of the whole launch."""
        return -(-self.threads // 32) * self.blocks


def geometry(view: KernelView) -> Geometry | None:
    """The largest launch; None where neither a measurement nor constants give it for every launch site."""
    sites = view.model.launches_of(view.kernel)
    seen = view.evidence.counters or view.evidence.timing
    if seen is not None:
        tier: Tier = "counters" if view.evidence.counters is not None else "timing"
        site = sites[0] if sites else None
        return Geometry(math.prod(seen.grid), math.prod(seen.block), tier, seen.origin, site)
    found = [_of_site(site) for site in sites]
    known = [shape for shape in found if shape is not None]
    return max(known, key=lambda s: s.warps) if known and len(known) == len(found) else None


def _of_site(site: LaunchSite) -> Geometry | None:
    grid = [value for value in site.grid_value if value is not None]
    threads = block_size(site)
    if len(grid) != 3 or not threads or not math.prod(grid):
        return None
    return Geometry(math.prod(grid), threads, "source", "tree-sitter", site)


def runs_long(view: KernelView) -> bool:
    """Whether there is work whose distribution matters: a measured duration, else a loop in the kernel."""
    seen = view.evidence.timing
    if seen is not None:
        return seen.median_ns >= LONG_NS
    compiled = view.evidence.worst
    if compiled is not None and compiled.instructions:
        return any(analyse(compiled.instructions).depths)
    tree = parse_tree(view.text)
    start = view.text.offset(view.kernel.body.line, view.kernel.body.column)
    end = view.text.offset(view.kernel.body.end_line, view.kernel.body.end_column)
    function = tree.function_at(start, end)
    return function is not None and bool(tree.captures(_LOOPS, function))


def is_thread_bound(view: KernelView) -> bool:
    """Whether threads have elements of their own, so that a larger grid alone would find no work: no `gridDim`."""
    return "gridDim" not in view.text.slice(view.kernel.body)


def idle_ratio(view: KernelView, compiled: CompiledKernel, shape: Geometry) -> float:
    """Time of the launch as it is over its time if its warps filled every SM, both from the bounded model.

    Arithmetic speeds up with the SMs in use and with the warps each scheduler can switch between; memory
    traffic with the bytes in flight (Little's law), up to the card's share per SM.
    """
    sms = view.gpu.multiprocessors
    used = min(shape.blocks, sms)
    weight = weights(analyse(compiled.instructions))
    clocks = max(pipe_cycles(compiled.instructions, weight, view.gpu).values(), default=0.0)
    resident = min(shape.warps / used, view.gpu.limits.max_warps)
    issue = min(1.0, resident / SCHEDULERS / WARPS_TO_ISSUE)
    share = dram_bytes_per_clock(view.gpu)
    traffic = global_traffic(compiled, weight, view)
    per_thread = loads_in_flight(compiled, analyse(compiled.instructions))
    flying = max(per_thread, 1) * resident * view.gpu.limits.warp_size / MEMORY_LATENCY_CLOCKS
    most = max(traffic.lower / share, 0.0)
    before = max(clocks * sms / used / issue, most * share * sms / used / max(flying, share / 32))
    after = max(clocks, most)
    return before / after if after else 1.0


def shape_observations(view: KernelView, shape: Geometry) -> tuple[Observation, ...]:
    """Blocks and warps against SMs and schedulers."""
    sms = view.gpu.multiprocessors
    return (
        Observation(
            shape.tier, shape.origin, "blocks launched", float(shape.blocks), "", float(sms),
            f"SMs of {view.gpu.name}",
        ),
        Observation(
            shape.tier, shape.origin, "warps launched", float(shape.warps), "", float(SCHEDULERS * sms),
            "warp schedulers",
        ),
    )  # fmt: skip
