# SPDX-License-Identifier: Apache-2.0
"""Which numbers that a kernel is given only say how its work is shared: the side of the tiles of a matrix product.

A kernel that takes the side of its tiles goes over rows in blocks of it and over the inner length in steps of it;
whatever the side, each product is added to the same sum, in the same order. Such a number is no length of the run, and
an edit may have tiles of its own. A kernel whose results rest on it (sums of segments, a block turned round) has it
otherwise, so nothing is taken for a share but where the text shows all of this:

- the grid's extent is the block's into another number, rounded up, and the block's number is asked for as
  `blockIdx.x * side + threadIdx.x` alone;
- shared arrays are filled in a loop over tiles, from places `tile * side + threadIdx.x`, each thread in its own place;
- they are read in a loop up to the side alone, where one of the thread's numbers is its counter, in a product that is
  added to a variable from outside: what is beyond the length is zero, and adds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.tunable.grid_rule import block_rule, rule_of
from warplens_tools.tunable.source import AXES, File, Site

_GIVEN = re.compile(r"p\d+")
_ZERO = r"(?:0(?:\.0*)?[fF]?|\w+\(0\)|\w+\{\})"
_PRODUCT = re.compile(r"\w+\+=[\w.]+(?:\*[\w.]+)+;")
_WORDS = re.compile(r"(?<![\w.])(?:threadIdx\.\w|blockIdx\.\w|[A-Za-z_]\w*)")


def shares_of(file: File, kernel: Kernel, site: Site) -> frozenset[str]:
    """The parameters of a kernel that only say how one launch of it shares its work."""
    grid, block = rule_of(file, site), block_rule(file, site)
    if grid is None or block is None:
        return frozenset()
    found = set[str]()
    for given in {extent for extent in block if _GIVEN.fullmatch(extent)}:
        axes = frozenset(axis for axis, extent in zip(AXES, block, strict=True) if extent == given)
        others = (rules[AXES.index(a)] for rules in (grid, block) for a in AXES if a not in axes)
        flat = all(_rounds_up(grid[AXES.index(axis)], given) for axis in axes)
        index = int(given[1:])
        if flat and not any(given in rule.split() for rule in others) and index < len(kernel.parameters):
            name = kernel.parameters[index].name
            found |= {name} if _only_shares(file, kernel, name, axes) else set()
    return frozenset(found)


def _rounds_up(rule: str, given: str) -> bool:
    """Whether a grid's extent is a number divided by what is given, rounded up."""
    ways = (rf"(.+) {given} \+ 1 - {given} /", rf"(.+) 1 - {given} / 1 \+", rf"(.+) {given} up")
    found = next((match for way in ways if (match := re.fullmatch(way, rule))), None)
    return found is not None and given not in found[1].split()


def _only_shares(file: File, kernel: Kernel, side: str, axes: frozenset[str]) -> bool:
    expanded = kernel_tree(file.tree, kernel)
    if expanded is None:
        return False
    shared = frozenset(array.name for array in kernel.arrays if array.space == "shared")
    try:
        return _Kernel(expanded.tree, expanded.function.body, side, axes, shared).only_shares()
    except _OtherwiseError:
        return False


class _OtherwiseError(Exception):
    """Something that may rest on the number."""


class _Store(NamedTuple):
    """Where a thread puts something in a shared array, and by which of its numbers the place in a tile is counted."""

    place: str
    counted: str


class _Load(NamedTuple):
    """What is put there: the thread's own numbers, the conditions that it is under, and what is loaded."""

    own: tuple[str, str]
    tests: tuple[str, ...]
    value: str


