# SPDX-License-Identifier: Apache-2.0
"""Which of the numbers that a kernel is given its loops go up to, and which of its arrays they walk.

A name rests on a parameter where its initialiser or an assignment says so, through further names; what is loaded does
not. Functions of the file that a kernel calls are followed; any other that is given such a number may go up to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import parameter_names
from warplens_tools.cuda.syntax.functions import functions_of, plain_name
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.tunable.source import File

_LEAVES = frozenset({"break_statement", "return_statement", "goto_statement"})
_NUMBER = re.compile(r"(?<![\w.])(?:0[xX][\da-fA-F]+|\d+)[uUlL]*(?![\w.])")
#: Arithmetic, which goes up to nothing.
_ARITHMETIC = re.compile(
    r"(?:std::)?(?:min|max|abs|fabs|ceil|floor|static_cast|int|unsigned|size_t|float|double|long)\w*|dim3|sizeof"
    r"|make_\w+|(?:__)?\w*(?:sqrt|rsqrt|exp|log|pow|fma|fmin|fmax|div|mul|add|rcp|sin|cos|tanh?)\w*|__\w+|atomic\w+"
)
_MOST = 4
#: What a number leaves of a counter.
_LEFT = re.compile(r"([A-Za-z_]\w*)(?:%|&)(?:\w+|\(\w+-1\))")
#: How far a counter is from where it began.
_APART = re.compile(r"\[(\w+)-(\w+)\]")


class Walked:
    """One kernel's loops, its macros expanded."""

    def __init__(self, file: File, kernel: Kernel) -> None:
        self._kernel = kernel
        expanded = kernel_tree(file.tree, kernel)
        self._tree: SourceTree | None = expanded.tree if expanded is not None else None
        self._body = expanded.function.body if expanded is not None else None
        self._functions = {
            plain_name(file.tree.text_of(f.name_node)).rsplit("::", 1)[-1]: (file.tree, f)
            for f in functions_of(file.tree)
            if f.is_device
        }

    def goes_up_to(self, parameters: Sequence[str]) -> bool:
        """Whether a loop ends by one of these parameters, or a function may that is given one; True where the text
        cannot be read."""
        if self._tree is None or self._body is None:
            return True
        return self._covers(self._tree, self._body, frozenset(parameters), 0)

    def arrays_up_to(self, parameters: Sequence[str]) -> tuple[str, ...]:
        """The kernel's own arrays that are indexed by what a loop lets grow up to one of these, and nothing else
        bounds."""
        if self._tree is None or self._body is None:
            return ()
        tree, rests = self._tree, _resting(self._tree, self._body, frozenset(parameters))
        names = {array.name for array in self._kernel.arrays if array.space in ("shared", "local")}
        found = []
        for node in walk(self._body):
            if node.type != "subscript_expression":
                continue
            argument = node.child_by_field_name("argument")
            name = tree.code_of(argument or node)
            indices = [child for child in node.named_children if argument is None or child.id != argument.id]
            index = "".join(map(tree.code_of, indices))
            if name not in names or "%" in index or "&" in index or self._in_parts(index):
                continue
            held = set[str]().union(*(_names(tree, one) for one in indices))
            if any(_grows(tree, self._body, node, one, rests) for one in held):
                found += [] if _is_bounded(tree, self._body, node, rests) else [name]
        return tuple(dict.fromkeys(found))

    def _in_parts(self, index: str) -> bool:
        """Whether an index says how far a loop has come in a part that is no longer than a constant:
        `for (d = from; d < to; ++d) … tile[d - from]` with `to = min(128, n - from) + from`."""
        apart = _APART.fullmatch("".join(index.split()))
        if apart is None or self._tree is None or self._body is None:
            return False
        counter, begin = map(re.escape, apart.groups())
        code = "".join(self._tree.code_of(self._body).split())
        ends = re.findall(rf"[\w ]{counter}={begin};(?:[^;]*&&)?{counter}<(\w+)[;&]", code)
        held = r"(?:std::)?min\("
        return bool(ends) and all(
            re.search(rf"(?:int|unsigned|size_t|auto){end}={way}", code)
            for end in ends
            for way in [rf"{held}(?:\w+,[^;]*\)\+{begin};|{begin}\+\w+,|[^;]*,{begin}\+\w+\);)"]
        )

    def rings_up_to(self, parameters: Sequence[str]) -> dict[str, str]:
        """The kernel's own arrays that a loop up to one of these reads by what a number leaves of its counter, and does
        not write (`held[k % 64]`), each with that index: what was there before has another's place."""
        if self._tree is None or self._body is None:
            return {}
        tree, rests = self._tree, _resting(self._tree, self._body, frozenset(parameters))
        # a row of an array is handed on, who knows where to
        flat = (
            array
            for array in self._kernel.arrays
            if array.space in ("shared", "local") and len(array.sizes) == 1
        )
        names = {array.name for array in flat}
        found = {}
        for node in walk(self._body):
            argument = node.child_by_field_name("argument") if node.type == "subscript_expression" else None
            if argument is None or (name := tree.code_of(argument)) not in names:
                continue
            index = "".join(
                "".join(tree.code_of(c).split()) for c in node.named_children if c.id != argument.id
            )
            left = _LEFT.fullmatch(index.strip("[]"))
            if (
                left
                and _grows(tree, self._body, node, left[1], rests)
                and not _is_written(tree, node, left[1], name)
            ):
                found[name] = left[0]
        return found

    def names(self, index: str) -> bool:
        """Whether the kernel has an index, or limits by the same number what another counter leaves."""
        text = "".join(self._tree.code_of(self._body).split()) if self._tree and self._body else ""
        return re.sub(r"^\w+", "", index) in text

    def _covers(self, tree: SourceTree, body: Node, names: frozenset[str], depth: int) -> bool:
        rests, own = _resting(tree, body, names), _own_arrays(tree, body)
        if not rests:
            return False
        return any(_names(tree, end, own) & rests for end in _ends(body)) or any(
            self._call_covers(tree, call, rests, depth)
            for call in walk(body)
            if call.type == "call_expression"
        )

    def _call_covers(self, tree: SourceTree, call: Node, rests: frozenset[str], depth: int) -> bool:
        function, given = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or given is None:
            return False
        passed = [index for index, one in enumerate(given.named_children) if _names(tree, one) & rests]
        name = plain_name(tree.code_of(function)).rsplit("::", 1)[-1]
        known = self._functions.get(name)
        if not passed or (known is None and _ARITHMETIC.fullmatch(name)):
            return False
        if known is None or depth >= _MOST:
            return True
        declared = parameter_names(*known)
        into = frozenset(declared[index] for index in passed if index < len(declared))
        return self._covers(known[0], known[1].body, into, depth + 1)


