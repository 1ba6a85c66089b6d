# SPDX-License-Identifier: Apache-2.0
"""Where the host memory behind a name comes from: pageable, pinned, or not told by the file."""

from __future__ import annotations

import functools
import re
from typing import Literal

import msgspec

from warplens_tools.cuda.syntax.lexical import split_arguments

Memory = Literal["pageable", "pinned", "unknown"]

_PATH = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)*")
_CASTS = re.compile(
    r"(?:static_cast|reinterpret_cast|const_cast)\s*<[^<>]*(?:<[^<>]*>)?[^<>]*>|\((?:const\s+)?[\w:]+\s*(?:const\s*)?\*+\)"
)
_READERS = frozenset({"data", "get", "begin", "c_str", "front"})
#: Callers followed from a pointer parameter.
_MAX_DEPTH = 3
_CAST = r"(?:\(\s*[\w:\s]+\*+\s*\)\s*|(?:static|reinterpret)_cast\s*<[^;]*?>\s*\(\s*)?"
#: In the patterns @ stands for the name.
_INDEX = r"(?:\s*\[[^\]]*\])?"
_PINNED = (
    r"\bcuda(?:MallocHost|HostAlloc|HostRegister|MallocManaged)\s*(?:<[^<>;]*>)?\s*\(\s*"
    r"(?:\([^()]*\)\s*)*(?:reinterpret_cast<[^<>]*>\s*\(\s*)?&?\s*(?:[\w.\[\]]+(?:\.|->))?@\b"
)
_PAGEABLE = {
    "malloc": rf"\b@{_INDEX}\s*=\s*{_CAST}(?:std\s*::\s*)?(?:malloc|calloc|realloc|aligned_alloc)\s*\(",
    "posix_memalign": r"\bposix_memalign\s*\([^;]*?&\s*@\b",
    "new": rf"\b@{_INDEX}\s*[=({{]\s*new\b",
    "std::make_unique": r"\b@\s*=\s*(?:std\s*::\s*)?make_unique\s*<",
    "std::unique_ptr": r"\bunique_ptr\s*<[^;{}]*\[\s*\]\s*>\s*&?\s*@\b",
    "std::array": r"\b(?:std\s*::\s*array|valarray)\s*<[^;{}()]*>\s*&?\s*@\b",
}
_VECTOR = (
    r"\b(?P<kind>(?:std\s*::\s*|thrust\s*::\s*host_)vector)\s*<(?P<held>[^;{}()]*)>\s*(?:const\s*)?[&*]?\s*"
    r"(?:\w+\s*(?:\([^()]*\)|\{[^{}]*\}|\[[^\]]*\])?\s*,\s*)*@\b"
)
_AUTO_VECTOR = r"\bauto\s+@\s*=\s*std\s*::\s*vector\s*<(?P<held>[^;{}()]*)>"
_ELEMENT_OF = r"\bfor\s*\([^;()]*[\s&*]@\s*:\s*(?P<whole>[\w.]+)\s*\)"


class Origin(msgspec.Struct, frozen=True):
    """What is known of host memory: its kind, and what gave it, e.g. "malloc" or "std::vector"."""

    memory: Memory
    source: str = ""


UNKNOWN = Origin("unknown")


def root_of(pointer: str) -> str:
    """The variable that a pointer expression starts from: "frames" of `frames.data() + i * n`; "" if none."""
    found = _PATH.search(_CASTS.sub(" ", pointer).lstrip("(& "))
    if found is None:
        return ""
    parts = re.split(r"\.|->|::", found[0])
    while len(parts) > 1 and parts[-1] in _READERS:
        parts.pop()
    return parts[-1]


@functools.lru_cache(maxsize=128)
def origin_of(code: str, pointer: str, depth: int = 0) -> Origin:
    """Where the host memory of a pointer expression comes from.

    Args:
        code: the host functions around, without comments. A name that is pinned anywhere in it counts as pinned.
    """
    name = root_of(pointer)
    if not name or depth > _MAX_DEPTH:
        return UNKNOWN
    word = re.escape(name)
    if re.search(_PINNED.replace("@", word), code):
        return Origin("pinned", "page-locked")
    for source, pattern in _PAGEABLE.items():
        if re.search(pattern.replace("@", word), code):
            return Origin("pageable", source)
    vector = re.search(_VECTOR.replace("@", word), code) or re.search(_AUTO_VECTOR.replace("@", word), code)
    if vector is not None:
        return _vector(vector["held"], "thrust" if "thrust" in vector[0] else "std", pointer)
    element = re.search(_ELEMENT_OF.replace("@", word), code)
    if element is not None:
        return origin_of(code, f"{element['whole']}.data()", depth + 1)
    return _passed(code, name, depth)


def _vector(held: str, library: str, pointer: str) -> Origin:
    """Elements of a standard vector are pageable, unless an allocator is named or they are pointers themselves."""
    pointers = "*" in held and "[" in pointer
    if re.search(r"alloc|pinned|page_?locked", held, re.IGNORECASE) or pointers:
        return UNKNOWN
    return Origin("pageable", "std::vector" if library == "std" else "thrust::host_vector")


def _passed(code: str, name: str, depth: int) -> Origin:
    """What every call in the file hands to the pointer parameter of that name."""
    signature = (
        rf"\b(\w+)\s*\(([^(){{}};]*[*&]\s*(?:__restrict__\s+)?{re.escape(name)}\s*(?:,[^(){{}};]*)?)\)\s*\{{"
    )
    defined = re.search(signature, code)
    if defined is None:
        return UNKNOWN
    position = next(
        i
        for i, p in enumerate(split_arguments(defined[2]))
        if re.search(rf"\b{re.escape(name)}\s*$", p.strip())
    )
    calls = re.finditer(rf"\b{defined[1]}\s*\(([^;{{}}]*)\)\s*;", code)
    given = [arguments[position] for c in calls if len(arguments := split_arguments(c[1])) > position]
    origins = [origin_of(code, pointer, depth + 1) for pointer in given if root_of(pointer) != name]
    return origins[0] if len({o.memory for o in origins}) == 1 else UNKNOWN
