# SPDX-License-Identifier: Apache-2.0
"""library-functions

**What.** Functions of the mathematical library in their precise forms (sines, powers, logarithms, remainders) are most
of what a kernel executes.

**Why it costs.** They are software: `sinf` takes some twenty instructions and a loop for large arguments, `powf` and
`atan2f` fifty and more, the same in double twice as many, and `fmod` divides digit by digit, as often as the quotient
has bits.

**Wrong**

```cuda
for (int i = 0; i < samples; ++i) {
    double phase = fmod(start + step * i, period);
    sum += signal[i] * cos(phase);
}
```

**Right**

```cuda
for (int i = 0; i < samples; ++i) {
    sum += signal[i] * c;
    double turned = c * cos_step - s * sin_step;      // the rotation by one step, worked out before the loop
    s = s * cos_step + c * sin_step; c = turned;
}
```

**Evidence.** SASS: the instructions on the lines that call such functions, as often as they run, without what accesses
memory.

**Threshold.** Two fifths of what the kernel executes, with 16 instructions a call (24 in double) or more, where memory
does not take longer even if the caches serve what they can; in a loop, or 80 instructions of a kernel without loops;
and where sfu-bound, double-in-float-kernel, double-bound and repeated-work say nothing. It is information: how many
digits are wanted is the user's.

**References.** CUDA C++ Programming Guide, "Mathematical Functions", "Arithmetic Instructions"; CUDA C++ Best Practices
Guide, "Math Libraries".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from warplens_tools.cuda.facts.library_calls import library_calls
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.double_bound import DoubleBound
from warplens_tools.micro.double_in_float_kernel import DoubleInFloatKernel, is_double
from warplens_tools.micro.repeated_work import RepeatedWork
from warplens_tools.micro.sfu_bound import SfuBound
from warplens_tools.sass.pipes import space_of

#: Share of the executed instructions from which they are told.
MOST = 0.4
#: Instructions of a call, in float and in double, from which it is one of the library's precise functions.
FLOAT, DOUBLE = 16, 24
#: Instructions of such calls from which a kernel without loops has many.
MANY = 80
_OTHERS = (SfuBound, DoubleInFloatKernel, DoubleBound, RepeatedWork)
_SHOWN = 4


class LibraryFunctions(MicroTool):
    """Precise functions of the mathematical library are most of a kernel."""

    code = "WL316"
    slug = "library-functions"
    title = "Precise functions of the library are most of what the kernel executes"
    avoid = (
        "Do not use an intrinsic where the argument may be large or the last digits count; do not let a "
        "recurrence run on without setting it anew."
    )
    rule_words = "FP64|XU|pipeline is the highest|transcendental"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose functions weigh most."""
        found = self._lines() if self.sass else {}
        if not found:
            return
        times = {line: self._times(own) for line, own in found.items()}
        own = [i for indices in found.values() for i in indices]
        spent = sum(times.values())
        share = spent / (self.sass.weigh(range(len(self.sass.instructions))) - self.sass.weigh(own) + spent)
        waits = max(self.view.traffic.cycles().values(), default=0.0)
        if share < MOST or waits > max(self.sass.cycles.values()) or not self._is_much(found, spent):
            return
        if any(tool.told(self.view) for tool in _OTHERS):
            return
        ranked = sorted((x for x in found if times[x] >= spent / 10), key=lambda line: (-times[line], line))
        place = self.hottest_place(found[ranked[0]])
        names = dict.fromkeys(
            name for line in ranked for name in library_calls(self.view.text.line_text(line))
        )
        double = self._is_double(own) and not all(name.endswith("f") and name != "erf" for name in names)
        yield self.finding(
            place.line,
            related=(
                *place.related,
                *(RelatedSpan(self.view.line_span(line), "and here") for line in ranked[1:_SHOWN]),
            ),
            severity="information",
            confidence="medium",
            message=(
                f"Precise functions of the library ({', '.join(names)}){' in double' if double else ''}: the lines "
                f"that call them are {share:.0%} of what the kernel executes."
            ),
            guidance=_guidance(set(names), double=double),
            evidence=(
                self.view.observe("instructions on the lines that call them", float(len(own))),
                self.view.observe("their share of the executed instructions", round(share, 2), "", MOST),
            ),
        )

    def _lines(self) -> dict[int, list[int]]:
        """By line the instructions of such calls: none that access memory, or of slow paths."""
        code = self.sass.instructions
        found: dict[int, list[int]] = {}
        for i, line in enumerate(self.sass.written):
            if line is not None and space_of(code[i]) is None and self.sass.weights[i] >= 1.0:
                found.setdefault(line, []).append(i)
        return {line: own for line, own in found.items() if self._are_calls(line, own)}

    def _is_much(self, found: dict[int, list[int]], spent: float) -> bool:
        """Whether a loop calls them, or a thread does much of nothing else."""
        flow = self.sass.flow
        if any(self._depth(own) for own in found.values()):
            return True
        loops = any(flow.depths[i] for i in range(len(flow.depths)) if i not in flow.rare)
        return spent >= MANY and not loops

    def _times(self, own: Sequence[int]) -> float:
        """How often they run in all, where each runs no more often than the line is come to: how many turns a loop of
        the function's own makes hangs on its argument."""
        depths, weights = self.sass.flow.depths, self.sass.weights
        called_at = self._depth(own)
        most = max(weights[i] for i in own if depths[i] == called_at)
        return sum(min(weights[i], most) for i in own)

    def _depth(self, own: Sequence[int]) -> int:
        """How many loops are around the calls: what was taken out of one stands less deep, and is little."""
        by_depth = Counter(self.sass.flow.depths[i] for i in own)
        return min((d for d, n in by_depth.items() if n >= FLOAT // 2), default=max(by_depth))

    def _are_calls(self, line: int, own: Sequence[int]) -> bool:
        calls = library_calls(self.view.text.line_text(line))
        return bool(calls) and len(own) >= (DOUBLE if self._is_double(own) else FLOAT) * len(calls)

    def _is_double(self, own: Sequence[int]) -> bool:
        return any(is_double(self.sass.instructions[i]) for i in own)


def _guidance(names: set[str], *, double: bool) -> str:
    plain = {name.removesuffix("f") if name != "erf" else name for name in names}
    cures = ["Evaluate once what many iterations or threads share, before the loop or in a table"]
    if plain & {"sin", "cos", "sincos"}:
        cures.append(
            "turn a sine and cosine by a fixed step with four products instead of evaluating them anew"
        )
    if {"sin", "cos"} <= plain:
        cures.append("take both of one argument by one sincos")
    if "pow" in plain:
        cures.append("write small whole powers as products")
    if plain & {"fmod", "remainder"}:
        cures.append("keep the phase in range by a subtraction, or as an integer that wraps")
    cures.append(
        "where few digits are wanted, reduce the argument in double and evaluate in float"
        if double
        else "where few digits are wanted and arguments are small, intrinsics (__sinf, __powf) take one or two"
    )
    return "; ".join(cures) + "."
