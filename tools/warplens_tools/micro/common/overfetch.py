# SPDX-License-Identifier: Apache-2.0
"""Why a warp's global accesses move more than its lanes want, and what it would be worth to stop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.cost.waiting import standing_floor
from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3
from warplens_tools.cuda.values.forms import ONE, Form
from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Confidence, Finding, Gain, RelatedSpan, Severity
from warplens_tools.launches import block_extents
from warplens_tools.memory.coalescing import WarpAccess, warp_accesses
from warplens_tools.memory.traffic import dram_floor
from warplens_tools.micro.base import MicroTool
from warplens_tools.sass.attribution import TRIPS_PER_LEVEL, kernel_line, weights
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import space_of
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.text import Span
from warplens_tools.view import KernelView

#: "field": one of the fields of each record. "chunk": each thread walks its own stretch. "read" and
#: "write": neighbouring lanes are far apart for another reason.
Cause = Literal["field", "chunk", "read", "write"]

#: Sectors over the sectors needed from which an access is uncoalesced. Nsight Compute's rule speaks at any
#: excess; 2 leaves out what is one sector too many for lack of alignment (misaligned-access).
REPORTED = 2.0
#: Expected gain below which a finding would only distract: an access in cold code, or served by a cache.
WORTH = 1.1
#: Overfetch from which an access is reported too where its sectors keep the L1 or the L2 this share of the
#: busiest unit's time (Nsight Compute calls a unit busy from 60 % of its peak on).
SCATTERED, NEAR = 4.0, 0.6
#: Bytes between lanes up to which a constant stride counts as a record laid out by hand.
_RECORD_BYTES = 128
_SECTOR_BYTES = 32


def cause_of(warp: WarpAccess) -> Cause | None:
    """Why the access is uncoalesced; None where it is not."""
    access = warp.access
    if warp.overfetch < REPORTED or access.atomic:
        return None
    if _is_chunk(warp):
        # A stretch inside one sector is fetched once and used at once.
        return "chunk" if warp.stride is None or abs(warp.stride) > _SECTOR_BYTES else None
    if _is_field(warp):
        # Where every field is used, the same sectors serve the next access from L1.
        return "field" if warp.dram_sectors * _SECTOR_BYTES >= REPORTED * warp.wanted else None
    return "write" if access.writes and not access.reads else "read"


def _is_chunk(warp: WarpAccess) -> bool:
    """Each lane goes through neighbouring elements, from a start of its own."""
    index, loops = warp.access.index, warp.access.loops
    if warp.rest != "loop" or index is None or not loops:
        return False
    inner = loops[-1]
    starts_apart = inner.first is not None and not inner.first.uniform
    return starts_apart or bool(index.coefficient("threadIdx.x")) or _is_share(index.growth("threadIdx.x"))


def _is_share(apart: Form | None) -> bool:
    """Whether lanes are as far apart as a problem over the number of threads: `n / (gridDim.x * blockDim.x)`."""
    divided = [s for s in (apart.symbols if apart is not None else ()) if s.operation == "/"]
    return any(x.kind == "grid size" for s in divided for x in s.operands[1].symbols)


def _is_field(warp: WarpAccess) -> bool:
    if warp.rest not in ("nobody", "fields") or warp.stride is None:
        return False
    index = warp.access.index
    by_hand = index is not None and bool(index.coefficient("threadIdx.x"))
    apart = abs(warp.stride)
    if apart == warp.element:
        return warp.used < warp.element
    return by_hand and apart <= _RECORD_BYTES


def loaded_stretches(view: KernelView) -> list[ArrayAccess]:
    """Reads `v[j]` in `for (j = start[row]; …; ++j)` where each thread has a row of its own, as in a CSR product."""
    block = block_extents(view.kernel, view.model) or UNKNOWN_DIM3
    every = accesses(parse_tree(view.text), view.kernel, block)
    per_thread = {
        view.text.slice(a.span)
        for a in every
        if a.space == "global" and a.index is not None and a.index.coefficient("threadIdx.x")
    }
    return [a for a in every if a.space == "global" and a.reads and _walks_loaded(view, a, per_thread)]


def _walks_loaded(view: KernelView, access: ArrayAccess, per_thread: set[str]) -> bool:
    loop = access.loops[-1] if access.loops else None
    if loop is None or access.index is not None or access.indices != (loop.variable,) or loop.step != ONE:
        return False
    header = view.text.slice(loop.span).partition(";")[0]
    _, _, first = header.partition("=")
    body = view.text.slice(view.kernel.body)
    named = (
        re.search(rf"\b{re.escape(first.strip())}\s*=\s*([^;,]+)[;,]", body)
        if first.strip().isidentifier()
        else None
    )
    return (named[1] if named else first).strip() in per_thread


def uncoalesced(view: KernelView, cause: Cause) -> list[WarpAccess]:
    """The accesses with that cause that the compiled code still has, most wasteful first."""
    found = [w for w in warp_accesses(view) if cause_of(w) == cause and is_compiled(view, w)]
    return sorted(found, key=lambda w: (-waste(w), w.access.span))


def waste(warp: WarpAccess) -> float:
    """Sectors moved for nothing, with deeper loops before shallower ones."""
    return (warp.sectors - warp.least) * TRIPS_PER_LEVEL ** len(warp.access.loops)


def is_compiled(view: KernelView, warp: WarpAccess) -> bool:
    """Whether SASS, where it is at hand, has global accesses on the line: the compiler may have removed them."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return True
    return any(global_indices_on(view, compiled, line) for line in warp.lines_used)


