# SPDX-License-Identifier: Apache-2.0
"""How many blocks host code launches a kernel with, as a rule of the numbers that it passes along.

A kernel that is called with other lengths is called with another grid. Which, its launch says: `(n + 255) / 256` blocks
of a kernel that is given `n`. Followed are plain variables, `dim3` objects, parameters of functions that are called in
one place, functions that are one `return`, casts, and divisions that round up; a variable or a member that is itself
passed to the kernel stands for that parameter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.tunable.run_lengths import lengths_of
from warplens_tools.tunable.source import File, Site, Value

#: A grid's extents along x, y and z, each in reverse Polish notation: numbers, `p2` for the value of the third
#: parameter (`p2,4` for the larger of two that are given the same variable), `?` for what the text does not tell, and
#: `+ - * / % << >>`, `up` for a division that rounds up, `min`, `max`. Divisions cut as C++ does.
GridRule = tuple[str, str, str]

_OPERATORS = frozenset({"+", "-", "*", "/", "%", "<<", ">>"})
#: Comparisons, which count as one where they hold, in those operations.
_COMPARED = {
    "!=": "{0} {1} - {1} {0} - max 1 min",
    "==": "1 {0} {1} - {1} {0} - max 1 min -",
    ">": "{0} {1} - 1 min 0 max",
    "<": "{1} {0} - 1 min 0 max",
    ">=": "1 {1} {0} - 1 min 0 max -",
    "<=": "1 {0} {1} - 1 min 0 max -",
}
_EXTREMES = {"min": "min", "max": "max", "std::min": "min", "std::max": "max", "fmin": "min", "fmax": "max"}
_CASTS = frozenset(
    {"static_cast", "int", "unsigned", "size_t", "uint32_t", "unsigned int", "long", "int64_t"}
)
#: Followed so far: what is deeper is no launch that somebody wrote by hand.
_MOST = 24


def grid_rule(file: File, kernel: str) -> GridRule | None:
    """The rule of a kernel's launches; None where they differ, or follow from what the kernel is not given."""
    found = file.model.kernel(kernel)
    rules = {rule_of(file, site) for site in file.launches_of(found)} if found is not None else set()
    return rules.pop() if len(rules) == 1 else None


def extent_of(file: File, value: Value) -> int | None:
    """The number of an extent where the run says nothing else: 256 of `argc > 1 ? atoi(argv[1]) : 256`; None where the
    text has none."""
    said = _Reader(file, {}, {}).value(value)
    return int(said) if said is not None and said.isdigit() else None


def most_threads(file: File, site: Site) -> int | None:
    """The most threads that a launch's block has whatever the run's numbers are: 256 of `min(n, 256)`; None where the
    text sets no bound."""
    # an extent that is read as its default alone is not all that it may be
    seen = frozenset[str]().union(*(lengths_of(file, value.node) for value in site.block or ()))
    if not site.block or seen != lengths_of(file, site.written[1]):
        return None
    reader = _Reader(file, {}, {}, defaults=False)
    extents = [_most(reader.value(value)) for value in site.block]
    return None if None in extents else math.prod(extent for extent in extents if extent is not None)


def _most(rule: str | None) -> int | None:
    """The largest value of a rule whose numbers are not known, none of them below zero."""
    held: list[int | None] = []
    for word in (rule or "?").split():
        if re.fullmatch(r"\d+", word):
            held.append(int(word))
        elif word not in _OPERATORS | {"up", "min", "max"}:
            held.append(None)
        elif len(held) > 1:
            right, left = held.pop(), held.pop()
            held.append(_most_of(word, left, right))
    return held[0] if len(held) == 1 else None


def _most_of(operator: str, left: int | None, right: int | None) -> int | None:
    if operator == "min":
        return min((known for known in (left, right) if known is not None), default=None)
    if operator == "%":
        return right - 1 if right else None
    if left is None or right is None:
        return None
    match operator:
        case "+":
            return left + right
        case "*":
            return left * right
        case "max":
            return max(left, right)
        case _:
            # what is taken off, or divided by, may be less than is known
            return left if operator in ("-", "/", "up") else None


