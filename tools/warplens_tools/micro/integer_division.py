"""integer-division

**What.** A loop divides integers, or takes remainders, by a divisor that is known only at run time.

**Why it costs.** GPUs have no integer divider. The compiler computes a reciprocal in floating point and
corrects it: about 20 instructions for 32 bits, a call of about 70 for 64, where a constant divisor takes
a multiply and a shift, and a power of two a single mask.

**Wrong**

```cuda
for (int i = first; i < n; i += stride)
    sum += table[i % width];               // width is a kernel parameter
```

**Right**

```cuda
template <int width> __global__ void ...   // a constant; or carry the remainder along:
column += step; if (column >= width) column -= width;
```

**Evidence.** `/` and `%` with a divisor that no constant fixes, and on their line the conversion `I2F…RP` with
the integer multiplies and corrections that follow it; their share of the busiest pipe. Counters tell how busy
arithmetic and issue were, and what warps stalled on: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** A tenth of the kernel's time in the bounded model, memory traffic included: divisions that
hide behind memory are not reported. Where only accesses that the source does not tell could hide them, it is
information, from a gain of 1.5.

**References.** CUDA C++ Programming Guide, "Maximize Instruction Throughput" (integer arithmetic); CUDA C++
Best Practices Guide, "Division Modulo Operations"; CUTLASS `FastDivmod`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.cost.removal import DOUBTFUL, cautious_floor, hopeful_floor
from warplens_tools.evidence import CompiledKernel, Instruction, Observation
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.room import ARITHMETIC, ARITHMETIC_STALLS, DRAM, ISSUE, L1, L2, judge_by_room
from warplens_tools.sass.attribution import hottest_line, kernel_line, weights
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.source.divisions import Division, runtime_divisions
from warplens_tools.source.tree import parse_tree
from warplens_tools.view import KernelView

#: Speedup in the bounded model from which divisions are reported.
REPORTED = 1.1
#: Instructions of a division by a constant over those of one by a variable (about 5 of 20).
CONSTANT_SHARE = 0.25


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the line whose divisions weigh most."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is None or binary is None or not compiled.instructions:
        return
    found = _confirmed(view, compiled, runtime_divisions(parse_tree(view.text), view.kernel))
    indices = division_indices(view, compiled, found)
    if not indices:
        return
    flow = analyse(compiled.instructions)
    weight = weights(flow)
    gone = set(indices)
    after = [w * (CONSTANT_SHARE if i in gone else 1.0) for i, w in enumerate(weight)]
    before, later = (pipe_cycles(compiled.instructions, w, view.gpu) for w in (weight, after))
    floor = cautious_floor(view, compiled, weight)
    ratio = bound_ratio(before | floor, later | floor)
    sure = ratio >= REPORTED
    if not sure:
        floor = hopeful_floor(view, compiled, weight)
        ratio = bound_ratio(before | floor, later | floor)
    if ratio < (REPORTED if sure else DOUBTFUL):
        return
    line = hottest_line(compiled, flow, indices, view.model.path, view.kernel)
    here = [d for d in found if d.line == line]
    divisors = ", ".join(dict.fromkeys(d.divisor for d in here))
    yield TOOL.finding(
        view,
        span=here[0].span if len(here) == 1 else view.line_span(line),
        severity="warning" if sure else "information",
        confidence="low" if not sure else "high" if any(flow.depths[i] for i in indices) else "medium",
        message=(
            f"Dividing by {divisors}, known only at run time, takes {len(indices)} instructions of "
            f"{view.kernel.name} where a constant divisor would take about a quarter."
        ),
        guidance=(
            f"Make {divisors} a template parameter or a power of two (mask and shift), carry quotient and "
            "remainder along the loop by addition, or precompute a multiplier as CUTLASS' FastDivmod does."
        ),
        evidence=(
            Observation("source", "tree-sitter", "divisions by a run-time value", float(len(found))),
            Observation("binary", binary.origin, "integer instructions of the divisions", float(len(indices))),
        ),
        gain=make_gain(ratio, 1.0, ratio / CONSTANT_SHARE),
        index_query="FastDivmod precomputed integer division",
    )  # fmt: skip


def is_reciprocal(instruction: Instruction) -> bool:
    """Whether it is the rounded-up conversion that every run-time integer division begins with."""
    return instruction.opcode == "I2F" and "RP" in instruction.modifiers


def _confirmed(view: KernelView, compiled: CompiledKernel, found: Sequence[Division]) -> tuple[Division, ...]:
    """The divisions that the compiler made integer ones."""
    lines = {kernel_line(x, view.model.path, view.kernel) for x in compiled.instructions if is_reciprocal(x)}
    return tuple(d for d in found if d.line in lines)


def division_indices(view: KernelView, compiled: CompiledKernel, found: Sequence[Division]) -> list[int]:
    """The integer and conversion instructions on the lines of the divisions."""
    lines = {d.line for d in found}
    return [
        i
        for i, x in enumerate(compiled.instructions)
        if pipe_of(x) in ("int", "alu", "sfu")
        and "WIDE" not in x.modifiers
        and kernel_line(x, view.model.path, view.kernel) in lines
    ]


TOOL = MicroTool(
    code="WL303",
    slug="integer-division",
    title="Integers are divided by a value known only at run time",
    tiers=("binary",),
    relevant=("compute", "latency", "memory"),
    check=check,
    judge=judge_by_room(own=(*ARITHMETIC, *ISSUE), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2)),
)
