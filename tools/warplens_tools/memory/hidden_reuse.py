# SPDX-License-Identifier: Apache-2.0
"""Global loads that many threads of a block make alike, as only SASS tells: no form of their index is in the source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warplens_tools.evidence import CompiledKernel
from warplens_tools.launches import block_threads
from warplens_tools.memory.address_evidence import patterns_of
from warplens_tools.sass.addresses import AddressPattern
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import is_load, space_of
from warplens_tools.view import KernelView

_CONSTANT = re.compile(r"(?:^| \+ )(-?\d+)(?= \+ |$)")


def hidden_rereads(view: KernelView, compiled: CompiledKernel) -> Mapping[int, int]:
    """Loads of the deepest loop that loads, to the threads of a block that read the same element; empty if one is
    not known, or read by its own thread alone.

    An address without the lane is one for the whole warp; one without the warp's number is the same for all warps;
    addresses that differ by constants below a warp's row are read by as many neighbours.
    """
    flow = analyse(compiled.instructions)
    loads = [i for i, x in enumerate(compiled.instructions) if space_of(x) == "global" and is_load(x)]
    deepest = max((flow.depths[i] for i in loads), default=0)
    patterns = {p.index: p for p in patterns_of(view, compiled)} if deepest else {}
    inner = [i for i in loads if flow.depths[i] == deepest and i in patterns]
    threads = block_threads(view.kernel, view.model, compiled)
    if not inner or threads is None or not all(patterns[i].form for i in inner):
        return {}
    neighbours = _neighbours([patterns[i] for i in inner])
    times = {i: _times(patterns[i], neighbours, threads) for i in inner}
    return times if min(times.values()) > 1 else {}


def _times(pattern: AddressPattern, neighbours: Mapping[str, int], threads: int) -> int:
    warps = -(-threads // 32)
    lanes = 32 if "lane" not in pattern.form else 1
    same = warps if "warp." not in pattern.form and lanes == 1 else 1
    return max(lanes * same, neighbours.get(_moving(pattern), 1))


def _neighbours(patterns: list[AddressPattern]) -> dict[str, int]:
    """Different constants of otherwise equal addresses that lie within a warp's row."""
    found: dict[str, set[int]] = {}
    for p in patterns:
        if p.stride == p.width:
            found.setdefault(_moving(p), set()).add(sum(int(c) for c in _CONSTANT.findall(p.form)))
    row = {p.width for p in patterns}
    reach = 32 * max(row, default=4)
    return {form: len(at) for form, at in found.items() if max(at) - min(at) <= reach}


def _moving(pattern: AddressPattern) -> str:
    """The address without its constant."""
    return " ".join(_CONSTANT.sub("", pattern.form).split())
