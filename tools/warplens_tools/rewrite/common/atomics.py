# SPDX-License-Identifier: Apache-2.0
"""Atomics that join values into a place in memory."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader, written_before
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.reading import View, assigned, field
from warplens_tools.rewrite.common.style import zero

_SIGNED, _UNSIGNED = ("int", "int32_t"), ("unsigned int", "unsigned", "uint32_t", "uint")
_LARGEST = dict.fromkeys(_SIGNED, "0x7fffffff") | dict.fromkeys(_UNSIGNED, "0xffffffffu")
_SMALLEST = dict.fromkeys(_SIGNED, "(-0x7fffffff - 1)") | dict.fromkeys(_UNSIGNED, "0u")
_LONG = {
    "unsigned long long",
    "unsigned long long int",
    "long long",
    "double",
    "float",
    *_SIGNED,
    *_UNSIGNED,
}


#: A function of the file's that joins a value by exchanging until nobody was in between: what it joins by.
_EXCHANGED = {
    "Max": re.compile(r"\b(?:std::)?(?:fmaxf?|max)\s*\("),
    "Min": re.compile(r"\b(?:std::)?(?:fminf?|min)\s*\("),
    "Add": re.compile(
        r"__longlong_as_double\s*\(\s*\w+\s*\)\s*\+|\+\s*__(?:longlong_as_double|int_as_float)\s*\("
    ),
}
#: One that lets integers of the same bits join, as positive floats are ordered alike.
_BY_BITS = re.compile(
    r"\batomic(Max|Min)\s*\(\s*(?:\(\s*int\s*\*\s*\)|reinterpret_cast\s*<\s*int\s*\*\s*>)\s*\(?\s*\w+\s*\)?\s*,"
    r"\s*__float_as_int\s*\(\s*\w+\s*\)"
)


class Atomic(msgspec.Struct, frozen=True):
    """Atomics of one kind on one place."""

    #: The function that is called.
    name: str
    #: "Add", "Max", "Min", "Or".
    kind: str
    type: str
    target: Node
    statements: tuple[Node, ...]
    values: tuple[Node, ...]
    #: It joins integers of the same bits, whatever their sign: the least of those is minus zero.
    by_bits: bool = False

    def neutral(self) -> str:
        """The value that changes nothing."""
        if self.kind in ("Add", "Or"):
            return zero(self.type)
        if self.by_bits and self.kind == "Max":
            return "-0.0f"
        if self.type in ("float", "double"):
            return "INFINITY" if self.kind == "Min" else "-INFINITY"
        return (_LARGEST if self.kind == "Min" else _SMALLEST)[self.type]

    def joined(self, left: str, right: str) -> str:
        """The statement that joins a value into another."""
        if self.kind in ("Max", "Min"):
            return f"{left} = {self.kind.lower()}({left}, {right});"
        return f"{left} {'|=' if self.kind == 'Or' else '+='} {right};"


def read_atomic(view: View, name: str, call: Node, *, shared: bool = False, kept: bool = False) -> Atomic:
    """The atomic that a call is, or that a function of the file's makes of compare and exchange; `shared`: also one in
    shared memory; `kept`: also one on a place that a variable keeps and changes.

    Raises:
        Refused: its old value is used, it joins nothing, or of what type its result is is not known.
    """
    statement, given = call.parent, field(call, "arguments").named_children
    built_in = re.fullmatch(r"atomic(Add|Max|Min|Or)", name)
    by_bits = "" if built_in is not None else _joining_bits(view, name)
    kind = built_in[1] if built_in is not None else _exchanging(view, name) or by_bits
    if not kind or len(given) != 2:
        raise Refused(f"{name} is no reduction")
    if statement is None or statement.type != "expression_statement" or not view.is_plain_enough(statement):
        raise Refused("the old value is used")
    written = target_type(view, given[0]) or (shared_type(view, given[0]) if shared else "")
    written = written or (_kept_type(view, given[0]) if kept else "")
    if written not in _LONG or (built_in is None and written not in ("float", "double")):
        raise Refused("the type or place of the result is not known")
    if built_in is not None and kind != "Add" and written not in _LARGEST:
        raise Refused(f"{name} of {written} is not reduced")
    if by_bits and written != "float":
        raise Refused("the type or place of the result is not known")
    plain = by_bits and not re.search(r"unsigned|uint", _definition(view, name))
    return Atomic(name, kind, written, given[0], (statement,), (given[1],), bool(plain))


def joining(view: View, name: str) -> str:
    """What a function of the file's joins a value by, like an atomic: "Max"; "" for any other function."""
    return _exchanging(view, name) or _joining_bits(view, name)


