# SPDX-License-Identifier: Apache-2.0
"""Stage 1: what bounds a kernel. Two votes, as KernelPro takes them, and what they come to.

The *analytic* vote asks what one warp's pass through the code needs of each resource: cycles of every
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

from warplens_tools.evidence import Observation
from warplens_tools.finding import Bottleneck, BottleneckClass, Confidence, Vote, count
from warplens_tools.kernel import KernelView
from warplens_tools.machine.demand import COMPUTE, MEMORY
from warplens_tools.roofline.measured import NEAR_ROOF, measured_vote

#: A resource must need this many times the cycles of the next class to decide the vote; between that and
#: 1 both are near their roofs and the class is mixed. Nsight Compute's speed-of-light rule calls units
#: balanced within 10 percentage points; per-SM rates of the model are less exact than counters.
CLEAR_LEAD = 1.25
#: As many times the cycles of the busiest unit as waits need to be called the bound: below 60 % of every roof a launch
#: is bound by latency (Nsight Compute's speed-of-light rule).
WAITING_LEAD = 1.0 / NEAR_ROOF
#: Resident warps per scheduler below which a stall can hardly be hidden: with dependent arithmetic of
#: four cycles' latency ("CUDA C++ Programming Guide", "Multiprocessor Level") one warp fills a quarter.
FEW_WARPS_PER_SCHEDULER = 1.0
#: Busiest resource and its cycles, then the busiest of the other class and its cycles.
Top = tuple[str, float, str, float]
_NAMES = {
    "dram": "device memory",
    "l2": "the L2 cache",
    "l1 lines": "the L1's line look-ups",
    "global atomics": "atomics on the same addresses",
    "shared atomics": "atomics on the same shared words",
    "constants": "different words of a constant table",
    "constant misses": "a constant table that its cache does not hold",
    "lsu": "the L1 and shared-memory path",
    "issue": "instruction issue",
    "alu": "integer and logic instructions",
    "int": "integer multiplies",
    "sfu": "special functions and conversions",
    "tensor": "the tensor cores",
}


def classify(view: KernelView) -> Bottleneck:
    """What bounds the kernel, from the evidence present; unknown with the reason where it does not decide."""
    measured = measured_vote(view.evidence.counters, view.gpu, timing=view.evidence.timing)
    return with_measured(_by_code(view), measured)


def _by_code(view: KernelView) -> Bottleneck:
    if not view.sass:
        why = "the text alone does not decide it; the binary tier was not collected"
        if view.compiled is not None:
            why = "text and registers do not decide it; the machine code was not disassembled"
        return Bottleneck("unknown", "low", why)
    demand, vote = view.demand, _AnalyticVote(view).vote()
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


class _AnalyticVote:
    """What the code as compiled asks of the hardware."""

    def __init__(self, view: KernelView) -> None:
        self.view, self.demand = view, view.demand

    def vote(self) -> Vote:
        """The first that is certain: launches, too little work, waits, and then the busiest resource."""
        if self.view.launching.bounds:
            looped = self.view.observe("launched in a host loop", "yes", tier="source")
            return Vote("launch", "medium", self.view.launching.bounds, (looped,))
        low, high = (self.demand.top(dram) for dram in (self.demand.dram_lower, self.demand.dram_upper))
        return self._too_little_work() or self._waits(max(low[1], high[1])) or self._busiest(low, high)

    def _busiest(self, low: Top, high: Top) -> Vote:
        low_class, high_class = _class_of(low), _class_of(high)
        seen = self._observations()
        if low_class == high_class:
            clear = min(_lead(low), _lead(high)) >= 2.0 and self._is_told()
            sure: Confidence = "high" if clear else "medium"
            return Vote(low_class, sure, _reason(low, low_class), seen)
        if self.demand.traffic.known:
            # Every repeated access is known to repeat: the figure with caches is the algorithm's own.
            return Vote(low_class, "medium", _reason(low, low_class), seen)
        reason = (
            f"{_reason(high, high_class)}, if the accesses whose address the source does not tell are all distinct; "
            f"{_NAMES.get(low[0], low[0])} otherwise"
        )
        return Vote(high_class, "low", reason, seen)

    def _is_told(self) -> bool:
        """Whether what the vote rests on was seen: grid and block, and no tensor instructions, whose operands'
        path through shared memory the model does not follow."""
        view = self.view
        tensor = view.sass.where(
            lambda x: x.opcode in {"HMMA", "IMMA", "DMMA", "QMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA"}
        )
        return view.shape is not None and view.threads is not None and not tensor

    def _too_little_work(self) -> Vote | None:
        """Latency, where every launch in the file leaves schedulers without warps to switch to."""
        view, gpu = self.view, self.view.gpu
        warps = self._warps()
        if warps is None or warps > FEW_WARPS_PER_SCHEDULER * gpu.schedulers:
            return None
        reason = (
            f"the largest launch has {count(warps, 'warp')} for the {gpu.schedulers} schedulers of {gpu.name}: "
            "no scheduler has another warp to switch to while one waits"
        )
        most = float(gpu.schedulers)
        tier = view.shape.tier if view.shape is not None else "source"
        seen = view.observe("warps launched", float(warps), "", most, "schedulers", tier=tier)
        return Vote("latency", "high", reason, (seen,))

    def _warps(self) -> int | None:
        """Warps of the largest launch: as measured, else where constants give it."""
        view, shape = self.view, self.view.shape
        if shape is not None and shape.tier != "source":
            return shape.warps
        blocks = view.launches.blocks
        if view.threads is None or blocks is None:
            return None
        return -(-view.threads // view.gpu.limits.warp_size) * blocks

    def _waits(self, busiest: float) -> Vote | None:
        """Latency, where the resident warps cannot hide what each of them waits for."""
        floor = self.view.waiting.floor
        longest = max(floor, key=lambda name: floor[name], default="")
        if not longest or floor[longest] < WAITING_LEAD * busiest:
            return None
        ratio = floor[longest] / busiest if busiest else 0.0
        times = f"{ratio:.1f} times as long as its busiest unit works" if busiest else "all the time"
        what = (
            f"launching blocks of this little work takes {times}"
            if longest == "blocks"
            else f"the warps that an SM holds do not hide what each waits for: results, loads and its "
            f"start take {times}"
        )
        metric, shown = "waits over the busiest unit's cycles", round(floor[longest] / max(busiest, 1.0), 2)
        return Vote(
            "latency", "medium", what, (self.view.observe(metric, shown, "", round(WAITING_LEAD, 2)),)
        )

    def _observations(self) -> tuple[Observation, ...]:
        demand = self.demand
        busy = sorted(
            ((v, k) for k, v in demand.pipes.items() if k in (*COMPUTE, *MEMORY) and v), reverse=True
        )[:3]
        total = max([demand.dram_upper, *(v for v, _ in busy)], default=0.0)
        if not total:
            return ()
        name = "device memory, share of the busiest"
        shown = [(f"{_NAMES.get(k, f'{k} arithmetic')}, share of the busiest", v) for v, k in busy]
        shown.append((f"{name}, no repeated access", demand.dram_lower))
        shown.append((f"{name}, every access", demand.dram_upper))
        return tuple(self.view.observe(metric, round(cycles / total, 3)) for metric, cycles in shown)


def _class_of(top: Top) -> BottleneckClass:
    name, most, _, other = top
    if most < CLEAR_LEAD * other:
        return "mixed"
    return "compute" if name in COMPUTE else "memory"


def _lead(top: Top) -> float:
    return top[1] / top[3] if top[3] else 10.0


def _reason(top: Top, bound: BottleneckClass) -> str:
    name, most, other, less = top
    first, second = _NAMES.get(name, f"{name} arithmetic"), _NAMES.get(other, f"{other} arithmetic")
    if bound == "mixed":
        return f"{first} and {second} are needed about equally long"
    times = f"{most / less:.1f} times as long as {second}" if less else f"and hardly any of {second}"
    return f"a warp needs {first} {times}"


def with_measured(bottleneck: Bottleneck, measured: Vote | None) -> Bottleneck:
    """The bottleneck of the analytic vote (or its "unknown") joined by the measured one.

    Agreement is certain. On disagreement the measured vote says what bounds the kernel as it is, and the
    reason tells what the analytic vote allows; only a program bound by its launches stays so, as no counter of
    a kernel tells of the time between two.
    """
    if measured is None:
        return bottleneck
    analytic = bottleneck.analytic
    evidence = (*measured.evidence, *bottleneck.evidence)
    joined = msgspec.structs.replace(bottleneck, measured=measured, evidence=evidence, bound=measured.bound)
    if analytic is None:
        return msgspec.structs.replace(joined, confidence=measured.confidence, reason=measured.reason)
    if analytic.bound == measured.bound:
        reason = f"{measured.reason}; the code asks for the same: {analytic.reason}"
        return msgspec.structs.replace(joined, confidence="high", reason=reason)
    if analytic.bound == "launch":
        # Counters are of one launch by itself; that launching takes longer was judged by its measured duration.
        reason = f"{analytic.reason}; of one launch by itself, {measured.reason}"
        return msgspec.structs.replace(joined, bound="launch", confidence=analytic.confidence, reason=reason)
    reason = (
        f"as it is, {measured.reason}; by its code it would be {analytic.bound}: {analytic.reason}. "
        "What lies between the two is what the implementation leaves unused"
    )
    return msgspec.structs.replace(joined, confidence=measured.confidence, reason=reason)
