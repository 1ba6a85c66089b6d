# SPDX-License-Identifier: Apache-2.0
"""Where host code may say another size, and what a size may be.

Sizes are what a launch is configured with, template arguments of a launched kernel that are numbers, bytes of device
memory that are allocated or copied from device to device, and variables that are used for nothing else. Sizes of
copies from or to the host are none: they say what host memory holds; nor is what is set, since memory that is not is
zero by chance. What is passed to a function of the user's for such a parameter is one, too (`passed_sizes.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from warplens.measure.build.host_tokens import after_angle, closing

_LAUNCH = "__cudaPushCallConfiguration"
#: Calls by the arguments that are sizes, from 0, and the argument that must be a word for that (None: any).
_CALLS: dict[str, tuple[tuple[int, ...], tuple[int, str] | None]] = {
    "cudaMalloc": ((1,), None),
    "cudaMallocAsync": ((1,), None),
    "cudaMemcpy": ((2,), (3, "cudaMemcpyDeviceToDevice")),
    "cudaMemcpyAsync": ((2,), (3, "cudaMemcpyDeviceToDevice")),
    "cudaFuncSetAttribute": ((2,), (1, "cudaFuncAttributeMaxDynamicSharedMemorySize")),
    "cudaLaunchKernel": ((1, 2, 4), None),
    "cudaLaunchCooperativeKernel": ((1, 2, 4), None),
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor": ((2, 3), None),
}
_FIELDS = {"gridDim", "blockDim", "dynamicSmemBytes"}
_NAME = re.compile(r"[A-Za-z_]\w*")
_INTEGER = re.compile(r"(?:0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)[uUlLzZ]*")
_NUMBER = re.compile(r"\.?\d(?:[eEpP][+-]|'?[\w.])*")
_INTEGRAL = {
    *("int", "unsigned", "long", "short", "char", "signed", "size_t", "bool"),
    *("int32_t", "uint32_t", "int64_t", "uint64_t", "dim3", "uint3", "float", "double", "std", "::"),
}
_QUALIFIERS = {"const", "constexpr", "static", "auto", "inline"}
#: Functions of sizes alone, known to have no effect.
_EVIDENT = {
    *(
        "dim3",
        "uint3",
        "make_uint3",
        "min",
        "max",
        "std::min",
        "std::max",
        "ceil",
        "std::ceil",
        "ceilf",
        "int",
    ),
    *("unsigned", "size_t", "float", "double", "long", "static_cast", "std::size_t"),
}
_BINARY = {"+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||"}
_UNARY = {"+", "-", "~", "!"}
_KEYWORDS = {
    *("new", "delete", "throw", "co_await", "co_yield", "co_return", "this", "operator", "asm", "__asm__"),
    *("volatile", "typeid", "noexcept", "alignof", "decltype", "goto", "return", "requires"),
}

#: Half-open, of tokens.
Span = tuple[int, int]
#: Functions by name: the places of their parameters that are sizes, from 0.
Passed = Mapping[str, frozenset[int]]


class _ImpureError(Exception):
    """What stands here may be more than a size."""


class _Parser:
    """Recognises a list of expressions without effects; raises `_ImpureError` at whatever else there is."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens, self.at = tokens, 0
        self.calls: Counter[str] = Counter()

    @property
    def word(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        word = self.word
        if not word or (expected and word != expected):
            raise _ImpureError
        self.at += 1
        return word

    def items(self, end: str) -> None:
        """Expressions between commas, up to `end`, which is taken; "" for the end of the tokens."""
        while self.word != end:
            self.item()
            if self.word == end:
                break
            self.take(",")
        if end:
            self.take(end)
        elif self.word:
            raise _ImpureError

    def item(self) -> None:
        if self.word == "{":
            self.take()
            self.items("}")
        else:
            self.expression()

    def expression(self) -> None:
        self.unary()
        while self.word in _BINARY:
            self.take()
            self.unary()
        if self.word == "?":
            self.take()
            self.expression()
            self.take(":")
            self.expression()

    def unary(self) -> None:
        while self.word in _UNARY or self._cast():
            if self.word in _UNARY:
                self.take()
        self.primary()

    def _cast(self) -> bool:
        """Take `(int)` and its like."""
        if self.word != "(":
            return False
        end = closing(self.tokens, self.at)
        inside = self.tokens[self.at + 1 : end]
        if not inside or not all(word in _INTEGRAL or word == "const" for word in inside):
            return False
        self.at = end + 1
        return True

    def primary(self) -> None:
        start = self.at
        if _NUMBER.fullmatch(self.word):
            self.take()
        elif self.word == "(":
            self.take()
            self.expression()
            self.take(")")
        elif self.word == "sizeof":
            self._sizeof()
        elif self.word.startswith('"'):
            # as `atoi("64")`: what was said before may stay
            self.calls[self.take()] += 1
        else:
            self._named()
        while self.word in (".", "->", "["):
            if self.take() == "[":
                self.expression()
                self.take("]")
                # as `argv[2]`: what a subscript does is its type's own affair, so no other may come
                self.calls["".join(self.tokens[start : self.at])] += 1
            else:
                self._named(member=True)

    def _sizeof(self) -> None:
        self.take()
        if self.word != "(":
            raise _ImpureError
        end = closing(self.tokens, self.at)
        inside = self.tokens[self.at + 1 : end]
        if not all(
            _NAME.fullmatch(w) or w in ("::", "<", ">", "*", ",") or _NUMBER.fullmatch(w) for w in inside
        ):
            raise _ImpureError
        self.at = end + 1

    def _named(self, *, member: bool = False) -> None:
        name = "::" if self.word == "::" and self.take() else ""
        while True:
            if not _NAME.fullmatch(self.word) or self.word in _KEYWORDS:
                raise _ImpureError
            name += self.take()
            if self.word != "::":
                break
            name += self.take()
        name = name.removeprefix("::")
        if self.word == "<" and (name in ("static_cast", "std::max", "std::min", "max", "min")):
            after = after_angle(self.tokens, self.at)
            if not all(word in _INTEGRAL or word in "<>" for word in self.tokens[self.at : after]):
                raise _ImpureError
            self.at = after
        if self.word in ("(", "{"):
            end = ")" if self.take() == "(" else "}"
            if member or name not in _EVIDENT:
                self.calls[f".{name}" if member else name] += 1
            self.items(end)


def why_no_size(tokens: Sequence[str], before: Sequence[str]) -> str:
    """Why these tokens are more than sizes; "" if they are not.

    A function that is not known to be without effect may be called as often as in `before`, the size that stood
    here.
    """
    known = _Parser(before)
    try:
        known.items("")
    except _ImpureError:
        known.calls.clear()
    parser = _Parser(tokens)
    try:
        parser.items("")
    except _ImpureError:
        return f"at {parser.word or 'its end'}"
    more = parser.calls - known.calls
    if not more:
        return ""
    one = next(iter(more)).removeprefix(".")
    return f"it says {one}" if one.startswith('"') or one.endswith("]") else f"it calls {one}"


def sizes_in(tokens: Sequence[str], constants: set[str], passed: Passed) -> list[Span]:
    """Where a host declaration holds sizes, outermost ones, in order. `constants`: names of shared constants."""
    tokens = list(tokens)
    found = [*_configurations(tokens, constants), *_arguments(tokens), *_assigned(tokens)]
    found += _passed(tokens, passed)
    declared = list(_variables(tokens))
    uses: dict[str, list[int]] = {}
    names = {name for name, _, _ in declared}
    for index, word in enumerate(tokens):
        if word in names:
            uses.setdefault(word, []).append(index)
    changed = True
    while changed:
        changed = False
        inside = covered(found, len(tokens))
        for name, at, span in declared:
            # a name that is declared twice is not followed
            twice = sum(other == name for other, _, _ in declared) > 1
            used = [index for index in uses.get(name, ()) if index != at]
            if twice or span in found or not all(inside[index] for index in used):
                continue
            found.append(span)
            changed = True
    return _outermost(found)


def is_size_type(words: Sequence[str]) -> bool:
    """Whether these words name a type whose values may be sizes, passed by value."""
    known = set(words)
    return known <= _INTEGRAL | _QUALIFIERS and bool(known & (_INTEGRAL - {"std", "::"}))


def covered(spans: Sequence[Span], count: int) -> list[bool]:
    """For each of `count` tokens whether a span covers it."""
    inside = [False] * count
    for start, end in spans:
        inside[start:end] = [True] * (end - start)
    return inside


def _outermost(spans: Sequence[Span]) -> list[Span]:
    kept: list[Span] = []
    for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept


def arguments_of(tokens: Sequence[str], opening: int) -> list[Span]:
    """The arguments between the bracket at `opening` and its end."""
    end, start, index = closing(tokens, opening), opening + 1, opening + 1
    found: list[Span] = []
    while index < end:
        if tokens[index] in "([{":
            index = closing(tokens, index)
        elif tokens[index] == ",":
            found.append((start, index))
            start = index + 1
        index += 1
    return [*found, (start, end)] if end > opening + 1 else found


def _configurations(tokens: Sequence[str], constants: set[str]) -> Iterator[Span]:
    for index, word in enumerate(tokens):
        if word == _LAUNCH and tokens[index + 1] == "(":
            given = arguments_of(tokens, index + 1)
            if given:
                yield given[0][0], given[min(len(given), 3) - 1][1]
            end = closing(tokens, index + 1)
            # `) ? (void)0 : name< …> (`
            called = end + 7
            if tokens[end + 1 : called] == [")", "?", "(", "void", ")", "0"]:
                yield from _numbers_of_template(tokens, called + 1, constants)
        elif word in ("cudaFuncSetAttribute", "cudaFuncSetCacheConfig") and tokens[index + 1] == "(":
            yield from _numbers_of_template(tokens, index + 2, constants)


def _numbers_of_template(tokens: Sequence[str], start: int, constants: set[str]) -> Iterator[Span]:
    """Template arguments that are numbers, of the name at `start`."""
    while start < len(tokens) and (_NAME.fullmatch(tokens[start]) or tokens[start] in ("::", "(")):
        start += 1
    if start >= len(tokens) or tokens[start] != "<":
        return
    end, begin = after_angle(tokens, start) - 1, start + 1
    for index in range(begin, end + 1):
        if index == end or tokens[index] == ",":
            words = tokens[begin:index]
            if any(_INTEGER.fullmatch(w) or w in constants or w in ("true", "false") for w in words):
                yield begin, index
            begin = index + 1


def _arguments(tokens: Sequence[str]) -> Iterator[Span]:
    for index, word in enumerate(tokens):
        if word not in _CALLS or index + 1 >= len(tokens) or tokens[index + 1] not in ("(", "<"):
            continue
        opening = index + 1 if tokens[index + 1] == "(" else after_angle(tokens, index + 1)
        if opening >= len(tokens) or tokens[opening] != "(":
            continue
        places, only = _CALLS[word]
        given = arguments_of(tokens, opening)
        if only is not None:
            at = given[only[0]] if only[0] < len(given) else (0, 0)
            if tokens[at[0] : at[1]] != [only[1]]:
                continue
        yield from (given[place] for place in places if place < len(given))


def _passed(tokens: Sequence[str], passed: Passed) -> Iterator[Span]:
    """What a host declaration passes for such parameters."""
    for index in range(1, len(tokens) - 1):
        word = tokens[index]
        if word not in passed or tokens[index + 1] != "(" or tokens[index - 1] in (".", "->", "::"):
            continue
        # a name that is something else here, too, is not followed
        if any(tokens[i] == word and tokens[i + 1] != "(" for i in range(len(tokens) - 1)):
            continue
        given = arguments_of(tokens, index + 1)
        yield from (given[place] for place in passed[word] if place < len(given))


def _assigned(tokens: Sequence[str]) -> Iterator[Span]:
    """`configuration.gridDim = …;`"""
    for index in range(1, len(tokens) - 2):
        if tokens[index] in _FIELDS and tokens[index - 1] in (".", "->") and tokens[index + 1] == "=":
            end = next((i for i in range(index, len(tokens)) if tokens[i] == ";"), None)
            if end is not None:
                yield index + 2, end
        # cudafe++ puts what is assigned to into brackets: `(c.gridDim) = …;`
        if tokens[index : index + 2] == [")", "="] and tokens[index - 1] in _FIELDS:
            end = next((i for i in range(index, len(tokens)) if tokens[i] == ";"), None)
            if end is not None:
                yield index + 2, end


def _variables(tokens: Sequence[str]) -> Iterator[tuple[str, int, Span]]:
    """Local variables that are declared with a size: name, where it stands, and what it is initialised with."""
    if tokens[-1] != "}":
        return  # no function
    members = covered(list(_classes(tokens)), len(tokens))
    for index in range(1, len(tokens)):
        if tokens[index - 1] not in ("{", "}", ";") or members[index]:
            continue
        at = index
        words = []
        while at < len(tokens) and (tokens[at] in _INTEGRAL or tokens[at] in _QUALIFIERS):
            words.append(tokens[at])
            at += 1
        if not words or "static" in words or not (set(words) - _QUALIFIERS or "auto" in words):
            continue
        yield from _declarators(tokens, at)


def _classes(tokens: Sequence[str]) -> Iterator[Span]:
    """The bodies of classes: what is declared there is no local variable."""
    for index, word in enumerate(tokens):
        if word not in ("struct", "class", "union"):
            continue
        end = next((i for i in range(index, len(tokens)) if tokens[i] in "{;()="), None)
        if end is not None and tokens[end] == "{":
            yield end, closing(tokens, end)


def _declarators(tokens: Sequence[str], at: int) -> Iterator[tuple[str, int, Span]]:
    while at + 1 < len(tokens) and _NAME.fullmatch(tokens[at]):
        name, place, after = tokens[at], at, tokens[at + 1]
        if after in ("(", "{"):
            end = closing(tokens, at + 1)
            yield name, place, (at + 2, end)
            end += 1
        elif after == "=":
            end = at + 2
            while end < len(tokens) and tokens[end] not in (",", ";"):
                end = closing(tokens, end) + 1 if tokens[end] in "([{" else end + 1
            yield name, place, (at + 2, end)
        else:
            return
        if end >= len(tokens) or tokens[end] != ",":
            return
        at = end + 1
