# SPDX-License-Identifier: Apache-2.0
"""double-in-float-kernel

**What.** A kernel whose data is `float` computes in `double`: a literal without the `f` suffix, or a
call of a `double` function, promotes the whole expression.

**Why it costs.** Data-centre GPUs do double arithmetic at half the float rate, others at 1/32 or 1/64
of it; each promotion also converts there and back, and a double division or square root is a
subroutine of dozens of instructions.

**Wrong**

```cuda
float s2 = 1.0 / r2;              // a double division, then a conversion
```

**Right**

```cuda
float s2 = 1.0f / r2;
```

**Evidence.** In the source, double literals and functions in expressions of float operands; in SASS,
`DADD`/`DMUL`/`DFMA`/`DSETP`, `MUFU.RCP64H` and conversions to and from `F64`, with the loops they stand in.

**Threshold.** Any double arithmetic in a kernel that takes, keeps and stores no `double`; information where it hides
behind memory, below a gain of 1.05 in the bounded model. With SASS at hand, literals that the compiler folded away
are not reported, nor is double arithmetic of which nothing is rounded to float or compared, nor what the math
library does for huge angles. Counters that show the FP64 pipe below 5 % of its peak withdraw it.

**References.** CUDA C++ Programming Guide, "Arithmetic Instructions" (throughput table); CUDA C++ Best
Practices Guide, "Math Libraries" and "Other Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.cost.gain import replacement_gain
from warplens_tools.cuda.facts.double_uses import DoubleUse, double_uses
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.evidence import CompiledKernel, Instruction, Observation
from warplens_tools.finding import Confidence, Finding, RelatedSpan
from warplens_tools.memory.traffic import dram_floor
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.measured import judge_by_all, judge_by_metric
from warplens_tools.micro.common.place import Place, hottest_place
from warplens_tools.micro.common.room import ARITHMETIC_STALLS, DRAM, ISSUE, L1, L2, judge_by_room
from warplens_tools.rewrite.float_literals import REWRITE
from warplens_tools.sass.attribution import weights
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.routines import with_routines
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.view import KernelView

#: SASS opcodes of double arithmetic and the float opcodes that would do the same work.
_FLOAT_OPCODES = {"DADD": "FADD", "DMUL": "FMUL", "DFMA": "FFMA", "DSETP": "FSETP", "DMNMX": "FMNMX"}
#: Use of the FP64 pipe, per cent of its peak, below which double precision cost the launch nothing that shows.
FP64_USED = 5.0
#: Speedup in the bounded model from which it is more than information: what hides behind memory costs no time.
REPORTED = 1.05


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the line whose double arithmetic weighs most."""
    if uses_double_data(view):
        return
    uses = double_uses(parse_tree(view.text), view.kernel)
    compiled = max(view.evidence.compiled, key=lambda k: len(double_indices(k)), default=None)
    if compiled is None or not compiled.instructions:
        if uses:
            yield _from_source(view, uses)
        return
    doubles = double_indices(compiled)
    if not doubles or not _is_rounded(compiled, doubles):
        return
    yield _from_binary(view, compiled, doubles, uses)


def uses_double_data(view: KernelView) -> bool:
    """Whether the kernel handles double on purpose: a double parameter, array or template instantiation."""
    types = [p.type for p in view.kernel.parameters] + [a.element_type for a in view.kernel.arrays]
    if any("double" in t for t in types):
        return True
    return any("double" in k.demangled for k in view.evidence.compiled)


def double_indices(compiled: CompiledKernel) -> list[int]:
    """Indices of double arithmetic and of conversions to and from it, but for what the math library does by itself."""
    rare = analyse(compiled.instructions).rare
    return [i for i, x in enumerate(compiled.instructions) if is_double(x) and i not in rare]


def is_double(instruction: Instruction) -> bool:
    """Whether the instruction computes in, or converts to or from, double."""
    if instruction.opcode in _FLOAT_OPCODES:
        return True
    if instruction.opcode in {"F2F", "F2I", "I2F", "FRND"}:
        return "F64" in instruction.modifiers
    return instruction.opcode == "MUFU" and any(m.endswith("64H") for m in instruction.modifiers)


