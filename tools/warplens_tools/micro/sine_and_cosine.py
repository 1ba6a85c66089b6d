# SPDX-License-Identifier: Apache-2.0
"""sine-and-cosine

**What.** The sine and the cosine of one angle are computed by two calls.

**Why it costs.** Both functions begin alike: they find the quadrant of the angle and what is left of it, for large
angles (beyond 105615 in float) in a loop over a table of the bits of 2/π. In all but the small angles of float the
compiler does that twice, and it never shares the polynomials' common parts. `sincosf` needs 30 instructions where the
two calls need 46, and goes through the loop for large angles once.

**Wrong**

```cuda
float c = cosf(angle), s = sinf(angle);
```

**Right**

```cuda
float c, s;
sincosf(angle, &s, &c);
```

**Evidence.** The calls and their common angle in the source, in statements of one block; where SASS is at hand, the
arithmetic and branches on their lines, weighed by their loops, against the cycles of every pipe and of memory.

**Threshold.** A gain of a tenth in the bounded model; where nothing is compiled, any such pair. The gain counts small
angles alone. Of each pair it takes away 16 of 46 instructions in float, 18 of 64 in double, and of sines of multiples
of π 15 of 45 and 10 of 60 (nvcc 13.0, sm_90); in double also the loads of the polynomials' coefficients, which the one
call has in its code. What `-use_fast_math` made intrinsics is silent: they share nothing.

**References.** CUDA C++ Best Practices Guide, "Math Libraries"; CUDA C++ Programming Guide, "Mathematical Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.sine_pairs import SinePair, sine_pairs
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.evidence import Instruction
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.gain import evenly, removal_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_arithmetic
from warplens_tools.rewrite.sine_with_cosine import REWRITE
from warplens_tools.sass.pipes import access_bytes, pipe_of, space_of

#: Of the two calls: the conversions to the number of the quadrant, the instructions, and how many of these the one call
#: spares (nvcc 13.0 for sm_90; `usual_on` the line of the calls alone, and of the one call).
COSTS = {
    "sincosf": (1, 46, 16),
    "sincospif": (2, 45, 15),
    "sincos": (2, 64, 18),
    "sincospi": (2, 60, 10),
}
#: In double each of the two loads the coefficients of its polynomial, sine's or cosine's by the quadrant; the one call
#: has both in its code.
TABLE_LOADS, TABLE_BYTES = 3, 16
_OTHERS = frozenset({"lsu", "uniform", "tensor", "other"})


class SineAndCosine(MicroTool):
    """Sines and cosines of one angle."""

    code = "WL317"
    slug = "sine-and-cosine"
    title = "Sine and cosine of one angle by two calls"
    avoid = (
        "Do not join a sine and a cosine of angles that differ by then: one that is loaded again after a "
        "store, or changed in between."
    )
    rule_words = "FP64|pipeline is the highest"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")
    judges = (judge_by_arithmetic,)

    def check(self) -> Iterator[Finding]:
        """One finding per angle, on the first of its calls."""
        expanded = kernel_tree(self.view.tree, self.view.kernel)
        if expanded is None:
            return
        for pair in sine_pairs(expanded, self.view.kernel):
            found = self._judged(expanded, pair)
            if found is not None:
                yield found

    def _judged(self, expanded: KernelTree, pair: SinePair) -> Finding | None:
        """What is said of a pair; None where the compiler made intrinsics of it, or little would be won."""
        spans = [expanded.tree.span(call) for call in pair.calls]
        lines = {span.line for span in spans}
        here = [i for line in lines for i in self._instructions(line)]
        gain = self._gain(self._spared(pair, lines, here))
        if self.sass and (gain is None or gain.estimate < self.worth):
            return None
        said = " and ".join(dict.fromkeys(" ".join(self.view.said(span).split()) for span in spans))
        seen = self.view.observe("calls for one angle", float(len(spans)), tier="source")
        counted = self.view.observe(
            "instructions of arithmetic and branches on their lines", float(len(here))
        )
        cost = f": {len(here)} instructions on their lines" if here else ""
        return self.finding(
            spans[0],
            severity="warning" if gain is not None else "information",
            confidence="medium",
            message=f"{said} reduce one angle apart{cost}.",
            guidance=f"Let {pair.function} compute both from the angle at once.",
            evidence=(seen, counted) if self.sass else (seen,),
            gain=gain,
            fixes=self.fixes_of(REWRITE, lines=(spans[0].line,)),
        )

    def _gain(self, spared: list[int]) -> Gain | None:
        """What is won if they are gone, with the cycles of the memory levels that the tables took."""
        traffic, floor = self.view.traffic.cycles(), self.view.traffic.cycles(self.sass.without(spared))
        tables = {name: cycles - floor[name] for name, cycles in traffic.items()}
        return removal_gain(self.sass, spared, floor, tables)

    def _instructions(self, line: int) -> list[int]:
        """Arithmetic and branches of a line without what only large angles take."""
        return self.sass.usual_on(line, lambda x: pipe_of(x) not in _OTHERS)

    def _spared(self, pair: SinePair, lines: set[int], here: list[int]) -> list[int]:
        """What the one call spares: so many for each copy that unrolling made, evenly over all; and the tables."""
        conversions, apart, spared = COSTS[pair.function]
        found = sum(len(self.sass.on_line(line, lambda x: x.opcode == "F2I")) for line in lines)
        share = min(spared / apart, found / conversions * spared / max(len(here), 1))
        tables = [i for line in lines for i in self.sass.usual_on(line, _is_of_table)]
        return [*evenly(here, share), *tables[: found * TABLE_LOADS * (pair.type == "double")]]


def _is_of_table(instruction: Instruction) -> bool:
    return space_of(instruction) == "global" and access_bytes(instruction) == TABLE_BYTES
