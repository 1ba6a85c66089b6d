# SPDX-License-Identifier: Apache-2.0
"""fragment-loads

**What.** The loop of a product on tensor cores loads its fragments straight from global memory.

**Why it costs.** A fragment is a tile of 16 by 16 elements that one warp uses once: for each product of two tiles two
are loaded, through the L1 or the L2, by every warp of the block, though the warps of a row of tiles want the same
ones. The lanes of a load take short pieces of 16 rows, and the product waits for them in each step. Tensor cores need
many products for each byte that is loaded.

**Wrong**

```cuda
for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(a, A + row * k + i, k);      // global memory, for one product
    wmma::load_matrix_sync(b, B + col * k + i, k);
    wmma::mma_sync(c, a, b, c);
}
```

**Right**

```cuda
// the block copies tiles of A and B to shared memory (cp.async, two buffers by turns); each warp loads its fragments
// from there and multiplies several of A with several of B: 4 x 2 accumulators take 8 products for 6 fragments
```

**Evidence.** `load_matrix_sync` of a pointer into global memory in a loop with `mma_sync`.

**Threshold.** None. It is information: how large the matrices are is not always known.

**References.** CUDA C++ Programming Guide, "Warp Matrix Functions"; CUTLASS, "Efficient GEMM in CUDA".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.fragment_loads import fragment_loads
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class FragmentLoads(MicroTool):
    """Tensor-core fragments are loaded from global memory."""

    code = "WL133"
    slug = "fragment-loads"
    title = "Tensor-core fragments are loaded from global memory for each product"
    avoid = (
        "Do not change the layout of a fragment (row_major, col_major) with its tile; do not let rows of a "
        "shared tile begin on one bank."
    )
    rule_words = "L1|cache|shared|tensor"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such load."""
        found = fragment_loads(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        names = ", ".join(dict.fromkeys(f.name for f in found))
        yield self.finding(
            first.span,
            severity="information",
            confidence="medium",
            message=(
                f"Fragments from global memory: each step of the loop of line {first.loop.line} loads tiles of {names} "
                "for this warp alone and waits for them before the tensor cores have work."
            ),
            guidance=(
                f"Let the block stage tiles of {names} in shared memory (cp.async, two buffers by turns) and load "
                "fragments from there; give each warp several accumulators, so that a fragment serves several products."
            ),
            evidence=(
                self.view.observe(
                    "fragment loads from global memory in loops", float(len(found)), tier="source"
                ),
            ),
            index_query="tensor core gemm shared memory pipeline",
        )
