# SPDX-License-Identifier: Apache-2.0
"""table-in-shared

Look values up in shared memory instead of constant memory.

The constant cache gives one address of a warp at a time: 32 lanes that look up 32 different entries wait 32 times.
Shared memory gives entries of different banks at once, so each block copies the table first.

```cuda
__constant__ unsigned char table[256];

__global__ void map(const unsigned char* in, unsigned char* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = table[in[i]];
}
void run(const unsigned char* in, unsigned char* out, int n) {
  map<<<(n + 255) / 256, 256>>>(in, out, n);
}
```

```cuda
__constant__ unsigned char table[256];

__global__ void map(const unsigned char* in, unsigned char* out, int n) {
  __shared__ unsigned char shared_table[256];
  for (int t = threadIdx.x; t < 256; t += blockDim.x) shared_table[t] = table[t];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = shared_table[in[i]];
}
void run(const unsigned char* in, unsigned char* out, int n) {
  map<<<(n + 255) / 256, 256>>>(in, out, n);
}
```

Tables of several dimensions stay so: their entries are copied by their numbers. Left alone: tables whose entries all
lanes look up alike, as the weights of a filter, tables that are written to or passed on, and tables of more than
16 KiB.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import ArrayDeclaration
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.opened import Opened
from warplens_tools.rewrite.common.reading import View, field, refusing, stores
from warplens_tools.rewrite.common.strided import block_threads, thread_number

#: Of the 48 KiB that a block may declare, a third: eleven blocks of it still fit into an SM.
_MOST_BYTES = 16 * 1024


class _Table(msgspec.Struct, frozen=True):
    array: ArrayDeclaration
    size: int
    names: tuple[Node, ...]


def _apply(view: View, target: Target) -> RewriteResult:
    tables = [t for t in _tables(view) if not target.names or t.array.name in target.names]
    if not tables:
        raise Refused("it looks up nothing in constant memory that differs from lane to lane")
    found = Opened(view.text, view.model, view.kernel)
    thread = thread_number(view, found.launches)
    stride, lines = block_threads(thread), list[str]()
    for table in tables:
        own = found.edits.fresh_here(_own_name(table.array.name))
        t = found.edits.fresh_here("t")
        extents = "".join(f"[{e}]" for e in table.array.extents)
        lines.append(f"__shared__ {table.array.element_type} {own}{extents};")
        head = f"for (int {t} = {thread}; {t} < {_product(table.array.extents)}; {t} += {stride})"
        at = _indices(t, table.array.extents)
        lines.append(f"{head} {own}{at} = {table.array.name}{at};")
        for name in table.names:
            found.edits.replace(name, own)
    found.edits.before(found.first_statement(), *lines, "__syncthreads();")
    names = ", ".join(t.array.name for t in tables)
    return RewriteResult(found.edits.edits(), title=f"Look {names} up in shared memory")


def _own_name(name: str) -> str:
    """`sharedTable` or `shared_table`."""
    plain = re.sub(r"^(?:[cd]_)", "", name)
    return f"shared_{plain}" if "_" in name or plain.islower() else f"shared{plain[:1].upper()}{plain[1:]}"


def _factor(extent: str) -> str:
    return extent if re.fullmatch(r"\w+", extent) else f"({extent})"


def _product(extents: Sequence[str]) -> str:
    return extents[0] if len(extents) == 1 else " * ".join(map(_factor, extents))


def _indices(number: str, extents: Sequence[str]) -> str:
    """The subscripts of the element of a number: `[t / 8][t % 8]`."""
    if len(extents) == 1:
        return f"[{number}]"
    found, below = list[str](), list[str]()
    for place, extent in reversed(list(enumerate(extents))):
        by = _factor(_product(below)) if below else ""
        index = f"{number} / {by}" if by else number
        found.append(f"[{index} % {_factor(extent)}]" if place else f"[{index}]")
        below.insert(0, extent)
    return "".join(found[::-1])


def _tables(view: View) -> list[_Table]:
    """Constant arrays that lanes read at entries of their own."""
    found: dict[str, tuple[ArrayDeclaration, list[Node], bool]] = {}
    written = {e.id for e in stores(view, view.body)}
    for element in view.elements(view.body):
        if element.type != "subscript_expression" or element.id in written:
            continue
        (base, indices), pointer = _subscripts(element), view.place(element)
        declared = pointer.declared if pointer is not None else None
        if (
            base.type != "identifier"
            or not isinstance(declared, ArrayDeclaration)
            or declared.space != "constant"
        ):
            continue
        if view.code(base) != declared.name:
            continue
        if _is_copied(view, element):
            raise Refused(f"{declared.name} is copied to shared memory already")
        _, names, apart = found.setdefault(declared.name, (declared, [], False))
        names.append(base)
        is_whole = len(indices) == len(declared.extents)
        found[declared.name] = (
            declared,
            names,
            apart or (is_whole and any(_is_apart(view, i) for i in indices)),
        )
    return [
        _Table(array, size, tuple(names))
        for array, names, apart in found.values()
        if (size := _size(array)) and apart and len(names) == _uses(view, array.name)
    ]


def _subscripts(element: Node) -> tuple[Node, list[Node]]:
    """`a`, and `i` and `j`, of `a[i][j]`."""
    indices = list[Node]()
    while element.type == "subscript_expression":
        indices.insert(0, field(element, "indices").named_children[0])
        element = field(element, "argument")
    return element, indices


def _is_copied(view: View, element: Node) -> bool:
    """Whether an entry is put into shared memory as it is."""
    outer = element.parent
    if outer is None or outer.type != "assignment_expression":
        return False
    return view.space(field(outer, "left")) == "shared"


def _is_apart(view: View, index: Node) -> bool:
    """Whether lanes of a warp may look up different entries."""
    form = view.forms.traced(index)
    if form is None:
        return True
    return any(s.opaque or s.kind in ("thread", "derived") for s in form.symbols)


def _size(array: ArrayDeclaration) -> int:
    """How many entries the table has; 0 where it is no small table."""
    sizes = [size for size in array.sizes if size is not None]
    each = type_bytes(array.element_type)
    if not sizes or len(sizes) < len(array.sizes) or each is None:
        return 0
    size = math.prod(sizes)
    return size if 16 <= size <= _MOST_BYTES // each else 0


def _uses(view: View, name: str) -> int:
    return sum(n.type == "identifier" and view.code(n) == name for n in walk(view.body))


REWRITE = Rewrite(
    slug="table-in-shared",
    title="Look values up in shared memory instead of constant memory",
    apply=refusing(_apply),
    answers=("divergent-constant-access",),
    chance=0.6,
    gain=3.0,
)
