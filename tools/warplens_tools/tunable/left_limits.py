# SPDX-License-Identifier: Apache-2.0
"""Limits that an edit leaves out of expressions that stay as they were: `x[k]` for `x[k % n]`, `k` for `min(k, n)`.

On a run's own data a limit may never bite; that is why it is there. What the edit asks for elsewhere instead, in a
condition or in another expression, is none that is left out; nor is what a condition around the place asks already.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, holds, walk

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_NUMBER = re.compile(r"(?i)(?:0x[\da-f']+|\d[\d']*)[ul]*\Z")
_CALLS = re.compile(r"(?:(?:std|cuda|cuda::std)::)?(?:f?min[fl]?|f?max[fl]?|clamp|u?min|u?max)\Z")
#: Masks that leave a type's own bits: of no effect on what has no more.
_WHOLE = frozenset({0xFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_BRACKETS = frozenset("()")
#: What asks for a thread's place, which launches bound.
PLACES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"})
Words = tuple[str, ...]


class Side(NamedTuple):
    """One version of a function."""

    tree: SourceTree
    #: All words of its body.
    words: Words
    #: Its statements that are no part of a loop's header, each with its words.
    statements: Sequence[tuple[Words, Node]]


class _Limit(NamedTuple):
    """An expression, what of it is limited, and by what."""

    whole: Node
    limited: Node
    by: tuple[Node, ...]


def left_limits(old: Side, new: Side, run_time: frozenset[str]) -> Iterator[str]:
    """The expressions whose limits an edit leaves out, as they are written; `run_time` are names whose values rest on
    parameters or on memory."""
    was, now = (Counter(words for words, _ in side.statements) for side in (old, new))
    gained = {_bare(words) for words in now - was}
    many = Counter(old.words), Counter(new.words)
    for words, node in old.statements if gained else ():
        for limit in _limits(old.tree, node) if words in was - now else ():
            if _without(old.tree, node, limit) not in gained or not _may_bite(old.tree, limit, run_time):
                continue
            if any(_with(old.tree, node, limit, other) in gained for other in _chosen_else(limit)):
                # which of the two it is, the edit asks around two statements
                continue
            names = set(_names(old.tree, *limit.by))
            # a name that the edit asks for as often as before limits something else, or in another place
            if names and all(many[1][name] < many[0][name] for name in names):
                yield " ".join(words_of(old.tree, limit.whole))


def _limits(tree: SourceTree, statement: Node) -> Iterator[_Limit]:
    for node in walk(statement):
        match node.type:
            case "binary_expression":
                left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
                operator = node.child_by_field_name("operator")
                if left is None or right is None or operator is None or operator.type not in ("%", "&"):
                    continue
                yield _Limit(node, left, (right,))
                if operator.type == "&":
                    yield _Limit(node, right, (left,))
            case "call_expression":
                function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
                if (
                    function is None
                    or given is None
                    or not _CALLS.match(tree.code_of(function).split("<")[0])
                ):
                    continue
                for one in given.named_children:
                    yield _Limit(node, one, tuple(n for n in given.named_children if n.id != one.id))
            case "conditional_expression":
                test, *sides = (
                    node.child_by_field_name(part) for part in ("condition", "consequence", "alternative")
                )
                for kept, other in (sides, sides[::-1]):
                    if test is not None and kept is not None and other is not None:
                        yield _Limit(node, kept, (test, other))


def _may_bite(tree: SourceTree, limit: _Limit, run_time: frozenset[str]) -> bool:
    """Whether anything may be limited: a value of the run's, or by one, by less than its type, and by nothing that is
    asked around it."""
    held, by = set(words_of(tree, limit.limited)), set(_names(tree, *limit.by))
    if not run_time & (held | by) or PLACES & (held | by):
        return False
    if any(_NUMBER.match(name) and _number(name) in _WHOLE for name in by):
        return False
    asked = {name for name in by | set(_names(tree, limit.limited)) if _NAME.match(name)}
    return not any(asked <= set(words_of(tree, test)) for test in _asked_around(limit.whole))


def _asked_around(node: Node) -> Iterator[Node]:
    outer = node.parent
    while outer is not None:
        if outer.type in LOOPS or outer.type in ("if_statement", "conditional_expression"):
            test = outer.child_by_field_name("condition")
            if test is not None and not test.start_byte <= node.start_byte < test.end_byte:
                yield test
        outer = outer.parent


def _chosen_else(limit: _Limit) -> Iterator[Node]:
    """What stands for a limited expression where its limit bites, if that is an expression of its own."""
    if limit.whole.type == "conditional_expression":
        yield limit.by[1]


def _without(tree: SourceTree, statement: Node, limit: _Limit) -> Words:
    return _with(tree, statement, limit, limit.limited)


def _with(tree: SourceTree, statement: Node, limit: _Limit, part: Node) -> Words:
    """A statement's words, but for brackets, with a part of a limited expression for the whole."""
    found: list[str] = []
    for leaf in _leaves(statement):
        if holds(limit.whole, leaf) and not holds(part, leaf):
            continue
        found.append(tree.code_of(leaf).strip())
    return _bare(tuple(word for word in found if word))


def _bare(words: Words) -> Words:
    return tuple(word for word in words if word not in _BRACKETS)


def _names(tree: SourceTree, *nodes: Node) -> Iterator[str]:
    """Names and numbers, but for the usual ones."""
    for node in nodes:
        for word in words_of(tree, node):
            if _NAME.match(word) or (_NUMBER.match(word) and _number(word) > 1):
                yield word


def _number(word: str) -> int:
    return int(word.replace("'", "").rstrip("uUlL"), 0) if not re.match(r"0\d", word) else 8


def words_of(tree: SourceTree, node: Node) -> Words:
    """The words of a node, without comments."""
    return tuple(word for n in _leaves(node) if (word := tree.code_of(n).strip()))


def _leaves(node: Node) -> Iterator[Node]:
    return (n for n in walk(node) if not n.child_count and n.type != "comment")
