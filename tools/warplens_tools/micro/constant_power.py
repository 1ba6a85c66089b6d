# SPDX-License-Identifier: Apache-2.0
"""constant-power

**What.** `powf` or `pow` raises a value to a small whole or half exponent that the text fixes.

**Why it costs.** The function serves every exponent: a logarithm, a product and an exponential in extended precision,
some hundred instructions. A whole power of 20 is five multiplications.

**Wrong**

```cuda
energy += powf(r, 12.0f);
```

**Right**

```cuda
float r2 = r * r, r4 = r2 * r2;
energy += r4 * r4 * r4;                    // and sqrtf for an exponent of 0.5
```

**Evidence.** The call and its exponent in the source; in SASS, the arithmetic on its line, weighed by its loops,
against the cycles of every pipe and of memory.

**Threshold.** Twenty instructions on the line: what the compiler made products itself is silent. A tenth of the
kernel's time in the bounded model; exponents up to 64.

**References.** CUDA C++ Best Practices Guide, "Exponentiation With Small Fractional Arguments".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.finding import Finding, count
from warplens_tools.machine.gain import removal_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.arithmetic import arithmetic_on
from warplens_tools.micro.common.judges import judge_by_arithmetic
from warplens_tools.rewrite.constant_power import REWRITE

#: Instructions on a line from which the function was called, and the largest exponent that products are better for.
CALLED, LARGEST = 20, 64
_CALL = re.compile(
    r"(?<![\w.>])(?:std::)?powf?\s*\(((?:[^(),]|\((?:[^()]|\([^()]*\))*\))+),\s*([-+]?\d+(?:\.(?:0*|50*))?(?:[eE]0+)?[fF]?)\s*\)"
)


class ConstantPower(MicroTool):
    """Powers with a small constant exponent."""

    code = "WL307"
    slug = "constant-power"
    title = "A power with a constant exponent"
    avoid = "Do not replace a power whose exponent the text does not fix; do not lower the precision of one."
    rule_words = "XU|transcendental|FP64|pipeline is the highest"
    tiers = ("binary",)
    relevant = ("compute", "latency")
    family = "functions in full precision"
    judges = (judge_by_arithmetic,)

    def check(self) -> Iterator[Finding]:
        """One finding per line with such a call, those of the kernel's own text."""
        body, floor = self.view.kernel.body, self.view.traffic.cycles()
        for line in range(body.line, body.end_line + 1) if self.sass else ():
            call = _CALL.search(self.view.text.line_text(line))
            exponent = abs(float(call[2].rstrip("fF"))) if call is not None else 0.0
            if call is None or (not 1.0 < exponent <= LARGEST and exponent != 0.5):
                continue
            here = arithmetic_on(self.sass, line)
            gain = removal_gain(self.sass, here, floor)
            if len(here) < CALLED or gain is None or gain.estimate < self.worth:
                continue
            yield self.finding(
                line,
                confidence="medium",
                message=(
                    f"{call[0]} takes {len(here)} instructions for a constant exponent; {_cheaper(exponent)}."
                ),
                guidance=(
                    "Write the power as products (square, and multiply by what is left), with sqrtf "
                    "or rsqrtf for a half "
                    "and one division for a negative exponent."
                ),
                evidence=(
                    self.view.observe("constant exponent", call[2], tier="source"),
                    self.view.observe(
                        "arithmetic instructions on the line", float(len(here)), "", float(CALLED)
                    ),
                ),
                gain=gain,
                fixes=self.fixes_of(REWRITE, lines=(line,)),
            )


def _cheaper(exponent: float) -> str:
    whole = int(exponent)
    products = whole.bit_length() - 1 + bin(whole).count("1") - 1
    root = " and a square root" if exponent != whole else ""
    return f"{count(products, 'multiplication')}{root} {'do' if products > 1 or root else 'does'}"
