# SPDX-License-Identifier: Apache-2.0
"""C++ names: demangled in full, and qualified without template arguments.

Demangling is libstdc++'s own `__cxa_demangle`, called in-process (microseconds a name). Where there is
no libstdc++ the qualified name is read from the mangled one directly.
"""

from __future__ import annotations

import ctypes
import functools
import re

_ANONYMOUS = "(anonymous namespace)"
#: nvcc renames what is static in a relocatable unit: __nv_static_<length>_<id of that length>_<name>.
_STATIC = re.compile(r"__nv_static_(\d+)_")


@functools.cache
def _library() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    try:
        cxx, c = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
    except OSError:
        return None
    cxx.__cxa_demangle.restype = ctypes.c_void_p
    cxx.__cxa_demangle.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_int),
    ]
    c.free.argtypes = [ctypes.c_void_p]
    return cxx, c


def without_static(name: str) -> str:
    """The name that nvcc put its mark of a static function or variable before; others as they are."""
    match = _STATIC.match(name)
    if match is None:
        return name
    rest = name[match.end() + int(match[1]) :]
    if rest.startswith("_") and len(rest) > 1:
        return rest[1:]
    # a mark of another make: what looks like a mangled name is one
    at = name.find("__Z", match.end())
    return name[at + 1 :] if at >= 0 else name


@functools.lru_cache(maxsize=4096)
def demangle(name: str) -> str:
    """The name as written in C++ with template arguments and parameters; `name` itself if not mangled."""
    mangled = without_static(name)
    if not mangled.startswith("_Z"):
        return mangled
    library = _library()
    if library is None:
        return parse_qualified(mangled) or name
    cxx, c = library
    status = ctypes.c_int()
    text = cxx.__cxa_demangle(mangled.encode(), None, None, ctypes.byref(status))
    if not text:
        return parse_qualified(mangled) or name
    try:
        return (ctypes.string_at(text)).decode("utf-8", errors="replace")
    finally:
        c.free(text)


@functools.lru_cache(maxsize=4096)
def qualified_name(mangled: str) -> str:
    """The name without return type, parameters and template arguments, e.g. "ns::scale".

    Instantiations of one template share it. Anonymous namespaces are "(anonymous namespace)".
    """
    return strip_signature(demangle(mangled))


def strip_signature(demangled: str) -> str:
    """The qualified name inside a demangled signature."""
    text = _without_template_arguments(demangled)
    text = re.sub(r"\[abi:\w+\]", "", text).replace(_ANONYMOUS, "\0")
    text = text.split("(", 1)[0].strip()
    return text.rsplit(" ", 1)[-1].replace("\0", _ANONYMOUS) or demangled


def _without_template_arguments(text: str) -> str:
    kept: list[str] = []
    depth = 0
    for index, char in enumerate(text):
        if char == "<" and not text[:index].endswith(("operator", "operator<")):
            depth += 1
        elif char == ">" and depth and text[index - 1 : index] != "-":
            depth -= 1
        elif depth == 0:
            kept.append(char)
    return "".join(kept)


def parse_qualified(mangled: str) -> str:
    """The qualified name read from an Itanium-mangled one; "" where its form is not a plain name."""
    match = re.match(r"_Z(N[rVKRO]*)?", mangled)
    if match is None:
        return ""
    parts: list[str] = []
    at = match.end()
    while at < len(mangled):
        digits = re.compile(r"\d+").match(mangled, at)
        if digits:
            start, length = digits.end(), int(digits[0])
            parts.append(_plain_part(mangled[start : start + length]))
            at = start + length
        elif mangled[at] == "I":
            at = _skip_arguments(mangled, at)
        elif mangled.startswith("L", at):
            at += 1
        else:
            break
        if match[1] is None and parts and not mangled.startswith("I", at):
            break
    return "::".join(parts)


def _plain_part(name: str) -> str:
    return _ANONYMOUS if re.match(r"_GLOBAL_[._$]N", name) else name


def _skip_arguments(text: str, at: int) -> int:
    """The index behind a template-argument list that starts at `at`."""
    depth = 0
    while at < len(text):
        digits = re.compile(r"\d+").match(text, at)
        if text[at] == "L":
            # A literal: L <type> <value> E; its digits are a value, not the length of a name.
            literal = re.compile(r"L(?:[a-z]|\d+)(?:n?\d*)E|L_Z").match(text, at)
            at = literal.end() if literal and literal[0].endswith("E") else at + 1
            depth += 0 if literal and literal[0].endswith("E") else 1
        elif digits:
            at = digits.end() + int(digits[0])
        elif text[at] in "INJXF":
            depth += 1
            at += 1
        elif text[at] == "S" and re.compile(r"S[0-9A-Z]*_").match(text, at):
            at = text.index("_", at) + 1
        elif text[at] in "ST":
            at += 2
        elif text[at] == "E":
            depth -= 1
            at += 1
            if depth == 0:
                return at
        else:
            at += 1
    return at
