# SPDX-License-Identifier: Apache-2.0
"""Calls of the file's own device functions, written out where rewrites read only what stands in the kernel.

`at(A, row, k)` that returns `A.elements[row * A.stride + k]` becomes that element, `float m = row_max(p, n);` the loop
that finds it, and `set(C, row, col, v);` that stores `v` the store. Functions that touch no memory stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.functions import Function, functions_of
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.text import SourceText, TextEdit

_SIMPLE = re.compile(r"[\w.]+")
_EFFECT = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|\batomic\w+")
#: What is read from memory, each time it is said.
_READS = re.compile(r"\[|->|(?:^|[(,=+\-/%&|<>!?:])\s*\*")
_MEMORY = frozenset({"subscript_expression", "pointer_expression"})
_TIGHT = frozenset({"subscript_expression", "call_expression", "identifier", "field_expression"})
_LISTS = frozenset({"argument_list", "subscript_argument_list"})
_CONVERTS = re.compile(r"__(?:half|bfloat16|float)2\w+|fm\w+|f?(?:abs|max|min)f?|max|min|__ldg")


#: Numbers that are other ones, or multiply to others, than the `int` that is passed for them.
_SIZED = re.compile(
    r"(?:const\s+)?((?:unsigned\s+)?(?:size_t|ptrdiff_t|long(?:\s+long)?|u?int(?:8|16|64)_t|char|short))"
)


class _Helper(msgspec.Struct, frozen=True):
    """A device function of the file: its parameters' names and types, what it returns, and what it does before."""

    returns: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    before: tuple[Node, ...]
    value: Node


def written_out(
    text: SourceText, file: SourceTree, kernel: Kernel, *, loops: bool = False
) -> tuple[TextEdit, ...]:
    """The edits for the first call of the kernel that can be written out; () where there is none.

    `loops`: only a call of a function that has a loop of its own.
    """
    body = file.root.descendant_for_byte_range(*text.offsets(kernel.body))
    if body is None or body.type != "compound_statement":
        return ()
    reader = _Calls(text, file, body, frozenset(p.name for p in kernel.parameters))
    for node in walk(body):
        if node.type == "call_expression":
            edits = reader.edits(node, loops=loops)
            if edits:
                return edits
    return ()


