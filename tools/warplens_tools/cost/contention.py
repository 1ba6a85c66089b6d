"""Time that atomics and indexed constants lose because lanes meet at one place, or part ways.

Atomics on one address are done one after the other: in an L2 slice for global memory, in the SM for shared
memory. The constant cache serves one address per pass, so lanes that read different words take turns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.finding import Gain
from warplens_tools.launches import block_extents
from warplens_tools.memory.traffic import dram_floor
from warplens_tools.sass.attribution import TRIPS_PER_LEVEL, kernel_line, weights
from warplens_tools.sass.banks import warp_lanes
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.source.accesses import ArrayAccess, accesses
from warplens_tools.source.arguments import argument_values
from warplens_tools.source.atomics import Atomic, atomics
from warplens_tools.source.constants import UNKNOWN_DIM3
from warplens_tools.source.expression import TYPE_BYTES
from warplens_tools.source.forms import Form
from warplens_tools.source.tree import parse_tree
from warplens_tools.source.varying import lane_names, mentions_lanes
from warplens_tools.text import Span
from warplens_tools.view import KernelView

#: Clocks that one lane's atomic holds its address. Global: one a clock (Kepler GK110 whitepaper, "Atomic
#: Memory Operations"). Shared: a read and a write natively (integers); as a compare-and-swap loop (floating
#: point) about the latency of its load and swap over the warps that run it side by side. Not measured here.
GLOBAL_CLOCKS, SHARED_CLOCKS, SHARED_LOOP_CLOCKS = 1.0, 2.0, 20.0
#: Addresses that the L2 serves side by side: an order of magnitude, cards have 48 to 96 slices.
L2_SLICES = 64
#: Clocks of one pass of the constant cache: a request a clock, as for a conflict-free pass of shared memory.
CONSTANT_CLOCKS = 1.0
_WORD = 4
_GLOBAL_OPCODES = frozenset({"RED", "REDG", "ATOM", "ATOMG"})
#: What a warp that adds up before its one atomic has on the line.
_AGGREGATED = frozenset({"REDUX", "POPC", "UPOPC", "CREDUX"})


class Meeting(msgspec.Struct, frozen=True):
    """An atomic at which lanes meet."""

    atomic: Atomic
    #: Lanes of a warp at one address, on average.
    lanes: float
    #: Addresses that all threads of the launch share; None where each block has its own.
    places: int | None
    #: Clocks of one SM that one warp takes there, weighted as `sass.attribution.weights`.
    clocks: float


class Constant(msgspec.Struct, frozen=True):
    """A read of a `__constant__` array whose lanes read different words."""

    access: ArrayAccess
    #: Different words of a warp's request; expected ones where the index is data.
    words: float
    #: Whether the words follow from the index, not from an assumption on data.
    exact: bool


def meetings(view: KernelView, space: str) -> list[Meeting]:
    """Atomics of a memory space at which more than one lane meets, costliest first."""
    tree = parse_tree(view.text)
    block = block_extents(view.kernel, view.model)
    every = atomics(tree, view.kernel, block or UNKNOWN_DIM3)
    found = [m for a in every if a.space == space and (m := _meeting(view, a, block)) is not None]
    return sorted(found, key=lambda m: (-m.clocks, m.atomic.span))


def _meeting(view: KernelView, atomic: Atomic, block: tuple[int, int, int] | None) -> Meeting | None:
    if atomic.leader:
        return None
    warp = view.gpu.limits.warp_size
    spread = _spread(view, atomic, block)
    if spread is None or spread >= warp:
        places = atomic.places if spread is None or atomic.index is None else None
        if places is None:
            return None
    else:
        places = spread
    own = atomic.index is not None and any(s.kind == "block" for s in atomic.index.symbols)
    lanes = max(1.0, warp / places)
    shared = atomic.space == "shared"
    clocks = _shared_clocks(view, atomic, lanes) if shared else _global_clocks(view, atomic, places, own=own)
    return Meeting(atomic, lanes, None if own and not shared else places, clocks)


def _spread(view: KernelView, atomic: Atomic, block: tuple[int, int, int] | None) -> int | None:
    """Different addresses of a warp's lanes; None where data decides."""
    if atomic.index is None:
        return None if atomic.varies else 1
    if atomic.index.uniform:
        return 1
    known = argument_values(parse_tree(view.text), view.model, view.kernel)
    found = _lane_values(view, atomic.index, known, block)
    return len(set(found)) if found is not None else None


