# SPDX-License-Identifier: Apache-2.0
"""A kernel's device code as conditions and statements that another version of it may have, too: under other names of
local variables, in another order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.callees import called_names, functions_named, own_name
from warplens_tools.cuda.syntax.functions import Function, functions_of
from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.lazily import cached_property
from warplens_tools.tunable.source import File

_STATEMENTS = LOOPS | {
    "if_statement",
    "switch_statement",
    "return_statement",
    "expression_statement",
    "declaration",
}
RELATIONS = frozenset({"<", ">", "<=", ">=", "==", "!="})
_LOGIC = frozenset({"&&", "||"})
#: Calls that choose between numbers as a condition does.
_CHOOSES = re.compile(r"min|max|clamp|saturate", re.IGNORECASE)
#: What every kernel asks and counts by, and members of vectors: they tell no condition from another.
_COMMON = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "x", "y", "z", "w"})
_NUMBER = re.compile(r"(?i)(0x[0-9a-f']+|0b[01']+|[0-9][0-9']*)[ul]*\Z")
#: Words of the language in conditions.
_WORDS = frozenset(
    {
        "static_cast",
        "const",
        "unsigned",
        "int",
        "float",
        "double",
        "long",
        "sizeof",
        "nullptr",
        "true",
        "false",
    }
)
#: Numbers that conditions without any meaning in common are made with.
_USUAL = frozenset({0, 1})


def number_of(word: str) -> float | None:
    """The value of a literal, of an integer or a float; None for others."""
    if (found := _NUMBER.match(word)) is not None:
        digits = found[1].replace("'", "")
        return int(digits, 8 if re.fullmatch(r"0\d+", digits) else 0)
    try:
        return float(word.rstrip("fFlL"))
    except ValueError:
        return None


class DeviceCode:
    """A kernel of a file, and the file's functions that it may call."""

    def __init__(self, file: File, kernel: str) -> None:
        self.file, self.tree = file, file.tree
        name = kernel.rsplit("::", 1)[-1]
        kernels = [f for f in functions_named(self.tree, name) if f.is_kernel]
        names = {c for f in kernels for c in called_names(self.tree, self.tree.code_of(f.body))}
        #: What the kernel is given, by name, with its place: another version may call it otherwise.
        self.parameters = {
            self.tree.code_of(n): place
            for f in kernels
            for place, node in enumerate(n for n in walk(f.declarator) if n.type == "parameter_declaration")
            for n in declared_names(node)
        }
        self.functions: list[Function] = [
            f
            for f in functions_of(self.tree)
            # what a functor does has no name that code calls it by
            if f in kernels
            or (own_name(self.tree, f) in names and not f.is_kernel)
            or (f.is_device and own_name(self.tree, f).startswith("operator"))
        ]

    @cached_property
    def locals(self) -> frozenset[str]:
        """Names of variables and of helpers' parameters, which another version may call otherwise."""
        found: set[str] = set()
        for function in self.functions:
            roots = [function.body] if function.is_kernel else [function.declarator, function.body]
            for node in (node for root in roots for node in walk(root)):
                if node.type in ("declaration", "parameter_declaration", "init_declarator", "for_range_loop"):
                    found |= {self.tree.code_of(n) for n in declared_names(node)}
        return frozenset(found)

    def words(self, node: Node) -> list[str]:
        """The tokens of a node; numbers by their value."""
        found = []
        for leaf in (n for n in walk(node) if not n.child_count and n.type != "comment"):
            word = self.tree.code_of(leaf).strip()
            value = number_of(word) if leaf.type == "number_literal" else None
            if word:
                found.append(word if value is None else repr(value))
        return found

    def shape(self, node: Node) -> str:
        """A node's text whatever its white space, comments and local names are."""
        return " ".join(self._anonymous(word) for word in self.words(node))

    def _anonymous(self, word: str) -> str:
        if word in self.locals:
            return "$"
        return f"#{self.parameters[word]}" if word in self.parameters else word

    @cached_property
    def text(self) -> str:
        """All of it in that form."""
        return " ; ".join(self.shape(function.body) for function in self.functions)

    def statement_at(self, line: int, column: int) -> Node | None:
        """The outermost statement that begins there, else the innermost around it; None outside of this code."""
        try:
            at = self.file.text.offset(line, column)
        except (IndexError, ValueError):
            return None
        if not any(f.body.start_byte < at < f.body.end_byte for f in self.functions):
            return None
        node = self.tree.root.descendant_for_byte_range(at, at + 1)
        begins = around = None
        while node is not None:
            if node.type in _STATEMENTS:
                around = around or node
                begins = node if node.start_byte == at else begins
            node = node.parent
        return begins or around

    def guards(self, node: Node) -> Iterator[Node]:
        """The statements whose condition decides whether a statement runs, the innermost first."""
        outer = node.parent
        while outer is not None and outer.type != "function_definition":
            if outer.type in ("if_statement", "switch_statement") or outer.type in LOOPS:
                yield outer
            outer = outer.parent

    @cached_property
    def conditions(self) -> list[frozenset[str]]:
        """The tokens of everything that decides or chooses something."""
        return [frozenset(self.words(n)) for f in self.functions for n in chosen_by(f.body, self)]

    @cached_property
    def turns(self) -> list[frozenset[str]]:
        """The tokens of what loops ask for."""
        return [
            frozenset(self.words(atom))
            for f in self.functions
            for loop in walk(f.body)
            if loop.type in LOOPS
            for atom in atoms_of(loop)
        ]


