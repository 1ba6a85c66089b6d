# SPDX-License-Identifier: Apache-2.0
"""strides-in-vectors

Let the threads of a row's block walk several neighbouring columns each, loaded in vectors of 8 or 16 bytes.

Where a block has a row, its threads stride over the row's columns, and each walks rows that it adds up, as those of an
embedding, a warp loads one line an instruction. With eight halves or four floats a thread it loads as much as 16 bytes a
lane with one, works out once which rows they are, and a block needs fewer threads, so that more rows are under way.

```cuda
__global__ void bags(const float* table, const int* ids, const int* ends, float* out, int dim) {
  int bag = blockIdx.x;
  for (int d = threadIdx.x; d < dim; d += blockDim.x) {
    float sum = 0.0f;
    for (int p = ends[bag]; p < ends[bag + 1]; ++p) sum += table[ids[p] * dim + d];
    out[bag * dim + d] = sum;
  }
}
void run(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  bags<<<count, 128>>>(table, ids, ends, out, dim);
}
```

```cuda
constexpr int kVector = 4;  // columns of a thread, up to 16 bytes

__global__ void bags(const float* table, const int* ids, const int* ends, float* out, int dim) {
  int bag = blockIdx.x;
  for (int d0 = kVector * threadIdx.x; d0 < dim; d0 += kVector * blockDim.x) {
    if (d0 + kVector <= dim && dim % kVector == 0 && reinterpret_cast<size_t>(out) % 16 == 0 && reinterpret_cast<size_t>(table) % 16 == 0) {
      float sum[kVector] = {};
      for (int p = ends[bag]; p < ends[bag + 1]; ++p) {
        alignas(16) float tablePart[kVector];
        *reinterpret_cast<float4*>(tablePart) = *reinterpret_cast<const float4*>(&table[ids[p] * dim + d0]);
        #pragma unroll
        for (int o = 0; o < kVector; ++o) {
          int d = d0 + o;
          sum[o] += tablePart[o];
        }
      }
      alignas(16) float outPart[kVector];
      #pragma unroll
      for (int o = 0; o < kVector; ++o) {
        int d = d0 + o;
        outPart[o] = sum[o];
      }
      *reinterpret_cast<float4*>(&out[bag * dim + d0]) = *reinterpret_cast<const float4*>(outPart);
    } else {
      for (int d = d0; d < dim && d < d0 + kVector; ++d) {
        float sum = 0.0f;
        for (int p = ends[bag]; p < ends[bag + 1]; ++p) sum += table[ids[p] * dim + d];
        out[bag * dim + d] = sum;
      }
    }
  }
}
void run(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  bags<<<count, 32>>>(table, ids, ends, out, dim);
}
```

Blocks keep a warp at least. Columns that do not fill a vector, and rows that do not begin at one, are walked one by one.
Left alone: what [columns-in-vectors](columns-in-vectors.md) leaves alone, work beside the loop over columns, and
outputs that rest on each other.
"""  # noqa: E501

from __future__ import annotations

import re

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.columns_in_vectors import ColumnsWriter
from warplens_tools.rewrite.common.block_strides import check_apart, outputs_of, strided_by_block
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View, refusing, shares_memory
from warplens_tools.rewrite.common.style import indented
from warplens_tools.text import TextEdit

#: Threads of a block at least: a warp.
_LEAST = 32


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if shares_memory(view):
        raise Refused("the threads of a block work together already")
    launches = Launches(view.text, view.model, view.kernel)
    loop = strided_by_block(view, launches)
    check_apart(view, loop)
    writer = ColumnsWriter(view, outputs_of(view, loop), launches, is_strided=True)
    kind, first, count = unqualified(writer.axis.type), writer.first, writer.count
    head = f"for ({kind} {first} = {count} * threadIdx.x; {first} < {writer.limit}; {first} += {count} * blockDim.x) {{"
    text = "\n".join([head, indented(writer.in_vectors()), "}"])
    span = view.text.span(view.start(loop.node), view.end(loop.node))
    margin = view.text.line_text(span.line)[: span.column - 1]
    if margin.strip():
        raise Refused("its loop stands behind something on its line")
    lines = writer.style.lines(text).replace(view.text.newline + _margin(writer), view.text.newline + margin)
    _relaunch(launches, writer)
    edits = (writer.style.constants(), TextEdit(span, lines.lstrip()), *launches.edits())
    return RewriteResult(edits, title=f"Walk {writer.vector} columns a thread of each row's block")


def _margin(writer: ColumnsWriter) -> str:
    """How far the style sets a line of the kernel's body in."""
    line = writer.style.lines("x")
    return line[: len(line) - len(line.lstrip())]


def _relaunch(launches: Launches, writer: ColumnsWriter) -> None:
    """A thread for each vector of those that had a column."""
    for launch in launches.read():
        if any(launch.block.axis(a) != "1" for a in (1, 2)):
            raise Refused("its blocks have two axes")
        size, written = launch.site.block_value[0], launch.block.axis(0)
        if size is not None:
            few = -(-size // (writer.vector * _LEAST)) * _LEAST
            launches.set(launch.block, {0: str(few)})
        elif re.fullmatch(r"\w+", written):
            whole = f"{writer.count} * {_LEAST}"
            launches.set(launch.block, {0: f"({written} + {whole} - 1) / ({whole}) * {_LEAST}"})
        else:
            raise Refused("its launch is written in a way that is not understood")


REWRITE = Rewrite(
    slug="strides-in-vectors",
    title="Let the threads of a row's block walk neighbouring columns in vectors",
    apply=refusing(_apply),
    answers=("scalar-access", "low-ilp", "element-gathers"),
    chance=0.6,
    gain=2.0,
    ranges={"kVector": ()},
)
