# SPDX-License-Identifier: Apache-2.0
"""What a barrier orders: which elements threads touch before it that others touch behind it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses, escaping
from warplens_tools.cuda.facts.barriers import is_barrier
from warplens_tools.cuda.facts.conditions import Condition
from warplens_tools.cuda.facts.seen_names import seen_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.constants import Dim3
from warplens_tools.cuda.values.forms import Form
from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.text import Span

#: What parameters of the branch are in the blocks that are worked out, less than a block of 64 has and more; of others
#: what is multiplied is a stride and longer than any row.
_PARAMETERS, _LENGTH, _STRIDE = (8, 72), 24, 10_007
#: Iterations of a loop, loops, threads and pairs of accesses that are worked out, at most.
_ITERATIONS, _MAX_LOOPS, _MAX_THREADS, _MAX_PAIRS = 3, 2, 256, 64
Place = tuple[int, int]


class Ordering:
    """The accesses of one kernel around its barriers."""

    def __init__(self, tree: SourceTree, kernel: Kernel, expanded: KernelTree, block: Dim3) -> None:
        self.tree, self.body = expanded.tree, expanded.function.body
        self.every = accesses(tree, kernel, block)
        private = {a.name for a in kernel.arrays if a.space == "local"}
        handed = bool(set(escaping(tree, kernel)) - private)
        #: Whether all that other threads see is known.
        self.told = not handed and all(a.space != "unknown" for a in self.every)
        self.alone = not handed and not any(a.space == "shared" for a in kernel.arrays)
        self.touched = [a for a in self.every if a.space in ("shared", "global")]
        seen = seen_names(expanded, kernel)
        self.scalars = [
            _begin(self.tree.span(n))
            for n in walk(self.body)
            if n.type == "identifier" and self.tree.text_of(n) in seen
        ]
        self.barriers = [n for n in walk(self.body) if is_barrier(self.tree, n)]
        sizes = [n or 1 for n in block] if block[0] is not None else [64, 1, 1]
        numbers = (
            (n % sizes[0], n // sizes[0] % sizes[1], n // (sizes[0] * sizes[1])) for n in itertools.count()
        )
        self.threads = list(itertools.islice(numbers, min(math.prod(sizes), _MAX_THREADS)))
        self.sizes = {f"blockDim.{axis}": n for axis, n in zip("xyz", sizes, strict=True)}

    def is_idle(self, barrier: Node, branch: Node, condition: Condition) -> bool:
        """Whether no thread touches, between this barrier of a branch and those around it, what another one writes on
        its other side; worked out for a few sizes."""
        regions = self._regions(barrier)
        if any(start <= place <= end for side in regions for start, end in side for place in self.scalars):
            return False
        if not self.told:
            return self._adds_only(regions)
        before, behind = ([a for a in self.touched if _is_in(a.span, side)] for side in regions)
        pairs = [
            (a, b)
            for a, b in itertools.product(before, behind)
            if a.name == b.name and (a.writes or b.writes) and not (a.atomic and b.atomic)
        ]
        inside = self.tree.span(branch)
        return len(pairs) <= _MAX_PAIRS and not any(self._meet(a, b, inside, condition) for a, b in pairs)

    def _adds_only(self, regions: tuple[list[tuple[Place, Place]], ...]) -> bool:
        """Whether all that is written around it is added by atomics to what nothing else there reads, in a kernel that
        shares nothing and hands no pointer on."""
        near = [a for a in self.every if a.space != "local" and any(_is_in(a.span, side) for side in regions)]
        added = {a.name for a in near if a.atomic}
        plain = (a for a in near if not a.atomic)
        return self.alone and not any(a.writes or a.name in added for a in plain)

    def _regions(self, barrier: Node) -> tuple[list[tuple[Place, Place]], list[tuple[Place, Place]]]:
        """Stretches of text that run before it and behind it without a barrier that surely comes between."""
        around = {barrier.id}
        loops = []
        node = barrier.parent
        while node is not None and node.start_byte >= self.body.start_byte:
            around.add(node.id)
            loops += [node] if node.type in LOOPS else []
            node = node.parent
        sure = [b for b in self.barriers if b.parent is not None and b.parent.id in around]
        here = _begin(self.tree.span(barrier))
        whole = self.tree.span(self.body)
        ends = [_begin(self.tree.span(b)) for b in sure]
        before = [(max((e for e in ends if e < here), default=_begin(whole)), here)]
        behind = [(here, min((e for e in ends if e > here), default=_end(whole)))]
        for loop in map(self.tree.span, loops):
            inside = [e for e in ends if _begin(loop) <= e <= _end(loop)]
            if here == max(inside):
                behind.append((_begin(loop), min(inside)))
            if here == min(inside):
                before.append((max(inside), _end(loop)))
        return before, behind

    def _meet(self, a: ArrayAccess, b: ArrayAccess, branch: Span, condition: Condition) -> bool:
        """Whether one thread makes an access to an element to which another one makes the other."""
        if a.index is None or b.index is None:
            return True
        for size in _PARAMETERS:
            owners: dict[int, int] = {}
            sizes = dict.fromkeys(_strides(a.index) | _strides(b.index), _STRIDE)
            sizes |= {s.name: size for s in condition.symbols if s.kind == "parameter"}
            for access, form in ((a, a.index), (b, b.index)):
                inside = _is_in(access.span, [(_begin(branch), _end(branch))])
                for thread, element in self._elements(form, sizes, condition if inside else None):
                    if element is None or owners.setdefault(element, thread) != thread:
                        return True
        return False

    def _elements(
        self, form: Form, sizes: Mapping[str, int], condition: Condition | None
    ) -> Iterator[tuple[int, int | None]]:
        """Each thread that meets the condition, by number, with each element that it touches; None for an unknown."""
        symbols = {s.name: s.kind for s in (*form.symbols, *(condition.symbols if condition else ()))}
        loops = [n for n, kind in symbols.items() if kind == "loop"]
        if len(loops) > _MAX_LOOPS:
            yield 0, None
            return
        by_kind = {"parameter": _LENGTH, "block": 0, "grid size": 4}
        shared = {
            n: sizes.get(n, by_kind[kind]) for n, kind in symbols.items() if kind in by_kind
        } | self.sizes
        for number, (x, y, z) in enumerate(self.threads):
            own = {**shared, "threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z}
            for steps in itertools.product(range(_ITERATIONS), repeat=len(loops)):
                values: Mapping[str, int] = {**own, **dict(zip(loops, steps, strict=True))}
                if condition is None or condition.holds(values) is not False:
                    yield number, form.evaluate(values)


def _strides(form: Form) -> set[str]:
    """The parameters by which something else is multiplied."""
    products = (symbols for symbols, _ in form.terms if len(symbols) > 1)
    return {s.name for symbols in products for s in symbols if s.kind == "parameter"}


def _begin(span: Span) -> Place:
    return span.line, span.column


def _end(span: Span) -> Place:
    return span.end_line, span.end_column


def _is_in(span: Span, stretches: list[tuple[Place, Place]]) -> bool:
    return any(start <= _begin(span) and _end(span) <= end for start, end in stretches)