def header_of(statement: Node) -> Node:
    """The part of a statement that nothing else decides about: of an `if`, or a loop, its condition."""
    inner = statement.child_by_field_name("condition")
    body = statement.child_by_field_name("consequence") or statement.child_by_field_name("body")
    if inner is None or body is None or body.start_point[0] == statement.start_point[0] != body.end_point[0]:
        return inner or statement
    # what stands in one line is one statement
    return statement if body.end_point[0] == statement.start_point[0] else inner


def atoms_of(statement: Node) -> list[Node]:
    """The conditions of a statement, without the logic between them; not those of its body in lines of its own."""
    root = header_of(statement)
    found: dict[int, Node] = {}
    condition = statement.child_by_field_name("condition")
    if condition is not None:
        found |= {atom.id: atom for atom in _split(condition)}
    for node in walk(root):
        if node.type == "conditional_expression":
            asked = node.child_by_field_name("condition")
            found |= {atom.id: atom for atom in (_split(asked) if asked is not None else ())}
        elif _operator(node) in RELATIONS:
            found.setdefault(node.id, node)
    return list(found.values())


def chosen_by(root: Node, code: DeviceCode) -> Iterator[Node]:
    """Everything below a node that decides or chooses: comparisons, what is asked for, bits, smallest and largest."""
    for node in walk(root):
        operator = _operator(node)
        if operator in RELATIONS or operator == "&":
            yield node
        elif (
            operator in _LOGIC
            or node.type in ("if_statement", "conditional_expression")
            or node.type in LOOPS
        ):
            asked = node if operator in _LOGIC else node.child_by_field_name("condition")
            yield from _split(asked) if asked is not None else ()
        elif node.type == "switch_statement":
            yield node
        elif node.type == "call_expression":
            called = node.child_by_field_name("function")
            if called is not None and _CHOOSES.search(code.tree.code_of(called)):
                yield node


def has_counterpart(atom: Node, before: DeviceCode, after: DeviceCode, among: list[frozenset[str]]) -> bool:
    """Whether some of the other version's conditions asks for what a condition asks for.

    That is its members and constants, else the parameters that it names, else its local variables, as far as the other
    version has any of these; and the number that it compares with, or whose bits it looks at.
    """
    words = set(before.words(atom))
    names = {w for w in words if re.match(r"[A-Za-z_]", w)} - _COMMON - _WORDS
    outside = names - before.locals
    called = {place: name for name, place in after.parameters.items()}
    kept = outside - before.parameters.keys() or {called.get(before.parameters[w], w) for w in outside}
    numbers, near = _compared_with(atom, before)
    shared = names & after.locals if not kept else set[str]()
    if not kept and not shared and not numbers:
        return True
    return any(
        kept <= other and (not shared or shared & other) and all(_holds(other, n, near) for n in numbers)
        for other in among
    )


def _compared_with(atom: Node, code: DeviceCode) -> tuple[list[float], int]:
    """The numbers that stand beside a condition's operator, but for usual ones; and how far off they may be written:
    `< 5` is `<= 4`."""
    operator = _operator(atom)
    sides = [atom.child_by_field_name(side) for side in ("left", "right")] if operator else []
    texts = ["".join(code.tree.code_of(side).split()).lstrip("-") for side in sides if side is not None]
    numbers = [value for text in texts if (value := number_of(text)) is not None]
    if operator != "&":
        numbers = [value for value in numbers if value not in _USUAL]
    return numbers, 0 if operator in ("&", "==", "!=") else 1


def _holds(words: frozenset[str], number: float, near: int) -> bool:
    return any((value := number_of(word)) is not None and abs(value - number) <= near for word in words)


def _split(node: Node) -> Iterator[Node]:
    if node.type in ("condition_clause", "parenthesized_expression"):
        for child in node.named_children:
            yield from _split(child)
    elif _operator(node) in _LOGIC:
        for side in ("left", "right"):
            if (part := node.child_by_field_name(side)) is not None:
                yield from _split(part)
    elif _operator(node) == "!" and (part := node.child_by_field_name("argument")) is not None:
        yield from _split(part)
    elif node.type != "comment":
        yield node


def _operator(node: Node) -> str:
    found = (
        node.child_by_field_name("operator")
        if node.type in ("binary_expression", "unary_expression")
        else None
    )
    return found.type if found is not None else ""


def declared_names(node: Node) -> Iterator[Node]:
    """The names that a declaration, or a declarator, gives."""
    for child in node.children_by_field_name("declarator"):
        inner: Node | None = child
        while inner is not None and inner.type != "identifier":
            inner = inner.child_by_field_name("declarator") or next(
                (c for c in inner.named_children if c.type.endswith(("declarator", "identifier"))), None
            )
        if inner is not None:
            yield inner
