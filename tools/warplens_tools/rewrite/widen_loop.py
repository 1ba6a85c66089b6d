# SPDX-License-Identifier: Apache-2.0
"""widen-loop

Let the threads that walk data together take several neighbouring elements at a time, 8 or 16 bytes in one load.

Threads that stride over a row or over the grid's data load one element an iteration: 2 bytes of half, 4 of float.
With vectors the loop has a quarter or an eighth of the iterations and loads, and each keeps as much more on the way.
What does not fill a vector, or is not aligned, is done one by one.

```cuda
__global__ void row_sums(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) {
    sum += row[j];
  }
  atomicAdd(&out[blockIdx.x], sum);
}
```

```cuda
constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void row_sums(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float sum = 0.0f;
  for (int first = kVector * threadIdx.x; first < cols; first += kVector * blockDim.x) {
    if (first + kVector <= cols &&
        reinterpret_cast<size_t>(&row[first]) % 16 == 0) {
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&row[first]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        sum += inPart[v];
      }
    } else {
      for (int j = first; j < cols && j < first + kVector; ++j) {
        sum += row[j];
      }
    }
  }
  atomicAdd(&out[blockIdx.x], sum);
}
```

It takes loops that begin at the thread's number, or the grid's, and step by that of all threads. Left alone: loops
that store to an array under a condition, that are left early, or in which threads wait for each other.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    operator_of,
    refusing,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.vectors import CAVEAT, Array, Work, read_arrays
from warplens_tools.rewrite.common.widened import widened

_SUMS = "; sums are added up in another order"
#: A bound that one may add to as it is written.
_SUM = re.compile(r"[\w\s.*+()-]+")
#: What tells a block, or a row of its threads, from the next; `blockDim.x` alone is where all of them begin.
_NUMBERED = re.compile(r"\bblockIdx\b|\bthreadIdx\.[yz]")


def _apply(view: View, target: Target) -> RewriteResult:
    found = widened(view, target, _read, "no loop strides over data by the number of its threads")
    sums = any(
        name not in {a.name for a in arrays}
        for loop, arrays in found.loops
        for name, _ in assigned(loop, view)
    )
    return RewriteResult(
        found.edits, title="Walk the data in vectors", caveat=CAVEAT + (_SUMS if sums else "")
    )


def _read(view: View, loop: Node) -> tuple[Work, tuple[Array, ...]]:
    work = _work(view, loop)
    own = (e for e in view.elements(loop) if view.space(e) == "local")
    if any(work.name in view.names(element) for element in own):
        raise Refused("a thread keeps elements of the loop in an array of its own, by their number")
    return work, read_arrays(view, work)


def _work(view: View, loop: Node) -> Work:
    """The loop's work.

    Raises:
        Refused: it does not deal neighbouring elements out to neighbouring threads.
    """
    known, initial = view.forms.loop(loop), loop.child_by_field_name("initializer")
    if (
        initial is None
        or initial.type != "declaration"
        or known.comparison not in ("<", "<=")
        or known.origin is None
    ):
        raise Refused("no loop strides over data by the number of its threads")
    step, update = known.step, loop.child_by_field_name("update")
    if step is None or step.value == 1 or update is None or operator_of(update) != "+=":
        raise Refused("no loop strides over data by the number of its threads")
    declared = declared_in(view, initial)
    if len(declared) != 1 or declared[0].value is None:
        raise Refused("the loop is not over one variable")
    base, first = _start(view, declared[0].value)
    bound = field(unwrapped(field(loop, "condition")), "right")
    begun = view.forms.traced(base) if base is not None else None
    return Work(
        name=declared[0].name,
        type=declared[0].type,
        limit=_end(view, bound, known.comparison),
        statements=tuple(statements(field(loop, "body"))),
        base=view.written(base) if base is not None else "",
        first=view.written(first),
        step=view.written(field(update, "right")),
        counter=known.counter,
        stride=step,
        begun=begun.constant if begun is not None else 0,
    )


def _end(view: View, bound: Node, comparison: str) -> str:
    """The first value that the loop does not reach: `t + 1` of `j <= t`.

    Raises:
        Refused: what would have to be added to is no sum.
    """
    written = view.written(bound)
    if comparison == "<":
        return written
    if not _SUM.fullmatch(written):
        raise Refused("the loop's last value is not written as a sum")
    return f"{written} + 1"


def _start(view: View, node: Node) -> tuple[Node | None, Node]:
    """What all threads begin at, None for 0, and the number of the thread from there.

    Raises:
        Refused: the loop begins at neither.
    """
    node = unwrapped(node)
    if _numbers_threads(view, node):
        return None, node
    if node.type == "binary_expression" and operator_of(node) == "+":
        left, right = field(node, "left"), field(node, "right")
        for base, first in ((left, right), (right, left)):
            form = view.forms.traced(base)
            if form is not None and form.uniform and _numbers_threads(view, first):
                return base, first
    raise Refused("the loop does not begin at the thread's own number")


def _numbers_threads(view: View, node: Node) -> bool:
    """Whether an expression counts threads from 0: of a warp, a block or the grid."""
    form = view.forms.form(node)
    if (
        form is None
        or form.constant
        or any(s.kind in ("parameter", "loop", "grid size") for s in form.symbols)
    ):
        return False
    terms = {tuple(s.name for s in symbols): (symbols, factor) for symbols, factor in form.terms}
    rest = {names: pair for names, pair in terms.items() if not _NUMBERED.search(" ".join(names))}
    if len(rest) != 1:
        return False
    symbols, factor = next(iter(rest.values()))
    if len(symbols) != 1 or factor != 1:
        return False
    symbol = symbols[0]
    is_lane = symbol.operation in ("%", "&") and symbol.operands[0].coefficient("threadIdx.x") == 1
    return symbol.name == "threadIdx.x" or (is_lane and len(terms) == 1)


REWRITE = Rewrite(
    slug="widen-loop",
    title="Walk data in vectors of 8 or 16 bytes",
    apply=refusing(_apply),
    answers=("scalar-access",),
    useless_at="sm",
    chance=0.5,
    gain=1.5,
)
