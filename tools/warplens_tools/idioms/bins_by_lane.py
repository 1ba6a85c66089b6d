# SPDX-License-Identifier: Apache-2.0
"""bins-by-lane

Count in several copies of a block's bins, so that lanes with the same bin do not wait for each other.

A histogram in shared memory is as slow as its fullest bin: lanes of a warp that add to one address do so one after the other.
Of several copies, neighbouring lanes take each another, a word apart in its banks; what is read of a bin is their sum. A
histogram by atomics in global memory is counted in shared memory first, with loads in vectors.

```cuda
__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
  __shared__ unsigned int part[256];
  if (threadIdx.x < 256) part[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&part[data[i]], 1u);
  }
  __syncthreads();
  if (threadIdx.x < 256) atomicAdd(&bins[threadIdx.x], part[threadIdx.x]);
}
void run(const unsigned char* data, unsigned int* bins, int n) {
  histogram<<<528, 256>>>(data, bins, n);
}
```

```cuda
constexpr int kBinCopies = 16;  // of a block's bins

__global__ void histogram(const unsigned char* __restrict__ data, unsigned int* __restrict__ bins, int n) {
  __shared__ unsigned int part[kBinCopies][256 + 1];
  if (threadIdx.x < 256) for (int c = 0; c < kBinCopies; ++c) part[c][threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&part[threadIdx.x % kBinCopies][data[i]], 1u);
  }
  __syncthreads();
  if (threadIdx.x < 256) {
    unsigned int total = 0;
    for (int c = 0; c < kBinCopies; ++c) total += part[c][threadIdx.x];
    atomicAdd(&bins[threadIdx.x], total);
  }
}
void run(const unsigned char* data, unsigned int* bins, int n) {
  histogram<<<528, 256>>>(data, bins, n);
}
```

Left alone: bins that begin at something else than zero, that are read while they are counted in, whose number is not known, or
of which an atomic's result is used.
"""  # noqa: E501

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds
from warplens_tools.cuda.syntax.types import integer_type, type_bytes
from warplens_tools.idioms.common.first_of import first_of
from warplens_tools.idioms.common.shared_bins import Bins, bins_of
from warplens_tools.rewrite import private_histogram, widen_loop
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.reading import View, field, refusing, substituted
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import Span, TextEdit

TITLE = "Count in several copies of the bins"
#: Static shared memory of a block, and what the copies may have of it: seven such blocks still fit on a multiprocessor.
_STATIC_BYTES, _OURS = 48 * 1024, 32 * 1024
_MOST = 32


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    why, found = "no shared array is counted in", list[Bins]()
    for array in view.kernel.arrays:
        try:
            found.append(bins_of(view, array))
        except Refused as error:
            why = str(error)
    if not found:
        raise Refused(why)
    style = Style(view)
    copies = style.constant("kBinCopies", str(_copies(view, found)), "of a block's bins")
    counter, edits = style.local("c"), list[TextEdit]()
    for bins in found:
        edits += _edits(view, bins, copies, counter)
    edits += _summed(view, style, found, copies, counter)
    exact = all(integer_type(view.concrete(b.array.element_type)) is not None for b in found)
    return RewriteResult((style.constants(), *edits), title=TITLE, caveat="" if exact else REORDERED)


def _copies(view: View, found: list[Bins]) -> int:
    """How many copies a block has room for.

    Raises:
        Refused: not for two.
    """
    mine = sum((b.count + 1) * b.bytes for b in found)
    others = 0
    for array in view.kernel.arrays:
        if array.space == "shared" and array.name not in {b.array.name for b in found}:
            known = [n or _STATIC_BYTES for n in array.sizes]
            others += math.prod(known) * (type_bytes(view.concrete(array.element_type)) or 16)
    room = min(_OURS, _STATIC_BYTES - others)
    copies = next((n for n in (_MOST, 16, 8, 4, 2) if n * mine <= room), 0)
    if not copies:
        raise Refused("a block has no room for a second copy of its bins")
    return copies


def _edits(view: View, bins: Bins, copies: str, counter: str) -> list[TextEdit]:
    name, extent = bins.array.name, bins.array.extent_spans[0]
    written = view.text.slice(extent)
    longer = f"{written} + 1" if re.fullmatch(r"[\w\s*+.:()]+", written) else f"({written}) + 1"
    start = view.text.offset(extent.line, extent.column)
    if view.text.text[start - 1] != "[":
        raise Refused("the bins are declared in a way that is not understood")
    edits = [TextEdit(view.text.span(start - 1, start - 1), f"[{copies}]"), TextEdit(extent, longer)]
    mine = f"{name}[threadIdx.x % {copies}]"
    edits += [TextEdit(_name_span(view, node), mine) for node in bins.added]
    loop = f"for (int {counter} = 0; {counter} < {copies}; ++{counter}) "
    for statement, element in bins.zeroed:
        edits.append(TextEdit(_at(view, statement), loop))
        edits.append(TextEdit(_name_span(view, element), f"{name}[{counter}]"))
    return edits


def _summed(view: View, style: Style, found: list[Bins], copies: str, counter: str) -> Iterator[TextEdit]:
    """The statements that read bins, each with the sums of their copies worked out before it.

    Raises:
        Refused: one such statement stands in another.
    """
    statements = {read.statement.id: read.statement for bins in found for read in bins.read}
    for node in statements.values():
        if any(holds(node, other) for other in statements.values() if other.id != node.id):
            raise Refused("bins are read by a statement in one that reads others")
        lines, pairs = list[str](), list[tuple[Node, str]]()
        for bins, read in ((b, r) for b in found for r in b.read if r.statement.id == node.id):
            total = style.local("total")
            added = f"{total} += {bins.array.name}[{counter}][{view.written(read.index)}];"
            lines.append(f"{bins.array.element_type} {total} = 0;")
            lines.append(f"for (int {counter} = 0; {counter} < {copies}; ++{counter}) {added}")
            pairs += [(place, total) for place in read.places]
        lines.append(substituted(view, node, pairs))
        margin = re.match(r"[ \t]*", view.text.line_text(view.span(node).line))
        between = view.text.newline + (margin[0] if margin is not None else "")
        if node.parent is None or node.parent.type != "compound_statement":
            lines = ["{", *(f"{style.step}{line}" for line in lines), "}"]
        yield TextEdit(view.span(node), between.join(lines))


def _name_span(view: View, node: Node) -> Span:
    """Where the array's name stands in an element, or by itself."""
    return view.span(field(node, "argument") if node.type == "subscript_expression" else node)


def _at(view: View, node: Node) -> Span:
    start = view.start(node)
    return view.text.span(start, start)


_COPIES = Rewrite("bin-copies", TITLE, refusing(_apply))
REWRITE = Rewrite(
    slug="bins-by-lane",
    title=TITLE,
    apply=first_of(
        (
            Chain(_COPIES, widen_loop.REWRITE, alone=True),
            Chain(private_histogram.REWRITE, widen_loop.REWRITE, _COPIES),
        ),
        "kBinCopies",
        TITLE,
        __name__,
    ),
    answers=("shared-atomic-contention", *private_histogram.REWRITE.answers),
    chance=0.6,
    gain=12.0,
    ranges={**private_histogram.REWRITE.ranges, "kBinCopies": (2, 4, 8, 16, 32), "kVector": ()},
)
