# SPDX-License-Identifier: Apache-2.0
"""shared-bank-conflicts

**What.** The threads of a warp address different words of the same shared-memory bank: typically a
column of a tile whose pitch is a multiple of 32 words.

**Why it costs.** Shared memory has 32 banks of 4 bytes. Each serves one word per pass; an access that
needs n words of one bank takes n passes, up to 32.

**Wrong**

```cuda
__shared__ float tile[32][32];
...
out[i] = tile[threadIdx.x][k];      // lanes are 32 words apart: one bank
```

**Right**

```cuda
__shared__ float tile[32][33];      // lanes are 33 words apart: 32 banks
```

**Evidence.** The index as a function of `threadIdx`, the pitch of the declaration and the block's
extents, evaluated for every lane of a warp; where SASS is at hand, the `LDS`/`STS` it became.

**Threshold.** Twice the passes of a conflict-free access; a warning from four times on. Where the block is not
known from the launches, a warp is taken to run along `threadIdx.x`, and the confidence is lower. Counters that
show no more wavefronts on the line than needed withdraw it.

**References.** CUDA C++ Programming Guide, "Shared Memory" (of compute capability 5.x and later); CUDA C++
Best Practices Guide, "Shared Memory and Memory Banks".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.collect import metrics as names
from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.cuda.model import ArrayDeclaration
from warplens_tools.evidence import Observation
from warplens_tools.finding import Confidence, Finding, Fix, Gain, RelatedSpan
from warplens_tools.launches import block_extents
from warplens_tools.memory.address_evidence import patterns_of
from warplens_tools.memory.conflicts import Conflict, conflicts, extra_passes, shared_indices_on
from warplens_tools.memory.traffic import dram_floor
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import wasteful_line
from warplens_tools.micro.common.measured import judge_by_wavefronts
from warplens_tools.rewrite.base import Target
from warplens_tools.rewrite.pad_shared_tile import REWRITE
from warplens_tools.sass.attribution import kernel_line, weights
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.view import KernelView

#: Passes over the conflict-free passes from which an access is reported, and from which it is a warning.
REPORTED, WARNED = 2.0, 4.0


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per array, on the access with the most passes in the deepest loop."""
    arrays = {a.name: a for a in view.kernel.arrays if a.space == "shared"}
    known = block_extents(view.kernel, view.model) is not None
    found: dict[str, list[Conflict]] = {}
    for conflict in conflicts(view):
        if conflict.access.name in arrays:
            found.setdefault(conflict.access.name, []).append(conflict)
    for name, group in found.items():
        worst = max(group, key=lambda c: (c.degree, len(c.access.loops)))
        if worst.degree >= REPORTED and _still_there(view, worst):
            yield _finding(view, arrays[name], worst, group, known=known)
    if not found:
        yield from _hidden(view)


def _hidden(view: KernelView) -> Iterator[Finding]:
    """A conflict that only SASS shows: its array is indexed by a function or a class of the program's own."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is None or binary is None or not compiled.instructions:
        return
    if not any(x.opcode in ("LDS", "STS") for x in compiled.instructions):
        return
    shared = [
        p for p in patterns_of(view, compiled) if p.space == "shared" and (p.conflict or 0.0) >= REPORTED
    ]
    if not shared:
        return
    weight = weights(analyse(compiled.instructions))
    worst = max(shared, key=lambda p: weight[p.index] * (p.conflict or 0.0))
    after = pipe_cycles(compiled.instructions, weight, view.gpu) | dram_floor(compiled, weight, view)
    extra = sum(weight[p.index] * (p.passes or 0) * (1.0 - 1.0 / (p.conflict or 1.0)) for p in shared)
    ratio = bound_ratio(after | {"lsu": after.get("lsu", 0.0) + extra}, after)
    degree, passes = worst.conflict or 1.0, worst.passes or 1
    doing = "reads" if compiled.instructions[worst.index].opcode == "LDS" else "writes"
    yield TOOL.finding(
        view,
        span=view.line_span(kernel_line(compiled.instructions[worst.index], view.model.path, view.kernel)),
        severity="warning" if degree >= WARNED else "information",
        confidence="high" if block_extents(view.kernel, view.model) is not None else "medium",
        message=(
            f"A warp {doing} {passes} words of one bank of shared memory here: each access takes {passes} passes "
            f"instead of {round(passes / degree)}."
        ),
        guidance=(
            "Pad the rows of the tile by one word so that neighbouring lanes fall into different banks, or swizzle "
            "the column index with the row (column ^ row)."
        ),
        evidence=(
            Observation(
                "binary", binary.origin, "shared-memory passes per warp access", float(passes), "",
                round(passes / degree, 1), "addresses of the lanes, from SASS",
            ),
        ),
        gain=make_gain(ratio, 1.0, ratio),
        index_query="shared memory swizzle layout bank conflict free transpose",
    )  # fmt: skip


def _still_there(view: KernelView, conflict: Conflict) -> bool:
    """Whether SASS, where it is at hand, has shared accesses on the line: the compiler may have removed them."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return True
    return bool(shared_indices_on(view, compiled, conflict.access.span.line))


