# SPDX-License-Identifier: Apache-2.0
"""Time that atomics and indexed constants lose because lanes meet at one place, or part ways.

Atomics on one address are done one after the other: in an L2 slice for global memory, in the SM for shared
memory. A slice does a request's lanes on one sector at once if they name different words of it. The constant cache
serves one address per pass, so lanes that read different words take turns.
"""

from __future__ import annotations

import collections
import functools
import math
import random
from collections.abc import Collection, Sequence

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.cost.hidden_atomics import GLOBAL_ATOMICS, hidden_atomics, places_on_line
from warplens_tools.cost.waiting import standing_floor
from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.facts.atomics import Atomic, atomics
from warplens_tools.cuda.facts.lane_names import lane_names, mentions_lanes
from warplens_tools.cuda.facts.launch_arguments import argument_values
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3
from warplens_tools.cuda.values.forms import Form
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.finding import Gain
from warplens_tools.launches import block_extents, block_threads
from warplens_tools.memory.traffic import l2_bytes_per_clock
from warplens_tools.sass.attribution import TRIPS_PER_LEVEL, is_on_line, weights
from warplens_tools.sass.banks import warp_lanes
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import access_bytes
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.sass.varying import lane_dependent
from warplens_tools.text import Span
from warplens_tools.view import KernelView

#: Clocks of one pass of the constant cache, and of one that misses it: an H200 took 2.0 a word at random places of up
#: to 2 KB, 10 of 4 KB, 28 of 16 KB (docs/benchmarks/costs.json), 1.2 where lanes read neighbouring words (planted
#: film_tone). Its size: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking".
CONSTANT_CLOCKS, CONSTANT_MISS_CLOCKS, CONSTANT_CACHE_BYTES = 1.5, 20.0, 2048
#: Bytes an L2 slice gives per clock (A100 whitepaper: 5120 of 80 slices).
_SLICE_BYTES_PER_CLOCK = 64
_WORD = 4
#: Requests drawn to see how lanes meet; parts per slice from which their spread is that of a normal distribution.
_DRAWS, _MANY = 200, 20.0
#: Threads of a block where the launch is not known: the usual number.
_THREADS = 256
_FLOATING = frozenset({"F32", "F64", "F16", "F16x2", "BF16", "BF16_V2", "FTZ"})
#: What a warp that adds up before its one atomic has on the line.
_AGGREGATED = frozenset({"REDUX", "POPC", "UPOPC", "CREDUX"})


class Meeting(msgspec.Struct, frozen=True):
    """An atomic at which lanes meet."""

    atomic: Atomic
    #: Lanes of a warp at the address most of them meet at, on average over even draws where data decides.
    lanes: float
    #: Addresses that all threads of the launch share; None where each block has its own.
    places: int | None
    #: Clocks of one SM that one warp takes there, weighted as `sass.attribution.weights`.
    clocks: float
    #: As `clocks`, of atomics on each block's own copy in shared memory, where data says which place they go to.
    instead: float = 0.0


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
    told = [a for a in atomics(tree, view.kernel, block or UNKNOWN_DIM3) if not _is_misread(view, a)]
    every = [*(a for a in told if a.space == space), *hidden_atomics(view, space, told)]
    found = [m for a in every if (m := _meeting(view, a, block)) is not None]
    return sorted(found, key=lambda m: (-m.clocks, m.atomic.span))


def _meeting(view: KernelView, atomic: Atomic, block: tuple[int, int, int] | None) -> Meeting | None:
    if atomic.leader:
        return None
    warp = view.gpu.limits.warp_size
    spread = _spread(view, atomic, block)
    if spread is None or spread >= warp:
        places = _least_places(view, atomic) if spread is None or atomic.index is None else None
        if places is None:
            return None
    else:
        places = spread
    own = atomic.index is not None and any(s.kind == "block" for s in atomic.index.symbols)
    lanes = max(1.0, warp / places)
    if atomic.space == "shared":
        if atomic.index is None and places > 1:
            lanes = sector_turns(warp, places, _WORD, places * _WORD)
        return Meeting(atomic, lanes, places, _shared_clocks(view, atomic, lanes))
    clocks, instead = _global_clocks(view, atomic, places, own=own)
    return Meeting(atomic, lanes, None if own else places, clocks, instead)


def _is_misread(view: KernelView, atomic: Atomic) -> bool:
    """Whether SASS has data choose a place that seems to be one, as it does where a lambda's parameter names it."""
    one = not atomic.varies if atomic.index is None else atomic.index.uniform
    return one and (places_on_line(view, atomic) or 1) > 1


