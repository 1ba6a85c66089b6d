# SPDX-License-Identifier: Apache-2.0
"""Integers and `dim3` values that the file itself fixes.

A name has a value where every definition that could be meant gives the same one: an object-like
macro, a `const`/`constexpr` integer, an enumerator, or a local variable by what it was set to last.
Otherwise it has none.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.model import Constant
from warplens_tools.cuda.syntax.callees import arguments_for
from warplens_tools.cuda.syntax.directives import Macro
from warplens_tools.cuda.syntax.expression import evaluate
from warplens_tools.cuda.syntax.functions import Function, functions_of
from warplens_tools.cuda.syntax.lexical import matching, split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding, Scopes, find_bindings
from warplens_tools.cuda.values.last_set import reaching
from warplens_tools.cuda.values.layouts import Layouts
from warplens_tools.cuda.values.writes import is_default, is_set_once
from warplens_tools.lazily import cached_property

Dim3 = tuple[int | None, int | None, int | None]
UNKNOWN_DIM3: Dim3 = (None, None, None)

_NAME = re.compile(r"[A-Za-z_]\w*")
#: One of the arguments that a program was started with.
_ARGUMENT = re.compile(r"\bargv\s*\[[^\][]*\]")
#: The namespace whose body begins where a text ends; a `using namespace`. Of nested ones, the innermost name.
_NAMESPACE = re.compile(rb"\bnamespace\s+(?:\w+\s*::\s*)*(\w+)\s*\{?\s*\Z")
#: Bytes that the head of a namespace has at most.
_HEAD = 500
_USING = re.compile(rb"\busing\s+namespace\s+(?:\w+\s*::\s*|::\s*)*(\w+)\s*;")
_MAX_DEPTH = 12
_INTEGERS = frozenset({"const", "constexpr", "plain"})


class OneReturn(NamedTuple):
    """A function of a tree whose body is `return value;`."""

    tree: SourceTree
    function: Function
    parameters: tuple[str, ...]
    value: Node


def _one_return(tree: SourceTree, function: Function) -> OneReturn | None:
    statements, listed = function.body.named_children, function.declarator.child_by_field_name("parameters")
    if len(statements) != 1 or statements[0].type != "return_statement" or listed is None:
        return None
    if statements[0].named_child_count != 1:
        return None
    declared = (p.child_by_field_name("declarator") for p in listed.named_children)
    names = tuple(tree.text_of(d).strip("&* ") for d in declared if d is not None)
    return OneReturn(tree, function, names, statements[0].named_children[0])


class Constants:
    """Values of names and expressions at a place in a tree."""

    def __init__(self, tree: SourceTree, outer: tuple[Constants, int] | None = None) -> None:
        self.tree = tree
        self.outer = outer
        self._scopes: Scopes | None = None
        #: Whether what the program may be told otherwise counts as it is declared.
        self._untold = False
        #: Of functions by where their parameters begin: the only one of their calls that is looked at.
        self._calls: dict[int, int] = {}
        #: Values of names that no text gives: a template's parameters.
        self.numbers: Mapping[str, int] = {}

    def value(self, text: str, at: int, depth: int = 0, *, real: bool = False) -> int | None:
        """The integer value of an expression that stands at offset `at`, or None; with `real`, of a floating one what
        its conversion to an integer leaves."""
        text = text.strip()
        if text.isdigit() and (len(text) == 1 or text[0] != "0"):
            return int(text) if len(text) < 10 else None
        expanded = self.tree.macros.expand(text) if depth < _MAX_DEPTH else None
        if expanded is None:
            return None
        if self._untold:
            # an argument that is not there has no value, and none is asked for
            expanded = _ARGUMENT.sub("argv", expanded)
        return evaluate(
            expanded,
            lambda name: self._name(name, at, depth + 1),
            lambda name, arguments: self._call(name, arguments, at, depth + 1),
            real=real,
        )

    def dim3(self, text: str, at: int, depth: int = 0) -> Dim3:
        """The extents that an execution configuration's grid or block denotes; 1 where left out."""
        text = (self.tree.macros.expand(text) or "").strip() if depth < _MAX_DEPTH else ""
        arguments = _dim3_arguments(text)
        if arguments is not None:
            values = [self.value(a, at, depth + 1, real=True) for a in arguments[:3]]
            return (*values, *(1,) * (3 - len(values)))  # type: ignore[return-value]
        if _NAME.fullmatch(text):
            return self._dim3_name(text, at, depth + 1)
        value = self.value(text, at, depth + 1, real=True)
        is_scalar = value is not None or re.search(r"[-+*/%]|<<|>>", text)
        return (value, 1, 1) if is_scalar else UNKNOWN_DIM3

    def _dim3_name(self, name: str, at: int, depth: int) -> Dim3:
        binding = self.binding(name, at)
        if binding is None:
            if self.outer and not self.is_bound(name, at):
                return self.outer[0]._dim3_name(name, self.outer[1], depth)
            value = self._name(name, at, depth)
            return (value, 1, 1) if value is not None else UNKNOWN_DIM3
        if binding.kind == "object":
            passed = {self.dim3(self.tree.code_of(n), n.start_byte, depth) for n in self.arguments(binding)}
            return passed.pop() if len(passed) == 1 else UNKNOWN_DIM3
        if binding.kind == "dim3":
            if not is_set_once(self.tree, binding):
                return self._dim3_set(binding, at, depth)
            return self.dim3(binding.value, binding.value_at, depth) if binding.value else UNKNOWN_DIM3
        value = self._name(name, at, depth)
        return (value, 1, 1) if binding.kind in (*_INTEGERS, "parameter") else UNKNOWN_DIM3

    def _dim3_set(self, binding: Binding, at: int, depth: int) -> Dim3:
        """Extents of a `dim3` that is set again, each by what it was set to last before `at`."""
        found: list[int | None] = []
        for index, axis in enumerate("xyz"):
            last = reaching(self.tree, binding, at, axis)
            if last is None:
                found.append(None)
            elif last.member:
                found.append(self.value(last.text, last.at, depth + 1, real=True))
            else:
                found.append(self.dim3(last.text, last.at, depth + 1)[index])
        x, y, z = found
        return x, y, z

    def binding(self, name: str, at: int) -> Binding | None:
        """The declaration that `name` means at `at`; None if there is none, or it is ambiguous."""
        visible = self.scopes().visible(name, at)
        if not visible:
            return None
        inner = max(b.scope_start for b in visible)
        visible = [b for b in visible if b.scope_start == inner]
        return visible[0] if len({(b.value, b.kind) for b in visible}) == 1 else None

    def is_bound(self, name: str, at: int) -> bool:
        """Whether any declaration of this tree's own text gives `name` a meaning at `at`."""
        return bool(self.scopes().visible(name, at))

    def _name(self, name: str, at: int, depth: int) -> int | None:
        if depth > _MAX_DEPTH:
            return None
        if name in self.numbers:
            return self.numbers[name]
        if name.startswith("sizeof "):
            return layouts_of(self.tree).bytes(name.removeprefix("sizeof "))
        if "." in name:
            base, _, axis = name.partition(".")
            return self._dim3_name(base, at, depth)["xyz".index(axis)]
        if "::" in name:
            return self._qualified(name, at, depth)
        if self.is_bound(name, at):
            found = self.binding(name, at)
            if found is not None and found.kind == "parameter":
                return self._passed(found, depth)
            if found is None or found.kind not in _INTEGERS:
                return None
            if found.kind == "plain" and not is_set_once(self.tree, found):
                last = reaching(self.tree, found, at)
                if last is not None:
                    return self.value(last.text, last.at, depth, real=True)
                if not (self._untold and is_default(self.tree, found)):
                    return None
            return self.value(found.value, found.value_at, depth, real=True) if found.value else None
        return self.outer[0]._name(name, self.outer[1], depth) if self.outer else self._used(name, at, depth)

    def untold(self) -> Constants:
        """The same in a run of the program without arguments."""
        made = copy.copy(self)
        made._untold = True
        # the program's own name is its only argument
        made.numbers = {**self.numbers, "argc": 1}
        made.outer = (self.outer[0].untold(), self.outer[1]) if self.outer else None
        return made

    def _passed(self, parameter: Binding, depth: int) -> int | None:
        """What every call of a host function in the file passes, where they agree."""
        agreed: int | None = None
        for node in self.arguments(parameter):
            value = self.value(self.tree.code_of(node), node.start_byte, depth)
            # no others are asked then: calls within the function itself would be asked as often as they can nest
            if value is None or agreed not in (None, value):
                return None
            agreed = value
        return agreed

    def arguments(self, parameter: Binding) -> tuple[Node, ...]:
        """What every call in the file passes for a parameter that its function does not change; else none."""
        node = self._declared_in_list(parameter)
        if node is None or not is_set_once(self.tree, parameter):
            return ()
        passed, call = arguments_for(self.tree, node), self._calls.get(_function_start(node))
        return passed if call is None else passed[call : call + 1]

    def given(self, values: Mapping[str, int]) -> Constants:
        """The same where a template's parameters have these values."""
        made = copy.copy(self)
        made.numbers = values
        return made

    def of_call(self, parameter: Binding, index: int) -> Constants:
        """The same, in the function of `parameter` with what one of its calls passes."""
        node = self._declared_in_list(parameter)
        if node is None:
            return self
        made = copy.copy(self)
        made._calls = {**self._calls, _function_start(node): index}
        return made

    def _declared_in_list(self, parameter: Binding) -> Node | None:
        """The declaration of a parameter, a child of its list."""
        node = self.tree.root.descendant_for_byte_range(*parameter.declaration)
        while (
            node is not None and node.parent is not None and not node.parent.type.endswith("parameter_list")
        ):
            node = node.parent
        return node if node is not None and node.parent is not None else None

    def _used(self, name: str, at: int, depth: int) -> int | None:
        """A member of a namespace that a `using namespace` before it brings in; known as a qualified name is."""
        found = [b for b in self.scopes().by_name.get(name, ()) if not b.local]
        if len(found) != 1:
            return None
        end = min(at, found[0].scope_start)
        opened = _NAMESPACE.search(self.tree.masked.code, max(0, end - _HEAD), end)
        if opened is None or not any(
            begin < at and name == opened[1] for begin, name in self._used_namespaces
        ):
            return None
        return self._qualified(f"::{name}", at, depth)

    @cached_property
    def _used_namespaces(self) -> tuple[tuple[int, bytes], ...]:
        """Where a file uses a namespace, and which."""
        return self.tree.remembered(
            "used namespaces",
            lambda: tuple((m.start(), m[1]) for m in _USING.finditer(self.tree.masked.code)),
        )

    def _qualified(self, name: str, at: int, depth: int) -> int | None:
        """A member of a class or namespace: known only where the last name is declared once."""
        every = self.scopes().by_name.get(name.rsplit("::", 1)[1], ())
        found = [b for b in every if not b.local]
        if len(found) == 1 and found[0].value and found[0].kind in ("const", "constexpr"):
            return self.value(found[0].value, found[0].value_at, depth)
        return self.outer[0]._qualified(name, at, depth) if self.outer and not found else None

    def _call(self, name: str, arguments: list[str], at: int, depth: int) -> int | None:
        function = self._functions.get(name.rsplit("::", 1)[-1])
        if function is None or len(function.parameters) != len(arguments) or depth > _MAX_DEPTH:
            return self.outer[0]._call(name, arguments, self.outer[1], depth) if self.outer else None
        values = [self.value(a, at, depth) for a in arguments]
        by_name = dict(zip(function.parameters, values, strict=True))
        return evaluate(self.tree.macros.expand(self.tree.code_of(function.value)) or "", by_name.get)

    def function(self, name: str) -> OneReturn | None:
        """The function of that name that is one `return`, whose definition is in the file."""
        found = self._functions.get(name.rsplit("::", 1)[-1])
        return found or (self.outer[0].function(name) if self.outer else None)

    @cached_property
    def _functions(self) -> dict[str, OneReturn | None]:
        """By name; None for one that has several definitions."""
        found: dict[str, OneReturn | None] = {}
        for function in functions_of(self.tree):
            read = _one_return(self.tree, function)
            if read is not None:
                name = self.tree.text_of(function.name_node)
                found[name] = None if name in found else read
        return found

    def scopes(self) -> Scopes:
        """Every declaration of the tree's own text, found once."""
        if self._scopes is None:
            self._scopes = Scopes(find_bindings(self.tree))
        return self._scopes

    def listed(self) -> tuple[Constant, ...]:
        """The file's constants as plain data, in file order."""
        found = [c for c in map(self._macro_constant, self.tree.masked.directives.macros) if c]
        for bindings in self.scopes().by_name.values():
            listed = [self._constant(b) for b in bindings if b.kind in ("const", "constexpr") and b.value]
            found += [c for c in listed if c.value is not None]
        return tuple(sorted(found, key=lambda c: c.span))

    def _constant(self, binding: Binding) -> Constant:
        text, value = self.tree.text, binding.value or ""
        return Constant(
            name=binding.name,
            value=self.value(value, binding.value_at),
            text=text.text[binding.value_at : binding.value_at + len(value)],
            kind="const" if binding.kind == "const" else "constexpr",
            span=text.span(*binding.declaration),
            value_span=text.span(binding.value_at, binding.value_at + len(value)),
        )

    def _macro_constant(self, macro: Macro) -> Constant | None:
        if macro.parameters is not None or not macro.body:
            return None
        known = self.tree.macros.get(macro.name) is not None
        text = self.tree.text
        return Constant(
            name=macro.name,
            value=self.value(macro.body, macro.body_start) if known else None,
            text=text.text[macro.body_start : macro.body_end],
            kind="define",
            span=text.span(macro.start, macro.body_end),
            value_span=text.span(macro.body_start, macro.body_end),
        )


def _function_start(parameter: Node) -> int:
    """Where the function begins that a parameter is of, its template's too."""
    node: Node | None = parameter
    while node is not None and node.type != "function_definition":
        found = [c for c in node.named_children if c.type == "function_definition"]
        node = found[0] if found and node.type == "template_declaration" else node.parent
    return node.start_byte if node is not None else -1


def constants_of(tree: SourceTree) -> Constants:
    """The constants of a tree, worked out once."""
    return tree.remembered("constants", lambda: Constants(tree))


def layouts_of(tree: SourceTree) -> Layouts:
    """The layouts of the structs of a tree's file, worked out once."""
    file = tree.file
    return file.remembered("layouts", lambda: Layouts(file, constants_of(file).value))


def _dim3_arguments(text: str) -> list[str] | None:
    """The arguments of `dim3(…)`, `dim3{…}` or `{…}`; None if it is none of them."""
    found = re.match(r"(?:::)?dim3\s*(?=[({])|(?=\{)", text)
    if not found or matching(text, found.end()) != len(text):
        return None
    return split_arguments(text[found.end() + 1 : -1])
