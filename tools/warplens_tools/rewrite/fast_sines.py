# SPDX-License-Identifier: Apache-2.0
"""fast-sines

Use the special function units' own sines, logarithms and powers.

`sinf`, `logf` and `powf` are forty to a hundred instructions, `__sinf` two. Sines near zero and logarithms near one
are off by some 2⁻²¹, however small they are; a sine of thousands has lost its digits.

```cuda
__global__ void wave(float* out, const float* phase, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sinf(phase[i]);
}
```

```cuda
__global__ void wave(float* out, const float* phase, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __sinf(phase[i]);
}
```

Only what is `float` changes, and functions of the device that the kernel alone calls change with it. The search tries
this where results of a lower precision may win: `optimize.lower-precision`.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.fast_calls import FastCalls
from warplens_tools.rewrite.common.reading import View, refusing

CAVEAT = "lower precision: errors of 2⁻²¹ beside results of any size, more for large arguments"
_FAST = {"logf": "__logf", "log2f": "__log2f", "log10f": "__log10f", "sinf": "__sinf", "cosf": "__cosf",
         "tanf": "__tanf", "powf": "__powf"}  # fmt: skip
#: What a call costs beside the memory's share of an element: a power some hundred instructions.
_COSTLY = {"pow": 1.0, "tan": 0.8, "sin": 0.5, "cos": 0.5, "log": 0.3, "log2": 0.3, "log10": 0.3}
_COSTLY_CALL = re.compile(rf"\b({'|'.join(_COSTLY)})f?\s*\(")
_LEAST = 0.15


def _apply(view: View, target: Target) -> RewriteResult:
    edits = FastCalls(view, TypeReader(view.forms, view.pointers), _FAST).edits(target)
    if not edits:
        raise Refused("no float here is a sine, a logarithm or a power")
    return RewriteResult(tuple(edits), title="Fast sines, logarithms and powers", caveat=CAVEAT)


def costly(code: str) -> float:
    """What faster functions are worth: much for a power or sines, little for one logarithm."""
    return max(_LEAST, min(1.0, sum(_COSTLY[m[1]] for m in _COSTLY_CALL.finditer(code))))


REWRITE = Rewrite(
    slug="fast-sines",
    title="Fast intrinsics for sines, logarithms and powers",
    apply=refusing(_apply),
    answers=("sfu-bound",),
    useless_at="dram",
    likely=costly,
    chance=0.5,
    gain=1.7,
    lowers=True,
    spares=True,
)