def _least_places(view: KernelView, atomic: Atomic) -> int | None:
    """Places that data can choose among, as types and extents bound them, and masks and remainders in SASS."""
    bounds = (atomic.places, places_on_line(view, atomic) if atomic.function else None)
    return min((n for n in bounds if n is not None), default=None)


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
    view: KernelView, index: Form, known: dict[str, int], block: tuple[int, int, int] | None, warp: int = 0
) -> list[int] | None:
    size = view.gpu.limits.warp_size
    x, y, _ = extents = block or (size, 1, 1)
    lanes = warp_lanes(extents, size)
    if warp:
        lanes = [(n % x, n // x % y, n // (x * y)) for n in range(warp * size, (warp + 1) * size)]
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
        if x.opcode in opcodes and is_on_line(x, view.model.path, span.line)
    )


def _global_clocks(view: KernelView, atomic: Atomic, places: int, *, own: bool) -> tuple[float, float]:
    """`clocks` and `instead` of a meeting in global memory."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return 0.0, 0.0
    costs, warp = view.gpu.costs, view.gpu.limits.warp_size
    times = _executions(view, compiled, atomic.span, len(atomic.loops), GLOBAL_ATOMICS)
    width = type_bytes(atomic.element_type) or _WORD
    floating = any(
        x.opcode in GLOBAL_ATOMICS and _FLOATING & set(x.modifiers)
        for x in _on_line(view, compiled, atomic.span.line)
    )
    # Where each block has a place, as many places are in use as blocks run.
    used = view.gpu.multiprocessors if own else places
    turns, chain = 1.0, 1.0 / used
    if not is_aggregated(view, atomic.span):
        turns = sector_turns(warp, places, width, view.gpu.limits.sector_bytes)
        chain = warp / places / (used if own else 1)
    at_slices = turns * costs.atomic / slices_at_once(used * width, view.gpu)
    clocks = max(at_slices, chain * (costs.atomic_float if floating else costs.atomic))
    instead = 0.0
    if places > 1 and atomic.index is None:
        most = sector_turns(warp, places, width, places * width)
        rivals = math.pow(_block_warps(view, compiled), costs.shared_swap_growth)
        instead = most * (costs.shared_swap * rivals if floating else costs.shared_atomic)
    return times * view.gpu.multiprocessors * clocks, times * instead


@functools.cache
def sector_turns(lanes: int, places: int, width: int, sector: int) -> float:
    """Turns that L2 slices take for one request of `lanes` at random ones of `places` words of `width` bytes.

    A sector's lanes at different words are served in one turn, those at one word in as many as they are. The mean of
    many draws, always the same ones.
    """
    per_sector = max(1, sector // width)
    draw = random.Random(0)
    total = 0
    for _ in range(_DRAWS):
        at = collections.Counter(draw.randrange(places) for _ in range(lanes))
        most: dict[int, int] = {}
        for place, count in at.items():
            most[place // per_sector] = max(most.get(place // per_sector, 0), count)
        total += sum(most.values())
    return total / _DRAWS


def slices_at_once(span: int, gpu: Gpu) -> float:
    """L2 slices that work side by side on `span` neighbouring bytes: parts over the parts of the fullest slice.

    Addresses are dealt to slices by a hash, part by part: the fullest of `count` slices with `parts` has, of Poisson
    draws, the mean of their maximum.
    """
    count = max(1.0, l2_bytes_per_clock(gpu) * gpu.multiprocessors / _SLICE_BYTES_PER_CLOCK)
    parts = max(1.0, span / gpu.costs.slice_bytes)
    mean = parts / count
    if mean > _MANY:
        return count * mean / (mean + 2.0 * math.sqrt(mean))
    term = below = math.exp(-mean)
    fullest: float = 0.0
    for load in range(1, 64):
        fullest += 1.0 - math.pow(below, count)
        term *= mean / load
        below = min(1.0, below + term)
    return parts / max(1.0, fullest)


def _shared_clocks(view: KernelView, atomic: Atomic, lanes: float) -> float:
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return 0.0
    times = _executions(view, compiled, atomic.span, len(atomic.loops), {"ATOMS"})
    costs = view.gpu.costs
    swaps = [
        x for x in _on_line(view, compiled, atomic.span.line) if x.opcode == "ATOMS" and "CAST" in x.modifiers
    ]
    if not swaps:
        return times * costs.shared_atomic * (1.0 if is_aggregated(view, atomic.span) else lanes)
    # Every warp of the block that swaps the word in between makes the others try again.
    rivals = 1 if _own_of_warp(view, atomic) else _block_warps(view, compiled)
    words = max(access_bytes(x) for x in swaps) / _WORD
    return times * lanes * costs.shared_swap * math.sqrt(words) * math.pow(rivals, costs.shared_swap_growth)


def _block_warps(view: KernelView, compiled: CompiledKernel) -> int:
    threads = block_threads(view.kernel, view.model, compiled) or _THREADS
    return -(-threads // view.gpu.limits.warp_size)


def _own_of_warp(view: KernelView, atomic: Atomic) -> bool:
    """Whether the words of the block's second warp are others than those of its first."""
    block = block_extents(view.kernel, view.model)
    if atomic.index is None or block is None or math.prod(block) <= view.gpu.limits.warp_size:
        return False
    known = argument_values(parse_tree(view.text), view.model, view.kernel)
    first, second = (_lane_values(view, atomic.index, known, block, warp) for warp in (0, 1))
    return first is not None and second is not None and set(first).isdisjoint(second)


def is_aggregated(view: KernelView, span: Span) -> bool:
    """Whether the compiler lets each warp add up first: it does for integers at an address it can see is one."""
    compiled = view.evidence.worst
    return compiled is not None and any(x.opcode in _AGGREGATED for x in _on_line(view, compiled, span.line))


def _on_line(view: KernelView, compiled: CompiledKernel, line: int) -> list[Instruction]:
    return [x for x in compiled.instructions if is_on_line(x, view.model.path, line)]


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
    width = type_bytes(access.element_type) or _WORD
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
        * (CONSTANT_CLOCKS + CONSTANT_MISS_CLOCKS * _missed(c))
        * _executions(view, compiled, c.access.span, 9, {"LDC"})
        / _same_line(c, found)
        for c in found
    )


