# SPDX-License-Identifier: Apache-2.0
"""row-for-block

Give a row to a block where every output of it folds the whole row again.

A thread that has one element of the result, and needs the row's maximum, sum or mean for it, works that out by itself:
a row of a thousand elements is read a thousand times. A block takes the row instead: its threads fold it together,
once, and then walk its outputs.

```cuda
__global__ void normalize(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows || col >= cols) return;
  float sum = 0.0f;
  for (int j = 0; j < cols; ++j) sum += in[row * cols + j];
  out[row * cols + col] = in[row * cols + col] / sum;
}
void run(const float* in, float* out, int rows, int cols) {
  normalize<<<dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(in, out, rows, cols);
}
```

```cuda
constexpr int kThreadsPerRow = 256;

__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

__device__ float block_sum(float value) {
  __shared__ float partial[32];
  const int warps = (blockDim.x + 31) / 32;
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = warp_sum(threadIdx.x % 32 < warps ? partial[threadIdx.x % 32] : 0.0f);
  __syncthreads();
  return value;
}

__global__ void normalize(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) sum += in[row * cols + j];
  sum = block_sum(sum);
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    out[row * cols + col] = in[row * cols + col] / sum;
  }
}
void run(const float* in, float* out, int rows, int cols) {
  normalize<<<(rows + 15) / 16 * 16, kThreadsPerRow>>>(in, out, rows, cols);
}
```

Left alone: kernels whose threads work together already, whose loops rest on the output's place in its row (products,
windows), or that fold nothing.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.rewrite import index_into_axes, share_uniform_loops
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.axis_walk import AxisWalk, LaunchAxis, launch_axes
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.counting import LOOPS
from warplens_tools.rewrite.common.launches import times
from warplens_tools.rewrite.common.reading import View, field, refusing, shares_memory, statements
from warplens_tools.text import SourceText, TextEdit

_THREADS = 256
_NOTHING = "no loop folds what all outputs of a row need"


def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Give rows to blocks; rows and columns are divided out of the thread's number first where they have to be."""
    found = _SHARED.result(_BLOCK.title, text, model, kernel, target)
    if found.edits or found.refused == _NOTHING:
        return found
    flat = _FLAT.result(_BLOCK.title, text, model, kernel, target)
    return flat if flat.edits else found


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    code = view.code(view.body)
    if shares_memory(view) or "gridDim" in code or "blockIdx.z" in code:
        raise Refused("its threads work together, or stride by the grid")
    if "for" not in code and "while" not in code:
        raise Refused(_NOTHING)
    axes = {axis.letter: axis for axis in launch_axes(view)}
    columns, rows = axes.get("x"), axes.get("y")
    if columns is None or rows is None or not columns.threads:
        raise Refused("its threads are not numbered by rows and columns")
    block, around = _block(view)
    walked = AxisWalk(view, columns, block, around)
    if not any(n.type in LOOPS for n in walked.kept):
        raise Refused(_NOTHING)
    return _given(view, walked, rows)


def _block(view: View) -> tuple[list[Node], Node | None]:
    """The kernel's statements, or those of the `if` that it ends with."""
    top = statements(view.body)
    last = top[-1]
    if last.type == "if_statement" and last.child_by_field_name("alternative") is None:
        inside = field(last, "consequence")
        if inside.type == "compound_statement" and statements(inside):
            return statements(inside), last
    return top, None


def _numbered(view: View, edits: list[TextEdit], statement: Node, value: Node) -> list[TextEdit]:
    """The edits with the block's number for the row's: in the declaration that is left, where both stood in one."""
    whole, written = view.span(statement), view.written(value)
    for at, edit in enumerate(edits):
        if edit.span == whole and edit.new_text.count(written) == 1:
            numbered = TextEdit(whole, edit.new_text.replace(written, "blockIdx.x"))
            return [*edits[:at], numbered, *edits[at + 1 :]]
    return [*edits, TextEdit(view.span(value), "blockIdx.x")]


def _given(view: View, walked: AxisWalk, rows: LaunchAxis) -> RewriteResult:
    threads = walked.style.constant("kThreadsPerRow", str(_THREADS))

    def limit() -> str:
        raise Refused("nothing says how long a row is")

    edits = walked.edits("threadIdx.x", "blockDim.x", limit)
    value = rows.number.value
    if value is None or not view.is_plain_enough(value):
        raise Refused("a macro writes what would have to change")
    edits = _numbered(view, edits, rows.number.statement, value)
    for launch in walked.launches.read():
        count = times(launch.grid.axis(1), launch.block.axis(1)) if rows.threads else launch.grid.axis(1)
        walked.launches.set_whole(launch.grid, count)
        walked.launches.set_whole(launch.block, threads)
    return RewriteResult(
        (walked.style.constants(), *edits, *walked.launches.edits()), title="Give each row to a block"
    )


_BLOCK = Rewrite("row-for-block", "Give each row to a block, which folds it once", refusing(_apply))
_SHARED = Chain(_BLOCK, share_uniform_loops.REWRITE, restrict=False)
_FLAT = Chain(index_into_axes.REWRITE, _BLOCK, share_uniform_loops.REWRITE, restrict=False)
REWRITE = Rewrite(
    slug="row-for-block",
    title=_BLOCK.title,
    apply=apply,
    answers=("missing-cache-reuse", "repeated-work"),
    chance=0.7,
    gain=20.0,
    ranges={"kThreadsPerRow": (64, 128, 256, 512)},
)
