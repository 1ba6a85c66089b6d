# SPDX-License-Identifier: Apache-2.0
"""unoverlapped-copy

**What.** A loop brings a tile from global into shared memory through registers, waits at a barrier, works on the
tile, and only then asks for the next one.

**Why it costs.** While the tile is on its way, several hundred clocks, no warp of the block has anything to do: the
barrier lets none of them into the arithmetic. Other blocks on the SM can fill the time, where enough of them fit.

**Wrong**

```cuda
for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = a[t * 256 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 256; ++k) sum += tile[k] * w;
    __syncthreads();
}
```

**Right**

```cuda
__pipeline_memcpy_async(&tile[0][threadIdx.x], &a[threadIdx.x], 4);     // cp.async, from sm_80 on
__pipeline_commit();
for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) __pipeline_memcpy_async(&tile[(t + 1) % 2][threadIdx.x], &a[(t + 1) * 256 + threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();                                                    // the next tile comes in meanwhile
    …
}
```

**Evidence.** In the SASS of a loop: a global load whose result is stored to shared memory before any arithmetic on
shared data, and a barrier behind it; the loop's clocks for the resident warps, with the wait and without. Counters
tell what warps stall on: they confirm the finding or withdraw it.

**Threshold.** A gain of 1.15 in the bounded model, on sm_80 and later, which copy asynchronously. With
counters: 30 % of the stalls on long scoreboards and barriers confirm it (Nsight Compute's stall rule), fewer
than 5 % withdraw it. The wait counts with the latency of L2 where blocks share the tile, else with that of
device memory.

**References.** CUDA C++ Programming Guide, "Asynchronous Data Copies"; CUDA C++ Best Practices Guide, "Asynchronous
Copy from Global Memory to Shared Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cost.gain import make_gain
from warplens_tools.cost.parallelism import MEMORY_LATENCY_CLOCKS
from warplens_tools.cost.stalls import Residency, loop_pass, residency
from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.memory.traffic import dram_floor, global_traffic
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.room import EVERY, judge_by_room
from warplens_tools.sass.attribution import TRIPS_PER_LEVEL, hottest_line, weights
from warplens_tools.sass.flow import Flow, Loop, analyse
from warplens_tools.sass.latency import L2_CLOCKS
from warplens_tools.sass.pipes import flops, space_of
from warplens_tools.sass.registers import registers_of
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.view import KernelView

#: Gain in the bounded model from which it is reported.
REPORTED = 1.15
#: First architecture with cp.async.
_FIRST_ARCH = 80
_ASYNCHRONOUS = frozenset({"LDGSTS", "UBLKCP", "UTMALDG", "LDGDEPBAR"})


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the line that brings the tile in."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is None or binary is None or not compiled.instructions or not _copies_asynchronously(view):
        return
    held = residency(view, compiled)
    flow = analyse(compiled.instructions)
    staged = [(loop, loads) for loop in flow.loops if (loads := staging_loads(compiled, flow, loop))]
    if held is None or not staged:
        return
    loop, loads = max(staged, key=lambda s: s[0].depth)
    wait = MEMORY_LATENCY_CLOCKS if _is_own(view, compiled) else L2_CLOCKS
    gain, block = _gain(view, compiled, flow, loop, held, wait)
    if gain.estimate < REPORTED:
        return
    line = hottest_line(compiled, flow, loads, view.model.path, view.kernel)
    yield TOOL.finding(
        view,
        span=view.line_span(line),
        severity="warning",
        confidence="medium",
        message=(
            f"Every iteration waits for its tile, some {wait:.0f} clocks, before the {block:.0f} clocks of work on it: "
            f"{_blocks(held)} cannot fill the gap."
        ),
        guidance=(
            "Ask for the next tile before working on this one: cp.async (__pipeline_memcpy_async, cuda::memcpy_async) "
            "into a second buffer, or load it into registers first and store it after the work."
        ),
        evidence=(
            Observation("binary", binary.origin, "global loads stored to shared memory at once", float(len(loads)),
                        "instructions"),
            Observation("binary", binary.origin, "resident blocks per SM", float(held.blocks)),
        ),
        gain=gain,
        index_query="cp.async multistage pipeline SM80_CP_ASYNC_CACHEALWAYS",
    )  # fmt: skip


def staging_loads(compiled: CompiledKernel, flow: Flow, loop: Loop) -> list[int]:
    """Loads of the loop that are stored to shared memory before any arithmetic on shared data, with a barrier behind.

    Empty where the loop has none, copies asynchronously, or has no such arithmetic.
    """
    indices = flow.instructions_of(loop)
    code = compiled.instructions
    if any(code[i].opcode in _ASYNCHRONOUS for i in indices):
        return []
    bars = [i for i in indices if code[i].opcode == "BAR"]
    works = [i for i in indices if flops(code[i]) or code[i].opcode in ("LDS", "LDSM")]
    found: list[int] = []
    for store in (i for i in indices if space_of(code[i]) == "shared" and code[i].opcode == "STS"):
        load = _giver(compiled, indices, store)
        between = [
            i for i in works if load is not None and load < i < store and code[i].opcode in ("LDS", "LDSM")
        ]
        after = any(bar > store and any(w > bar for w in works) for bar in bars)
        if load is not None and not between and after:
            found.append(load)
    return found


def _giver(compiled: CompiledKernel, indices: list[int], store: int) -> int | None:
    """The global load in the loop, before the store, whose result it stores as it is, or after conversions."""
    code = compiled.instructions
    wanted = {name for operand in (code[store],) for name in registers_of(operand)[1]}
    for i in reversed([i for i in indices if i < store]):
        written, read = registers_of(code[i])
        if not written & wanted:
            continue
        if space_of(code[i]) == "global":
            return i
        if code[i].opcode in ("FMUL", "FADD", "FFMA", "PRMT", "MOV", "SEL", "FSEL", "F2FP", "HADD2", "I2F"):
            wanted |= read
    return None


def _copies_asynchronously(view: KernelView) -> bool:
    digits = "".join(ch for ch in view.gpu.arch if ch.isdigit())
    return bool(digits) and int(digits) >= _FIRST_ARCH


def _is_own(view: KernelView, compiled: CompiledKernel) -> bool:
    """Whether every block reads elements of its own, so that they come from device memory."""
    traffic = global_traffic(compiled, weights(analyse(compiled.instructions)), view)
    return traffic.lower >= 0.5 * traffic.upper


def _gain(
    view: KernelView, compiled: CompiledKernel, flow: Flow, loop: Loop, held: Residency, wait: float
) -> tuple[Gain, float]:
    """An SM's time per pass of all its blocks, with the wait and without; and a block's clocks of work per pass."""
    spent = loop_pass(view, compiled, flow, loop, wait)
    indices = flow.instructions_of(loop)
    weight = weights(flow)
    here = [weight[i] / TRIPS_PER_LEVEL**loop.depth for i in indices]
    inside = [compiled.instructions[i] for i in indices]
    busy = max(pipe_cycles(inside, here, view.gpu).values())
    floor = max(dram_floor(compiled, weight, view).values()) / TRIPS_PER_LEVEL**loop.depth * held.warps
    work = held.block_warps * busy
    full = max(held.warps * busy, floor)
    exposed = min(spent.memory, wait)
    now = max(full, work + exposed + spent.barrier)
    without = max(full, work + spent.barrier)
    return make_gain(now / without, 1.0, now / full), work


def _blocks(held: Residency) -> str:
    return "a single block on an SM" if held.blocks == 1 else f"the {held.blocks} blocks on an SM"


TOOL = MicroTool(
    code="WL207",
    slug="unoverlapped-copy",
    title="A loop waits for each tile before it works on it",
    tiers=("binary",),
    relevant=("latency", "memory", "compute"),
    check=check,
    judge=judge_by_room(stalls=("long_scoreboard", "barrier"), kept=EVERY),
)
