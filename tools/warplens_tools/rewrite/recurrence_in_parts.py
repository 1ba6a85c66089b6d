# SPDX-License-Identifier: Apache-2.0
"""recurrence-in-parts

Give the linear recurrence of a column to several threads of a block.

A smoothed mean, a gated state, a filter with feedback, a discounted return: each step makes `a * h + b` of the one
before, so a thread walks all steps alone, and there are as many threads as columns. But steps one after another are
one step, `a2 * (a1 * h + b1) + b2`. Of a block's threads that have one column each takes a stretch of it: it first
makes one step of that, the stretches' steps meet in shared memory, and it then walks its stretch again from what the
ones before it came to.

```cuda
__global__ void smooth(const float* x, float* y, float keep, int steps, int channels) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float h = 0.0f;
  for (int t = 0; t < steps; ++t) {
    h = keep * h + (1.0f - keep) * x[t * channels + c];
    y[t * channels + c] = h;
  }
}
void run(const float* x, float* y, int steps, int channels) {
  smooth<<<(channels + 127) / 128, 128>>>(x, y, 0.9f, steps, channels);
}
```

```cuda
constexpr int kColumns = 32;

constexpr int kParts = 16;

__global__ void smooth(const float* x, float* y, float keep, int steps, int channels) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float h = 0.0f;
  __shared__ float factors[kParts][kColumns], terms[kParts][kColumns];
  const int each = (steps + kParts - 1) / kParts;
  const int from = static_cast<int>(threadIdx.y) * each;
  const int end = from + each < steps ? from + each : steps;
  float factor = 1.0f, term = 0;
  for (int t = from; t < end; ++t) {
    const float by = keep;
    factor *= by;
    term = by * term + (1.0f - keep) * x[t * channels + c];
  }
  factors[threadIdx.y][threadIdx.x] = factor;
  terms[threadIdx.y][threadIdx.x] = term;
  __syncthreads();
  for (int part = 0; part < threadIdx.y; ++part) {
    h = factors[part][threadIdx.x] * h + terms[part][threadIdx.x];
  }
  for (int t = from; t < end; ++t) {
    h = keep * h + (1.0f - keep) * x[t * channels + c];
    y[t * channels + c] = h;
  }
}
void run(const float* x, float* y, int steps, int channels) {
  smooth<<<(channels + kColumns - 1) / kColumns, dim3(kColumns, kParts)>>>(x, y, 0.9f, steps, channels);
}
```

Indices that go on by the same in each step begin where the stretch does. What the kernel stores behind its loop is
stored by the last of a column's threads. Left alone: steps under a condition, several variables that are carried,
integers that may overflow, and loops that do not walk down columns that are neighbours; sums alone are
[scan-columns](scan-columns.md)'s.
"""

from __future__ import annotations

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.affine import Affine, affine_step, written
from warplens_tools.rewrite.common.column_blocks import RANGES, ColumnBlocks
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import ColumnGroup
from warplens_tools.rewrite.common.kernel_reader import JOINED
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.reading import field, renamed, statements
from warplens_tools.rewrite.common.scans import check_apart

_ONE = {"float": "1.0f", "double": "1.0", "unsigned": "1u", "unsigned int": "1u", "uint32_t": "1u"}


class _Recurrence(msgspec.Struct, frozen=True):
    loop: Counting
    name: str
    type: str
    step: Affine
    #: Declarations before the step.
    declared: tuple[Node, ...]
    #: Other variables that each step moves on, by how much, and the statements that do.
    stepped: tuple[tuple[str, str, Node], ...]


@opening
def _apply(found: Opened) -> RewriteResult:
    blocks = ColumnBlocks(found)
    one = _read(found)
    blocks.check_neighbours([one.loop.body])
    _check_beside(found, one)
    columns, parts, definitions = blocks.relaunch()
    lines = _lines(found, one, columns, parts)
    indent = found.text.newline + found.edits.indent(one.loop.node)
    found.edits.replace(one.loop.node, "\n".join(lines).replace("\n", indent))
    for statement in _stores_behind(found, one):
        found.edits.guard([statement], f"threadIdx.y == {parts} - 1")
    GroupEdits(found.edits, ColumnGroup(found.style, parts, columns)).define_helpers(*definitions)
    caveat = REORDERED if integer_type(one.type) is None else ""
    title = "Share each column's recurrence among several threads of a block"
    return RewriteResult(found.all_edits(), title=title, caveat=caveat)


def _read(found: Opened) -> _Recurrence:
    """The kernel's only loop, as a recurrence.

    Raises:
        Refused: it is none.
    """
    reader = found.reader
    if JOINED.search(reader.tree.code_of(reader.body)):
        raise Refused("threads work together already")
    loops = [n for n in walk(reader.body) if n.type in LOOPS]
    loop = counting(reader.expanded, loops[0]) if len(loops) == 1 else None
    if loop is None or loop.downward or loop.step != "1" or len(loop.bounds) != 1 or not loop.declared:
        raise Refused("no loop walks down a column step by step")
    if loop.first is None:
        raise Refused("no loop walks down a column step by step")
    body = statements(loop.body)
    if any(n.type not in ("declaration", "expression_statement") for n in body):
        raise Refused("a step does more than to set variables and to store")
    check_apart(found, loop)
    return _carried(found, loop, body)


