# SPDX-License-Identifier: Apache-2.0
"""sine-with-cosine

Compute the sine and the cosine of one angle by one call.

Both begin by finding the quadrant of the angle and what is left of it, for large angles in a loop over a table of the
bits of 2/π. `sincosf` does that once. Its error bound is that of the two (CUDA C++ Programming Guide, "Mathematical
Functions").

```cuda
__global__ void turn(float2* p, const float* angles, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float angle = angles[i];
  float c = cosf(angle), s = sinf(angle);
  float2 q = p[i];
  p[i] = make_float2(c * q.x - s * q.y, s * q.x + c * q.y);
}
```

```cuda
__global__ void turn(float2* p, const float* angles, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float angle = angles[i];
  float c, s;
  sincosf(angle, &s, &c);
  float2 q = p[i];
  p[i] = make_float2(c * q.x - s * q.y, s * q.x + c * q.y);
}
```

Where the calls stand in larger expressions, the values get names in front of the first statement. `sinpif` and `cospif`
are taken as well, and all of these of double. Left alone: calls that a test stands before, an angle that is computed by
a call, that is declared in the same statement, or that may change between the calls, and functions of the file that
have these names.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.facts.sine_pairs import SinePair, sine_pairs
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, refusing
from warplens_tools.rewrite.common.statements import KernelEdits


def _apply(view: View, target: Target) -> RewriteResult:
    edits = KernelEdits(view.text, view.expanded)
    for pair in sine_pairs(view.expanded, view.kernel):
        asked = not target.lines or any(view.span(call).line in target.lines for call in pair.calls)
        if asked and pair.settled:
            _compute_both(view, edits, pair)
    made = edits.edits()
    if not made:
        raise Refused("no sine and cosine are taken of one angle that stays the same between them")
    return RewriteResult(
        made, title="Sine and cosine by one call", caveat="results may differ in the last digit"
    )


def _compute_both(view: View, edits: KernelEdits, pair: SinePair) -> None:
    """One call in the place of a pair's."""
    declared = _declared(view, pair)
    if declared is not None:
        sine, cosine = (view.code(name) for name in declared)
        for name in declared:
            if name.parent is not None:
                edits.replace(name.parent, view.code(name))
        edits.after(pair.first, _call(view, pair, sine, cosine))
        return
    sine, cosine = edits.fresh_here("sine"), edits.fresh_here("cosine")
    edits.before(pair.first, f"{pair.type} {sine}, {cosine};", _call(view, pair, sine, cosine))
    sines = {call.id for call in pair.sines}
    for call in pair.calls:
        edits.replace(call, sine if call.id in sines else cosine)


def _call(view: View, pair: SinePair, sine: str, cosine: str) -> str:
    return f"{pair.function}({view.written(pair.angle)}, &{sine}, &{cosine});"


def _declared(view: View, pair: SinePair) -> tuple[Node, Node] | None:
    """The names of the sine and the cosine where a declaration is of them alone: `float c = cosf(a), s = sinf(a);`."""
    if pair.first.type != "declaration" or (len(pair.calls), len(pair.sines)) != (2, 1):
        return None
    kind, *declarators = pair.first.named_children
    names = {v.id: n for one in declarators for n, v in _initialised(one)}
    both = [names.get(call.id) for call in pair.calls]
    first, second = both
    if view.code(kind) != pair.type or len(declarators) != len(both) or first is None or second is None:
        return None
    return (first, second) if pair.calls[0].id == pair.sines[0].id else (second, first)


def _initialised(declarator: Node) -> Iterator[tuple[Node, Node]]:
    """The variable of `c = cosf(a)` with its value; nothing of other declarators."""
    name, value = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("value")
    if name is not None and value is not None and name.type == "identifier":
        yield name, value


REWRITE = Rewrite(
    slug="sine-with-cosine",
    title="Sine and cosine by one call",
    apply=refusing(_apply),
    answers=("sine-and-cosine", "sfu-bound", "library-functions", "double-bound"),
    useless_at="dram",
    chance=0.5,
    gain=1.2,
    spares=True,
)
