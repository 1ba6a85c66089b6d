# SPDX-License-Identifier: Apache-2.0
"""tree-by-shuffle

Let the last warp of a reduction tree use shuffles.

The last six steps of a tree in shared memory concern one warp, but every step is a barrier for the block, and a read
and a write of shared memory. The lanes of a warp hand their values on by shuffles, without either.

```cuda
__global__ void sum(const float* in, float* out, int n) {
  __shared__ float sdata[256];
  int tid = threadIdx.x;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) {
      sdata[tid] += sdata[tid + s];
    }
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}
```

```cuda
__global__ void sum(const float* in, float* out, int n) {
  __shared__ float sdata[256];
  int tid = threadIdx.x;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int s = blockDim.x / 2; s >= 32; s >>= 1) {
    if (tid < s) {
      sdata[tid] += sdata[tid + s];
    }
    __syncthreads();
  }
  if (tid < 32) {
    float value = sdata[tid];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    if (tid == 0) sdata[0] = value;
  }
  __syncthreads();
  if (tid == 0) out[blockIdx.x] = sdata[0];
}
```

It takes sums, minima and maxima of one array, in blocks of a power of two of at least 32 threads, as the tree itself
needs them. What follows must read element 0 alone.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, field, refusing, squeezed, statements, unwrapped
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.trees import Tree, check_tree, element_type, read_join
from warplens_tools.text import TextEdit

_HALVED = re.compile(r"(\w+)(?:>>=1|/=2|=\1/2|=\1>>1)")


def _apply(view: View, target: Target) -> RewriteResult:
    trees = [
        t for n in walk(view.body) if n.type == "for_statement" for t in [_tree(view, n)] if t is not None
    ]
    trees = [t for t in trees if not target.lines or view.span(t.loop).line in target.lines]
    if not trees:
        raise Refused("the kernel has no reduction tree in shared memory")
    style, edits = Style(view), list[TextEdit]()
    for tree in trees:
        check_tree(view, tree, trees)
        edits.append(TextEdit(view.span(field(tree.loop, "condition")), f"{tree.stride} >= 32"))
        at = view.end(tree.loop)
        edits.append(TextEdit(view.text.span(at, at), _last(view, style, tree)))
    caveat = "" if all(element_type(view, t) not in ("float", "double") for t in trees) else _CAVEAT
    return RewriteResult(tuple(edits), title="Shuffles for the last warp of the tree", caveat=caveat)


_CAVEAT = "undefined results if a block has fewer than 32 threads"


def _tree(view: View, loop: Node) -> Tree | None:
    update, condition = loop.child_by_field_name("update"), loop.child_by_field_name("condition")
    halved = _HALVED.fullmatch(squeezed(view.code(update))) if update is not None else None
    body = statements(field(loop, "body"))
    if halved is None or condition is None or len(body) != 2 or not view.is_plain(condition):
        return None
    stride = halved[1]
    is_whole = squeezed(view.code(condition)) in (f"{stride}>0", f"{stride}>=1", stride, f"{stride}!=0")
    if not is_whole or "__syncthreads" not in view.code(body[1]) or body[0].type != "if_statement":
        return None
    test = squeezed(view.code(unwrapped(field(body[0], "condition"))))
    thread = re.fullmatch(rf"(threadIdx\.x|\w+)<{stride}|{stride}>(threadIdx\.x|\w+)", test)
    inside = statements(field(body[0], "consequence"))
    if thread is None or len(inside) != 1 or body[0].child_by_field_name("alternative") is not None:
        return None
    return read_join(loop, stride, thread[1] or thread[2], squeezed(view.code(inside[0])))


def _last(view: View, style: Style, tree: Tree) -> str:
    """The code behind the loop."""
    value, offset = style.local("value"), style.local("offset")
    margin = re.match(r"[ \t]*", view.text.line_text(view.span(tree.loop).line))
    indent, step = margin[0] if margin is not None else "", style.step
    place = f"{tree.array}[{tree.thread}]"
    joined = tree.joined(value, f"__shfl_down_sync(0xffffffff, {value}, {offset})")
    lines = [
        f"if ({tree.thread} < 32) {{",
        f"{step}{element_type(view, tree)} {value} = {place};",
        f"{step}for (int {offset} = 16; {offset} > 0; {offset} /= 2) {joined}",
        f"{step}if ({tree.thread} == 0) {tree.array}[0] = {value};",
        "}",
        "__syncthreads();",
    ]
    return "".join(f"{view.text.newline}{indent}{line}" for line in lines)


REWRITE = Rewrite(
    slug="tree-by-shuffle",
    title="Shuffles for the last warp of a reduction tree",
    apply=refusing(_apply),
    answers=("barrier-heavy", "excess-barriers"),
    chance=0.4,
    gain=1.15,
)
