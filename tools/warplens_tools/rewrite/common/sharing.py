# SPDX-License-Identifier: Apache-2.0
"""A thread's work shared by a group of threads: which loops are dealt out, where folds are joined, who writes.

All threads of a group execute the thread's statements; what is computed outside a dealt-out loop they all compute.
The iterations of such a loop go round the group, what it folds into is joined behind it, and memory is written by
one thread outside of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.fold_values import check_integer_folds
from warplens_tools.rewrite.common.hazards import Barriers, Hazards
from warplens_tools.rewrite.common.iterations import LoopReader, Work
from warplens_tools.rewrite.common.kernel_reader import ATOMIC, JOINED
from warplens_tools.rewrite.common.reductions import IDEMPOTENT, Fold

_PRINTS = frozenset({"printf", "assert"})
_NUMBER = r"0+(?:\.0*)?[fFuUlLhH]*|\.0+[fFhH]*"
_ZERO = re.compile(
    rf"\(?(?:[\w:<> ]*[({{]\s*)?(?:\([\w ]+\)\s*)?(?:{_NUMBER})(?:\s*,\s*(?:{_NUMBER}))*\s*[)}}]*"
)
_ONE = re.compile(r"(?:[\w:<> ]*[({]\s*)?(?:\([\w ]+\)\s*)?1(?:\.0*)?[fFuUlL]*\s*[)}]*")
_NUMBERS = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
#: Fewer iterations than this are not worth dealing out.
_FEW = 16


class Join(msgspec.Struct, frozen=True):
    """Where a fold is joined over the group."""

    fold: Fold
    #: The statement behind which it is joined.
    behind: Node
    #: The others of the group begin with what changes nothing.
    resets: bool
    #: Types as written: the variable's, and its companion's.
    kind: str
    companion: str = ""


class Sharing(msgspec.Struct, frozen=True):
    """What has to change in a kernel whose threads become groups."""

    works: tuple[Work, ...]
    joins: tuple[Join, ...]
    #: Runs of consecutive statements that one thread executes.
    guarded: tuple[tuple[Node, ...], ...]
    #: Arrays of the thread's own of which each thread of the group has the elements of its iterations.
    owned: tuple[str, ...]
    #: Statements behind which, and in front of which, all must see what some wrote.
    barriers: Barriers


class Sharer:
    """Reads how the statements of one kernel may be shared by a group.

    `row_loops`: offsets of loops that go from one piece of work to the next, which every group does for itself.
    `outermost`: of nested loops the outer one is dealt out, else the one along which accesses are neighbours.
    `least`: loops that have fewer iterations are not dealt out.
    """

    def __init__(
        self, reader: LoopReader, row_loops: Iterable[int] = (), outermost: bool = False, least: int = _FEW
    ) -> None:
        self.reader, self.tree = reader, reader.tree
        self._rows = frozenset(row_loops)
        self._outermost, self._least = outermost, least
        self._works: list[Work] = []
        self._guarded: list[tuple[Node, ...]] = []
        self._reasons: list[str] = []

    def share(self, root: Node | None = None) -> Sharing:
        """The plan.

        Raises:
            Refused: no loop can be dealt out, or what is outside of them cannot be executed by all.
        """
        root = root or self.reader.body
        joined = JOINED.search(self.tree.code_of(root))
        if joined:
            raise Refused(f"threads work together already ({joined[0]})")
        owned = self._settle(root)
        if not self._works:
            raise Refused(next(iter(self._reasons), "the kernel has no loop that could be shared"))
        joins = tuple(self._joins())
        spots = tuple(join.behind for join in joins)
        hazards = Hazards(self.reader, self._works, self._guarded, spots, self._rows)
        return Sharing(tuple(self._works), joins, tuple(self._guarded), owned, hazards.barriers())

    def check_neighbours(self) -> None:
        """That lanes side by side do not lose what they read side by side, with nothing gained along the loops.

        Raises:
            Refused: they would, as in a walk down columns.
        """
        beside = along = False
        for work in self._works:
            by_data = self.reader.ends_by_data(work.loop)
            for access in self.reader.accesses:
                mine = next((one for one in access.loops if one.offset == work.loop.node.start_byte), None)
                form = access.traced
                if mine is None or form is None or access.space != "global" or not mine.counter:
                    continue
                moves = any(symbol.mentions(mine.counter) for symbol in form.symbols)
                by_thread = any(symbol.mentions("threadIdx.x") for symbol in form.symbols)
                neighbours = form.coefficient("threadIdx.x") in (1, -1)
                # a few heads of one row side by side are no columns: rows that data end are walked by lanes
                neighbours = neighbours or (not by_data and form.side_by_side("threadIdx.x"))
                beside = beside or (moves and neighbours)
                along = along or (by_thread and not neighbours and form.coefficient(mine.counter) in (1, -1))
        if beside and not along:
            raise Refused("neighbouring threads walk neighbouring columns or windows side by side")

    def _settle(self, root: Node) -> tuple[str, ...]:
        """Visit until arrays of which elements are dealt out are touched by dealt-out loops alone; their names."""
        while True:
            self._works, self._guarded, self._reasons = [], [], []
            self._visit(root)
            arrays = [a.name for a in self.reader.kernel.arrays if a.space == "local"]
            owned = [name for name in arrays if any(self._writes_own(w, name) for w in self._works)]
            torn = {name for name in owned if not self._is_dealt(name)}
            if not torn:
                return tuple(owned)
            self.reader.whole |= torn

    def _writes_own(self, work: Work, array: str) -> bool:
        return any(
            s.array == array and s.space == "local" and not self._declares(work, array)
            for s in self.reader.stores(work.loop.body)
        )

    def _declares(self, work: Work, array: str) -> bool:
        name = self.reader.names[array][0]
        return self.reader.is_inside(self.reader.binding(name), work.loop.node)

    def _is_dealt(self, array: str) -> bool:
        """Whether every use of an array stands in a dealt-out loop, by whose iterations it is indexed alike."""
        firsts = set()
        for name in self.reader.names[array]:
            if name.parent is not None and name.parent.type == "array_declarator":
                continue
            work = next(
                (w for w in self._works if w.loop.node.start_byte <= name.start_byte < w.loop.node.end_byte),
                None,
            )
            if work is None or work.loop.first is None or self.reader.index_of(name) != work.loop.variable:
                return False
            firsts.add(
                ("".join(self.tree.code_of(work.loop.first).split()), work.loop.step, work.loop.downward)
            )
        return len(firsts) == 1

    # statements

    def _visit(self, node: Node) -> None:
        if node.type == "compound_statement":
            self._block(node.named_children)
        elif node.type in ("for_statement", "while_statement"):
            self._loop(node)
        elif node.type in ("if_statement", "switch_statement", "case_statement", "else_clause", *LOOPS):
            self._branch(node)
        elif node.type == "expression_statement":
            if self._is_guarded(node):
                self._guard([node])
        elif node.type == "declaration" and self.reader.has_atomic(node):
            raise Refused("what an atomic returns is used by the whole thread")
        elif node.type in ("labeled_statement", "goto_statement", "try_statement"):
            raise Refused("the kernel jumps")

    def _block(self, statements: Sequence[Node]) -> None:
        run: list[Node] = []
        for statement in statements:
            if statement.type == "expression_statement" and self._is_guarded(statement):
                run.append(statement)
                continue
            if statement.type == "comment" and run:
                continue
            self._guard(run)
            run = []
            self._visit(statement)
        self._guard(run)

    def _guard(self, run: list[Node]) -> None:
        if run:
            self._guarded.append(tuple(run))

    def _branch(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None and (self.reader.has_atomic(condition) or any(self._writes(condition))):
            raise Refused("a condition writes memory")
        for child in node.named_children:
            if condition is None or child.id != condition.id:
                self._visit(child)

    def _writes(self, node: Node) -> Iterator[str]:
        return (s.array for s in self.reader.stores(node) if s.space != "local")

    def _is_guarded(self, statement: Node) -> bool:
        """Whether one thread alone may execute a statement."""
        calls = [name.split("<")[0] for _, name in self.reader.calls(statement)]
        effect = any(ATOMIC.fullmatch(name) or name in _PRINTS for name in calls)
        if not effect and not any(self._writes(statement)):
            return False
        stores = list(self.reader.stores(statement))
        targets = {s.target.id for s in stores}
        if any(s.space == "local" for s in stores):
            raise Refused("a statement writes both memory and the thread's own array")
        for node in walk(statement):
            field = {"assignment_expression": "left", "update_expression": "argument"}.get(node.type)
            target = node.child_by_field_name(field) if field else None
            if target is not None and target.id not in targets:
                raise Refused("a statement writes both memory and a variable")
        return True

    # loops

    def _loop(self, node: Node) -> None:
        loop = counting(self.reader.expanded, node)
        if loop is None or node.start_byte in self._rows:
            self._branch(node)
            return
        work = self._work(loop)
        if work is None:
            self._visit(loop.body)
            return
        inner = (
            [] if self._outermost else [w for w in self._inner(loop.body) if self.reader.neighbours(w.loop)]
        )
        # what a nest does most is done in its inner loops
        if inner and not self.reader.neighbours(loop, [w.loop.node.start_byte for w in inner]):
            self._visit(loop.body)
        else:
            self._works.append(work)

    def _work(self, loop: Counting) -> Work | None:
        """The loop, if it can be dealt out and is worth it."""
        if self._is_short(loop) or self._is_shared(loop):
            return None
        work = self.reader.work(loop)
        if not work.why_not and not loop.declared and self._is_read_behind(loop):
            work = Work(loop, why_not=f"{loop.variable} is used behind its loop")
        if work.why_not:
            self._reasons.append(work.why_not)
            return None
        return work

    def _is_short(self, loop: Counting) -> bool:
        """Whether a loop has too few iterations for the group."""
        length = self.reader.length(loop)
        # of a triangle the group does the rows one by one, each with a part of its threads
        least = self._least // 4 if length.grows else self._least
        short = length.window or (length.most is not None and length.most < least)
        if short:
            self._reasons.append("its loops have too few iterations to share")
        return short

    def longest(self) -> int | None:
        """How often the loops that are dealt out run at most; None where nothing tells."""
        lengths = [self.reader.length(work.loop).most for work in self._works]
        return None if None in lengths else max((m for m in lengths if m is not None), default=None)

    def _is_shared(self, loop: Counting) -> bool:
        """Whether threads have parts of the loop each already: it begins or steps by their numbers."""
        step = self.reader.forms.loop(loop.node).step
        if step is not None and any(
            s.kind in ("thread", "block", "block size", "grid size") for s in step.symbols
        ):
            return True
        header = " ".join(self.tree.code_of(n) for n in (loop.first, loop.update) if n is not None)
        return _NUMBERS.search(header) is not None

    def _is_read_behind(self, loop: Counting) -> bool:
        name = next(
            n for n in walk(loop.node) if n.type == "identifier" and self.tree.code_of(n) == loop.variable
        )
        behind = [n for n in self.reader.occurrences(name) if n.start_byte >= loop.node.end_byte]
        return bool(behind) and not self.reader.is_set(behind[0])

    def _inner(self, body: Node) -> Iterator[Work]:
        for node in walk(body):
            is_loop = node.type in ("for_statement", "while_statement")
            loop = counting(self.reader.expanded, node) if is_loop else None
            work = self._work(loop) if loop is not None else None
            if work is not None:
                yield work

    # folds

    def _joins(self) -> Iterator[Join]:
        owned = {own for work in self._works for fold in work.folds for own in fold.own}
        seen: dict[tuple[str, int], Join] = {}
        for work in self._works:
            for fold in work.folds:
                behind = self._behind(work, fold, owned)
                key = (fold.place, behind.id)
                if key not in seen:
                    seen[key] = self._join(fold, behind)
        return iter(seen.values())

    def _occurrence(self, fold: Fold, place: str) -> Node:
        return next(n for n in self.reader.names[place.split(".")[0]] if n.id in fold.own)

    def _behind(self, work: Work, fold: Fold, owned: set[int]) -> Node:
        """The largest loop around, in which the variable is folded into and nothing else."""
        found = child = work.loop.node
        name = self._occurrence(fold, fold.place)
        used = self.reader.occurrences(name)
        parent = child.parent
        while parent is not None and parent.id != self.reader.body.id and parent.start_byte not in self._rows:
            inside = [n for n in used if parent.start_byte <= n.start_byte < parent.end_byte]
            declared = self.reader.is_inside(self.reader.binding(name), parent)
            if declared or any(n.id not in owned for n in inside):
                break
            if parent.type in LOOPS:
                found = parent
            child, parent = parent, parent.parent
        return found

    def _join(self, fold: Fold, behind: Node) -> Join:
        name = self._occurrence(fold, fold.place)
        kind = self._type(name)
        companion = self._type(self._occurrence(fold, fold.companion)) if fold.companion else ""
        resets = fold.operation not in IDEMPOTENT and not self._begins_neutral(fold, name, behind)
        check_integer_folds(self.reader.kernel, self.reader.tree, self.reader.body, fold, kind)
        return Join(fold, behind, resets, kind, companion)

    def _type(self, name: Node) -> str:
        binding = self.reader.binding(name)
        start, end = binding.declaration if binding is not None else (0, 0)
        node = self.tree.root.descendant_for_byte_range(start, end)
        while node is not None and node.type not in ("declaration", "parameter_declaration"):
            node = node.parent
        kind = node.child_by_field_name("type") if node is not None else None
        written = self.tree.code_of(kind) if kind is not None else ""
        value = value_node(self.tree, binding) if binding is not None else None
        if written == "auto" and value is not None:
            written = _literal_type(self.tree.code_of(value))
        if not written or written == "auto":
            raise Refused(f"the type of {self.tree.code_of(name)} is not written")
        return " ".join(written.split())

    def _begins_neutral(self, fold: Fold, name: Node, behind: Node) -> bool:
        """Whether the variable holds what changes nothing when its loop begins, every time."""
        before = [n for n in self.reader.occurrences(name) if n.start_byte < behind.start_byte]
        if not before:
            return False
        last = before[-1]
        statement = _assigning(last)
        if statement is None or not self._same_loop(statement, behind):
            return False
        value = statement.child_by_field_name("value") or statement.child_by_field_name("right")
        written = self.tree.code_of(value).strip() if value is not None else ""
        neutral = _ONE if fold.operation == "*" else _ZERO
        zero = written in ("false", "0") or bool(neutral.fullmatch(written))
        return zero and fold.operation in ("+", "*", "|", "^")

    def _same_loop(self, node: Node, behind: Node) -> bool:
        """Whether no loop or branch that holds one of the two leaves out the other."""
        scope = node.parent
        while scope is not None and scope.type != "compound_statement":
            scope = scope.parent
        current = behind.parent
        while current is not None and scope is not None and current.id != scope.id:
            if current.type in LOOPS:
                return False
            current = current.parent
        return current is not None


def _literal_type(code: str) -> str:
    """The type of a number as it is written; "" for another expression."""
    if re.fullmatch(r"(?:\d+\.\d*|\.\d+|\d+\.)(?:[eE][+-]?\d+)?", code):
        return "double"
    if re.fullmatch(r"(?:\d+\.\d*|\.\d+|\d+\.)(?:[eE][+-]?\d+)?[fF]", code):
        return "float"
    return "int" if code.isdigit() else ""


def _assigning(name: Node) -> Node | None:
    """The declaration with a value, or the plain assignment, that gives a name its value here."""
    parent = name.parent
    while parent is not None and parent.type == "field_expression":
        parent = parent.parent
    if parent is not None and parent.type == "init_declarator":
        return parent
    operator = parent.child_by_field_name("operator") if parent is not None else None
    if parent is not None and parent.type == "assignment_expression" and operator is not None:
        return parent if operator.type == "=" else None
    return None
