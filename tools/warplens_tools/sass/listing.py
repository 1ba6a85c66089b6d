# SPDX-License-Identifier: Apache-2.0
"""The SASS of one compiled kernel with what is read out of it, each thing worked out once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from warplens_tools.arch.gpu import Gpu
from warplens_tools.cuda.model import Kernel
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.lazily import cached_property
from warplens_tools.sass.addresses import AddressPattern, address_patterns
from warplens_tools.sass.attribution import LineTable
from warplens_tools.sass.by_data import Skip, counted_shares, skips_by_data
from warplens_tools.sass.flow import Flow, Loop, analyse
from warplens_tools.sass.pipes import access_bytes, is_load, pipe_of, space_of
from warplens_tools.sass.registers import registers_of
from warplens_tools.sass.routines import RARE_WEIGHT, with_routines
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.sass.varying import lane_dependent
from warplens_tools.sass.warps import Block

#: Executions assumed per nesting level where trip counts are unknown. Only ratios between instructions
#: of one kernel are formed from it: deep loops must dominate, and no figure shown to a user rests on it.
TRIPS_PER_LEVEL = 32.0


class Sass:
    """Instructions, by index in program order, with their loops, weights, lines and cycles.

    Empty, and false, where nothing was disassembled. Sequences that are properties go along with `instructions`.
    """

    def __init__(
        self, compiled: CompiledKernel | None, kernel: Kernel, path: str, gpu: Gpu, block: Block | None
    ) -> None:
        self.compiled, self.gpu, self.block = compiled, gpu, block
        self.table = LineTable(kernel, path)
        self.instructions: tuple[Instruction, ...] = compiled.instructions if compiled is not None else ()

    def __bool__(self) -> bool:
        return bool(self.instructions)

    @cached_property
    def flow(self) -> Flow:
        """Basic blocks and loops."""
        return analyse(self.instructions)

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Relative executions: `TRIPS_PER_LEVEL` to the power of the depth, of what waits for a counter its share;
        routines as often as they are called, and the compiler's slow paths hardly any."""
        shares = self.counted_shares
        own = tuple(w * shares.get(i, 1.0) for i, w in enumerate(weights(self.flow)))
        return with_routines(self.instructions, self.flow, own)

    @cached_property
    def lines(self) -> tuple[int | None, ...]:
        """The line of the kernel that each belongs to (`LineTable.kernel_line`)."""
        return tuple(map(self.table.kernel_line, self.instructions))

    @cached_property
    def written(self) -> tuple[int | None, ...]:
        """The line of the file that each is written on (`LineTable.written_line`)."""
        return tuple(map(self.table.written_line, self.instructions))

    def where(self, is_one: Callable[[Instruction], bool]) -> list[int]:
        """Indices of the instructions of a kind."""
        return [i for i, x in enumerate(self.instructions) if is_one(x)]

    def on_line(self, line: int | None, is_one: Callable[[Instruction], bool] = lambda _: True) -> list[int]:
        """Indices of the instructions, of a kind, that belong to a line of the kernel."""
        return [i for i in self._of_line.get(line, ()) if is_one(self.instructions[i])]

    @cached_property
    def _of_line(self) -> dict[int | None, list[int]]:
        found: dict[int | None, list[int]] = {}
        for i, line in enumerate(self.lines):
            found.setdefault(line, []).append(i)
        return found

    def usual_on(self, line: int | None, is_one: Callable[[Instruction], bool] = lambda _: True) -> list[int]:
        """As `on_line`, without what only odd operands take."""
        return [i for i in self.on_line(line, is_one) if i not in self.flow.rare]

    def in_loops_on(
        self, line: int | None, is_one: Callable[[Instruction], bool] = lambda _: True
    ) -> list[int]:
        """As `on_line`, of those that stand in a loop."""
        return [i for i in self.on_line(line, is_one) if self.flow.depths[i]]

    def global_on(self, line: int | None) -> list[int]:
        """Indices of the global-memory instructions that a line of the kernel became."""
        if line not in self._global:
            self._global[line] = self.on_line(line, lambda x: space_of(x) == "global")
        return list(self._global[line])

    @cached_property
    def _global(self) -> dict[int | None, list[int]]:
        return {}

    def through_line(self, line: int) -> list[Instruction]:
        """Instructions that were written on a line of the file, or inlined through it."""
        return [x for x in self.instructions if self.table.passes(x, line)]

    def weigh(self, indices: Collection[int]) -> float:
        """Weighted executions of some instructions."""
        return sum(self.weights[i] for i in indices)

    def weights_by_line(self, indices: Collection[int], lines: Sequence[int | None]) -> dict[int, float]:
        """Weighted executions of some instructions by line, of the lines that `lines` gives all of them."""
        found: dict[int, float] = {}
        for i in indices:
            line = lines[i]
            if line is not None:
                found[line] = found.get(line, 0.0) + self.weights[i]
        return found

    def hottest_line(self, indices: Collection[int]) -> int | None:
        """The kernel's line with the largest weight among some instructions."""
        return heaviest(self.weights_by_line(indices, self.lines))

    @cached_property
    def cycles(self) -> dict[str, float]:
        """Cycles of an SM that one warp's pass takes of each pipe, and "issue" (`sass.throughput`)."""
        return pipe_cycles(self.instructions, self.weights, self.gpu)

    def cycles_at(self, weights: Sequence[float]) -> dict[str, float]:
        """As `cycles`, with other weights."""
        return pipe_cycles(self.instructions, weights, self.gpu)

    def cycles_of(self, weights: Mapping[int, float]) -> dict[str, float]:
        """As `cycles`, of some instructions alone: their indices with their weights."""
        return pipe_cycles([self.instructions[i] for i in weights], list(weights.values()), self.gpu)

    def without(self, gone: Collection[int]) -> list[float]:
        """The weights with some instructions' at nothing."""
        left = frozenset(gone)
        return [0.0 if i in left else w for i, w in enumerate(self.weights)]

    @cached_property
    def lane_dependent(self) -> frozenset[int]:
        """Indices of the instructions with an operand that may differ between lanes."""
        return lane_dependent(self.instructions)

    @cached_property
    def patterns(self) -> tuple[AddressPattern, ...]:
        """The addresses of the global and shared accesses, followed lane by lane (`sass.addresses`)."""
        if self.compiled is None:
            return ()
        return address_patterns(self.compiled, self.flow, self.block, self.gpu.limits)

    @cached_property
    def counted_shares(self) -> dict[int, float]:
        """Share of an iteration's executions, of instructions that wait for a counter (`sass.by_data`)."""
        return counted_shares(self.instructions, self.flow)

    @cached_property
    def skipped_by_data(self) -> frozenset[int]:
        """Indices of what floating-point values let an iteration skip (`sass.by_data`)."""
        return frozenset(i for skip in self.skips_by_data for i in skip.skipped)

    @cached_property
    def skips_by_data(self) -> tuple[Skip, ...]:
        """The branches by which they do (`sass.by_data`)."""
        return skips_by_data(self.instructions, self.flow)

    def feeding(self, wanted: Collection[int]) -> frozenset[int]:
        """Indices of arithmetic that only prepares what some instructions read (`sass.backward_slice`)."""
        return backward_slice(self.instructions, self.flow, wanted)

    @cached_property
    def loaded_bytes(self) -> int:
        """Bytes of global loads that one thread has in flight: those of the deepest loop that loads."""
        loads = self.where(lambda x: space_of(x) == "global" and is_load(x))
        deepest = max((self.flow.depths[i] for i in loads), default=0)
        return sum(access_bytes(self.instructions[i]) for i in loads if self.flow.depths[i] == deepest)


