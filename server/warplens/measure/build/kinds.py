# SPDX-License-Identifier: Apache-2.0
"""Of which declarations it is known, from their tokens alone, that they make the host do nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens.measure.build.host_tokens import (
    Declaration,
    after_angle,
    after_template,
    closing,
    declarations,
)
from warplens.measure.build.sizes import why_no_size

_NAME = re.compile(r"[A-Za-z_]\w*")
_DIAGNOSTIC = re.compile(r'#pragma GCC diagnostic (?:push|pop|ignored "-W[a-z-]+")\s*')
#: Attributes that change neither when code runs nor what a name stands for.
_HARMLESS = {
    *(
        "unused",
        "visibility",
        "hidden",
        "default",
        "always_inline",
        "noinline",
        "aligned",
        "deprecated",
        "const",
    ),
    *(
        "pure",
        "nothrow",
        "warn_unused_result",
        "maybe_unused",
        "nodiscard",
        "__unused__",
        "__always_inline__",
    ),
    *("__noinline__", "__aligned__", "sizeof", "packed", "flatten", "cold", "hot", "__nothrow__", "noreturn"),
}
_ATTRIBUTE = ("__attribute__", "__attribute")
_TYPES = ("struct", "class", "union", "enum")
_FORBIDDEN = {"asm", "__asm__", "__asm", "thread_local", "__thread", "friend", "virtual", "operator"}
_STUB = ("{", "int", "volatile", "___", "=", "1", ";")
_CONSTRUCTED = "{ int * volatile ___ = 0 ; :: free ( ___ ) ; }"
_PLAIN = {
    *(
        "const",
        "static",
        "unsigned",
        "signed",
        "int",
        "long",
        "short",
        "char",
        "float",
        "double",
        "bool",
        "extern",
    ),
    *("volatile", "size_t", "::", "*", "__restrict__", "constexpr", "inline"),
}
_VECTOR = re.compile(
    r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|dim3|u?int\d+_t|(?:__)?(?:nv_)?(?:half|bfloat16)[12]?"
    r"|__nv_bfloat162?|uint|half2?|std"
)


def kind_of(declaration: Declaration) -> str:
    """`pragma`, `stub`, `kernel`, `prototype`, `constant`, `shadow`, `type`, `name`; "host" for all else."""
    tokens = declaration.tokens
    if tokens[0].startswith("#"):
        return "pragma" if _DIAGNOSTIC.fullmatch(tokens[0]) else "host"
    if tokens == (";",):
        return "name"
    if _odd_attribute(tokens):
        return "host"
    named = _naming(tokens)
    if named:
        return named
    at = after_template(tokens, 0)
    while at < len(tokens) and tokens[at] in _ATTRIBUTE:
        at = closing(tokens, at + 1) + 1
    if at < len(tokens) and tokens[at] in _TYPES and "{" in tokens and tokens[-1] == ";":
        return "type" if _is_plain_type(tokens, at) else "host"
    if _FORBIDDEN & set(_before_body(tokens)) - {"operator"}:
        return "host"
    return _function(tokens) or _variable(tokens) or "host"


def _naming(tokens: Sequence[str]) -> str:
    first = tokens[after_template(tokens, 0)] if after_template(tokens, 0) < len(tokens) else ""
    if first in ("using", "static_assert") or first == "namespace":
        return "name" if "{" not in tokens else ""
    if first == "typedef" and "{" not in tokens:
        return "name"
    if first in _TYPES and not {"{", "(", "="} & set(tokens):
        return "name"
    return ""


def _odd_attribute(tokens: Sequence[str]) -> bool:
    for index, word in enumerate(tokens):
        if word in _ATTRIBUTE:
            inside = tokens[index + 1 : closing(tokens, index + 1)]
            if any(_NAME.fullmatch(name) and name not in _HARMLESS for name in inside):
                return True
        if word == "[" and tokens[index + 1 : index + 2] == ("[",):
            inside = tokens[index + 1 : closing(tokens, index)]
            if any(_NAME.fullmatch(name) and name not in _HARMLESS for name in inside):
                return True
    return False


def _before_body(tokens: Sequence[str]) -> Sequence[str]:
    return tokens[: tokens.index("{")] if "{" in tokens else tokens


def _function(tokens: Sequence[str]) -> str:
    """What kind of function without effect this is."""
    if tokens[-1] == ";":
        # a body, or a value, is none of a declaration's
        plain = "(" in tokens and not {"{", "="} & set(_outside_brackets(tokens))
        return "prototype" if plain and tokens[-2] not in ("delete", "default") else ""
    if tokens[-1] != "}":
        return ""
    start = _body(tokens)
    if start < 0 or "(" not in tokens[:start]:
        return ""
    body, head = tuple(tokens[start:]), tokens[:start]
    if _is_stub(body):
        return "stub" if _initialises_plainly(head) else ""
    if _is_launch_stub(head, body):
        return "kernel"
    return ""


def _outside_brackets(tokens: Sequence[str]) -> list[str]:
    found, index = [], after_template(tokens, 0)
    while index < len(tokens):
        found.append(tokens[index])
        index = closing(tokens, index) + 1 if tokens[index] in "([" else index + 1
    return found


def _body(tokens: Sequence[str]) -> int:
    """Where the last block at the outermost level begins."""
    index, last = 0, -1
    while index < len(tokens):
        if tokens[index] in "([{":
            last = index if tokens[index] == "{" else last
            index = closing(tokens, index)
        index += 1
    return last


def _is_stub(body: Sequence[str]) -> bool:
    """cudafe++'s body for a device function: it names the parameters and ends the process."""
    if " ".join(body) == _CONSTRUCTED:
        return True
    if tuple(body[: len(_STUB)]) != _STUB:
        return False
    rest = list(body[len(_STUB) :])
    while rest[:3] == ["(", "void", ")"] and rest[4:5] == [";"] and _NAME.fullmatch(rest[3]):
        rest = rest[5:]
    return rest == ["::", "exit", "(", "___", ")", ";", "}"]


