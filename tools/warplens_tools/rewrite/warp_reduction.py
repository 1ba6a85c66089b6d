# SPDX-License-Identifier: Apache-2.0
"""warp-reduction

Reduce a block's values by its warps, not by a tree of barriers.

A tree in shared memory takes as many barriers as the block has halvings, and half of its threads idle from the first
one on; where strides grow, the busy threads lie apart as well, so that every warp is busy with one lane. Each warp can
reduce its own values by shuffles, and the first warp what they come to: two steps whatever the block's size.

```cuda
__global__ void sum(const float* in, float* out, int n) {
  __shared__ float sdata[256];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    if (tid % (2 * s) == 0) {
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
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  // Each warp by shuffles, then the first one what they came to.
  float value = sdata[tid];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  __syncthreads();
  if (tid % 32 == 0) sdata[tid / 32] = value;
  __syncthreads();
  if (tid < 32) {
    value = tid < blockDim.x / 32 ? sdata[tid] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    if (tid == 0) sdata[0] = value;
  }
  __syncthreads();
  if (tid == 0) out[blockIdx.x] = sdata[0];
}
```

It takes sums, minima and maxima, strides that halve or double, `for` and `while`, in blocks of a power of two of at
least 32 threads, as the tree itself needs them. What follows must read element 0 alone.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, field, refusing, squeezed, statements, unwrapped
from warplens_tools.rewrite.common.style import Style, zero
from warplens_tools.rewrite.common.trees import Tree, check_tree, element_type, read_join
from warplens_tools.text import TextEdit

_LOOPS = frozenset({"for_statement", "while_statement"})
_HALVED = r"(?:{0}>>=1|{0}/=2|{0}={0}/2|{0}={0}>>1)"
_DOUBLED = r"(?:{0}<<=1|{0}\*=2|{0}={0}\*2|{0}=2\*{0}|{0}\+={0})"
_BLOCK = r"(blockDim\.x|\w+)"


class _Loop(msgspec.Struct, frozen=True):
    """The head of a tree's loop: its stride goes down from half of the block, or up from one."""

    node: Node
    stride: str
    up: bool
    #: The block's size as the loop says it.
    size: str
    #: The statement before a `while` that sets its stride, and is not needed without it.
    set_by: Node | None = None


def _apply(view: View, target: Target) -> RewriteResult:
    trees = [(loop, tree) for loop in _loops(view) for tree in [_tree(view, loop)] if tree is not None]
    trees = [pair for pair in trees if not target.lines or view.span(pair[0].node).line in target.lines]
    if not trees:
        raise Refused("the kernel has no reduction tree in shared memory")
    style, edits = Style(view), list[TextEdit]()
    for loop, tree in trees:
        check_tree(view, tree, [t for _, t in trees])
        _check_size(view, loop, tree)
        edits.append(TextEdit(view.span(loop.node), _written(view, style, tree)))
        if loop.set_by is not None and not _is_used(view, loop):
            edits.append(TextEdit(view.span(loop.set_by), ""))
    is_exact = all(element_type(view, t) not in ("float", "double") for _, t in trees)
    return RewriteResult(
        tuple(edits), title="Reduce by warps, not by a tree", caveat="" if is_exact else REORDERED
    )


def _loops(view: View) -> list[_Loop]:
    return [
        found for n in walk(view.body) if n.type in _LOOPS for found in [_loop(view, n)] if found is not None
    ]


def _loop(view: View, node: Node) -> _Loop | None:
    """What a loop over strides says of them; None for another loop."""
    update = node.child_by_field_name("update")
    if node.type == "for_statement":
        initial = node.child_by_field_name("initializer")
        if update is None or initial is None or node.child_by_field_name("condition") is None:
            return None
        step, before = squeezed(view.code(update)), initial
    else:
        body = statements(field(node, "body"))
        previous = node.prev_named_sibling
        if not body or previous is None:
            return None
        step, before = squeezed(view.code(body[-1])).rstrip(";"), previous
    condition = squeezed(view.code(unwrapped(field(node, "condition"))))
    start = re.search(r"(\w+)=([^;,]+);?$", squeezed(view.code(before)))
    if start is None or not view.is_plain(node):
        return None
    name = re.escape(re.sub(r"^(?:unsignedint|unsigned|int|size_t|auto|uint)(?=\w)", "", start[1]))
    set_by = before if node.type == "while_statement" else None
    half = re.fullmatch(rf"\(?{_BLOCK}(?:/2|>>1)\)?", start[2])
    number = view.expanded.constants.value(start[2], node.start_byte)
    size = half[1] if half is not None else str(2 * number) if number else ""
    if (
        size
        and re.fullmatch(_HALVED.format(name), step)
        and re.fullmatch(rf"{name}(?:>0|>=1|!=0)?", condition)
    ):
        return _Loop(node, name, False, size, set_by)
    most = re.fullmatch(rf"{name}<{_BLOCK}", condition)
    if start[2] == "1" and most and re.fullmatch(_DOUBLED.format(name), step):
        return _Loop(node, name, True, most[1], set_by)
    return None