def _names(tree: SourceTree, node: Node, own: frozenset[str] = frozenset()) -> set[str]:
    """The names in an expression, but for those that an array is indexed by, arrays but for these, and members."""
    if node.type == "subscript_expression":
        array = node.child_by_field_name("argument")
        return {tree.code_of(array)} & own if array is not None else set()
    if node.type in ("pointer_expression", "string_literal"):
        return set()
    if node.type == "field_expression":
        argument = node.child_by_field_name("argument")
        return _names(tree, argument, own) if argument is not None else set()
    if node.type == "identifier":
        return {tree.code_of(node)}
    return set[str]().union(*(_names(tree, child, own) for child in node.named_children))


def _own_arrays(tree: SourceTree, body: Node) -> frozenset[str]:
    """A thread's own arrays: what they hold was set by the thread, not loaded."""
    return tree.remembered(("own arrays", *body.byte_range), lambda: _declared_arrays(tree, body))


def _declared_arrays(tree: SourceTree, body: Node) -> frozenset[str]:
    found = set[str]()
    for node in walk(body):
        name = node.child_by_field_name("declarator") if node.type == "array_declarator" else None
        declaration = _declaration_of(node) if name is not None and name.type == "identifier" else None
        if name is not None and declaration is not None and "__shared__" not in tree.code_of(declaration):
            found.add(tree.code_of(name))
    return frozenset(found)


def _declaration_of(node: Node) -> Node | None:
    while node.parent is not None and node.type != "declaration":
        node = node.parent
    return node if node.type == "declaration" else None


def _resting(tree: SourceTree, body: Node, names: frozenset[str]) -> frozenset[str]:
    """The names that rest on these."""
    set_to = tree.remembered(
        ("set to", *body.byte_range), lambda: tuple(_set_to(tree, body, _own_arrays(tree, body)))
    )
    rests, grown = set(names), True
    while grown:
        more = {name for name, of in set_to if of & rests} - rests
        grown, rests = bool(more), rests | more
    return frozenset(rests)


def _set_to(tree: SourceTree, body: Node, own: frozenset[str]) -> Iterator[tuple[str, set[str]]]:
    for node in walk(body):
        if node.type == "init_declarator":
            name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        elif node.type == "assignment_expression":
            name, value = node.child_by_field_name("left"), node.child_by_field_name("right")
        else:
            continue
        while name is not None and name.type in ("pointer_declarator", "reference_declarator"):
            name = name.child_by_field_name("declarator") or next(iter(name.named_children), None)
        if name is not None and value is not None and name.type in ("identifier", "subscript_expression"):
            yield from ((one, _names(tree, value, own)) for one in _names(tree, name, own))


