# SPDX-License-Identifier: Apache-2.0
"""tensor-cores-unused

**What.** A tiled product of `half` or `bfloat16` matrices multiplies element by element on the ordinary
arithmetic pipes.

**Why it costs.** Tensor cores multiply these types 8 to 16 times as fast, and take their operands from shared
memory in far fewer accesses.

**Wrong**

```cuda
for (int k = 0; k < 16; ++k)
    sum += __half2float(a[row][k]) * __half2float(b[k][column]);
```

**Right**

```cuda
wmma::load_matrix_sync(left, &a[row][0], 16);
wmma::load_matrix_sync(right, &b[0][column], 64);
wmma::mma_sync(sum, left, right, sum);         // or a CuTe tiled MMA
```

**Evidence.** In SASS, multiply-adds of two 16-bit values that their loop loads, or that the kernel widened when it
stored them into shared memory, and no tensor instruction in it. They belong to matrices where values meet several
others each, as in a tile held in registers, or where the source shows it: a loop in which two shared arrays of
16-bit floating point are read at indices that its counter moves, or two global ones of which one is read by rows
and the other by columns. Counters tell how busy arithmetic and issue were, and what warps stalled on: they confirm
the finding, bound its gain, or withdraw it.

**Threshold.** A fifth of the kernel's time in the bounded model: a product that waits for memory is not reported.
Products of `float` are left alone, as TF32 would drop 13 bits of them.

**References.** CUDA C++ Programming Guide, "Warp Matrix Functions"; PTX ISA, "Warp Level Matrix Multiply-Accumulate
Instructions"; CuTe, "MMA Atoms".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.evidence import Instruction
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import (
    ARITHMETIC,
    ARITHMETIC_STALLS,
    DRAM,
    ISSUE,
    L1,
    L2,
    judge_by_room,
)
from warplens_tools.sass.fp16_products import Products, fp16_products
from warplens_tools.sass.pipes import pipe_of, space_of

#: Shared-memory cycles of a product on tensor cores over those of one on registers: a matrix load brings
#: four 8 x 8 matrices for a warp where ordinary loads bring a row's element to each thread.
SHARED_SHARE = 0.25
_TYPES = frozenset(
    {"half", "__half", "__nv_bfloat16", "nv_bfloat16", "half2", "__half2", "__nv_bfloat162", "nv_bfloat162"}
)


class TensorCoresUnused(MicroTool):
    """A product of 16-bit matrices leaves the tensor cores idle."""

    code = "WL305"
    slug = "tensor-cores-unused"
    title = "A product of 16-bit matrices leaves the tensor cores idle"
    avoid = (
        "Do not lower the precision of results without leave; do not use tensor cores for sizes that fill no "
        "tile."
    )
    tiers = ("binary",)
    relevant = ("compute", "memory", "latency")
    #: Speedup in the bounded model from which a product is reported.
    worth = 1.2
    judges = (judge_by_room(own=(*ARITHMETIC, *ISSUE, *L1), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L2)),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the products that weigh most."""
        if not self.sass or not self.gpu.rates.tensor_fma or self.sass.where(is_matrix):
            return
        found = fp16_products(self.sass.instructions, self.sass.flow)
        if not found:
            return
        worst = max(found, key=lambda p: self.sass.weigh(p.products))
        tiles = self.matrix_tiles()
        if not worst.is_outer and not tiles:
            return
        ratio, sure = self._ratio(worst)
        if ratio < (self.worth if sure else self.doubtful):
            return
        place = self.hottest_place(worst.products)
        both = " and ".join(tiles or self._halves()) or "16-bit values"
        yield self.finding(place.line,
            severity="warning" if sure else "information",
            confidence="medium" if sure else "low",
            message=(
                f"The product of {both} takes {len(worst.products)} ordinary multiply-adds in "
                f"{self.view.kernel.name}; the "
                f"tensor cores of {self.gpu.name} are not used."
            ),
            guidance=(
                f"Multiply the tiles of {both} with wmma or a CuTe tiled MMA, accumulating in float: products "
                "of 16-bit "
                "values are exact there, only the order of the sums changes."
            ),
            evidence=(
                self.view.observe("multiply-adds of 16-bit values that the loop loads",
                            float(len(worst.products))),
                self.view.observe("different values multiplied", float(worst.values)),
                self.view.observe("tensor instructions", 0.0),
            ),
            gain=Gain.of(ratio, 2.0 * ratio),
            related=place.related,
            index_query="tiled MMA half precision GEMM mainloop",
        )  # fmt: skip

    def matrix_tiles(self) -> tuple[str, ...]:
        """Names of two 16-bit arrays that one loop of the kernel multiplies as matrices; () where it has none.

        Both move with a counter of the loop. Tiles in shared memory are there to be used more than once; of arrays in
        global memory each must also move with a thread or block index that the other does not: a row and a column.
        """
        read = [a for a in self.view.accesses if a.reads and not a.writes and _is_half(a)]
        for a, b in itertools.combinations(read, 2):
            if a.name != b.name and _counters(a) & _counters(b) and _are_crossed(a, b):
                return a.name, b.name
        return ()

    def _halves(self) -> tuple[str, ...]:
        """The kernel's shared arrays of 16-bit floating point, else its parameters that point to such."""
        shared = [a.name for a in self.view.kernel.arrays if a.space == "shared" and a.element_type in _TYPES]
        passed = [
            p.name for p in self.view.kernel.parameters if p.pointer and p.const and p.element_type in _TYPES
        ]
        return tuple((shared or passed)[:2])

    def _ratio(self, found: Products) -> tuple[float, bool]:
        """Bounded time as it is over that with the products at the tensor cores' rate, their values loaded as matrices;
        and whether memory surely leaves room for it.

        Tiles in shared memory that make an outer product are read again by every block of their row or column, so that
        caches serve them; of other operands the source has to tell.
        """
        rates = self.gpu.rates
        faster = rates.fp32_fma / rates.tensor_fma.get("fp16", rates.fp32_fma)
        after = list(self.sass.weights)
        for i in (*found.products, *found.widening):
            after[i] *= faster
        shared = [i for i in found.loads if space_of(self.sass.instructions[i]) == "shared"]
        for i in shared:
            after[i] *= SHARED_SHARE
        cached = found.is_outer and len(shared) == len(found.loads)
        return self.ratio_above_memory(self.sass.cycles, self.sass.cycles_at(after), cached=cached)


def is_matrix(instruction: Instruction) -> bool:
    """Whether it multiplies matrices; HFMA2.MMA is an ordinary packed multiply-add on another path."""
    return pipe_of(instruction) == "tensor" and instruction.opcode.endswith("MMA")


def _is_half(access: ArrayAccess) -> bool:
    declared = access.declared.element_type if access.declared is not None else access.element_type
    return declared.removeprefix("const ").strip() in _TYPES


def _are_crossed(a: ArrayAccess, b: ArrayAccess) -> bool:
    if a.space == b.space == "shared":
        return True
    return bool(_lanes(a) - _lanes(b)) and bool(_lanes(b) - _lanes(a))


def _lanes(access: ArrayAccess) -> set[str]:
    """Thread and block indices that move the access."""
    return (
        set()
        if access.index is None
        else {s.name for s in access.index.symbols if s.kind in ("thread", "block")}
    )


def _counters(access: ArrayAccess) -> set[str]:
    """Counters of the loops around that move the access."""
    index = access.index
    if index is None:
        return set()
    return {loop.counter for loop in access.loops if loop.counter and index.mentions(loop.counter)}
