# SPDX-License-Identifier: Apache-2.0
"""sfu-bound

**What.** Special functions (exponential, logarithm, sine, reciprocal, square root) and conversions need the
special-function unit longer than anything else in the kernel.

**Why it costs.** The unit takes 16 lanes a cycle per SM, an eighth of the multiply-add rate on recent
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

**Evidence.** `MUFU`, `F2I`, `I2F`, `F2F` and their like in SASS, weighed by their loops, against the cycles of
every other pipe and of memory.
Functions in full precision (`sinf`, `powf`) hardly touch the unit: theirs are the instructions on the lines that call
them in loops, against those of the intrinsics.

**Threshold.** A tenth more cycles than the next resource, every unknown access counted as DRAM traffic; or 60 % of
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
from warplens_tools.evidence import Instruction
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.gain import bound_ratio, replacement_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import (
    ARITHMETIC_STALLS,
    DRAM,
    L1,
    L2,
    busy,
    judge_by_arithmetic,
    judge_by_metric,
    judge_by_room,
)
from warplens_tools.micro.double_in_float_kernel import is_double
from warplens_tools.micro.integer_division import is_reciprocal
from warplens_tools.roofline.measured import NEAR_ROOF
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.registers import registers_of

#: Cycles of the special-function unit over those of the next resource: the margin that Nsight Compute asks
#: of a leading unit (10 %).
LEAD = 1.1
#: Cycles of the special-function unit over those of the next resource from which its functions are looked at with what
#: prepares their arguments (Nsight Compute calls a unit busy from 60 %), and the gain from which they are named then.
NEAR, AROUND = 0.6, 1.5
#: Instructions of the unit that convert, which are no functions: nothing is combined or replaced by a recurrence.
_CONVERSIONS = frozenset({"F2I", "I2F", "F2F", "I2I", "FRND"})
#: What takes a special function's place: a step of a recurrence, or of a polynomial.
_MULTIPLICATION = Instruction(0, "FMUL", (), ())
_CALL = re.compile(r"\b(?:__)?\w*(?:exp|log|sin|cos|tan|pow|sqrt|cbrt|rcp|div|erf)\w*(?=\s*\()")
#: What is seen of functions in full precision.
SOFTWARE = "instructions of functions in full precision"
#: Use of the XU pipe, per cent of its peak, below which special functions are not what bounds a launch.
XU_BUSY = 30.0
#: Functions that have an intrinsic, in their precise forms.
_PRECISE = re.compile(r"(?<![\w.>])((?:std::)?(?:sin|cos|tan|sincos|log|log2|log10|pow)f?)(?=\s*\()")
#: Instructions of such a form per instruction of the unit that the intrinsic takes: 16 for logf and cosf, 40 for the
#: two of sincosf, 90 for powf's three (nvdisasm of sm_75 to sm_100).
PER_SPECIAL = 20.0


class SfuBound(MicroTool):
    """Special functions bound the kernel."""

    code = "WL302"
    slug = "sfu-bound"
    family = "functions in full precision"
    title = "Special functions bound the kernel"
    avoid = "Do not replace functions by less precise ones beyond what the comparison of results allows."
    rule_words = "XU|transcendental|special function|pipeline is the highest"
    tiers = ("binary",)
    relevant = ("compute", "latency")
    #: Speedup in the bounded model from which functions in full precision are reported.
    worth = 1.3
    judges = (
        judge_by_metric(names.COMPUTE_PIPES["XU"], least=XU_BUSY),
        judge_by_room(own=("XU",), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2)),
    )

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose special functions weigh most."""
        if not self.sass:
            return
        floor = self.view.traffic.pessimistic_cycles
        cycles = self.sass.cycles | floor
        rest = max(v for k, v in cycles.items() if k != "sfu")
        indices = self.special_indices()
        share = self.sass.weigh(indices)
        every = self.sass.weigh(self.sass.where(lambda x: pipe_of(x) == "sfu"))
        lead = cycles.get("sfu", 0.0) * share / every / rest if indices else 0.0
        gain = self._gain(indices, floor) if lead >= NEAR else None
        if gain is not None and self._are_conversions(indices):
            yield from self._conversions(indices, lead)
            return
        if gain is None or (lead < LEAD and gain.estimate < AROUND):
            yield from self._precise()
            return
        place = self.hottest_place(indices)
        line = place.line
        named = ", ".join(dict.fromkeys(_CALL.findall(self.view.text.line_text(line)))) if line else ""
        named = named or ", ".join(dict.fromkeys(_printed(self.sass.instructions[i]) for i in indices))
        why = "a leading unit" if lead >= LEAD else "a busy unit"
        yield self.finding(line,
            confidence="high" if lead >= LEAD else "medium",
            message=(
                f"{named} keep the special-function unit of {self.view.kernel.name} busy "
                f"{lead:.1f} times as long as any other resource."
                if lead >= LEAD
                else f"{named} and the arithmetic that only prepares them take most of "
                f"{self.view.kernel.name}'s instructions."
            ),
            guidance=(
                "Compute fewer of them: move what the loop does not change out of it, replace a value at equal steps "
                "by a recurrence, combine exponentials (exp(a) * exp(b) = exp(a + b)), or compute a part as a "
                "polynomial on the multiply-add pipe."
            ),
            evidence=(
                self.view.observe("special-function instructions", float(len(indices))),
                self.view.observe("special-function cycles over the next resource",
                                  round(lead, 2), "", LEAD if lead >= LEAD else NEAR, why),
            ),
            gain=gain,
            related=place.related,
        )  # fmt: skip

    def _are_conversions(self, indices: Sequence[int]) -> bool:
        """Whether most of what the unit does is to convert between integers and floating point."""
        code = self.sass.instructions
        converting = self.sass.weigh([i for i in indices if code[i].opcode in _CONVERSIONS])
        return 2.0 * converting > self.sass.weigh(indices)

    def _conversions(self, indices: Sequence[int], lead: float) -> Iterator[Finding]:
        """Conversions: what prepares them stays, and the next unit is as busy as it is."""
        if lead < LEAD:
            return
        place = self.hottest_place(indices)
        named = ", ".join(dict.fromkeys(_printed(self.sass.instructions[i]) for i in indices))
        yield self.finding(
            place.line,
            severity="warning" if lead >= self.worth else "information",
            confidence="medium",
            message=(
                f"Conversions between integers and floating point ({named}) keep the special-function unit of "
                f"{self.view.kernel.name} busy {lead:.1f} times as long as any other resource."
            ),
            guidance=(
                "Convert once outside the loop and keep the value in one type: count and index in integers, hold "
                "positions in floats, take bytes apart with __byte_perm, and sum products of bytes with __dp4a."
            ),
            evidence=(
                self.view.observe("conversions", float(len(indices))),
                self.view.observe("special-function cycles over the next resource", round(lead, 2), "", LEAD),
            ),
            gain=Gain.of(lead, lead),
            related=place.related,
        )

    def _precise(self) -> Iterator[Finding]:
        """Functions in full precision: computed on the ordinary pipes, where the unit has an instruction for each."""
        indices = self.precise_indices()
        if not indices:
            return
        ratio = self._intrinsic_ratio(indices)
        if ratio < self.worth:
            return
        place = self.hottest_place(indices)
        named = ", ".join(precise_calls(self.view.text.line_text(place.line or 1)))
        yield self.finding(
            place.line,
            confidence="medium",
            message=(
                f"{named} in full precision takes {len(indices)} instructions in the loops of "
                f"{self.view.kernel.name}, for what "
                "the special-function unit does in one or two each."
            ),
            guidance=(
                "Where an error of some 1e-6 will do, bring the argument near zero and call the intrinsic "
                "(__sinf, __cosf, "
                "__sincosf, __logf, __powf), or compile with -use_fast_math; for equal steps use a "
                "recurrence, and move "
                "what the loop does not change out of it."
            ),
            evidence=(
                self.view.observe("functions in full precision", named, tier="source"),
                self.view.observe(SOFTWARE, float(len(indices))),
            ),
            gain=Gain.of(ratio, ratio),
            related=place.related,
        )

    def verify(self, finding: Finding) -> Finding | None:
        """By the special-function unit where that bounds it; by all arithmetic for what is computed in its place."""
        if any(seen.metric == SOFTWARE for seen in finding.evidence):
            return judge_by_arithmetic(self.view.evidence, finding)
        return super().verify(finding)

    def _gain(self, indices: Sequence[int], floor: Mapping[str, float]) -> Gain:
        """A multiplication in place of each special function, and nothing of what only prepares their arguments."""
        special = frozenset(indices)
        scaled = _scalings(self.sass.instructions, special)
        gone = self.sass.feeding(special | scaled) | scaled

        def replaced(i: int, x: Instruction) -> Instruction | None:
            return None if i in gone else _MULTIPLICATION if i in special else x

        return replacement_gain(self.sass, self.sass.weights, replaced, floor)

    def special_indices(self) -> list[int]:
        """Instructions of the special-function unit that belong to no integer division and to no double arithmetic."""
        written = self.sass.written
        dividing = {written[i] for i in self.sass.where(is_reciprocal)}
        own = self.sass.where(lambda x: pipe_of(x) == "sfu" and not is_double(x))
        return [i for i in own if written[i] not in dividing]

    def precise_indices(self) -> list[int]:
        """Arithmetic in loops on the lines that call such functions, without what only huge angles take.

        Where a line computes in double, that is another cause.
        """
        flow, written = self.sass.flow, self.sass.written
        double = {written[i] for i in self.sass.where(lambda x: pipe_of(x) == "fp64") if i not in flow.rare}
        lines = {n for n in set(written) - double if n is not None}
        calling = {n for n in lines if precise_calls(self.view.text.line_text(n))}
        arithmetic = self.sass.where(lambda x: pipe_of(x) in ("fp32", "int", "alu", "sfu"))
        return [i for i in arithmetic if written[i] in calling and flow.depths[i]]

    def _intrinsic_ratio(self, indices: Collection[int]) -> float:
        """Bounded time as it is over that with an instruction of the unit, and one beside it, for every
        `PER_SPECIAL`."""
        after = self.sass.cycles_at(self.sass.without(indices))
        specials = self.sass.weigh(frozenset(indices)) / PER_SPECIAL
        after["sfu"] = after.get("sfu", 0.0) + specials * self.gpu.limits.warp_size / self.gpu.rates.sfu
        after["issue"] += 2.0 * specials / self.gpu.limits.schedulers
        floor = self.view.traffic.pessimistic_cycles
        return bound_ratio(self.sass.cycles | floor, after | floor)

    def check_counters(self) -> Iterator[Finding]:
        """A special-function unit that was seen busier than any other: on the line that gives it most."""
        found = self.view.counted
        shares = {} if found is None else busy(found.counters)
        own = shares.get("XU", 0.0)
        rest = max((share for unit, share in shares.items() if unit != "XU"), default=0.0)
        if found is None or own < NEAR_ROOF or own < LEAD * rest:
            return
        line = found.line_of(
            [i for i in self.special_indices() if i < len(found.lines)], names.PER_INSTRUCTION[0]
        )
        yield self.finding(
            line,
            confidence="high",
            message=f"The special-function unit was busy {own:.0%} of the time, any other unit at most {rest:.0%}.",
            guidance=(
                "Compute fewer of them: move what the loop does not change out of it, replace a value at equal steps "
                "by a recurrence, combine exponentials, or compute a part as a polynomial on the multiply-add pipe."
            ),
            evidence=(found.counters.seen("busy share of the next unit", rest, own / LEAD),),
            gain=Gain.of(own / max(rest, 0.1), own / max(rest, 0.1)),
        )


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


def precise_calls(text: str) -> tuple[str, ...]:
    """The functions in full precision that a line calls, each once."""
    return tuple(dict.fromkeys(_PRECISE.findall(text)))


def _printed(instruction: Instruction) -> str:
    return ".".join((instruction.opcode, *instruction.modifiers[:1]))
