# SPDX-License-Identifier: Apache-2.0
"""problem-in-shared

Work on a block's own problem in shared memory.

A block that factorises a small matrix of many, or does the steps of a transform, reads and writes the same few elements
in every step, and each step waits for global memory. Where the problem is of a constant size, the block brings it into
shared memory side by side, works there, and brings it back.

```cuda
#define N 16
__global__ void lu(float* matrices, int count) {
  int b = blockIdx.x;
  if (b >= count) return;
  float* a = matrices + b * N * N;
  int i = threadIdx.x;
  for (int k = 0; k < N - 1; k++) {
    if (i > k) {
      a[i * N + k] /= a[k * N + k];
      for (int j = k + 1; j < N; j++) a[i * N + j] -= a[i * N + k] * a[k * N + j];
    }
    __syncthreads();
  }
}
void run(float* matrices, int count) { lu<<<count, N>>>(matrices, count); }
```

```cuda
#define N 16
__global__ void lu(float* matrices, int count) {
  int b = blockIdx.x;
  if (b >= count) return;
  float* problem = matrices + b * N * N;
  __shared__ float a[N * N];
  for (int t = threadIdx.x; t < N * N; t += blockDim.x) a[t] = problem[t];
  __syncthreads();
  int i = threadIdx.x;
  for (int k = 0; k < N - 1; k++) {
    if (i > k) {
      a[i * N + k] /= a[k * N + k];
      for (int j = k + 1; j < N; j++) a[i * N + j] -= a[i * N + k] * a[k * N + j];
    }
    __syncthreads();
  }
  __syncthreads();
  for (int t = threadIdx.x; t < N * N; t += blockDim.x) problem[t] = a[t];
}
void run(float* matrices, int count) { lu<<<count, N>>>(matrices, count); }
```

Left alone: problems whose size the run tells, indices that are not known to lie inside, threads that leave the kernel
behind the pointer's declaration, and arrays that are accessed beside the pointer.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View, field, operator_of, refusing, stores, unwrapped
from warplens_tools.rewrite.common.spans import span_of
from warplens_tools.rewrite.common.strided import block_threads, thread_number
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

#: Shared memory of a block that needs no asking for (CUDA programming guide, technical specifications).
_MOST_BYTES = 48 * 1024
#: A smaller problem is a few loads.
_FEWEST = 32
_THREADS = re.compile(r"\bthreadIdx\b")
_WAITS = re.compile(r"__shfl|__ballot|__any_sync|__all_sync|\basm\b|\bgoto\b|cooperative_groups")


class _Problem(msgspec.Struct, frozen=True):
    """The pointer to it, how many elements it has, and that as the user wrote it."""

    pointer: Declared
    type: str
    size: int
    written: str
    stored: bool


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if _WAITS.search(view.code(view.body)):
        raise Refused("its threads work together in ways that are not followed")
    found = next((p for s in view.body.named_children if (p := _problem(view, s)) is not None), None)
    if found is None:
        raise Refused("no pointer begins at a block's own problem of a constant size")
    launches, style = Launches(view.text, view.model, view.kernel), Style(view)
    launches.read()
    _check(view, found)
    number, name, whole = thread_number(view, launches), found.pointer.name, style.local("problem")
    step, t = block_threads(number), style.local("t")
    head = f"for (int {t} = {number}; {t} < {found.written}; {t} += {step})"
    margin, newline = view.margin(found.pointer.statement), view.text.newline
    declaration = re.sub(rf"\b{name}\b", whole, view.written(found.pointer.statement), count=1)
    lines = [
        declaration,
        f"__shared__ {found.type} {name}[{found.written}];",
        f"{head} {name}[{t}] = {whole}[{t}];",
        "__syncthreads();",
    ]
    edits = [TextEdit(view.span(found.pointer.statement), f"{newline}{margin}".join(lines))]
    if found.stored:
        back = ["__syncthreads();", f"{head} {whole}[{t}] = {name}[{t}];"]
        end = view.end(view.body.named_children[-1])
        text = "".join(f"{newline}{margin}{line}" for line in back)
        edits.append(TextEdit(view.text.span(end, end), text))
    return RewriteResult(tuple(edits), title="Work on the block's problem in shared memory")


def _problem(view: View, statement: Node) -> _Problem | None:
    """What `float* a = matrices + blockIdx.x * N * N;` points to; None for any other declaration."""
    declared = plainly_declared_in(view, statement)
    one = declared[0] if len(declared) == 1 else None
    if one is None or one.value is None or not one.stars.startswith("*") or one.stars.count("*") != 1:
        return None
    pointer = view.pointers.pointer(one.value)
    form = pointer.traced if pointer is not None and pointer.space == "global" else None
    size = form.coefficient("blockIdx.x") if form is not None else None
    kind = " ".join(w for w in one.type.split() if w not in ("const", "volatile", "restrict"))
    bytes_ = type_bytes(view.concrete(kind))
    if pointer is None or form is None or not size or size < _FEWEST or not bytes_ or form.constant:
        return None
    if any(name != "blockIdx.x" for s, _ in form.terms for name in (x.name for x in s)):
        return None
    if size * bytes_ > _MOST_BYTES:
        raise Refused("the problem is larger than a block's shared memory")
    uses = [n for n in walk(view.body) if n.type == "identifier" and view.code(n) == one.name]
    stored = {n.id for n in stores(view, view.body)}
    elements = [u.parent for u in uses if u.parent is not None and u.parent.type == "subscript_expression"]
    written = any(e.id in stored for e in elements)
    return _Problem(one, kind, size, _size(view, one.value, size), written)


def _size(view: View, value: Node, size: int) -> str:
    """How the user writes the problem's size: what a block's number is multiplied by."""
    for node in walk(value):
        if node.type != "binary_expression" or operator_of(node) != "*":
            continue
        factors = _factors(node)
        kept = [f for f in factors if view.value(f) is not None]
        product = 1
        for one in kept:
            product *= view.value(one) or 1
        if len(kept) == len(factors) - 1 and product == size:
            return " * ".join(view.written(f) for f in kept)
    return str(size)


def _factors(node: Node) -> list[Node]:
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == "*":
        return [*_factors(field(node, "left")), *_factors(field(node, "right"))]
    return [node]


def _check(view: View, one: _Problem) -> None:
    """That the pointer's elements are all that is accessed, and that all threads stay.

    Raises:
        Refused: they are not, or one leaves.
    """
    name, begin = one.pointer.name, one.pointer.statement
    array = view.pointers.pointer(one.pointer.value)
    for node in walk(view.body):
        if node.type == "identifier" and view.code(node) == name and node.start_byte > begin.end_byte:
            element = node.parent
            if (
                element is None
                or element.type != "subscript_expression"
                or field(element, "argument").id != node.id
            ):
                raise Refused(f"{name} is used otherwise than by its elements")
            span = span_of(view, field(element, "indices").named_children[0])
            if span is None or not 0 <= span[0] <= span[1] < one.size:
                raise Refused(f"an element of {name} may lie outside of the problem")
        if node.type == "return_statement" and (node.start_byte > begin.start_byte or _is_some(view, node)):
            raise Refused("threads leave the kernel by themselves")
    for element in view.elements(view.body):
        other = view.place(element)
        inside = element.type == "subscript_expression" and view.code(field(element, "argument")) == name
        if not inside and other is not None and array is not None and other.name == array.name:
            raise Refused(f"{array.name} is accessed beside {name}")
    if not any(n.type in LOOPS for n in walk(view.body)):
        raise Refused("no step reads again what another has read")


def _is_some(view: View, node: Node) -> bool:
    """Whether a return is one of some threads alone: its condition rests on a thread's place."""
    at = node.parent
    while at is not None and at.id != view.body.id:
        condition = at.child_by_field_name("condition")
        if condition is not None:
            form = [
                view.forms.form(n) for n in walk(condition) if n.type in ("identifier", "field_expression")
            ]
            if _THREADS.search(view.code(condition)) or any(
                f is not None and f.mentions("threadIdx.x") for f in form
            ):
                return True
        at = at.parent
    return False


REWRITE = Rewrite(
    slug="problem-in-shared",
    title="Work on a block's own problem in shared memory",
    apply=refusing(_apply, singly=False),
    answers=("missing-cache-reuse", "uncoalesced-global-read", "uncoalesced-global-write"),
    chance=0.5,
    gain=2.0,
)
