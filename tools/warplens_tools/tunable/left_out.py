# SPDX-License-Identifier: Apache-2.0
"""What an edit leaves out of device code, or takes for granted, though nothing says that it is without effect: an
assignment to a variable that the edit uses and sets to nothing else, an expression of run-time values that became a
constant, a limit of an expression that stays (`left_limits.py`).

On the run's own inputs both may be as they were. What is moved, renamed or set otherwise is none of them; nor is what
only block and grid are asked for, which have rules of their own, or a variable that was set and not used again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.callees import own_name
from warplens_tools.cuda.syntax.functions import Function, functions_of
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, holds, walk
from warplens_tools.lazily import cached_property
from warplens_tools.tunable.conditions import declared_names
from warplens_tools.tunable.left_limits import PLACES, Side, Words, left_limits, words_of
from warplens_tools.tunable.source import File

_NUMBER = re.compile(r"(?:0[xX][\da-fA-F']+|\d[\d']*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[uUlLfF]*\Z")
_SETS = frozenset({"assignment_expression", "update_expression", "init_declarator"})
#: Where each of these has what it sets; `++` and the like have an argument.
_SIDES = {"assignment_expression": "left", "init_declarator": "declarator"}
_STATEMENTS = frozenset({"expression_statement", "declaration", "return_statement"})
_LOADS = frozenset({"subscript_expression", "pointer_expression", "field_expression"})
_ARITHMETIC = frozenset("+-*/%()<>&|^~") | {"<<", ">>"}


def why_left_out(before: File, after: File) -> str:
    """What an edit leaves out, or takes for a constant, in words; "" if nothing is known to be."""
    old, new = device_functions(before), device_functions(after)
    for name, was in old.items():
        if name in new and (why := _why(_Code(before, was), _Code(after, new[name]))):
            return f"{why} in {name}"
    return ""


def device_functions(file: File) -> dict[str, Function]:
    """The functions of a file that run on a card, by name, where one alone is called so."""
    device = [f for f in functions_of(file.tree) if f.is_device or f.is_kernel]
    many = Counter(own_name(file.tree, f) for f in device)
    return {name: f for f in device if many[name := own_name(file.tree, f)] == 1}


def _why(old: _Code, new: _Code) -> str:
    if old.words == new.words:
        return ""
    for target in _deleted(old, new):
        return f"the edit leaves out what the kernel sets `{target}` to"
    for run_time, constant in _replaced(old, new):
        return f"the edit has `{constant}` for `{run_time}`"
    was, now = (Side(code.tree, code.words, code.statements) for code in (old, new))
    for limited in left_limits(was, now, old.run_time):
        return f"the edit leaves out what limits `{limited}`"
    return ""


class _Code:
    """One function's code."""

    def __init__(self, file: File, function: Function) -> None:
        self._file, self.tree, self.function = file, file.tree, function
        self.words = words_of(self.tree, function.body)

    @cached_property
    def sets(self) -> list[tuple[str, Words, Node]]:
        """What is set: the variable as it is written, the words of the whole, and its node."""
        found = []
        for node in walk(self.function.body):
            if node.type in _SETS and (target := _target(node)) is not None:
                found.append((_text(self.tree, target), words_of(self.tree, node), node))
        return found

    @cached_property
    def roots_set(self) -> list[tuple[str, Words, Node]]:
        """The variable of whatever is set, an element of it too, the words of the whole, and its node."""
        found = []
        for node in walk(self.function.body):
            if node.type in _SETS:
                left = node.child_by_field_name(_SIDES.get(node.type, "argument"))
                name = (
                    next((n for n in walk(left) if n.type == "identifier"), None)
                    if left is not None
                    else None
                )
                found += (
                    [(self.tree.code_of(name), words_of(self.tree, node), node)] if name is not None else []
                )
        return found

    @cached_property
    def statements(self) -> list[tuple[Words, Node]]:
        """Statements that are no part of a loop's header, and their words."""
        nodes = (node for node in walk(self.function.body) if node.type in _STATEMENTS)
        return [(words_of(self.tree, n), n) for n in nodes if not _is_header(n)]

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The names of what the function is given."""
        nodes = (n for n in walk(self.function.declarator) if n.type == "parameter_declaration")
        return frozenset(self.tree.code_of(n) for node in nodes for n in declared_names(node))

    @cached_property
    def run_time(self) -> frozenset[str]:
        """Names whose values rest on parameters, or on memory."""
        rests, grown = set(self.parameters), True
        while grown:
            more = {
                _root(target)
                for target, words, node in self.sets
                if rests & set(words) or any(n.type in _LOADS - {"field_expression"} for n in walk(node))
            } - rests
            grown, rests = bool(more), rests | more
        return frozenset(rests)

    def many(self, name: str) -> int:
        """How often a name is declared in it."""
        nodes = (n for n in walk(self.function.body) if n.type in ("declaration", "parameter_declaration"))
        named = [self.tree.code_of(d) for node in nodes for d in declared_names(node)]
        return named.count(name) + (name in self.parameters)

    def reads(self, target: str, start: int = 0, *, apart_from: Node | None = None) -> bool:
        """Whether a variable, or what it is a member of, is used from an offset on, for more than to be set."""
        whole = _root(target)
        return any(
            (
                _text(self.tree, node) == target
                or (_text(self.tree, node) == whole and _parent_type(node) != "field_expression")
            )
            and node.start_byte >= start
            and not _is_target(node)
            and (apart_from is None or not holds(apart_from, node))
            for node in walk(self.function.body)
            if node.type in ("identifier", "field_expression")
        )

    def is_constant(self, word: str) -> bool:
        """Whether a name stands for a constant of the text."""
        if not word.isidentifier():
            return False
        pattern = rf"\bconstexpr\b[^;={{]*\b{word}\b|#\s*define\s+{word}\b"
        return re.search(pattern, self._file.text.text) is not None


def _deleted(old: _Code, new: _Code) -> Iterator[str]:
    """Variables of which an assignment is left out, and that the edit uses without setting them anew."""
    kept = {words for _, words, _ in new.sets}
    known = {words for _, words, _ in old.roots_set}
    anew = {root for root, words, _ in new.roots_set if words not in known}
    for target, words, node in old.sets:
        name = _root(target)
        # once where there were two of the same, it is still there
        if words in kept or node.type == "init_declarator" or name in anew or _counts(node):
            continue
        if old.many(name) != 1 or new.many(name) != 1 or not new.reads(target):
            continue
        loop = _loop_around(node)
        begin = loop.start_byte if loop is not None else node.end_byte
        if old.reads(target, begin, apart_from=node) and not _is_elsewhere(old, new, name, node):
            yield target


def _is_elsewhere(old: _Code, new: _Code, name: str, node: Node) -> bool:
    """Whether the edit may do what an assignment does in another place: its expression stands there, or a statement of
    its own has the variable and a name of the expression, or hands the variable to something that may set it."""
    value = node.child_by_field_name("right")
    words = words_of(old.tree, value) if value is not None else ()
    known = {of for of, _ in old.statements}
    anew = [of for of, _ in new.statements if of not in known]
    if len(words) > 1 and any(_stands(words, of) for of in anew):
        return True
    others = {word for word in words if word.isidentifier()} - {name}
    return any(name in of and others & set(of) for of in anew) or _is_passed_anew(old, new, name)


def _stands(words: Words, among: Words) -> bool:
    many = len(words)
    return any(among[at : at + many] == words for at in range(len(among) - many + 1))


def _is_passed_anew(old: _Code, new: _Code, name: str) -> bool:
    """Whether a statement of the edit hands a variable to something that may set it."""
    known = Counter(words for words, _ in old.statements)
    return any(
        words not in known
        and any(
            part.type in ("argument_list", "pointer_expression", "gnu_asm_expression", "lambda_expression")
            and name in words_of(new.tree, part)
            for part in walk(node)
        )
        for words, node in new.statements
    )


def _replaced(old: _Code, new: _Code) -> Iterator[tuple[str, str]]:
    """Expressions of run-time values, and the constants that stand for them in a statement that is the same else."""
    was, now = (Counter(words for words, _ in code.statements) for code in (old, new))
    lost = [(words, node) for words, node in old.statements if words in was - now]
    gained = [(words, node) for words, node in new.statements if words in now - was]
    for before, _ in lost:
        for after, node in gained:
            head, tail = _common(before, after)
            first, second = before[head : len(before) - tail], after[head : len(after) - tail]
            if not second or not _is_run_time(first, old) or not _is_constant(second, new):
                continue
            # what a variable begins with may be anything where more is added later
            if not _is_set_again(new, node):
                yield " ".join(first), " ".join(second)


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many words two statements begin with, and end with, in common."""
    least = min(len(one), len(other))
    head = next((i for i in range(least) if one[i] != other[i]), least)
    tail = next((i for i in range(least - head) if one[-1 - i] != other[-1 - i]), least - head)
    return head, tail


