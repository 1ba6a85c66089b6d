"""aliasing-reload

**What.** A loop loads the same element again in every iteration, because the compiler must assume that
a store in the loop, through another pointer, has changed it.

**Why it costs.** The load could sit in a register for the whole loop. Instead it takes the load/store
pipe each time, the store cannot be moved past it, and the loop cannot be unrolled with its loads ahead.

**Wrong**

```cuda
__global__ void scale(float *out, const float *in, const float *gain, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = in[i] * gain[blockIdx.x];       // gain[blockIdx.x] may be out[i]
}
```

**Right**

```cuda
__global__ void scale(float *__restrict__ out, const float *__restrict__ in, const float *__restrict__ gain, int n)
```

**Evidence.** In the source, an index that no variable of the loop changes, and a store in the same loop
through another pointer without `__restrict__`; where SASS is at hand, a load that is really inside a
loop on that line.

**Threshold.** None: one such load is reported. Without SASS the confidence is low, as the compiler may see
more.

**References.** CUDA C++ Programming Guide, "__restrict__"; CUDA C++ Best Practices Guide, "Data Access
Optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Finding, Fix, Gain, RelatedSpan
from warplens_tools.gain import removal_gain
from warplens_tools.launches import block_extents
from warplens_tools.micro.base import KernelView, MicroTool
from warplens_tools.rewrite.base import Target
from warplens_tools.rewrite.restrict_const import REWRITE
from warplens_tools.sass.attribution import kernel_line, weights
from warplens_tools.sass.flow import analyse
from warplens_tools.source.accesses import accesses
from warplens_tools.source.constants import UNKNOWN_DIM3
from warplens_tools.source.reloads import Reload, reloads
from warplens_tools.source.tree import parse_tree
from warplens_tools.traffic import dram_floor


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the reload in the deepest loop."""
    block = block_extents(view.kernel, view.model) or UNKNOWN_DIM3
    found: Sequence[Reload] = reloads(parse_tree(view.text), view.kernel, block)
    compiled = view.evidence.worst
    if compiled is not None and compiled.instructions:
        found = [r for r in found if _load_indices(view, compiled, r.load.span.line)]
    if not found:
        return
    worst = max(found, key=lambda r: len(r.load.loops))
    store = worst.stores[0]
    names = list(dict.fromkeys(r.load.name for r in found))
    confirmed = compiled is not None and bool(compiled.instructions)
    text = view.text.slice(worst.load.span)
    yield Finding(
        code=TOOL.code,
        slug=TOOL.slug,
        kernel=view.kernel.qualified_name,
        span=worst.load.span,
        severity="warning" if confirmed else "information",
        confidence="high" if confirmed else "low",
        message=(
            f"{text} does not change in its loop but is loaded in every iteration: "
            f"the store to {view.text.slice(store.span)} may alias it."
        ),
        guidance=(
            f"Declare {_list([*names, store.name])} __restrict__ if they never overlap, or copy {text} "
            "to a local before the loop."
        ),
        evidence=_observations(view, found),
        gain=_gain(view, found),
        fixes=_fixes(view),
        related=(RelatedSpan(store.span, "this store may alias the load"),),
    )


def _load_indices(view: KernelView, compiled: CompiledKernel, line: int) -> list[int]:
    """Global loads on the line that stand in a loop of the compiled code."""
    flow = analyse(compiled.instructions)
    return [
        i
        for i, x in enumerate(compiled.instructions)
        if x.opcode == "LDG" and flow.depths[i] and kernel_line(x, view.model.path, view.kernel) == line
    ]


def _observations(view: KernelView, found: Sequence[Reload]) -> tuple[Observation, ...]:
    names = ", ".join(dict.fromkeys(view.text.slice(r.load.span) for r in found))
    seen = [Observation("source", "tree-sitter", "loads that do not change in their loop", names)]
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is not None and binary is not None and compiled.instructions:
        lines = {r.load.span.line for r in found}
        count = sum(len(_load_indices(view, compiled, line)) for line in lines)
        seen.append(
            Observation("binary", binary.origin, "LDG instructions in loops on these lines", float(count))
        )
    return tuple(seen)


def _gain(view: KernelView, found: Sequence[Reload]) -> Gain | None:
    """As many loads of each line gone as its text repeats; which of them does not matter to the bound."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return None
    removed: list[int] = []
    for line in {r.load.span.line for r in found}:
        repeated = sum(1 for r in found if r.load.span.line == line)
        here = _load_indices(view, compiled, line)
        at_line = sum(
            1 for a in accesses(parse_tree(view.text), view.kernel) if a.reads and a.span.line == line
        )
        removed += here[: max(1, len(here) * repeated // max(at_line, repeated))]
    weight = weights(analyse(compiled.instructions))
    floor = dram_floor(compiled, weight, view)
    return removal_gain(compiled.instructions, weight, removed, view.gpu, floor)


def _fixes(view: KernelView) -> tuple[Fix, ...]:
    result = REWRITE.apply(view.text, view.model, view.kernel, Target())
    return (Fix(result.title, REWRITE.slug, result.edits, result.caveat),) if result.edits else ()


def _list(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"


TOOL = MicroTool(
    code="WL111",
    slug="aliasing-reload",
    title="A loop reloads what __restrict__ would let it keep",
    tiers=("source", "binary"),
    relevant=("memory", "latency", "compute"),
    check=check,
)