def rule_of(file: File, site: Site) -> GridRule | None:
    """The rule of one launch; None where it follows from what the kernel is not given."""
    x, y, z = _said(file, site)
    if x is None or y is None or z is None:
        return None
    # numbers alone are no rule: they stay; and two that are not known cannot be told from what is launched
    plain = any(_passes(one) for one in (x, y, z)) and all(one.split().count("?") < 2 for one in (x, y, z))
    return (x, y, z) if plain else None


def block_rule(file: File, site: Site) -> GridRule | None:
    """The rule of one launch's block, in the same words; None where it cannot be read."""
    if site.block is None or not 1 <= len(site.block) <= 3:
        return None
    reader = _Reader(file, _passed(file, site), _written(file, site))
    x, y, z = (*(reader.value(value) for value in site.block), "1", "1")[:3]
    return None if x is None or y is None or z is None else (x, y, z)


def is_read(file: File, site: Site) -> bool:
    """Whether a launch's grid can be read, of numbers alone too, whatever they are."""
    return None not in _said(file, site)


def _said(file: File, site: Site) -> tuple[str | None, str | None, str | None]:
    if site.grid is None or not 1 <= len(site.grid) <= 3:
        return None, None, None
    reader = _Reader(file, _passed(file, site), _written(file, site))
    x, y, z = (*(reader.value(value) for value in site.grid), "1", "1")[:3]
    return x, y, z


def _passes(rule: str) -> bool:
    return any(re.fullmatch(r"p[\d,]+", word) for word in rule.split())


def _passed(file: File, site: Site) -> dict[Binding, list[int]]:
    """Which parameters a variable is passed for, by the variables that it was followed through, too."""
    found: dict[Binding, list[int]] = {}
    for index, node in enumerate(site.arguments):
        node = _bare(file, node)
        for binding in (*file.followed(node).through, file.named(node)):
            if binding is not None and index not in found.setdefault(binding, []):
                found[binding].append(index)
    return found


def _written(file: File, site: Site) -> dict[str, int]:
    """Which parameters a member, or a variable of the file, is passed for, as it is written."""
    found: dict[str, int] = {}
    for index, node in enumerate(site.arguments):
        node = _bare(file, node)
        of_file = node.type == "identifier" and file.named(node) is None
        fixed = file.constants.value(file.tree.code_of(node), node.start_byte) is not None
        if (node.type == "field_expression" or of_file) and not fixed:
            found.setdefault("".join(file.tree.code_of(node).split()), index)
    return found


def _bare(file: File, node: Node) -> Node:
    """Without parentheses and casts to an integer type."""
    while True:
        inner: Node | None = None
        if node.type == "parenthesized_expression" and node.named_child_count == 1:
            inner = node.named_children[0]
        elif node.type == "cast_expression":
            inner = node.child_by_field_name("value")
        elif node.type == "call_expression":
            function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            name = file.tree.code_of(function).split("<")[0].strip() if function is not None else ""
            if name in _CASTS and given is not None and given.named_child_count == 1:
                inner = given.named_children[0]
        if inner is None:
            return node
        node = inner