def _is_run_time(words: Sequence[str], code: _Code) -> bool:
    return bool(code.run_time & set(words)) and not PLACES & set(words) and _is_balanced(words)


def _is_constant(words: Sequence[str], code: _Code) -> bool:
    names = [w for w in words if w not in _ARITHMETIC]
    return bool(names) and _is_balanced(words) and all(_NUMBER.match(w) or code.is_constant(w) for w in names)


def _is_balanced(words: Sequence[str]) -> bool:
    return all(words.count(a) == words.count(b) for a, b in ("()", "[]", "{}"))


def _is_set_again(code: _Code, statement: Node) -> bool:
    """Whether the variable that a statement sets is set elsewhere too, or an element of an array with a run-time value:
    what the statement has is then where something begins, or a case of its own."""
    here = {target for target, _, node in code.sets if holds(statement, node)}
    if any(target in here and not holds(statement, node) for target, _, node in code.sets):
        return True
    elements = [(root, node) for root, _, node in code.roots_set if _sets_element(node)]
    roots = {root for root, node in elements if holds(statement, node)}
    return any(
        root in roots and not holds(statement, node) and _has_run_time_value(code, node)
        for root, node in elements
    )


def _sets_element(node: Node) -> bool:
    target = node.child_by_field_name(_SIDES.get(node.type, "argument"))
    return target is not None and target.type == "subscript_expression"


