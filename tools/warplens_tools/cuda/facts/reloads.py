# SPDX-License-Identifier: Apache-2.0
"""Loads and stores that a loop repeats because two pointers might name the same element."""

from __future__ import annotations

import re

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.model import Kernel, Parameter
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.loop_headers import Loop

#: What makes the store visible to other threads at each iteration: it must then be done there.
_PUBLISHES = re.compile(r"__sync|__threadfence|atomic|barrier|\bvolatile\b")
_BYTES = frozenset({"char", "unsigned char", "signed char", "uchar", "std::byte", "uint8_t", "int8_t"})
_SCALAR = re.compile(r"(?:unsigned |signed )?(?:short|int|long long|long|float|double)\d?|__half2?|half2?")


class Reload(msgspec.Struct, frozen=True):
    """A load that reads one place in every iteration of `loop`, and the stores that prevent hoisting it."""

    load: ArrayAccess
    stores: tuple[ArrayAccess, ...]
    loop: Loop


class Accumulation(msgspec.Struct, frozen=True):
    """An element that is updated in memory in every iteration of `loop`, and the loads that prevent a register."""

    store: ArrayAccess
    loads: tuple[ArrayAccess, ...]
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


def accumulations(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[Accumulation, ...]:
    """Elements that `__restrict__` would let the compiler keep in a register until the loop ends, as `y[i]` in
    `for (…) y[i] += w[k] * x[i + k];`.

    The element is read and written through a pointer parameter, at an index that the innermost loop does not
    change, by one statement form only; a load in that loop goes through another pointer parameter whose type may
    alias; neither pointer is `__restrict__`, and nothing in the loop shows the element to other threads.
    """
    every = accesses(tree, kernel, block)
    found = []
    for store in every:
        if not store.loops or not store.writes or store.atomic or not _is_invariant(store, store.loops[-1]):
            continue
        loads = _loads_in_the_way(store, every)
        if loads and not _PUBLISHES.search(tree.text.slice(store.loops[-1].span)):
            found.append(Accumulation(store, loads, store.loops[-1]))
    return tuple(found)


def _loads_in_the_way(store: ArrayAccess, every: tuple[ArrayAccess, ...]) -> tuple[ArrayAccess, ...]:
    offset = store.loops[-1].offset
    inside = [a for a in every if a.reads and any(around.offset == offset for around in a.loops)]
    own = [a for a in inside if a.name == store.name]
    if not own or any((a.indices, a.member) != (store.indices, store.member) for a in own):
        return ()
    return tuple(
        load
        for load in inside
        if load.name != store.name
        and isinstance(load.declared, Parameter)
        and not load.declared.restrict
        and may_alias(load.element_type, store.element_type)
    )


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