class _Calls:
    """The calls of one kernel's body."""

    def __init__(self, text: SourceText, file: SourceTree, body: Node, parameters: frozenset[str]) -> None:
        self.text, self.file, self.body, self.parameters = text, file, body, parameters

    def code(self, node: Node) -> str:
        """A node's code."""
        return self.file.code_of(node).strip()

    def written(self, node: Node) -> str:
        """A node's text as the user wrote it."""
        return self.file.text_of(node)

    def edits(self, call: Node, *, loops: bool) -> tuple[TextEdit, ...]:
        """The call as what its function does."""
        function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or listed is None or function.type not in ("identifier", "template_function"):
            return ()
        helper = self._helper(self.code(function).partition("<")[0])
        given = [n for n in listed.named_children if n.type != "comment"]
        if helper is None or len(given) != len(helper.names):
            return self._store(call, given) if not loops else ()
        arguments = dict(zip(helper.names, (self.written(n) for n in given), strict=True))
        if self._hides(helper):
            return ()
        if any(_EFFECT.search(a) for a in arguments.values()):
            return ()
        if loops and not any(n.type in LOOPS for b in helper.before for n in walk(b)):
            return ()
        for name, kind in zip(helper.names, helper.types, strict=True):
            sized = _SIZED.fullmatch(kind)
            arguments[name] = f"({sized[1]})({arguments[name]})" if sized is not None else arguments[name]
        if not helper.before:
            return (TextEdit(self.file.span(call), self._value(helper, arguments)),)
        return self._statements(call, helper, arguments)

    def _hides(self, helper: _Helper) -> bool:
        """Whether the kernel means something else by a name of the file that the function uses."""
        inside = {
            self.code(n)
            for part in (*helper.before, helper.value)
            for n in walk(part)
            if n.type == "identifier"
        }
        local = {
            d
            for part in helper.before
            for n in walk(part)
            if n.type == "declaration"
            for d in self._declares(n)
        }
        own = {d for n in walk(self.body) if n.type == "declaration" for d in self._declares(n)}
        return bool((inside - local - set(helper.names)) & (own | self.parameters))

    def _helper(self, name: str) -> _Helper | None:
        """The one device function of that name, if it can be written out."""
        known = [f for f in self._functions(name) if f.is_device]
        if len(known) != 1 or known[0].is_kernel:
            return None
        function, body = known[0].node, known[0].body
        inside = [n for n in body.named_children if n.type != "comment"]
        returns = [n for n in walk(body) if n.type == "return_statement"]
        if not inside or len(returns) != 1 or returns[0] != inside[-1] or not returns[0].named_children:
            return None
        value, kind = returns[0].named_children[0], function.child_by_field_name("type")
        pairs = self._parameters(known[0])
        if pairs is None or kind is None or not any(n.type in _MEMORY for n in walk(body)):
            return None
        names, types = tuple(n for n, _ in pairs), tuple(t for _, t in pairs)
        code = self.code(body)
        changed = any(
            re.search(rf"(?:\+\+|--)\s*{n}\b|\b{n}\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))", code)
            for n in names
        )
        if (
            changed
            or name in re.findall(r"\w+", code)
            or re.search(r"\b(?:static|__shared__|__sync\w*)\b", code)
        ):
            return None
        return _Helper(self.code(kind), names, types, tuple(inside[:-1]), value)

    def _functions(self, name: str) -> Iterator[Function]:
        """Definitions of that name that return no pointer or reference."""
        for one in functions_of(self.file):
            if one.declarator.parent == one.node and self.code(one.name_node) == name:
                yield one

    def _parameters(self, function: Function) -> list[tuple[str, str]] | None:
        """The names and types of a function's parameters; None where one has no name that is understood."""
        declarator = function.node.child_by_field_name("declarator")
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        if listed is None or declarator is None or declarator.type != "function_declarator":
            return None
        pairs = [self._parameter(n) for n in listed.named_children if n.type == "parameter_declaration"]
        return pairs if all(name for name, _ in pairs) else None

    def _parameter(self, node: Node) -> tuple[str, str]:
        name = node.child_by_field_name("declarator")
        while name is not None and name.type in ("pointer_declarator", "reference_declarator"):
            name = name.child_by_field_name("declarator") or next(reversed(name.named_children), None)
        if name is None or name.type != "identifier":
            return "", ""
        written = self.code(node)
        return self.code(name), written[: written.rindex(self.code(name))].strip()

    # one expression

    def _value(self, helper: _Helper, arguments: dict[str, str]) -> str:
        code = self._replaced(helper.value, arguments)
        if not self._is_same(helper):
            return f"({helper.returns})({code})"
        return code if helper.value.type in _TIGHT else f"({code})"

    def _is_same(self, helper: _Helper) -> bool:
        """Whether the function gives back what it computes without converting it."""
        node = helper.value
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            return function is not None and _CONVERTS.fullmatch(self.code(function)) is not None
        if node.type != "subscript_expression":
            return False
        root = node.child_by_field_name("argument")
        if root is None:
            return False
        if root.type == "identifier" and self.code(root) in helper.names:
            kind = helper.types[helper.names.index(self.code(root))]
            words = [w for w in kind.replace("*", " ").split() if w not in ("const", "__restrict__")]
            return " ".join(words) == helper.returns
        member = root.child_by_field_name("field") if root.type == "field_expression" else None
        declared = rf"\b{re.escape(helper.returns)}\s*\*[\s\w]*\b{self.code(member)}\s*[;,]" if member else ""
        return bool(declared) and re.search(declared, self.file.text.text) is not None

    def _replaced(self, node: Node, names: dict[str, str]) -> str:
        """A node of the function with its parameters replaced."""
        start, text, at, parts = node.start_byte, self.written(node), 0, []
        for found in walk(node):
            if found.type != "identifier" or self.code(found) not in names:
                continue
            new, outer = names[self.code(found)], found.parent
            bare = _SIMPLE.fullmatch(new) or (outer is not None and outer.type in _LISTS)
            parts += [text[at : found.start_byte - start], new if bare else f"({new})"]
            at = found.end_byte - start
        return "".join([*parts, text[at:]])

    # statements

    def _statements(self, call: Node, helper: _Helper, arguments: dict[str, str]) -> tuple[TextEdit, ...]:
        """`float m = row_max(p, n);` as what the function does."""
        holder = call.parent
        statement = holder.parent if holder is not None else None
        if holder is None or statement is None or holder.type != "init_declarator":
            return ()
        name, value = holder.child_by_field_name("declarator"), holder.child_by_field_name("value")
        alone = len(statement.children_by_field_name("declarator")) == 1
        if name is None or value != call or statement.type != "declaration" or not alone:
            return ()
        own = [d for n in helper.before if n.type == "declaration" for d in self._declares(n)]
        given = self.code(helper.value)
        kept = {given: self.code(name)} if given in own and name.type == "identifier" else {}
        taken = set(re.findall(r"[A-Za-z_]\w*", self.code(self.body)))
        if (set(own) - set(kept)) & taken or set(kept.values()) & {
            w for a in arguments.values() for w in re.findall(r"\w+", a)
        }:
            return ()
        if any(_READS.search(a) for a in arguments.values()) and any(self._stores(n) for n in helper.before):
            return ()
        names = {**arguments, **kept}
        margin = re.match(r"[ \t]*", self.text.line_text(self.file.span(statement).line))
        indent = margin[0] if margin is not None else ""
        lines = [self._indented(self._replaced(n, names), n, indent) for n in helper.before]
        if not kept:
            head = self.written(statement)[: call.start_byte - statement.start_byte]
            lines.append(f"{head}{self._replaced(helper.value, names)};")
        return (TextEdit(self.file.span(statement), f"{self.text.newline}{indent}".join(lines)),)

    def _store(self, call: Node, given: list[Node]) -> tuple[TextEdit, ...]:
        """`set(C, row, col, v);` as the assignment that is all its function does."""
        holder, function = call.parent, call.child_by_field_name("function")
        if holder is None or holder.type != "expression_statement" or function is None:
            return ()
        known = [f for f in self._functions(self.code(function)) if f.is_device and not f.is_kernel]
        inside = [n for f in known for n in f.body.named_children if n.type != "comment"]
        put = inside[0].named_children[0] if len(known) == 1 and len(inside) == 1 else None
        pairs = self._parameters(known[0]) if put is not None else None
        if put is None or put.type != "assignment_expression" or pairs is None or len(pairs) != len(given):
            return ()
        left, right = put.child_by_field_name("left"), put.child_by_field_name("right")
        root = left.child_by_field_name("argument") if left is not None else None
        if root is None or left is None or right is None or left.type != "subscript_expression":
            return ()
        names, types = tuple(n for n, _ in pairs), tuple(t for _, t in pairs)
        helper = _Helper(self._element(root, pairs), names, types, (), put)
        arguments = dict(zip(helper.names, (self.written(n) for n in given), strict=True))
        if self._hides(helper) or any(_EFFECT.search(a) for a in arguments.values()):
            return ()
        for name, kind in pairs:
            plain = kind.removeprefix("const ").strip()
            stored = name == self.code(right) and plain == helper.returns
            if "*" in kind or "&" in kind or stored or layouts_of(self.file).record(plain) is not None:
                continue
            if plain not in ("int", "unsigned int", "unsigned") or re.search(
                rf"\b{name}\b", self.code(right)
            ):
                arguments[name] = f"({plain})({arguments[name]})"
        return (TextEdit(self.file.span(call), self._replaced(put, arguments)),)

    def _element(self, root: Node, pairs: list[tuple[str, str]]) -> str:
        """The type of the elements of a pointer that a function is passed, or in a structure; "" if not known."""
        types = dict(pairs)
        if root.type == "identifier":
            kind = types.get(self.code(root), "")
            return " ".join(w for w in kind.replace("*", " ").split() if w not in ("const", "__restrict__"))
        holder = root.child_by_field_name("argument") if root.type == "field_expression" else None
        plain = types.get(self.code(holder), "").removeprefix("const ").strip() if holder is not None else ""
        member = layouts_of(self.file).member(plain, self.code(root).partition(".")[2]) if plain else None
        return member.type if member is not None and member.pointer else ""

    def _stores(self, statement: Node) -> bool:
        """Whether a statement may change memory, which an argument would be read from again."""
        for node in walk(statement):
            left = node.child_by_field_name("left") or node.child_by_field_name("argument")
            changes = node.type in ("assignment_expression", "update_expression")
            if changes and left is not None and left.type != "identifier":
                return True
            function = node.child_by_field_name("function") if node.type == "call_expression" else None
            if function is not None and _CONVERTS.fullmatch(self.code(function)) is None:
                return True
        return False

    def _declares(self, node: Node) -> Iterator[str]:
        for declarator in node.children_by_field_name("declarator"):
            found: Node | None = declarator
            while found is not None and found.type != "identifier":
                found = found.child_by_field_name("declarator")
            yield self.code(found) if found is not None else ""

    def _indented(self, code: str, node: Node, indent: str) -> str:
        """A statement of the function with the call's indentation."""
        margin = re.match(r"[ \t]*", self.text.line_text(self.file.span(node).line))
        own = margin[0] if margin is not None else ""
        lines = code.split("\n")
        rest = [indent + (line[len(own) :] if line.startswith(own) else line.lstrip()) for line in lines[1:]]
        return "\n".join([lines[0], *rest])
