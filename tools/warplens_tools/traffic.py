"""Bytes of device memory a kernel's SASS asks for, for one warp, joined with what the source says of addresses.

An access is *compulsory* traffic when its address changes with every loop around it that changes any
global address, and with every thread and block index that any global address of the kernel depends on:
then no two executions touch the same element. Otherwise a cache may serve it. What the source does not
tell counts in the upper figure only.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.launches import block_extents
from warplens_tools.micro.base import KernelView
from warplens_tools.sass.attribution import kernel_line
from warplens_tools.sass.pipes import access_bytes, is_load, is_store, space_of
from warplens_tools.source.accesses import ArrayAccess, accesses
from warplens_tools.source.constants import UNKNOWN_DIM3
from warplens_tools.source.tree import parse_tree


class Traffic(msgspec.Struct, frozen=True):
    """Weighted bytes of global traffic of one warp: compulsory, and as if nothing were cached."""

    lower: float
    upper: float
    #: Whether it is known of every access which of the two it belongs to.
    known: bool


def global_traffic(compiled: CompiledKernel, weights: Sequence[float], view: KernelView) -> Traffic:
    """Global-memory bytes of one warp's pass through a compiled kernel."""
    by_line = _global_accesses(view)
    varying = _varying(by_line)
    lower = upper = 0.0
    known = True
    for instruction, weight in zip(compiled.instructions, weights, strict=True):
        if space_of(instruction) != "global":
            continue
        line = kernel_line(instruction, view.model.path, view.kernel)
        group = [a for a in by_line.get(line or 0, ()) if _matches(a, instruction)]
        states = {is_compulsory(a, varying) for a in group}
        size = view.gpu.limits.warp_size * access_bytes(instruction) * weight
        upper += size
        lower += size if states == {True} else 0.0
        known = known and bool(states) and None not in states
    return Traffic(lower, upper, known)


def dram_floor(compiled: CompiledKernel, weights: Sequence[float], view: KernelView) -> dict[str, float]:
    """Clocks of an SM's share of the DRAM roof for the compulsory traffic of one warp, as {"dram": clocks}."""
    traffic = global_traffic(compiled, weights, view)
    return {"dram": traffic.lower / dram_bytes_per_clock(view.gpu)}


def dram_bytes_per_clock(gpu: Gpu) -> float:
    """One SM's share of the DRAM roof, in bytes per SM clock."""
    return gpu.ceilings["dram"].value / gpu.clock_hz / gpu.multiprocessors


def is_compulsory(access: ArrayAccess, varying: frozenset[str]) -> bool | None:
    """Whether no two executions of the access touch the same element; None where that is not known.

    `varying` are the thread and block indices that global addresses of the kernel depend on.
    """
    if access.index is None:
        return None
    needed = varying | {loop.counter or loop.variable for loop in access.loops if loop.variable}
    if any(not loop.variable for loop in access.loops):
        return None
    return all(access.index.mentions(name) for name in needed)


def _global_accesses(view: KernelView) -> dict[int, list[ArrayAccess]]:
    extents = block_extents(view.kernel, view.model) or UNKNOWN_DIM3
    by_line: dict[int, list[ArrayAccess]] = {}
    for access in accesses(parse_tree(view.text), view.kernel, extents):
        if access.space == "global":
            by_line.setdefault(access.span.line, []).append(access)
    return by_line


def _varying(by_line: dict[int, list[ArrayAccess]]) -> frozenset[str]:
    return frozenset(
        symbol.name
        for group in by_line.values()
        for access in group
        if access.index is not None
        for symbol in access.index.symbols
        if symbol.kind in ("thread", "block")
    )


def _matches(access: ArrayAccess, instruction: Instruction) -> bool:
    return (
        access.atomic or (is_load(instruction) and access.reads) or (is_store(instruction) and access.writes)
    )