def _carried(found: Opened, loop: Counting, body: list[Node]) -> _Recurrence:
    """The variable that the loop carries, with all else that it moves on."""
    tree, stepped, steps = found.reader.tree, list[tuple[str, str, Node]](), list[tuple[str, Node]]()
    inside = {n for s in body if s.type == "declaration" for n in _declared(found, s)}
    for node in body:
        whole = node.named_children[0] if node.type == "expression_statement" else node
        if node.type == "declaration" or _is_store(whole):
            continue
        target = whole.child_by_field_name("left") or whole.child_by_field_name("argument")
        if target is None or target.type != "identifier" or tree.code_of(target) in inside:
            raise Refused("a step does more than to set variables and to store")
        name, by = tree.code_of(target), _moved(found, whole, loop)
        if by:
            stepped.append((name, by, node))
        else:
            steps.append((name, whole))
    if len(steps) != 1 or len({n for n, _, _ in stepped}) != len(stepped):
        raise Refused("the loop carries no variable, or several")
    name, assignment = steps[0]
    kind = _type(found, name, assignment)
    before = [n for n in body if n.type == "declaration" and n.end_byte <= assignment.start_byte]
    moved = {n for n, _, _ in stepped}
    if any(name in _names(found, n) for n in before):
        raise Refused("a step makes more of what it carries than one sum")
    if assignment.type != "assignment_expression":
        raise Refused("the loop counts")
    step = affine_step(tree, assignment, name)
    if not step.factor or written(step.factor, "1") == "1":
        raise Refused("the loop only sums up")
    if integer_type(kind) is not None and "/" in written(step.factor, "1"):
        raise Refused("an integer is divided in each step")
    # what is moved on before the step is another place than behind it
    if any(n.start_byte < assignment.start_byte for _, _, n in stepped) or moved & {name}:
        raise Refused("an index moves on before the step")
    return _Recurrence(loop, name, kind, step, tuple(before), tuple(stepped))


def _declared(found: Opened, statement: Node) -> set[str]:
    kinds = ("init_declarator", "declaration")
    return {
        found.reader.tree.code_of(n)
        for n in walk(statement)
        if n.type == "identifier" and n.parent is not None and n.parent.type in kinds
    }


def _is_store(node: Node) -> bool:
    target = node.child_by_field_name("left")
    return node.type == "assignment_expression" and target is not None and target.type != "identifier"


def _moved(found: Opened, node: Node, loop: Counting) -> str:
    """By what a statement moves an index or a pointer on in each step; "" for any other."""
    tree = found.reader.tree
    if node.type == "update_expression":
        return "1" if "++" in tree.code_of(node) else ""
    if node.type != "assignment_expression" or field(node, "operator").type != "+=":
        return ""
    binding = found.reader.binding(field(node, "left"))
    if binding is None:
        return ""
    start, end = binding.declaration
    kind = integer_type(_declared_type(found, start, end))
    right = field(node, "right")
    fixed = right.type in ("identifier", "number_literal") and tree.code_of(right) != loop.variable
    changed = any(tree.code_of(right) == name for name in _set_in(found, loop.body))
    is_index = binding.kind == "pointer" or kind is not None
    return tree.text_of(right) if fixed and not changed and is_index else ""


def _set_in(found: Opened, body: Node) -> set[str]:
    tree = found.reader.tree
    targets = (n.child_by_field_name("left") or n.child_by_field_name("argument") for n in walk(body)
               if n.type in ("assignment_expression", "update_expression"))  # fmt: skip
    return {tree.code_of(t) for t in targets if t is not None} | {
        name for n in walk(body) if n.type == "declaration" for name in _declared(found, n)
    }


def _declared_type(found: Opened, start: int, end: int) -> str:
    node: Node | None = found.reader.tree.root.descendant_for_byte_range(start, end)
    while node is not None and node.type not in ("declaration", "parameter_declaration"):
        node = node.parent
    kind = node.child_by_field_name("type") if node is not None else None
    return " ".join(found.reader.tree.code_of(kind).split()) if kind is not None else ""


def _type(found: Opened, name: str, assignment: Node) -> str:
    """The carried variable's type.

    Raises:
        Refused: it is the loop's own, or no number that may be multiplied in another order.
    """
    target = assignment.child_by_field_name("left") or assignment
    binding = found.reader.binding(target)
    if binding is None or found.reader.is_inside(binding, found.reader.body) is False:
        raise Refused(f"{name} is no variable of the thread's own")
    kind = _declared_type(found, *binding.declaration)
    if kind not in _ONE:
        raise Refused(f"the type of {name} is not known to be one that may be multiplied in another order")
    return kind


def _names(found: Opened, node: Node) -> set[str]:
    return {found.reader.tree.code_of(n) for n in walk(node) if n.type == "identifier"}