def weights(flow: Flow) -> tuple[float, ...]:
    """Relative executions of the instructions of a flow; see `Sass.weights`."""
    return tuple(
        RARE_WEIGHT if i in flow.rare else TRIPS_PER_LEVEL**depth for i, depth in enumerate(flow.depths)
    )


def heaviest(by_line: dict[int, float]) -> int | None:
    """The line with most, the first of them; None where there is none."""
    return max(sorted(by_line), key=lambda line: by_line[line], default=None)


_ARITHMETIC = frozenset({"fp64", "fp32", "fp16", "int", "alu", "sfu"})


def backward_slice(
    instructions: Sequence[Instruction], flow: Flow, wanted: Collection[int]
) -> frozenset[int]:
    """Indices of arithmetic whose every reader is one of `wanted`, or feeds one: none of `wanted` itself."""
    candidates = [i for i, x in enumerate(instructions) if pipe_of(x) in _ARITHMETIC]
    orders = _Orders(instructions, flow)
    readers = {i: orders.readers(i) for i in candidates}
    found: set[int] = set(wanted)
    grown = True
    while grown:
        fresh = {i for i in candidates if i not in found and readers[i] and readers[i] <= found}
        found |= fresh
        grown = bool(fresh)
    return frozenset(found - set(wanted))


class _Orders:
    """Where control goes on from an instruction: around its innermost loop once, then on behind it."""

    def __init__(self, instructions: Sequence[Instruction], flow: Flow) -> None:
        self.flow, self.count = flow, len(instructions)
        self.written: list[frozenset[str]] = []
        #: By register the instructions that read it, and those that give it another value whatever happens.
        self.reads: dict[str, list[int]] = {}
        self.sets: dict[str, list[int]] = {}
        for i, x in enumerate(instructions):
            written, read = registers_of(x)
            self.written.append(written)
            for name in read:
                self.reads.setdefault(name, []).append(i)
            for name in written if not x.predicate else ():
                self.sets.setdefault(name, []).append(i)
        self.firsts = [block.first for block in flow.blocks]
        self.loops: dict[int, Loop | None] = {}
        self.members: dict[Loop, frozenset[int]] = {}

    def readers(self, index: int) -> frozenset[int]:
        """Instructions that read what this one writes before it is written again."""
        loop = self._loop(index)
        if loop is None:
            return frozenset(self._until_set(index, ((None, index + 1, self.count),)))
        if loop not in self.members:
            self.members[loop] = frozenset(self.flow.instructions_of(loop))
        stretches = ((loop, index + 1, self.count), (loop, 0, index + 1), (None, index + 1, self.count))
        return frozenset(self._until_set(index, stretches))

    def _loop(self, index: int) -> Loop | None:
        block = bisect_right(self.firsts, index) - 1
        if block not in self.loops:
            self.loops[block] = self.flow.innermost(index)
        return self.loops[block]

    def _until_set(self, index: int, stretches: Sequence[tuple[Loop | None, int, int]]) -> Iterator[int]:
        """Readers of each register in stretches of code, of a loop or of all, up to where it gets another value."""
        for name in self.written[index]:
            for loop, begin, end in stretches:
                stop = next(self._within(self.sets.get(name, ()), loop, begin, end), None)
                yield from self._within(
                    self.reads.get(name, ()), loop, begin, end if stop is None else stop + 1
                )
                if stop is not None:
                    break

    def _within(self, indices: Sequence[int], loop: Loop | None, begin: int, end: int) -> Iterator[int]:
        for at in range(bisect_left(indices, begin), bisect_left(indices, end)):
            if loop is None or indices[at] in self.members[loop]:
                yield indices[at]
