# SPDX-License-Identifier: Apache-2.0
"""Statements that fold a value into a variable, so that parts may be folded apart and then joined."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.comparisons import FLIPPED
from warplens_tools.cuda.syntax.functions import Function, functions_of
from warplens_tools.cuda.syntax.tree import SourceTree, walk

#: Functions that fold their two arguments, by what they do.
FOLDING = {
    **dict.fromkeys(
        ("fmaxf", "fmax", "max", "std::max", "umax", "__hmax", "__hmax2", "fmaxf_", "__vmaxs4"), "max"
    ),
    **dict.fromkeys(("fminf", "fmin", "min", "std::min", "umin", "__hmin", "__hmin2"), "min"),
    **dict.fromkeys(("__hadd", "__hadd2", "__fadd_rn", "__dadd_rn"), "+"),
    **dict.fromkeys(("__hmul", "__hmul2", "__fmul_rn"), "*"),
}
#: Functions a * b + c that fold into their last argument.
_FUSED = frozenset({"fmaf", "fma", "__fmaf_rn", "__fma_rn", "std::fma", "__hfma", "__hfma2", "__ffma_rn"})
_COMPOUND = {"+=": "+", "-=": "+", "*=": "*", "|=": "|", "&=": "&", "^=": "^"}
_BINARY = {"+": "+", "-": "+", "*": "*", "|": "|", "&": "&", "^": "^", "||": "||", "&&": "&&"}
_COMMUTE = frozenset({"+", "*", "|", "&", "^"})
_GREATER = {">": True, ">=": True, "<": False, "<=": False}
#: Folding the same value twice changes nothing.
IDEMPOTENT = frozenset({"max", "min", "|", "&", "||", "&&", "best"})
NEUTRAL = {"+": "0", "*": "1", "|": "0", "^": "0", "||": "false"}


class Fold(msgspec.Struct, frozen=True):
    """One statement that folds into a variable."""

    #: The variable, with members: "sum", "acc.x".
    place: str
    #: "+", "*", "max", "min", "|", "&", "^", "||", "&&"; "best" for a maximum or minimum and where it is.
    operation: str
    #: The occurrences of the variable that belong to it, by node.
    own: tuple[int, ...]
    #: The function that folds, as the text calls it; "" for an operator or a comparison.
    function: str = ""
    #: What goes along with the best: the variable that keeps its place.
    companion: str = ""
    #: The comparison by which a value replaces the best, read as `value OP best`.
    comparison: str = ""


def folds(tree: SourceTree, body: Node) -> Iterator[Fold]:
    """Every statement below `body` that folds into a variable."""
    for node in walk(body):
        found = None
        if node.type == "assignment_expression":
            found = _assigned(tree, node)
        elif node.type == "update_expression":
            found = _counted(tree, node)
        elif node.type == "if_statement":
            found = _chosen(tree, node)
        if found is not None:
            yield found


def place_of(tree: SourceTree, node: Node) -> str:
    """`v` or `v.x` of a variable; "" for every other expression."""
    inner = node
    while inner.type == "field_expression":
        operator, argument = inner.child_by_field_name("operator"), inner.child_by_field_name("argument")
        if operator is None or operator.type != "." or argument is None:
            return ""
        inner = argument
    return "".join(tree.code_of(node).split()) if inner.type == "identifier" else ""


def name_in(node: Node) -> Node:
    """The identifier of a place."""
    while node.type == "field_expression":
        argument = node.child_by_field_name("argument")
        if argument is None:
            break
        node = argument
    return node


def _assigned(tree: SourceTree, node: Node) -> Fold | None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = node.child_by_field_name("operator")
    place = place_of(tree, left) if left is not None else ""
    if not place or left is None or right is None or operator is None or not _is_statement(node):
        return None
    mine = name_in(left).id
    if operator.type in _COMPOUND:
        return Fold(place, _COMPOUND[operator.type], (mine,))
    if operator.type != "=":
        return None
    right = _bare(right)
    if right.type == "binary_expression":
        return _binary(tree, place, mine, right)
    if right.type == "call_expression":
        return _called(tree, place, mine, right)
    return _conditional(tree, place, mine, right) if right.type == "conditional_expression" else None


def _binary(tree: SourceTree, place: str, mine: int, right: Node) -> Fold | None:
    """`v = v + a + b`, `v = a * v`, `v = v || e`."""
    operator = right.child_by_field_name("operator")
    operation = _BINARY.get(operator.type) if operator is not None else None
    if operation is None:
        return None
    node: Node | None = right
    while node is not None and node.type == "binary_expression":
        sign = node.child_by_field_name("operator")
        if sign is None or _BINARY.get(sign.type) != operation:
            return None
        second = node.child_by_field_name("right")
        if second is not None and sign.type != "-" and place_of(tree, second) == place:
            return Fold(place, operation, (mine, name_in(second).id))
        node = node.child_by_field_name("left")
    if node is not None and place_of(tree, node) == place:
        return Fold(place, operation, (mine, name_in(node).id))
    return None


def _called(tree: SourceTree, place: str, mine: int, call: Node) -> Fold | None:
    """`v = fmaxf(v, e)`, `v = fmaf(a, b, v)`."""
    function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    if function is None or listed is None:
        return None
    name, given = tree.code_of(function).removeprefix("::"), listed.named_children
    plain = name.split("<")[0].strip()
    operation = FOLDING.get(plain) or own_folds(tree).get(plain)
    if plain in _FUSED and len(given) == 3 and place_of(tree, given[2]) == place:
        return Fold(place, "+", (mine, name_in(given[2]).id), "__hadd2" if name == "__hfma2" else "")
    if operation is None or len(given) != 2:
        return None
    for one in given:
        if place_of(tree, one) == place:
            return Fold(place, operation, (mine, name_in(one).id), tree.code_of(function))
    return None


def own_folds(tree: SourceTree) -> dict[str, str]:
    """Functions of the file that fold their two arguments, and how: `return a > b ? a : b;`."""
    file = tree.file
    return file.remembered("own folds", lambda: _own_folds(file))


def _own_folds(file: SourceTree) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for function in functions_of(file):
        if function.is_device and not function.is_kernel:
            found.setdefault(file.code_of(function.name_node), set()).add(_folded_by(file, function))
    return {name: next(iter(ways)) for name, ways in found.items() if len(ways) == 1 and "" not in ways}


def _folded_by(file: SourceTree, function: Function) -> str:
    """The operation by which a function folds its two parameters; "" where it does anything else."""
    listed = function.declarator.child_by_field_name("parameters")
    given = [n.child_by_field_name("declarator") for n in listed.named_children] if listed is not None else []
    names = [file.code_of(n).lstrip("& ") for n in given if n is not None and n.type != "pointer_declarator"]
    inside = [n for n in function.body.named_children if n.type != "comment"]
    value = inside[0].named_children[0] if len(inside) == 1 and inside[0].named_child_count == 1 else None
    if len(given) != 2 or len(names) != 2 or value is None or inside[0].type != "return_statement":
        return ""
    value = _bare(value)
    fields = ("left", "right")
    if value.type == "conditional_expression":
        test = _bare(value.named_children[0])
        sides = [test.child_by_field_name(f) for f in fields]
        kept = [file.code_of(_bare(n)) for n in value.named_children[1:]]
        sign = test.child_by_field_name("operator")
        compared = [file.code_of(_bare(n)) for n in sides if n is not None]
        if sign is None or sign.type not in _GREATER or sorted(compared) != sorted(names):
            return ""
        if sorted(kept) != sorted(names):
            return ""
        return "max" if _GREATER[sign.type] == (compared == kept) else "min"
    if value.type == "binary_expression":
        sign = value.child_by_field_name("operator")
        sides = [value.child_by_field_name(f) for f in fields]
        plain = sorted(file.code_of(_bare(n)) for n in sides if n is not None) == sorted(names)
        return sign.type if plain and sign is not None and sign.type in _COMMUTE else ""
    called, listed = value.child_by_field_name("function"), value.child_by_field_name("arguments")
    if called is None or listed is None or sorted(map(file.code_of, listed.named_children)) != sorted(names):
        return ""
    return FOLDING.get(file.code_of(called).split("<")[0].removeprefix("::"), "")


def _conditional(tree: SourceTree, place: str, mine: int, right: Node) -> Fold | None:
    """`v = e > v ? e : v` and its three turns."""
    test = right.child_by_field_name("condition")
    yes, no = right.child_by_field_name("consequence"), right.child_by_field_name("alternative")
    compared = _compared(tree, _bare(test), place) if test is not None else None
    if compared is None or yes is None or no is None:
        return None
    comparison, at, other = compared
    kept = [n for n in (yes, no) if place_of(tree, _bare(n)) == place]
    given = [n for n in (yes, no) if tree.code_of(_bare(n)) == other]
    if len(kept) != 1 or len(given) != 1:
        return None
    greater = _GREATER[comparison] == (given[0].id == yes.id)
    return Fold(place, "max" if greater else "min", (mine, at, name_in(_bare(kept[0])).id))


def _compared(tree: SourceTree, test: Node, place: str) -> tuple[str, int, str] | None:
    """The comparison of a test as `value OP v`, the occurrence of `v`, and the value's text."""
    left, right = test.child_by_field_name("left"), test.child_by_field_name("right")
    operator = test.child_by_field_name("operator")
    if left is None or right is None or operator is None or operator.type not in _GREATER:
        return None
    if place_of(tree, right) == place:
        return operator.type, name_in(right).id, tree.code_of(_bare(left))
    if place_of(tree, left) == place:
        return FLIPPED[operator.type], name_in(left).id, tree.code_of(_bare(right))
    return None


