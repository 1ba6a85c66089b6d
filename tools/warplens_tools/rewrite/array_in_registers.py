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
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import ArrayDeclaration
from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
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
from warplens_tools.rewrite.common.refusal import Refused
from warplens_tools.rewrite.common.style import Style, zero
from warplens_tools.text import TextEdit

#: Registers that an array may take of the 255 that a thread has, and bodies that one unrolled nest may come to.
_MOST, _BODIES, _FEW = 160, 640, 4
#: Elements that are kept beside those of the array.
_KEPT = 48
_INDEX = re.compile(r"(\w+)(?:([+-])(\d+))?")
_LITERAL = re.compile(r"\d+")
_PURE = re.compile(
    r"(?:f?(?:min|max|abs)f?|__\w*(?:min|max|add|mul|fma)\w*|fmaf?|sqrtf?|expf?|\w*_t|int|float)"
)


class _Walk(msgspec.Struct):
    """A loop by whose variable an array is indexed, and what it counts up to at most."""

    loop: Counting
    #: The constant bound that is never reached, as a number and as written.
    end: int
    written: str

    @property
    def trips(self) -> int:
        """How often it runs at most, from zero on."""
        return self.end


def _apply(view: View, target: Target) -> RewriteResult:
    found = [a for a in view.kernel.arrays if a.space == "local" and len(a.extents) == 1]
    found = [a for a in found if not target.names or a.name in target.names]
    why = "the thread has no array of its own that a loop with a run-time bound indexes"
    for array in found:
        try:
            return _Writer(view, array).result()
        except Refused as error:
            why = str(error)
    raise Refused(why)