def _has_run_time_value(code: _Code, node: Node) -> bool:
    value = node.child_by_field_name("right")
    return value is not None and not code.run_time.isdisjoint(words_of(code.tree, value))


def _target(node: Node) -> Node | None:
    """What an assignment sets, where that is a variable or a member of one."""
    target = node.child_by_field_name(_SIDES.get(node.type, "argument"))
    while target is not None and target.type == "field_expression":
        inner = target.child_by_field_name("argument")
        if inner is None or inner.type == "identifier":
            return target
        target = inner
    return target if target is not None and target.type == "identifier" else None


def _is_target(node: Node) -> bool:
    """Whether a variable stands where it is set alone: on the left of `=`, or where what it becomes is not used."""
    parent = node.parent
    if parent is None or parent.type not in _SETS:
        return False
    return _target(parent) is not None and parent.child_by_field_name("right") != node


def _loop_around(node: Node) -> Node | None:
    outer: Node | None = node
    while outer is not None and outer.type not in LOOPS:
        outer = outer.parent
    return outer


def _counts(node: Node) -> bool:
    """Whether a loop is counted by an assignment: loops may be made otherwise."""
    loop = _loop_around(node)
    body = loop.child_by_field_name("body") if loop is not None else None
    return body is not None and not holds(body, node)


def _parent_type(node: Node) -> str:
    return node.parent.type if node.parent is not None else ""


def _is_header(node: Node) -> bool:
    loop = node.parent
    return loop is not None and loop.type in LOOPS and loop.child_by_field_name("body") != node


def _text(tree: SourceTree, node: Node) -> str:
    return "".join(tree.code_of(node).split())


def _root(target: str) -> str:
    return re.split(r"\.|->", target)[0]
