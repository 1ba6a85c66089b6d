# SPDX-License-Identifier: Apache-2.0
"""Uncoalesced accesses that only SASS tells: those whose index the source hides behind classes, calls and casts.

Where the source gives an access's lanes (`coalescing`), that is used and nothing is said here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.cost.waiting import standing_floor
from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.memory.address_evidence import patterns_of
from warplens_tools.memory.coalescing import warp_accesses
from warplens_tools.memory.traffic import dram_bytes_per_clock, l1_misses, l2_bytes_per_clock
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.overfetch import NEAR, REPORTED, SCATTERED, WORTH, Cause
from warplens_tools.sass.addresses import AddressPattern
from warplens_tools.sass.attribution import hottest_line, kernel_line, weights
from warplens_tools.sass.banks import wavefronts
from warplens_tools.sass.flow import Flow, analyse
from warplens_tools.sass.lanes import FEW_QUOTIENTS
from warplens_tools.sass.pipes import access_bytes, is_load
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.sass.varying import lane_dependent
from warplens_tools.view import KernelView

#: Bytes between lanes up to which a constant stride is that of a record, as in `overfetch`.
_RECORD_BYTES = 128
#: Neighbouring elements that one pass of a loop must read for the thread to walk a stretch of its own.
_WALKED = 3
_SECTOR = 32
_DEALT = frozenset({"read", "write"})
#: Passes of the L1 that a walk through stretches of unknown length takes: between the 9 of any length that is no
#: multiple of 16 words and the 32 of multiples of 32 words (docs/benchmarks/costs.json), the geometric mean.
_UNKNOWN_PASSES = 17.0
#: A distance between lanes that only the launch knows: "4*lane*c[0x0][0x22c]".
_SYMBOLIC = re.compile(r"lane\*(?!\d)|[A-Za-z)\]][\w.()\[\]]*\*lane\b")


class Scattered(msgspec.Struct, frozen=True):
    """Instructions of one line that touch more sectors than their lanes want."""

    cause: Cause
    line: int
    indices: tuple[int, ...]
    sectors: int
    least: int
    #: Bytes between lanes; None where it is a run-time value, or each lane's own.
    stride: int | None
    #: Whether the next pass of a loop goes on where a lane stopped.
    walked: bool = False

    @property
    def overfetch(self) -> float:
        """Sectors moved over sectors needed."""
        return self.sectors / self.least


def scattered(view: KernelView) -> list[Scattered]:
    """Every such line that the source does not explain, most wasteful first."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return []
    told = {
        (line, load)
        for w in warp_accesses(view)
        for line in w.lines_used
        for load, has in ((True, w.access.reads), (False, w.access.writes))
        if has
    }
    flow = analyse(compiled.instructions)
    groups: dict[tuple[int, bool], list[int]] = {}
    for i, x in enumerate(compiled.instructions):
        line = kernel_line(x, view.model.path, view.kernel) if x.opcode in ("LDG", "STG") else None
        if line is not None and (line, is_load(x)) not in told:
            groups.setdefault((line, is_load(x)), []).append(i)
    if not groups:
        return []
    patterns = {p.index: p for p in patterns_of(view, compiled)}
    differing = lane_dependent(compiled.instructions)
    found = []
    for (line, _), indices in groups.items():
        alike = [i for i in indices if i in patterns]
        found += _of_line(compiled, flow, line, alike, patterns, differing)
    weight = weights(flow)
    return sorted(found, key=lambda s: (-(s.sectors - s.least) * weight[s.indices[0]], s.line))


def _of_line(
    compiled: CompiledKernel,
    flow: Flow,
    line: int,
    indices: Sequence[int],
    patterns: dict[int, AddressPattern],
    differing: frozenset[int],
) -> list[Scattered]:
    """What is scattered of one line's loads, or of its stores."""
    walks = _walks(compiled, flow, indices)
    groups: dict[tuple[Cause, int, int | None], list[int]] = {}
    for i in indices:
        pattern = patterns[i]
        load = is_load(compiled.instructions[i])
        least = access_bytes(compiled.instructions[i])
        if pattern.sectors is not None and pattern.stride is not None:
            sectors, stride = pattern.sectors[0], abs(pattern.stride)
            if sectors < REPORTED * least:
                continue
            cause: Cause = "chunk" if walks else "field" if stride <= _RECORD_BYTES else _plain(load=load)
            groups.setdefault((cause, sectors, stride), []).append(i)
        elif _SYMBOLIC.search(pattern.form):
            groups.setdefault((_plain(load=load), 32, None), []).append(i)
        elif walks and not pattern.form and i in differing and not pattern.why.endswith(FEW_QUOTIENTS):
            groups.setdefault(("chunk", 32, None), []).append(i)
    return [
        Scattered(
            cause, line, tuple(found), sectors, access_bytes(compiled.instructions[found[0]]), stride, walks
        )
        for (cause, sectors, stride), found in groups.items()
    ]


