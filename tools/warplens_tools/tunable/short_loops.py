# SPDX-License-Identifier: Apache-2.0
"""Loops that an edit lets go no further than a number of its own, where the original goes up to one of the run's: 32
letters of a word, however long it is.

What a run has may all be shorter. Asked function by function, for each name that loops go up to: whether fewer of them
do in the edit, while a loop goes up to the smaller of that name and a number instead. Where another loop does the rest,
there are as many as before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.tunable.left_out import device_functions
from warplens_tools.tunable.source import File

#: What something is less than.
_BOUND = re.compile(r"(?:<=?|!=)\(?([A-Za-z_]\w*)(?![\w(<\[.])|(?<![\w.\]>])([A-Za-z_]\w*)\)?>=?(?=\(?\w)")
#: Numbers of the text, as they are and by names that look so.
NUMBER = r"(?:\d[\da-fA-FxX']*[uUlL]*|k[A-Z]\w*|[A-Z][A-Z0-9_]+)"
_LESS = re.compile(rf"\(?(?:\w+<=?{NUMBER}|{NUMBER}>=?\w+)\)?")
#: A name, or one more or less.
_SOME = r"\(?(\w+)(?:[-+]\d+[uUlL]*)?\)?"
#: The smaller of that and a number, in whatever order; of two it is written as a call or as a choice.
_CALL = re.compile(rf"\b(?:\w+::)*u?min(?:<[^<>]*>)?\((?:{_SOME},{NUMBER}|{NUMBER},{_SOME})\)")
_CHOICE = re.compile(
    rf"\(?(?:\b(\w+)<=?{NUMBER}\)?\?\1:{NUMBER}|\b(\w+)>=?{NUMBER}\)?\?{NUMBER}:\2"
    rf"|\b{NUMBER}<=?(\w+)\)?\?{NUMBER}:\3|\b{NUMBER}>=?(\w+)\)?\?\4:{NUMBER})"
)


def why_cut_off(before: File, after: File) -> str:
    """Up to what a loop of an edit does not go any more, in words; "" for nothing."""
    old, new = device_functions(before), device_functions(after)
    for name, was in old.items():
        if name in new and (up_to := _why(before.tree, was, after.tree, new[name])):
            return f"the edit has a loop go no further than a number of its own, in {name}, which goes up to `{up_to}`"
    return ""


def _why(old_tree: SourceTree, was: Function, new_tree: SourceTree, now: Function) -> str:
    if old_tree.code_of(was.body) == new_tree.code_of(now.body):
        return ""
    old, new = Counter(_ends(old_tree, was.body)), Counter(_ends(new_tree, now.body))
    cut = [Counter(_cut_ends(tree, one.body)) for tree, one in ((old_tree, was), (new_tree, now))]
    for name, many in old.items():
        if new[name] < many and cut[1][name] > cut[0][name]:
            return name
    return ""


def _ends(tree: SourceTree, body: Node) -> Iterator[str]:
    """The names that loops go up to, each loop's once; none of one that goes no further than a number as well."""
    for condition in _conditions(tree, body):
        if not _held(condition):
            yield from _ends_of(condition) - set(_lesser(condition))


def _cut_ends(tree: SourceTree, body: Node) -> Iterator[str]:
    """The names of which loops go up to the smaller of them and a number."""
    set_to: dict[str, set[str]] = {}
    for node in walk(body):
        declares = node.type in ("init_declarator", "assignment_expression")
        name = (
            node.child_by_field_name("declarator") or node.child_by_field_name("left") if declares else None
        )
        value = node.child_by_field_name("value") or node.child_by_field_name("right") if declares else None
        if name is not None and value is not None:
            set_to.setdefault(tree.code_of(name), set()).update(_lesser(_text(tree, value)))
    for condition in _conditions(tree, body):
        names = _ends_of(condition)
        yield from {*_lesser(condition), *(one for name in names for one in set_to.get(name, ()))}
        if _held(condition):
            yield from names


def _conditions(tree: SourceTree, body: Node) -> Iterator[str]:
    for node in walk(body):
        condition = node.child_by_field_name("condition") if node.type in LOOPS else None
        if condition is not None:
            yield _text(tree, condition)


def _ends_of(condition: str) -> set[str]:
    found = (name for one in _BOUND.finditer(condition) for name in one.groups() if name)
    return {name for name in found if not re.fullmatch(NUMBER, name)}


def _held(condition: str) -> bool:
    """Whether a loop asks that something is less than a number, beside what else it asks."""
    parts = condition.removeprefix("(").removesuffix(")").split("&&")
    return len(parts) > 1 and any(_LESS.fullmatch(part) for part in parts)


def _lesser(text: str) -> Iterator[str]:
    for pattern in (_CALL, _CHOICE):
        for found in pattern.finditer(text):
            yield from filter(None, found.groups())


def _text(tree: SourceTree, node: Node) -> str:
    return "".join(tree.code_of(node).split())
