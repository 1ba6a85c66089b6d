# SPDX-License-Identifier: Apache-2.0
"""How much a kernel reads and writes at once behind each pointer, and which blocks it knows apart, by its PTX.

What is read sixteen bytes at once lies at a multiple of sixteen: buffers do, places within them need not.
"""

from __future__ import annotations

import re

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, flow_of

_VECTOR = re.compile(r"\.v([248])\b")
_BITS = re.compile(r"\.[bsuf](8|16|32|64|128)\b")
_AXIS = re.compile(r"%ctaid\.([xyz])")
#: What masks an address where it is asked how it is aligned.
_REMAINDERS = frozenset({"#1", "#3", "#7", "#15", "#31", "#63", "#127"})


class Accesses(msgspec.Struct, frozen=True):
    """Of one kernel, by parameter: the most bytes at once; and those that are asked how they are aligned."""

    widest: dict[int, int] = {}
    guarded: frozenset[int] = frozenset()


def accesses_of(ptx: str, kernel: str) -> Accesses:
    """Of a kernel by its mangled name; nothing where the PTX does not have it."""
    flow = flow_of(ptx, kernel)
    if flow is None:
        return Accesses()
    widest: dict[int, int] = {}
    for name, place in flow.accessed:
        bits, many = _BITS.findall(name), _VECTOR.search(name)
        size = int(bits[-1]) // 8 * (int(many[1]) if many else 1) if bits else 0
        for base in flow.bases(place):
            widest[int(base)] = max(widest.get(int(base), 0), size)
    return Accesses(widest, _guarded(flow))


def _guarded(flow: Flow) -> frozenset[int]:
    found: set[str] = set()
    for steps in flow.steps.values():
        for step in steps:
            if step.name.startswith("and.b") and _REMAINDERS & set(step.sources):
                found |= {leaf for source in step.sources for leaf in flow.leaves.get(source, ())}
    return frozenset(int(leaf) for leaf in found & flow.wide_parameters)


def axes_of(ptx: str, kernel: str) -> frozenset[str]:
    """The axes along which a kernel asks for its block's number; none where the PTX does not have it."""
    head = re.search(rf"\.entry\s+{re.escape(kernel)}\b", ptx)
    if head is None:
        return frozenset()
    end = ptx.find(".entry", head.end())
    return frozenset(_AXIS.findall(ptx[head.end() : end if end > 0 else None]))
