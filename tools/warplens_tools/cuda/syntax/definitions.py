# SPDX-License-Identifier: Apache-2.0
"""A file cut into its definitions, each with the names it declares and uses.

What an analysis of one kernel rests on is found from these (`dependencies`). A part also holds the white
space, comments and directives in front of it, so that the parts cover the file.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
from collections import OrderedDict
from typing import Literal

import msgspec

from warplens_tools.cuda.syntax.functions import Function, functions_of, plain_name
from warplens_tools.cuda.syntax.lexical import defined_in
from warplens_tools.cuda.syntax.tree import SourceTree

#: A member of one letter, as in `threadIdx.x`, is looked up nowhere.
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*|(?<=\.)[A-Za-z_]\w+")
_ONE_RETURN = re.compile(r"\{\s*return\b[^;{}]*;\s*\}\s*\Z")
#: Words that name nothing of the file.
_KEYWORDS = frozenset({
    "alignas", "alignof", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const",
    "const_cast", "constexpr", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast",
    "else", "enum", "explicit", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int",
    "long", "mutable", "namespace", "new", "noexcept", "nullptr", "operator", "private", "protected",
    "public", "register", "reinterpret_cast", "return", "short", "signed", "sizeof", "static",
    "static_assert", "static_cast", "struct", "switch", "template", "this", "throw", "true", "try",
    "typedef", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "std",
    "size_t", "__global__", "__device__", "__host__", "__shared__", "__constant__", "__restrict__",
    "__forceinline__", "__launch_bounds__", "threadIdx", "blockIdx", "blockDim", "gridDim", "dim3",
})  # fmt: skip
_CAPACITY = 512

Kind = Literal["kernel", "device", "host", "other"]


class PartText(msgspec.Struct, frozen=True):
    """What follows from a part's text alone."""

    #: Of the text as written.
    exact: bytes
    #: Of the code, whatever white space and comments it has.
    code: bytes
    #: Of the code that a caller can see: a function without its body, unless that is one `return`.
    header: bytes
    words: frozenset[str]
    header_words: frozenset[str]
    declared: frozenset[str]
    #: It copies between host and device.
    copies: bool


class Part(msgspec.Struct, frozen=True):
    """One definition or declaration of file or namespace scope; offsets are code points."""

    start: int
    end: int
    kind: Kind
    text: PartText
    #: Heads of the namespaces and linkage blocks around it.
    scope: str


class PartTexts:
    """Remembers what was read of a part's text; bounded, oldest go first. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, PartText] = OrderedDict()

    def of(self, written: str, code: str, function: Function | None, body: int) -> PartText:
        """`code` is the masked `written`; `body` where the body of `function` begins in it."""
        key = digest(written, code, "" if function is None else function.header, str(body))
        with self._lock:
            found = self._known.pop(key, None) or _read(key, code, function, body)
            self._known[key] = found
            while len(self._known) > _CAPACITY:
                self._known.popitem(last=False)
        return found


def digest(*texts: str) -> bytes:
    """A digest of texts in order."""
    whole = "\0".join((*texts, ""))
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def words_of(code: str) -> frozenset[str]:
    """The names in masked code that may be declared elsewhere in the file."""
    return frozenset(map(sys.intern, set(_WORD.findall(code)))) - _KEYWORDS


def _read(exact: bytes, code: str, function: Function | None, body: int) -> PartText:
    words = words_of(code)
    if function is None:
        visible, declared = code, words
    else:
        visible = code if _ONE_RETURN.match(code, body) else code[:body]
        named = plain_name(function.name_node.text.decode() if function.name_node.text else "")
        declared = words_of(named.replace("::", " ")) | words_of(
            " ".join(name for name, _ in defined_in(code))
        )
    return PartText(
        exact=exact,
        code=digest(" ".join(code.split())),
        header=digest(" ".join(visible.split())),
        words=words,
        header_words=words_of(visible),
        declared=declared,
        copies="cudaMemcpy" in code,
    )


def parts_of(tree: SourceTree, texts: PartTexts) -> tuple[Part, ...]:
    """The parts of a file, in file order."""
    functions = {f.node.start_byte: f for f in functions_of(tree)}
    cuts = [(leaf.node.end_byte, leaf.scope, leaf.function) for leaf in tree.leaves]
    # A kernel that a macro writes as a whole is blank in the tree.
    cuts += [(use.end, "", None) for use in tree.masked.uses if use.kind == "kernel"]
    parts: list[Part] = []
    at = 0
    for end, scope, node in sorted(cuts, key=lambda cut: cut[0]):
        if end > at:
            function = functions.get(node.start_byte) if node is not None else None
            parts.append(_part(tree, texts, (at, end), scope, function))
            at = end
    if at < len(tree.text.text):
        parts.append(_part(tree, texts, (at, len(tree.text.text)), "", None))
    return tuple(parts)


def _part(
    tree: SourceTree, texts: PartTexts, place: tuple[int, int], scope: str, function: Function | None
) -> Part:
    start, end = place
    body = function.body.start_byte - start if function is not None else 0
    text = texts.of(tree.text.text[start:end], tree.masked.source[start:end], function, body)
    kind: Kind = "other"
    if function is not None:
        kind = "kernel" if function.is_kernel else "device" if function.is_device else "host"
    return Part(start, end, kind, text, scope)
