# SPDX-License-Identifier: Apache-2.0
"""The array accesses of a kernel: what is read and written, where, at which index, in which loops."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.conditions import Comparison
from warplens_tools.cuda.facts.guards import Guards
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import ArrayDeclaration, Kernel, Parameter
from warplens_tools.cuda.syntax.around import inherited, loops_around
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import LOADED, Form
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.cuda.values.pointers import Pointer, PointerReader, Space
from warplens_tools.text import Span

_BRANCHES = frozenset({"if_statement", "conditional_expression", "switch_statement", "case_statement"})
_ATOMIC = re.compile(r"atomic[A-Z]\w*|__nv_atomic\w*")
_PATTERN = """
(subscript_expression) @subscript
(pointer_expression) @dereference
(field_expression operator: "->") @arrow
(call_expression function: (identifier)) @call
(call_expression function: (template_function)) @call
"""
#: Functions that load from, or store to, the place that their first argument points to; `ldg` wraps `__ldg`.
_LOADS = re.compile(r"(?:__)?ldg(?:<.*>)?|__ld(?:ca|cg|cs|cv|lu)")
_STORES = re.compile(r"__st(?:cg|cs|wb|wt)")


class ArrayAccess(msgspec.Struct, frozen=True):
    """One access, e.g. `tile[threadIdx.y][k]`. An access through `+=` or an atomic both reads and writes."""

    #: The array or pointer parameter it ends up in, through any local pointers; as written if unknown.
    name: str
    space: Space
    #: Type of what is accessed: "float4" for `reinterpret_cast<float4*>(a)[i]`.
    element_type: str
    reads: bool
    writes: bool
    #: As written, outermost first; ("0",) for `*p`.
    indices: tuple[str, ...]
    #: The whole access, e.g. `p[i].x`.
    span: Span
    #: Loops around it, outermost first.
    loops: tuple[Loop, ...]
    #: Elements of `element_type` from the array's start; None where not derivable.
    index: Form | None
    #: As `index`, in which what is loaded is a symbol.
    traced: Form | None
    #: It stands in a branch, or under an `#if` that is not decided.
    conditional: bool
    #: Single threads that are chosen by their index make it (`facts.guards`).
    few: bool = False
    #: One thread of a group makes it, chosen by a number that the others know too.
    one: bool = False
    #: What the indices of the threads that make it must meet, as far as the text tells.
    come: tuple[Comparison, ...] = ()
    #: What is loaded, drawn or worked out from it decides whether a thread comes to it.
    by_data: bool = False
    atomic: bool = False
    #: ".x" for `p[i].x`; "" for the whole element.
    member: str = ""
    #: The parameter or array that it ends up in.
    declared: Parameter | ArrayDeclaration | None = None


def accesses(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[ArrayAccess, ...]:
    """Every array access in the kernel's own text, in text order.

    `block` is the block size where all launches agree on it; `blockDim` is then a number. Accesses in
    functions that the kernel calls are not followed; see `escaping`.
    """
    return tree.remembered(("accesses", kernel.span, block), lambda: _accesses(tree, kernel, block))


def _accesses(tree: SourceTree, kernel: Kernel, block: Dim3) -> tuple[ArrayAccess, ...]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    return AccessReader(FormReader(expanded, block), kernel).every()


class AccessReader:
    """Reads the accesses of one kernel; with `handed`, of a function that is given these pointers."""

    def __init__(
        self, forms: FormReader, kernel: Kernel, handed: Mapping[str, Pointer] | None = None
    ) -> None:
        self.tree = forms.tree
        self.forms = forms
        self.pointers = PointerReader(kernel, forms, handed or {})
        self.body = forms.kernel.function.body
        self._asked: dict[int, bool] = {}
        self.guards = Guards(forms, lane_names(self.tree.code_of(self.body)))

    def every(self) -> tuple[ArrayAccess, ...]:
        """Those of the whole body, in text order."""
        return tuple(a for a in map(self.access, self._nodes()) if a is not None)

    def written(self) -> frozenset[str]:
        """The arrays that the body writes: what `every` says of them, without who comes to an access, which takes
        most of its time.
        """
        used = (self._used(n) for n in self._nodes())
        return frozenset(pointer.name for pointer, _, _, writes, _ in filter(None, used) if writes)

    def _nodes(self) -> list[Node]:
        captured = self.tree.captures(_PATTERN, self.body)
        return sorted(
            (n for found in captured.values() for n in found), key=lambda n: (n.start_byte, -n.end_byte)
        )

    def _used(self, node: Node) -> tuple[Pointer, tuple[str, ...], bool, bool, bool] | None:
        """Where an access goes and by which indices, and whether it reads, writes, and is atomic; None for none."""
        found = self._place(node)
        if found is None:
            return None
        whole, member = _with_member(self.tree, node)
        if member and self.pointers.member_array(whole) is not None:
            return None
        reads, writes, atomic = self._use(whole)
        return (*found, reads, writes, atomic) if reads or writes else None

    def access(self, node: Node) -> ArrayAccess | None:
        """The access that a node makes; None where it makes none."""
        found = self._used(node)
        if found is None:
            return None
        pointer, indices, reads, writes, atomic = found
        whole, member = _with_member(self.tree, node)
        loops = tuple(self.forms.loop(n) for n in loops_around(self.tree, node))
        tests = self.guards.tests(node)
        who = self.guards.comers(tests)
        return ArrayAccess(
            name=pointer.name,
            space=pointer.space,
            element_type=pointer.element_type,
            reads=reads,
            writes=writes,
            indices=indices,
            span=self.tree.span(whole),
            loops=loops,
            index=pointer.offset,
            traced=pointer.traced,
            conditional=self._conditional(node),
            # What it costs that few come shows in loops alone.
            few=bool(loops) and self.guards.are_few(tests),
            one=who.one,
            come=who.come,
            by_data=who.by_data,
            atomic=atomic,
            member=member,
            declared=pointer.declared,
        )

    def _place(self, node: Node) -> tuple[Pointer, tuple[str, ...]] | None:
        if node.type == "subscript_expression":
            return self._subscript(node)
        if node.type == "call_expression":
            return self._called(node)
        argument = node.child_by_field_name("argument")
        operator = node.child_by_field_name("operator")
        if argument is None or (node.type == "pointer_expression" and (not operator or operator.type != "*")):
            return None
        if self.tree.code_of(argument) == "this":
            return None
        pointer = self.pointers.pointer(argument)
        if pointer is None:
            pointer = self._unknown(argument)
        elif pointer.inner:
            return None
        return pointer, ("0",)

    def _called(self, node: Node) -> tuple[Pointer, tuple[str, ...]] | None:
        """What `__ldg(p + i)` reads; `__ldg(&p[i])` is read as the subscript that it names."""
        if self._moved_by(node) is None:
            return None
        argument = _first_argument(node)
        if argument is None or argument.type == "pointer_expression":
            return None
        pointer = self.pointers.pointer(argument)
        return None if pointer is None or pointer.inner else (pointer, ("0",))

    def _moved_by(self, call: Node) -> tuple[bool, bool] | None:
        """Whether a function reads and writes what its first argument points to; None where it is another one."""
        function = call.child_by_field_name("function")
        name = self.tree.code_of(function) if function is not None else ""
        if _LOADS.fullmatch(name):
            return True, False
        return (False, True) if _STORES.fullmatch(name) else None

    def _subscript(self, node: Node) -> tuple[Pointer, tuple[str, ...]] | None:
        if self.pointers.is_row(node):
            return None
        indices, base = _index_texts(self.tree, node)
        if self.pointers.member_array(base) is not None and _is_row(node):
            return None  # A row of a member of more dimensions.
        pointer = self.pointers.element(node)
        if pointer is None:
            return self._unknown(base), indices
        return pointer, indices

    def _unknown(self, base: Node) -> Pointer:
        return Pointer(self.tree.text_of(base), "unknown", "", None)

    def _use(self, node: Node) -> tuple[bool, bool, bool]:
        """Whether the accessed place is read, written, and by an atomic."""
        if node.type == "call_expression":
            return *(self._moved_by(node) or (True, False)), False
        node = _outermost_lvalue(node)
        parent = node.parent
        if parent is None:
            return True, False, False
        if parent.type == "assignment_expression" and _is_field(parent, "left", node):
            operator = parent.child_by_field_name("operator")
            return operator is not None and operator.type != "=", True, False
        if parent.type == "update_expression":
            return True, True, False
        if parent.type == "pointer_expression" and _is_field(parent, "argument", node):
            operator = parent.child_by_field_name("operator")
            if operator is not None and operator.type == "&":
                atomic = self._is_atomic_argument(parent)
                return *(self._moved_through(parent) or (atomic, atomic)), atomic
        if parent.type == "init_declarator" and self._binds_reference(parent):
            return True, True, False
        return True, self._passed_by_reference(node), False

    def _is_atomic_argument(self, node: Node) -> bool:
        call = node.parent.parent if node.parent is not None and node.parent.type == "argument_list" else None
        function = call.child_by_field_name("function") if call is not None else None
        return function is not None and bool(_ATOMIC.fullmatch(self.tree.code_of(function)))

    def _moved_through(self, place: Node) -> tuple[bool, bool] | None:
        """As `_moved_by`, of the call that a place `&p[i]` is the first argument of."""
        call = (
            place.parent.parent if place.parent is not None and place.parent.type == "argument_list" else None
        )
        if call is None or call.type != "call_expression" or _first_argument(call) != place:
            return None
        return self._moved_by(call)

    def _binds_reference(self, node: Node) -> bool:
        declarator = node.child_by_field_name("declarator")
        if declarator is None or declarator.type != "reference_declarator" or node.parent is None:
            return False
        return "const" not in self.tree.code_of(node.parent).split("&")[0].split()

    def _passed_by_reference(self, node: Node) -> bool:
        """Whether a function of this file takes the place by a reference through which it may write."""
        listed = node.parent
        call = listed.parent if listed is not None and listed.type == "argument_list" else None
        function = call.child_by_field_name("function") if call is not None else None
        if listed is None or function is None:
            return False
        index = [n.start_byte for n in listed.named_children].index(node.start_byte)
        return index in _reference_parameters(self.tree, self.tree.code_of(function).split("<")[0].strip())

    def _conditional(self, node: Node) -> bool:
        return self.tree.is_conditional(node.start_byte) or inherited(
            self._asked, node, self._asks, top=False
        )

    def _asks(self, outer: Node, child: Node, asked: bool) -> bool:
        """Whether something inside the body decides if `child` is come to."""
        if outer.start_byte < self.body.start_byte:
            return False
        branch = outer.type in _BRANCHES and not _is_field(outer, "condition", child)
        return asked or branch or (_is_short_circuit(outer) and _is_field(outer, "right", child))


def _first_argument(call: Node) -> Node | None:
    """What a call is given first, without parentheses."""
    listed = call.child_by_field_name("arguments")
    found = (
        next((n for n in listed.named_children if n.type != "comment"), None) if listed is not None else None
    )
    while found is not None and found.type == "parenthesized_expression":
        found = next(iter(found.named_children), None)
    return found


def _reference_parameters(tree: SourceTree, name: str) -> set[int]:
    """Indices of the parameters that functions of that name take by non-const reference."""
    found: set[int] = set()
    for written in tree.parameter_lists(name):
        found |= {i for i, p in enumerate(written.split(",")) if "&" in p and "const" not in p.split()}
    return found


def _is_row(node: Node) -> bool:
    """Whether a subscript is indexed again."""
    outer = node.parent
    return outer is not None and outer.type == "subscript_expression" and _is_field(outer, "argument", node)


def _is_short_circuit(node: Node) -> bool:
    operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
    return operator is not None and operator.type in ("&&", "||")


def _is_field(parent: Node, field: str, child: Node) -> bool:
    found = parent.child_by_field_name(field)
    return found is not None and found.id == child.id


def _with_member(tree: SourceTree, node: Node) -> tuple[Node, str]:
    """The access with the members that follow it: `p[i].x`."""
    member = ""
    if node.type == "field_expression":
        field = node.child_by_field_name("field")
        member = "." + tree.text_of(field) if field is not None else ""
    while True:
        outer = node.parent
        while outer is not None and outer.type == "parenthesized_expression":
            outer = outer.parent
        field = outer.child_by_field_name("field") if outer is not None else None
        operator = outer.child_by_field_name("operator") if outer is not None else None
        dotted = operator is not None and operator.type == "."
        if outer is None or outer.type != "field_expression" or field is None or not dotted:
            return node, member
        node, member = outer, f"{member}.{tree.text_of(field)}"


def _outermost_lvalue(node: Node) -> Node:
    """Past parentheses."""
    while node.parent is not None and node.parent.type == "parenthesized_expression":
        node = node.parent
    return node


def _index_texts(tree: SourceTree, node: Node) -> tuple[tuple[str, ...], Node]:
    """The chain of indices of `a[i][j]`, outermost first, and what is indexed."""
    texts: list[str] = []
    current = node
    while current.type == "subscript_expression":
        indices = current.child_by_field_name("indices")
        if indices is not None:
            texts.append(tree.text_of(indices)[1:-1].strip())
        base = current.child_by_field_name("argument")
        if base is None:
            break
        current = base
    return tuple(reversed(texts)), current


def escaping(tree: SourceTree, kernel: Kernel) -> tuple[str, ...]:
    """Arrays and pointer parameters that the kernel passes to a function, which may access them."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    reader = PointerReader(kernel, FormReader(expanded))
    pattern = "(call_expression arguments: (argument_list (_) @argument))"
    found: dict[str, None] = {}
    for node in expanded.tree.captures(pattern, expanded.function.body).get("argument", []):
        if node.parent is None or _is_transparent(expanded.tree, node.parent.parent):
            continue
        pointer = reader.pointer(node)
        if pointer is not None:
            found[pointer.name] = None
    return tuple(found)


def indirect_accesses(
    tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3
) -> tuple[ArrayAccess, ...]:
    """The kernel's global accesses whose place data chooses, as `table[ids[i] * width + lane]`, in text order."""
    return tuple(
        access
        for access in accesses(tree, kernel, block)
        if access.space == "global" and access.traced is not None and _is_chosen(access.traced)
    )


def _is_chosen(index: Form) -> bool:
    """Whether what is loaded is all that is opaque: a narrow type's few values choose within a small table."""
    return {s.operation for s in index.symbols if s.opaque} == {LOADED}


def _is_transparent(tree: SourceTree, call: Node | None) -> bool:
    """Whether a call's pointer arguments are accounted for elsewhere: atomics and pointer casts."""
    function = call.child_by_field_name("function") if call is not None else None
    name = tree.code_of(function) if function is not None else ""
    moves = _ATOMIC.fullmatch(name) or _LOADS.fullmatch(name) or _STORES.fullmatch(name)
    return bool(moves) or name.split("<")[0].strip().endswith("_cast")
