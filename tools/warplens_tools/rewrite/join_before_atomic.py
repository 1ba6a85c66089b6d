# SPDX-License-Identifier: Apache-2.0
"""join-before-atomic

Let lanes that add to one place add up before one of them goes there.

Where data say which place a thread adds to, as in sums by segment, a sparse matrix in coordinates, or a graph whose
edges are sorted, neighbouring lanes often have the same one, and their atomics are done one after another. The lanes of
a warp that have one place find each other by `__match_any_sync` and add up in as many steps as the binary logarithm of
how many they are; where all have places of their own, there is no step.

```cuda
__global__ void segment_sums(const float* values, const int* segments, float* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&sums[segments[i]], values[i]);
}
```

```cuda
// Lanes of a warp that have one place join their values, and the first goes there.
__device__ void addTogether(float* place, float value) {
  const unsigned active = __activemask();
  const int lane = threadIdx.x % 32;
  unsigned after = __match_any_sync(active, reinterpret_cast<unsigned long long>(place));
  unsigned rank = __popc(after & ((1u << lane) - 1));
  const bool first = rank == 0;
  after &= 0xfffffffeu << lane;
  while (__any_sync(active, after != 0)) {
    const int next = __ffs(after);
    const float other = __shfl_sync(active, value, next != 0 ? next - 1 : lane);
    if (next != 0) value += other;
    after &= ~__ballot_sync(active, rank % 2);
    rank /= 2;
  }
  if (first) atomicAdd(place, value);
}

__global__ void segment_sums(const float* values, const int* segments, float* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) addTogether(&sums[segments[i]], values[i]);
}
```

It takes `atomicAdd`, `atomicMax`, `atomicMin` and `atomicOr`, and functions that make the like of `atomicCAS`. Left
alone: an atomic whose old value is used, one in shared memory, and a place that is another for each thread of a block.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.atomics import Atomic, joining, read_atomic
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View, calls, field, refusing
from warplens_tools.rewrite.common.strided import thread_number
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

_NAMES = {"Add": "addTogether", "Max": "raiseTogether", "Min": "lowerTogether", "Or": "setTogether"}
_JOINING = re.compile(r"atomic(?:Add|Max|Min|Or)")


def _apply(view: View, target: Target) -> RewriteResult:
    style = Style(view)
    number = thread_number(view, Launches(view.text, view.model, view.kernel))
    lane = f"({number}) % 32" if " " in number else f"{number} % 32"
    helpers, edits, why = dict[tuple[str, str], str](), list[TextEdit](), "the kernel has no atomics"
    lines, kinds = list[str](), set[str]()
    for name, call in calls(view.body, view):
        is_wanted = not target.lines or view.span(call).line in target.lines
        if not is_wanted or not (_JOINING.fullmatch(name) or joining(view, name)):
            continue
        try:
            atomic = read_atomic(view, name, call, kept=True)
            _check_place(view, atomic.target)
        except Refused as error:
            why = str(error)
            continue
        key = (atomic.name, atomic.type)
        if key not in helpers:
            helpers[key] = style.name(_NAMES[atomic.kind])
            lines += [*_helper(atomic, helpers[key], lane), ""]
        kinds.add(atomic.type)
        edits.append(TextEdit(view.span(field(call, "function")), helpers[key]))
    if not edits:
        raise Refused(why)
    newline = view.text.newline
    above = style.above(style.lines("\n".join(lines[:-1]), level=0) + newline)
    caveat = REORDERED if kinds & {"float", "double"} else ""
    return RewriteResult((above, *edits), title="Join the values of lanes that have one place", caveat=caveat)


def _check_place(view: View, target: Node) -> None:
    """Raises `Refused` where each thread of a block has a place of its own."""
    pointer = view.pointers.pointer(target)
    form = pointer.traced if pointer is not None else None
    if form is not None and form.told is not None and form.coefficient("threadIdx.x"):
        raise Refused("each thread has a place of its own")


def _helper(atomic: Atomic, name: str, lane: str) -> list[str]:
    kind = atomic.type
    return [
        "// Lanes of a warp that have one place join their values, and the first goes there.",
        f"__device__ void {name}({kind}* place, {kind} value) {{",
        "  const unsigned active = __activemask();",
        f"  const int lane = {lane};",
        "  unsigned after = __match_any_sync(active, reinterpret_cast<unsigned long long>(place));",
        "  unsigned rank = __popc(after & ((1u << lane) - 1));",
        "  const bool first = rank == 0;",
        "  after &= 0xfffffffeu << lane;",
        "  while (__any_sync(active, after != 0)) {",
        "    const int next = __ffs(after);",
        f"    const {kind} other = __shfl_sync(active, value, next != 0 ? next - 1 : lane);",
        f"    if (next != 0) {atomic.joined('value', 'other')}",
        "    after &= ~__ballot_sync(active, rank % 2);",
        "    rank /= 2;",
        "  }",
        f"  if (first) {atomic.name}(place, value);",
        "}",
    ]


REWRITE = Rewrite(
    slug="join-before-atomic",
    title="Join the values of lanes that have one place before the atomic",
    apply=refusing(_apply),
    answers=("global-atomic-contention",),
    chance=0.5,
    gain=3.0,
)
