# SPDX-License-Identifier: Apache-2.0
"""integer-in-double

**What.** An index or another integer is worked out in double precision from integers, and turned back.

**Why it costs.** Each costs two conversions, which run at a quarter of the rate of arithmetic or less, and
double-precision arithmetic, at half of its rate on a data-centre card and a sixty-fourth on others. The rounding that
is meant is exact in integers.

**Wrong**

```cuda
sum += in[(int)(i * 0.75 + 0.5)];
for (int x = first; x <= last; ++x) out[x + (int)ceil(n / 2.0)] += w[x];
```

**Right**

```cuda
sum += in[(3 * i + 2) >> 2];
int half = (n + 1) / 2;                     // before the loop
```

**Evidence.** Expressions over integers and double literals that are cast to an integer, set an integer variable or are
rounded; where SASS is at hand, a conversion from double.

**Threshold.** One in a loop, or three. It is information.

**References.** CUDA C++ Programming Guide, "Arithmetic Instructions"; CUDA C++ Best Practices Guide, "Type
Conversions".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.integer_in_double import integers_in_double
from warplens_tools.finding import Finding, count
from warplens_tools.micro.base import MicroTool

#: Such expressions outside of loops from which they are worth a word.
MANY = 3
_CONVERSIONS = frozenset({"F2I", "F2F", "I2F", "FRND"})


class IntegerInDouble(MicroTool):
    """Integers worked out in double precision."""

    code = "WL311"
    slug = "integer-in-double"
    title = "Integers are worked out in double precision"
    avoid = "Do not change which way the result is rounded, nor let the product overflow the integer."
    rule_words = "FP64|double|XU"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first in a loop."""
        found = integers_in_double(self.view.tree, self.view.kernel)
        looped = [f for f in found if f.looped]
        if not looped and len(found) < MANY:
            return
        if self.sass and not self.sass.where(lambda x: x.opcode in _CONVERSIONS):
            return
        first = (looped or found)[0]
        text = " ".join(self.view.said(first.span).split())
        yield self.finding(
            first.span,
            severity="information",
            confidence="medium",
            message=(
                f"Integer worked out in double precision: {text}, with a conversion each way"
                f"{' in each iteration' if looped else ''}; {count(len(found), 'such expression')} in this kernel."
            ),
            guidance=(
                "Do it in integers: multiply by a whole number and shift or divide, (n + 1) / 2 for the half rounded "
                "up; what no loop changes goes before it."
            ),
            evidence=(self.view.observe("integers worked out in double", float(len(found)), tier="source"),),
        )