def sector_gain(view: KernelView, found: Sequence[WarpAccess]) -> Gain | None:
    """Throughput bounds as the accesses are, over the bounds if they were coalesced."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return None
    weight = weights(analyse(compiled.instructions))
    pipes = pipe_cycles(compiled.instructions, weight, view.gpu)
    before = pipes | standing_floor(view, compiled, weight)
    together = [*found, *_alike(view, found)]
    ratio = bound_ratio(before, pipes | standing_floor(view, compiled, weight, _spans(together)))
    return make_gain(ratio, 1.0, max(ratio, *(w.overfetch for w in together)))


def _alike(view: KernelView, found: Sequence[WarpAccess]) -> list[WarpAccess]:
    """Others that lie as far apart along the lanes as one of `found`, in as many loops: what deals the elements anew to
    the threads repairs them too."""
    places = {(growth, len(w.access.loops)) for w in found if (growth := growth_along_lanes(w)) is not None}
    spans = _spans(found)
    return [
        w
        for w in warp_accesses(view)
        if w.access.span not in spans
        and w.overfetch >= REPORTED
        and (growth_along_lanes(w), len(w.access.loops)) in places
    ]


def growth_along_lanes(warp: WarpAccess) -> Form | None:
    """How far apart neighbouring lanes are, in elements as the source spells it; None where it is not told."""
    return warp.access.index.growth("threadIdx.x") if warp.access.index is not None else None


def _is_near(view: KernelView, worst: WarpAccess) -> bool:
    """Whether the caches that a scattered access keeps busy come near the roof: units do not overlap perfectly."""
    compiled = view.evidence.worst
    if compiled is None or worst.overfetch < SCATTERED:
        return False
    weight = weights(analyse(compiled.instructions))
    floor = dram_floor(compiled, weight, view)
    top = max([*pipe_cycles(compiled.instructions, weight, view.gpu).values(), *floor.values()])
    return max(floor["l2"], floor["l1 lines"]) >= NEAR * top


def _spans(found: Iterable[WarpAccess]) -> frozenset[Span]:
    return frozenset(w.access.span for w in found)


def sector_finding(
    view: KernelView,
    tool: MicroTool,
    found: Sequence[WarpAccess],
    message: str,
    guidance: str,
    index_query: str = "",
) -> Finding | None:
    """The finding on the first of `found`; None where removing the cause would not show."""
    gain = sector_gain(view, found)
    worst = found[0]
    if gain is not None and gain.estimate < WORTH and not _is_near(view, worst):
        return None
    known = block_extents(view.kernel, view.model) is not None
    confidence: Confidence = "medium" if gain is None or not known else "high"
    severity: Severity = "information" if gain is None else "warning"
    others = [w for w in found[1:] if w.access.span.line != worst.access.span.line][:4]
    return tool.finding(
        view,
        span=worst.access.span,
        severity=severity,
        confidence=confidence,
        message=message,
        guidance=guidance,
        evidence=observations(view, worst),
        gain=gain,
        related=tuple(RelatedSpan(w.access.span, f"{w.sectors} sectors a request here too") for w in others),
        index_query=index_query,
    )


def observations(view: KernelView, worst: WarpAccess) -> tuple[Observation, ...]:
    """Sectors per request from the addresses, and the instructions that SASS has on the line."""
    limits = view.gpu.limits
    compiled, binary = view.evidence.worst, view.evidence.binary
    origin = binary.origin if worst.tier == "binary" and binary is not None else "tree-sitter"
    seen = [
        Observation(
            worst.tier, origin, "sectors per request", float(worst.sectors), "", float(worst.least),
            f"sectors of {limits.sector_bytes} bytes that hold the {worst.wanted} bytes a warp wants",
        )
    ]  # fmt: skip
    if compiled is not None and binary is not None and compiled.instructions:
        count = sum(len(global_indices_on(view, compiled, line)) for line in worst.lines_used)
        seen.append(
            Observation("binary", binary.origin, "global accesses on the line", float(count), "instructions")
        )
    return tuple(seen)


def global_indices_on(view: KernelView, compiled: CompiledKernel, line: int) -> list[int]:
    """Indices of the global-memory instructions that a line became."""
    return [
        i
        for i, x in enumerate(compiled.instructions)
        if space_of(x) == "global" and kernel_line(x, view.model.path, view.kernel) == line
    ]


def lane_words(warp: WarpAccess) -> str:
    """How far apart neighbouring lanes are, in words."""
    if warp.stride is None:
        return "neighbouring lanes are not side by side"
    growth = growth_along_lanes(warp)
    if growth is None:
        return "neighbouring lanes are not side by side"
    if growth.value is None:
        # The distance hangs on what only a launch knows.
        return f"neighbouring lanes are {_spelled(growth)} elements apart"
    return f"neighbouring lanes are {abs(warp.stride)} bytes apart"


def _spelled(growth: Form) -> str:
    """ "4 * n * m + 1"; symbols as the source names them."""
    terms = [[*([str(factor)] if factor != 1 or not symbols else []), *(s.name for s in symbols)]
             for symbols, factor in growth.terms]  # fmt: skip
    return " + ".join(" * ".join(parts) for parts in terms)
