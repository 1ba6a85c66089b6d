# SPDX-License-Identifier: Apache-2.0
"""The headers of loops, and loops that step a variable in their body.

`while (i < n) { …; i += stride; }` and `for (; i < n; i += stride)` are loops over `i` like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.comparisons import FLIPPED
from warplens_tools.cuda.syntax.lexical import name_before
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.forms import ZERO, Form, number, subtract
from warplens_tools.cuda.values.writes import changes
from warplens_tools.text import Span

#: Statements that come to their body again.
LOOPS = frozenset({"while_statement", "for_statement", "do_statement"})


class Stepped(NamedTuple):
    """A loop that steps a variable by one update, and what the variable is bound to before it."""

    loop: Node
    update: Node
    binding: Binding


class Loop(msgspec.Struct, frozen=True):
    """A loop around an access. What is not a `for` with one variable has only its span."""

    span: Span
    #: Offset in the analysed tree; tells loops apart.
    offset: int
    variable: str = ""
    first: Form | None = None
    #: As `first`, in which what is loaded is a symbol.
    origin: Form | None = None
    #: What the variable grows by in each iteration.
    step: Form | None = None
    #: "<", "<=", ">", ">=" or "!=", and what the variable is compared with.
    comparison: str = ""
    bound: Form | None = None
    #: Name of the symbol that counts the iterations from 0; "" where the variable has no fixed step.
    counter: str = ""
    #: Iterations, where constant and the same for all threads.
    trips: int | None = None


def iterations(loop: Loop, known: Mapping[str, int] | None = None) -> int | None:
    """How often a loop runs, where its first value, step and bound are constant or follow from `known` symbols; None
    otherwise."""
    first, bound, step = (
        form.evaluate(known or {}) if form else None for form in (loop.first, loop.bound, loop.step)
    )
    if first is None or bound is None or step is None:
        return None
    if loop.comparison in ("<", "<=") and step > 0:
        return max(0, -(-(bound - first + (loop.comparison == "<=")) // step))
    if loop.comparison in (">", ">=") and step < 0:
        return max(0, -(-(first - bound + (loop.comparison == ">=")) // -step))
    return None


def stepping_loop(tree: SourceTree, node: Node, binding: Binding) -> Stepped | None:
    """The loop around `node` whose one `x += e` is all that changes the variable.

    None where the variable is changed elsewhere too, conditionally, or after which `node` stands.
    """
    key = ("only update", binding.name, binding.declaration)
    update = tree.remembered(key, lambda: _only_update(tree, binding))
    if update is None or (update.start_byte < node.start_byte and not is_in_header(update)):
        return None
    statement = update.parent
    if statement is not None and statement.type == "expression_statement":
        statement = statement.parent
    if statement is not None and statement.type == "compound_statement":
        statement = statement.parent
    inside = statement is not None and statement.start_byte <= node.start_byte < statement.end_byte
    if statement is None or statement.type not in LOOPS or not inside:
        return None
    return Stepped(statement, update, binding) if binding.start < statement.start_byte else None


def is_in_header(update: Node) -> bool:
    """Whether an update stands in the header of a `for`, behind all of its body."""
    return update.parent is not None and update.parent.type == "for_statement"


#: The operator alone, which a search finds at once; the names stand on either side.
_STEPS = re.compile(r"(?=(?:\+\+|--)\s*(\w*)|[-+]=)[-+]")


def stepped_names(tree: SourceTree) -> frozenset[str]:
    """Every name of the text that may be stepped somewhere."""
    return tree.remembered(
        "stepped names", lambda: frozenset().union(*(_stepped_in(tree, code) for code in tree.stretches()))
    )


def _stepped_in(tree: SourceTree, code: str) -> frozenset[str]:
    known: frozenset[str] | None = tree.carried(("stepped names", code))
    if known is None:
        found = list(_STEPS.finditer(code))
        known = frozenset((*(name_before(code, m.start()) for m in found), *(m[1] for m in found if m[1])))
        tree.carry(("stepped names", code), known)
    return known


def _only_update(tree: SourceTree, binding: Binding) -> Node | None:
    if binding.name not in stepped_names(tree):
        return None
    start = binding.declaration[1]
    code = tree.masked.code[start : binding.end].decode("ascii")
    name = re.escape(binding.name)
    found = list(
        re.finditer(
            rf"(?<![\w.>])(?:{name}\s*(?:\+=|-=)[^;,)]*|{name}\s*(?:\+\+|--)|(?:\+\+|--)\s*{name}\b)", code
        )
    )
    if len(found) != 1:
        return None
    at, end = found[0].start(), found[0].end()
    if changes(tree, code[:at] + " " * (end - at) + code[end:], binding.name):
        return None
    node = tree.root.descendant_for_byte_range(start + at, start + end - 1)
    while node is not None and node.type not in ("assignment_expression", "update_expression"):
        if node.end_byte > start + len(code):
            return None
        node = node.parent
    return node


def condition_of(loop: Node) -> Node | None:
    """The comparison a loop goes on by."""
    found = loop.child_by_field_name("condition")
    while found is not None and found.type in ("condition_clause", "parenthesized_expression"):
        found = found.named_children[0] if found.named_child_count == 1 else None
    return found


def initialised(loop: Node) -> tuple[Node | None, Node | None]:
    """The one variable that a `for` header sets, and its first value."""
    initializer = loop.child_by_field_name("initializer") if loop.type == "for_statement" else None
    if initializer is None:
        return None, None
    if initializer.type == "declaration":
        declarators = initializer.children_by_field_name("declarator")
        if len(declarators) != 1 or declarators[0].type != "init_declarator":
            return None, None
        initializer = declarators[0]
        name, value = initializer.child_by_field_name("declarator"), initializer.child_by_field_name("value")
    elif initializer.type == "assignment_expression":
        name, value = initializer.child_by_field_name("left"), initializer.child_by_field_name("right")
    else:
        return None, None
    return (name, value) if name is not None and name.type == "identifier" else (None, None)


#: A comparison, and the same with its sides exchanged.
_FLIPPED = {**FLIPPED, "!=": "!="}


def compared_with(tree: SourceTree, condition: Node | None, name: str) -> tuple[str, Node | None]:
    """How a loop's condition compares its variable, and with what; "" and None where it is no such comparison."""
    if condition is None or condition.type != "binary_expression":
        return "", None
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    operator = condition.child_by_field_name("operator")
    if left is None or right is None or operator is None or operator.type not in _FLIPPED:
        return "", None
    if tree.code_of(left) == name:
        return operator.type, right
    if tree.code_of(right) == name:
        return _FLIPPED[operator.type], left
    return "", None


def step_of(
    tree: SourceTree, update: Node | None, name: str, form: Callable[[Node | None], Form | None]
) -> tuple[Form | None, bool]:
    """What the update adds, and whether the update is understood at all."""
    if update is None:
        return None, False
    code = tree.code_of(update).strip()
    if code in (f"++{name}", f"{name}++", f"--{name}", f"{name}--"):
        return number(1 if "++" in code else -1), True
    left, right = update.child_by_field_name("left"), update.child_by_field_name("right")
    operator = update.child_by_field_name("operator")
    if left is None or right is None or operator is None or tree.code_of(left) != name:
        return None, False
    if operator.type in ("+=", "-="):
        value = form(right)
        uniform = value is not None and not any(s.kind in ("thread", "loop") for s in value.symbols)
        if value is None or not uniform:
            return None, False
        return (value if operator.type == "+=" else subtract(ZERO, value)), True
    constant = form(right)
    scales = (
        operator.type in ("*=", "/=", "<<=", ">>=") and constant is not None and constant.value is not None
    )
    return None, scales