class _Reader:
    """One launch's expressions, in the numbers that it passes."""

    def __init__(
        self,
        file: File,
        passed: Mapping[Binding, list[int]],
        written: Mapping[str, int],
        given: Mapping[str, str] | None = None,
        *,
        defaults: bool = True,
    ) -> None:
        """`given`: rules of the parameters of the function whose value is read. `defaults`: what is read at the start
        of a run is taken for what it is where the run says nothing."""
        self._file, self._passed, self._written, self._given = file, passed, written, given or {}
        self._defaults = defaults

    def value(self, value: Value) -> str | None:
        """The rule of an extent."""
        return self._through(value.through) or self.read(value.node)

    def read(self, node: Node | None, depth: int = 0) -> str | None:
        """The rule of an expression; None where it is not known."""
        if node is None or depth > _MOST:
            return None
        node = _bare(self._file, node)
        value = self._file.literal(node)
        if value is not None:
            return str(value)
        match node.type:
            case "identifier" | "type_identifier":
                return self._name(node, depth)
            case "parameter_declaration" if node.named_child_count == 1:
                # `dim3 block(bx, by)` is taken for a function's parameters
                return self.read(node.named_children[0], depth)
            case "parameter_declaration":
                return self._declared_product(node, depth)
            case "field_expression":
                return self._member(node)
            case "binary_expression":
                return self._binary(node, depth)
            case "call_expression":
                return self._call(node, depth)
            case "conditional_expression":
                return self._rest(node, depth)
            case _:
                return self._constant(node)

    def _declared_product(self, node: Node, depth: int) -> str | None:
        """`rows * columns` of `dim3 grid(rows * columns)`, which is taken for a pointer among parameters."""
        kind, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        name = declarator.child_by_field_name("declarator") if declarator is not None else None
        if declarator is None or declarator.type != "pointer_declarator" or name is None:
            return None
        sides = (self.read(kind, depth + 1), self.read(name, depth + 1))
        return None if None in sides else f"{sides[0]} {sides[1]} *"

    def _constant(self, node: Node) -> str | None:
        value = self._file.constants.value(self._file.tree.code_of(node), node.start_byte)
        return None if value is None else str(value)

    def _through(self, bindings: Sequence[Binding]) -> str | None:
        found = next((self._passed[one] for one in bindings if one in self._passed), None)
        return None if found is None else "p" + ",".join(map(str, found))

    def _passed_as(self, node: Node) -> str | None:
        index = self._written.get("".join(self._file.tree.code_of(node).split()))
        return None if index is None else f"p{index}"

    def _rest(self, node: Node, depth: int) -> str | None:
        """`n % 256 ? 1 : 0`, and what adds one to a quotient that leaves a rest."""
        test, one, other = (
            node.child_by_field_name(part) for part in ("condition", "consequence", "alternative")
        )
        while test is not None and test.type == "parenthesized_expression":
            test = test.named_children[0]
        if test is None or test.type != "binary_expression":
            return None
        if (extreme := self._extreme(test, one, other, depth)) is not None:
            return extreme
        operator = test.child_by_field_name("operator")
        divided, zero = test, operator is not None and operator.type == "=="
        if operator is not None and operator.type in ("==", "!=", ">"):
            left, right = test.child_by_field_name("left"), test.child_by_field_name("right")
            if left is None or self._file.literal(right) != 0:
                return None
            divided = _bare(self._file, left)
        sign = divided.child_by_field_name("operator") if divided.type == "binary_expression" else None
        sides = [self.read(divided.child_by_field_name(side), depth + 1) for side in ("left", "right")]
        whole, more = (self.read(part, depth + 1) for part in ((one, other) if zero else (other, one)))
        if sign is None or sign.type != "%" or None in (*sides, whole, more):
            return None
        rest = f"{sides[0]} {sides[1]} up {sides[0]} {sides[1]} / -"
        return f"{whole} {more} {whole} - {rest} * +"

    def _extreme(self, test: Node, one: Node | None, other: Node | None, depth: int) -> str | None:
        """`n < 256 ? n : 256`: the smaller or the larger of the two that are compared."""
        operator = test.child_by_field_name("operator")
        compared = [test.child_by_field_name(side) for side in ("left", "right")]
        sides = [self.read(side, depth + 1) for side in compared]
        said, taken = ([self._squeezed(node) for node in pair] for pair in (compared, (one, other)))
        if operator is None or operator.type[:1] not in ("<", ">") or None in sides:
            return None
        # a bound holds of what is not known, too; what is launched says nothing of it
        if taken not in (said, said[::-1]) or (self._defaults and "?" in sides):
            return None
        return f"{sides[0]} {sides[1]} {'min' if (operator.type[0] == '<') == (taken == said) else 'max'}"

    def _squeezed(self, node: Node | None) -> str:
        return "".join(self._file.tree.code_of(node).split()) if node is not None else ""

    def _name(self, node: Node, depth: int) -> str | None:
        if (given := self._given.get(self._file.tree.code_of(node))) is not None:
            return given
        binding = self._file.named(node)
        if binding is None:
            return self._passed_as(node) or self._constant(node)
        behind = self._file.followed(node)
        said = self._through((binding, *behind.through))
        if said is None and behind.node.id != node.id and self._defaults:
            said = self.read(behind.node, depth + 1)
        # the rule is held to what the program launches, so that a variable may be taken for what it begins as
        if said is None and (begins := value_node(self._file.tree, binding)) is not None:
            said = self.read(begins, depth + 1)
        return said or self._constant(node) or "?"

    def _member(self, node: Node) -> str | None:
        """`block.x` of a `dim3`; a member that is passed as it is."""
        if (passed := self._passed_as(node)) is not None:
            return passed
        field = node.child_by_field_name("field")
        axis = "xyz".find(self._file.tree.code_of(field)) if field is not None else -1
        extents = self._file.extents(node.child_by_field_name("argument")) if axis >= 0 else None
        if extents is None:
            return self._constant(node) or "?"
        return self.value(extents[axis]) if axis < len(extents) else "1"

    def _binary(self, node: Node, depth: int) -> str | None:
        operator = node.child_by_field_name("operator")
        if operator is None or operator.type not in _OPERATORS | _COMPARED.keys():
            return None
        left = self.read(node.child_by_field_name("left"), depth + 1)
        right = self.read(node.child_by_field_name("right"), depth + 1)
        if left is None or right is None:
            return None
        return _COMPARED.get(operator.type, f"{{0}} {{1}} {operator.type}").format(left, right)

    def _call(self, node: Node, depth: int) -> str | None:
        function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or given is None:
            return None
        name = self._file.tree.code_of(function).split("<")[0].strip()
        arguments = [self.read(child, depth + 1) for child in given.named_children]
        if name in ("ceil", "ceilf", "std::ceil") and given.named_child_count == 1:
            return self._ceiled(given.named_children[0], depth)
        if (returned := self._returned(name, arguments, depth)) is not None:
            return returned
        if len(arguments) != 2 or None in arguments:
            return self._constant(node)
        operation = _EXTREMES.get(name) or ("up" if self._file.is_rounding(node) else None)
        return f"{arguments[0]} {arguments[1]} {operation}" if operation else None

    def _returned(self, name: str, arguments: list[str | None], depth: int) -> str | None:
        """What a function of the file that is one `return` makes of its arguments, whatever its name."""
        function = self._file.constants.function(name)
        if (
            function is None
            or function.tree is not self._file.tree
            or len(function.parameters) != len(arguments)
        ):
            return None
        given = {n: said for n, said in zip(function.parameters, arguments, strict=True) if said is not None}
        if len(given) != len(arguments):
            return None
        return _Reader(self._file, self._passed, self._written, given).read(function.value, depth + 1)

    def _ceiled(self, node: Node, depth: int) -> str | None:
        """`ceil((float)n / 256)`, `ceil(n / 256.0)`: a division of numbers that are not whole."""
        node = _bare(self._file, node)
        operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
        if operator is None or operator.type != "/":
            return None
        text = self._file.tree.code_of(node)
        parts = [node.child_by_field_name(side) for side in ("left", "right")]
        sides = [self._whole(part, depth) for part in parts]
        fractional = "float" in text or "double" in text or any(_is_fraction(self._file, p) for p in parts)
        return f"{sides[0]} {sides[1]} up" if fractional and None not in sides else None

    def _whole(self, node: Node | None, depth: int) -> str | None:
        """As `read`, of a number such as 256.0f too."""
        if node is not None and node.type == "number_literal":
            whole, _, rest = self._file.tree.code_of(node).rstrip("fF").partition(".")
            return whole if whole.isdigit() and not rest.strip("0") else None
        return self.read(node, depth + 1)


def _is_fraction(file: File, node: Node | None) -> bool:
    return node is not None and any(
        "." in file.tree.code_of(part) for part in walk(node) if part.type == "number_literal"
    )