class _Kernel:
    """One kernel's body, asked about one parameter."""

    def __init__(
        self, tree: SourceTree, body: Node, side: str, axes: frozenset[str], shared: frozenset[str]
    ) -> None:
        self._tree, self._body, self._side = tree, body, side
        self._blocks = {f"blockIdx.{axis}": axis for axis in axes}
        values = dict(self._initial())
        #: The thread's numbers, and variables that hold one: the axis of each.
        self._lanes = {f"threadIdx.{axis}": axis for axis in AXES}
        self._lanes |= {name: self._lanes[value] for name, value in values.items() if value in self._lanes}
        #: Variables that number threads throughout the grid: the axis of each.
        self._through = {
            name: axis
            for name, value in values.items()
            for block, axis in self._blocks.items()
            if any(value in _sums(f"{block}*{side}", lane) for lane in self._lanes_along(axis))
        }
        self._shared = shared | set(self._parts(values, shared))

    def only_shares(self) -> bool:
        """Whether nothing but the shape of the work rests on the parameter.

        Raises:
            _OtherwiseError: something may.
        """
        loops = [loop for loop in walk(self._body) if loop.type == "for_statement" and self._tiles(loop)[0]]
        for loop in loops:
            self._take_tile(loop)
        inside = {node.id for loop in loops for node in walk(loop)}
        for node in walk(self._body):
            if node.id not in inside:
                self._take_outside(node)
        return bool(loops)

    def _code(self, node: Node | None) -> str:
        return "".join(self._tree.code_of(node).split()) if node is not None else ""

    def _initial(self) -> Iterator[tuple[str, str]]:
        """What variables are declared as, which are set to nothing else."""
        fields = {"assignment_expression": "left", "update_expression": "argument"}
        targets = (n.child_by_field_name(fields[n.type]) for n in walk(self._body) if n.type in fields)
        changed = set(map(self._code, targets))
        for node in walk(self._body):
            if node.type == "init_declarator":
                name = self._code(node.child_by_field_name("declarator")).lstrip("*")
                if name not in changed:
                    yield name, self._code(node.child_by_field_name("value"))

    def _parts(self, values: Mapping[str, str], shared: frozenset[str]) -> Iterator[str]:
        """Pointers to tiles that lie in shared memory one behind the other."""
        side, known = self._side, set[str]()
        for name, value in values.items():
            found = re.fullmatch(rf"&?(\w+)(?:\+(?:\d+\*)?{side}\*{side})?", value)
            if found is not None and found[1] in shared and value not in known:
                known.add(value)
                yield name

    def _lanes_along(self, axis: str) -> list[str]:
        return [name for name, of in self._lanes.items() if of == axis]

    def _tiles(self, loop: Node) -> tuple[str, str]:
        """The counter of a loop over tiles, and what they cover; nothing for any other loop."""
        code = self._code(_part(loop, "condition"))
        ends = re.fullmatch(rf"(\w+)<\((\w+)\+{self._side}-1\)/{self._side}", code)
        return (ends[1], ends[2]) if ends is not None and self._counts(loop, ends[1]) else ("", "")

    def _counts(self, loop: Node, name: str) -> bool:
        """Whether a loop counts a variable from zero, by one."""
        begins, step = self._code(_part(loop, "initializer")), self._code(_part(loop, "update"))
        return re.fullmatch(rf"(?:unsigned)?(?:int)?{name}=0;", begins) is not None and step in (
            f"{name}++",
            f"++{name}",
        )

    def _take_outside(self, node: Node) -> None:
        code = self._code(node)
        if node.type in LOOPS or node.type == "return_statement" or code in ("blockDim", "gridDim"):
            raise _OtherwiseError
        if node.type == "subscript_expression" and self._code(_part(node, "argument")) in self._shared:
            raise _OtherwiseError
        bound = self._lanes.keys() | self._blocks.keys() | self._shared | {self._side}
        declares = node.parent is not None and node.parent.type.endswith("declarator")
        if code in bound and not declares:
            # what is made of it: a place in the grid, one of the thread's numbers, a tile in shared memory
            known = self._through.keys() | self._lanes.keys() | self._shared
            if _declared_by(node, self._code).lstrip("*") not in known:
                raise _OtherwiseError

    def _take_tile(self, loop: Node) -> None:
        stores: dict[str, _Store] = {}
        guards: dict[str, tuple[str, ...]] = {}
        sums = False
        for statement, tests in _flat(self._code, _part(loop, "body"), ()):
            if statement.type == "for_statement" and not tests:
                self._take_sums(statement, stores)
                sums = True
            elif self._code(statement) != "__syncthreads();":
                if sums:
                    raise _OtherwiseError
                self._take_store(self._code(statement), tests, self._tiles(loop), stores, guards)
        if not sums:
            raise _OtherwiseError

    def _take_store(
        self,
        code: str,
        tests: tuple[str, ...],
        tiles: tuple[str, str],
        stores: dict[str, _Store],
        guards: dict[str, tuple[str, ...]],
    ) -> None:
        """One thread's own place in a shared array, filled from where its tile begins, with zero beyond the length."""
        found = re.fullmatch(rf"(\w+)\[([\w.]+)\*{self._side}\+([\w.]+)\]=([^=].*);", code)
        if found is None or found[1] not in self._shared:
            raise _OtherwiseError
        array, row, column, value = found.groups()
        own = {self._lanes.get(row, ""), self._lanes.get(column, "")}
        if own != set(self._blocks.values()) or len(own) != 2:
            raise _OtherwiseError
        if re.fullmatch(_ZERO, value):
            # everywhere, or where nothing was loaded
            if tests and tests != tuple(f"!{test}" for test in guards.get(array, ())):
                raise _OtherwiseError
            return
        guards[array] = tests
        chosen = re.fullmatch(rf"(.*?)\?(.*):{_ZERO}", value)
        tests = (*tests, chosen[1]) if chosen is not None else tests
        value = chosen[2] if chosen is not None else value
        loaded = _Load((row, column), tests, value)
        store = _Store(f"{row}*{self._side}+{column}", self._counted(loaded, *tiles))
        if stores.setdefault(array, store) != store:
            raise _OtherwiseError

    def _counted(self, loaded: _Load, tile: str, length: str) -> str:
        """The thread's number that a load's place in its tile is counted by: it asks whether that is inside, and
        nothing else rests on the tile.

        Raises:
            _OtherwiseError: something may.
        """
        ways = {w: lane for lane in loaded.own for w in _sums(f"{tile}*{self._side}", lane)}
        asked = "&&".join(loaded.tests)
        inside = {
            lane
            for way, lane in ways.items()
            if re.search(rf"(?<![\w+]){re.escape(way)}<{length}(?!\w)", asked)
        }
        if len(inside) != 1 or "||" in asked or "!" in asked:
            raise _OtherwiseError
        (lane,) = inside
        left = f"{asked}|{loaded.value}"
        for way in _sums(f"{tile}*{self._side}", lane):
            left = left.replace(way, "")
        words = set(_WORDS.findall(left))
        if self._lanes[lane] in {self._through.get(word) for word in words}:
            raise _OtherwiseError
        if not self._free(words - self._through.keys(), tile):
            raise _OtherwiseError
        return lane

    def _free(self, words: set[str], *counters: str) -> bool:
        """Whether none of these words rests on how the work is shared."""
        bound = self._lanes.keys() | self._blocks.keys() | self._shared | self._through.keys()
        return not words & (bound | {self._side, "blockDim", "gridDim", "blockIdx", "threadIdx", *counters})

    def _take_sums(self, loop: Node, stores: Mapping[str, _Store]) -> None:
        """Products with what was stored, added up over the side of a tile."""
        ends = re.fullmatch(rf"(\w+)<{self._side}", self._code(_part(loop, "condition")))
        if ends is None or not self._counts(loop, ends[1]):
            raise _OtherwiseError
        for statement, tests in _flat(self._code, _part(loop, "body"), ()):
            code = self._code(statement)
            if tests or not _PRODUCT.fullmatch(re.sub(r"\[[^\]]*\]", "", code)):
                raise _OtherwiseError
            left = code
            for array, store in stores.items():
                left = left.replace(f"{array}[{_with(store.place, store.counted, ends[1])}]", "")
            if left == code or not self._free(set(_WORDS.findall(left)), ends[1]):
                raise _OtherwiseError


def _declared_by(node: Node, code: Callable[[Node | None], str]) -> str:
    """The variable whose first value a node is part of; "" for none."""
    above: Node | None = node
    while above is not None and above.type != "init_declarator":
        above = above.parent
    return code(_part(above, "declarator")) if above is not None else ""


def _part(node: Node, field: str) -> Node | None:
    return node.child_by_field_name(field)


def _sums(base: str, more: str) -> tuple[str, str]:
    return f"{base}+{more}", f"{more}+{base}"


def _with(index: str, lane: str, counter: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(lane)}(?![\w.])", counter, index)


def _flat(
    code: Callable[[Node | None], str], node: Node | None, tests: tuple[str, ...]
) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Statements one by one, each with the conditions that it is under, `!` before what does not hold."""
    if node is None or node.type in ("comment", "preproc_call"):
        return
    if node.type in ("compound_statement", "else_clause"):
        for child in node.named_children:
            yield from _flat(code, child, tests)
    elif node.type == "if_statement":
        test = code(_part(node, "condition"))
        yield from _flat(code, _part(node, "consequence"), (*tests, test))
        yield from _flat(code, _part(node, "alternative"), (*tests, f"!{test}"))
    else:
        yield node, tests
