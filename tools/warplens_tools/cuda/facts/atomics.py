# SPDX-License-Identifier: Apache-2.0
"""The atomic operations of a kernel: where they go, and how many threads meet there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import overload

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.guards import Guards, Test, mentions
from warplens_tools.cuda.facts.lane_names import lane_names, lane_names_by_element, mentions_lanes
from warplens_tools.cuda.model import ArrayDeclaration, Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3, constants_of, layouts_of
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import ZERO, Form, value_count
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.cuda.values.pointers import Pointer, PointerReader, Space
from warplens_tools.text import Span

#: CUDA C++ Programming Guide, "Atomic Functions"; a program's own `atomicAggInc` is none of them.
_ATOMIC = re.compile(r"(?:::)?atomic(?:Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(?:_block|_system)?")
_CALLED = re.compile(rf"\b{_ATOMIC.pattern}\s*\(")
#: Atomics that leave a place as it is where it holds a better value already.
_REPLACING = frozenset({"atomicMin", "atomicMax", "atomicCAS", "atomicExch"})
_CALLS = "(call_expression function: [(identifier) (qualified_identifier)] @callee) @call"


class Atomic(msgspec.Struct, frozen=True):
    """One call, e.g. `atomicAdd(&bins[key[i]], 1)`."""

    #: e.g. "atomicAdd".
    function: str
    name: str
    space: Space
    element_type: str
    #: None for a scalar.
    index: Form | None
    #: Places that the index can name at most, from types and array extents; None where nothing bounds it.
    places: int | None
    #: It differs between the lanes of a warp, as far as data flow tells.
    varies: bool
    #: The lanes of a warp that come here together go to one place, which data chose and all of them read.
    together: bool
    #: Few come here: single threads that are chosen by their index, one block, or who found a new extreme.
    leader: bool
    #: Data decides who comes here, and how often it lets them is not known.
    guarded: bool
    span: Span
    loops: tuple[Loop, ...]
    #: Those of the loops that go from place to place.
    walked: tuple[Loop, ...] = ()
    #: What another atomic brought lets a thread come: each place is claimed once, however often threads try.
    claimed: bool = False

    @property
    def plain(self) -> str:
        """ "atomicAdd" of `atomicAdd_block`."""
        return self.function.removesuffix("_block").removesuffix("_system")


def atomics(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[Atomic, ...]:
    """Every atomic operation in the kernel's own text, in text order; `block` as for `accesses`."""
    key = ("atomics", kernel.span, kernel.name, block)
    return tree.remembered(key, lambda: _atomics(tree, kernel, block))


def _atomics(tree: SourceTree, kernel: Kernel, block: Dim3) -> tuple[Atomic, ...]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None or "atomic" not in expanded.tree.code_of(expanded.function.body):
        return ()
    forms = FormReader(expanded, block)
    reader = _AtomicReader(expanded.tree, kernel, forms, expanded.function.body)
    calls = expanded.tree.captures(_CALLS, expanded.function.body).get("call", [])
    return tuple(a for call in calls if (a := reader.atomic(call)) is not None)


