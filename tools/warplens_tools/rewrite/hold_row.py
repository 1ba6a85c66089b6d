# SPDX-License-Identifier: Apache-2.0
"""hold-row

Keep the elements of a row in registers between the passes over it.

Where a warp or a block walks a row several times, as softmax and layer norm do, every pass loads it again, from L2 or
from memory where there are more rows under way than a cache holds. A thread always takes the same elements: it loads
the first of them once, into a register array, and only what is beyond them again. So every length stays right; the
constant should be large enough for the rows there are, and small enough for the registers.

```cuda
__global__ void softmax(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  int lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int j = lane; j < cols; j += 32) {
    sum += expf(row[j]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, offset);
  }
  for (int j = lane; j < cols; j += 32) {
    out[blockIdx.x * cols + j] = expf(row[j]) / sum;
  }
}
```

```cuda
constexpr int kHeld = 32;  // elements of a row that a thread keeps

__global__ void softmax(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  int lane = threadIdx.x % 32;
  float sum = 0.0f;
  float rowHeld[kHeld];
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int j = lane + h * 32;
    if (j < cols) {
      rowHeld[h] = row[j];
      sum += expf(rowHeld[h]);
    }
  }
  for (int j = lane + kHeld * 32; j < cols; j += 32) {
    sum += expf(row[j]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, offset);
  }
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int j = lane + h * 32;
    if (j < cols) {
      out[blockIdx.x * cols + j] = expf(rowHeld[h]) / sum;
    }
  }
  for (int j = lane + kHeld * 32; j < cols; j += 32) {
    out[blockIdx.x * cols + j] = expf(row[j]) / sum;
  }
}
```

What one pass stores and the next reads is kept as well, and stored once where a later pass overwrites it. Left alone:
passes that are left early or in which threads wait for each other, an array that is accessed in another way between
them, whose address is taken, or that a launch passes twice, and elements that not every iteration accesses.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.held_rows import Row, kept_rows, reads
from warplens_tools.rewrite.common.insertion import insert_before
from warplens_tools.rewrite.common.passes import Group, Pass, read_groups
from warplens_tools.rewrite.common.reading import View, field, refusing, statements, stores, substituted
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

CAVEAT = "undefined results if two of the buffers overlap"
#: With 4 bytes each a quarter of the 32 registers of a thread at full occupancy: a row of 2048 for 256 threads. A warp
#: has fewer threads for a row, so each keeps more: half of them at half the occupancy, a row of 1024.
_HELD, _HELD_BY_WARP = 8, 32
_WARP = 32
_NOTHING_SHARED = "no pass reads again what one before it read or stored"
_SIMPLE = re.compile(r"[\w.]+(?:\[[\w.]*\])?|\w+\([^()]*\)|\([^()]*\)")


def _apply(view: View, target: Target) -> RewriteResult:
    style, edits, overlaps = Style(view), list[TextEdit](), False
    taken = same_buffer(view.file, view.model, view.kernel)
    held = counter = ""
    names = dict[str, str]()
    for group in read_groups(view, target.lines):
        rows = kept_rows(view, group, taken, target.names)
        if not rows:
            continue
        if not held:
            lanes = group.passes[0].stride.value
            count = _HELD_BY_WARP if lanes is not None and lanes <= _WARP else _HELD
            held = style.constant("kHeld", str(count), "elements of a row that a thread keeps")
            counter = style.local("h")
        overlaps = overlaps or _may_overlap(view, group, rows)
        edits += _Writer(view, style, group, rows, held, counter, names).edits()
    if not edits:
        raise Refused(_NOTHING_SHARED)
    caveat = CAVEAT if overlaps else ""
    return RewriteResult(
        (style.constants(), *edits), title="Keep the row in registers between passes", caveat=caveat
    )


def _may_overlap(view: View, group: Group, rows: tuple[Row, ...]) -> bool:
    restricted = {p.name for p in view.kernel.parameters if p.restrict}
    return any(
        array != row.place.array and not {array, row.place.array} <= restricted
        for row in rows
        for array in group.stored
    )


# the code


class _Writer:
    """The passes of one group, with rows kept."""

    def __init__(
        self,
        view: View,
        style: Style,
        group: Group,
        rows: tuple[Row, ...],
        held: str,
        counter: str,
        names: dict[str, str],
    ) -> None:
        """`names` are those that arrays of other groups have; new ones join them."""
        self.view, self.style, self.group, self.rows = view, style, group, rows
        self.held, self.counter = held, counter
        bases = [row.base for row in rows]
        self.arrays: list[str] = []
        for number, row in enumerate(rows):
            wanted = f"{row.base}_held" if "_" in row.base else f"{row.base}Held"
            key = f"{row.base} {row.type} {bases[:number].count(row.base)} {group.span[0].start_byte}"
            self.arrays.append(names.setdefault(key, style.local(wanted)))

    def edits(self) -> list[TextEdit]:
        """One for each pass that touches a row that is kept."""
        touched = [k for k in range(len(self.group.passes)) if any(self._is_in(r, k) for r in self.rows)]
        return [edit for k in touched for edit in self._pass(k)]

    def _is_in(self, row: Row, number: int) -> bool:
        return row.first <= number <= row.last and bool(row.uses[number])

    def _pass(self, number: int) -> list[TextEdit]:
        one, view = self.group.passes[number], self.view
        first, step = _operand(view.written(one.first), "+"), _operand(view.written(one.step), "")
        pairs = zip(self.rows, self.arrays, strict=True)
        declared = [f"{row.type} {array}[{self.held}];" for row, array in pairs if row.first == number]
        edits = list[TextEdit]()
        if one.top.id != one.loop.id and declared:
            above = insert_before(view.tree, one.top, "\n".join(declared))
            if above is None:
                raise Refused("there is no place to declare what is kept")
            edits, declared = [above], []
        lines = [
            *declared,
            "#pragma unroll",
            f"for (int {self.counter} = 0; {self.counter} < {self.held}; ++{self.counter}) {{",
            f"  {one.type} {one.name} = {first} + {self.counter} * {step};",
            f"  if ({one.name} < {view.written(one.limit)}) {{",
            indented("\n".join(self._body(number)), 2),
            "  }",
            "}",
        ]
        rest = substituted(view, one.loop, [(one.first, f"{first} + {self.held} * {step}")])
        margin = self._margin(one.loop)
        code = [_at(self.style, margin, line) for line in "\n".join(lines).split("\n")]
        return [
            *edits,
            TextEdit(view.span(one.loop), view.text.newline.join([*code, margin + rest]).lstrip()),
        ]

    def _margin(self, node: Node) -> str:
        line = self.view.text.line_text(self.view.span(node).line)
        return line[: len(line) - len(line.lstrip())]

    def _body(self, number: int) -> list[str]:
        """The statements for an element that is kept."""
        one, lines, pairs = self.group.passes[number], list[str](), list[tuple[Node, str]]()
        loads: dict[int, list[str]] = {}
        after: list[str] = []
        rows = [(r, a) for r, a in zip(self.rows, self.arrays, strict=True) if self._is_in(r, number)]
        for row, array in rows:
            pairs += [(e, f"{array}[{self.counter}]") for e in row.uses[number]]
        for row, array in rows:
            kept = f"{array}[{self.counter}]"
            direct = self._direct(row, number)
            if direct is not None:
                pairs = self._stored(direct, kept, pairs)
            elif self._writes_back(row, number):
                target = stores(self.view, one.body)
                own = next(e for e in target if e.id in {u.id for u in row.uses[number]})
                after.append(f"{self.view.written(own)} = {kept};")
            if number == row.first and not self._defines(row, number):
                element = row.uses[number][0]
                at = self._top(one, element)
                loads.setdefault(at.id, []).append(f"{kept} = {self.view.written(element)};")
        behind = self.view.start(one.body) + (one.body.type == "compound_statement")
        for node in statements(one.body):
            self._comment(lines, self.view.text.text[behind : self.view.start(node)])
            behind = self.view.end(node)
            lines += loads.get(node.id, [])
            inside = [(n, t) for n, t in pairs if holds(node, n)]
            lines.append(self.style.code(substituted(self.view, node, inside)))
        self._comment(lines, self.view.text.text[behind : self.view.end(one.body)].rstrip().removesuffix("}"))
        return [*lines, *after]

    def _comment(self, lines: list[str], between: str) -> None:
        """Add the comments between two statements: behind the first on its line, else on lines of their own."""
        beside, _, below = between.partition("\n")
        if beside.strip() and lines:
            lines[-1] += f"  {beside.strip()}"
        elif beside.strip():
            lines.append(beside.strip())
        lines += [line.strip() for line in below.split("\n") if line.strip()]

    def _stored(self, store: Node, kept: str, pairs: list[tuple[Node, str]]) -> list[tuple[Node, str]]:
        """`a[i] = kept / b;` for `a[i] /= b;`, a plain `a[i] = b;` as it is."""
        whole = store.parent
        operator, value = (
            (field(whole, name) for name in ("operator", "right")) if whole is not None else (store, store)
        )
        others = [(n, t) for n, t in pairs if n.id != store.id]
        if whole is None or operator.type == "=":
            return others
        inside = [(n, t) for n, t in others if holds(value, n)]
        written = _operand(substituted(self.view, value, inside), "")
        text = f"{self.view.written(store)} = {kept} {operator.type.removesuffix('=')} {written}"
        return [*((n, t) for n, t in others if not holds(whole, n)), (whole, text)]

    # what is stored when

    def _top(self, one: Pass, node: Node) -> Node:
        return next(s for s in statements(one.body) if holds(s, node))

    def _plain_stores(self, row: Row, number: int) -> list[Node]:
        """Stores that are statements of their own, in every iteration."""
        tops = {s.id for s in statements(self.group.passes[number].body)}
        found = []
        for element in row.uses[number]:
            whole = element.parent
            if (
                whole is None
                or whole.type != "assignment_expression"
                or field(whole, "left").id != element.id
            ):
                continue
            if (
                whole.parent is not None
                and whole.parent.id in tops
                and whole.parent.type == "expression_statement"
            ):
                found.append(element)
        return found

    def _all_stores(self, row: Row, number: int) -> list[Node]:
        own = {e.id for e in row.uses[number]}
        return [e for e in stores(self.view, self.group.passes[number].body) if e.id in own]

    def _direct(self, row: Row, number: int) -> Node | None:
        """The one store of the last pass that reads the row, where nothing reads it behind."""
        plain = self._plain_stores(row, number)
        if number != row.last or len(plain) != 1 or len(self._all_stores(row, number)) != 1:
            return None
        whole = plain[0].parent
        behind = [e for e in row.uses[number] if whole is not None and e.start_byte >= whole.end_byte]
        return None if behind else plain[0]

    def _writes_back(self, row: Row, number: int) -> bool:
        if not self._all_stores(row, number):
            return False
        return not any(
            self._plain_stores(row, later) and not self._is_left(number, later)
            for later in range(number + 1, len(self.group.passes))
        )

    def _is_left(self, number: int, later: int) -> bool:
        begin = self.group.passes[number].loop.end_byte
        end = self.group.passes[later].loop.start_byte
        between = (n for s in self.group.span for n in walk(s) if begin <= n.start_byte < end)
        return any(n.type in ("return_statement", "break_statement", "continue_statement") for n in between)

    def _defines(self, row: Row, number: int) -> bool:
        """Whether a pass stores the element before it reads it."""
        element = row.uses[number][0]
        whole = element.parent
        if element.id not in {e.id for e in self._plain_stores(row, number)} or whole is None:
            return False
        inside = any(holds(field(whole, "right"), e) for e in row.uses[number])
        return not reads(element) and not inside


def _operand(written: str, beside: str) -> str:
    """An expression as an operand of `+` ("+"), or of `*` and all that bind less ("")."""
    pattern = r"[\w.\s%]+" if beside else _SIMPLE.pattern
    return written if re.fullmatch(pattern, written) else f"({written})"


def _at(style: Style, margin: str, line: str) -> str:
    """A line that is written with two spaces a level, in the file's indentation."""
    bare = line.lstrip(" ")
    return f"{margin}{style.step * ((len(line) - len(bare)) // 2)}{bare}" if bare else ""


REWRITE = Rewrite(
    slug="hold-row",
    title="Keep a row in registers between passes",
    apply=refusing(_apply),
    answers=("missing-cache-reuse",),
    useless_at="sm",
    chance=0.5,
    gain=1.4,
    ranges={"kHeld": (4, 8, 16, 32)},
)