def _is_launch_stub(head: Sequence[str], body: Sequence[str]) -> bool:
    """cudafe++'s two functions for a kernel's template."""
    name = next((head[i - 1] for i in range(after_template(head, 0), len(head)) if head[i] == "("), "")
    if name.startswith("__wrapper__device_stub_"):
        return " ".join(body) == "{ :: cudaLaunchKernel ( 0 , 0 , 0 , 0 , 0 , 0 ) ; }"
    if body[1] != f"__wrapper__device_stub_{name}":
        return False
    rest = list(body[2:])
    at = after_angle(rest, 0) if rest[:1] == ["<"] else 0
    if rest[at : at + 1] != ["("]:
        return False
    end = closing(rest, at)
    passed = all(_NAME.fullmatch(word) or word in (",", "...") for word in rest[at + 1 : end])
    return passed and rest[end + 1 :] == [";", "return", ";", "}"]


def _initialises_plainly(head: Sequence[str]) -> bool:
    """Whether a constructor's members, if it is one, are initialised with sizes, and defaults are sizes."""
    index = after_template(head, 0)
    while index < len(head):
        if head[index] == ":" and head[index - 1] in (")", "noexcept"):
            break
        if head[index] in "([":
            index = closing(head, index)
        index += 1
    rest = list(head[index + 1 :])
    while rest:
        opening = next((i for i, word in enumerate(rest) if word in "({"), None)
        if opening is None:
            return False
        end = closing(rest, opening)
        if why_no_size(rest[opening + 1 : end], ()):
            return False
        rest = rest[end + 1 :]
        rest = rest[1:] if rest[:1] == [","] else rest
    return True


def _variable(tokens: Sequence[str]) -> str:
    """A constant with a plain value, or the shadow of a device variable."""
    if tokens[-1] != ";":
        return ""
    parts = declarators(tokens)
    if len(parts) > 1:
        # `constexpr int kWide = 32, kHigh = 8;` is two constants, and a shadow is declared alone
        return "constant" if all(_variable(part) == "constant" for part in parts) else ""
    at = after_template(tokens, 0)
    head = _without_attributes(tokens[at:-1])
    equals = next((i for i, word in enumerate(head) if word in ("=", "{")), len(head))
    names, value = head[:equals], head[equals:]
    if not _has_plain_type(names):
        return ""
    if not value:
        return "shadow" if "extern" not in names and "constexpr" not in names else ""
    value = value[1:] if value[0] == "=" else value
    constant = "constexpr" in names or ("const" in names and "*" not in names)
    return "constant" if constant and not why_no_size(value, ()) else ""


def declarators(tokens: Sequence[str]) -> list[list[str]]:
    """A declaration of several variables with values, taken apart into one for each; else itself."""
    first = next((i for i, word in enumerate(tokens) if word in ("=", "{", "[", "(", ",")), len(tokens))
    if first < 2 or first >= len(tokens) or tokens[first] not in ("=", "{", "["):
        return [list(tokens)]
    kind, pieces, at = list(tokens[: first - 1]), [], first - 1
    index = at
    while index < len(tokens):
        if tokens[index] in ("(", "[", "{"):
            index = closing(tokens, index)
        elif tokens[index] in (",", ";"):
            pieces.append([*kind, *tokens[at:index], ";"])
            at = index + 1
        index += 1
    return pieces


