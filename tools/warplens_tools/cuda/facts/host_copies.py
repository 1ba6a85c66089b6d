# SPDX-License-Identifier: Apache-2.0
"""Copies between host and device in host code: direction, stream, the loop around, the host memory used."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from warplens_tools.cuda.facts.host_loops import (
    HostCall,
    HostLoop,
    calls_near,
    changed_in,
    host_calls,
    host_scope,
    loop_around,
)
from warplens_tools.cuda.model import LaunchSite, SourceModel
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import constants_of
from warplens_tools.text import Span

#: Copy to its kind's place among the arguments; target and source are first and second, or third in 2D forms.
_KIND_AT = {"cudaMemcpy": 3, "cudaMemcpyAsync": 3, "cudaMemcpy2D": 6, "cudaMemcpy2DAsync": 6}


class HostCopy(msgspec.Struct, frozen=True):
    """One copy between host and device."""

    call: HostCall
    #: "in": to the device; "out": to the host.
    direction: Literal["in", "out"]
    #: The host's pointer as written.
    host: str
    origin: Origin
    #: "" for the default stream and for blocking copies.
    stream: str
    #: The size as written, and in bytes where constants give it.
    size: str
    bytes: int | None
    #: The innermost loop around it, or around the calls of its function.
    loop: HostLoop | None
    #: The host's pointer moves on with the loop.
    moves: bool

    @property
    def asynchronous(self) -> bool:
        """Whether the call is meant to return before the copy is done."""
        return self.call.name.endswith("Async")


def host_copies(tree: SourceTree, near: Iterable[Span] | None = None) -> tuple[HostCopy, ...]:
    """Every copy whose direction the call says, in text order.

    With `near` only those that may share a loop or a function with one of these stretches of host code: a file has
    many functions, and a kernel is launched in few.
    """
    calls = host_calls(tree) if near is None else calls_near(tree, near)
    read = (copy_of(tree, call) for call in calls)
    return tuple(copy for copy in read if copy is not None)


def copy_of(tree: SourceTree, call: HostCall) -> HostCopy | None:
    """The copy that a call makes; None where it makes none, or does not say its direction."""
    if call.name not in _KIND_AT:
        return None
    return tree.remembered(("copy", call.span), lambda: _copy(tree, call))


def _copy(tree: SourceTree, call: HostCall) -> HostCopy | None:
    arguments = [a.strip() for a in split_arguments(call.arguments)]
    at = _KIND_AT[call.name]
    if len(arguments) <= at:
        return None
    kind = arguments[at].rsplit("::", 1)[-1]
    if kind not in ("cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost"):
        return None
    inward = kind == "cudaMemcpyHostToDevice"
    flat = at == 3
    host = arguments[(1 if flat else 2) if inward else 0]
    loop = loop_around(tree, call.span)
    size = arguments[2] if flat else f"{arguments[4]} * {arguments[5]}"
    start = tree.text.offset(call.span.line, call.span.column)
    return HostCopy(
        call=call,
        direction="in" if inward else "out",
        host=host,
        origin=origin_of(host_scope(tree, call.span), host),
        stream=plain_stream(arguments[at + 1] if len(arguments) > at + 1 else ""),
        size=size,
        bytes=constants_of(tree).value(size, start),
        loop=loop,
        moves=loop is not None and _moves(tree, loop, host),
    )


def _moves(tree: SourceTree, loop: HostLoop, host: str) -> bool:
    """Whether a pointer as written goes on with the loop; the address of a variable stays."""
    stays = re.fullmatch(r"(?:\([\w\s*]+\)\s*)?&\s*\w+", host)
    return not stays and bool(changed_names(tree, loop) & set(re.findall(r"[A-Za-z_]\w*", host)))


def plain_stream(text: str) -> str:
    """A stream as written; "" for the default stream."""
    return "" if text in ("0", "nullptr", "NULL", "cudaStreamLegacy", "cudaStreamDefault") else text


def changed_names(tree: SourceTree, loop: HostLoop) -> frozenset[str]:
    """Names that a loop gives another value in each iteration."""
    return changed_in(tree.masked.source[_offset(tree, loop.span) : _offset(tree, loop.span, end=True)])


def _offset(tree: SourceTree, span: Span, *, end: bool = False) -> int:
    return (
        tree.text.offset(span.end_line, span.end_column) if end else tree.text.offset(span.line, span.column)
    )


def idle_waits(tree: SourceTree, loop: HostLoop) -> tuple[HostCall, ...]:
    """The loop's waits for work of the same iteration: copies that bring results, else calls that only wait.

    A wait for a stream or event that the loop takes in turn is for an older iteration; a copy of the part that
    the iteration worked on is work itself.
    """
    changed = changed_names(tree, loop)
    found = tuple(
        wait
        for wait in loop.waits
        if not ((copy := copy_of(tree, wait)) is not None and copy.moves)
        and not (wait.name != "cudaMemcpy" and changed & set(re.findall(r"[A-Za-z_]\w*", wait.arguments)))
    )
    # Nothing is gained by taking away a wait before one that must stay.
    return tuple(wait for wait in found if wait.name == "cudaMemcpy") or found


def launch_beside(tree: SourceTree, model: SourceModel, copy: HostCopy) -> LaunchSite | None:
    """The launch that the copy serves: in the same loop, else in the same function; the next one for a copy in.

    None where there is none: what a launch elsewhere makes of the copy is not known.
    """
    node = tree.function_at(_offset(tree, copy.call.span), _offset(tree, copy.call.span, end=True))
    around = [copy.loop.span] if copy.loop is not None else []
    around += [tree.span(node)] if node is not None else []
    for span in around:
        inside = [site for site in model.launches if span.contains(site.span)]
        after = [site for site in inside if site.span > copy.call.span]
        if inside:
            return (
                after[0] if copy.direction == "in" and after else inside[-1 if copy.direction == "out" else 0]
            )
    return None


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
