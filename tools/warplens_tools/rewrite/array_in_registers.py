# SPDX-License-Identifier: Apache-2.0
"""array-in-registers

Keep a thread's own array in registers: count its loops to its end.

An array that a loop with a run-time bound indexes lies in local memory, for registers have no index: every element is
a load and a store. A loop that counts to the array's end, which is a constant, and is left at the bound is unrolled
entirely; every index is a number then, and the elements are registers. What such a loop reads from memory alike in
every round of the loop around it is kept in registers as well.

```cuda
#define MAX_LENGTH 24

__global__ void edit_distance(const char* a, const char* b, int* result, int pairs, int m, int n) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= pairs) return;
  int row[MAX_LENGTH + 1];
  for (int j = 0; j <= n; j++) row[j] = j;
  for (int i = 1; i <= m; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= n; j++) {
      int above = row[j];
      int changed = diagonal + (a[p * m + i - 1] != b[p * n + j - 1]);
      row[j] = min(min(above, row[j - 1]) + 1, changed);
      diagonal = above;
    }
  }
  result[p] = row[n];
}
```

```cuda
#define MAX_LENGTH 24

__global__ void edit_distance(const char* a, const char* b, int* result, int pairs, int m, int n) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= pairs) return;
  int row[MAX_LENGTH + 1];
  #pragma unroll
  for (int j = 0; j < MAX_LENGTH + 1; j++) {
    if (j > n) break;
    row[j] = j;
  }
  char bKept[MAX_LENGTH + 1];
  #pragma unroll
  for (int j = 1; j < MAX_LENGTH + 1; j++) {
    if (j > n || 1 > m) break;
    bKept[j] = b[p * n + j - 1];
  }
  for (int i = 1; i <= m; i++) {
    int diagonal = row[0];
    row[0] = i;
    #pragma unroll
    for (int j = 1; j < MAX_LENGTH + 1; j++) {
      if (j > n) break;
      int above = row[j];
      int changed = diagonal + (a[p * m + i - 1] != bKept[j]);
      row[j] = min(min(above, row[j - 1]) + 1, changed);
      diagonal = above;
    }
  }
  int rowPicked = 0;
  #pragma unroll
  for (int item = 0; item < MAX_LENGTH + 1; item++) {
    if (item == n) rowPicked = row[item];
  }
  result[p] = rowPicked;
}
```

Left alone: arrays of more than 160 elements, or whose elements data choose inside a loop; loops that count down or by
more than one, or in which an element is used under a condition alone, for nothing says then how far they go.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.insertion import insert_before, start_with_pragmas
from warplens_tools.rewrite.common.passes import is_unconditional
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    calls,
    field,
    refusing,
    squeezed,
    statements,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style, zero
from warplens_tools.rewrite.common.walked_array import Walk, WalkedArray, is_declared
from warplens_tools.text import TextEdit

#: Elements that are kept beside those of the array.
_KEPT = 48
_PURE = re.compile(
    r"(?:f?(?:min|max|abs)f?|__\w*(?:min|max|add|mul|fma)\w*|fmaf?|sqrtf?|expf?|\w*_t|int|float)"
)


def _apply(view: View, target: Target) -> RewriteResult:
    found = [a for a in view.kernel.arrays if a.space == "local" and len(a.extents) == 1]
    found = [a for a in found if not target.names or a.name in target.names]
    why = "the thread has no array of its own that a loop with a run-time bound indexes"
    for array in found:
        try:
            return _Writer(view, WalkedArray(view, array)).result()
        except Refused as error:
            why = str(error)
    raise Refused(why)


class _Writer:
    def __init__(self, view: View, read: WalkedArray) -> None:
        self.view, self.read, self.style = view, read, Style(view)
        self.edits: list[TextEdit] = []
        self._open: dict[int, list[tuple[Node, str]]] = {}

    def result(self) -> RewriteResult:
        """All edits."""
        for walked in self.read.walks.values():
            self._keep(walked)
        for walked in self.read.walks.values():
            self._count_to_end(walked)
        for element in self.read.picked:
            self._write_pick(element)
        return RewriteResult(tuple(self.edits), title=f"Keep {self.read.name} in registers")

    def _count_to_end(self, walked: Walk) -> None:
        view, loop = self.view, walked.loop
        condition = field(loop.node, "condition")
        for node in (condition, loop.bounds[0]):
            if not view.is_plain_enough(node):
                raise Refused("a macro writes what would have to change")
        if start_with_pragmas(view.file, view.start(loop.node)) == view.start(loop.node):
            self._before(loop.node, "#pragma unroll")
        replaced = self._open.get(loop.node.id, [])
        if not self.read.has_bound(walked):
            self.edits += [TextEdit(view.span(n), new) for n, new in replaced]
            return
        self.edits.append(TextEdit(view.span(condition), f"{loop.variable} < {walked.written}"))
        stop = f"if ({self._beyond(loop)}) break;"
        body = loop.body
        if body.type == "compound_statement":
            inside = statements(body)
            if inside:
                self._before(inside[0], stop)
            self.edits += [TextEdit(view.span(n), new) for n, new in replaced]
            return
        self._in_braces(loop, body, stop, replaced)

    def _in_braces(self, loop: Counting, body: Node, stop: str, replaced: list[tuple[Node, str]]) -> None:
        """The loop's one statement behind the other, in braces."""
        view, newline = self.view, self.view.text.newline
        if replaced:
            raise Refused("a loop has no braces")
        margin = re.match(r"[ \t]*", view.text.line_text(view.span(loop.node).line))
        indent = margin[0] if margin is not None else ""
        start, end = view.start(body), view.end(body)
        opened = len(view.text.text[:start].rstrip())
        inner = f"{newline}{indent}{self.style.step}"
        text = f" {{{inner}{stop}{inner}{view.written(body)}{newline}{indent}}}"
        if "\n" in view.written(body):
            raise Refused("a loop has no braces")
        self.edits.append(TextEdit(view.text.span(opened, end), text))

    def _beyond(self, loop: Counting) -> str:
        """What holds of the variable when the loop is over."""
        view = self.view
        condition, bound = unwrapped(field(loop.node, "condition")), loop.bounds[0]
        last = "<=" in view.code(condition)
        text = view.written(bound)
        text = f"({text})" if re.search(r"[?<>&|^=]", view.code(bound)) else text
        return f"{loop.variable} {'>' if last else '>='} {text}"

    def _before(self, node: Node, *lines: str) -> None:
        edit = insert_before(self.view.tree, node, "\n".join(lines))
        if edit is None:
            raise Refused("a loop over its array is no statement of its own")
        self.edits.append(edit)

    def _write_pick(self, element: Node) -> None:
        view, statement = self.view, self.read.statement(element)
        assert statement is not None
        kind = self.read.array.element_type
        picked, item = self.style.local(f"{self.read.name}Picked"), self.style.local("item")
        index = view.written(self.read.index(element))
        wrapped = index if re.fullmatch(r"[\w.]+", index) else f"({index})"
        step = self.style.step
        self._before(
            statement,
            f"{kind} {picked} = {zero(kind)};",
            "#pragma unroll",
            f"for (int {item} = 0; {item} < {self.read.size}; {item}++) {{",
            f"{step}if ({item} == {wrapped}) {picked} = {self.read.name}[{item}];",
            "}",
        )
        self.edits.append(TextEdit(view.span(element), picked))

    # what is read again in every round

    def _keep(self, walked: Walk) -> None:
        """Keep what the loop reads alike in each round of the loop around it."""
        view, loop = self.view, walked.loop
        block = loop.node.parent
        around = block.parent if block is not None and block.type == "compound_statement" else None
        outer = (
            counting(view.expanded, around) if around is not None and around.type == "for_statement" else None
        )
        if (
            outer is None
            or around is None
            or around.id in self.read.walks
            or loop.body.type != "compound_statement"
        ):
            return
        if (
            walked.end > _KEPT
            or outer.first is None
            or len(outer.bounds) != 1
            or outer.downward
            or not self._is_quiet(around)
        ):
            return
        changed = {name for name, _ in assigned(around, view)} - {loop.variable}
        declared = {view.code(n) for n in walk(around) if n.type == "identifier" and is_declared(n)}
        if view.names(loop.bounds[0]) & (changed | declared | {outer.variable}):
            return
        for element in view.elements(loop.body):
            if not self._is_kept(element, loop, changed | declared - {loop.variable} | {outer.variable}):
                continue
            self._write_kept(element, walked, outer, around)
            return

    def _is_quiet(self, loop: Node) -> bool:
        """Whether a loop writes to its thread's own memory alone and calls nothing that might write."""
        view = self.view
        own = all(view.space(n) == "local" for n in stores(view, loop))
        own = own and not any(n.type in JUMPS for n in walk(loop))
        named = [name for name, _ in calls(loop, view)]
        return own and all(_PURE.fullmatch(name) for name in named) and "__sync" not in view.code(loop)

    def _is_kept(self, element: Node, loop: Counting, changed: set[str]) -> bool:
        view = self.view
        found = view.place(element)
        if (
            element.type != "subscript_expression"
            or found is None
            or found.space not in ("global", "constant")
        ):
            return False
        names = view.names(element)
        plain = re.fullmatch(r"[\w ]+", found.element_type) is not None
        single = not any(n.type in ("call_expression", "update_expression") for n in walk(element))
        inner = [e for e in view.elements(element) if e.id != element.id]
        return (
            plain
            and single
            and not inner
            and loop.variable in names
            and not names & changed
            and is_unconditional(element, loop.body)
        )

    def _write_kept(self, element: Node, walked: Walk, outer: Counting, around: Node) -> None:
        view, loop = self.view, walked.loop
        found = view.place(element)
        assert found is not None and outer.first is not None
        name = view.code(field(element, "argument"))
        kept = self.style.local(f"{name if name.isidentifier() else 'element'}Kept")
        kind = " ".join(w for w in found.element_type.split() if w not in ("const", "volatile"))
        first = (
            f"{view.written(outer.first)} {'>' if '<=' in view.code(field(around, 'condition')) else '>='}"
        )
        never = f"{first} {view.written(outer.bounds[0])}"
        begin = view.written(field(loop.node, "initializer"))
        step = self.style.step
        self._before(
            around,
            f"{kind} {kept}[{walked.written}];",
            "#pragma unroll",
            f"for ({begin} {loop.variable} < {walked.written}; {loop.variable}++) {{",
            f"{step}if ({self._beyond(loop)} || {never}) break;",
            f"{step}{kept}[{loop.variable}] = {view.written(element)};",
            "}",
        )
        same = squeezed(view.code(element))
        again = [e for e in view.elements(loop.body) if squeezed(view.code(e)) == same]
        self._open[loop.node.id] = [(e, f"{kept}[{loop.variable}]") for e in again]


REWRITE = Rewrite(
    slug="array-in-registers",
    title="Keep a thread's own array in registers",
    apply=refusing(_apply),
    answers=("local-memory-array",),
    chance=0.6,
    gain=3.0,
)