def _without_attributes(tokens: Sequence[str]) -> list[str]:
    found, index = [], 0
    while index < len(tokens):
        if tokens[index] in _ATTRIBUTE:
            index = closing(tokens, index + 1) + 1
            continue
        found.append(tokens[index])
        index += 1
    return found


def _has_plain_type(names: Sequence[str]) -> bool:
    """A type that the language or the toolkit defines, a name, and extents."""
    index, words = 0, []
    while index < len(names):
        if names[index] == "[":
            end = closing(names, index)
            if why_no_size(names[index + 1 : end], ()):
                return False
            index = end + 1
            continue
        words.append(names[index])
        index += 1
    if len(words) < 2 or not _NAME.fullmatch(words[-1]):
        return False
    return all(word in _PLAIN or _VECTOR.fullmatch(word) for word in words[:-1])


def _is_plain_type(tokens: Sequence[str], at: int) -> bool:
    """Whether nothing in a class or enumeration can run on the host, and nothing is made of it."""
    opening = tokens.index("{", at)
    end = closing(tokens, opening)
    if end + 2 != len(tokens):
        return False
    inside = tokens[opening + 1 : end]
    if tokens[at] == "enum":
        return not why_no_size([word for word in inside if word != "="], ()) or _enumerators(inside)
    return all(_is_plain_member(member) for member in declarations(_without_labels(inside)))


def _enumerators(inside: Sequence[str]) -> bool:
    return all(
        _NAME.fullmatch(w) or w[0].isdigit() or w in {",", "=", "+", "-", "*", "(", ")", "<<"} for w in inside
    )


def _without_labels(inside: Sequence[str]) -> list[str]:
    found: list[str] = []
    index = 0
    while index < len(inside):
        if inside[index] in ("public", "private", "protected") and inside[index + 1 : index + 2] == (":",):
            index += 2
            continue
        found.append(inside[index])
        index += 1
    return found


def _is_plain_member(member: Declaration) -> bool:
    tokens = member.tokens
    if {"friend", "virtual", "asm", "__asm__", "thread_local"} & set(tokens):
        return False
    kind = kind_of(member)
    if kind != "host":
        return kind != "shadow" or "static" not in tokens
    at = next((i for i, word in enumerate(tokens) if word in ("=", "{")), len(tokens) - 1)
    if "static" in tokens or tokens[-1] != ";" or "(" in _outside_template(tokens[:at]):
        return tokens[-3:] in (("=", "default", ";"), ("=", "delete", ";"))
    # a member of any type, with a plain value at most
    value = tokens[at + 1 : -1] if tokens[at] == "=" else tokens[at:-1]
    return not why_no_size(value, ())


def _outside_template(tokens: Sequence[str]) -> Sequence[str]:
    return tokens[after_template(tokens, 0) :]


def names_of(declaration: Declaration, kind: str) -> set[str]:
    """The names that a declaration gives a meaning."""
    tokens = _without_attributes(declaration.tokens)
    at = after_template(tokens, 0)
    if kind == "type":
        return _type_names(tokens, at)
    if kind in ("stub", "kernel", "prototype"):
        opening = next((i for i in range(at, len(tokens)) if tokens[i] == "("), 0)
        return {tokens[opening - 1].removeprefix("__wrapper__device_stub_")} if opening else set()
    if kind in ("constant", "shadow"):
        return {
            part[next((i for i, w in enumerate(part) if w in ("=", "{", "[", ";") and i), len(part)) - 1]
            for part in declarators(tokens)
        }
    if kind == "name" and tokens[at : at + 1] not in (["static_assert"], [";"]):
        if tokens[at] == "using" and "=" not in tokens:
            return set()
        word = tokens[at + 1] if tokens[at] in ("using", "namespace", *_TYPES) else tokens[-2]
        return {word} if _NAME.fullmatch(word) else set()
    return set()


def _type_names(tokens: Sequence[str], at: int) -> set[str]:
    opening = tokens.index("{", at)
    head = [word for word in tokens[at + 1 : opening] if _NAME.fullmatch(word)]
    names = {next((word for word in head if word not in ("class", "struct", "alignas")), "")} - {""}
    if tokens[at] == "enum":
        names |= {word for word in tokens[opening:] if _NAME.fullmatch(word)}
    return names
