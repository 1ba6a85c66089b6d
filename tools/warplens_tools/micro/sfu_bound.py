# SPDX-License-Identifier: Apache-2.0
"""sfu-bound

**What.** Special functions (exponential, logarithm, sine, reciprocal, square root) and conversions need the
special-function unit longer than anything else in the kernel.

**Why it costs.** The unit takes 16 lanes a clock per SM, an eighth of the multiply-add rate on recent
GPUs; while it is full the other pipes wait.

**Wrong**

```cuda
for (int s = 0; s < samples; ++s)
    sum += __expf(-k * dt * s);            // one exponential per sample
```

**Right**

```cuda
float factor = __expf(-k * dt), value = 1.0f;
for (int s = 0; s < samples; ++s) {
    sum += value;
    value *= factor;                       // one multiply per sample
}
```

**Evidence.** `MUFU`, `F2I`, `I2F`, `F2F` and their like in SASS, weighed by their loops, against the clocks of
every other pipe and of memory.
Functions in full precision (`sinf`, `powf`) hardly touch the unit: theirs are the instructions on the lines that call
them in loops, against those of the intrinsics.

**Threshold.** A tenth more clocks than the next resource, every unknown access counted as DRAM traffic; or 60 % of
them and a gain of 1.5 where what only prepares the arguments goes as well (a precise `expf` is nine instructions);
conversions of integer divisions are reported as integer-division. Counters that show the XU pipe below
30 % of its peak withdraw it.

**References.** CUDA C++ Programming Guide, "Arithmetic Instructions" (throughput table); CUDA C++ Best Practices
Guide, "Math Libraries".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from warplens_tools.collect import metrics as names
from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.cost.removal import cautious_floor
from warplens_tools.evidence import CompiledKernel, Instruction, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import counted
from warplens_tools.micro.common.measured import judge_by_all, judge_by_metric
from warplens_tools.micro.common.place import hottest_place
from warplens_tools.micro.common.precise import intrinsic_ratio, precise_calls, precise_indices
from warplens_tools.micro.common.room import (
    ARITHMETIC,
    ARITHMETIC_STALLS,
    DRAM,
    ISSUE,
    L1,
    L2,
    busy,
    judge_by_room,
)
from warplens_tools.micro.double_in_float_kernel import is_double
from warplens_tools.micro.integer_division import is_reciprocal
from warplens_tools.roofline.measured import NEAR_ROOF
from warplens_tools.sass.attribution import weights, written_line
from warplens_tools.sass.feeders import feeders
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.registers import registers_of
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.view import KernelView

#: Clocks of the special-function unit over those of the next resource: the margin that Nsight Compute asks
#: of a leading unit (10 %).
LEAD = 1.1
#: Clocks of the special-function unit over those of the next resource from which its functions are looked at with what
#: prepares their arguments (Nsight Compute calls a unit busy from 60 %), and the gain from which they are named then.
NEAR, AROUND = 0.6, 1.5
#: What takes a special function's place: a step of a recurrence, or of a polynomial.
_MULTIPLICATION = Instruction(0, "FMUL", (), ())
_CALL = re.compile(r"\b(?:__)?\w*(?:exp|log|sin|cos|tan|pow|sqrt|cbrt|rcp|div|erf)\w*(?=\s*\()")
#: Speedup in the bounded model from which functions in full precision are reported, and what is seen of them.
REPORTED, SOFTWARE = 1.3, "instructions of functions in full precision"
#: Use of the XU pipe, per cent of its peak, below which special functions are not what bounds a launch.
XU_BUSY = 30.0


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the line whose special functions weigh most."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is None or binary is None or not compiled.instructions:
        return
    flow = analyse(compiled.instructions)
    weight = weights(flow)
    floor = cautious_floor(view, compiled, weight)
    clocks = pipe_cycles(compiled.instructions, weight, view.gpu) | floor
    rest = max(v for k, v in clocks.items() if k != "sfu")
    indices = special_indices(view, compiled)
    share = sum(weight[i] for i in indices)
    every = sum(w for x, w in zip(compiled.instructions, weight, strict=True) if pipe_of(x) == "sfu")
    lead = clocks.get("sfu", 0.0) * share / every / rest if indices else 0.0
    if lead < NEAR:
        yield from _precise(view, compiled, binary.origin)
        return
    gain = _gain(view, compiled, weight, indices, floor)
    if lead < LEAD and gain.estimate < AROUND:
        yield from _precise(view, compiled, binary.origin)
        return
    place = hottest_place(view, compiled, flow, indices)
    line = place.line
    named = ", ".join(dict.fromkeys(_CALL.findall(view.text.line_text(line)))) if line else ""
    yield TOOL.finding(
        view,
        span=view.line_span(line),
        severity="warning",
        confidence="high" if lead >= LEAD else "medium",
        message=(
            f"{named or _kinds(compiled, indices)} keep the special-function unit of {view.kernel.name} busy "
            f"{lead:.1f} times as long as any other resource."
            if lead >= LEAD
            else f"{named or _kinds(compiled, indices)} and the arithmetic that only prepares them take most of "
            f"{view.kernel.name}'s instructions."
        ),
        guidance=(
            "Compute fewer of them: move what the loop does not change out of it, replace a value at equal steps "
            "by a recurrence, combine exponentials (exp(a) * exp(b) = exp(a + b)), or compute a part as a "
            "polynomial on the multiply-add pipe."
        ),
        evidence=(
            Observation("binary", binary.origin, "special-function instructions", float(len(indices))),
            Observation(
                "binary", binary.origin, "special-function clocks over the next resource",
                round(lead, 2), "", LEAD if lead >= LEAD else NEAR, "a leading unit" if lead >= LEAD else "a busy unit",
            ),
        ),
        gain=gain,
        related=place.related,
    )  # fmt: skip


def _precise(view: KernelView, compiled: CompiledKernel, origin: str) -> Iterator[Finding]:
    indices = precise_indices(view, compiled)
    ratio = intrinsic_ratio(view, compiled, indices)
    if not indices or ratio < REPORTED:
        return
    place = hottest_place(view, compiled, analyse(compiled.instructions), indices)
    named = ", ".join(precise_calls(view.text.line_text(place.line or 1)))
    yield TOOL.finding(
        view,
        span=view.line_span(place.line),
        severity="warning",
        confidence="medium",
        message=(
            f"{named} in full precision takes {len(indices)} instructions in the loops of {view.kernel.name}, for what "
            "the special-function unit does in one or two each."
        ),
        guidance=(
            "Where an error of some 1e-6 will do, bring the argument near zero and call the intrinsic (__sinf, __cosf, "
            "__sincosf, __logf, __powf), or compile with -use_fast_math; for equal steps use a recurrence, and move "
            "what the loop does not change out of it."
        ),
        evidence=(
            Observation("source", "tree-sitter", "functions in full precision", named),
            Observation("binary", origin, SOFTWARE, float(len(indices))),
        ),
        gain=make_gain(ratio, 1.0, ratio),
        related=place.related,
    )


def judge(view: KernelView, finding: Finding) -> Finding | None:
    """By the special-function unit where that bounds it; by all arithmetic for what is computed in its place."""
    software = any(seen.metric == SOFTWARE for seen in finding.evidence)
    return (_BY_ARITHMETIC if software else _BY_UNIT)(view, finding)


def _gain(
    view: KernelView,
    compiled: CompiledKernel,
    weight: Sequence[float],
    indices: Sequence[int],
    floor: Mapping[str, float],
) -> Gain:
    """A multiplication in place of each special function, and nothing of what only prepares their arguments."""
    code, special = compiled.instructions, frozenset(indices)
    scaled = _scalings(code, special)
    gone = feeders(code, special | scaled) | scaled
    after = [(_MULTIPLICATION if i in special else x, w)
             for i, (x, w) in enumerate(zip(code, weight, strict=True)) if i not in gone]  # fmt: skip
    before = pipe_cycles(code, weight, view.gpu) | dict(floor)
    later = pipe_cycles([x for x, _ in after], [w for _, w in after], view.gpu) | dict(floor)
    ratio = bound_ratio(before, later)
    return make_gain(ratio, 1.0, ratio)


def _scalings(code: Sequence[Instruction], special: Collection[int]) -> frozenset[int]:
    """Guarded multiplications of a special function's result by itself or a constant, in place: how the compiler keeps
    arguments in the range that the unit takes."""
    results = {name for i in special for name in registers_of(code[i])[0]}
    found = set()
    for i, x in enumerate(code):
        written, read = registers_of(x)
        values = {name for name in read if "P" not in name}
        if x.predicate and pipe_of(x) == "fp32" and written and written == values and written <= results:
            found.add(i)
    return frozenset(found)


def special_indices(view: KernelView, compiled: CompiledKernel) -> list[int]:
    """Instructions of the special-function unit that belong to no integer division and to no double arithmetic."""
    path = view.model.path
    lines = {written_line(x, path) for x in compiled.instructions if is_reciprocal(x)}
    return [
        i
        for i, x in enumerate(compiled.instructions)
        if pipe_of(x) == "sfu" and not is_double(x) and written_line(x, path) not in lines
    ]


def _kinds(compiled: CompiledKernel, indices: list[int]) -> str:
    """The opcodes as printed, where the line calls no function by name."""
    return ", ".join(dict.fromkeys(_printed(compiled.instructions[i]) for i in indices))


def _printed(instruction: Instruction) -> str:
    return ".".join((instruction.opcode, *instruction.modifiers[:1]))


def spot(view: KernelView) -> Iterator[Finding]:
    """A special-function unit that was seen busier than any other: on the line that gives it most."""
    found = counted(view)
    shares = {} if found is None else busy(found.counters)
    own = shares.get("XU", 0.0)
    rest = max((share for unit, share in shares.items() if unit != "XU"), default=0.0)
    if found is None or own < NEAR_ROOF or own < LEAD * rest:
        return
    compiled = view.evidence.worst
    indices = special_indices(view, compiled) if compiled is not None else []
    line = found.line_of([i for i in indices if i < len(found.lines)], names.PER_INSTRUCTION[0])
    yield TOOL.finding(
        view,
        span=view.line_span(line),
        severity="warning",
        confidence="high",
        message=f"The special-function unit was busy {own:.0%} of the time, any other unit at most {rest:.0%}.",
        guidance=(
            "Compute fewer of them: move what the loop does not change out of it, replace a value at equal steps "
            "by a recurrence, combine exponentials, or compute a part as a polynomial on the multiply-add pipe."
        ),
        evidence=(found.seen("busy share of the next unit", rest, own / LEAD),),
        gain=make_gain(own / max(rest, 0.1), 1.0, own / max(rest, 0.1)),
    )


_BY_UNIT = judge_by_all(
    judge_by_metric(names.COMPUTE_PIPES["XU"], least=XU_BUSY),
    judge_by_room(own=("XU",), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2)),
)
_BY_ARITHMETIC = judge_by_room(own=(*ARITHMETIC, *ISSUE), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2))

TOOL = MicroTool(
    code="WL302",
    slug="sfu-bound",
    title="Special functions bound the kernel",
    tiers=("binary",),
    relevant=("compute", "latency"),
    check=check,
    spot=spot,
    judge=judge,
)
