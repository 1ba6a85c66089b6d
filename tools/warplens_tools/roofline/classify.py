# SPDX-License-Identifier: Apache-2.0
"""Stage 1: what bounds a kernel. Two votes, as KernelPro takes them, and what they come to.

The *analytic* vote asks what one warp's pass through the code needs of each resource: clocks of every
pipe from SASS and per-SM rates, and bytes of device memory at this GPU's share of the DRAM roof per
SM. The busiest resource bounds the kernel, if it leads clearly. The *measured* vote asks what the
hardware did (`warplens_tools.roofline.measured`). Where both exist and disagree, the measured one says
what bounds the kernel as it is, the analytic one what its algorithm allows, and the reason says both.

Classes: `memory` (DRAM, L2, L1 and shared memory alike, as Nsight Compute's memory throughput),
`compute` (any arithmetic pipe, or instruction issue), `latency` (too little work in flight to reach a
roof), `launch` (the launches take longer than the kernel), `mixed`, `unknown`.
"""

from __future__ import annotations

import msgspec

from warplens_tools.cost.contention import serial_clocks
from warplens_tools.cost.launch_cost import launch_bound
from warplens_tools.cost.waiting import waiting_floor
from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Bottleneck, BottleneckClass, Confidence, Vote
from warplens_tools.launches import block_threads, grid_blocks
from warplens_tools.memory.conflicts import conflicts, extra_passes
from warplens_tools.memory.traffic import Traffic, dram_bytes_per_clock, floor_of, global_traffic
from warplens_tools.roofline.measured import NEAR_ROOF, measured_vote
from warplens_tools.roofline.votes import with_measured
from warplens_tools.sass.attribution import weights
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import flops
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.view import KernelView

#: A resource must need this many times the clocks of the next class to decide the vote; between that and
#: 1 both are near their roofs and the class is mixed. Nsight Compute's speed-of-light rule calls units
#: balanced within 10 percentage points; per-SM rates of the model are less exact than counters.
CLEAR_LEAD = 1.25
#: As many times the clocks of the busiest unit as waits need to be called the bound: below 60 % of every roof a launch
#: is bound by latency (Nsight Compute's speed-of-light rule).
WAITING_LEAD = 1.0 / NEAR_ROOF
#: Resident warps per scheduler below which a stall can hardly be hidden: with dependent arithmetic of
#: four clocks' latency ("CUDA C++ Programming Guide", "Multiprocessor Level") one warp fills a quarter.
FEW_WARPS_PER_SCHEDULER = 1.0
_MEMORY = ("lsu", "l1 lines", "l2", "global atomics", "shared atomics", "constants")
_COMPUTE = ("fp64", "fp32", "fp16", "int", "alu", "sfu", "tensor", "issue")
_NAMES = {
    "dram": "device memory",
    "l2": "the L2 cache",
    "l1 lines": "the L1's line look-ups",
    "global atomics": "atomics on the same addresses",
    "shared atomics": "atomics on the same shared words",
    "constants": "different words of a constant table",
    "lsu": "the L1 and shared-memory path",
    "issue": "instruction issue",
    "alu": "integer and logic instructions",
    "int": "integer multiplies",
    "sfu": "special functions and conversions",
    "tensor": "the tensor cores",
}


class Demand(msgspec.Struct, frozen=True):
    """Clocks per warp on one SM by resource; `dram` once counted as compulsory and once as if all missed."""

    pipes: dict[str, float]
    dram_lower: float
    dram_upper: float
    traffic: Traffic
    flops: float

    def top(self, dram: float) -> tuple[str, float, str, float]:
        """Busiest resource and its clocks, then the busiest of the other class and its clocks."""
        memory = {"dram": dram} | {name: self.pipes.get(name, 0.0) for name in _MEMORY}
        compute = {pipe: self.pipes.get(pipe, 0.0) for pipe in _COMPUTE}
        m, c = max(memory, key=lambda k: memory[k]), max(compute, key=lambda k: compute[k])
        if memory[m] >= compute[c]:
            return m, memory[m], c, compute[c]
        return c, compute[c], m, memory[m]


def classify(view: KernelView) -> Bottleneck:
    """What bounds the kernel, from the evidence present; unknown with the reason where it does not decide."""
    measured = measured_vote(view.evidence.counters, view.gpu, timing=view.evidence.timing)
    return with_measured(_by_code(view), measured)


def _by_code(view: KernelView) -> Bottleneck:
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        why = "the text alone does not decide it; the binary tier was not collected"
        if compiled is not None:
            why = "text and registers do not decide it; the machine code was not disassembled"
        return Bottleneck("unknown", "low", why)
    demand = demand_of(view, compiled)
    vote = analytic_vote(view, compiled, demand)
    ridge = view.gpu.ridge("fp32", "dram")
    intensity = demand.flops / demand.traffic.lower if demand.traffic.lower else None
    return Bottleneck(
        bound=vote.bound,
        confidence=vote.confidence,
        reason=vote.reason,
        analytic=vote,
        intensity=None if intensity is None else round(intensity, 3),
        ridge=None if ridge is None else round(ridge, 1),
        evidence=vote.evidence,
    )


