# SPDX-License-Identifier: Apache-2.0
"""Loops that fold into one variable and store what that comes to on the way: running sums, products, extremes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import parse_tree, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.column_blocks import walks_columns
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.fold_values import check_integer_folds
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import Group, joined_value, neutral
from warplens_tools.rewrite.common.kernel_reader import JOINED
from warplens_tools.rewrite.common.opened import Opened
from warplens_tools.rewrite.common.reading import concrete_type, field, renamed, statements
from warplens_tools.rewrite.common.reductions import Fold, folds
from warplens_tools.rewrite.common.sharing import Sharer

_FOLDED = frozenset({"+", "*", "max", "min"})
_FLOATING = frozenset({"float", "double"})
_ELEMENTS = frozenset({"subscript_expression", "pointer_expression"})
#: Integers of these sizes are exchanged by lanes as they are.
_EXCHANGED = (4, 8)


class Scan(msgspec.Struct, frozen=True):
    """A loop whose body folds into one variable and stores what that comes to."""

    loop: Counting
    fold: Fold
    type: str
    #: What is folded in, as written.
    value: str
    #: Declarations, and stores before and behind the fold, as nodes.
    declared: tuple[Node, ...]
    before: tuple[Node, ...]
    behind: tuple[Node, ...]
    #: Other loops of the kernel, which only fold.
    beside: tuple[Node, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the fold comes to the same in any order."""
        return integer_type(self.type) is not None or self.fold.operation in ("max", "min")


def read_scan(found: Opened, *, beside: bool = False) -> Scan:
    """The kernel's scan: its only loop, or with `beside` the only one that stores.

    Raises:
        Refused: it has none, or its iterations do more.
    """
    reader = found.reader
    if JOINED.search(reader.tree.code_of(reader.body)):
        raise Refused("threads work together already")
    loops = [n for n in walk(reader.body) if n.type in LOOPS]
    others = _only_folding(found, loops) if beside and len(loops) > 1 else []
    loops = [n for n in loops if not any(o.start_byte <= n.start_byte < o.end_byte for o in others)]
    loop = counting(reader.expanded, loops[0]) if len(loops) == 1 else None
    if loop is None or loop.downward or loop.step != "1" or len(loop.bounds) != 1 or not loop.declared:
        raise Refused("no loop walks a row and stores what it came to on the way")
    if _moves(loop):
        raise Refused("an iteration moves a pointer or a counter of its own")
    why = reader.why_not_apart(loop)
    if why:
        raise Refused(why)
    every = list(folds(reader.tree, loop.body))
    fold = every[0] if len(every) == 1 else None
    if fold is None or fold.operation not in _FOLDED or "." in fold.place:
        raise Refused("the loop folds into no variable, or into several")
    check_apart(found, loop)
    return msgspec.structs.replace(_read(found, loop, fold), beside=tuple(others))


def _moves(loop: Counting) -> bool:
    """Whether an expression of the body changes something by the way: `sum += *p++`."""
    changing = (n for n in walk(loop.body) if n.type in ("update_expression", "assignment_expression"))
    within = (n.parent for n in changing)
    return any(outer is not None and outer.type != "expression_statement" for outer in within)


def _only_folding(found: Opened, loops: Sequence[Node]) -> list[Node]:
    """The outermost loops that store nothing to memory, and read nothing that another loop stores."""
    stored = {s.array for n in loops for s in found.reader.stores(n) if s.space != "local"}
    tops = [n for n in loops if not any(o.start_byte < n.start_byte < o.end_byte for o in loops)]
    alone = [n for n in tops if not any(s.space != "local" for s in found.reader.stores(n))]
    read = {found.reader.array_of(e)[0] for n in alone for e in walk(n) if e.type in _ELEMENTS}
    return [] if stored & read else alone