def _lane_values(
    view: KernelView, index: Form, known: dict[str, int], block: tuple[int, int, int] | None
) -> list[int] | None:
    lanes = warp_lanes(block or (view.gpu.limits.warp_size, 1, 1), view.gpu.limits.warp_size)
    same = {s.name: known.get(s.name, 64) for s in index.symbols if s.kind not in ("thread", "derived")}
    found = []
    for x, y, z in lanes:
        at = index.evaluate({**same, "threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z})
        if at is None:
            return None
        found.append(at)
    return found


def _executions(
    view: KernelView, compiled: CompiledKernel, span: Span, loops: int, opcodes: Collection[str]
) -> float:
    """Weighted instructions of the line; a retry loop of the atomic's own does not count as one."""
    weight = weights(analyse(compiled.instructions))
    most = TRIPS_PER_LEVEL**loops
    return sum(
        min(w, most)
        for x, w in zip(compiled.instructions, weight, strict=True)
        if x.opcode in opcodes and kernel_line(x, view.model.path, view.kernel) == span.line
    )


def _global_clocks(view: KernelView, atomic: Atomic, places: int, *, own: bool) -> float:
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return 0.0
    times = _executions(view, compiled, atomic.span, len(atomic.loops), _GLOBAL_OPCODES)
    lanes = 1.0 if is_aggregated(view, atomic.span) else float(view.gpu.limits.warp_size)
    side_by_side = L2_SLICES if own else min(places, L2_SLICES)
    return times * lanes * GLOBAL_CLOCKS * view.gpu.multiprocessors / side_by_side


def _shared_clocks(view: KernelView, atomic: Atomic, lanes: float) -> float:
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return 0.0
    times = _executions(view, compiled, atomic.span, len(atomic.loops), {"ATOMS"})
    loop = any(
        x.opcode == "ATOMS" and "CAST" in x.modifiers for x in _on_line(view, compiled, atomic.span.line)
    )
    if loop:
        return times * lanes * SHARED_LOOP_CLOCKS
    return times * SHARED_CLOCKS * (1.0 if is_aggregated(view, atomic.span) else lanes)


def is_aggregated(view: KernelView, span: Span) -> bool:
    """Whether the compiler lets each warp add up first: it does for integers at an address it can see is one."""
    compiled = view.evidence.worst
    return compiled is not None and any(x.opcode in _AGGREGATED for x in _on_line(view, compiled, span.line))


def _on_line(view: KernelView, compiled: CompiledKernel, line: int) -> list[Instruction]:
    return [x for x in compiled.instructions if kernel_line(x, view.model.path, view.kernel) == line]


def divergent_constants(view: KernelView) -> list[Constant]:
    """Reads of `__constant__` arrays whose lanes read different words, most words first."""
    tree = parse_tree(view.text)
    block = block_extents(view.kernel, view.model)
    varying = lane_names(view.text.slice(view.kernel.body))
    found = []
    for access in accesses(tree, view.kernel, block or UNKNOWN_DIM3):
        if access.space == "constant" and (c := _constant(view, access, varying, block)) is not None:
            found.append(c)
    return sorted(found, key=lambda c: (-c.words * TRIPS_PER_LEVEL ** len(c.access.loops), c.access.span))


def _constant(
    view: KernelView, access: ArrayAccess, varying: frozenset[str], block: tuple[int, int, int] | None
) -> Constant | None:
    width = TYPE_BYTES.get(access.element_type, _WORD)
    if access.index is not None:
        known = argument_values(parse_tree(view.text), view.model, view.kernel)
        lanes = _lane_values(view, access.index, known, block)
        words = len({at * width // _WORD for at in lanes}) if lanes is not None else 1
        return Constant(access, float(words), True) if words > 1 else None
    sizes = getattr(access.declared, "sizes", ())
    if not sizes or None in sizes or not any(mentions_lanes(text, varying) for text in access.indices):
        return None
    total = width
    for size in sizes:
        total *= size
    words = max(1, total // _WORD)
    warp = view.gpu.limits.warp_size
    # The mean number of different ones among as many even draws as there are lanes.
    expected = words * (1.0 - (1.0 - 1.0 / words) ** warp)
    return Constant(access, expected, False) if expected > 1.0 else None


def constant_clocks(view: KernelView, compiled: CompiledKernel, found: Sequence[Constant]) -> float:
    """Weighted clocks of the constant cache's passes."""
    return sum(
        c.words
        * CONSTANT_CLOCKS
        * _executions(view, compiled, c.access.span, 9, {"LDC"})
        / _same_line(c, found)
        for c in found
    )


def _same_line(constant: Constant, found: Sequence[Constant]) -> int:
    return sum(c.access.span.line == constant.access.span.line for c in found)


def serial_clocks(view: KernelView, compiled: CompiledKernel) -> dict[str, float]:
    """Clocks per warp of what serialises: "global atomics", "shared atomics", "constants"."""
    return {
        "global atomics": sum(m.clocks for m in meetings(view, "global")),
        "shared atomics": sum(m.clocks for m in meetings(view, "shared")),
        "constants": constant_clocks(view, compiled, divergent_constants(view)),
    }


def serial_gain(view: KernelView, resource: str, after: float = 0.0) -> Gain | None:
    """Gain if a resource of `serial_clocks` took `after` times its clocks; None without SASS."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return None
    weight = weights(analyse(compiled.instructions))
    other = pipe_cycles(compiled.instructions, weight, view.gpu) | dram_floor(compiled, weight, view)
    serial = serial_clocks(view, compiled)
    before = other | serial
    ratio = bound_ratio(before, before | {resource: serial[resource] * after})
    return make_gain(ratio, 1.0, ratio)
