# SPDX-License-Identifier: Apache-2.0
"""runs-before-atomic

Add up what consecutive iterations add to one place before an atomic goes there.

Where data say which place an element is added to, and neighbours in the list mostly have one, as in a list that is
sorted by it, a thread that goes through several of them adds to the same place again and again. It keeps the place and
what is to be added, and goes there only when the place changes.

```cuda
__global__ void segment_sums(const float* values, const int* segments, float* sums, int n) {
  int first = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < n && i < first + 8; ++i) {
    atomicAdd(&sums[segments[i]], values[i]);
  }
}
```

```cuda
__global__ void segment_sums(const float* values, const int* segments, float* sums, int n) {
  int first = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  float* place = nullptr;
  float run = 0.0f;
  for (int i = first; i < n && i < first + 8; ++i) {
    float* next = &sums[segments[i]];
    if (next != place) {
      if (place != nullptr) atomicAdd(place, run);
      place = next;
      run = 0.0f;
    }
    run += values[i];
  }
  if (place != nullptr) atomicAdd(place, run);
}
```

It takes `atomicAdd`, `atomicMax`, `atomicMin` and `atomicOr`, up to eight of a loop. Left alone: an atomic whose old
value is used, a place that follows from the thread's number and the iteration alone, an array that the loop accesses
otherwise, and loops that wait for other threads or are left by a return.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.facts.invariance import is_invariant
from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.atomics import Atomic, read_atomic
from warplens_tools.rewrite.common.counting import LOOPS
from warplens_tools.rewrite.common.reading import View, calls, field, refusing, statements, unwrapped
from warplens_tools.rewrite.common.statements import KernelEdits

_JOINS = re.compile(r"atomic(?:Add|Max|Min|Or)")
_LEAVES = frozenset({"return_statement", "goto_statement", "labeled_statement", "lambda_expression"})
_WAITS = re.compile(r"\b__sync|\b__shfl|\bsync\s*\(|\b__threadfence|\basm\b")
#: Each has a place of two registers and a sum: more would leave few for the rest.
_MOST = 8


def _apply(view: View, target: Target) -> RewriteResult:
    atomics = list(_atomics(view))
    by_loop: dict[int, list[Atomic]] = {}
    loops: dict[int, Node] = {}
    for atomic in atomics:
        loop = _loop(view, atomic)
        is_wanted = not target.lines or view.span(atomic.target).line in target.lines
        if loop is not None and is_wanted and _is_by_data(view, atomic.target, loop):
            by_loop.setdefault(loop.id, []).append(atomic)
            loops[loop.id] = loop
    edits, kinds = KernelEdits(view.text, view.expanded), set[str]()
    for key, found in by_loop.items():
        if len(found) <= _MOST and _goes_alone(view, loops[key], atomics):
            for atomic in found:
                _keep(view, edits, atomic, loops[key])
                kinds.add(atomic.type)
    if not kinds:
        raise Refused("no loop adds to places that data choose, and to those alone")
    caveat = REORDERED if kinds & {"float", "double"} else ""
    return RewriteResult(edits.edits(), title="Add up runs that go to one place", caveat=caveat)


def _atomics(view: View) -> Iterator[Atomic]:
    """The kernel's atomics of global memory whose old value nobody uses."""
    for name, call in calls(view.body, view):
        if _JOINS.fullmatch(name):
            try:
                yield read_atomic(view, name, call)
            except Refused:
                continue


def _loop(view: View, atomic: Atomic) -> Node | None:
    """The loop in whose body an atomic stands as a statement of its own."""
    block = atomic.statements[0].parent
    loop = block.parent if block is not None and block.type == "compound_statement" else block
    if loop is None or loop.type not in LOOPS or not view.is_plain_enough(loop):
        return None
    return loop


def _is_by_data(view: View, place: Node, loop: Node) -> bool:
    """Whether what is loaded says where an atomic goes, for each iteration anew."""
    pointer = view.pointers.pointer(place)
    form = pointer.traced if pointer is not None else None
    told = form is not None and form.told is not None
    named = [n for n in walk(place) if n.type == "identifier" and view.code(n) != _root(view, place)]
    is_one = all(is_invariant(view.expanded, n, loop) for n in named)
    return pointer is not None and not told and not is_one


def _goes_alone(view: View, loop: Node, atomics: list[Atomic]) -> bool:
    """Whether a loop leaves all that its atomics go to to them, and nothing waits in it for other threads."""
    inside = [a for a in atomics if holds(loop, a.target)]
    joined = sum(len(_JOINS.findall(view.code(s))) for s in statements(field(loop, "body")))
    if len({a.name for a in inside}) != 1 or joined != len(inside) or _WAITS.search(view.code(loop)):
        return False
    if any(n.type in _LEAVES for n in walk(loop)):
        return False
    roots = {name for a in inside if (name := _root(view, a.target))}
    uses = [n for n in walk(loop) if n.type == "identifier" and view.code(n) in roots]
    known = all(_root(view, a.target) in view.parameters for a in inside)
    return known and all(any(holds(a.target, n) for a in inside) for n in uses)


def _root(view: View, place: Node) -> str:
    """The parameter whose element a place is; "" for anything else."""
    node = unwrapped(place)
    if node.type == "pointer_expression" and view.code(node).startswith("&"):
        node = unwrapped(node.named_children[0])
        node = unwrapped(node.named_children[0]) if node.type == "subscript_expression" else node
    elif node.type == "binary_expression":
        node = unwrapped(node.children[0])
    return view.code(node) if node.type == "identifier" else ""


def _keep(view: View, edits: KernelEdits, atomic: Atomic, loop: Node) -> None:
    """The edits that let a loop keep one atomic's place and value."""
    kind, zero = atomic.type, atomic.neutral()
    place, run, following = (edits.fresh_here(name) for name in ("place", "run", "next"))
    flush = f"if ({place} != nullptr) {atomic.name}({place}, {run});"
    edits.before(loop, f"{kind}* {place} = nullptr;", f"{kind} {run} = {zero};")
    statement, unit = atomic.statements[0], edits.unit
    edits.before(
        statement,
        f"{kind}* {following} = {view.written(atomic.target)};",
        f"if ({following} != {place}) {{",
        f"{unit}{flush}",
        f"{unit}{place} = {following};",
        f"{unit}{run} = {zero};",
        "}",
    )
    edits.replace(statement, atomic.joined(run, view.written(atomic.values[0])))
    edits.after(loop, flush)


REWRITE = Rewrite(
    slug="runs-before-atomic",
    title="Add up runs that go to one place before the atomic",
    apply=refusing(_apply),
    answers=("global-atomic-contention",),
    chance=0.4,
    gain=2.0,
)
