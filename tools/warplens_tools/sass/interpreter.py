# SPDX-License-Identifier: Apache-2.0
"""Carries registers along all paths of a kernel until nothing changes any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass import lanes
from warplens_tools.sass.lanes import LaneValue, Unknown, Value
from warplens_tools.sass.paths import Paths
from warplens_tools.sass.results import registers_written
from warplens_tools.sass.semantics import Predicate, Semantics, Split, State, worst
from warplens_tools.sass.warps import Launch, launch_atoms

_MOST_PASSES = 40
_UNSET = Predicate("data", -1)


class AbstractInterpreter:
    """Carries registers along all paths until nothing changes, then reads the addresses.

    A register that a loop changes is its value on entry plus an atom, as long as every iteration adds what
    all lanes share; else it is opaque.
    """

    def __init__(self, instructions: Sequence[Instruction], paths: Paths, launch: Launch) -> None:
        self.instructions = instructions
        self.paths = paths
        self.semantics = Semantics(launch, launch_atoms())
        self.exits: dict[int, State] = {}
        #: Blocks whose closing branch lanes may take differently.
        self.divided: dict[int, Split] = {}
        #: Registers by loop header that iterations change: by a shared amount, or in unknown ways.
        self.changing: dict[int, set[str]] = {}
        self.lost: dict[int, set[str]] = {}

    def settle(self) -> bool:
        """Pass over the kernel until nothing changes; False where that takes too long."""
        return any(not self._pass() for _ in range(_MOST_PASSES))

    def walk(self) -> Iterator[tuple[int, int, State]]:
        """Every instruction that a path reaches: its block, its index, and the state before it."""
        for b in self.paths.order:
            state = self._entry(b)
            self.semantics.block = b
            for i in self.paths.instructions(b):
                yield b, i, state
                self._step(state, i)

    def guarded(self) -> set[int]:
        """Blocks that threadIdx alone keeps lanes out of."""
        found: set[int] = set()
        for b, split in self.divided.items():
            if split == "lanes":
                found |= self.paths.region(b)
        for b, i, state in self.walk():
            if (
                self.instructions[i].opcode == "EXIT"
                and self.semantics.guard(state, self.instructions[i]) == "lanes"
            ):
                found |= self.paths.reachable(b)
        return found

    def _pass(self) -> bool:
        """One pass over all blocks; whether anything was learnt that changes another."""
        before = (dict(self.semantics.atoms), dict(self.divided), _sizes(self.changing), _sizes(self.lost))
        for b in self.paths.order:
            state = self._entry(b)
            self.semantics.block = b
            for i in self.paths.instructions(b):
                self._step(state, i)
            self.exits[b] = state
            split = self._branch(b, state)
            if split != "uniform":
                self.divided[b] = worst(split, self.divided.get(b, split))
        for header in self.paths.loops:
            self._compare(header)
        return before != (self.semantics.atoms, self.divided, _sizes(self.changing), _sizes(self.lost))

    def _branch(self, b: int, state: State) -> Split:
        if len(self.paths.successors[b]) < 2:
            return "uniform"
        last = self.instructions[self.paths.blocks[b].last]
        tests: list[Split] = [self.semantics.split(state, o) for o in last.operands]
        if {"DIV", "CONV"} & set(last.modifiers):
            tests.append("data")
        return worst(self.semantics.guard(state, last), *tests)

    def _step(self, state: State, i: int) -> None:
        instruction = self.instructions[i]
        if instruction.opcode == "CALL":
            clobbered = self.paths.clobbered(i, registers_written)
            for name in list(state.registers):
                if clobbered is None or name in clobbered:
                    del state.registers[name]
            state.predicates.clear()
            state.guarded.clear()
        else:
            self.semantics.step(state, instruction)

    def _entry(self, b: int) -> State:
        """Registers at the start of a block: what its predecessors agree on."""
        self.semantics.block = b
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
        changed = {name for name, known in self.semantics.atoms.items() if known.block in inside}
        for name, held in list(state.registers.items()):
            if isinstance(held, Value) and held.atoms & changed:
                state.registers[name] = Unknown("lanes leave a loop in different iterations")
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
            found: LaneValue = held
            for n, other in enumerate(others):
                its = other.registers.get(name, Unknown("it is not set on every path"))
                found = self.semantics.either(found, its, split, f"{name}:{b}.{n}")
            joined.registers[name] = found
        for name, predicate in first.predicates.items():
            every = [predicate, *(s.predicates.get(name, _UNSET) for s in others)]
            if all(p == predicate for p in every):
                joined.predicates[name] = predicate
            elif split == "uniform" and all(p.split == "uniform" for p in every):
                joined.predicates[name] = Predicate("uniform", -2 - b)
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
            state.registers[name] = Unknown("iterations change it by what lanes do not share")
        state.guarded.clear()
        body = self.paths.loops[header].blocks
        for i in (i for b in body for i in self.paths.instructions(b)):
            for operand in self.instructions[i].operands[:2]:
                # set in the loop: another iteration's at its start
                state.predicates.pop(operand, None)

    def _iterated(self, header: int, name: str) -> Value:
        label = f"iterations({name}, loop {header})"
        if label not in self.semantics.atoms:
            self.semantics.block = header
            return self.semantics.define(label, lanes.MOST_MULTIPLE, natural=True)
        return lanes.atom(label)

    def _compare(self, header: int) -> None:
        """Compare what a loop's iterations leave with what they found."""
        start = self._entry(header)
        for p in self.paths.predecessors[header]:
            if not self.paths.is_back(p, header) or p not in self.exits:
                continue
            end = self._leaving(p, header)
            for name, held in start.registers.items():
                after = end.registers.get(name, Unknown("it is not set on every path"))
                if after != held and isinstance(held, Value):
                    self._changed(header, name, held, after)

    def _changed(self, header: int, name: str, held: Value, after: LaneValue) -> None:
        apart = lanes.subtract(after, held) if isinstance(after, Value) else after
        if isinstance(apart, Unknown) or not apart.uniform:
            self.lost.setdefault(header, set()).add(name)
            return
        self.changing.setdefault(header, set()).add(name)
        self._iterated(header, name)
        self.semantics.block = header
        label = f"iterations({name}, loop {header})"
        multiple, step = lanes.multiple_of(apart, self.semantics.atoms), apart.number
        self.semantics.define(
            label,
            multiple,
            lanes.is_natural(apart, self.semantics.atoms),
            abs(lanes.signed(step)) if step else -1,
        )


def _sizes(sets: dict[int, set[str]]) -> dict[int, int]:
    return {key: len(names) for key, names in sets.items()}
