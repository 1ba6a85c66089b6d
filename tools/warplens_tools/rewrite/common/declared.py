# SPDX-License-Identifier: Apache-2.0
"""Variables that a kernel declares before its work."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import View, assigned, field


class Declared(msgspec.Struct, frozen=True):
    """One variable that is declared before the work."""

    name: str
    #: The type as written, qualifiers included: "const int".
    type: str
    #: "*" where it is a pointer, and its qualifiers.
    stars: str
    value: Node | None
    statement: Node
    #: The value where it is not as written any more.
    text: str = ""
    #: "[4]" of an array.
    extents: str = ""

    @property
    def is_index(self) -> bool:
        """Whether it is an integer or a pointer: something to compute again rather than to keep."""
        return bool(self.stars) or integer_type(self.type) is not None or "auto" in self.type.split()


def declared_in(view: View, statement: Node) -> list[Declared]:
    """The variables that a declaration statement declares.

    Raises:
        Refused: one of them is an array, or is declared in a way that is not understood.
    """
    declarators = statement.children_by_field_name("declarator")
    if not declarators:
        raise Refused("the kernel has a declaration that is not understood")
    written = view.code(statement)[: declarators[0].start_byte - statement.start_byte]
    found = []
    for declarator in declarators:
        value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
        name = field(declarator, "declarator") if declarator.type == "init_declarator" else declarator
        stars = ""
        while name.type == "pointer_declarator":
            inner = field(name, "declarator")
            stars += view.code(name)[: inner.start_byte - name.start_byte].strip()
            name = inner
        if name.type != "identifier" or "__shared__" in written or "static" in written.split():
            raise Refused("the kernel declares an array or shared memory")
        found.append(Declared(view.code(name), written.strip(), stars, value, statement))
    return found


def plainly_declared_in(view: View, statement: Node) -> list[Declared]:
    """As `declared_in`; none where the statement declares nothing, an array, or what is not understood."""
    try:
        return declared_in(view, statement) if statement.type == "declaration" else []
    except Refused:
        return []


def is_set(view: View, nodes: Iterable[Node], one: Declared) -> bool:
    """Whether nodes give a variable another value; what a pointer points to is not the pointer."""
    places = (place for n in nodes for name, place in assigned(n, view) if name == one.name)
    return any(not one.stars or place.type == "identifier" for place in places)


def unqualified(written: str) -> str:
    """A type without what only its own declaration needs; `int` for `auto`."""
    plain = " ".join(w for w in written.split() if w not in ("const", "constexpr", "register", "static"))
    return plain if plain not in ("", "auto") else "int"
