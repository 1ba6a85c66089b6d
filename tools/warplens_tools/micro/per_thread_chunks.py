# SPDX-License-Identifier: Apache-2.0
"""per-thread-chunks

**What.** Each thread walks through its own contiguous stretch of an array, as a CPU thread would.

**Why it costs.** In every iteration the lanes of a warp are a whole stretch apart: 32 cache lines are
looked up for 32 elements. What is left of each line must wait in the L1 for the next iterations, and with
a line per resident thread the L1 is full before they come.

**Wrong**

```cuda
int first = (blockIdx.x * blockDim.x + threadIdx.x) * per_thread;
for (int i = first; i < first + per_thread; ++i) sum += x[i];
```

**Right**

```cuda
for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
```

**Evidence.** The index for every lane of a warp, and its growth from one iteration to the next: inside a
sector along the loop, whole stretches apart along the lanes. Where a thread loads the start of its stretch (the rows
of a sparse matrix), the pattern alone, and no figure: the distance of the lanes is in the data.

**Threshold.** Twice the sectors that the wanted bytes fill; with SASS, an expected gain of 1.1. Counters that
show no more sectors on the line than needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; M. Harris, "CUDA Pro Tip:
Write Flexible Kernels with Grid-Stride Loops", NVIDIA Technical Blog.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import counted_finding, wasteful_read
from warplens_tools.micro.common.measured import judge_by_sectors
from warplens_tools.micro.common.overfetch import (
    global_indices_on,
    loaded_stretches,
    sector_finding,
    uncoalesced,
)
from warplens_tools.micro.common.scattered import scattered_finding
from warplens_tools.view import KernelView


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the access that wastes most."""
    found = uncoalesced(view, "chunk")
    if not found:
        yield from _loaded(view) or _hidden(view)
        return
    worst = found[0]
    text, name = view.text.slice(worst.access.span), worst.access.name
    loop = worst.access.loops[-1]
    finding = sector_finding(
        view,
        TOOL,
        found,
        message=(
            f"Each thread walks its own stretch of {name} in the loop of line {loop.span.line}: {text} takes "
            f"{worst.sectors} sectors a request where {worst.least} would do."
        ),
        guidance=(
            f"Deal the elements of {name} out in turn (a grid-stride loop: start at the thread's global index, step "
            "by the number of threads), so that the lanes of a warp read neighbours in every iteration; where a "
            "thread needs its stretch in order, stage it through shared memory."
        ),
        index_query="",
    )
    if finding is not None:
        yield finding


def _hidden(view: KernelView) -> list[Finding]:
    """A walk that only SASS shows."""
    found = scattered_finding(
        view,
        TOOL,
        "chunk",
        "Deal the elements out in turn (start at the thread's global index, step by the number of threads), so that "
        "the lanes of a warp read neighbours in every iteration.",
    )
    return [found] if found is not None else []


def _loaded(view: KernelView) -> list[Finding]:
    """A stretch whose bounds each thread loads: how far apart the lanes are is in the data."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return []
    found = [a for a in loaded_stretches(view) if global_indices_on(view, compiled, a.span.line)]
    if not found:
        return []
    worst, loop = found[0], found[0].loops[-1]
    text, name = view.text.slice(worst.span), worst.name
    finding = TOOL.finding(
        view,
        span=worst.span,
        severity="warning",
        confidence="medium",
        message=(
            f"Each thread walks its own stretch of {name} in the loop of line {loop.span.line}, from a start it "
            f"loads: {text} takes up to 32 cache lines a request, one per lane."
        ),
        guidance=(
            f"Give each stretch of {name} to a warp (or to 2 to 16 lanes where stretches are short): the lanes step "
            "through it together and add up by shuffles."
        ),
        evidence=(
            Observation("source", "tree-sitter", "stretches that lanes of a warp walk side by side", text),
        ),
        index_query="",
    )
    return [finding]


def spot(view: KernelView) -> Iterator[Finding]:
    """Loads that were counted to take a sector for each lane, again and again the same ones."""
    found = wasteful_read(view, "chunk")
    if found is None:
        return
    yield counted_finding(
        view,
        TOOL,
        found,
        message=(
            f"Each thread walks a stretch of its own: this line's loads take {found.ratio:.1f} times the sectors that "
            "hold what the lanes want."
        ),
        guidance=(
            "Deal the elements out in turn (start at the thread's global index, step by the number of threads), so "
            "that the lanes of a warp read neighbours in every iteration."
        ),
    )


TOOL = MicroTool(
    code="WL104",
    slug="per-thread-chunks",
    title="Each thread walks its own stretch of an array",
    tiers=("source", "binary"),
    relevant=("memory", "latency"),
    check=check,
    spot=spot,
    judge=judge_by_sectors,
)
