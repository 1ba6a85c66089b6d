# SPDX-License-Identifier: Apache-2.0
"""non-fused-arithmetic

**What.** Multiplies and the additions of their results are kept apart, by `__fmul_rn`/`__fadd_rn` or by
`-fmad=false`, where one fused multiply-add would do both.

**Why it costs.** `FMUL` and `FADD` take a slot each, and their latencies add; `FFMA` takes one slot, and
rounds once.

**Wrong**

```cuda
y = __fadd_rn(__fmul_rn(y, x), c);     // two instructions per term
```

**Right**

```cuda
y = fmaf(y, x, c);                     // one
```

**Evidence.** `FADD` in SASS whose operand the last `FMUL` to that register made, and what keeps them apart: the
intrinsics on the line, or the flag of the unit's own compile command. Counters tell how busy arithmetic and
issue were, and what warps stalled on: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** A tenth of the kernel's time in the bounded model. Results change in the last bit: where equal
results on the host are the purpose, suppress the finding.

**References.** CUDA C++ Programming Guide, "Intrinsic Functions"; NVIDIA, "Precision and Performance: Floating
Point and IEEE 754 Compliance for NVIDIA GPUs".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warplens_tools.cost.gain import removal_gain
from warplens_tools.cost.removal import cautious_floor
from warplens_tools.cuda.syntax.callees import called_code
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.evidence import BinaryEvidence, Instruction, Observation
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.place import hottest_place
from warplens_tools.micro.common.room import ARITHMETIC, ARITHMETIC_STALLS, DRAM, ISSUE, L1, L2, judge_by_room
from warplens_tools.sass.attribution import weights, written_line
from warplens_tools.sass.flow import analyse
from warplens_tools.view import KernelView

#: Speedup in the bounded model from which pairs are reported.
REPORTED = 1.1
#: Addition to the multiply whose result it may take.
_MULTIPLIES = {"FADD": "FMUL", "DADD": "DMUL"}
_APART = re.compile(r"__[fd](?:mul|add|sub)_r[nzud]")
_REGISTER = re.compile(r"R\d+")


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the line with the most such pairs."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is None or binary is None or not compiled.instructions:
        return
    flagged = is_flagged(binary)
    code = compiled.instructions
    lines = [written_line(x, view.model.path) for x in code]
    pairs = [i for i in unfused(code) if flagged or _is_apart(view, lines[i])]
    if not pairs:
        return
    flow = analyse(code)
    weight = weights(flow)
    gain = removal_gain(code, weight, pairs, view.gpu, cautious_floor(view, compiled, weight))
    if gain is None or gain.estimate < REPORTED:
        return
    place = hottest_place(view, compiled, flow, pairs)
    why = "-fmad=false" if flagged else "the rounding intrinsics"
    yield TOOL.finding(
        view,
        span=view.line_span(place.line),
        severity="warning",
        confidence="high",
        message=(
            f"{why} keep {len(pairs)} multiplies of {view.kernel.name} apart from the additions of their "
            "results: two instructions each instead of one fused multiply-add."
        ),
        guidance=(
            "Compile this unit without -fmad=false, or write fmaf where the last bit may differ."
            if flagged
            else "Write fmaf(a, b, c), or a * b + c, where results need not equal those of separate rounding."
        ),
        evidence=(
            Observation(
                "binary", binary.origin, "additions of a product in SASS", float(len(pairs)), "", 0.0
            ),
            Observation("binary", binary.origin, "kept apart by", why),
        ),
        gain=gain,
        related=place.related,
    )


def is_flagged(binary: BinaryEvidence) -> bool:
    """Whether the unit's own compile command forbids fusing."""
    flags = " ".join(binary.flags)
    return bool(re.search(r"-fmad[= ]false", flags))


def unfused(instructions: Sequence[Instruction]) -> list[int]:
    """Indices of additions that take the result of a multiply before them in the same straight code."""
    made: dict[str, str] = {}
    found = []
    for i, x in enumerate(instructions):
        if x.opcode in {"BRA", "BSYNC", "EXIT", "CALL", "RET"}:
            made.clear()
        used = {r for operand in x.operands[1:] for r in _REGISTER.findall(operand)}
        if any(made.get(r) == _MULTIPLIES.get(x.opcode, "-") for r in used):
            found.append(i)
        for r in _REGISTER.findall(x.operands[0]) if x.operands else ():
            made[r] = x.opcode
    return found


def _is_apart(view: KernelView, line: int | None) -> bool:
    """Whether the statement on the line spells rounding intrinsics, or calls a function that does.

    A formatter may have broken the statement, and what was inlined does not always keep its own line.
    """
    if line is None:
        return False
    near = range(max(line - 1, 1), min(line + 1, view.text.line_count) + 1)
    if any(_APART.search(view.text.line_text(n)) for n in near):
        return True
    return bool(_APART.search(called_code(parse_tree(view.text), view.text.line_text(line))))


TOOL = MicroTool(
    code="WL304",
    slug="non-fused-arithmetic",
    title="Multiplies and additions are kept from fusing",
    tiers=("binary",),
    relevant=("compute", "latency"),
    check=check,
    judge=judge_by_room(own=(*ARITHMETIC, *ISSUE), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2)),
)