def _check_beside(found: Opened, one: _Recurrence) -> None:
    """That stretches do not read what others store, and that nothing rests on moved indices behind the loop.

    Raises:
        Refused: one does.
    """
    reader, loop = found.reader, one.loop
    written_to = {s.array: "".join(reader.tree.code_of(s.target).split()) for s in reader.stores(loop.node)}
    for node in walk(loop.node):
        if node.type in ("subscript_expression", "pointer_expression"):
            array, _ = reader.array_of(node)
            if array in written_to and "".join(reader.tree.code_of(node).split()) != written_to[array]:
                raise Refused("a step reads what another stores")
    moved = {name for name, _, _ in one.stepped}
    for node in walk(reader.body):
        if (
            node.start_byte >= loop.node.end_byte
            and node.type == "identifier"
            and reader.tree.code_of(node) in moved
        ):
            raise Refused("an index is used behind the loop")
    before = (n for n in walk(reader.body) if n.end_byte <= loop.node.start_byte)
    for statement in (n for n in before if n.type == "expression_statement"):
        if reader.has_atomic(statement) or any(s.space != "local" for s in reader.stores(statement)):
            raise Refused("it stores before its loop")


def _stores_behind(found: Opened, one: _Recurrence) -> list[Node]:
    reader, behind = found.reader, list[Node]()
    for statement in walk(reader.body):
        if statement.type != "expression_statement" or statement.start_byte < one.loop.node.end_byte:
            continue
        if reader.has_atomic(statement):
            raise Refused("it has an atomic beside its loop")
        if any(s.space != "local" for s in reader.stores(statement)):
            behind.append(statement)
    return behind


def _lines(found: Opened, one: _Recurrence, columns: str, parts: str) -> list[str]:
    """The loop, in the place of the old one."""
    tree, loop, kind, fresh = found.reader.tree, one.loop, one.type, found.edits.fresh_here
    factors, terms, factor, term = (fresh(n) for n in ("factors", "terms", "factor", "term"))
    each, start, end, part, by = (fresh(n) for n in ("each", "from", "end", "part", "by"))
    index = " ".join(tree.code_of(field(field(loop.node, "initializer"), "type")).split())
    begin = tree.text_of(loop.first) if loop.first is not None else "0"
    limit = tree.text_of(loop.bounds[0])
    limit = f"{limit} + 1" if "<=" in tree.text_of(field(loop.node, "condition")) else limit
    count = limit if begin == "0" else f"{limit} - ({begin})"
    first = f"static_cast<{index}>(threadIdx.y) * {each}"
    head = f"for ({index} {loop.variable} = {start}; {loop.variable} < {end}; ++{loop.variable}) {{"
    unit = found.edits.unit
    own = {name: fresh(f"{name}2") for name, _, _ in one.stepped}
    gone = start if begin == "0" else f"{start} - ({begin})"
    moves = [f"{name} += {_far(gone, step)};" for name, step, _ in one.stepped]
    copies = [f"auto {own[name]} = {name};" for name, _, _ in one.stepped]
    added = written(one.step.term, _ONE[kind])
    taken = [tree.text_of(n) for n in one.declared]
    taken.append(f"const {kind} {by} = {written(one.step.factor, _ONE[kind])};")
    taken.append(f"{factor} *= {by};")
    taken.append(f"{term} = {by} * {term}{f' + {added}' if added else ''};".replace("+ -", "- "))
    taken += [tree.text_of(n) for _, _, n in one.stepped]
    body = [tree.text_of(n) for n in statements(loop.body)]
    lines = [
        f"__shared__ {kind} {factors}[{parts}][{columns}], {terms}[{parts}][{columns}];",
        f"const {index} {each} = ({count} + {parts} - 1) / {parts};",
        f"const {index} {start} = {first if begin == '0' else f'{begin} + {first}'};",
        f"const {index} {end} = {start} + {each} < {limit} ? {start} + {each} : {limit};",
        *moves,
        *copies,
        f"{kind} {factor} = {_ONE[kind]}, {term} = 0;",
        head,
        *(unit + renamed(line, own) for line in taken),
        "}",
        f"{factors}[threadIdx.y][threadIdx.x] = {factor};",
        f"{terms}[threadIdx.y][threadIdx.x] = {term};",
        "__syncthreads();",
        f"for (int {part} = 0; {part} < threadIdx.y; ++{part}) {{",
        f"{unit}{one.name} = {factors}[{part}][threadIdx.x] * {one.name} + {terms}[{part}][threadIdx.x];",
        "}",
        head,
        *(unit + line for line in body),
        "}",
    ]
    return [line for whole in lines for line in whole.split("\n")]


def _far(steps: str, by: str) -> str:
    """How far an index has moved in so many steps."""
    return steps if by == "1" else f"static_cast<size_t>({steps}) * {by}"


REWRITE = Rewrite(
    slug="recurrence-in-parts",
    title="Share each column's recurrence among several threads of a block",
    apply=_apply,
    answers=("grid-too-small", "low-ilp"),
    chance=0.55,
    gain=5.0,
    ranges=RANGES,
)
