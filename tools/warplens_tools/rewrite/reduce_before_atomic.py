# SPDX-License-Identifier: Apache-2.0
"""reduce-before-atomic

Add up within the block before an atomic goes to memory.

Atomics on one address are done one after another in the L2, however many SMs send them. The lanes of a warp can add
up their values by shuffles, the warps of a block through shared memory, and one thread adds the block's sum. Each
thread takes several items first, so that there are fewer blocks.

```cuda
__global__ void dot(const float* a, const float* b, float* result, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float product = a[i] * b[i];
    atomicAdd(result, product);
  }
}
void run(const float* a, const float* b, float* result, int n) {
  dot<<<(n + 255) / 256, 256>>>(a, b, result, n);
}
```

```cuda
constexpr int kItemsPerThread = 16;

__global__ void dot(const float* a, const float* b, float* result, int n) {
  float partial = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    float product = a[i] * b[i];
    partial += product;
  }
  // Lanes, then warps, then one atomic for the block.
  __shared__ float warpPartials[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 16; offset > 0; offset /= 2) partial += __shfl_down_sync(0xffffffff, partial, offset);
  if (lane == 0) warpPartials[warp] = partial;
  __syncthreads();
  if (warp == 0) {
    partial = lane < (blockDim.x + 31) / 32 ? warpPartials[lane] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) partial += __shfl_down_sync(0xffffffff, partial, offset);
    if (lane == 0) atomicAdd(result, partial);
  }
}
void run(const float* a, const float* b, float* result, int n) {
  dot<<<((n + 255) / 256 + kItemsPerThread - 1) / kItemsPerThread, 256>>>(a, b, result, n);
}
```

It takes `atomicAdd`, `atomicMax`, `atomicMin` and `atomicOr`, several of them too, and a function of the file's own
that makes a sum, maximum or minimum of `atomicCAS`. Left alone: an atomic whose old
value is used, that goes to another place for each thread, or that only some threads of a block reach on purpose; a
kernel with barriers or shuffles of its own.
"""

from __future__ import annotations

import math
import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.atomics import Atomic, joining, read_atomic
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View, calls, field, has_barrier, refusing, squeezed
from warplens_tools.rewrite.common.strided import Strided, block_threads, thread_number
from warplens_tools.rewrite.common.style import Style

#: Items of a thread: a sixteenth of the atomics and of the block's own reductions, and still blocks enough for a card
#: on a few million items.
_ITEMS = 16


def _apply(view: View, target: Target) -> RewriteResult:
    if has_barrier(view):
        raise Refused("the threads of a block work together already")
    atomics = atomics_of(view, target)
    launches = Launches(view.text, view.model, view.kernel)
    extents = [launches.block_value(axis) for axis in range(3)]
    if None not in extents and math.prod(e or 1 for e in extents) % 32:
        raise Refused("its blocks do not consist of whole warps")
    strided = Strided(view, launches)
    style = strided.style
    names = [style.local("partial") for _ in atomics]
    before, replaced, after = [], [], []
    number = thread_number(view, launches)
    for atomic, name in zip(atomics, names, strict=True):
        strided.check_uniform(atomic.target)
        before.append(f"{atomic.type} {name} = {atomic.neutral()};")
        for statement, value in zip(atomic.statements, atomic.values, strict=True):
            replaced.append((statement, atomic.joined(name, view.written(value))))
    after.append(_reduction(view, style, list(zip(atomics, names, strict=True)), number))
    if strided.axis is not None and not any(n.type in LOOPS for w in strided.outputs.work for n in walk(w)):
        items = style.constant("kItemsPerThread", str(_ITEMS))
        strided.relaunch(items)
    edit = strided.kernel("\n".join(before), replaced, "\n".join(after))
    is_exact = not any(a.type in ("float", "double") for a in atomics)
    return strided.result(edit, "Reduce within the block before the atomic", "" if is_exact else REORDERED)


def _reduction(view: View, style: Style, pairs: list[tuple[Atomic, str]], number: str) -> str:
    lane, warp, offset = style.local("lane"), style.local("warp"), style.local("offset")
    shared = [style.local("warpPartials") for _ in pairs]
    lines = ["// Lanes, then warps, then one atomic for the block."]
    lines += [f"__shared__ {a.type} {s}[32];" for (a, _), s in zip(pairs, shared, strict=True)]
    lines.append(f"int {lane} = ({number}) % 32, {warp} = ({number}) / 32;" if " " in number else
                 f"int {lane} = {number} % 32, {warp} = {number} / 32;")  # fmt: skip
    for (atomic, name), place in zip(pairs, shared, strict=True):
        lines += [_shuffled(atomic, name, offset), f"if ({lane} == 0) {place}[{warp}] = {name};"]
    lines += ["__syncthreads();", f"if ({warp} == 0) {{"]
    warps = f"({block_threads(number)} + 31) / 32"
    for (atomic, name), place in zip(pairs, shared, strict=True):
        lines.append(f"  {name} = {lane} < {warps} ? {place}[{lane}] : {atomic.neutral()};")
        lines.append("  " + _shuffled(atomic, name, offset))
        lines.append(f"  if ({lane} == 0) {atomic.name}({view.written(atomic.target)}, {name});")
    return "\n".join([*lines, "}"])


def _shuffled(atomic: Atomic, name: str, offset: str) -> str:
    step = atomic.joined(name, f"__shfl_down_sync(0xffffffff, {name}, {offset})")
    return f"for (int {offset} = 16; {offset} > 0; {offset} /= 2) {step}"


def atomics_of(view: View, target: Target) -> list[Atomic]:
    """The kernel's atomics that join values, those of one place together.

    Raises:
        Refused: there is none, or single threads are chosen for one already; as `read_atomic`.
    """
    found: dict[tuple[str, str], Atomic] = {}
    for name, call in calls(view.body, view):
        if not re.fullmatch(r"atomic\w+", name) and not joining(view, name):
            continue
        if target.lines and view.span(call).line not in target.lines:
            continue
        atomic = read_atomic(view, name, call)
        if _chosen(view, atomic.statements[0]):
            raise Refused("single threads are chosen for the atomic already")
        key = (name, squeezed(view.code(atomic.target)))
        known = found.get(key)
        if known is not None:
            statements = (*known.statements, *atomic.statements)
            atomic = msgspec.structs.replace(
                atomic, statements=statements, values=(*known.values, *atomic.values)
            )
        found[key] = atomic
    if not found:
        raise Refused("the kernel has no atomics")
    return list(found.values())


def _chosen(view: View, statement: Node) -> bool:
    """Whether a condition around it picks threads by their number."""
    outer = statement.parent
    while outer is not None and outer.start_byte > view.body.start_byte:
        if outer.type == "if_statement" and re.search(
            r"threadIdx\s*\.\s*x\s*==|\blane\w*\s*==|\btid\w*\s*==\s*0|==\s*threadIdx",
            view.code(field(outer, "condition")),
        ):
            return True
        outer = outer.parent
    return False


REWRITE = Rewrite(
    slug="reduce-before-atomic",
    title="Reduce within the block before the atomic",
    apply=refusing(_apply),
    answers=("global-atomic-contention",),
    chance=0.6,
    gain=4.0,
    ranges={"kItemsPerThread": (4, 8, 16, 32, 64)},
)
