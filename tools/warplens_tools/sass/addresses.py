"""Addresses of a kernel's global and shared accesses as SASS computes them, lane by lane.

Every access gets the distance of neighbouring lanes, the alignment of the first one's address, the sectors
that a full warp's request touches or the bank conflicts it has, or the reason why they are not known.
What is told holds for a warp all of whose lanes make the access, where

- a pointer parameter is aligned to 256 bytes, as `cudaMalloc` gives it ("CUDA C++ Programming Guide",
  "Device Memory Accesses"), and every access to its own width, as the hardware demands;
- index arithmetic does not overflow, and the lanes of a warp lie less than 4 GB apart;
- where the block is not known, `blockDim.x` is a multiple of 32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from warplens_tools.arch.gpu import Limits
from warplens_tools.banks import conflict_degree, wavefronts
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.sass import lanes
from warplens_tools.sass.lanes import Atom, Held, Opaque, Value
from warplens_tools.sass.paths import Paths, paths_of
from warplens_tools.sass.pipes import access_bytes, space_of
from warplens_tools.sass.semantics import Launch, Machine, Split, State, registers_written, worst

Block = tuple[int, int, int]
#: Alignment of what `cudaMalloc` returns, in bytes.
ALLOCATION = 256
#: Kernels with more instructions are not followed: each pass over one takes about 10 µs.
MOST_INSTRUCTIONS = 12_000
_MOST_PASSES = 40
_WARP = 32


class AddressPattern(msgspec.Struct, frozen=True):
    """One access of a warp. Sizes in bytes."""

    #: Index of the instruction.
    index: int
    space: Literal["global", "shared"]
    #: Of one lane.
    width: int
    #: Between neighbouring lanes; None where it differs or is not known.
    stride: int | None = None
    #: A power of two that divides the first lane's address, 256 at most; 0 where nothing is known.
    alignment: int = 0
    #: Fewest and most sectors of a request, as the alignment leaves it open; None where not known.
    sectors: tuple[int, int] | None = None
    #: Passes over those of a conflict-free access, and the passes; None where not known.
    conflict: float | None = None
    passes: int | None = None
    #: "4*lane + 1024*blockIdx.x + c[0x0][0x210]"; "" where nothing is known.
    form: str = ""
    #: Why something is not known; "" where all is.
    why: str = ""


def address_patterns(
    compiled: CompiledKernel, block: Block | None, limits: Limits
) -> tuple[AddressPattern, ...]:
    """Global and shared accesses of a kernel in program order. `block`: extents of every launch; None if not known."""
    instructions = compiled.instructions
    wanted = [i for i, x in enumerate(instructions) if space_of(x) in ("global", "shared")]
    launch = launch_of(block, compiled.arch)
    if isinstance(launch, str):
        return _unknown(instructions, wanted, launch)
    if len(instructions) > MOST_INSTRUCTIONS:
        return _unknown(instructions, wanted, "the kernel is too long to be followed")
    paths = paths_of(instructions)
    if isinstance(paths, str):
        return _unknown(instructions, wanted, paths)
    found = Follower(instructions, paths, launch).patterns(limits)
    if block is None or all(_is_told(p) for p in found):
        return found
    every = warps_of(block)
    if len(every) * len(instructions) > MOST_INSTRUCTIONS:
        return found
    # what mixes the lane with the warp's number is known once the number is
    each = [launch_of(block, compiled.arch, warp) for warp in every]
    single = [Follower(instructions, paths, x).patterns(limits) for x in each if isinstance(x, Launch)]
    return tuple(p if _is_told(p) else merged([s[n] for s in single], p) for n, p in enumerate(found))


def _is_told(pattern: AddressPattern) -> bool:
    return pattern.sectors is not None or pattern.conflict is not None


def warps_of(block: Block) -> list[tuple[int, int, int]]:
    """Numbers of a block's warps along its axes, as `launch_of` counts them."""
    steps = _steps(block)
    if steps is None:
        return []
    counts = [range(max(1, -(-size // step))) for size, step in zip(block, steps, strict=True)]
    return [(x, y, z) for z in counts[2] for y in counts[1] for x in counts[0]]


def merged(found: Sequence[AddressPattern], whole: AddressPattern) -> AddressPattern:
    """What holds for every warp of a block; `whole` where a warp's access is not known."""
    if not found or not all(_is_told(p) for p in found):
        return whole
    strides, conflicts = {p.stride for p in found}, {(p.conflict, p.passes) for p in found}
    if len(conflicts) > 1:
        return whole
    conflict, passes = conflicts.pop()
    sectors = [p.sectors for p in found if p.sectors is not None]
    return msgspec.structs.replace(
        found[0],
        stride=strides.pop() if len(strides) == 1 else None,
        alignment=min(p.alignment for p in found),
        sectors=(min(s[0] for s in sectors), max(s[1] for s in sectors)) if sectors else None,
        conflict=conflict,
        passes=passes,
        form=whole.form or "differs from warp to warp",
    )


def launch_of(block: Block | None, arch: str, warp: tuple[int, int, int] | None = None) -> Launch | str:
    """threadIdx of a warp's lanes, and the words in which a kernel finds its launch; else why there is none.

    `warp` numbers one warp along the block's axes; without it the numbers stay open.
    """
    first = 0x360 if int("".join(c for c in arch if c.isdigit()) or 0) >= 100 else 0
    grid = 0x370 if first else 0xC
    constants = {(0, grid + 4 * n): lanes.atom(f"gridDim.{axis}") for n, axis in enumerate("xyz")}
    sizes = [lanes.atom(f"blockDim.{a}") for a in "xyz"] if block is None else map(lanes.number, block)
    constants |= {(0, first + 4 * n): size for n, size in enumerate(sizes)}
    if block is None:
        row = lanes.per_lane(range(_WARP))
        threads = (_plus(row, _WARP, "warp.x"), lanes.atom("warp.y"), lanes.atom("warp.z"))
        return Launch(threads, _WARP, constants)
    steps = _steps(block)
    if steps is None:
        return f"a block of {' x '.join(map(str, block))} threads does not fall into equal warps"
    x, y, _ = block
    count = min(_WARP, math.prod(block))
    within = [
        [n if steps[0] == _WARP else n % x for n in range(count)],
        [0 if steps[0] == _WARP else n // x % y for n in range(count)],
        [0 if steps[0] == _WARP else n // (x * y) for n in range(count)],
    ]
    along = [
        _plus(lanes.per_lane(own), step, f"warp.{axis}" if size > step else "", warp[n] if warp else None)
        for n, (own, step, size, axis) in enumerate(zip(within, steps, block, "xyz", strict=True))
    ]
    return Launch((along[0], along[1], along[2]), count, constants)


def _steps(block: Block) -> tuple[int, int, int] | None:
    """By how much threadIdx grows from warp to warp along each axis; None where warps differ otherwise."""
    x, y, z = block
    if x % _WARP == 0 or (y == 1 and z == 1):
        return _WARP, 1, 1
    rows = _WARP // x
    if _WARP % x or (y % rows and rows % y and z > 1):
        return None
    if y % rows == 0 or z == 1:
        return (x, rows, 1) if y % rows == 0 or y < rows else None
    return x, y, rows // y


def _plus(own: Value, step: int, name: str, number: int | None = None) -> Value:
    if not name:
        return own
    moved = lanes.number(step * number) if number is not None else Value((((name,), step),))
    both = lanes.add(own, moved)
    assert isinstance(both, Value), "two terms are few"
    return both


def _launch_atoms() -> dict[str, Atom]:
    found = {f"warp.{axis}": Atom(1, natural=True) for axis in "xyz"}
    found |= {f"gridDim.{axis}": Atom(1, natural=True) for axis in "xyz"}
    found |= {f"blockDim.{axis}": Atom(_WARP if axis == "x" else 1, natural=True) for axis in "xyz"}
    return found


def _unknown(
    instructions: Sequence[Instruction], wanted: Sequence[int], why: str
) -> tuple[AddressPattern, ...]:
    return tuple(
        AddressPattern(i, _space(instructions[i]), access_bytes(instructions[i]), why=why) for i in wanted
    )


def _space(instruction: Instruction) -> Literal["global", "shared"]:
    return "shared" if space_of(instruction) == "shared" else "global"


class Follower:
    """Carries registers along all paths until nothing changes, then reads the addresses.

    A register that a loop changes is its value on entry plus an atom, as long as every iteration adds what
    all lanes share; else it is opaque.
    """

    def __init__(self, instructions: Sequence[Instruction], paths: Paths, launch: Launch) -> None:
        self.instructions = instructions
        self.paths = paths
        self.machine = Machine(launch, _launch_atoms())
        self.exits: dict[int, State] = {}
        #: Blocks whose closing branch lanes may take differently.
        self.divided: dict[int, Split] = {}
        #: Registers by loop header that iterations change: by a shared amount, or in unknown ways.
        self.changing: dict[int, set[str]] = {}
        self.lost: dict[int, set[str]] = {}

    def patterns(self, limits: Limits) -> tuple[AddressPattern, ...]:
        """Every access, once nothing changes any more."""
        for _ in range(_MOST_PASSES):
            if not self._pass():
                break
        else:
            wanted = [i for i, x in enumerate(self.instructions) if space_of(x) in ("global", "shared")]
            return _unknown(self.instructions, wanted, "the loops are too entangled to be followed")
        return tuple(self._read(limits))

    def _pass(self) -> bool:
        """One pass over all blocks; whether anything was learnt that changes another."""
        before = (dict(self.machine.atoms), dict(self.divided), _sizes(self.changing), _sizes(self.lost))
        for b in self.paths.order:
            state = self._entry(b)
            self.machine.block = b
            for i in self.paths.instructions(b):
                self._step(state, i)
            self.exits[b] = state
            split = self._branch(b, state)
            if split != "uniform":
                self.divided[b] = worst(split, self.divided.get(b, split))
        for header in self.paths.loops:
            self._compare(header)
        return before != (self.machine.atoms, self.divided, _sizes(self.changing), _sizes(self.lost))

    def _branch(self, b: int, state: State) -> Split:
        if len(self.paths.successors[b]) < 2:
            return "uniform"
        last = self.instructions[self.paths.blocks[b].last]
        tests: list[Split] = [self.machine.split(state, o) for o in last.operands]
        if {"DIV", "CONV"} & set(last.modifiers):
            tests.append("data")
        return worst(self.machine.guard(state, last), *tests)

    def _step(self, state: State, i: int) -> None:
        instruction = self.instructions[i]
        if instruction.opcode == "CALL":
            for name in self.paths.clobbered(i, registers_written):
                state.registers.pop(name, None)
            state.predicates.clear()
        else:
            self.machine.step(state, instruction)

    def _entry(self, b: int) -> State:
        """Registers at the start of a block: what its predecessors agree on."""
        self.machine.block = b
        before = [p for p in self.paths.predecessors[b] if p in self.exits and not self.paths.is_back(p, b)]
        states = [self._leaving(p, b) for p in before]
        if not states:
            return State()
        state = states[0] if len(states) == 1 else self._joined(b, states)
        if b in self.paths.loops:
            self._vary(b, state)
        return state

    def _leaving(self, p: int, b: int) -> State:
        """The state on an edge: where lanes leave a loop in different iterations, what it changes is lost."""
        state = self.exits[p].copy()
        left = [loop for loop in self.paths.loops.values() if p in loop.blocks and b not in loop.blocks]
        inside = {x for loop in left if self._leaves_divided(loop.blocks) for x in loop.blocks}
        if not inside:
            return state
        changed = {name for name, known in self.machine.atoms.items() if known.block in inside}
        for name, held in list(state.registers.items()):
            if isinstance(held, Value) and held.atoms & changed:
                state.registers[name] = Opaque("lanes leave a loop in different iterations")
        for i in (i for x in inside for i in self.paths.instructions(x)):
            for operand in self.instructions[i].operands[:2]:
                state.predicates.pop(operand, None)
        return state

    def _leaves_divided(self, blocks: frozenset[int]) -> bool:
        return any(
            b in self.divided and any(s not in blocks for s in self.paths.successors[b]) for b in blocks
        )

    def _joined(self, b: int, states: Sequence[State]) -> State:
        split = self._join_split(b)
        first, others = states[0], states[1:]
        joined = State()
        for name, held in first.registers.items():
            found: Held = held
            for n, other in enumerate(others):
                its = other.registers.get(name, Opaque("it is not set on every path"))
                found = self.machine.either(found, its, split, f"{name}:{b}.{n}")
            joined.registers[name] = found
        for name, predicate in first.predicates.items():
            its = [s.predicates.get(name) for s in others]
            if all(p == predicate for p in its):
                joined.predicates[name] = predicate
            elif split == "uniform" and all(p is not None and p.split == "uniform" for p in its):
                if predicate.split == "uniform":
                    joined.predicates[name] = msgspec.structs.replace(predicate, where=-2 - b)
        return joined

    def _join_split(self, b: int) -> Split:
        return "data" if any(b in self.paths.influenced(p) for p in self.divided) else "uniform"

    def _vary(self, header: int, state: State) -> None:
        """Give registers that iterations change the form that they have in any of them."""
        for name in self.changing.get(header, ()):
            held = state.registers.get(name)
            if isinstance(held, Value):
                state.registers[name] = lanes.add(held, self._iterated(header, name))
        for name in self.lost.get(header, ()):
            state.registers[name] = Opaque("iterations change it by what lanes do not share")
        body = self.paths.loops[header].blocks
        for i in (i for b in body for i in self.paths.instructions(b)):
            for operand in self.instructions[i].operands[:2]:
                # set in the loop: another iteration's at its start
                state.predicates.pop(operand, None)

    def _iterated(self, header: int, name: str) -> Value:
        label = f"iterations({name}, loop {header})"
        if label not in self.machine.atoms:
            self.machine.block = header
            return self.machine.define(label, lanes.MOST_MULTIPLE, natural=True)
        return lanes.atom(label)

    def _compare(self, header: int) -> None:
        """Compare what a loop's iterations leave with what they found."""
        start = self._entry(header)
        for p in self.paths.predecessors[header]:
            if not self.paths.is_back(p, header) or p not in self.exits:
                continue
            end = self._leaving(p, header)
            for name, held in start.registers.items():
                after = end.registers.get(name, Opaque("it is not set on every path"))
                if after != held and isinstance(held, Value):
                    self._changed(header, name, held, after)

    def _changed(self, header: int, name: str, held: Value, after: Held) -> None:
        apart = lanes.subtract(after, held) if isinstance(after, Value) else after
        if isinstance(apart, Opaque) or not apart.uniform:
            self.lost.setdefault(header, set()).add(name)
            return
        self.changing.setdefault(header, set()).add(name)
        self._iterated(header, name)
        self.machine.block = header
        label = f"iterations({name}, loop {header})"
        multiple = lanes.multiple_of(apart, self.machine.atoms)
        self.machine.define(label, multiple, lanes.is_natural(apart, self.machine.atoms))

    def _read(self, limits: Limits) -> list[AddressPattern]:
        guards = self._guards()
        found: dict[int, list[AddressPattern]] = {}
        for b in self.paths.order:
            state = self._entry(b)
            self.machine.block = b
            for i in self.paths.instructions(b):
                instruction = self.instructions[i]
                if space_of(instruction) in ("global", "shared"):
                    part = b in guards or self.machine.guard(state, instruction) == "lanes"
                    found[i] = self._accesses(i, state, limits, part=part)
                self._step(state, i)
        for i, instruction in enumerate(self.instructions):
            if space_of(instruction) in ("global", "shared") and i not in found:
                found[i] = list(_unknown(self.instructions, [i], "no path is known that leads to it"))
        return [pattern for i in sorted(found) for pattern in found[i]]

    def _guards(self) -> set[int]:
        """Blocks that threadIdx alone keeps lanes out of."""
        guarded: set[int] = set()
        for b, split in self.divided.items():
            if split == "lanes":
                guarded |= self.paths.region(b)
        for b in self.paths.order:
            state = self._entry(b)
            self.machine.block = b
            for i in self.paths.instructions(b):
                x = self.instructions[i]
                if x.opcode == "EXIT" and self.machine.guard(state, x) == "lanes":
                    guarded |= self.paths.reachable(b)
                self._step(state, i)
        return guarded

    def _accesses(self, i: int, state: State, limits: Limits, *, part: bool) -> list[AddressPattern]:
        instruction = self.instructions[i]
        width = access_bytes(instruction)
        if instruction.opcode == "LDGSTS":
            into = self.machine.address(state, instruction, 0)
            out = self.machine.address(state, instruction)
            return [
                self._pattern(i, "shared", width, into, limits, part=part),
                self._pattern(i, "global", width, out, limits, part=part),
            ]
        held = self.machine.address(state, instruction)
        if instruction.opcode in ("LDSM", "STSM"):
            # eight lanes give the rows of each matrix, 16 bytes a row
            rows = 8 * max(1, width // 4)
            return [self._pattern(i, "shared", 16, held, limits, part=part, count=rows)]
        return [self._pattern(i, _space(instruction), width, held, limits, part=part)]

    def _pattern(
        self,
        i: int,
        space: Literal["global", "shared"],
        width: int,
        held: Held,
        limits: Limits,
        *,
        part: bool,
        count: int = _WARP,
    ) -> AddressPattern:
        if isinstance(held, Opaque):
            return AddressPattern(i, space, width, why=f"the address is not known: {held.why}")
        form, shared = lanes.describe(held), lanes.shared_part(held)
        if not shared.uniform:
            return AddressPattern(
                i, space, width, form=form, why="lanes are an unknown number of bytes apart"
            )
        own = lanes.lanes_of(held, self.machine.launch.lanes)[:count]
        base = max(self._alignment(shared, space), _own_alignment(width, own))
        found = AddressPattern(
            i, space, width, stride=lanes.stride_of(own), form=form,
            alignment=math.gcd(ALLOCATION, base, own[0]) if own[0] else min(base, ALLOCATION),
        )  # fmt: skip
        if part:
            return msgspec.structs.replace(found, why="threadIdx alone keeps some lanes from the access")
        addresses = [lanes.signed((n - own[0]) % lanes.MODULUS) for n in own]
        if space == "shared":
            return _with_conflicts(found, addresses, own[0] % 128, width, base, limits)
        return _with_sectors(found, addresses, own[0] % ALLOCATION, width, base, limits)

    def _alignment(self, shared: Value, space: str) -> int:
        """What divides the part of an address that lanes share; a pointer that is alone counts as allocated."""
        atoms = dict(self.machine.atoms)
        pointers = [m[0] for m, c in shared.terms if len(m) == 1 and c == 1 and m[0].startswith("c[0x0]")]
        if len(pointers) == 1 and space == "global":
            atoms[pointers[0]] = Atom(ALLOCATION)
        return min(ALLOCATION, lanes.multiple_of(shared, atoms))


def _own_alignment(width: int, own: Sequence[int]) -> int:
    """The hardware demands that every lane's address is a multiple of its width."""
    return math.gcd(width, ALLOCATION) if all(n % width == 0 for n in own) else 1


def _with_sectors(
    found: AddressPattern, addresses: Sequence[int], first: int, width: int, base: int, limits: Limits
) -> AddressPattern:
    counts = set()
    for start in range(0, limits.sector_bytes, min(base, limits.sector_bytes)):
        touched = {
            s
            for a in addresses
            for s in range(
                (a + first + start) // limits.sector_bytes,
                (a + first + start + width - 1) // limits.sector_bytes + 1,
            )
        }
        counts.add(len(touched))
    return msgspec.structs.replace(found, sectors=(min(counts), max(counts)))


def _with_conflicts(
    found: AddressPattern, addresses: Sequence[int], first: int, width: int, base: int, limits: Limits
) -> AddressPattern:
    seen = set()
    for start in range(0, limits.shared_bank_bytes, min(base, limits.shared_bank_bytes)):
        moved = [a + first + start for a in addresses]
        seen.add((conflict_degree(moved, width, limits), wavefronts(moved, width, limits)))
    if len(seen) > 1:
        return msgspec.structs.replace(found, why="the conflicts hang on an alignment that is not known")
    degree, passes = seen.pop()
    return msgspec.structs.replace(found, conflict=degree, passes=passes)


def _sizes(sets: dict[int, set[str]]) -> dict[int, int]:
    return {key: len(names) for key, names in sets.items()}
