# SPDX-License-Identifier: Apache-2.0
"""Ranks and sizes of cooperative groups as forms over threads and blocks.

A block's rank is its linear thread index, a tile's that index modulo the tile's size, a grid's counts the blocks before
it too (CUDA C++ Programming Guide, "Cooperative Groups"). Groups that data divides have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.constants import Constants, Dim3
from warplens_tools.cuda.values.forms import Form, Symbol

_CALL = re.compile(r"(?P<group>.+?)\s*\.\s*(?P<member>\w+)\s*\(\s*\)", re.DOTALL)
_SIMPLE = re.compile(r"[A-Za-z_]\w*|(?:\w+::)*this_(?:thread_block|grid)\s*\(\s*\)")
_TILE = re.compile(r"\b(?:thread_block_tile|tiled_partition)\s*<\s*([^,<>]+?)\s*[,>]")
_TILED_AT_RUN_TIME = re.compile(r"\btiled_partition\s*\(\s*[^,()]*(?:\(\s*\))?\s*,\s*([^,()]+)\)")
_BUILTINS = {
    "thread_index": "threadIdx",
    "group_index": "blockIdx",
    "group_dim": "blockDim",
    "dim_threads": "blockDim",
}
_RANKS = {"thread_rank": "rank", "size": "size", "num_threads": "size", "meta_group_rank": "which"}

#: Characters before a use in which a group's declaration is looked for.
_REACH = 20_000

_Kind = Literal["block", "tile", "grid"]


class Group(msgspec.Struct, frozen=True):
    """A group of threads that does not depend on data: a block, tiles of a block, or the grid."""

    kind: _Kind
    #: Threads of a tile; 0 of a block or a grid.
    threads: int = 0


def builtin_path(code: str, constants: Constants, at: int) -> str:
    """`threadIdx.x` for `cta.thread_index().x` of a block; "" for anything else."""
    call, _, axis = code.rpartition(".")
    found = _CALL.fullmatch(call.strip())
    name = _BUILTINS.get(found["member"]) if found is not None else None
    group = _group(found["group"], constants, at) if found is not None and name is not None else None
    return f"{name}.{axis.strip()}" if group is not None and group.kind == "block" else ""


def rank_or_size(code: str, constants: Constants, at: int, block: Dim3) -> Form | None:
    """The form of a call such as `tile.thread_rank()`; None for anything else, and for groups that data divides."""
    found = _CALL.fullmatch(code.strip())
    asked = _RANKS.get(found["member"]) if found is not None else None
    group = _group(found["group"], constants, at) if found is not None and asked is not None else None
    if group is None or asked is None:
        return None
    return _ANSWERS[asked](group, block)


def is_rank(code: str) -> bool:
    """Whether an expression is the rank of a thread in some group, whatever that is."""
    found = _CALL.fullmatch(code.strip())
    return found is not None and found["member"] == "thread_rank"


def _group(written: str, constants: Constants, at: int) -> Group | None:
    text = "".join(written.split())
    if not _SIMPLE.fullmatch(text):
        return None
    if text.isidentifier():
        text = _declaration(text, constants, at)
    return _told(text, constants, at)


def _declaration(name: str, constants: Constants, at: int) -> str:
    """What declares a group; the grammar takes `cg::thread_block_tile<32> t = …;` for comparisons and an assignment."""
    binding, code = constants.binding(name, at), constants.tree.masked.code
    if binding is not None:
        start, end = binding.declaration
        return code[start:end].decode("ascii")
    before = code[max(0, at - _REACH) : at].decode("ascii")
    found = re.findall(rf"[^;{{}}]*>\s*{name}\s*[=({{][^;]*;", before)
    return found[-1] if found else ""


def _told(text: str, constants: Constants, at: int) -> Group | None:
    tile = _TILE.search(text) or _TILED_AT_RUN_TIME.search(text)
    if tile is not None:
        threads = constants.value(tile[1], at)
        return Group("tile", threads) if threads else None
    if "grid_group" in text or "this_grid" in text:
        return Group("grid")
    return Group("block") if re.search(r"\b(?:thread_block|this_thread_block)\b", text) else None


def _builtin(name: str, axis: int, kind: forms.Kind, block: Dim3) -> Form:
    known = block[axis] if name == "blockDim" else None
    if known is not None:
        return forms.number(known)
    return forms.variable(Symbol(f"{name}.{'xyz'[axis]}", kind))


def _linear(index: str, kind: forms.Kind, size: str, size_kind: forms.Kind, block: Dim3) -> Form | None:
    """index.x + size.x * (index.y + size.y * index.z), without the axes along which the block is known to be one."""
    found: Form | None = forms.ZERO
    for axis in (2, 1, 0):
        extent = _builtin(size, axis, size_kind, block)
        found = forms.multiply(extent, found) if found is not None else None
        if found is not None and extent.value != 1:
            found = forms.add(found, _builtin(index, axis, kind, block))
    return found


def _threads(block: Dim3) -> Form | None:
    found: Form | None = forms.ONE
    for axis in range(3):
        found = (
            forms.multiply(found, _builtin("blockDim", axis, "block size", block))
            if found is not None
            else None
        )
    return found


def _rank(group: Group, block: Dim3) -> Form | None:
    inside = _linear("threadIdx", "thread", "blockDim", "block size", block)
    if inside is None or group.kind == "block":
        return inside
    if group.kind == "tile":
        return forms.combine("%", inside, forms.number(group.threads))
    before, each = _linear("blockIdx", "block", "gridDim", "grid size", block), _threads(block)
    first = forms.multiply(before, each) if before is not None and each is not None else None
    return forms.add(first, inside) if first is not None else None


def _size(group: Group, block: Dim3) -> Form | None:
    if group.kind == "tile":
        return forms.number(group.threads)
    found = _threads(block)
    for axis in range(3) if group.kind == "grid" else ():
        extent = _builtin("gridDim", axis, "grid size", block)
        found = forms.multiply(found, extent) if found is not None else None
    return found


def _which(group: Group, block: Dim3) -> Form | None:
    inside = _linear("threadIdx", "thread", "blockDim", "block size", block)
    if inside is None or group.kind != "tile":
        return None
    return forms.combine("/", inside, forms.number(group.threads))


_ANSWERS: dict[str, Callable[[Group, Dim3], Form | None]] = {"rank": _rank, "size": _size, "which": _which}
