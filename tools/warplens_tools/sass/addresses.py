# SPDX-License-Identifier: Apache-2.0
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
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES, Limits
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.sass import lanes
from warplens_tools.sass.banks import conflict_degree, wavefronts
from warplens_tools.sass.flow import Flow
from warplens_tools.sass.interpreter import AbstractInterpreter
from warplens_tools.sass.lanes import Atom, Atoms, LaneValue, Unknown, Value
from warplens_tools.sass.paths import paths_of
from warplens_tools.sass.pipes import access_bytes, space_of
from warplens_tools.sass.semantics import State
from warplens_tools.sass.warps import WARP, Block, Launch, full_warps, launch_of

Space = Literal["global", "shared"]
#: Alignment of what `cudaMalloc` returns, in bytes.
ALLOCATION = 256
#: Kernels with more instructions are not followed: following one takes about 60 µs an instruction.
MOST_INSTRUCTIONS = 4_000
#: The number in the form of an address.
_CONSTANT = re.compile(r"(?:^| \+ )(-?\d+)(?= \+ |$)")


class AddressPattern(msgspec.Struct, frozen=True):
    """One access of a warp. Sizes in bytes."""

    #: Index of the instruction.
    index: int
    space: Space
    #: Of one lane.
    width: int
    #: Between neighbouring lanes; None where it differs or is not known.
    stride: int | None = None
    #: A power of two that divides the first lane's address, 256 at most; 0 where nothing is known.
    alignment: int = 0
    #: Fewest and most sectors of a request, as the alignment leaves it open; None where not known.
    sectors: tuple[int, int] | None = None
    #: Bytes that the lanes want, every byte once, and the fewest cache lines they lie in; 0 where not known.
    wanted: int = 0
    lines: int = 0
    #: Passes over those of a conflict-free access, and the passes; None where not known.
    conflict: float | None = None
    passes: int | None = None
    #: Of each lane from the first one, where they conflict.
    at: tuple[int, ...] = ()
    #: "4*lane + 1024*blockIdx.x + c[0x0][0x210]"; "" where nothing is known.
    form: str = ""
    #: Whether not all lanes make the access, as threadIdx alone tells.
    part: bool = False
    #: Bytes from a lane to where a block, an iteration or a row of threads goes on from it, the nearest; 0 where none
    #: is known to. What is close by is wanted too, and lanes that a run-time value keeps apart are then a row apart.
    goes_on: int = 0
    #: Why something is not known; "" where all is.
    why: str = ""


def constant_of(form: str) -> int:
    """The number in the form of an address, in bytes."""
    return sum(map(int, _CONSTANT.findall(form)))


def without_constant(form: str) -> str:
    """The form of an address without the number in it: the same for accesses a fixed distance apart."""
    return " ".join(_CONSTANT.sub("", form).split())


def address_patterns(
    compiled: CompiledKernel, flow: Flow, block: Block | None, limits: Limits
) -> tuple[AddressPattern, ...]:
    """Global and shared accesses of a kernel in program order. `block`: extents of every launch; None if not known."""
    instructions = compiled.instructions
    if len(instructions) > MOST_INSTRUCTIONS:
        return _unknown(instructions, "the kernel is too long to be followed")
    paths = paths_of(instructions, flow)
    if isinstance(paths, str):
        return _unknown(instructions, paths)
    launch = launch_of(block, compiled.arch)
    if isinstance(launch, Launch):
        found, mixed = _patterns(AbstractInterpreter(instructions, paths, launch), limits)
    else:
        found, mixed = _unknown(instructions, launch), True
    if block is None or not mixed or full_warps(block) * len(instructions) > MOST_INSTRUCTIONS:
        return found
    # what mixes the lane with the warp's number is known once the number is
    each = [launch_of(block, compiled.arch, warp) for warp in range(full_warps(block))]
    single = [
        _patterns(AbstractInterpreter(instructions, paths, x), limits)[0]
        for x in each
        if isinstance(x, Launch)
    ]
    return tuple(p if _is_told(p) else _merged([s[n] for s in single], p) for n, p in enumerate(found))


