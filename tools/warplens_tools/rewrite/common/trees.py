# SPDX-License-Identifier: Apache-2.0
"""Reduction trees in shared memory: a loop over strides in which threads join two elements."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import View, squeezed

_TYPES = frozenset({"float", "double", "int", "unsigned int", "unsigned", "long long", "unsigned long long"})


class Tree(msgspec.Struct, frozen=True):
    """`for (s = …; …) { if (…) a[t] = a[t] + a[t + s]; barrier; }`."""

    loop: Node
    stride: str
    thread: str
    array: str
    #: The statement that joins `{value}` and `{other}`.
    pattern: str

    @property
    def adds(self) -> bool:
        """Whether it sums up; it finds a minimum or maximum otherwise."""
        return "+=" in self.pattern

    def joined(self, value: str, other: str) -> str:
        """The statement that joins another value into one."""
        return self.pattern.replace("{value}", value).replace("{other}", other)


def read_join(loop: Node, stride: str, thread: str, code: str, place: str = "") -> Tree | None:
    """The tree of a loop that joins by this code, given without white space; None where it is none.

    `place` is the index of the element that a thread joins into, the thread's own where it is "".
    """
    at, s = re.escape(place or thread), re.escape(stride)
    array = re.match(rf"(?:if\()?(\w+)\[{at}\]", code) or re.search(rf"(\w+)\[{at}\]", code)
    if array is None:
        return None
    own, other = rf"{array[1]}\[{at}\]", rf"{array[1]}\[(?:{at}\+{s}|{s}\+{at})\]"
    either = rf"(?:{own},{other}|{other},{own})"
    patterns = {
        rf"{own}(?:\+={other}|={own}\+{other}|={other}\+{own});": "{value} += {other};",
        rf"{own}=(max|min|fmaxf?|fminf?)\({either}\);": "{value} = {call}({value}, {other});",
        rf"if\({own}<{other}\){own}={other};": "{value} = max({value}, {other});",
        rf"if\({own}>{other}\){own}={other};": "{value} = min({value}, {other});",
    }
    for pattern, joined in patterns.items():
        found = re.fullmatch(pattern, code)
        if found is not None:
            call = found[1] if found.groups() else ""
            return Tree(loop, stride, thread, array[1], joined.replace("{call}", call))
    return None


def element_type(view: View, tree: Tree) -> str:
    """The type of a tree's elements as it is written."""
    return next((a.element_type for a in view.kernel.arrays if a.name == tree.array), "")


def check_tree(view: View, tree: Tree, trees: list[Tree]) -> None:
    """That the array is shared and of a type that can be shuffled, and that only its first element is read later.

    Raises:
        Refused: one of that is not so.
    """
    declared = [a for a in view.kernel.arrays if a.name == tree.array and a.space == "shared"]
    if (
        len(declared) != 1
        or view.concrete(declared[0].element_type) not in _TYPES
        or len(declared[0].extents) > 1
    ):
        raise Refused(f"{tree.array} is no shared array of numbers")
    named = re.search(rf"\b{re.escape(tree.thread)}\s*=\s*threadIdx\s*\.\s*x\s*[;,]", view.code(view.body))
    if named is None and tree.thread != "threadIdx.x":
        raise Refused(f"{tree.thread} is not known to be the thread's number in its block")
    loop = tree.loop.parent
    while loop is not None and loop.start_byte >= view.body.start_byte:
        if loop.type in ("for_statement", "while_statement", "do_statement", "if_statement"):
            raise Refused("the tree stands in a loop or under a condition")
        loop = loop.parent
    if re.search(r"\b(?:blockDim\s*\.\s*[yz]|threadIdx\s*\.\s*[yz])", view.code(view.body)):
        raise Refused("its blocks have two dimensions")
    later = min(
        (t.loop.start_byte for t in trees if t.loop.start_byte > tree.loop.start_byte),
        default=view.body.end_byte,
    )
    rest = view.tree.masked.code[tree.loop.end_byte : later].decode("ascii")
    read = re.findall(rf"\b{tree.array}\b\s*(\[[^\]]*\])?", rest)
    written = re.search(rf"\b{tree.array}\s*\[[^\]]*\]\s*=(?!=)", rest)
    before = rest[: written.start()] if written is not None else rest
    if any(
        squeezed(r) != "[0]"
        for r in (re.findall(rf"\b{tree.array}\b\s*(\[[^\]]*\])?", before) if written else read)
    ):
        raise Refused(f"more than the first element of {tree.array} is read afterwards")
