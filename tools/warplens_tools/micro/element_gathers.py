# SPDX-License-Identifier: Apache-2.0
"""element-gathers

**What.** A thread takes the neighbouring elements of a chosen place one by one: the two features of a grid's corner,
the channels of a pixel, the coordinates of a point.

**Why it costs.** Lanes are at places of their own, so that each load is a request of up to 32 sectors; a vector load of
the elements is one such request, a load for each is as many. Where scattered loads bind the kernel, it takes as many
times as long.

**Wrong**

```cuda
unsigned at = slot(position) * 2;
for (int c = 0; c < 2; ++c) sum[c] += w * grid[at + c];
```

**Right**

```cuda
float2 both = reinterpret_cast<const float2 *>(grid)[slot(position)];
```

**Evidence.** Loops whose length is a constant or a template's parameter, with a read at their variable beside a place
that comes of loaded data or of a function, or reads at constant offsets from such a place; where SASS is at hand, loads
of single elements on the line.

**Threshold.** Two to sixteen elements of a loop, three at constant offsets. It is information: whether the elements are
aligned to a vector the text does not say.

**References.** NVIDIA Technical Blog, "CUDA Pro Tip: Increase Performance with Vectorized Memory Access".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.element_gathers import ElementGather, element_gathers
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.scalar_access import ScalarAccess
from warplens_tools.sass.pipes import access_bytes

#: Bytes of a load that takes several elements.
_VECTOR = 8


class ElementGathers(MicroTool):
    """Neighbouring elements of a chosen place are taken one by one."""

    code = "WL125"
    slug = "element-gathers"
    title = "Neighbouring elements of a chosen place are loaded one by one"
    avoid = "Do not cast to a vector type what is not aligned to it."
    rule_words = "vector|wider|sector"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such read."""
        found = [g for g in element_gathers(self.view.tree, self.view.kernel) if self._are_single(g)]
        if not found:
            return
        first = found[0]
        if any(f.line == first.span.line for f in ScalarAccess.told(self.view)):
            return
        yield self.finding(
            first.span,
            severity="information",
            confidence="low",
            message=(
                f"Gather by single elements: {self.view.said(first.span)} takes {first.count} neighbouring elements of "
                f"{first.name} one by one from a place that each lane's data choose, a scattered request for each."
            ),
            guidance=(
                f"Take them in one vector load (float2, float4, half2, where {first.name} is aligned to it): one "
                "scattered request brings them all."
            ),
            evidence=(self.view.observe("reads of single elements", float(len(found)), tier="source"),),
            index_query="vectorized copy alignment 128 bit",
        )

    def _are_single(self, gather: ElementGather) -> bool:
        """Whether SASS, where it is at hand, has loads on the line and none of a vector."""
        if not self.sass:
            return True
        loads = self.sass.on_line(gather.span.line, lambda x: x.opcode == "LDG")
        vector = max(_VECTOR, 2 * (self.view.element_bytes(gather.name) or 0))
        return bool(loads) and all(access_bytes(self.sass.instructions[i]) < vector for i in loads)
