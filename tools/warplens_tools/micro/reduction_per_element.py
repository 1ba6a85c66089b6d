# SPDX-License-Identifier: Apache-2.0
"""reduction-per-element

**What.** The lanes of a warp put an element or two of each of them together by shuffles, once for the kernel, or in
every iteration of a loop.

**Why it costs.** A tree over a warp is five exchanges, each of which waits some twenty cycles for the one before, for
31 additions: one lane alone adds as much in as many instructions. With one element a lane the tree takes longer than
what it adds up, and nothing is loaded meanwhile; the atomic or the store behind it comes once for each 32 elements.

**Wrong**

```cuda
float v = x[blockIdx.x * blockDim.x + threadIdx.x];         // one element
for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
if (threadIdx.x % 32 == 0) atomicAdd(sum, v);
```

**Right**

```cuda
float v = 0.f;
for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);     // once for all of them
// sums that differ from iteration to iteration: several at once, turned through shared memory, a lane for each
```

**Evidence.** SASS: exchanges of a tree (over 16, 8, 4, 2 and 1 lanes, not to chosen ones) in an innermost loop or in a
kernel whose loads stand in no loop; the loads beside them, and all instructions there.

**Threshold.** Five exchanges with no more than two loads for every five, and no more than eight instructions for each
exchange (twelve outside loops, where the kernel's start is among them). It is information: how many elements there are
is not known. Where element-between-barriers or barrier-heavy speak, nothing is said.

**References.** Luitjens, "Faster Parallel Reductions on Kepler" (NVIDIA, 2014); Harris, "Optimizing Parallel Reduction
in CUDA"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.finding import Finding
from warplens_tools.micro.barrier_heavy import BarrierHeavy
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.element_between_barriers import ElementBetweenBarriers

#: Exchanges of a tree over a warp, and loads for each such tree up to which there is little to add up.
TREE, LOADS = 5, 2
#: Instructions for each exchange up to which the tree is most of what is done: in a loop, and in a kernel without.
IN_LOOP, ALONE = 8, 12
#: The distances of a tree over a warp.
DISTANCES = (16, 8, 4, 2, 1)
_HALVES = frozenset({"DOWN", "BFLY"})
_OTHERS = (ElementBetweenBarriers, BarrierHeavy)


class ReductionPerElement(MicroTool):
    """A tree of shuffles for an element or two of each lane."""

    code = "WL227"
    slug = "reduction-per-element"
    title = "A warp adds up an element or two of each lane by shuffles"
    avoid = (
        "Do not add up in one register what belongs to different results; keep all lanes in a shuffle's mask."
    )
    rule_words = "shuffle|LSU|stall|latency"
    tiers = ("binary",)
    relevant = ("latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel: of the loop where most is exchanged, else of the kernel."""
        if not self.sass or any(tool.told(self.view) for tool in _OTHERS):
            return
        flow, every = self.sass.flow, range(len(self.sass.instructions))
        scopes = [flow.instructions_of(loop) for loop in flow.innermost_loops]
        found = [(body, IN_LOOP) for body in scopes if self._is_tree(body, IN_LOOP)]
        looped = any(flow.depths[i] for i in (*self._loads(every), *self._exchanges(every)))
        usual = [i for i in every if i not in flow.rare]
        if not found and not looped and self._is_tree(usual, ALONE):
            found = [(usual, ALONE)]
        if not found:
            return
        body, _ = max(found, key=lambda f: self.sass.weigh(self._exchanges(f[0])))
        exchanges, loads = self._exchanges(body), self._loads(body)
        place = self.hottest_place(exchanges)
        where = "every iteration of this loop" if flow.depths[exchanges[0]] else "this kernel"
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                f"A tree for each element: {where} puts what {_counted(loads)} of each lane brought together by "
                f"{len(exchanges)} exchanges one after the other, which take longer than what they add up."
            ),
            guidance=(
                "Let each lane take several elements (a grid-stride loop, vectors of 16 bytes) and add them up in its "
                "own register first, so that one tree, and one atomic of the block, serves all of them; where each "
                "iteration has a sum of its own, keep them, turn them through shared memory, and let a lane add "
                "up each."
            ),
            evidence=(
                self.view.observe("exchanges of trees", float(len(exchanges)), "", float(TREE)),
                self.view.observe("loads beside them", float(len(loads))),
            ),
            index_query="warp shuffle reduction",
        )

    def _is_tree(self, body: Sequence[int], most: int) -> bool:
        """Whether trees over little are most of what some instructions do."""
        exchanges = len(self._exchanges(body))
        if exchanges < TREE or len(body) > most * exchanges:
            return False
        return 0 < len(self._loads(body)) <= LOADS * exchanges / TREE

    def _exchanges(self, body: Sequence[int]) -> list[int]:
        """The exchanges over distances that halve; none where a tree has not each of them."""
        code, found = self.sass.instructions, dict[int, list[int]]()
        for i in body:
            if code[i].opcode == "SHFL" and _HALVES.intersection(code[i].modifiers):
                found.setdefault(_distance(code[i]), []).append(i)
        trees = min(len(found.get(distance, [])) for distance in DISTANCES)
        return sorted(i for distance in DISTANCES for i in found.get(distance, [])[:trees])

    def _loads(self, body: Sequence[int]) -> list[int]:
        code = self.sass.instructions
        return [i for i in body if code[i].opcode in ("LDG", "LD", "LDS")]


def _distance(exchange: Instruction) -> int:
    """How far the other lane is, in lanes; 0 where no constant tells."""
    told = next((o for o in exchange.operands if o.startswith("0x")), "")
    return int(told, 16) if told else 0


def _counted(loads: Sequence[int]) -> str:
    return "one load" if len(loads) == 1 else f"{len(loads)} loads"
