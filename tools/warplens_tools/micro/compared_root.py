# SPDX-License-Identifier: Apache-2.0
"""compared-root

**What.** A square root, or a quotient, is worked out in a loop, and all that is done with it is a comparison.

**Why it costs.** A root or a division of IEEE precision is an instruction of the special-function pipe, at a quarter of
the rate of arithmetic or less, with some eight to ten more that refine it and a branch for odd arguments. The
comparison asks the same of the squares, or of the product with the divisor.

**Wrong**

```cuda
if (sqrtf(dx * dx + dy * dy) < radius) ++near;
if (overlap / (area + other - overlap) > threshold) suppressed = true;
```

**Right**

```cuda
if (dx * dx + dy * dy < radius * radius) ++near;
if (overlap > threshold * (area + other - overlap)) suppressed = true;     // the divisor is positive
```

**Evidence.** Calls of roots and divisions of floating-point values whose only use is a comparison, in the kernel's
loops or in functions of its file that a loop calls; where SASS is at hand, a MUFU instruction.

**Threshold.** None: it is information. The results differ only where both sides are equal to the last bit.

**References.** CUDA C++ Programming Guide, "Mathematical Functions"; CUDA C++ Best Practices Guide, "Math Libraries".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.compared_only import Compared, compared_only
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class ComparedRoot(MicroTool):
    """A root or a quotient that is only compared."""

    code = "WL310"
    slug = "compared-root"
    title = "A root or a quotient is worked out only to be compared"
    avoid = (
        "Do not multiply by a divisor whose sign is not known; do not square a bound that may be negative."
    )
    rule_words = "XU|transcendental|pipeline is the highest"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first of them."""
        if self.sass and not self.sass.where(lambda x: x.opcode == "MUFU"):
            return
        found = compared_only(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        text = " ".join(self.view.said(first.span).split())
        place = f" in {first.function}" if first.function else ""
        yield self.finding(
            first.span,
            severity="information",
            confidence="medium",
            message=(
                f"{'Square root' if first.kind == 'root' else 'Division'} only compared: {text}{place} is used by "
                f"comparisons alone{self._others(found)}."
            ),
            guidance=(
                "Compare the squares: leave out the root and square what it is compared with, once, before the loop."
                if first.kind == "root"
                else "Multiply instead: compare the dividend with the bound times the divisor, whose sign is known."
            ),
            evidence=(
                self.view.observe("roots and quotients only compared", float(len(found)), tier="source"),
            ),
        )

    def _others(self, found: tuple[Compared, ...]) -> str:
        return f", like {len(found) - 1} more" if len(found) > 1 else ""