class _Writer:
    def __init__(self, view: View, array: ArrayDeclaration) -> None:
        self.view, self.array, self.name = view, array, array.name
        self.style = Style(view)
        self.extent = self._extent()
        self.walks: dict[int, _Walk] = {}
        self.picked: list[Node] = []
        self.edits: list[TextEdit] = []
        self._open: dict[int, list[tuple[Node, str]]] = {}
        for node in self._elements():
            self._read(node)
        if not self.walks or not (self.picked or any(self._has_bound(w) for w in self.walks.values())):
            raise Refused("the thread has no array of its own that a loop with a run-time bound indexes")
        self._check_size()

    def _extent(self) -> int:
        size = self._declarator().child_by_field_name("size")
        known = self.view.value(size)
        each = type_bytes(self.array.element_type)
        if size is None or known is None or each is None:
            raise Refused("how many elements its array has is not known")
        if not _FEW <= known <= _MOST // max(each // 4, 1):
            raise Refused("its array has too few elements to matter, or too many for registers")
        self.size = self.view.written(size).strip()
        return known

    def _declarator(self) -> Node:
        for node in walk(self.view.body):
            inner = node.child_by_field_name("declarator") if node.type == "array_declarator" else None
            if inner is not None and self.view.code(inner) == self.name:
                return node
        raise Refused("its array is not declared in the kernel")

    # reading

    def _elements(self) -> Iterator[Node]:
        """Every use of the array, each of one element."""
        for node in walk(self.view.body):
            if node.type != "identifier" or self.view.code(node) != self.name:
                continue
            outer = node.parent
            if outer is not None and outer.type == "array_declarator":
                if outer.parent is not None and outer.parent.type == "init_declarator":
                    raise Refused("its array is initialised as a whole")
                continue
            if outer is None or outer.type != "subscript_expression" or outer.children[0].id != node.id:
                raise Refused("its array is passed on")
            yield outer

    def _index(self, element: Node) -> Node:
        listed = field(element, "indices").named_children
        if len(listed) != 1:
            raise Refused("its array has several indices")
        return listed[0]

    def _read(self, element: Node) -> None:
        """Note the loop that an element is indexed by, or that it is picked."""
        index = self._index(element)
        if self.view.value(index) is not None:
            return
        shape = _INDEX.fullmatch(squeezed(self.view.code(unwrapped(index))))
        loop = self._loop(element, shape[1]) if shape is not None else None
        if shape is None or loop is None:
            self._pick(element, index)
            return
        shift = int(shape[3] or 0) * (-1 if shape[2] == "-" else 1)
        self._bound(loop, element, shift)

    def _loop(self, node: Node, name: str) -> Counting | None:
        outer = node.parent
        while outer is not None and outer.id != self.view.body.id:
            if outer.type == "for_statement":
                loop = counting(self.view.expanded, outer)
                if loop is not None and loop.variable == name:
                    return loop if loop.declared and self._is_plain(loop) else None
            outer = outer.parent
        return None

    def _is_plain(self, loop: Counting) -> bool:
        begin = self.view.value(loop.first)
        body = field(loop.node, "body")
        own = (name for name, _ in assigned(body, self.view))
        return (
            not loop.downward
            and loop.step == "1"
            and len(loop.bounds) == 1
            and begin is not None
            and begin >= 0
            and loop.variable not in own
            and "!=" not in self.view.code(field(loop.node, "condition"))
        )

    def _bound(self, loop: Counting, element: Node, shift: int) -> None:
        first = self.view.value(loop.first) or 0
        if any(n.type in JUMPS for n in walk(loop.body)):
            raise Refused("a loop over its array is left early")
        walked = self.walks.setdefault(loop.node.id, _Walk(loop, 0, ""))
        if first + shift < 0:
            raise Refused("an element before its array's first is used")
        if not is_unconditional(element, loop.body):
            return
        end = self.extent - shift
        if not walked.end or end < walked.end:
            walked.end, walked.written = end, self._less(shift)

    def _less(self, shift: int) -> str:
        """The array's size less a shift, as one writes it."""
        last = re.fullmatch(r"(.*?)\s*\+\s*(\d+)", self.size)
        if shift and last is not None and int(last[2]) == shift and re.fullmatch(r"\w+", last[1]):
            return last[1]
        if not shift:
            return self.size
        whole = self.size if re.fullmatch(r"\w+", self.size) else f"({self.size})"
        return (
            str(self.extent - shift)
            if _LITERAL.fullmatch(self.size)
            else (f"{whole} - {shift}" if shift > 0 else f"{whole} + {-shift}")
        )

    def _pick(self, element: Node, index: Node) -> None:
        """Note an element that data choose: it is read, once, and not in a loop."""
        outer = element.parent
        while outer is not None and outer.id != self.view.body.id:
            if outer.type in LOOPS:
                raise Refused("data choose an element of its array in a loop")
            outer = outer.parent
        if any(n.id == element.id for n in stores(self.view, self.view.body)):
            raise Refused("data choose the element of its array that is written")
        if any(calls(index, self.view)) or any(n.type == "update_expression" for n in walk(index)):
            raise Refused("data choose an element of its array")
        statement = self._statement(element)
        if statement is None:
            raise Refused("data choose an element of its array under a condition")
        set_ = {name for name, _ in assigned(statement, self.view)}
        set_ |= {self.view.code(n) for n in walk(statement) if n.type == "identifier" and _is_declared(n)}
        if set_ & self.view.names(index) or any(n.type == "comma_expression" for n in walk(statement)):
            raise Refused("data choose an element of its array by what the same statement sets")
        self.picked.append(element)

    def _statement(self, node: Node) -> Node | None:
        """The statement of a block that holds a node and computes it, whatever happens."""
        outer: Node | None = node
        while outer is not None and outer.type not in ("expression_statement", "declaration"):
            if outer.type in ("conditional_expression", "lambda_expression"):
                return None
            outer = outer.parent
        held = outer is not None and outer.parent is not None and outer.parent.type == "compound_statement"
        return outer if held else None

    def _has_bound(self, walked: _Walk) -> bool:
        return self.view.value(walked.loop.bounds[0]) is None

    def _check_size(self) -> None:
        for walked in self.walks.values():
            if not walked.end:
                raise Refused("nothing says how far a loop over its array goes")
            bodies, outer = 1, walked.loop.node
            while outer is not None and outer.id != self.view.body.id:
                mine = self.walks.get(outer.id)
                bodies *= mine.trips if mine is not None else 1
                outer = outer.parent  # type: ignore[assignment]
            if bodies > _BODIES:
                raise Refused("its loops are too long to be unrolled")

    # writing

    def result(self) -> RewriteResult:
        """All edits."""
        for walked in self.walks.values():
            self._keep(walked)
        for walked in self.walks.values():
            self._count_to_end(walked)
        for element in self.picked:
            self._write_pick(element)
        return RewriteResult(tuple(self.edits), title=f"Keep {self.name} in registers")

    def _count_to_end(self, walked: _Walk) -> None:
        view, loop = self.view, walked.loop
        condition = field(loop.node, "condition")
        for node in (condition, loop.bounds[0]):
            if not view.is_plain_enough(node):
                raise Refused("a macro writes what would have to change")
        if start_with_pragmas(view.file, view.start(loop.node)) == view.start(loop.node):
            self._before(loop.node, "#pragma unroll")
        replaced = self._open.get(loop.node.id, [])
        if not self._has_bound(walked):
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
        view, statement = self.view, self._statement(element)
        assert statement is not None
        kind = self.array.element_type
        picked, item = self.style.local(f"{self.name}Picked"), self.style.local("item")
        index = view.written(self._index(element))
        wrapped = index if re.fullmatch(r"[\w.]+", index) else f"({index})"
        step = self.style.step
        self._before(
            statement,
            f"{kind} {picked} = {zero(kind)};",
            "#pragma unroll",
            f"for (int {item} = 0; {item} < {self.size}; {item}++) {{",
            f"{step}if ({item} == {wrapped}) {picked} = {self.name}[{item}];",
            "}",
        )
        self.edits.append(TextEdit(view.span(element), picked))

    # what is read again in every round

    def _keep(self, walked: _Walk) -> None:
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
            or around.id in self.walks
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
        declared = {view.code(n) for n in walk(around) if n.type == "identifier" and _is_declared(n)}
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

    def _write_kept(self, element: Node, walked: _Walk, outer: Counting, around: Node) -> None:
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


def _is_declared(node: Node) -> bool:
    parent = node.parent
    return (
        parent is not None
        and parent.type in ("init_declarator", "declaration", "array_declarator")
        and (
            parent.child_by_field_name("declarator") is not None
            and holds(parent.child_by_field_name("declarator") or parent, node)
        )
    )


REWRITE = Rewrite(
    slug="array-in-registers",
    title="Keep a thread's own array in registers",
    apply=refusing(_apply),
    answers=("local-memory-array",),
    chance=0.6,
    gain=3.0,
)
