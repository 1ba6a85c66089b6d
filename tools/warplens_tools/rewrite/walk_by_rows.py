# SPDX-License-Identifier: Apache-2.0
"""walk-by-rows

Walk rows one after the other instead of dividing one number into row and column.

A block that goes through all images of a channel, or all rows of a group, and numbers their elements by one counter
divides it for every element, and hides that neighbours lie side by side. Two loops need no division, and the inner one
walks a row in the way that [widen-loop](widen-loop.md) can load in vectors.

```cuda
__global__ void channel_sum(const float* x, float* out, int images, int channels, int pixels) {
  int c = blockIdx.x;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < images * pixels; i += blockDim.x) {
    int n = i / pixels;
    int p = i % pixels;
    sum += x[(n * channels + c) * pixels + p];
  }
  atomicAdd(&out[c], sum);
}
```

```cuda
__global__ void channel_sum(const float* x, float* out, int images, int channels, int pixels) {
  int c = blockIdx.x;
  float sum = 0.0f;
  for (int n = 0; n < images; ++n) {
    for (int p = threadIdx.x; p < pixels; p += blockDim.x) {
      sum += x[(n * channels + c) * pixels + p];
    }
  }
  atomicAdd(&out[c], sum);
}
```

Left alone: a counter that is used for more than row and column, a number of elements that is not written as rows times
columns, and iterations that have to do with each other but for what they fold into. Rows shorter than a block leave
threads idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.text import Span, TextEdit

_FACTOR = re.compile(r"\w+")
_QUALIFIED = re.compile(r"\b(?:const|register)\b\s*")


class _Rows(msgspec.Struct, frozen=True):
    """A counter that is divided into row and column, and the statements that do that."""

    loop: Counting
    row: str
    column: str
    type: str
    rows: str
    columns: str
    divisions: tuple[Node, ...]


@opening
def apply(found: Opened) -> RewriteResult:
    """Take every such loop apart."""
    edits, reason = list[TextEdit](), ""
    for node in walk(found.reader.body):
        if node.type != "for_statement":
            continue
        try:
            rows = _read(found, node)
            why = found.reader.work(rows.loop).why_not
            if why:
                raise Refused(why)
        except Refused as error:
            reason = reason or str(error)
            continue
        edits.append(TextEdit(found.reader.tree.span(node), _written(found, rows)))
    if not edits:
        raise Refused(reason or "no loop divides its counter into row and column")
    return RewriteResult(tuple(edits), title="Walk rows one after the other", caveat=REORDERED)


def _read(found: Opened, node: Node) -> _Rows:
    tree, loop = found.reader.tree, counting(found.reader.expanded, node)
    first = _squeezed(found, loop.first) if loop is not None and loop.first is not None else ""
    if loop is None or not loop.declared or loop.downward or len(loop.bounds) != 1 or not first:
        raise Refused("no loop divides its counter into row and column")
    size, step = found.launches.block_value(0), "".join(loop.step.split())
    # a constant that the launches have for their block, too
    constant = found.reader.expanded.constants.value(step, node.start_byte)
    by_block = step == "blockDim.x" or (size is not None and constant == size)
    form = found.reader.forms.form(loop.first)
    if not by_block or form is None or form.coefficient("threadIdx.x") != 1 or len(form.symbols) != 1:
        raise Refused("its threads do not stride over rows by their block")
    body = [n for n in loop.body.named_children if n.type != "comment"]
    declared = [one for n in body if n.type == "declaration" for one in _declared(found, n)]
    row = next(((n, name, m) for n, name, kind, m in declared if kind == "/" and m[0] == loop.variable), None)
    column = next(
        ((n, name, m) for n, name, kind, m in declared if kind == "%" and m[0] == loop.variable), None
    )
    if row is None or column is None or row[2][1] != column[2][1]:
        raise Refused("no loop divides its counter into row and column")
    divisions = {row[0].id: row[0], column[0].id: column[0]}
    known = [one for n in divisions.values() for one in _declared(found, n)]
    named = sum(len(n.children_by_field_name("declarator")) for n in divisions.values())
    uses = [n for n in walk(loop.body) if n.type == "identifier" and tree.code_of(n) == loop.variable]
    if named != 2 or len(known) != 2 or len(uses) != 2:
        raise Refused("its counter is used for more than row and column")
    changed = re.search(
        rf"\b(?:{row[1]}|{column[1]})\s*(?:[-+*/%]?=(?!=)|\+\+|--)", _rest(found, loop, divisions)
    )
    if changed is not None:
        raise Refused("its row or its column is changed")
    columns = row[2][1]
    kinds = {_QUALIFIED.sub("", tree.code_of(n)[: _names_begin(n)]).strip() for n in divisions.values()}
    if len(kinds) != 1:
        raise Refused("its row and its column are of different types")
    return _Rows(
        loop, row[1], column[1], kinds.pop(), _times(found, loop, columns), columns, tuple(divisions.values())
    )


def _declared(found: Opened, node: Node) -> Iterator[tuple[Node, str, str, tuple[str, str]]]:
    """`n = i / w` and `p = i % w`: the statement, the name, the operator, and both operands."""
    for one in node.children_by_field_name("declarator"):
        name, value = one.child_by_field_name("declarator"), one.child_by_field_name("value")
        operator = value.child_by_field_name("operator") if value is not None else None
        if name is None or value is None or value.type != "binary_expression" or operator is None:
            continue
        sides = tuple(_squeezed(found, value.child_by_field_name(side)) for side in ("left", "right"))
        if name.type == "identifier" and operator.type in ("/", "%") and _FACTOR.fullmatch(sides[1]):
            yield node, found.reader.tree.code_of(name), operator.type, (sides[0], sides[1])


def _rest(found: Opened, loop: Counting, divisions: dict[int, Node]) -> str:
    """The loop's body without the statements that divide."""
    kept = (n for n in loop.body.named_children if n.id not in divisions)
    return " ".join(found.reader.tree.code_of(n) for n in kept)