def _finding(
    view: KernelView, array: ArrayDeclaration, worst: Conflict, group: list[Conflict], *, known: bool
) -> Finding:
    access = worst.access
    confidence: Confidence = "high" if known else "medium"
    pitch = f"[{array.extents[-1]}]" if len(array.extents) > 1 else ""
    doing = "writes" if access.writes and not access.reads else "reads"
    return TOOL.finding(
        view,
        span=access.span,
        severity="warning" if worst.degree >= WARNED else "information",
        confidence=confidence,
        message=(
            f"{view.text.slice(access.span)} {doing} {worst.passes} words of one bank: each warp access of "
            f"{array.name} takes {worst.passes} passes instead of {round(worst.passes / worst.degree)}."
        ),
        guidance=(
            f"Pad the inner extent of {array.name}{pitch} so that neighbouring lanes fall into different banks, "
            "or swizzle the column index with the row (column ^ row)."
            if pitch
            else f"Give neighbouring threads neighbouring words of {array.name}."
        ),
        evidence=_observations(view, worst),
        gain=_gain(view, group),
        fixes=_fixes(view, array) if pitch else (),
        related=(RelatedSpan(array.span, f"{array.name} is declared here"),),
        index_query="shared memory swizzle layout bank conflict free transpose" if pitch else "",
    )


def _observations(view: KernelView, worst: Conflict) -> tuple[Observation, ...]:
    banks = view.gpu.limits.shared_banks
    compiled, binary = view.evidence.worst, view.evidence.binary
    origin = binary.origin if worst.tier == "binary" and binary is not None else "tree-sitter"
    seen = [
        Observation(
            worst.tier, origin, "shared-memory passes per warp access", float(worst.passes), "",
            round(worst.passes / worst.degree, 1), f"{banks} banks of {view.gpu.limits.shared_bank_bytes} bytes",
        )
    ]  # fmt: skip
    if compiled is not None and binary is not None and compiled.instructions:
        count = len(shared_indices_on(view, compiled, worst.access.span.line))
        seen.append(Observation("binary", binary.origin, "LDS/STS instructions on the line", float(count)))
    return tuple(seen)


def _gain(view: KernelView, group: list[Conflict]) -> Gain | None:
    """Throughput bound with the extra passes of every conflicting access of the array, and without."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return None
    weight = weights(analyse(compiled.instructions))
    after = pipe_cycles(compiled.instructions, weight, view.gpu) | dram_floor(compiled, weight, view)
    lsu = after.get("lsu", 0.0) + extra_passes(view, compiled, weight, group)
    ratio = bound_ratio(after | {"lsu": lsu}, after)
    return make_gain(ratio, 1.0, ratio)


def _fixes(view: KernelView, array: ArrayDeclaration) -> tuple[Fix, ...]:
    return REWRITE.fixes(view.text, view.model, view.kernel, Target(names=(array.name,)))


def spot(view: KernelView) -> Iterator[Finding]:
    """Shared accesses that were counted to take more wavefronts than they need, whatever their address is made of."""
    found = wasteful_line(view, names.SHARED_WAVEFRONTS, "shared")
    if found is None:
        return
    yield TOOL.finding(
        view,
        span=view.line_span(found.line),
        severity="warning",
        confidence="high",
        message=f"The shared accesses of this line take {found.ratio:.1f} times the wavefronts they need.",
        guidance="Pad the rows of the tile by one element, or swizzle its columns by the row.",
        evidence=found.evidence,
        gain=make_gain(found.ratio, 1.0, found.ratio),
        index_query="Swizzle shared memory layout",
    )


TOOL = MicroTool(
    code="WL108",
    slug="shared-bank-conflicts",
    title="Shared-memory accesses of a warp fall into one bank",
    tiers=("source", "binary"),
    relevant=("memory", "latency"),
    check=check,
    spot=spot,
    judge=judge_by_wavefronts,
)
