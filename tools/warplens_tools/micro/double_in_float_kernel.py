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

**Threshold.** Any double arithmetic in a kernel that keeps and stores no `double`, nor takes more than a factor of it;
information where it hides
behind memory, below a gain of 1.05 in the bounded model. With SASS at hand, literals that the compiler folded away
are not reported, nor is double arithmetic of which nothing is rounded to float or compared, nor what the math
library does for huge angles. Counters that show the FP64 pipe below 5 % of its peak withdraw it.

**References.** CUDA C++ Programming Guide, "Arithmetic Instructions" (throughput table); CUDA C++ Best
Practices Guide, "Math Libraries" and "Other Arithmetic Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.cuda.facts.double_uses import DoubleUse, double_uses
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.evidence import CompiledKernel, Instruction, Observation
from warplens_tools.finding import Confidence, Finding, RelatedSpan
from warplens_tools.lazily import cached_property
from warplens_tools.machine.gain import replacement_gain
from warplens_tools.micro.base import MicroTool, Place
from warplens_tools.micro.common.judges import (
    ARITHMETIC_STALLS,
    DRAM,
    ISSUE,
    L1,
    L2,
    judge_by_metric,
    judge_by_room,
)
from warplens_tools.rewrite.float_literals import REWRITE
from warplens_tools.sass.registers import registers_of

#: SASS opcodes of double arithmetic and the float opcodes that would do the same work.
_FLOAT_OPCODES = {"DADD": "FADD", "DMUL": "FMUL", "DFMA": "FFMA", "DSETP": "FSETP", "DMNMX": "FMNMX"}
#: A double that is passed by value.
_SCALAR = re.compile(r"(?:const\s+)?double(?:\s+const)?")
#: The names of a declaration of doubles.
_DECLARED = re.compile(r"\bdouble\s+(\w[^;()]*);")
_WIDE_NAME = re.compile(r"\b(?:std::)?double_t\b")
#: Use of the FP64 pipe, per cent of its peak, below which double precision cost the launch nothing that shows.
FP64_USED = 5.0


