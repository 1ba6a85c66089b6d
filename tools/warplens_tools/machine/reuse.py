# SPDX-License-Identifier: Apache-2.0
"""Elements that a kernel reads again and again: by many threads of a block, or in sweep after sweep."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.conditions import Comparison
from warplens_tools.cuda.facts.pointer_arguments import pointer_arguments
from warplens_tools.cuda.values.forms import Form
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.sass.addresses import AddressPattern, constant_of, without_constant
from warplens_tools.sass.pipes import is_load, space_of

#: Iterations assumed of a loop whose count the file does not fix.
_TRIPS = 32
#: What stands for integers that are not known, of which one alone may divide what the index takes a remainder by; and
#: the threads of a block that are looked at.
_LARGE, _MOST_THREADS = (4096, 4099), 1024
#: A register that a loop moves, in the form of an address.
_WALKS = re.compile(r"iterations\(\w+, ")


class Reread(msgspec.Struct, frozen=True):
    """A global read in a loop, and how many threads of a block read each element."""

    access: ArrayAccess
    times: int


class Sweep(msgspec.Struct, frozen=True):
    """A global access that goes through a whole array in every iteration of an outer loop."""

    access: ArrayAccess
    outer: Loop
    #: The array's part that one iteration of `outer` goes through.
    bytes: int
    #: Iterations of `outer`; None where the file does not fix them.
    trips: int | None
    #: A function goes through it part by part; else element by element.
    parts: bool = False


class Reuse:
    """What one kernel reads again and again."""

    def __init__(self, code: KernelCode) -> None:
        self.code, self.known = code, code.arguments

    @cached_property
    def rereads(self) -> tuple[Reread, ...]:
        """Global reads of the deepest loops whose elements several threads of a block read, most often first."""
        block = self.code.block or self.code.launches.assumed_lanes(self.code.gpu.limits.warp_size)
        found = []
        for access in self.code.global_accesses:
            # What the innermost loop does not move is read once, or is a matter of aliasing.
            if (
                access.reads
                and not access.writes
                and not access.few
                and access.index is not None
                and _follows(access, access.index)
            ):
                found.append(Reread(access, _times(access, access.index, block, self.known)))
        return tuple(sorted(found, key=lambda r: (-r.times, r.access.span)))

    def sharing(self, access: ArrayAccess) -> int:
        """Threads of a block, of those that come, over the elements that they read in one pass of the loops around; 1
        where that is not known."""
        block = self.code.block or self.code.launches.assumed_lanes(_MOST_THREADS // 4)
        return _sharing(access.index, access.come, block, self.known) if access.index is not None else 1

    @cached_property
    def sweeps(self) -> tuple[Sweep, ...]:
        """Accesses that go through more than the L2 holds before they come back to the same elements."""
        parts = pointer_arguments(self.code.tree, self.code.kernel, self.code.dim3)
        every = [(a, False) for a in self.code.global_accesses] + [(a, True) for a in parts]
        found = [s for a, part in every if (s := self._sweep(a, part=part)) is not None]
        arrays = {(s.access.name, s.outer.offset): s for s in found}
        total: dict[int, int] = {}
        for sweep in arrays.values():
            total[sweep.outer.offset] = total.get(sweep.outer.offset, 0) + sweep.bytes
        return tuple(s for s in found if total[s.outer.offset] > self.code.gpu.l2_bytes)

    def _sweep(self, access: ArrayAccess, *, part: bool) -> Sweep | None:
        index, size = access.index, self.code.element_bytes(access.element_type)
        if index is None or size is None or len(access.loops) < 2:
            return None
        outside = [p for p in access.loops[:-1] if not _moves(index, p)]
        inside = [p for p in access.loops if _moves(index, p)]
        if not outside or not inside or inside[0].offset < outside[-1].offset:
            return None
        elements = [_extent(p, self.known) for p in inside]
        each = _part(index, inside[-1], self.known) if part else int(_is_dense(index, inside[-1]))
        if None in elements or not each:
            return None
        count = math.prod(e for e in elements if e is not None) * each
        return Sweep(access, outside[-1], count * size, _trips(outside[-1], self.known), part)

    @cached_property
    def overlapping(self) -> Mapping[int, int]:
        """Loads of loops by which neighbouring lanes read neighbouring elements and an unrolled walk moves on by one
        element, to the neighbours that read the same element in one pass of the loop, as SASS tells."""
        depths = self.code.sass.flow.depths
        patterns = [
            p for p in self.code.sass.patterns if depths[p.index] and not p.part and p.stride == p.width
        ]
        at: dict[str, dict[int, int]] = {}
        for p in patterns:
            # The compiler may keep several registers that walk alike.
            walk = _WALKS.sub("", without_constant(p.form))
            at.setdefault(walk, {})[p.index] = constant_of(p.form)
        width = {p.index: p.width for p in patterns}
        return {
            i: len(set(of.values())) for of in at.values() for i in of if _is_row(set(of.values()), width[i])
        }

    @cached_property
    def hidden_rereads(self) -> Mapping[int, int]:
        """Loads of the deepest loop that loads, to the threads of a block that read the same element, as only SASS
        tells: no form of their index is in the source. Empty if one is not known, or read by its own thread alone.

        An address without the lane is one for the whole warp; one without the warp's number is the same for all warps;
        addresses that differ by constants below a warp's row are read by as many neighbours.
        """
        sass = self.code.sass
        loads = sass.where(lambda x: space_of(x) == "global" and is_load(x))
        deepest = max((sass.flow.depths[i] for i in loads), default=0)
        patterns = {p.index: p for p in sass.patterns} if deepest else {}
        inner = [i for i in loads if sass.flow.depths[i] == deepest and i in patterns]
        threads = self.code.threads
        alone = {a.span.line for a in self.code.global_accesses if a.few}
        inner = [
            i
            for i in inner
            if sass.lines[i] not in alone
            and not patterns[i].part
            and not sass.table.is_toolkit(sass.instructions[i])
        ]
        if not inner or threads is None or not all(patterns[i].form for i in inner):
            return {}
        neighbours = _neighbours([patterns[i] for i in inner])
        times = {i: _hidden_times(patterns[i], neighbours, threads) for i in inner}
        return times if min(times.values()) > 1 else {}


def _follows(access: ArrayAccess, index: Form) -> bool:
    return bool(access.loops) and _moves(index, access.loops[-1])


def _times(access: ArrayAccess, index: Form, block: Sequence[int], known: Mapping[str, int]) -> int:
    """Threads of a block per element: those that share it at once, and those that overlap by a loop."""
    times = _sharing(index, access.come, block, known)
    taken: set[str] = set()
    for loop in access.loops:
        growth = index.growth(loop.counter) if loop.counter else None
        if growth is None or not growth.terms:
            continue
        for axis, extent in zip("xyz", block, strict=True):
            name = f"threadIdx.{axis}"
            if name not in taken and index.mentions(name) and index.growth(name) == growth:
                taken.add(name)
                times *= max(1, min(loop.trips or _TRIPS, extent))
                break
    return times


def _sharing(index: Form, come: Sequence[Comparison], block: Sequence[int], known: Mapping[str, int]) -> int:
    """Threads of a block that come over the different elements that they read in one iteration."""
    kinds = {"thread", "derived", "block size"}
    told = [t for t in come if all(s.kind in kinds or s.name in known for s in t.symbols)]
    return min(_sharing_at(index, told, block, known, large) for large in _LARGE)


def _sharing_at(
    index: Form, come: Sequence[Comparison], block: Sequence[int], known: Mapping[str, int], large: int
) -> int:
    """As `_sharing`, where every integer that is not known is `large`."""
    x, y, z = block
    same = {
        s.name: known.get(s.name, large) for s in index.symbols if s.kind not in ("thread", "derived", "loop")
    }
    same |= {s.name: 0 for s in index.symbols if s.kind in ("loop", "block")}
    same |= {f"blockDim.{axis}": n for axis, n in zip("xyz", block, strict=True)}
    count, found = 0, set()
    for n in range(min(x * y * z, _MOST_THREADS)):
        values = {**same, "threadIdx.x": n % x, "threadIdx.y": n // x % y, "threadIdx.z": n // (x * y)}
        if all(t.holds(values) is not False for t in come):
            count += 1
            found.add(index.evaluate(values))
    return 1 if None in found else count // max(1, len(found))


def _moves(index: Form, loop: Loop) -> bool:
    return bool(loop.counter) and index.mentions(loop.counter)


def _is_dense(index: Form, loop: Loop) -> bool:
    """Whether the loop's variable counts elements, so that its bound is the array's extent."""
    step = loop.step
    return step is not None and index.growth(loop.counter) == step


def _part(index: Form, loop: Loop, known: dict[str, int]) -> int | None:
    """Elements from one part that a function is handed to the next, which it is taken to go through."""
    growth = index.growth(loop.counter)
    if growth is None or loop.step is None:
        return None
    # What the step is made of is in both.
    same = {s.name: known.get(s.name, 1) for s in (*growth.symbols, *loop.step.symbols)}
    over, step = growth.evaluate(same), loop.step.evaluate(same)
    return over // step if over and step and over % step == 0 and over > step else None


def _extent(loop: Loop, known: dict[str, int]) -> int | None:
    """Elements that all threads together go through in the loop: its bound, in a grid-stride loop."""
    bound = loop.bound.evaluate(known) if loop.bound is not None else None
    return bound if bound is not None and bound > 0 and loop.comparison in ("<", "<=") else None


def _trips(loop: Loop, known: dict[str, int]) -> int | None:
    if loop.trips is not None:
        return loop.trips
    bound = loop.bound.evaluate(known) if loop.bound is not None else None
    first = loop.first.evaluate(known) if loop.first is not None else None
    one = loop.step is not None and loop.step.value == 1
    return bound - first if one and bound is not None and first is not None else None


def _hidden_times(pattern: AddressPattern, neighbours: Mapping[str, int], threads: int) -> int:
    warps = -(-threads // 32)
    lanes = min(32, threads) if "lane" not in pattern.form else 1
    same = warps if "warp." not in pattern.form and lanes == 1 else 1
    return max(lanes * same, min(threads, neighbours.get(without_constant(pattern.form), 1)))


def _is_row(constants: set[int], width: int) -> bool:
    """Whether these are neighbouring elements, within a warp's row."""
    return max(constants) - min(constants) == width * (len(constants) - 1) <= width * 31


def _neighbours(patterns: list[AddressPattern]) -> dict[str, int]:
    """Different constants of otherwise equal addresses that lie within a warp's row."""
    found: dict[str, set[int]] = {}
    for p in patterns:
        if p.stride == p.width:
            found.setdefault(without_constant(p.form), set()).add(constant_of(p.form))
    row = {p.width for p in patterns}
    reach = 32 * max(row, default=4)
    return {form: len(at) for form, at in found.items() if max(at) - min(at) <= reach}