def check_apart(found: Opened, loop: Counting) -> None:
    """That no launch passes what the loop stores to once more, as what it reads elsewhere.

    Raises:
        Refused: one does.
    """
    tree, used = found.reader.tree, dict[str, set[str]]()
    for node in walk(found.reader.body):
        if node.type == "identifier" and node.parent is not None:
            element = node.parent if node.parent.type == "subscript_expression" else None
            index = (
                field(element, "indices")
                if element is not None and element.children[0].id == node.id
                else None
            )
            written = "".join(tree.code_of(index).split()) if index is not None else ""
            used.setdefault(tree.code_of(node), set()).add(written)
    stored = any(True for _ in found.reader.stores(loop.node))
    for launch in found.launches.read():
        passed = dict[str, set[str]]()
        for one in (p for p in found.kernel.parameters if p.pointer and p.name in used):
            passed.setdefault(found.launches.argument(launch, one.name).strip(), set()).add(one.name)
        for names in passed.values():
            indices = set[str]().union(*(used[n] for n in names))
            if stored and len(names) > 1 and (len(indices) > 1 or "" in indices):
                raise Refused("a launch passes the same memory twice")


def read_row_scan(found: Opened) -> Scan:
    """As `read_scan`, of a row that a thread has to itself.

    Raises:
        Refused: there is none, or threads that are neighbours walk down neighbouring columns.
    """
    scan = read_scan(found, beside=True)
    if walks_columns(found.reader, scan.loop.body):
        raise Refused("neighbouring threads walk down neighbouring columns")
    return scan


def share_beside(found: Opened, scan: Scan, group: Group) -> GroupEdits:
    """The edits that deal out the loops beside the scan, whose helper functions are still to be defined.

    Raises:
        Refused: one cannot be dealt out.
    """
    writer = GroupEdits(found.edits, group)
    for loop in scan.beside:
        writer.write(Sharer(found.reader, found.rows()).share(loop))
    return writer


def guard_stores(found: Opened, scan: Scan, condition: str) -> None:
    """One thread stores what is not in the loop.

    Raises:
        Refused: an atomic is among it.
    """
    node = scan.loop.node
    for statement in walk(found.reader.body):
        outside = statement.end_byte <= node.start_byte or statement.start_byte >= node.end_byte
        if statement.type != "expression_statement" or not outside:
            continue
        if any(s.space != "local" for s in found.reader.stores(statement)):
            found.edits.guard([statement], condition)
        elif found.reader.has_atomic(statement):
            raise Refused("it has an atomic beside its loop")


def _read(found: Opened, loop: Counting, fold: Fold) -> Scan:
    reader = found.reader
    body = statements(loop.body)
    at = next(
        (i for i, n in enumerate(body) if n.start_byte <= _own(found, fold).start_byte < n.end_byte), -1
    )
    if at < 0 or body[at].type != "expression_statement":
        raise Refused("the loop folds under a condition")
    declared = [n for n in body if n.type == "declaration"]
    rest = [(i, n) for i, n in enumerate(body) if i != at and n.type != "declaration"]
    if any(n.type != "expression_statement" or not any(reader.stores(n)) for _, n in rest) or not rest:
        raise Refused("the loop does more than to fold and to store")
    if any(_mentions(found, n, fold.place) for n in declared):
        raise Refused("the loop does more than to fold and to store")
    kind = _type(found, fold)
    check_integer_folds(reader.kernel, reader.tree, reader.body, fold, kind)
    return Scan(
        loop,
        fold,
        kind,
        _value(found, body[at], fold),
        tuple(declared),
        tuple(n for i, n in rest if i < at),
        tuple(n for i, n in rest if i > at),
    )


def _own(found: Opened, fold: Fold) -> Node:
    return next(n for n in found.reader.names[fold.place] if n.id in fold.own)


def _mentions(found: Opened, node: Node, name: str) -> bool:
    return any(n.type == "identifier" and found.reader.tree.code_of(n) == name for n in walk(node))