def _patterns(interpreter: AbstractInterpreter, limits: Limits) -> tuple[tuple[AddressPattern, ...], bool]:
    """Every access of one warp, or of any; and whether the number of the warp would tell more of them."""
    instructions = interpreter.instructions
    if not interpreter.settle():
        return _unknown(instructions, "the loops are too entangled to be followed"), False
    guarded = interpreter.guarded()
    reader = _Reader(interpreter, limits)
    found: dict[int, list[AddressPattern]] = {}
    for b, i, state in interpreter.walk():
        if space_of(instructions[i]) in ("global", "shared"):
            part = b in guarded or interpreter.semantics.guard(state, instructions[i]) == "lanes"
            found[i] = reader.accesses(i, state, part=part)
    for pattern in _unknown(instructions, "no path is known that leads to it"):
        found.setdefault(pattern.index, [pattern])
    return tuple(pattern for i in sorted(found) for pattern in found[i]), reader.mixed


def _is_told(pattern: AddressPattern) -> bool:
    return pattern.sectors is not None or pattern.conflict is not None


def _merged(found: Sequence[AddressPattern], whole: AddressPattern) -> AddressPattern:
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
        wanted=max(p.wanted for p in found),
        lines=max(p.lines for p in found),
        conflict=conflict,
        passes=passes,
        form=whole.form or "differs from warp to warp",
    )


def _unknown(instructions: Sequence[Instruction], why: str) -> tuple[AddressPattern, ...]:
    found = []
    for i, x in enumerate(instructions):
        spaces: tuple[Space, ...] = ("shared", "global") if x.opcode == "LDGSTS" else (_space(x),)
        if space_of(x) in ("global", "shared"):
            found += [AddressPattern(i, space, access_bytes(x), why=why) for space in spaces]
    return tuple(found)


def _space(instruction: Instruction) -> Space:
    return "shared" if space_of(instruction) == "shared" else "global"