def _tree(view: View, loop: _Loop) -> Tree | None:
    """The tree of a loop whose body joins two elements and waits."""
    body = statements(field(loop.node, "body"))
    if loop.node.type == "while_statement":
        body = body[:-1]
    body = [n for n in body if not squeezed(view.code(n)).startswith("__syncthreads")]
    if not body or "__syncthreads" not in view.code(loop.node) or len(body) > 2:
        return None
    aliases = dict(re.findall(r"(\w+)=([^;]+);", squeezed(view.code(body[0])))) if len(body) == 2 else {}
    test = body[-1]
    if test.type != "if_statement" or test.child_by_field_name("alternative") is not None or len(aliases) > 1:
        return None
    inside = statements(field(test, "consequence"))
    if len(inside) != 1:
        return None
    condition = squeezed(view.code(unwrapped(field(test, "condition"))))
    return _read(loop, aliases, condition, squeezed(view.code(inside[0])))


def _read(loop: _Loop, aliases: dict[str, str], condition: str, code: str) -> Tree | None:
    s, name = loop.stride, r"(threadIdx\.x|\w+)"
    if aliases:
        given, value = next(iter(aliases.items()))
        given = re.sub(r"^(?:const)?(?:unsignedint|unsigned|int|size_t|auto)(?=\w)", "", given)
        strided = re.fullmatch(rf"2\*{s}\*{name}|{name}\*2\*{s}|{s}\*2\*{name}|{name}\*{s}\*2", value)
        if strided is None or not loop.up or condition not in (f"{given}<{loop.size}", f"{given}<blockDim.x"):
            return None
        thread = next(g for g in strided.groups() if g)
        return read_join(loop.node, s, thread, code, place=given)
    twice = rf"\(?(?:2\*{s}|{s}\*2)\)?"
    patterns = (
        (rf"{name}%{twice}==0|\({name}%{twice}\)==0|!\({name}%{twice}\)|\({name}&\({twice}-1\)\)==0")
        if loop.up
        else rf"{name}<{s}|{s}>{name}"
    )
    found = re.fullmatch(patterns, condition)
    thread = next((g for g in found.groups() if g), "") if found is not None else ""
    return read_join(loop.node, s, thread, code) if thread else None


def _check_size(view: View, loop: _Loop, tree: Tree) -> None:
    """That the tree goes over the whole block."""
    if loop.size == "blockDim.x":
        return
    value = view.expanded.constants.value(loop.size, view.body.start_byte)
    sites = view.model.launches_of(view.kernel)
    blocks = {site.block_value[0] for site in sites}
    if value is None or blocks != {value}:
        raise Refused(f"the tree over {tree.array} is not over the whole block")


def _is_used(view: View, loop: _Loop) -> bool:
    """Whether a `while`'s stride has another use."""
    assert loop.set_by is not None
    if loop.set_by.type != "declaration" or len(loop.set_by.children_by_field_name("declarator")) != 1:
        return True
    inside = (
        range(loop.node.start_byte, loop.node.end_byte),
        range(loop.set_by.start_byte, loop.set_by.end_byte),
    )
    return any(
        n.type == "identifier" and view.code(n) == loop.stride and not any(n.start_byte in r for r in inside)
        for n in walk(view.body)
    )


def _written(view: View, style: Style, tree: Tree) -> str:
    value, offset, thread = style.local("value"), style.local("offset"), tree.thread
    margin = re.match(r"[ \t]*", view.text.line_text(view.span(tree.loop).line))
    indent, step = margin[0] if margin is not None else "", style.step
    other = f"__shfl_down_sync(0xffffffff, {value}, {offset})"
    shuffled = f"for (int {offset} = 16; {offset} > 0; {offset} /= 2) {tree.joined(value, other)}"
    kind = element_type(view, tree)
    rest = zero(view.concrete(kind)) if tree.adds else f"{tree.array}[0]"
    lines = [
        "// Each warp by shuffles, then the first one what they came to.",
        f"{kind} {value} = {tree.array}[{thread}];",
        shuffled,
        "__syncthreads();",
        f"if ({thread} % 32 == 0) {tree.array}[{thread} / 32] = {value};",
        "__syncthreads();",
        f"if ({thread} < 32) {{",
        f"{step}{value} = {thread} < blockDim.x / 32 ? {tree.array}[{thread}] : {rest};",
        f"{step}{shuffled}",
        f"{step}if ({thread} == 0) {tree.array}[0] = {value};",
        "}",
        "__syncthreads();",
    ]
    return f"{view.text.newline}{indent}".join(lines)


REWRITE = Rewrite(
    slug="warp-reduction",
    title="Reduce a block's values by its warps, not by a tree",
    apply=refusing(_apply),
    answers=("barrier-heavy", "excess-barriers", "warp-divergence", "shared-bank-conflicts"),
    chance=0.6,
    gain=1.5,
)