def _type(found: Opened, fold: Fold) -> str:
    """The variable's type; a scan of another would not be exchanged."""
    binding = found.reader.binding(_own(found, fold))
    start, end = binding.declaration if binding is not None else (0, 0)
    node = found.reader.tree.root.descendant_for_byte_range(start, end)
    while node is not None and node.type != "declaration":
        node = node.parent
    kind = node.child_by_field_name("type") if node is not None else None
    written = " ".join(found.reader.tree.code_of(kind).split()) if kind is not None else ""
    concrete = concrete_type(found.model, found.kernel, found.reader.tree, parse_tree(found.text), written)
    integer = integer_type(concrete) if concrete else None
    if concrete not in _FLOATING and (integer is None or integer.bytes not in _EXCHANGED):
        raise Refused(f"the type of {fold.place} is not known to be a number's")
    return written


def _value(found: Opened, statement: Node, fold: Fold) -> str:
    """What a fold takes in: `e` of `v += e`, `v = v + e`, `v = max(v, e)`."""
    tree, whole = found.reader.tree, statement.named_children[0]
    if whole.type != "assignment_expression":
        if "--" in tree.code_of(whole):
            raise Refused(f"{fold.place} is counted down")
        return "1"
    right = field(whole, "right")
    operator = field(whole, "operator").type
    if operator in ("+=", "*="):
        return tree.text_of(right)
    parts = right.named_children
    if right.type == "call_expression":
        parts = field(right, "arguments").named_children
    others = [n for n in parts if tree.code_of(n) != fold.place]
    plain = right.type == "call_expression" or tree.code_of(right).count("-") == 0
    if (
        operator != "="
        or len(parts) != 2
        or len(others) != 1
        or not plain
        or _mentions(found, others[0], fold.place)
    ):
        raise Refused(f"what is folded into {fold.place} is not understood")
    return tree.text_of(others[0])


class ScanWriter:
    """Writes the loop of a scan anew, in its own words."""

    def __init__(self, found: Opened, scan: Scan) -> None:
        self.found, self.scan, self.tree = found, scan, found.reader.tree

    @property
    def begin(self) -> str:
        """The loop's first value."""
        first = self.scan.loop.first
        return self.tree.text_of(first) if first is not None else "0"

    @property
    def limit(self) -> str:
        """What its variable is compared with."""
        return self.tree.text_of(self.scan.loop.bounds[0])

    @property
    def sign(self) -> str:
        """By which it is."""
        return "<=" if "<=" in self.tree.text_of(field(self.scan.loop.node, "condition")) else "<"

    @property
    def index_type(self) -> str:
        """The type of its variable."""
        kind = field(self.scan.loop.node, "initializer").child_by_field_name("type")
        return self.tree.text_of(kind) if kind is not None else "int"

    def put(self, lines: Sequence[str]) -> None:
        """Lines in the place of the loop."""
        indent = self.found.text.newline + self.found.edits.indent(self.scan.loop.node)
        self.found.edits.replace(self.scan.loop.node, "\n".join(lines).replace("\n", indent))

    def indented(self, lines: Sequence[str]) -> list[str]:
        """Lines one level deeper."""
        return [self.found.edits.unit + line for one in lines for line in one.split("\n")]

    def neutral(self) -> str:
        """What changes nothing; of extremes what there was before, which may be met twice."""
        return neutral(self.scan.fold, self.scan.type) or self.scan.fold.place

    def joined(self, first: str, second: str) -> str:
        """Both folded."""
        return joined_value(self.scan.fold, self.scan.type, first, second)

    def folded(self, value: str) -> str:
        """What an iteration folds in, folded into `value`."""
        taken = self.scan.value
        loose = re.search(r"[-+?<>&|^%/]" if self.scan.fold.operation == "*" else r"[?<>&|^=]", taken)
        return self.joined(value, f"({taken})" if loose or "?" in taken else taken)

    def declared(self) -> list[str]:
        """The iteration's own declarations."""
        return [self.tree.text_of(n) for n in self.scan.declared]

    def stored(self, node: Node, value: str) -> str:
        """A store of the iteration, of `value` in the place of the variable."""
        text = renamed(self.tree.text_of(node), {self.scan.fold.place: value})
        return re.sub(r"= \(([^()]*(?:\([^()]*\)[^()]*)*)\);\Z", r"= \1;", text)
