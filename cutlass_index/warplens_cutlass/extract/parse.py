# SPDX-License-Identifier: Apache-2.0
"""Parses a file with the grammar that reads it better, and walks the tree cheaply."""

from __future__ import annotations

import functools
import re

import msgspec
import tree_sitter_cpp
import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Tree

from warplens_tools.cuda.syntax.mask import first_branches, mask_library

#: tree-sitter's own stack is a heap, but a walk and the scanner degrade on such files; the deepest
#: nesting in CUTLASS 4.2 is 31.
MAX_BRACKET_DEPTH = 400
#: Share of a file in ERROR nodes from which its `#if` ladders are cut to one branch.
_BADLY_READ = 0.02
#: A macro that stands alone on a line without a semicolon, such as `FIELD(part1, bias)`: it makes whole members.
_BARE_MACRO = re.compile(rb"^[ \t]*[A-Z][A-Z0-9_]{2,}[ \t]*\([^()\n;{}]*\)[ \t]*$", re.M)


class Parsed(msgspec.Struct, frozen=True):
    """A syntax tree of masked bytes; offsets hold for `source` too."""

    tree: Tree
    source: bytes
    grammar: str
    error_bytes: int


@functools.cache
def _parser(grammar: str) -> Parser:
    package = tree_sitter_cuda if grammar == "cuda" else tree_sitter_cpp
    return Parser(Language(package.language()))


def parse(source: bytes) -> Parsed:
    """Parse after masking. tree-sitter-cuda first; where it errs, tree-sitter-cpp when that errs less.

    On CUTLASS 4.2 this leaves fewer error bytes than either grammar alone. What is still badly read is
    read once more with one branch of each `#if` ladder and without macros that stand for whole members.
    """
    masked = mask_library(source)
    best = _parse("cuda", masked, source)
    if best.error_bytes:
        best = min(best, _parse("cpp", masked, source), key=lambda p: p.error_bytes)
    if best.error_bytes > _BADLY_READ * len(source):
        plain = first_branches(masked)
        for text in (plain, _BARE_MACRO.sub(_blank, plain)):
            best = min(best, _parse("cuda", text, source), key=lambda p: p.error_bytes)
    return best


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


def _parse(grammar: str, masked: bytes, source: bytes) -> Parsed:
    tree = _parser(grammar).parse(masked)
    return Parsed(tree, source, grammar, error_bytes(tree.root_node))


def error_bytes(root: Node) -> int:
    """Bytes covered by ERROR nodes."""
    total = 0
    stack = [root] if root.has_error else []
    while stack:
        node = stack.pop()
        if node.is_error:
            total += node.end_byte - node.start_byte
        else:
            stack.extend(child for child in node.children if child.has_error)
    return total


def too_deep(source: bytes) -> bool:
    """Whether brackets nest deeper than `MAX_BRACKET_DEPTH`."""
    depth = 0
    for byte in source.translate(None, delete=_NOT_BRACKETS):
        depth += 1 if byte in b"([{" else -1
        if depth > MAX_BRACKET_DEPTH:
            return True
        depth = max(depth, 0)
    return False


_NOT_BRACKETS = bytes(b for b in range(256) if b not in b"()[]{}")
