# SPDX-License-Identifier: Apache-2.0
"""What functions of one text can see of one another, as a key: while it is the same, so is all that was read of a
function whose own text is the same.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.syntax.definitions import digest
from warplens_tools.cuda.syntax.functions import Function, functions_of
from warplens_tools.cuda.syntax.tree import SourceTree

#: A body with one of these counts as a whole: it may declare what others see, or launch; and so does one `return`.
_SEEN = ("using", "struct", "class", "union", "enum", "typedef", "<<<", "cudaLaunch", "hipLaunch")
_ONE_RETURN = re.compile(r"\{\s*return\b")


def surface_of(tree: SourceTree) -> bytes:
    """A digest of the macros, of the declarations, and of the functions without their bodies."""
    return tree.remembered("surface", lambda: _digest(tree, hosts=False))


def host_surface_of(tree: SourceTree) -> bytes:
    """The same with the bodies of host functions: what a launch may rest on outside the kernels."""
    return tree.remembered("host surface", lambda: _digest(tree, hosts=True))


def _digest(tree: SourceTree, *, hosts: bool) -> bytes:
    source, at, pieces = tree.masked.source, 0, []
    for function in functions_of(tree):
        start, end = function.body.start_byte, function.body.end_byte
        if start >= at and not (hosts and _is_host(function)) and not _is_seen(source[start:end]):
            pieces.append(source[at:start])
            at = end
    pieces.append(source[at:])
    macros = sorted((n, m.parameters, m.body, m.name_start < 0) for n, m in tree.macros.by_name.items())
    return digest(
        *(" ".join(piece.split()) for piece in pieces), str(macros), str(sorted(tree.macros.ambiguous))
    )


def _is_host(function: Function) -> bool:
    return not (function.is_kernel or function.is_device)


def _is_seen(body: str) -> bool:
    return _ONE_RETURN.match(body) is not None or any(word in body for word in _SEEN)