class DoubleInFloatKernel(MicroTool):
    """Double arithmetic in a float kernel."""

    code = "WL301"
    slug = "double-in-float-kernel"
    title = "Double arithmetic in a float kernel"
    avoid = "Do not change the type of results or accumulators that are double on purpose."
    rule_words = "FP64|double"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")
    #: Speedup in the bounded model from which it is more than information: what hides behind memory costs no time.
    worth = 1.05
    judges = (
        judge_by_metric(names.COMPUTE_PIPES["FP64"], least=FP64_USED),
        judge_by_room(own=("FP64", *ISSUE), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2)),
    )

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose double arithmetic weighs most."""
        if self.uses_double_data():
            return
        uses = double_uses(self.view.tree, self.view.kernel)
        most = max(
            (
                tool
                for tool in self.instances()
                if tool.view.compiled and not _holds_double(tool.view.compiled)
            ),
            key=lambda tool: len(tool.double_indices),
            default=None,
        )
        if most is None or not most.sass:
            if uses:
                yield self._from_source(uses)
        elif most.double_indices and most._is_rounded() and not most._computes_loaded():
            yield most._from_binary(uses)

    def uses_double_data(self) -> bool:
        """Whether the kernel handles double on purpose: it points to or keeps doubles, or has no instantiation without
        them. A factor that it is passed as a double is no data."""
        kernel, compiled = self.view.kernel, self.view.evidence.compiled
        passed = [p.type for p in kernel.parameters if p.pointer or not _SCALAR.fullmatch(p.type.strip())]
        types = [*passed, *(a.element_type for a in kernel.arrays)]
        if _WIDE_NAME.search(self.view.body):
            return True  # `double_t` is written by who wants one.
        return any("double" in t for t in types) or (bool(compiled) and all(map(_holds_double, compiled)))

    def _is_for_both(self) -> bool:
        """Whether there are instantiations of double beside others, which a literal with a suffix would round."""
        return any(map(_holds_double, self.view.evidence.compiled))

    @cached_property
    def double_indices(self) -> list[int]:
        """Indices of double arithmetic and of conversions to and from it, but for what the math library does itself."""
        rare = self.sass.flow.rare
        return [i for i in self.sass.where(is_double) if i not in rare]

    def _computes_loaded(self) -> bool:
        """Whether doubles come from memory, and nothing is converted to or from float: the data is double, in records
        whose fields the kernel's parameters do not show."""
        code = self.sass.instructions
        if any(x.opcode == "F2F" and "F32" in x.modifiers for x in code):
            return False
        loaded = set[str]()
        for x in code:
            written, read = registers_of(x)
            if x.opcode in _FLOAT_OPCODES and loaded & read:
                return True
            loaded = loaded | written if x.opcode == "LDG" and "64" in x.modifiers else loaded - written
        return False

    def _is_rounded(self) -> bool:
        """Whether any of it ends as a float, an integer or a comparison: what stays double until it is stored is
        wanted."""
        code = [self.sass.instructions[i] for i in self.double_indices]
        return any(
            x.opcode in ("DSETP", "F2I") or (x.opcode == "F2F" and "F32" in x.modifiers[:1]) for x in code
        )

    def _from_source(self, uses: Sequence[DoubleUse]) -> Finding:
        """nvcc computes the simplest cases in float by itself, so the text alone is no proof."""
        first = uses[0]
        seen = self.view.observe("double operand in float arithmetic", first.text, tier="source")
        sure: Confidence = "medium" if first.kind == "call" else "low"
        return self._finding(uses, Place(first.span.line), (seen,), sure, "")

    def _from_binary(self, uses: Sequence[DoubleUse]) -> Finding:
        doubles, see = self.double_indices, self.view.observe
        in_loop = sum(1 for i in doubles if self.sass.flow.depths[i])
        ratio = round(self.gpu.rates.fp64_fma / self.gpu.rates.fp32_fma, 4)
        seen = (
            see("double instructions", float(len(doubles)), "", 0.0, "the data is float"),
            see("double instructions in loops", float(in_loop)),
            Observation("binary", self.gpu.arch, "rate of double against float", ratio),
        )
        looped = f", {in_loop} of them in loops" if in_loop else ""
        detail = f": {len(doubles)} double instructions{looped}"
        found = self._finding(uses, self.hottest_place(doubles), seen, "high", detail)
        floor = self.view.traffic.cycles()
        waits = self.view.waiting.floors(lambda _, x: _as_float(x))
        gain = replacement_gain(self.sass, self.sass.weights, lambda _, x: _as_float(x), floor, waits)
        busiest = max(self.sass.cycles.values())
        hidden = gain.estimate < self.worth and max(floor.values(), default=0.0) >= busiest
        severity = "information" if hidden else found.severity
        return msgspec.structs.replace(found, gain=gain, severity=severity)

    def _factors(self, line: int | None) -> str:
        """The parameters of a line that are passed as doubles, else its variables that are declared so, in words; ""
        where there are none."""
        written = set(re.findall(r"\w+", self.view.text.line_text(line))) if line is not None else set()
        factors = [p.name for p in self.view.kernel.parameters if _SCALAR.fullmatch(p.type.strip())]
        expanded = kernel_tree(self.view.tree, self.view.kernel)
        code = expanded.tree.code_of(expanded.function.body) if expanded is not None else ""
        variables = [n for d in _DECLARED.findall(code) for n in re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", d)]
        for kind, names_of in (("parameter", factors), ("variable", variables)):
            named = ", ".join(dict.fromkeys(name for name in names_of if name in written))
            if named:
                return f"the double {kind} {named}"
        return ""

    def _loaded(self, line: int | None) -> str:
        """What a line reads of global memory that is double there, as written; "" where nothing is: a scalar that is
        made float beside it changes nothing."""
        code = self.sass.instructions
        loads = [
            i for i in self.sass.global_on(line) if code[i].opcode == "LDG" and "64" in code[i].modifiers
        ]
        taken = {r for i in self.double_indices for r in registers_of(code[i])[1]}
        if not any(registers_of(code[i])[0] & taken for i in loads):
            return ""
        read = [a for a in self.view.global_accesses if a.reads and a.span.line == line]
        fields = [a for a in read if a.member or a.element_type == "double"]
        return ", ".join(dict.fromkeys(self.view.said(a.span) for a in fields))

    def _finding(
        self,
        uses: Sequence[DoubleUse],
        place: Place,
        seen: tuple[Observation, ...],
        confidence: Confidence,
        detail: str,
    ) -> Finding:
        here = [use for use in uses if use.span.line == place.line]
        loaded = self._loaded(place.line) if self.sass and not here else ""
        named = ", ".join(dict.fromkeys(use.text for use in here)) or (
            f"{loaded}, double in memory," if loaded else self._factors(place.line) or "an expression"
        )
        others = [use for use in uses if use.span.line != place.line][:8]
        return self.finding(
            here[0].span if len(here) == 1 else place.line,
            severity="warning" if confidence != "low" else "information",
            confidence=confidence,
            message=f"{self.view.kernel.name} handles float data but {named} makes it compute in double{detail}.",
            guidance=(
                f"Keep {loaded} as float in memory where the digits are not needed, which halves what is read of it "
                "too, or convert it once where it is loaded and compute on in float."
                if loaded
                else "Give literals the type that the kernel is made for (T(0.5), not 0.5) and call the functions of "
                "that type; keep double only where the extra digits are needed."
                if self._is_for_both()
                else "Write float literals with the suffix f and call the float functions (sqrtf, expf, powf); "
                "keep double only where the extra digits are needed, and then only for the accumulator."
            ),
            evidence=seen,
            fixes=() if self._is_for_both() else self.fixes_of(REWRITE),
            related=(*place.related, *(RelatedSpan(use.span, f"{use.text} is double") for use in others)),
        )


def _holds_double(compiled: CompiledKernel) -> bool:
    """Whether a template argument of an instantiation is double, or a parameter points to doubles."""
    name, _, taken = compiled.demangled.partition("(")
    return "double" in name or any(
        "double" in p and p.strip() != "double" for p in taken.rstrip(")").split(",")
    )


def is_double(instruction: Instruction) -> bool:
    """Whether the instruction computes in, or converts to or from, double."""
    if instruction.opcode in _FLOAT_OPCODES:
        return True
    if instruction.opcode in {"F2F", "F2I", "I2F", "FRND"}:
        return "F64" in instruction.modifiers
    return instruction.opcode == "MUFU" and any(m.endswith("64H") for m in instruction.modifiers)


def _as_float(instruction: Instruction) -> Instruction | None:
    """The float instruction that does the same work; conversions disappear."""
    if instruction.opcode in _FLOAT_OPCODES:
        return msgspec.structs.replace(instruction, opcode=_FLOAT_OPCODES[instruction.opcode])
    if is_double(instruction) and instruction.opcode == "F2F":
        return None
    return instruction