def _chosen(tree: SourceTree, node: Node) -> Fold | None:
    """`if (e > v) v = e;`, and with where it is: `if (e > v) { v = e; at = j; }`."""
    test, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
    if test is None or then is None or node.child_by_field_name("alternative") is not None:
        return None
    inner = test.child_by_field_name("value")
    set_ = [_set(tree, s) for s in (then.named_children if then.type == "compound_statement" else [then])]
    assigned = [one for one in set_ if one is not None]
    if inner is None or len(assigned) != len(set_) or not 1 <= len(assigned) <= 2:
        return None
    for place, own, value in assigned:
        compared = _compared(tree, _bare(inner), place)
        if compared is None or compared[2] != value:
            continue
        comparison, at, _ = compared
        rest = [one for one in assigned if one[0] != place]
        if not rest:
            return Fold(place, "max" if _GREATER[comparison] else "min", (own, at))
        return Fold(place, "best", (own, at, rest[0][1]), companion=rest[0][0], comparison=comparison)
    return None


def _set(tree: SourceTree, statement: Node) -> tuple[str, int, str] | None:
    """What a statement `v = e;` sets, the occurrence, and the text of the value."""
    node = (
        statement.named_children[0]
        if statement.type == "expression_statement" and statement.named_children
        else None
    )
    left = node.child_by_field_name("left") if node is not None else None
    right = node.child_by_field_name("right") if node is not None else None
    operator = node.child_by_field_name("operator") if node is not None else None
    if left is None or right is None or operator is None or operator.type != "=":
        return None
    place = place_of(tree, left)
    return (place, name_in(left).id, tree.code_of(_bare(right))) if place else None


def _counted(tree: SourceTree, node: Node) -> Fold | None:
    """`++count;`"""
    argument = node.child_by_field_name("argument")
    place = place_of(tree, argument) if argument is not None else ""
    if not place or argument is None or not _is_statement(node):
        return None
    return Fold(place, "+", (name_in(argument).id,))


def _is_statement(node: Node) -> bool:
    return node.parent is not None and node.parent.type in ("expression_statement", "comma_expression")


def _bare(node: Node) -> Node:
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node
