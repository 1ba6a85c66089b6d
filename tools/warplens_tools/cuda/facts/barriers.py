# SPDX-License-Identifier: Apache-2.0
"""Barriers of a kernel and what they order: which shared and global accesses stand between them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses, escaping
from warplens_tools.cuda.facts.seen_names import seen_names
from warplens_tools.cuda.model import Kernel, Parameter
from warplens_tools.cuda.syntax.callees import own_name
from warplens_tools.cuda.syntax.functions import Function, functions_of
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.forms import Form, Monomial
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.lazily import cached_property
from warplens_tools.text import Span

_BARRIER = "__syncthreads"
_WARP, _MAX_DEPTH = 32, 4
#: What an index may be made of whose threads are known.
_OWN = frozenset({"thread", "derived"})
#: Functions that touch no memory that another thread sees.
_HARMLESS = re.compile(
    r"(?:::|std::)?(?:__)?(?:u?l*(?:min|max|abs)|f?(?:min|max|abs|ma)f?|fm(?:in|ax|od)f?|sqrtf?|rsqrtf?|expf?|exp2f?"
    r"|logf?|log2f?|sinf?|cosf?|tanf?|tanhf?|powf?|floorf?|ceilf?|roundf?|f\w+_r[nzud]|\w+_as_\w+|\w+2\w+_r[nzud]"
    r"|mul24|umul24|popc|clz|brev|ldg|__ldg|shfl_\w+|syncwarp|make_\w+|int|float|unsigned|size_t|half2float|float2half)"
)


class ExcessBarrier(msgspec.Struct, frozen=True):
    """A barrier that orders nothing, and why."""

    span: Span
    #: "adjacent": nothing another thread sees is accessed since the barrier before it. "reads": its loop only
    #: reads what threads share, so one barrier after the loop does as much. "warp": each warp shares memory with
    #: itself alone, so a barrier of the warp does as much. "thread": each thread does.
    kind: str
    #: The barrier before it, or the loop; the barrier itself where there is neither.
    other: Span
    #: Arrays that the loop reads, or the shared ones, for kinds "reads", "warp" and "thread".
    names: tuple[str, ...] = ()


def excess_barriers(
    tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3
) -> tuple[ExcessBarrier, ...]:
    """Barriers of the kernel's own text that provably order nothing, in text order.

    Nothing is said of kernels that pass shared arrays to functions, or access memory in ways that are not
    understood.
    """
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.broken:
        return ()
    every = accesses(tree, kernel, block)
    private = {a.name for a in kernel.arrays if a.space == "local"}
    if any(a.space == "unknown" for a in every) or set(escaping(tree, kernel)) - private:
        return ()
    touched = [a for a in every if a.space != "local"]
    reader = _Reader(expanded, touched, block, seen_names(expanded, kernel))
    barriers = [n for n in walk(expanded.function.body) if is_barrier(expanded.tree, n)]
    found = (reader.excess(node) for node in barriers)
    return tuple(b for b in found if b is not None)


def is_barrier(tree: SourceTree, node: Node) -> bool:
    """Whether a node is the statement of a barrier of the whole block."""
    if node.type != "expression_statement" or node.named_child_count != 1:
        return False
    return re.fullmatch(rf"{_BARRIER}\s*\(\s*\)\s*;", tree.code_of(node)) is not None


def apart(every: Sequence[ArrayAccess], block: Dim3) -> str:
    """ "thread" where no element of a shared array is accessed by two threads, "warp" where none is by threads of two
    warps; "" where neither is known, and for blocks of one warp, which waits for no other."""
    if None in block or math.prod(n or 0 for n in block) <= _WARP:
        return ""
    if _are_apart(every, block, 1):
        return "thread"
    return "warp" if _are_apart(every, block, _WARP) else ""


def _are_apart(every: Sequence[ArrayAccess], block: Dim3, group: int) -> bool:
    """Whether groups of that many threads keep to elements of their own.

    What else than the thread moves an index (a loop, a parameter) moves it by whole multiples of `period`: where the
    remainders differ the elements do.
    """
    if any(a.atomic or a.index is None for a in every):
        return False
    indices = dict.fromkeys((a.name, a.index) for a in every if a.index is not None)
    period: dict[str, int] = {}
    for name, index in indices:
        period[name] = math.gcd(period.get(name, 0), _period(index))
    x, y, z = (n or 1 for n in block)
    owner: dict[tuple[str, int], int] = {}
    for name, index in indices:
        own = Form(tuple(t for t in index.terms if _is_of_thread(t)))
        for n in range(x * y * z):
            values = {"threadIdx.x": n % x, "threadIdx.y": n // x % y, "threadIdx.z": n // (x * y)}
            at = own.evaluate(values)
            if at is None:
                return False
            place = at % period[name] if period[name] else at
            if owner.setdefault((name, place), n // group) != n // group:
                return False
    return True


def _period(index: Form) -> int:
    """Greatest common divisor of what all but the thread moves an index by; 0 where nothing else does."""
    return math.gcd(*(factor for symbols, factor in index.terms if not _is_of_thread((symbols, factor))))


def _is_of_thread(term: tuple[Monomial, int]) -> bool:
    return all(s.kind in _OWN for s in Form((term,)).symbols)


class _Reader:
    def __init__(
        self, expanded: KernelTree, every: list[ArrayAccess], block: Dim3, seen: frozenset[str]
    ) -> None:
        self.expanded, self.tree, self.every, self.block = expanded, expanded.tree, every, block
        self.seen = seen
        self.written = {a.name for a in every if a.writes}

    def excess(self, node: Node) -> ExcessBarrier | None:
        """Whether the barrier at `node` orders nothing."""
        return self._adjacent(node) or self._in_reading_loop(node) or self._of_warp(node)

    def _of_warp(self, node: Node) -> ExcessBarrier | None:
        """A barrier in a kernel whose warps, or threads, share no memory with each other."""
        kind = self._sharing
        if not kind:
            return None
        loop = self._loop_of(node)
        names = tuple(dict.fromkeys(a.name for a in self.every if a.space == "shared"))
        span = self.tree.span(node)
        return ExcessBarrier(span, kind, self.tree.span(loop) if loop is not None else span, names)

    @cached_property
    def _sharing(self) -> str:
        """ "thread" or "warp": what keeps its memory to itself; "" where neither is known to."""
        shared = [a for a in self.every if a.space == "shared"]
        both = {a.name for a in self.every if a.space == "global" and a.reads} & self.written
        body = self.expanded.function.body
        if not shared or both or self._names_what_others_see(body) or not self._calls_are_harmless(body):
            return ""
        return apart(shared, self.block)

    def _loop_of(self, node: Node) -> Node | None:
        loop = node.parent
        while loop is not None and loop.type not in LOOPS and loop.type != "function_definition":
            loop = loop.parent
        return loop if loop is not None and loop.type in LOOPS else None

    def _adjacent(self, node: Node) -> ExcessBarrier | None:
        """A barrier whose nearest barrier before it, in the same block, is separated by private work only."""
        before = node.prev_named_sibling
        while before is not None and not is_barrier(self.tree, before):
            if not self._is_private(before):
                return None
            before = before.prev_named_sibling
        if before is None:
            return None
        return ExcessBarrier(self.tree.span(node), "adjacent", self.tree.span(before))

    def _in_reading_loop(self, node: Node) -> ExcessBarrier | None:
        """The only barrier of a loop in which nothing is written that another thread reads there."""
        loop = self._loop_of(node)
        if loop is None or self._names_what_others_see(loop) or not self._calls_are_harmless(loop):
            return None
        span = self.tree.span(loop)
        inside = [a for a in self.every if _within(a.span, span)]
        names = {a.name for a in inside if a.writes}
        if not inside or any(a.atomic for a in inside) or any(a.reads and a.name in names for a in inside):
            return None
        if any(a.space == "shared" and a.writes for a in inside):
            return None
        shared = tuple(dict.fromkeys(a.name for a in inside if a.space == "shared"))
        return ExcessBarrier(self.tree.span(node), "reads", span, shared)

    def _is_private(self, node: Node) -> bool:
        """Whether a statement accesses nothing that another thread writes, and calls nothing that might."""
        span = self.tree.span(node)
        touched = [a for a in self.every if _within(a.span, span)]
        plain = all(a.space == "global" and self._is_unwritten(a) for a in touched)
        if not plain or _jumps(node) or self._names_what_others_see(node):
            return False
        return self._calls_are_harmless(node)

    def _is_unwritten(self, access: ArrayAccess) -> bool:
        """Whether no thread writes what an access reads, under whatever name: a pointer may hold what another one is
        written through."""
        if access.name in self.written:
            return False
        alone = isinstance(access.declared, Parameter) and access.declared.restrict
        return alone or not any(a.space == "global" and a.writes for a in self.every)

    def _names_what_others_see(self, node: Node) -> bool:
        """Whether it names a variable, not an array, that another thread may read or write: a shared flag."""
        names = (n for n in walk(node) if n.type == "identifier" and not _is_declared_by(n))
        return any(self.tree.text_of(n) in self.seen for n in names)

    def _calls_are_harmless(self, node: Node) -> bool:
        for inner in walk(node):
            if inner.type in ("asm_statement", "gnu_asm_expression"):
                return False
            function = inner.child_by_field_name("function") if inner.type == "call_expression" else None
            if function is None:
                continue
            name = self.tree.code_of(function).split("<")[0].strip()
            if name != _BARRIER and not _HARMLESS.fullmatch(name) and not self._keeps_to_itself(name):
                return False
        return True

    def _keeps_to_itself(self, name: str, depth: int = 0) -> bool:
        """Whether a function of the file computes from its arguments alone, at most with the lanes of its warp."""
        found = [f for f in functions_of(self.tree.file) if own_name(self.tree.file, f) == name]
        return depth < _MAX_DEPTH and bool(found) and all(self._is_closed(f, depth) for f in found)

    def _is_closed(self, function: Function, depth: int) -> bool:
        tree = self.tree.file
        head = tree.words(function.declarator.start_byte, function.body.start_byte)
        body = tree.code_of(function.body)
        if re.search(r"[*&]", head) or re.search(r"\[|->|\basm\b|__shared__|\bthis\b", body):
            return False
        calls = [n for n in walk(function.body) if n.type == "call_expression"]
        names = [tree.code_of(n.child_by_field_name("function") or n).split("<")[0].strip() for n in calls]
        return all(_HARMLESS.fullmatch(n) or self._keeps_to_itself(n, depth + 1) for n in names)


def _is_declared_by(name: Node) -> bool:
    return name.parent is not None and name.parent.type == "declaration"


def _jumps(node: Node) -> bool:
    kinds = {"return_statement", "break_statement", "continue_statement", "goto_statement"}
    return any(inner.type in kinds for inner in walk(node))


def _within(inner: Span, outer: Span) -> bool:
    start, end = (outer.line, outer.column), (outer.end_line, outer.end_column)
    return start <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= end
