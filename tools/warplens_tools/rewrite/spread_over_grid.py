# SPDX-License-Identifier: Apache-2.0
"""spread-over-grid

Spread what one block does over the card.

A launch of one block leaves all multiprocessors but one idle. Where its threads stride through independent elements,
threads of as many blocks as there are elements for can do so together.

```cuda
__global__ void relu(float* data, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    data[i] = fmaxf(data[i], 0.0f);
  }
}

void launch(float* data, int n) {
  relu<<<1, 256>>>(data, n);
}
```

```cuda
__global__ void relu(float* data, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    data[i] = fmaxf(data[i], 0.0f);
  }
}

void launch(float* data, int n) {
  relu<<<(n + 256 - 1) / 256, 256>>>(data, n);
}
```

Left alone: threads that work together, loops that fold into anything but an atomic, memory that is written outside of
the loops, and a launch of more than one block.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Symbol
from warplens_tools.cuda.values.loop_headers import initialised
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.kernel_reader import ATOMIC, JOINED
from warplens_tools.rewrite.common.launches import Launch
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening

_THREAD = forms.variable(Symbol("threadIdx.x", "thread"))
_SIMPLE = re.compile(r"[A-Za-z_]\w*|\d+")


@opening
def apply(found: Opened) -> RewriteResult:
    """Let every loop that strides by the block stride by the grid."""
    joined = JOINED.search(found.reader.tree.code_of(found.reader.body))
    if joined:
        raise Refused(f"threads work together ({joined[0]})")
    launches = found.launches.read()
    if not launches or any(launch.site.grid_value != (1, 1, 1) for launch in launches):
        raise Refused("it is not launched with one block")
    if Numbering(found.reader, "y", None).threads or Numbering(found.reader, "x", None).blocks:
        raise Refused("its threads are numbered otherwise than by threadIdx.x")
    loops = _loops(found)
    for loop in loops:
        _, first = initialised(loop.node)
        if first is None:
            raise Refused("a loop begins elsewhere")
        found.edits.replace(first, f"blockIdx.x * blockDim.x + {found.reader.tree.text_of(first)}")
        found.edits.replace(loop.update, f"{loop.variable} += gridDim.x * blockDim.x")
    for launch in launches:
        found.launches.set(launch.grid, {0: _grid(found, launch, loops[0])})
    edits = found.all_edits()
    return RewriteResult(edits, title="Spread one block's work over the card", caveat=_caveat(found))


def _caveat(found: Opened) -> str:
    has = any(ATOMIC.fullmatch(name.split("<")[0]) for _, name in found.reader.calls(found.reader.body))
    return "atomics come in another order: sums may differ in the last digits" if has else ""


def _loops(found: Opened) -> list[Counting]:
    """Every loop from `threadIdx.x` by `blockDim.x`, each independent, and nothing written beside them."""
    reader = found.reader
    loops = []
    for node in walk(reader.body):
        loop = counting(reader.expanded, node) if node.type == "for_statement" else None
        if loop is None or _is_inner(found, node) or not _strides_by_block(found, loop):
            continue
        work = reader.work(loop)
        if work.why_not:
            raise Refused(work.why_not)
        if work.folds and any(s.space == "global" for s in reader.stores(reader.body)):
            raise Refused("what a thread folds is written to memory")
        loops.append(loop)
    if not loops:
        raise Refused("no loop strides by the block")
    for store in reader.stores(reader.body):
        if store.space == "global" and not any(holds(loop.node, store.target) for loop in loops):
            raise Refused("memory is written outside of the loops")
    arrays = [{s.array for s in reader.stores(loop.node)} for loop in loops]
    names = ["".join(reader.tree.code_of(loop.node)) for loop in loops]
    for index, written in enumerate(arrays):
        for other, code in enumerate(names):
            if other != index and any(re.search(rf"\b{re.escape(name)}\b", code) for name in written):
                raise Refused("one loop touches what another writes")
    return loops


def _is_inner(found: Opened, node: Node) -> bool:
    parent = node.parent
    while parent is not None and parent.id != found.reader.body.id:
        if parent.type in LOOPS:
            return True
        parent = parent.parent
    return False


def _strides_by_block(found: Opened, loop: Counting) -> bool:
    first, step = found.reader.forms.form(loop.first), found.reader.forms.loop(loop.node).step
    size = found.launches.block_value(0)
    if first != _THREAD or step is None or loop.downward:
        return False
    return [s.name for s in step.symbols] == ["blockDim.x"] or (step.value is not None and step.value == size)


def _grid(found: Opened, launch: Launch, loop: Counting) -> str:
    """Blocks for one element a thread."""
    bound = found.reader.tree.code_of(loop.bounds[0])
    given = found.launches.argument(launch, bound)
    if not given and _SIMPLE.fullmatch(bound):
        binding = found.reader.binding(loop.bounds[0]) if loop.bounds[0].type == "identifier" else None
        given = bound if binding is None or not binding.local else ""
    if not _SIMPLE.fullmatch(given):
        raise Refused("the launch does not know how many elements there are")
    block = launch.block.axis(0)
    block = block if _SIMPLE.fullmatch(block) else f"({block})"
    return f"({given} + {block} - 1) / {block}"


REWRITE = Rewrite(
    slug="spread-over-grid",
    title="Spread one block's work over the card",
    apply=apply,
    answers=("grid-too-small",),
    chance=0.8,
    gain=20.0,
)