def demand_of(view: KernelView, compiled: CompiledKernel) -> Demand:
    """What one warp's pass needs of each resource of an SM."""
    flow = analyse(compiled.instructions)
    weight = weights(flow)
    traffic = global_traffic(compiled, weight, view)
    per_clock = dram_bytes_per_clock(view.gpu)
    pipes = pipe_cycles(compiled.instructions, weight, view.gpu)
    pipes["lsu"] = pipes.get("lsu", 0.0) + extra_passes(view, compiled, weight, conflicts(view))
    pipes |= {name: clocks for name, clocks in floor_of(traffic, view.gpu).items() if name in _MEMORY}
    pipes |= serial_clocks(view, compiled)
    work = sum(flops(x) * w for x, w in zip(compiled.instructions, weight, strict=True)) * 32.0
    return Demand(
        pipes=pipes,
        dram_lower=traffic.lower / per_clock,
        dram_upper=traffic.upper / per_clock,
        traffic=traffic,
        flops=work,
    )


def analytic_vote(view: KernelView, compiled: CompiledKernel, demand: Demand) -> Vote:
    """What the code as compiled asks of the hardware."""
    launches = launch_bound(view)
    if launches:
        looped = Observation("source", "tree-sitter", "launched in a host loop", "yes")
        return Vote("launch", "medium", launches, (looped,))
    idle = _too_little_work(view, compiled)
    if idle is not None:
        return idle
    low, high = demand.top(demand.dram_lower), demand.top(demand.dram_upper)
    waiting = _waits(view, compiled, max(low[1], high[1]))
    if waiting is not None:
        return waiting
    low_class, high_class = _class_of(low), _class_of(high)
    seen = _observations(view, demand)
    if low_class == high_class:
        sure: Confidence = "high" if min(_lead(low), _lead(high)) >= 2.0 else "medium"
        return Vote(low_class, sure, _reason(low, low_class), seen)
    if demand.traffic.known:
        # Every repeated access is known to repeat: the figure with caches is the algorithm's own.
        return Vote(low_class, "medium", _reason(low, low_class), seen)
    reason = (
        f"{_reason(high, high_class)}, if the accesses whose address the source does not tell are all distinct; "
        f"{_NAMES.get(low[0], low[0])} otherwise"
    )
    return Vote(high_class, "low", reason, seen)


def _class_of(top: tuple[str, float, str, float]) -> BottleneckClass:
    name, most, _, other = top
    if most < CLEAR_LEAD * other:
        return "mixed"
    return "compute" if name in _COMPUTE else "memory"


def _lead(top: tuple[str, float, str, float]) -> float:
    return top[1] / top[3] if top[3] else 10.0


def _reason(top: tuple[str, float, str, float], bound: BottleneckClass) -> str:
    name, most, other, less = top
    first, second = _NAMES.get(name, f"{name} arithmetic"), _NAMES.get(other, f"{other} arithmetic")
    if bound == "mixed":
        return f"{first} and {second} are needed about equally long"
    times = f"{most / less:.1f} times as long as {second}" if less else f"and hardly any of {second}"
    return f"a warp needs {first} {times}"


def _too_little_work(view: KernelView, compiled: CompiledKernel) -> Vote | None:
    """Latency, where every launch in the file leaves schedulers without warps to switch to."""
    threads, blocks = block_threads(view.kernel, view.model, compiled), grid_blocks(view.kernel, view.model)
    if threads is None or blocks is None or not view.model.launches_of(view.kernel):
        return None
    warps = -(-threads // view.gpu.limits.warp_size) * blocks
    schedulers = 4 * view.gpu.multiprocessors
    if warps > FEW_WARPS_PER_SCHEDULER * schedulers:
        return None
    reason = (
        f"the largest launch has {warps} warps for the {schedulers} schedulers of {view.gpu.name}: "
        "no scheduler has another warp to switch to while one waits"
    )
    seen = Observation(
        "source", "tree-sitter", "warps launched", float(warps), "", float(schedulers), "schedulers"
    )
    return Vote("latency", "high", reason, (seen,))


def _waits(view: KernelView, compiled: CompiledKernel, busiest: float) -> Vote | None:
    """Latency, where the resident warps cannot hide what each of them waits for."""
    floor = waiting_floor(view, compiled)
    longest = max(floor, key=lambda name: floor[name], default="")
    if not longest or floor[longest] < WAITING_LEAD * busiest:
        return None
    times = (
        f"{floor[longest] / busiest:.1f} times as long as its busiest unit works"
        if busiest
        else "all the time"
    )
    what = (
        f"blocks of this little work start one after the other: that takes {times}"
        if longest == "blocks"
        else f"the warps that an SM holds do not hide what each waits for: results, loads and its start take {times}"
    )
    origin = view.evidence.binary.origin if view.evidence.binary is not None else ""
    ratio = round(floor[longest] / max(busiest, 1.0), 2)
    seen = Observation(
        "binary", origin, "waits over the busiest unit's clocks", ratio, "", round(WAITING_LEAD, 2)
    )
    return Vote("latency", "medium", what, (seen,))


def _observations(view: KernelView, demand: Demand) -> tuple[Observation, ...]:
    binary = view.evidence.binary
    origin = binary.origin if binary is not None else ""
    units = (*_COMPUTE, *_MEMORY)
    busy = sorted(((v, k) for k, v in demand.pipes.items() if k in units and v), reverse=True)[:3]
    total = max([demand.dram_upper, *(v for v, _ in busy)], default=0.0)
    if not total:
        return ()
    seen = [
        Observation(
            "binary", origin, f"{_NAMES.get(k, f'{k} arithmetic')}, share of the busiest", round(v / total, 3)
        )
        for v, k in busy
    ]
    name = "device memory, share of the busiest"
    seen.append(
        Observation("binary", origin, f"{name}, no repeated access", round(demand.dram_lower / total, 3))
    )
    seen.append(Observation("binary", origin, f"{name}, every access", round(demand.dram_upper / total, 3)))
    return tuple(seen)