def _plain(*, load: bool) -> Cause:
    return "read" if load else "write"


def _walks(compiled: CompiledKernel, flow: Flow, indices: Sequence[int]) -> bool:
    """Whether one pass of a loop accesses neighbouring elements from one register on: an unrolled walk."""
    places: dict[str, set[int]] = {}
    for i in indices:
        if not flow.depths[i]:
            continue
        operand = next((o for o in compiled.instructions[i].operands if "[R" in o), "")
        found = re.search(r"\[(R\d+)(?:\.\w+)*(?:\+(-?0x[0-9a-f]+))?\]", operand)
        if found is not None:
            places.setdefault(found[1], set()).add(int(found[2] or "0", 16))
    width = access_bytes(compiled.instructions[indices[0]]) if indices else 4
    return any(sum(at + width in offsets for at in offsets) >= _WALKED - 1 for offsets in places.values())


def scattered_finding(view: KernelView, tool: MicroTool, cause: Cause, guidance: str) -> Finding | None:
    """The finding on the worst line of a cause; None where there is none, or its removal would not show."""
    every = scattered(view)
    found = [s for s in every if s.cause == cause]
    compiled, binary = view.evidence.worst, view.evidence.binary
    if not found or compiled is None or binary is None:
        return None
    worst = found[0]
    # What deals the elements anew to the threads repairs the reads and the writes that lie as far apart.
    strides = {s.stride for s in found}
    alike = [s for s in every if s.cause != cause and {s.cause, cause} <= _DEALT and s.stride in strides]
    gain, near = _gain(view, compiled, [*found, *alike])
    if gain.estimate < WORTH and (not near or worst.overfetch < SCATTERED):
        return None
    line = hottest_line(compiled, analyse(compiled.instructions), worst.indices, view.model.path, view.kernel)
    doing = "stores" if cause == "write" else "loads"
    apart = (
        f"{worst.stride} bytes apart"
        if worst.stride is not None
        else "on stretches of their own"
        if cause == "chunk"
        else "a run-time distance apart"
    )
    return tool.finding(
        view,
        span=view.line_span(line),
        severity="warning",
        confidence="medium",
        message=(
            f"The {doing} of this line take {worst.sectors} sectors a request where {worst.least} would do: "
            f"neighbouring lanes are {apart}."
        ),
        guidance=guidance,
        evidence=(
            Observation("binary", binary.origin, "sectors per request", float(worst.sectors), "", float(worst.least)),
            Observation("binary", binary.origin, "global accesses on the line", float(len(worst.indices))),
        ),
        gain=gain,
    )  # fmt: skip


def _passes(view: KernelView, found: Scattered) -> float:
    """Of the L1's banks, where every line is there."""
    if found.stride is None:
        return _UNKNOWN_PASSES if found.cause == "chunk" else float(found.sectors)
    limits = view.gpu.limits
    return float(wavefronts([n * found.stride for n in range(limits.warp_size)], found.least, limits))


def _gain(view: KernelView, compiled: CompiledKernel, found: Sequence[Scattered]) -> tuple[Gain, bool]:
    """Bounds with these sectors moved and looked up, over the bounds with the fewest; and whether the caches come near
    the roof as it is."""
    weight = weights(analyse(compiled.instructions))
    base = pipe_cycles(compiled.instructions, weight, view.gpu) | standing_floor(view, compiled, weight)
    costs, missing = view.gpu.costs, l1_misses(view, compiled)
    before, after = dict(base), dict(base)
    for s in found:
        times = sum(weight[i] for i in s.indices)
        least = s.least * _SECTOR
        partly = (costs.partial_write + costs.partial_request) * _SECTOR
        request = partly if s.cause == "write" else costs.request_bytes
        lost = missing if s.walked and s.cause != "write" else 1.0
        wanted = s.sectors * _SECTOR if s.cause in ("field", "write") else least
        before["l1 lines"] += times * max(1.0, _passes(view, s), s.sectors / costs.lines_at_once)
        after["l1 lines"] += times * max(1.0, s.least / costs.lines_at_once)
        before["l2"] += (
            times * (least * (1.0 - lost) + s.sectors * request * lost) / l2_bytes_per_clock(view.gpu)
        )
        after["l2"] += times * least / l2_bytes_per_clock(view.gpu)
        before["dram"] += times * wanted / dram_bytes_per_clock(view.gpu)
        after["dram"] += times * least / dram_bytes_per_clock(view.gpu)
    ratio = bound_ratio(before, after)
    near = max(before["l2"], before["l1 lines"]) >= NEAR * max(before.values())
    return make_gain(ratio, 1.0, max([ratio, *(s.overfetch for s in found)])), near
