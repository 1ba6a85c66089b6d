# SPDX-License-Identifier: Apache-2.0
"""Which lanes of a warp come to an access: what stands under `threadIdx.y == 0` or `i % width == 0` is made by those
that meet it, and the sectors that the others would touch are nobody's."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.conditions import Comparison
from warplens_tools.cuda.facts.guards import FEW
from warplens_tools.cuda.values.forms import Symbol
from warplens_tools.sass.banks import warp_lanes

#: A row's length where it is not known, and the blocks that are looked at.
_ROW, _BLOCKS = 1000, 64

Lanes = Sequence[tuple[int, int, int]]


class Coming:
    """The lanes of one kernel's accesses, in blocks of these extents."""

    def __init__(
        self,
        block: tuple[int, int, int],
        warp_size: int,
        known: Mapping[str, int],
        value: Callable[[Symbol, Mapping[str, int]], int],
    ) -> None:
        self.block, self.warp_size, self.known, self.value = block, warp_size, known, value
        self.first: Lanes = warp_lanes(block, warp_size)
        self._found: dict[tuple[object, ...], Lanes] = {}
        self._seldom: dict[Comparison, bool] = {}

    def lanes(self, access: ArrayAccess, probe: Mapping[str, int]) -> Lanes:
        """The lanes, in (x, y, z), of the first warp of which any come, with what is not known as `probe` has it: one
        where an equality lets few of a block come, all of a warp where nothing tells."""
        if access.one or any(self._is_seldom(t) for t in access.come):
            return self.first[:1]
        tests = tuple(t for t in access.come if self._tells(t))
        if not tests:
            return self.first
        key = (tests, tuple(probe.items()))
        if key not in self._found:
            self._found[key] = self._lanes(tests, probe)
        return self._found[key]

    def _tells(self, test: Comparison) -> bool:
        """Whether a test says who comes: a bound that only the launch knows, or that a loop moves, does not."""
        kinds = {s.kind for s in test.symbols if s.name not in self.known}
        return "loop" not in kinds and ("parameter" not in kinds or test.kind == "==")

    def _is_seldom(self, test: Comparison) -> bool:
        """Whether few threads of a grid meet it: an equality of what goes through all blocks (`i / n == 0`)."""
        if test.kind != "==" or not any(s.kind == "block" for s in test.symbols):
            return False
        if test not in self._seldom:
            given = {s.name: self.known.get(s.name, _ROW) for s in test.symbols if s.kind in _PLAIN}
            given |= dict(zip(_SIZES, self.block, strict=True))
            blocks = [s.name for s in test.symbols if s.kind == "block"]
            every = [
                {**given, **dict.fromkeys(blocks, b), **dict.fromkeys(_NAMES, 0), "threadIdx.x": n}
                for b in range(_BLOCKS)
                for n in range(0, self.block[0], -(-self.block[0] // FEW))
            ]
            self._seldom[test] = _chooses(test, every)
        return self._seldom[test]

    def _lanes(self, tests: Sequence[Comparison], probe: Mapping[str, int]) -> Lanes:
        same = {s.name: self.value(s, probe) for t in tests for s in t.symbols if s.kind in _PLAIN}
        x, y, _ = self.block
        every = self.block[0] * self.block[1] * self.block[2]
        found = [
            {**same, **dict(zip(_NAMES, (n % x, n // x % y, n // (x * y)), strict=True))}
            for n in range(every)
        ]
        for start in range(0, every, self.warp_size):
            warp = found[start : start + self.warp_size]
            # A test that is not known keeps none away.
            come = [v for v in warp if all(t.holds(v) is not False for t in tests)]
            if come:
                return [(v[_NAMES[0]], v[_NAMES[1]], v[_NAMES[2]]) for v in come]
        return self.first[:1] if any(_chooses(t, found) for t in tests) else self.first


def _chooses(test: Comparison, values: Sequence[Mapping[str, int]]) -> bool:
    """Whether few threads of a block meet an equality, whatever the other side is."""
    apart = [(test.left.evaluate(v), test.right.evaluate(v)) for v in values]
    told = [a - b for a, b in apart if a is not None and b is not None]
    most = max(collections.Counter(told).values(), default=0)
    return test.kind == "==" and len(told) == len(values) and most <= max(1, len(values) // FEW)


_SIZES = ("blockDim.x", "blockDim.y", "blockDim.z")
_NAMES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_PLAIN = frozenset({"block", "block size", "grid size", "parameter", "loop"})
