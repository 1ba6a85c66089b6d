# SPDX-License-Identifier: Apache-2.0
"""Layouts of the structs that a file defines: size, and the offset of every member."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.declarators import read_declarator
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.syntax.types import TOOLKIT, type_bytes, vector_element
from warplens_tools.cuda.values.integer_names import QUALIFIER, aliases
from warplens_tools.lazily import cached_property

_POINTER_BYTES = 8
_MAX_DEPTH = 8
_STRUCTS = """
(struct_specifier body: (field_declaration_list)) @struct
(class_specifier body: (field_declaration_list)) @struct
"""
_ALIGNED = re.compile(r"(?:alignas|__align__|aligned)\s*\(\s*\(?\s*(\d+)")


class Member(msgspec.Struct, frozen=True):
    """One data member: offset and size in bytes."""

    name: str
    type: str
    offset: int
    size: int
    #: It is a pointer to `type`.
    pointer: bool = False


class Record(msgspec.Struct, frozen=True):
    """One struct as every 64-bit host and the device lay it out. Bytes."""

    name: str
    size: int
    alignment: int
    members: tuple[Member, ...]

    def member(self, name: str) -> Member | None:
        """The member of that name."""
        return next((m for m in self.members if m.name == name), None)


class Layouts:
    """The layouts of one file. `extent` gives the value of an array member's extent that stands at an offset."""

    def __init__(self, tree: SourceTree, extent: Callable[[str, int], int | None]) -> None:
        self.tree, self.extent = tree, extent
        found = tree.captures_beside(_STRUCTS, b"struct", b"class").get("struct", [])
        self._nodes = {n: s for s in found if (n := _name(tree, s))}
        self._known: dict[str, Record | None] = {}

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """The file's own, and the libraries' names for built-in types that it does not give to a struct."""
        return {n: kind for n, kind in TOOLKIT.items() if n not in self._nodes} | _aliases(self.tree)

    @cached_property
    def records(self) -> dict[str, Record]:
        """Layouts by name of the structs whose every member has a known size; others are left out."""
        return {name: found for name in self._nodes if (found := self._record(name)) is not None}

    def plain(self, name: str) -> str:
        """What a name for another type stands for, of the file (`using Pixel = uint8_t;`) or of a library
        (`cuComplex`), else the name."""
        for _ in range(_MAX_DEPTH):
            name = self._aliases.get(name.rsplit("::", 1)[-1], name)
        return name

    def record(self, name: str) -> Record | None:
        """The struct of that name, with or without its namespaces."""
        return self.records.get(name.rsplit("::", 1)[-1])

    def bytes(self, name: str) -> int | None:
        """Bytes of a built-in or of a struct of the file; None for any other type."""
        name = self.plain(name)
        known = type_bytes(name)
        record = self.record(name) if known is None else None
        return record.size if record is not None else known

    def member(self, name: str, path: str) -> Member | None:
        """The member `a.b` of a struct or a vector type, its offset counted from the whole's start."""
        offset, found = 0, None
        for part in path.split("."):
            record = self.record(name)
            found = _vector_member(name, part) or (record.member(part) if record is not None else None)
            if found is None:
                return None
            offset, name = offset + found.offset, found.type
        return msgspec.structs.replace(found, offset=offset) if found is not None else None

    def place(self, name: str, path: str) -> tuple[int, int] | None:
        """Offset and size in bytes of `.a.b`, or of the whole for ""; None where there is no such member."""
        if not path:
            size = self.bytes(name)
            return (0, size) if size is not None else None
        found = self.member(name, path.removeprefix("."))
        size = self.bytes(found.type) if found is not None else None
        return (found.offset, size) if found is not None and size is not None else None

    def _record(self, name: str, depth: int = 0) -> Record | None:
        if name not in self._known:
            self._known[name] = None
            node = self._nodes.get(name)
            self._known[name] = self._read(name, node, depth) if node is not None else None
        return self._known[name]

    def _read(self, name: str, node: Node, depth: int) -> Record | None:
        body = node.child_by_field_name("body")
        if body is None or depth > _MAX_DEPTH or "virtual" in self.tree.code_of(body).split():
            return None
        base = self._base(node, depth)
        if base is None:
            return None
        asked = _ALIGNED.search(self.tree.words(node.start_byte, body.start_byte))
        offset, alignment = base.size, max(base.alignment, int(asked[1]) if asked else 1)
        members = list(base.members)
        for field in body.named_children:
            for member, aligned in self._fields(field, depth):
                if member.size == 0:
                    return None
                offset = -(-offset // aligned) * aligned
                members.append(msgspec.structs.replace(member, offset=offset))
                offset += member.size
                alignment = max(alignment, aligned)
        size = -(-offset // alignment) * alignment
        return Record(name, size, alignment, tuple(members)) if members else None

    def _base(self, node: Node, depth: int) -> Record | None:
        """What a struct begins with: its one plain base without padding at its end, where another member may lie;
        nothing where it has none. None where it is not known."""
        clause = next((c for c in node.children if c.type == "base_class_clause"), None)
        if clause is None:
            return Record("", 0, 1, ())
        words = self.tree.code_of(clause).replace(":", " ").split()
        names = [word for word in words if word not in ("public", "private", "protected")]
        found = self._record(names[0], depth + 1) if len(names) == 1 else None
        last = found.members[-1] if found is not None else None
        return found if found is not None and last and last.offset + last.size == found.size else None

    def _fields(self, node: Node, depth: int) -> list[tuple[Member, int]]:
        """The members that one line declares, with their alignment; a size of 0 is unknown."""
        declarators = node.children_by_field_name("declarator")
        if node.type == "field_declaration" and _takes_room_unseen(node):
            return [(Member("", "", 0, 0), 1)]
        if node.type != "field_declaration" or not declarators:
            return []
        written = self.tree.code_of(node)[: declarators[0].start_byte - node.start_byte]
        if "static" in written.split():
            return []
        base = " ".join(QUALIFIER.sub(" ", written).split())
        found = []
        for declarator in declarators:
            read = read_declarator(declarator)
            if read.function or read.name is None:
                continue
            size, aligned = self._scalar(base, read.pointers, depth)
            for extent in read.extents:
                code = self.tree.code_of(extent) if extent is not None else ""
                size *= self.extent(code, node.start_byte) or 0
            of = base + "*" * read.pointers if read.pointers > 1 else base
            found.append((Member(self.tree.text_of(read.name), of, 0, size, read.pointers == 1), aligned))
        return found

    def _scalar(self, base: str, pointers: int, depth: int) -> tuple[int, int]:
        """Size and alignment of a member's type; (0, 1) where they are not known."""
        if pointers:
            return _POINTER_BYTES, _POINTER_BYTES
        base = self.plain(base)
        size = type_bytes(base)
        if size is not None:
            return size, size // 3 if base.endswith("3") else min(size, 16)
        record = self._record(base.rsplit("::", 1)[-1], depth + 1)
        return (record.size, record.alignment) if record is not None else (0, 1)


def _aliases(tree: SourceTree) -> dict[str, str]:
    """Aliases by name; one that is declared twice with different meanings, or is no plain name, is left out."""
    return {
        name: next(iter(kinds))
        for name, kinds in aliases(tree).items()
        if len(kinds) == 1 and not any(c in next(iter(kinds)) for c in "*&({<[")
    }


def _takes_room_unseen(node: Node) -> bool:
    """Whether a line of a structure has members that are not read: of an unnamed union or structure, or bit fields."""
    kind = node.child_by_field_name("type")
    unnamed = kind is not None and kind.type in ("union_specifier", "struct_specifier", "class_specifier")
    unnamed = unnamed and kind is not None and kind.child_by_field_name("name") is None
    return unnamed or any(child.type == "bitfield_clause" for child in node.children)


def _vector_member(name: str, part: str) -> Member | None:
    vector = vector_element(name)
    if vector is None or part not in "xyzw"[: vector[1]]:
        return None
    scalar, count = vector
    size = (type_bytes(name) or 0) // count
    return Member(part, scalar, "xyzw".index(part) * size, size)


def _name(tree: SourceTree, node: Node) -> str:
    """The struct's name, or the one a `typedef struct {…} Name;` gives it."""
    name = node.child_by_field_name("name")
    if name is None and node.parent is not None and node.parent.type == "type_definition":
        name = node.parent.child_by_field_name("declarator")
    return tree.text_of(name) if name is not None else ""