def led_lines(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> frozenset[int]:
    """Lines of the kernel and of the file's functions that it calls to which few threads of a block come for an atomic,
    wherever that goes."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return frozenset()
    names = called_names(tree, expanded.tree.code_of(expanded.function.body))
    called = (f for name in names for f in functions_named(tree, name) if f.is_device)
    within = [expanded, *(KernelTree(tree, function, constants_of(tree)) for function in called)]
    return frozenset(line for each in within for line in _led_lines(each, block))


def _led_lines(within: KernelTree, block: Dim3) -> Iterator[int]:
    tree, body = within.tree, within.function.body
    code = tree.code_of(body)
    if not _CALLED.search(code):
        return
    guards = Guards(FormReader(within, block), lane_names(code))
    for call in tree.captures(_CALLS, body).get("call", []):
        if _CALLED.match(tree.code_of(call)) and guards.are_few(guards.tests(call)):
            yield tree.span(call).line


def _is_moved(code: str, index: Form | None, loop: Loop) -> bool:
    """Whether a loop's variable is in a target, as written or by the form of its index.

    Not where it only says what is read to know the place: `&bins[bytes[i]]` is wherever the data lead.
    """
    own = _outside(code, 1 if code.startswith("&") else 0)
    named = bool(loop.variable) and re.search(rf"\b{re.escape(loop.variable)}\b", own) is not None
    return named or (index is not None and bool(loop.counter) and index.mentions(loop.counter))


def _outside(code: str, depth: int) -> str:
    """Code without what stands in more than so many brackets."""
    kept, open_brackets = [], 0
    for letter in code:
        open_brackets += (letter == "[") - (letter == "]")
        kept.append(letter if open_brackets <= depth else " ")
    return "".join(kept)


@overload
def _bare(node: Node) -> Node: ...
@overload
def _bare(node: None) -> None: ...
def _bare(node: Node | None) -> Node | None:
    """An expression without the parentheses around it: `low->x` of `(low->x)`."""
    while node is not None and node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node


class _AtomicReader:
    def __init__(self, tree: SourceTree, kernel: Kernel, forms: FormReader, body: Node) -> None:
        self.tree, self.forms, self.body = tree, forms, body
        self.pointers = PointerReader(kernel, forms)
        code = tree.code_of(body)
        self.varying = lane_names(code)
        self.apart = lane_names_by_element(code, [a.name for a in kernel.arrays if a.space == "shared"])
        self.guards = Guards(forms, self.varying)

    def atomic(self, call: Node) -> Atomic | None:
        function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or listed is None or not listed.named_children:
            return None
        name = self.tree.code_of(function)
        if not _ATOMIC.fullmatch(name):
            return None
        target = listed.named_children[0]
        place, index = self._place(target)
        if place is None:
            return None
        name, tests = name.removeprefix("::"), self.guards.tests(call)
        code = self.tree.code_of(target)
        varies = mentions_lanes(code, self.varying)
        loops = tuple(self.forms.loop(n) for n in loops_around(self.tree, call))
        return Atomic(
            function=name,
            name=place.name,
            space=place.space,
            element_type=place.element_type,
            index=place.offset,
            places=self._places(place, index),
            varies=varies,
            together=varies and place.offset is None and not mentions_lanes(code, self.apart),
            leader=self.guards.are_few(tests) or self._is_compared(name, target, tests),
            guarded=bool(self.guards.data(tests)),
            span=self.tree.span(call),
            loops=loops,
            walked=tuple(x for x in loops if _is_moved(code, place.offset, x)),
            claimed=any(self._is_claim(t) for t in tests),
        )

    def _place(self, target: Node) -> tuple[Pointer | None, Node | None]:
        """Where the first argument points, and the index expression it is given by."""
        target = _bare(target)
        found = self.pointers.pointer(target)
        inner = _bare(target.child_by_field_name("argument"))
        if target.type == "pointer_expression" and inner is not None and inner.type == "identifier":
            return self._scalar(inner), None
        while inner is not None and inner.type == "field_expression":  # &bins[i].count, &totals->mass
            arrow = (
                self.tree.code_of(inner)
                .rpartition(self.tree.code_of(inner.named_children[-1]))[0]
                .endswith("->")
            )
            inner = _bare(inner.child_by_field_name("argument"))
            if arrow and inner is not None and inner.type != "subscript_expression":
                return self.pointers.pointer(inner), None
            if inner is not None and inner.type == "subscript_expression":
                found = self.pointers.element(inner)
        if found is None and inner is not None and inner.type == "subscript_expression":
            found = self._member_array(inner)
        if target.type == "pointer_expression" and inner is not None:
            listed = inner.child_by_field_name("indices")
            whole = self._begins(inner.child_by_field_name("argument"))
            return found, listed.named_children[
                0
            ] if whole and listed is not None and listed.named_children else None
        if target.type == "binary_expression":
            # Of `bins + place + 32` neither side is the index.
            whole = self._begins(target.child_by_field_name("left"))
            return found, target.child_by_field_name("right") if whole else None
        return found, None

    def _begins(self, base: Node | None) -> bool:
        """Whether what an index counts from is where its array begins: no pointer that was moved to another place."""
        if base is not None and base.type == "binary_expression":
            return False
        found = self.pointers.pointer(base) if base is not None else None
        return found is None or found.traced == ZERO

    def _member_array(self, subscript: Node) -> Pointer | None:
        """`totals->rows[g]` or `out.bin[b]`: an array that is a member of what one pointer points to."""
        member = subscript.child_by_field_name("argument")
        root = member.child_by_field_name("argument") if member is not None else None
        indices = subscript.child_by_field_name("indices")
        if member is None or root is None or member.type != "field_expression" or indices is None:
            return None
        found = self.pointers.pointer(root)
        if found is None or indices.named_child_count != 1:
            return None
        name = self.tree.code_of(member.named_children[-1])
        declared = layouts_of(self.tree).member(found.element_type, name)
        if declared is None or declared.pointer:
            return None
        each = layouts_of(self.tree).bytes(declared.type)
        count = declared.size // each if each else None
        if found.space not in ("global", "shared") or count is None:
            return None
        span = self.tree.span(member)
        listed = ArrayDeclaration(name, declared.type, found.space, (str(count),), (count,), span)
        index = self.forms.form(indices.named_children[0])
        return Pointer(self.tree.code_of(member), found.space, declared.type, index, (), listed)

    def _scalar(self, name: Node) -> Pointer | None:
        """`&total`, a shared or file-scope variable."""
        binding = self.forms.kernel.constants.binding(self.tree.text_of(name), name.start_byte)
        if binding is None:
            return None
        words = self.tree.words(max(0, binding.declaration[0] - 12), binding.start).split()
        space: Space = "shared" if "__shared__" in words else "global" if "__device__" in words else "unknown"
        known = [w for w in words if w in ("int", "unsigned", "float", "double", "long")]
        return Pointer(binding.name, space, known[-1] if known else "", ZERO) if space != "unknown" else None

    def _places(self, place: Pointer, index: Node | None) -> int | None:
        declared = place.declared.sizes if isinstance(place.declared, ArrayDeclaration) else ()
        extent = 1
        for size in declared:
            extent = extent * size if size is not None and extent else 0
        form = self.forms.traced(index)
        # Where the block's number counts in a global index, and not in where a loaded number stands, each block has
        # places of its own.
        counted = [s for symbols, _ in form.terms for s in symbols] if form is not None else []
        own = place.space == "global" and any(s.kind == "block" for s in counted)
        count = value_count(form, self._loaded) if form is not None else None
        count = None if own and count != 1 else count
        return min((b for b in (count, extent if declared else None) if b), default=None)

    def _loaded(self, name: str) -> int | None:
        """How many values an element that the kernel loads can have, where its type is narrow."""
        node = self.forms.loads[name]
        if node.type == "subscript_expression":
            found = self.pointers.element(node)
        else:
            found = self.pointers.pointer(node.child_by_field_name("argument"))
        known = integer_type(found.element_type) if found is not None else None
        return known.values if known is not None and known.is_narrow else None

    def _is_claim(self, test: Test) -> bool:
        """Whether a test is of what an atomic brought: `atomicExch(&seen[v], 1) == 0`, `old == EMPTY`."""
        code, at = self.tree.code_of(test.node), test.node.start_byte
        bound = (self.forms.kernel.constants.binding(n, at) for n in set(re.findall(r"[A-Za-z_]\w*", code)))
        values = (value_node(self.tree, b) for b in bound if b is not None and b.value is not None)
        return any(
            _CALLED.search(text) for text in (code, *(self.tree.code_of(v) for v in values if v is not None))
        )

    def _is_compared(self, function: str, target: Node, tests: Sequence[Test]) -> bool:
        """Whether the place is read before, as in `if (x > *best) atomicMax(best, x);`, so that few go on."""
        written = "".join(self.tree.code_of(target).split())
        place = written.removeprefix("&") if written.startswith("&") else f"*{written}"
        return function in _REPLACING and mentions(self.tree, tests, place)
