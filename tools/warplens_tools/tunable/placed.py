# SPDX-License-Identifier: Apache-2.0
"""Pointers that a program takes from within its memory, at a place that the run gives: `x + first`, `pool.take(n)`.

What is allocated lies at a multiple of 256 bytes; a piece of it lies wherever what came before it ends. A variable is
followed to what it is set to, a function's parameter to what is passed, a call to what the function returns, and a
structure's member to what structures are made with. Places that the text rounds are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.callees import functions_named
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.lazily import cached_property
from warplens_tools.tunable.run_lengths import lengths_of
from warplens_tools.tunable.source import File

#: How far a pointer is followed.
_MOST = 8
_CAST = re.compile(r"(?:static|reinterpret|const)_cast\b")
#: Places that are made multiples of something, or asked whether they are.
_ROUNDED = re.compile(r"~|%|align|round|pad(?:ded)?\b|/[^;,]*\*", re.IGNORECASE)
_LISTS = frozenset({"initializer_list", "argument_list"})


def placed(file: File, kernel: str) -> frozenset[int]:
    """The pointers that some launch of a kernel takes from within their memory, by parameter."""
    defined = file.model.kernel(kernel)
    if defined is None:
        return frozenset()
    places = _Places(file)
    return frozenset(
        index
        for site in file.launches_of(defined)
        for index, (parameter, node) in enumerate(zip(defined.parameters, site.arguments, strict=False))
        if parameter.pointer and places.holds(node)
    )


class _Places:
    def __init__(self, file: File) -> None:
        self._file, self._tree = file, file.tree
        self._seen: set[int] = set()

    def holds(self, node: Node) -> bool:
        """Whether what is passed is such a place."""
        self._seen = set()
        return self._within(node, 0)

    def _within(self, node: Node | None, depth: int) -> bool:
        """Whether a pointer lies within memory, at a place that the run gives."""
        if node is None or depth > _MOST:
            return False
        if node.type in ("binary_expression", "pointer_expression", "assignment_expression"):
            return self._is_moved(node) or self._within(node.named_children[0], depth + 1)
        if node.type in ("parenthesized_expression", "cast_expression"):
            return self._within(node.named_children[-1], depth + 1)
        if node.type == "conditional_expression":
            return any(
                self._within(node.child_by_field_name(p), depth + 1) for p in ("consequence", "alternative")
            )
        return any(self._within(one, depth + 1) for one in self._behind(node))

    def _behind(self, node: Node) -> Iterator[Node]:
        """What a pointer may be."""
        if node.type == "identifier":
            yield from self._set_to(node)
        elif node.type == "call_expression":
            yield from self._returned(node)
        elif node.type == "field_expression":
            yield from self._member(node)
        elif node.type == "subscript_expression":
            yield from self._element(node)

    def _is_moved(self, node: Node) -> bool:
        """Whether a pointer and something of the run's are added up, unless that is rounded."""
        if _ROUNDED.search(self._values(node)):
            return False
        # members, as a function of their structure names them: it may round them elsewhere
        names = {self._tree.code_of(n) for n in walk(node) if n.type in ("identifier", "field_identifier")}
        members = names & self._members.keys()
        around = self._function_of(node) if members else None
        if around is not None and _ROUNDED.search(self._tree.code_of(around)):
            return False
        if node.type == "pointer_expression" and node.named_children[0].type == "subscript_expression":
            return any(lengths_of(self._file, one) for one in node.named_children[0].named_children[1:])
        if node.type == "assignment_expression":
            return bool(lengths_of(self._file, node.child_by_field_name("right")))
        return len(lengths_of(self._file, node)) > 1 or len(members) > 1

    def _values(self, node: Node) -> str:
        """An expression's text, and what the variables in it begin as."""
        named = (self._file.named(n) for n in walk(node) if n.type == "identifier")
        return " ; ".join([self._tree.code_of(node), *(b.value or "" for b in named if b is not None)])

    def _function_of(self, node: Node) -> Node | None:
        outer = node.parent
        while outer is not None and outer.type != "function_definition":
            outer = outer.parent
        return outer

    def _set_to(self, node: Node) -> Iterator[Node]:
        binding = self._file.named(node)
        if binding is None or node.start_byte in self._seen:
            return
        self._seen.add(node.start_byte)
        value = value_node(self._tree, binding)
        yield from [value] if value is not None else self._file.constants.arguments(binding)
        yield from self._assigned(binding)

    def _assigned(self, binding: Binding) -> Iterator[Node]:
        for one in self._assignments:
            left, right = one.child_by_field_name("left"), one.child_by_field_name("right")
            if left is None or right is None or self._file.named(left) != binding:
                continue
            # what goes on through memory is added up itself
            yield one if "".join(self._tree.code_of(one).split()).startswith(f"{binding.name}+=") else right

    @cached_property
    def _assignments(self) -> list[Node]:
        return [n for n in walk(self._tree.root) if n.type == "assignment_expression"]

    @cached_property
    def _lists(self) -> list[Node]:
        """What structures may be made with, in their order."""
        return [n for n in walk(self._tree.root) if n.type in _LISTS]

    @cached_property
    def _members(self) -> dict[str, set[int]]:
        """The members of structures, and the places that they have in them."""
        found: dict[str, set[int]] = {}
        for body in (n for n in walk(self._tree.root) if n.type == "field_declaration_list"):
            names = [
                self._tree.code_of(name)
                for field in body.named_children
                if field.type == "field_declaration"
                for name in walk(field)
                if name.type == "field_identifier"
            ]
            for index, name in enumerate(names):
                found.setdefault(name, set()).add(index)
        return found

    def _returned(self, call: Node) -> Iterator[Node]:
        function, given = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or given is None:
            return
        name = self._tree.code_of(function)
        if _CAST.match(name):
            yield from given.named_children[:1]
            return
        plain = re.split(r"\.|->|::", name.partition("<")[0])[-1]
        for one in functions_named(self._tree, plain):
            for node in walk(one.body):
                if node.type == "return_statement":
                    yield from node.named_children[:1]

    def _member(self, node: Node) -> Iterator[Node]:
        name = self._last(node)
        yield from (
            right for left, right in self._set if left.type == "field_expression" and self._last(left) == name
        )
        for index in self._members.get(name, ()):
            yield from (n.named_children[index] for n in self._lists if n.named_child_count > index)

    def _element(self, node: Node) -> Iterator[Node]:
        array = self._tree.code_of(node.named_children[0])
        yield from (
            right
            for left, right in self._set
            if left.type == "subscript_expression" and self._tree.code_of(left.named_children[0]) == array
        )
        for given in self._lists:
            called = given.parent.child_by_field_name("function") if given.parent is not None else None
            if called is not None and self._tree.code_of(called).startswith(f"{array}."):
                yield from given.named_children[:1]

    @cached_property
    def _set(self) -> list[tuple[Node, Node]]:
        """What is assigned, and what to."""
        sides = ((n.child_by_field_name("left"), n.child_by_field_name("right")) for n in self._assignments)
        return [(left, right) for left, right in sides if left is not None and right is not None]

    def _last(self, node: Node) -> str:
        field = node.child_by_field_name("field")
        return self._tree.code_of(field) if field is not None else ""