def _names_begin(node: Node) -> int:
    return node.children_by_field_name("declarator")[0].start_byte - node.start_byte


def _times(found: Opened, loop: Counting, columns: str) -> str:
    """How many rows there are: `N` of `N * w`."""
    bound: Node | None = loop.bounds[0]
    condition = loop.node.child_by_field_name("condition")
    binding = found.reader.binding(loop.bounds[0]) if loop.bounds[0].type == "identifier" else None
    if binding is not None and binding.value is not None and found.reader.forms.set_once(binding):
        bound = found.value_of(binding) or bound
    factors = _squeezed(found, bound).strip("()").split("*")
    is_strict = condition is not None and "=" not in found.reader.tree.code_of(condition)
    if (
        columns not in factors
        or not all(_FACTOR.fullmatch(f) for f in factors)
        or len(factors) < 2
        or not is_strict
    ):
        raise Refused("how many rows there are is not told")
    factors.remove(columns)
    return " * ".join(factors)


def _squeezed(found: Opened, node: Node | None) -> str:
    return "".join(found.reader.tree.code_of(node).split()) if node is not None else ""


def _written(found: Opened, rows: _Rows) -> str:
    tree, newline = found.reader.tree, found.text.newline
    margin, step = found.edits.indent(rows.loop.node), found.edits.unit
    first = tree.text_of(rows.loop.first) if rows.loop.first is not None else "0"
    lines = [
        f"for ({rows.type} {rows.row} = 0; {rows.row} < {rows.rows}; ++{rows.row}) {{",
        f"{step}for ({rows.type} {rows.column} = {first}; {rows.column} < {rows.columns}; "
        f"{rows.column} += {rows.loop.step}) {{",
    ]
    for line in _inside(found, rows):
        is_deeper = line.startswith(margin) and line[len(margin) : len(margin) + 1].isspace()
        lines.append(f"{step}{line.removeprefix(margin)}" if is_deeper else f"{step}{step}{line.strip()}")
    lines += [f"{step}}}", "}"]
    return f"{newline}{margin}".join(lines)


def _inside(found: Opened, rows: _Rows) -> Iterator[str]:
    """The lines of the loop's body, comments among them, without the statements that divide."""
    body = found.reader.tree.span(rows.loop.body)
    ends = [(body.line, body.column + 1)]
    for node in sorted(rows.divisions, key=lambda n: n.start_byte):
        span = found.reader.tree.span(node)
        ends += [(span.line, span.column), (span.end_line, span.end_column)]
    ends.append((body.end_line, body.end_column - 1))
    parts = (found.text.slice(Span(*ends[i], *ends[i + 1])) for i in range(0, len(ends), 2))
    for line in "".join(parts).split(found.text.newline):
        if line.strip():
            yield line.rstrip()


REWRITE = Rewrite(
    slug="walk-by-rows",
    title="Walk rows one after the other instead of dividing a counter",
    apply=apply,
    answers=("integer-division",),
    chance=0.4,
    gain=1.3,
)
