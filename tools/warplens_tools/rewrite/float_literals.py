# SPDX-License-Identifier: Apache-2.0
"""float-literals

Compute in float what a double literal turns into double.

`x * 0.3` with a float `x` is a double multiplication: two conversions and an instruction that runs at
1/64 of the float rate on consumer GPUs (and half of it on H100). The suffix `f` keeps it in float.

```cuda
__global__ void gelu(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = in[i];
    float inner = 0.7978845608 * (x + 0.044715 * pow(x, 3));
    out[i] = 0.5 * x * (1.0 + tanh(inner));
  }
}
```

```cuda
__global__ void gelu(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = in[i];
    float inner = 0.7978845608f * (x + 0.044715f * powf(x, 3));
    out[i] = 0.5f * x * (1.0f + tanh(inner));
  }
}
```

Constants such as `M_PI` and macros that hold a literal become `float(M_PI)`. Left alone: arithmetic
with a variable declared `double` or a cast to it, since that is on purpose, and operands whose type
the file does not tell. Where the data are no floats, as in a fractal that counts, only loops of floats are changed.
"""

from __future__ import annotations

from warplens_tools.cuda.facts.double_uses import double_uses, has_float_data
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.text import SourceText, TextEdit

CAVEAT = "double arithmetic becomes float: results may differ in the last digits"


def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Give the double constants on `target.lines` (all when empty) the type of the kernel's data."""
    del model
    uses = [
        u for u in double_uses(parse_tree(text), kernel) if not target.lines or u.span.line in target.lines
    ]
    if not has_float_data(
        kernel
    ):  # what is rounded to integers once, outside of loops, stays as exact as it was
        uses = [u for u in uses if u.repeated]
        if not uses:
            return RewriteResult(
                refused="the kernel's data is not float, and no loop of floats computes in double"
            )
    edits = tuple(TextEdit(use.span, use.replacement) for use in uses if use.replacement)
    if edits:
        return RewriteResult(edits, title="Compute in float", caveat=CAVEAT)
    if uses:
        return RewriteResult(refused="double is declared here, or the types of its operands are not known")
    return RewriteResult(refused="nothing here computes in double")


REWRITE = Rewrite(
    slug="float-literals",
    title="Compute in float instead of double",
    apply=apply,
    answers=("double-in-float-kernel",),
    useless_at="dram",
    chance=0.6,
    gain=1.8,
    spares=True,
)
