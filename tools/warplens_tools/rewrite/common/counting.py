# SPDX-License-Identifier: Apache-2.0
"""Loops that count: `for (int j = a; j < b; j += s)` in all its spellings, and who takes which iteration."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.comparisons import FLIPPED
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.cuda.values.loop_headers import condition_of, initialised
from warplens_tools.cuda.values.writes import changes

LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
#: None that meets its limit, `!=`: a loop that others take iterations of steps over it. The normal form has `<` there.
_UPWARD, _DOWNWARD = ("<", "<="), (">", ">=")
_LOOSE = re.compile(r"[?<>&|^=,]")
_NARROW = re.compile(r"\b(?:char|short|u?int8_t|u?int16_t)\b")


class Counting(msgspec.Struct, frozen=True):
    """A loop over one variable with a fixed step, which only its header, or a `while`'s last statement, changes."""

    node: Node
    variable: str
    #: Its first value; None for a `while`, whose variable has it already.
    first: Node | None
    update: Node
    body: Node
    #: How far apart two iterations are, as written: "1" for `++j`.
    step: str
    downward: bool = False
    #: What the variable is compared with; of `i < a && i < b` both, in order.
    bounds: tuple[Node, ...] = ()
    #: The loop's own variable, so that nothing behind the loop sees it.
    declared: bool = True


def counting(expanded: KernelTree, node: Node) -> Counting | None:
    """The loop as one that counts; None for every other."""
    if node.type == "while_statement":
        return _while(expanded, node)
    tree = expanded.tree
    name, first = initialised(node)
    update, body = node.child_by_field_name("update"), node.child_by_field_name("body")
    condition = condition_of(node)
    if name is None or first is None or update is None or body is None or condition is None:
        return None
    variable = tree.code_of(name)
    initializer = node.child_by_field_name("initializer")
    declared = initializer is not None and initializer.type == "declaration"
    if declared and initializer is not None and _NARROW.search(tree.code_of(initializer)):
        return None
    if changes(tree, tree.code_of(body), variable):
        return None
    return _counting(tree, Counting(node, variable, first, update, body, "1", declared=declared), condition)


def _while(expanded: KernelTree, node: Node) -> Counting | None:
    """`while (j < n) { …; ++j; }`"""
    tree = expanded.tree
    condition, body = condition_of(node), node.child_by_field_name("body")
    last = body.named_children[-1] if body is not None and body.named_child_count else None
    update = last.named_children[0] if last is not None and last.type == "expression_statement" else None
    if (
        condition is None
        or body is None
        or last is None
        or update is None
        or body.type != "compound_statement"
    ):
        return None
    target = update.child_by_field_name("argument") or update.child_by_field_name("left")
    if target is None or target.type != "identifier":
        return None
    variable = tree.code_of(target)
    before = tree.masked.code[body.start_byte : last.start_byte].decode("ascii")
    if changes(tree, before + "}", variable) or any(n.type == "continue_statement" for n in walk(body)):
        return None
    loop = Counting(node, variable, None, update, body, "1", declared=False)
    return _counting(tree, loop, condition)


def _counting(tree: SourceTree, loop: Counting, condition: Node) -> Counting | None:
    """With its step and its bounds, if they allow that iterations are counted."""
    variable, node = loop.variable, loop.node
    limits = [_bound(tree, part, variable) for part in _parts(condition)]
    stepped = _step(tree, loop.update, variable)
    if stepped is None:
        return None
    step, downward = stepped
    allowed = _DOWNWARD if downward else _UPWARD
    bounds = []
    for found in limits:
        if found is None or found[0] not in allowed or _is_changed(tree, node, found[1]):
            return None
        bounds.append(found[1])
    return msgspec.structs.replace(loop, step=step, downward=downward, bounds=tuple(bounds))


def _parts(condition: Node) -> list[Node]:
    """What `a && b` holds of."""
    operator = condition.child_by_field_name("operator")
    if condition.type != "binary_expression" or operator is None or operator.type != "&&":
        return [condition]
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    return [part for side in (left, right) if side is not None for part in _parts(side)]


def _is_changed(tree: SourceTree, loop: Node, limit: Node) -> bool:
    """Whether the loop's body changes a name that its bound is computed from."""
    body = loop.child_by_field_name("body")
    code = tree.code_of(body) if body is not None else ""
    return any(n.type == "identifier" and changes(tree, code, tree.code_of(n)) for n in walk(limit))


def _bound(tree: SourceTree, condition: Node, variable: str) -> tuple[str, Node] | None:
    if condition.type != "binary_expression":
        return None
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    operator = condition.child_by_field_name("operator")
    if left is None or right is None or operator is None:
        return None
    if tree.code_of(left) == variable:
        return operator.type, right
    flipped = FLIPPED.get(operator.type)
    return (flipped, left) if flipped and tree.code_of(right) == variable else None


def _step(tree: SourceTree, update: Node, variable: str) -> tuple[str, bool] | None:
    """The step as written, and whether it goes down."""
    code = "".join(tree.code_of(update).split())
    if code in (f"{variable}++", f"++{variable}"):
        return "1", False
    if code in (f"{variable}--", f"--{variable}"):
        return "1", True
    left, right = update.child_by_field_name("left"), update.child_by_field_name("right")
    operator = update.child_by_field_name("operator")
    if left is None or right is None or operator is None or tree.code_of(left) != variable:
        return None
    if operator.type in ("+=", "-="):
        return tree.code_of(right), operator.type == "-="
    found = re.fullmatch(
        rf"{re.escape(variable)}=(?:{re.escape(variable)}\+(\w+)|(\w+)\+{re.escape(variable)})", code
    )
    return (found[1] or found[2], False) if found else None


def strided(tree: SourceTree, loop: Counting, lane: str, width: str) -> tuple[str, str]:
    """The loop's first value and its update, where of `width` takers number `lane` takes every `width`-th iteration.

    For a `while` the first is a step that is made in front of it.
    """
    first = tree.text_of(loop.first).strip() if loop.first is not None else ""
    if loop.first is not None and loop.first.type == "initializer_list":
        first = first.removeprefix("{").removesuffix("}").strip() or "0"
    step = loop.step if re.fullmatch(r"\w+", loop.step) else f"({loop.step})"
    shift = lane if step == "1" else f"{lane} * {step}"
    by = width if step == "1" else f"{width} * {step}"
    sign = "-" if loop.downward else "+"
    if loop.first is None:
        return f"{loop.variable} {sign}= {shift}", f"{loop.variable} {sign}= {by}"
    if first == "0" and not loop.downward:
        begin = shift
    else:
        begin = f"{f'({first})' if _LOOSE.search(_flat(first)) else first} {sign} {shift}"
    if loop.first is not None and loop.first.type == "initializer_list":
        begin = f"{{{begin}}}"
    return begin, f"{loop.variable} {sign}= {by}"


def _flat(text: str) -> str:
    """The text outside brackets."""
    depth, kept = 0, []
    for char in text.replace("->", "."):
        depth -= char in ")]}"
        if depth == 0:
            kept.append(char)
        depth += char in "([{"
    return "".join(kept)