def _is_rounded(compiled: CompiledKernel, doubles: Sequence[int]) -> bool:
    """Whether any of it ends as a float, an integer or a comparison: what stays double until it is stored is wanted."""
    code = [compiled.instructions[i] for i in doubles]
    return any(x.opcode in ("DSETP", "F2I") or (x.opcode == "F2F" and "F32" in x.modifiers[:1]) for x in code)


def _from_source(view: KernelView, uses: Sequence[DoubleUse]) -> Finding:
    """nvcc computes the simplest cases in float by itself, so the text alone is no proof."""
    first = uses[0]
    seen = Observation("source", "tree-sitter", "double operand in float arithmetic", first.text)
    return _finding(
        view, uses, Place(first.span.line), (seen,), "medium" if first.kind == "call" else "low", ""
    )


def _from_binary(
    view: KernelView, compiled: CompiledKernel, doubles: list[int], uses: Sequence[DoubleUse]
) -> Finding:
    flow = analyse(compiled.instructions)
    binary = view.evidence.binary
    origin = "" if binary is None else binary.origin
    in_loop = sum(1 for i in doubles if flow.depths[i])
    ratio = view.gpu.rates.fp64_fma / view.gpu.rates.fp32_fma
    seen = (
        Observation(
            "binary", origin, "double instructions", float(len(doubles)), "", 0.0, "the data is float"
        ),
        Observation("binary", origin, "double instructions in loops", float(in_loop)),
        Observation("binary", view.gpu.arch, "rate of double against float", round(ratio, 4)),
    )
    place = hottest_place(view, compiled, flow, doubles)
    detail = f": {len(doubles)} double instructions" + (f", {in_loop} of them in loops" if in_loop else "")
    found = _finding(view, uses, place, seen, "high", detail)
    weight = with_routines(compiled.instructions, flow, weights(flow))
    floor = dram_floor(compiled, weights(flow), view)
    gain = replacement_gain(compiled.instructions, weight, _as_float, view.gpu, floor)
    pipes = pipe_cycles(compiled.instructions, weight, view.gpu)
    hidden = gain.estimate < REPORTED and max(floor.values(), default=0.0) >= max(pipes.values())
    severity = "information" if hidden else found.severity
    return msgspec.structs.replace(found, gain=gain, severity=severity)


def _finding(
    view: KernelView,
    uses: Sequence[DoubleUse],
    place: Place,
    seen: tuple[Observation, ...],
    confidence: Confidence,
    detail: str,
) -> Finding:
    here = [use for use in uses if use.span.line == place.line]
    named = ", ".join(dict.fromkeys(use.text for use in here)) or "an expression"
    return TOOL.finding(
        view,
        span=here[0].span if len(here) == 1 else view.line_span(place.line),
        severity="warning" if confidence != "low" else "information",
        confidence=confidence,
        message=f"{view.kernel.name} handles float data but {named} makes it compute in double{detail}.",
        guidance=(
            "Write float literals with the suffix f and call the float functions (sqrtf, expf, powf); "
            "keep double only where the extra digits are needed, and then only for the accumulator."
        ),
        evidence=seen,
        fixes=REWRITE.fixes(view.text, view.model, view.kernel),
        related=place.related
        + tuple(
            RelatedSpan(use.span, f"{use.text} is double") for use in uses if use.span.line != place.line
        )[:8],
    )


def _as_float(instruction: Instruction) -> Instruction | None:
    """The float instruction that does the same work; conversions disappear."""
    if instruction.opcode in _FLOAT_OPCODES:
        return msgspec.structs.replace(instruction, opcode=_FLOAT_OPCODES[instruction.opcode])
    if is_double(instruction) and instruction.opcode == "F2F":
        return None
    return instruction


TOOL = MicroTool(
    code="WL301",
    slug="double-in-float-kernel",
    title="Double arithmetic in a float kernel",
    tiers=("source", "binary"),
    relevant=("compute", "latency", "memory"),
    check=check,
    judge=judge_by_all(
        judge_by_metric(names.COMPUTE_PIPES["FP64"], least=FP64_USED),
        judge_by_room(own=("FP64", *ISSUE), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2)),
    ),
)
