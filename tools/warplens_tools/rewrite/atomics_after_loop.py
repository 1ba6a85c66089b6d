# SPDX-License-Identifier: Apache-2.0
"""atomics-after-loop

Add up in a register what a loop adds to one place, with one atomic behind it.

A loop that adds every element to the same place, a sum in shared memory or the row's own result, has an atomic for
each of its iterations, and threads of a block that do so wait for each other every time. A variable of the thread's own
takes the sum, and one atomic per thread is left.

```cuda
__global__ void mean(const float* x, float* out, int n) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    atomicAdd(&sum, x[blockIdx.x * n + i]);
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = sum / n;
}
```

```cuda
__global__ void mean(const float* x, float* out, int n) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();
  float partial = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    partial += x[blockIdx.x * n + i];
  }
  atomicAdd(&sum, partial);
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = sum / n;
}
```

It takes `atomicAdd`, `atomicMax`, `atomicMin` and `atomicOr`. Left alone: an atomic whose old value is used, a place
that differs between iterations or is accessed otherwise in the loop, and loops that wait for other threads or are left
by a return.
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
from warplens_tools.rewrite.common.reading import View, calls, field, refusing, squeezed, unwrapped
from warplens_tools.rewrite.common.statements import KernelEdits

_JOINS = re.compile(r"atomic(?:Add|Max|Min|Or)")
_LEAVES = frozenset({"return_statement", "goto_statement", "labeled_statement", "lambda_expression"})
_WAITS = re.compile(r"\b__sync|\b__shfl|\bsync\s*\(|\b__threadfence|\basm\b")


def _apply(view: View, target: Target) -> RewriteResult:
    sums = _Sums(view, list(_atomics(view, target)))
    sums.write()
    is_exact = all(a.type not in ("float", "double") for a in sums.atomics)
    title = "Add up in a register before the atomic"
    return RewriteResult(sums.edits.edits(), title, caveat="" if is_exact else REORDERED)


def _atomics(view: View, target: Target) -> Iterator[Atomic]:
    for name, call in calls(view.body, view):
        if not _JOINS.fullmatch(name) or (target.lines and view.span(call).line not in target.lines):
            continue
        try:
            yield read_atomic(view, name, call, shared=True)
        except Refused:
            continue


class _Sums:
    """The atomics of one kernel that loops repeat on one place."""

    def __init__(self, view: View, atomics: list[Atomic]) -> None:
        self.view, self.atomics = view, atomics
        self.edits = KernelEdits(view.text, view.expanded)

    def write(self) -> None:
        """The edits.

        Raises:
            Refused: no loop repeats an atomic on one place, or single ones could not be told apart.
        """
        if len({a.kind for a in self.atomics}) > 1:
            raise Refused("atomics of several kinds may go to one place")
        names: dict[tuple[int, str], str] = {}
        done = list[Atomic]()
        for atomic in self.atomics:
            loop = self._loop(atomic)
            if loop is None:
                continue
            key = (loop.id, squeezed(self.view.code(atomic.target)))
            if key not in names:
                names[key] = self.edits.fresh_here("partial")
                place = self.view.written(atomic.target)
                self.edits.before(loop, f"{atomic.type} {names[key]} = {atomic.neutral()};")
                self.edits.after(loop, f"{atomic.name}({place}, {names[key]});")
            joined = atomic.joined(names[key], self.view.written(atomic.values[0]))
            self.edits.replace(atomic.statements[0], joined)
            done.append(atomic)
        if not done:
            raise Refused("no loop repeats an atomic on one place")
        self.atomics = done

    def _loop(self, atomic: Atomic) -> Node | None:
        """The largest loop around in all of whose iterations the place is one."""
        if _ends_loop(atomic.statements[0]):
            return None
        found, node = None, atomic.statements[0].parent
        while node is not None and node.id != self.view.body.id:
            if node.type in LOOPS:
                if not self._is_fixed(atomic.target, node):
                    break
                found = node
            node = node.parent
        return found

    def _is_fixed(self, place: Node, loop: Node) -> bool:
        """Whether a place is one throughout a loop, and nothing but atomics on it goes there."""
        view, code = self.view, self.view.code(loop)
        if any(n.type in _LEAVES for n in walk(loop)) or _WAITS.search(code):
            return False
        root, chosen = self._parts(place)
        if (
            not root
            or not all(is_invariant(view.expanded, n, loop) for n in chosen)
            or self._is_declared_in(root, loop)
        ):
            return False
        uses = [n for n in walk(loop) if n.type == "identifier" and view.code(n) == root]
        return all(any(holds(a.target, n) for a in self.atomics) for n in uses)

    def _parts(self, place: Node) -> tuple[str, list[Node]]:
        """The variable that a place is of or behind, and what chooses the place there; "" where that is not known."""
        node = unwrapped(place)
        if node.type == "pointer_expression" and self.view.code(node).startswith("&"):
            node = unwrapped(field(node, "argument"))
        if node.type == "identifier":
            return self.view.code(node), []
        if node.type == "subscript_expression":
            base, indices = unwrapped(field(node, "argument")), field(node, "indices").named_children
            return (self.view.code(base), indices) if base.type == "identifier" else ("", [])
        if node.type == "binary_expression" and "+" in {c.type for c in node.children}:
            base, offset = field(node, "left"), field(node, "right")
            return (self.view.code(base), [offset]) if base.type == "identifier" else ("", [])
        return "", []

    def _is_declared_in(self, name: str, loop: Node) -> bool:
        binding = self.view.expanded.constants.binding(name, field(loop, "body").start_byte)
        return binding is not None and loop.start_byte <= binding.declaration[0] < loop.end_byte


def _ends_loop(statement: Node) -> bool:
    """Whether the loop is left behind a statement, so that it is executed once."""
    behind = statement.next_named_sibling
    while behind is not None:
        if behind.type == "break_statement":
            return True
        behind = behind.next_named_sibling
    return False


REWRITE = Rewrite(
    slug="atomics-after-loop",
    title="Add up in a register before the atomic",
    apply=refusing(_apply),
    answers=("global-atomic-contention", "shared-atomic-contention"),
    chance=0.7,
    gain=5.0,
    spares=True,
)
