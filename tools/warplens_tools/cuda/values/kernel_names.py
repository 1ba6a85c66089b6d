# SPDX-License-Identifier: Apache-2.0
"""Which kernels an expression may launch: a name, or a pointer that was set from one, or that callers pass."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

import msgspec

from warplens_tools.cuda.syntax.functions import plain_name
from warplens_tools.cuda.syntax.lexical import matching, split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.constants import Constants

_NAME = re.compile(r"(?:::)?[A-Za-z_]\w*(?:\s*<.*>)?(?:::[A-Za-z_]\w*(?:\s*<.*>)?)*", re.DOTALL)
_ELEMENT = re.compile(r"([A-Za-z_]\w*)\s*\[[^\[\]]*\]")
_CHOICE = re.compile(r"[^?]+\?([^?:]|::)+(?<!:):(?!:)([^?:]|::)+", re.DOTALL)
#: Pointers followed one behind the other, and kernels that one pointer may hold.
_MOST_STEPS, _MOST_KERNELS = 6, 16


class Named(msgspec.Struct, frozen=True):
    """One kernel that an expression may mean, and the values that names have where it does."""

    name: str
    template_arguments: tuple[str, ...]
    constants: Constants


class KernelNames:
    """The kernels behind expressions of one tree. `kernels` are the plain names that are kernels."""

    def __init__(self, tree: SourceTree, kernels: frozenset[str]) -> None:
        self.tree, self.kernels = tree, kernels

    def of(self, text: str, constants: Constants, at: int) -> list[Named]:
        """The kernels that `text` at offset `at` may mean; empty where one of its values is not known."""
        found = list(itertools.islice(self._named(text, constants, at, 0), _MOST_KERNELS))
        return [n for n in found if n is not None] if None not in found else []

    def _named(self, text: str, constants: Constants, at: int, depth: int) -> Iterator[Named | None]:
        text = _without_casts((self.tree.macros.expand(text) or "").strip())
        choice = _CHOICE.fullmatch(text)
        if choice is not None and depth <= _MOST_STEPS:
            for side in _sides(text):
                yield from self._named(side, constants, at, depth + 1)
            return
        element = _ELEMENT.fullmatch(text)
        if element is not None and depth <= _MOST_STEPS:
            yield from self._in_table(element[1], constants, at, depth)
            return
        if depth > _MOST_STEPS or not _NAME.fullmatch(text):
            yield None
            return
        name = plain_name(text)
        if name.rsplit("::", 1)[-1] in self.kernels or not constants.is_bound(name, at):
            yield Named(name.removeprefix("::"), _template_arguments(text), constants)
            return
        bound = constants.binding(name, at)
        if bound is None:
            yield None
            return
        yield from self._held(bound, constants, depth + 1)

    def _held(self, bound: Binding, constants: Constants, depth: int) -> Iterator[Named | None]:
        """The kernels that a variable or a parameter may hold."""
        passed = constants.arguments(bound) if bound.value is None else ()
        if passed:
            for index, node in enumerate(passed):
                there = constants.of_call(bound, index)
                yield from self._named(self.tree.code_of(node), there, node.start_byte, depth)
            return
        values = [(bound.value, bound.value_at)] if bound.value else []
        values += self._assigned(bound)
        given = [(text, at) for text, at in values if text.strip() not in ("nullptr", "NULL", "0", "{}")]
        if not given:
            yield None
        for text, at in given:
            yield from self._named(text, constants, at, depth)

    def _in_table(self, name: str, constants: Constants, at: int, depth: int) -> Iterator[Named | None]:
        """The kernels that the elements of an array hold: what it is initialised with, what is assigned to them."""
        bound = constants.binding(name, at)
        if bound is None:
            yield None
            return
        code = self.tree.masked.code[bound.declaration[0] : bound.end].decode("ascii")
        listed = re.search(rf"\b{name}\s*\[[^\]]*\]\s*\)?\s*(?:\([^()]*\))?\s*=\s*\{{([^{{}}]*)\}}", code)
        values = split_arguments(listed[1]) if listed else []
        values += re.findall(rf"(?<![\w.>]){name}\s*\[[^\]]*\]\s*=(?!=)\s*([^;={{}}]+);", code)
        if not values:
            yield None
        for text in filter(None, map(str.strip, values)):
            yield from self._named(text, constants, at, depth + 1)

    def _assigned(self, bound: Binding) -> Iterable[tuple[str, int]]:
        """What is assigned to a variable of a function after its declaration."""
        if not bound.local:
            return []
        code = self.tree.masked.code[bound.start : bound.end].decode("ascii")
        found = re.finditer(rf"(?<![\w.>]){re.escape(bound.name)}\s*=(?!=)\s*([^;=]+);", code)
        return [(m[1], bound.start + m.start(1)) for m in found if m.start() > 0]


def _sides(choice: str) -> tuple[str, str]:
    """The two results of `a ? b : c`."""
    results = choice.partition("?")[2]
    cut = re.search(r"(?<!:):(?!:)", results)
    return (results[: cut.start()], results[cut.end() :]) if cut else (results, "")


def _without_casts(text: str) -> str:
    """`text` without a cast, an address-of or parentheses around a function's name."""
    previous = ""
    while previous != text:
        previous = text
        text = re.sub(r"^(?:reinterpret_cast|static_cast)\s*<[^()]*>\s*(?=\()", "", text)
        text = re.sub(r"^\(\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\)|^&", "", text).strip()
        if text.startswith("(") and matching(text, 0) == len(text):
            text = text[1:-1].strip()
    return text


def _template_arguments(text: str) -> tuple[str, ...]:
    """The arguments of the last template list: inside it, a bare `<` or `>` is always a bracket."""
    if not text.endswith(">"):
        return ()
    cuts, depth, round_depth = [len(text) - 1], 0, 0
    for index in range(len(text) - 1, -1, -1):
        char = text[index]
        round_depth += (char in ")]}") - (char in "([{")
        if round_depth:
            continue
        depth += (char == ">") - (char == "<")
        if depth == 1 and char == ",":
            cuts.append(index)
        elif depth == 0:
            cuts.append(index)
            break
    arguments = [text[low + 1 : high].strip() for high, low in itertools.pairwise(cuts)]
    return tuple(a for a in reversed(arguments) if a)
