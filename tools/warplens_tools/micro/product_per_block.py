# SPDX-License-Identifier: Apache-2.0
"""product-per-block

**What.** A block works out one element of a product: its threads multiply a row that one number of the block chooses by
a row that another one chooses, and add up over the block.

**Why it costs.** Every row is loaded again by each of the blocks that need it, two loads for a multiply-add, and the
block ends in a reduction with barriers for a single number. A block that works out a tile of results loads each element
once for all results of its row or column.

**Wrong**

```cuda
float p = a[blockIdx.y * n + threadIdx.x] * b[blockIdx.x * n + threadIdx.x];   // one result a block
p = reduce_block(p);
if (threadIdx.x == 0) c[blockIdx.y * gridDim.x + blockIdx.x] = p;
```

**Right**

```cuda
__shared__ float as[64][17], bs[64][17];           // 64 x 64 results a block, 4 x 4 a thread
...                                                 // or cublasSgemm
```

A block that works out one row of a product loads the whole other matrix for it: one load and one multiply-add a thread,
over and over. Several rows a block share what it loads.

**Evidence.** Two loads of global memory that move with the thread, each with a number of the block (an axis of the
grid, a quotient or a remainder of one) that the other's index does not hold; a store by few threads whose index holds
both. Or two loads of one loop, of which one moves with the thread and the other with a number of the block alone, and a
store that moves with both.

**Threshold.** None: it is information, for how many rows there are is not known. A row a block is not told where
missing-cache-reuse speaks.

**References.** CUDA C++ Programming Guide, "Shared Memory" (matrix multiplication); CUTLASS, "Efficient GEMM in CUDA".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.values.forms import Form
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.missing_cache_reuse import MissingCacheReuse
from warplens_tools.text import Span

_LANE = "threadIdx.x"
#: Iterations of a loop from which what a block goes through in it is a matrix.
_MANY = 32


class ProductPerBlock(MicroTool):
    """A block for each element of a product."""

    code = "WL131"
    slug = "product-per-block"
    title = "A block for each element of a product"
    avoid = (
        "Do not drop the sum over the block before each thread sums its own results; do not tile where a row "
        "serves one result alone."
    )
    rule_words = "L1|L2|barrier"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel."""
        yield from list(self._elements()) or self._rows()

    def _rows(self) -> Iterator[Finding]:
        """A block for each row of a product."""
        pair = _row_and_matrix(self.view.global_accesses)
        shape = self.view.shape
        if pair is None or (shape is not None and shape.blocks == 1) or MissingCacheReuse.told(self.view):
            return
        row, matrix = pair
        yield self.finding(
            matrix.span,
            severity="information",
            confidence="low",
            message=(
                f"A block for one row: each block goes through {matrix.name} again for the row of {row.name} that it "
                "has, a load for each multiply-add of a thread."
            ),
            guidance=(
                f"Let a block take several rows of {row.name} (sums of each thread's own in registers), so that an "
                f"element of {matrix.name} that is loaded serves them all, from tiles in shared memory; a product of "
                "matrices is cuBLAS' work."
            ),
            evidence=(self.view.observe("loads for each multiply-add of a thread", 1.0, tier="source"),),
            related=(RelatedSpan(row.span, "the row"),),
            index_query="tiled matrix multiplication shared memory",
        )

    def _elements(self) -> Iterator[Finding]:
        """A block for each element of a product."""
        reads = [a for a in self.view.global_accesses if _moves(a)]
        for write in self.view.global_accesses:
            if not write.writes or write.index is None or write.index.mentions(_LANE):
                continue
            pair = _rows(reads, _axes(write.index))
            if pair is None:
                continue
            first, second = pair
            yield self.finding(
                first.span,
                severity="information",
                confidence="low",
                message=(
                    f"A block for one result: {first.name} and {second.name} are each loaded again by all blocks that "
                    f"need the row, two loads a multiply-add, and the block adds up a single element of {write.name}."
                ),
                guidance=(
                    "Let a block work out a tile of results, several a thread, from tiles of both operands in shared "
                    "memory: each element loaded then serves as many results; a product of matrices is cuBLAS' work."
                ),
                evidence=(self.view.observe("numbers of the block that choose rows", 2.0, tier="source"),),
                related=(RelatedSpan(second.span, "the other row"), RelatedSpan(write.span, "the result")),
                index_query="tiled matrix multiplication shared memory",
            )
            return


def _row_and_matrix(accesses: Sequence[ArrayAccess]) -> tuple[ArrayAccess, ArrayAccess] | None:
    """Two loads of the innermost loop around both: of what one number of the block chooses, alike for its threads, and
    of what moves with the thread and not with that number; the kernel stores by both."""
    known = [a for a in accesses if a.index is not None and not a.few and not a.atomic]
    moved = (a.index for a in known if a.writes and a.index is not None and a.index.mentions(_LANE))
    stored = frozenset[str]().union(*map(_axes, moved))
    reads = [a for a in known if a.reads and not a.writes and a.loops and _goes_along(a)] if stored else []
    rows: dict[Span, list[tuple[ArrayAccess, frozenset[str]]]] = {}
    for row in reads:
        own = _axes(row.index) & stored if row.index is not None else frozenset()
        if own and row.index is not None and not any(s.kind == "thread" for s in row.index.symbols):
            rows.setdefault(row.loops[-1].span, []).append((row, own))
    for matrix in reads:
        beside = rows.get(matrix.loops[-1].span, ()) if _is_beside(matrix.index) else ()
        held = _axes(matrix.index) if beside and matrix.index is not None else frozenset()
        pair = next((row for row, own in beside if own - held and row.name != matrix.name), None)
        if pair is not None:
            return pair, matrix
    return None


def _goes_along(access: ArrayAccess) -> bool:
    """Whether the innermost loop around it, of many iterations, moves it."""
    loop = access.loops[-1]
    many = loop.trips is None or loop.trips >= _MANY
    counter = loop.counter or f"{loop.variable}@{loop.offset}"
    return many and access.index is not None and access.index.mentions(counter)


def _is_beside(index: Form | None) -> bool:
    """Whether neighbouring lanes load neighbouring elements."""
    growth = index.growth(_LANE) if index is not None else None
    return growth is not None and growth.value == 1


def _moves(access: ArrayAccess) -> bool:
    return access.reads and not access.writes and access.index is not None and access.index.mentions(_LANE)


def _of_block(index: Form | None) -> frozenset[str]:
    """The numbers of the block in an index: axes of the grid, quotients and remainders of them."""
    return frozenset(
        symbol.name
        for symbols, _ in (index.terms if index is not None else ())
        for symbol in symbols
        if _axes(Form((((symbol,), 1),))) and not symbol.mentions(_LANE)
    )


def _axes(index: Form) -> frozenset[str]:
    """The axes of the grid that an index hangs on."""
    return frozenset(s.name for s in index.symbols if s.kind == "block")


def _rows(reads: list[ArrayAccess], axes: frozenset[str]) -> tuple[ArrayAccess, ArrayAccess] | None:
    """Two loads of which each has a number of the block that the other has not, and neither says which block it is, as
    both together do."""
    parts = [(a, _of_block(a.index), _axes(a.index)) for a in reads if a.index is not None]
    for first, own, from_first in parts:
        for second, other, from_second in parts:
            apart = first.name != second.name and own - other and other - own
            if apart and from_first | from_second == axes and not (axes <= own or axes <= other):
                return first, second
    return None