class _Reader:
    """Reads addresses where a interpreter stands."""

    def __init__(self, interpreter: AbstractInterpreter, limits: Limits) -> None:
        self.instructions = interpreter.instructions
        self.semantics = interpreter.semantics
        self.limits = limits
        self.mixed = False

    def accesses(self, i: int, state: State, *, part: bool) -> list[AddressPattern]:
        """Those of one instruction; `part`: not all lanes of a warp make them."""
        instruction = self.instructions[i]
        width = access_bytes(instruction)
        if instruction.opcode == "LDGSTS":
            into = self.semantics.address(state, instruction, 0)
            out = self.semantics.address(state, instruction)
            return [
                self._pattern(i, "shared", width, into, part=part),
                self._pattern(i, "global", width, out, part=part),
            ]
        held = self.semantics.address(state, instruction)
        if instruction.opcode in ("LDSM", "STSM"):
            # eight lanes give the rows of each matrix, 16 bytes a row
            rows = 8 * max(1, width // 4)
            return [self._pattern(i, "shared", 16, held, part=part, count=rows)]
        return [self._pattern(i, _space(instruction), width, held, part=part)]

    def _pattern(
        self,
        i: int,
        space: Space,
        width: int,
        held: LaneValue,
        *,
        part: bool,
        count: int = WARP,
    ) -> AddressPattern:
        if isinstance(held, Unknown):
            self.mixed = self.mixed or held.mixed
            return AddressPattern(i, space, width, why=f"the address is not known: {held.why}")
        form, shared = lanes.describe(held), lanes.shared_part(held)
        goes_on = _goes_on(shared, self.semantics.atoms, self.semantics.launch.block)
        if not shared.uniform:
            return AddressPattern(
                i,
                space,
                width,
                form=form,
                part=part,
                goes_on=goes_on,
                why="lanes are an unknown number of bytes apart",
            )
        own = lanes.lanes_of(held, self.semantics.launch.lanes)[:count]
        base = max(_alignment(shared, space, self.semantics.atoms), _own_alignment(width, own))
        found = AddressPattern(
            i, space, width, stride=lanes.stride_of(own), form=form, part=part, goes_on=goes_on,
            alignment=math.gcd(ALLOCATION, base, own[0]) if own[0] else min(base, ALLOCATION),
        )  # fmt: skip
        if part:
            return msgspec.structs.replace(found, why="threadIdx alone keeps some lanes from the access")
        addresses = [lanes.signed((n - own[0]) % lanes.MODULUS) for n in own]
        if space == "shared":
            return _with_conflicts(found, addresses, own[0] % 128, width, base, self.limits)
        return _with_sectors(found, addresses, own[0] % ALLOCATION, width, base, self.limits)


def _goes_on(shared: Value, atoms: Atoms, block: Block | None) -> int:
    """The least by which one atom of a sum moves it, over a sector at least by all its values; 0 where none does.
    What is the same in the whole launch moves nothing."""
    found = []
    for monomial, c in shared.terms:
        if isinstance(c, int):
            count, each = _steps(monomial, atoms, block)
            step = each * abs(lanes.signed(c))
            if count * step >= SECTOR_BYTES:
                found.append(step)
    return min(found, default=0)


def _steps(monomial: tuple[str, ...], atoms: Atoms, block: Block | None) -> tuple[int, int]:
    """How many blocks, iterations or rows of threads there are at least, and by how much the next changes a product of
    atoms; 0 where none does, or it is open. Blocks and iterations are many."""
    names = [name for name in monomial if name not in ("blockDim.y", "blockDim.z")]
    if len(names) != 1:
        return 0, 0
    name = names[0]
    if name.startswith("blockIdx."):
        return WARP, 1
    if len(monomial) > 1:
        return 0, 0
    if name.startswith("warp."):
        axis = "xyz".index(name[-1])
        return (block[axis], 1) if block is not None and axis else (0, 0)
    return WARP, max(0, atoms[name].step) if name in atoms else 0


def _alignment(shared: Value, space: Space, atoms: Atoms) -> int:
    """What divides the part of an address that lanes share; a pointer that is alone counts as allocated."""
    pointers = [m[0] for m, c in shared.terms if len(m) == 1 and c == 1 and m[0].startswith("c[0x0]")]
    if len(pointers) == 1 and space == "global":
        atoms = {**atoms, pointers[0]: Atom(ALLOCATION)}
    return min(ALLOCATION, lanes.multiple_of(shared, atoms))


def _own_alignment(width: int, own: Sequence[int]) -> int:
    """The hardware demands that every lane's address is a multiple of its width."""
    return math.gcd(width, ALLOCATION) if all(n % width == 0 for n in own) else 1


def _with_sectors(
    found: AddressPattern, addresses: Sequence[int], first: int, width: int, base: int, limits: Limits
) -> AddressPattern:
    starts = [
        first + start for start in range(0, limits.cache_line_bytes, min(base, limits.cache_line_bytes))
    ]
    sectors = [_units([a + start for a in addresses], width, SECTOR_BYTES) for start in starts]
    lines = [_units([a + start for a in addresses], width, limits.cache_line_bytes) for start in starts]
    return msgspec.structs.replace(
        found,
        sectors=(min(sectors), max(sectors)),
        wanted=_units(addresses, width, 1),
        lines=min(lines),
    )


def _units(addresses: Sequence[int], width: int, size: int) -> int:
    """Aligned stretches of `size` bytes that the lanes' accesses touch."""
    return len({n for a in addresses for n in range(a // size, (a + width - 1) // size + 1)})


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
    at = tuple(addresses) if degree > 1.0 else ()
    return msgspec.structs.replace(found, conflict=degree, passes=passes, at=at)
