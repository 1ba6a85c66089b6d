# SPDX-License-Identifier: Apache-2.0
"""own-row-in-registers

Keep in registers a short row of the thread's own that a loop reads again and again.

Where a thread compares its point with all centres, or its string with another letter by letter, it loads the same few
elements in every step of the outer loop, a row apart from its neighbours' at each. Loaded once before, they are
registers in a loop that is unrolled.

```cuda
#define DIMS 8
__global__ void assign(const float* points, const float* centres, int* labels, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f;
  for (int c = 0; c < k; ++c) {
    float sum = 0.0f;
    for (int d = 0; d < DIMS; ++d) {
      float diff = points[i * DIMS + d] - centres[c * DIMS + d];
      sum += diff * diff;
    }
    if (sum < best) { best = sum; labels[i] = c; }
  }
}
```

```cuda
#define DIMS 8
__global__ void assign(const float* points, const float* centres, int* labels, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f;
  float pointsOwn[8];
  #pragma unroll
  for (int h = 0; h < 8; ++h) pointsOwn[h] = points[i * DIMS + h];
  for (int c = 0; c < k; ++c) {
    float sum = 0.0f;
    #pragma unroll
    for (int d = 0; d < DIMS; ++d) {
      float diff = pointsOwn[d] - centres[c * DIMS + d];
      sum += diff * diff;
    }
    if (sum < best) { best = sum; labels[i] = c; }
  }
}
```

Left alone: rows of a length that the run tells, or beyond 256 bytes, rows that the kernel writes, elements that a
condition chooses, and those that neighbouring threads read side by side, or all alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.insertion import insert_before, start_with_pragmas
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    operator_of,
    refusing,
    renamed,
    stores,
)
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

#: Registers for a row: a quarter of what a thread of a full multiprocessor has is 64 bytes, of a quarter full 256.
_MOST_BYTES = 256
_LEAST = 4
_CHOICES = frozenset({"if_statement", "conditional_expression", "switch_statement"})


class _Row(msgspec.Struct, frozen=True):
    """Elements of one row, all written alike, in the loop that walks it."""

    loop: Node
    counter: str
    elements: tuple[Node, ...]
    length: int
    #: The counter's first value.
    first: int
    #: The outermost loop throughout which it is one row.
    outer: Node


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    style, edits, unrolled = Style(view), list[TextEdit](), set[int]()
    left = _MOST_BYTES
    for row in _rows(view):
        element, kind = row.elements[0], view.element(row.elements[0])
        size = row.length * (type_bytes(view.concrete(kind)) or _MOST_BYTES)
        if size > left:
            continue
        name, at = style.local(f"{view.array(element)}Own"), style.local("h")
        place = renamed(view.written(element), {row.counter: f"({at} + {row.first})" if row.first else at})
        lines = [
            f"{kind.replace('const', '').strip()} {name}[{row.length}];",
            "#pragma unroll",
            f"for (int {at} = 0; {at} < {row.length}; ++{at}) {name}[{at}] = {place};",
        ]
        above = insert_before(view.tree, row.outer, "\n".join(lines))
        if above is None:
            continue
        left -= size
        own = f"{name}[{row.counter} - {row.first}]" if row.first else f"{name}[{row.counter}]"
        edits += [above, *(TextEdit(view.span(e), own) for e in row.elements)]
        begin = view.start(row.loop)
        if row.loop.id not in unrolled and start_with_pragmas(view.file, begin) == begin:
            pragma = insert_before(view.tree, row.loop, "#pragma unroll")
            edits += [pragma] if pragma is not None else []
        unrolled.add(row.loop.id)
    if not edits:
        raise Refused("no short row of the thread's own is read again and again")
    return RewriteResult(tuple(edits), title="Keep each thread's row in registers")


def _rows(view: View) -> Iterator[_Row]:
    written = {view.array(e) for e in stores(view, view.body)}
    for loop in walk(view.body):
        known = view.forms.loop(loop) if loop.type == "for_statement" else None
        initial = loop.child_by_field_name("initializer")
        if known is None or initial is None or initial.type != "declaration" or known.step is None:
            continue
        declared = plainly_declared_in(view, initial)
        first = known.first.value if known.first is not None else None
        is_plain = first is not None and first >= 0 and known.step.value == 1
        if len(declared) != 1 or not is_plain or not known.counter or not (known.trips or 0) >= _LEAST:
            continue
        counter, found = declared[0].name, dict[str, list[Node]]()
        for element in view.elements(field(loop, "body")):
            if view.array(element) not in written and _is_own(view, element, known.counter):
                found.setdefault(view.code(element), []).append(element)
        for elements in found.values():
            outer = _outer(view, loop, elements[0], counter)
            if outer is not None and first is not None and all(view.is_plain(e) for e in elements):
                yield _Row(loop, counter, tuple(elements), known.trips or 0, first, outer)


def _is_own(view: View, element: Node, counter: str) -> bool:
    """Whether an element stands in a row that is another for each thread, at the counter's place."""
    pointer = view.place(element)
    form = pointer.traced if pointer is not None else None
    if pointer is None or form is None or pointer.space != "global" or pointer.inner:
        return False
    by_thread = form.mentions("threadIdx.x")
    beside = form.side_by_side("threadIdx.x")
    return (
        element.type == "subscript_expression" and by_thread and not beside and form.coefficient(counter) == 1
    )


def _outer(view: View, loop: Node, element: Node, counter: str) -> Node | None:
    """The outermost loop around one in which nothing that chooses its row changes; None where there is none."""
    names = view.names(element) - {counter}
    found, outer = None, loop.parent
    while outer is not None and outer.id != view.body.id:
        if outer.type in LOOPS:
            own = {d for n in walk(outer) if n.type == "declaration" for d in _declared(view, n)}
            if names & (own | {name for name, _ in assigned(outer, view)}):
                break
            found = outer
        outer = outer.parent
    return found if found is not None and not _is_chosen(element, found) else None


def _is_chosen(element: Node, outer: Node) -> bool:
    """Whether a condition says that an element is read at all."""
    child, node = element, element.parent
    while node is not None and child.id != outer.id:
        left = node.child_by_field_name("left")
        late = operator_of(node) in ("&&", "||") and left is not None and left.id != child.id
        condition = node.child_by_field_name("condition")
        asked = node.type in _CHOICES and (condition is None or condition.id != child.id)
        if late or asked:
            return True
        child, node = node, node.parent
    return False


def _declared(view: View, node: Node) -> Iterator[str]:
    """The names that a declaration declares, arrays among them."""
    for one in node.children_by_field_name("declarator"):
        name = next((n for n in walk(one) if n.type == "identifier"), None)
        if name is not None:
            yield view.code(name)


REWRITE = Rewrite(
    slug="own-row-in-registers",
    title="Keep each thread's row in registers",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "uncoalesced-global-read"),
    useless_at="dram",
    chance=0.5,
    gain=1.6,
)