def _exchanging(view: View, name: str) -> str:
    """What a function of the file's joins by in a loop around `atomicCAS`: "Max"; "" for any other function."""
    code = _definition(view, name) if "atomicCAS" in view.text.text else ""
    found = [kind for kind, written in _EXCHANGED.items() if written.search(code)]
    return found[0] if "atomicCAS" in code and len(found) == 1 else ""


def _joining_bits(view: View, name: str) -> str:
    """What a function of the file's joins floats by, as integers of the same bits: "Max"; "" for any other function."""
    code = _definition(view, name) if "__float_as_int" in view.text.text else ""
    found = _BY_BITS.search(code) if code.count("atomic") - name.count("atomic") <= 2 else None
    return found[1] if found is not None and "atomicCAS" not in code else ""


def _definition(view: View, name: str) -> str:
    """The code of the one function of that name; "" where there are none, or several."""
    defined = [n for n in view.file.functions if _defines(view.file, n, name)]
    return view.file.code_of(defined[0]) if len(defined) == 1 else ""


def _defines(tree: SourceTree, node: Node, name: str) -> bool:
    declarator = node.child_by_field_name("declarator")
    head = tree.code_of(declarator) if declarator is not None else ""
    return re.search(rf"\b{re.escape(name)}\s*\(", head) is not None


def _kept_type(view: View, node: Node) -> str:
    """The type behind a variable that begins as no place and is set to places in global memory; else ""."""
    name = view.code(node)
    begun = [d for n in walk(view.body) for d in plainly_declared_in(view, n) if d.name == name]
    if node.type != "identifier" or len(begun) != 1 or begun[0].value is None:
        return ""
    if view.code(begun[0].value) not in ("nullptr", "NULL"):
        return ""
    places = [place for changed, place in assigned(view.body, view) if changed == name]
    values = [p.parent.child_by_field_name("right") if p.parent is not None else None for p in places]
    types = {target_type(view, v) if v is not None else "" for v in values}
    return types.pop() if len(types) == 1 else ""


def target_type(view: View, node: Node) -> str:
    """The type behind a pointer to global memory: `out`, `&out[1]`, `&total->count`; "" where it is not known."""
    pointer = view.pointers.pointer(node)
    if pointer is not None:
        return pointer.element_type if pointer.space == "global" else ""
    member = re.fullmatch(r"&\s*\(?\s*(\w+)\s*->\s*([\w.]+)\s*\)?", view.code(node))
    owner = view.pointers.parameters.get(member[1]) if member else None
    if member is None or owner is None:
        return ""
    found = layouts_of(view.tree).member(owner.element_type, member[2])
    return found.type if found is not None and not found.pointer else ""


def shared_type(view: View, node: Node) -> str:
    """The type of an element or a variable in shared memory that `&sum`, `&sums[1]` or `sums + i` is the place of; ""
    for anything else.
    """
    pointer = view.pointers.pointer(node)
    if pointer is not None:
        return pointer.element_type if pointer.space == "shared" else ""
    named = re.fullmatch(r"&\s*(\w+)", view.code(node))
    binding = view.expanded.constants.binding(named[1], node.start_byte) if named is not None else None
    if binding is None or "__shared__" not in written_before(view.tree, binding):
        return ""
    return TypeReader(view.forms, view.pointers).type(field(node, "argument")) or ""
