# SPDX-License-Identifier: Apache-2.0
"""What threads of several blocks do in one place of global memory, by PTX: what only a run of bad luck shows wrong.

Two threads that add to one place without an atomic operation lose one of both where they come at once; what another
block wrote may not be seen without a fence, nor ever through the read-only cache. Most runs give what is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import COMMENT, FROM_FLOAT, Flow, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

_FENCE = re.compile(r"\b(?:membar\.(?:gl|sys)|fence(?:\.\w+)*\.(?:gpu|sys)|barrier\.cluster)\b")
#: What orders what a thread wrote and reads by itself.
_ORDERED = re.compile(
    r"\b(?:atom|red|ld|st)(?:\.\w+)*\.(?:acquire|release|acq_rel)\b|\b(?:ld|st)\.(?:acquire|release)\b"
)

_CHANCE = "a run shows it by chance alone"
_ATOMIC_SHARED = re.compile(r"\b(?:atom|red)(?:\.\w+)*\.shared\b")
#: An access to shared memory, and the register of its place.
_SHARED = re.compile(r"\b(ld|st)(?:\.\w+)*\.shared(?:\.\w+)*\s+[^\[;]*\[(%r\d+)")
#: What is added by atomic operations on 32 bits, and a unit of each part of a word.
_ADDED = re.compile(r"\b(?:atom|red)(?:\.\w+)*\.add\.[us]32\s+[^;]*,\s*(%?\w+);")
_COUNTS = re.compile(r"\.(?:add|inc|dec)\b")
_PARTS = frozenset({"256", "65536", "16777216"})


class Between(msgspec.Struct, frozen=True):
    """Of one kernel, pointers among its parameters by number."""

    #: Read through the read-only cache, read otherwise, and written in any way.
    cached: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    #: Changed by atomic operations.
    atomic: frozenset[str] = frozenset()
    #: Counted up, or down, by atomic operations.
    counted: frozenset[str] = frozenset()
    #: Read and written where loaded numbers, or floats, lead.
    led: frozenset[str] = frozenset()
    #: Whether it changes shared memory by atomic operations, and whether it reads and writes it where its inputs lead.
    atomic_shared: bool = False
    led_shared: bool = False
    #: Whether it adds to a part of a word, which then holds several numbers of fewer bits.
    packs: bool = False
    #: Whether it orders what blocks see of one another.
    fenced: bool = False


def between_in(ptx: str) -> dict[str, Between]:
    """Of each kernel of a unit, by the name that it has whatever the unit; nothing where none touches global memory."""
    text = COMMENT.sub(" ", ptx)
    fenced = bool(_FENCE.search(text) or _ORDERED.search(text))
    several = text.count(".entry") > 1 or ".func" in text
    found = {}
    for name, flow in kernels_of(ptx):
        body = _body(text, name) if several else text
        found[unit_free_name(name)] = _of(
            flow, body, fenced and bool(_FENCE.search(body) or _ORDERED.search(body))
        )
    return found


def unseen(baseline: Mapping[str, Between], candidate: Mapping[str, Between]) -> str:
    """What a candidate leaves to chance that the baseline does not; "" if nothing is known to be."""
    for name, new in candidate.items():
        known = baseline.get(name)
        if known is None:
            continue
        cached = (new.cached & new.written) - (known.cached & known.written)
        if cached:
            where = f"behind parameter {int(min(cached)) + 1}"
            return f"the edit reads {where} through the read-only cache, and writes there: {_CHANCE}"
        if known.fenced and not new.fenced and new.atomic and new.read & new.written:
            why = "the edit has no fence where the kernel has one between what blocks write and others read"
            return f"{why}: {_CHANCE}"
        if known.atomic_shared and not new.atomic_shared and new.led_shared and not known.led_shared:
            why = "the edit adds to shared memory where its inputs lead, the kernel by atomic operations"
            return f"{why}: {_CHANCE}"
        if new.packs and not known.packs:
            why = "the edit counts several numbers in one word, the kernel each in its own"
            return f"{why}: more than this run has may overflow"
        looked = known.counted & new.counted & (new.read | new.cached) - known.read - known.cached
        if looked:
            where = f"behind parameter {int(min(looked)) + 1}"
            return f"the edit looks at what blocks are counting up {where}, the kernel does not: {_CHANCE}"
        lost = (known.atomic & new.led) - new.atomic - known.led
        if lost:
            where = f"places behind parameter {int(min(lost)) + 1} that its inputs lead to"
            return f"the edit adds to {where}, the kernel by atomic operations: {_CHANCE}"
    return ""


def _body(text: str, kernel: str) -> str:
    head = re.search(rf"\.entry\s+{re.escape(kernel)}\b", text)
    if head is None:
        return ""
    end = text.find(".entry", head.end())
    return text[head.end() : end if end > 0 else None]


def _of(flow: Flow, body: str, fenced: bool) -> Between:
    cached, read, written, atomic, counted = (set[str]() for _ in range(5))
    led_reads, led_writes = set[str](), set[str]()
    for name, place in flow.accessed:
        bases = flow.bases(place)
        if name.startswith(("atom", "red.")):
            if ".shared" not in name:
                atomic |= bases
                counted |= bases if _COUNTS.search(name) else set()
            continue
        stores = name.startswith("st.")
        (written if stores else cached if ".nc" in name else read).update(bases)
        if _is_led(flow, place):
            (led_writes if stores else led_reads).update(bases)
    return Between(
        frozenset(cached),
        frozenset(read),
        frozenset(written | atomic),
        frozenset(atomic),
        frozenset(counted),
        frozenset(led_reads & led_writes),
        _ATOMIC_SHARED.search(body) is not None,
        any(_is_led(flow, place) for place in _in_shared(body, "ld") & _in_shared(body, "st")),
        any(_is_part(flow, operand) for operand in _ADDED.findall(body)),
        fenced,
    )


def _in_shared(body: str, what: str) -> set[str]:
    return {register for does, register in _SHARED.findall(body) if does == what}


def _is_part(flow: Flow, operand: str) -> bool:
    """Whether what is added to 32 bits leaves the lowest ones as they are."""
    if operand in _PARTS:
        return True
    steps = flow.steps.get(operand, ())
    return any(
        (step.name.startswith(("selp", "mov")) and _PARTS & {s.lstrip("#") for s in step.sources})
        or (step.name.startswith("shl.b32") and step.sources[1:] in (("#8",), ("#16",), ("#24",)))
        for step in steps
    )


def _is_led(flow: Flow, place: str) -> bool:
    """Whether an address is worked out from what was loaded, or from floats."""
    steps = (step for register in flow.closure({place}) for step in flow.steps.get(register, ()))
    return any(step.place or FROM_FLOAT.match(step.name) for step in steps)
