# SPDX-License-Identifier: Apache-2.0
"""Copies between host and device in host code: direction, stream, the loop around, the host memory used."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from warplens_tools.cuda.facts.host_loops import (
    HostCall,
    HostLoop,
    changed_in,
    host_calls,
    host_scope,
    loop_around,
)
from warplens_tools.cuda.facts.host_memory import Origin, origin_of
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


def host_copies(tree: SourceTree) -> tuple[HostCopy, ...]:
    """Every copy whose direction the call says, in text order."""
    found: tuple[HostCopy, ...] = tree.remembered("host copies", lambda: tuple(_copies(tree)))
    return found


def _copies(tree: SourceTree) -> list[HostCopy]:
    read = (_copy(tree, call) for call in host_calls(tree) if call.name in _KIND_AT)
    return [copy for copy in read if copy is not None]


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
        moves=loop is not None and bool(changed_names(tree, loop) & set(re.findall(r"[A-Za-z_]\w*", host))),
    )


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
    """The loop's waits for work of the same iteration.

    A wait for a stream or event that the loop takes in turn is for an older iteration; a copy of the part that
    the iteration worked on is work itself.
    """
    changed = changed_names(tree, loop)
    moving = {c.call.span for c in host_copies(tree) if c.moves}
    return tuple(
        wait
        for wait in loop.waits
        if wait.span not in moving
        and not (wait.name != "cudaMemcpy" and changed & set(re.findall(r"[A-Za-z_]\w*", wait.arguments)))
    )


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
