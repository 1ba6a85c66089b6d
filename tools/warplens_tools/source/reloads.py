"""Loads that a loop repeats because a store in it might change what they read."""

from __future__ import annotations

import re

import msgspec

from warplens_tools.source.accesses import ArrayAccess, accesses
from warplens_tools.source.affine import Loop
from warplens_tools.source.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.source.model import Kernel, Parameter
from warplens_tools.source.tree import SourceTree

_BYTES = frozenset({"char", "unsigned char", "signed char", "uchar", "std::byte", "uint8_t", "int8_t"})
_SCALAR = re.compile(r"(?:unsigned |signed )?(?:short|int|long long|long|float|double)\d?|__half2?|half2?")


class Reload(msgspec.Struct, frozen=True):
    """A load that reads one place in every iteration of `loop`, and the stores that prevent hoisting it."""

    load: ArrayAccess
    stores: tuple[ArrayAccess, ...]
    loop: Loop


def reloads(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[Reload, ...]:
    """Loads that `__restrict__` would let the compiler keep in a register across a loop.

    The load goes through a pointer parameter, at an index that the innermost loop does not change; a
    store in that loop goes through another pointer parameter whose type may alias; neither pointer is
    `__restrict__`, and nothing in the loop writes through the load's own pointer.
    """
    every = accesses(tree, kernel, block)
    found = []
    for load in every:
        if load.loops and load.reads and not load.writes and _is_invariant(load, load.loops[-1]):
            stores = _stores_in_the_way(load, every)
            if stores:
                found.append(Reload(load, stores, load.loops[-1]))
    return tuple(found)


def _is_invariant(load: ArrayAccess, loop: Loop) -> bool:
    if load.index is None or not isinstance(load.declared, Parameter) or load.declared.restrict:
        return False
    return not any(symbol.name.endswith(f"@{loop.offset}") for symbol in load.index.symbols)


def _stores_in_the_way(load: ArrayAccess, every: tuple[ArrayAccess, ...]) -> tuple[ArrayAccess, ...]:
    loop = load.loops[-1]
    inside = [a for a in every if a.writes and any(around.offset == loop.offset for around in a.loops)]
    if any(store.name == load.name for store in inside):
        return ()
    return tuple(
        store
        for store in inside
        if isinstance(store.declared, Parameter)
        and not store.declared.restrict
        and may_alias(load.element_type, store.element_type)
    )


def may_alias(a: str, b: str) -> bool:
    """Whether C++ lets lvalues of these types name the same object; unknown types may."""
    if a in _BYTES or b in _BYTES:
        return True
    if not (_SCALAR.fullmatch(a) and _SCALAR.fullmatch(b)):
        return True
    return _family(a) == _family(b)


def _family(name: str) -> str:
    """A vector type is a struct of its scalar; signedness makes no difference."""
    return re.sub(r"unsigned |signed |\d$", "", name).removeprefix("__")