def _missed(constant: Constant) -> float:
    """Share of even draws from the table that its cache does not hold."""
    sizes = getattr(constant.access.declared, "sizes", ())
    if not sizes or None in sizes:
        return 0.0
    size: int = math.prod(sizes) * (type_bytes(constant.access.element_type) or _WORD)
    return max(0.0, 1.0 - CONSTANT_CACHE_BYTES / size)


def _same_line(constant: Constant, found: Sequence[Constant]) -> int:
    return sum(c.access.span.line == constant.access.span.line for c in found)


def hidden_constants(view: KernelView, compiled: CompiledKernel) -> list[int]:
    """Constant loads whose index differs between lanes and that only SASS shows, as in a function of the kernel."""
    if divergent_constants(view):
        return []
    loads = [i for i, x in enumerate(compiled.instructions) if x.opcode == "LDC"]
    differing = lane_dependent(compiled.instructions) if loads else frozenset()
    return [i for i in loads if i in differing]


def hidden_clocks(view: KernelView, compiled: CompiledKernel) -> float:
    """Weighted clocks of `hidden_constants`, each lane with a word of its own."""
    weight = weights(analyse(compiled.instructions))
    words = float(view.gpu.limits.warp_size)
    return sum(weight[i] for i in hidden_constants(view, compiled)) * words * CONSTANT_CLOCKS


def serial_clocks(view: KernelView, compiled: CompiledKernel) -> dict[str, float]:
    """Clocks per warp of what serialises: "global atomics", "shared atomics", "constants"."""
    return {
        "global atomics": sum(m.clocks for m in meetings(view, "global")),
        "shared atomics": sum(m.clocks for m in meetings(view, "shared")),
        "constants": constant_clocks(view, compiled, divergent_constants(view))
        + hidden_clocks(view, compiled),
    }


def skewed_gain(view: KernelView, found: Sequence[Meeting]) -> Gain | None:
    """Gain where data has atomics of shared memory all go to one word, if each lane then had its own; the estimate is
    that of even draws. None without SASS."""
    even = serial_gain(view, "shared atomics")
    compiled = view.evidence.worst
    if even is None or compiled is None:
        return None
    weight = weights(analyse(compiled.instructions))
    other = pipe_cycles(compiled.instructions, weight, view.gpu) | standing_floor(view, compiled, weight)
    alone = sum(m.clocks / m.lanes for m in found)
    after = other | {"shared atomics": alone}
    most = bound_ratio(after | {"shared atomics": alone * view.gpu.limits.warp_size}, after)
    return make_gain(even.estimate, 1.0, most)


def serial_gain(view: KernelView, resource: str, after: float = 0.0) -> Gain | None:
    """Gain if a resource of `serial_clocks` took `after` times its clocks; None without SASS."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return None
    weight = weights(analyse(compiled.instructions))
    other = pipe_cycles(compiled.instructions, weight, view.gpu) | standing_floor(view, compiled, weight)
    serial = serial_clocks(view, compiled)
    before = other | serial
    instead = sum(m.instead for m in meetings(view, "global")) if resource == "global atomics" else 0.0
    ratio = bound_ratio(before, before | {resource: serial[resource] * after + instead})
    return make_gain(ratio, 1.0, ratio)