def _ends(body: Node) -> Iterator[Node]:
    """What loops go on by."""
    for loop in walk(body):
        if loop.type in LOOPS:
            yield from _ends_of(loop)


def _ends_of(loop: Node) -> Iterator[Node]:
    """A loop's condition, or those by which it is left where it has none."""
    condition = loop.child_by_field_name("condition" if loop.type != "for_range_loop" else "right")
    if condition is not None and any(part.type == "identifier" for part in walk(condition)):
        yield condition
        return
    for inner in walk(loop):
        test = inner.child_by_field_name("condition") if inner.type == "if_statement" else None
        if test is not None and any(part.type in _LEAVES for part in walk(inner)):
            yield test


def _grows(tree: SourceTree, body: Node, node: Node, name: str, rests: frozenset[str]) -> bool:
    """Whether the loop around a node that counts by a name goes up to what rests on a parameter, no less."""
    loop = node.parent
    while loop is not None and loop.id != body.id:
        for end in _ends_of(loop) if loop.type in LOOPS else ():
            for test in (one for one in walk(end) if one.type == "binary_expression"):
                left, right = test.child_by_field_name("left"), test.child_by_field_name("right")
                if left is None or right is None or tree.code_of(left) != name:
                    continue
                code = tree.code_of(right)
                whole = right.type == "identifier" and "&&" not in tree.code_of(end)
                return whole and code in rests and not _is_part(tree, body, code)
        loop = loop.parent
    return False


def _is_written(tree: SourceTree, node: Node, counter: str, array: str) -> bool:
    """Whether the loop around a node that counts by a name writes an array, or hands it to a function that may."""
    loop = node.parent
    while loop is not None and not (
        loop.type in LOOPS
        and any(re.search(rf"\b{re.escape(counter)}\b", tree.code_of(e)) for e in _ends_of(loop))
    ):
        loop = loop.parent
    handed = re.compile(rf"&?\b{re.escape(array)}\b(?!\s*\[)|&\s*{re.escape(array)}\b")
    for inner in walk(loop) if loop is not None else ():
        target = inner.child_by_field_name("left" if inner.type == "assignment_expression" else "argument")
        given = inner.child_by_field_name("arguments") if inner.type == "call_expression" else None
        changes = inner.type in ("assignment_expression", "update_expression") and target is not None
        if changes and target is not None and tree.code_of(target).startswith(array):
            return True
        if given is not None and handed.search(tree.code_of(given)):
            return True
    return False


def _is_part(tree: SourceTree, body: Node, name: str) -> bool:
    """Whether a variable is worked out: the smaller of two numbers, a difference, a part; no length itself."""
    for node in walk(body):
        declared = node.child_by_field_name("declarator") if node.type == "init_declarator" else None
        value = node.child_by_field_name("value")
        if declared is not None and tree.code_of(declared) == name and value is not None:
            return value.type not in ("identifier", "cast_expression")
    return False


def _is_bounded(tree: SourceTree, body: Node, node: Node, rests: frozenset[str]) -> bool:
    """Whether a test around a node, or before it, holds what rests on a parameter against a number of the text, by
    itself or by a flag that was set to such a test."""
    outer = node.parent
    while outer is not None:
        for one in (outer, *(outer.named_children if outer.type == "compound_statement" else ())):
            test = (
                one.child_by_field_name("condition")
                if one.type in ("if_statement", "conditional_expression")
                else None
            )
            if test is not None and one.start_byte <= node.start_byte:
                code = _with_flags(tree, body, test)
                if _names(tree, test) & rests and (
                    _NUMBER.search(code) or re.search(r"\bk[A-Z]|\b[A-Z]", code)
                ):
                    return True
        outer = outer.parent
    return False


def _with_flags(tree: SourceTree, body: Node, test: Node) -> str:
    """The text of a test, with the tests that its flags were set to."""
    code, named = tree.code_of(test), _names(tree, test)
    for node in walk(body):
        declared = node.child_by_field_name("declarator") if node.type == "init_declarator" else None
        value = node.child_by_field_name("value")
        if declared is not None and value is not None and tree.code_of(declared) in named:
            compares = any(one.type == "binary_expression" for one in walk(value))
            code += (
                f" {tree.code_of(value)}" if compares and re.search(r"[<>]=?|==", tree.code_of(value)) else ""
            )
    return code
