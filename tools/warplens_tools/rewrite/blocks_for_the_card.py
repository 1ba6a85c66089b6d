# SPDX-License-Identifier: Apache-2.0
"""blocks-for-the-card

Launch as many blocks as the card holds where threads stride over their data by the grid.

Such a kernel is right with any grid. One of 32 blocks leaves most of a card's multiprocessors idle; one of a block
for every 256 elements ends each block, its reductions and its atomics after one element a thread. A few blocks for
each multiprocessor are enough; how many is a constant that may be tuned.

```cuda
__global__ void square(const float* in, float* out, int n) {
  int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    out[i] = in[i] * in[i];
  }
}

void run(const float* in, float* out, int n) {
  square<<<32, 256>>>(in, out, n);
}
```

```cuda
constexpr int kBlocks = 1056;  // eight for each of 132 multiprocessors

__global__ void square(const float* in, float* out, int n) {
  int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    out[i] = in[i] * in[i];
  }
}

void run(const float* in, float* out, int n) {
  square<<<kBlocks, 256>>>(in, out, n);
}
```

Left alone: a kernel that uses the number of a block or of blocks for anything else, as for a result of each block, or
is given it, and one that stores outside of such loops, which one block alone may do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.launches import Launch, Launches
from warplens_tools.rewrite.common.reading import View, calls, field, refusing, stores
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.thread_forms import axis_letter, is_grids

_BLOCKS = 1056
_OWN = re.compile(r"(?:kBlocks|BLOCKS)\d*")
_ONE = re.compile(r"1(?:\.0*)?[fF]?")
#: Functions whose values of parts do not add up to that of the whole.
_BENDS = re.compile(
    r"(?:std::)?(?:__)?(?:r?sqrt|r?cbrt|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|f?abs|tanh?|sinh?|cosh?|erfc?|floor|ceil|round|trunc|frcp_r\w)f?"
)
_SAID = "eight for each of 132 multiprocessors"


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if re.search(r"\b(?:blockIdx|gridDim)\s*\.\s*[yz]\b|\bthis_grid\b|grid_group", view.code(view.body)):
        raise Refused("its grid has more than one dimension")
    launches = Launches(view.text, view.model, view.kernel)
    read = launches.read()
    loops = list(_strided(view, launches))
    if not loops:
        raise Refused("no loop strides over data by the grid")
    _check_elsewhere(view, launches, [head for loop in loops for head in _head(loop)])
    outside = (e for e in stores(view, view.body) if not any(holds(loop, e) for loop in loops))
    if any(view.space(e) not in ("shared", "local") for e in outside):
        raise Refused("every block writes the same results")
    if any(_is_bent(view, node) for node in _behind(view, loops)):
        raise Refused("what a block adds is no sum of what its threads add")
    if any(_is_told(one) for one in read):
        raise Refused("the kernel is given its number of blocks")
    if any(len(one.grid.written) > 1 and set(one.grid.written[1:]) - {"1"} for one in read):
        raise Refused("its grid has more than one dimension")
    if all(_OWN.fullmatch(one.grid.axis(0)) for one in read):
        raise Refused("its grid is what the card holds already")
    style = Style(view)
    blocks = style.constant("kBlocks", str(_BLOCKS), _SAID)
    for launch in read:
        launches.set(launch.grid, {0: blocks})
    sums = any(name.startswith("atomicAdd") for name, _ in calls(view.body, view))
    return RewriteResult(
        (style.constants(), *launches.edits()),
        title="Launch as many blocks as the card holds",
        caveat=REORDERED if sums else "",
    )


def _strided(view: View, launches: Launches) -> Iterator[Node]:
    """The loops that begin at the thread's number in the grid and step by that of all threads."""
    site = launches.sites[0] if launches.sites else None
    for node in walk(view.body):
        if node.type != "for_statement":
            continue
        loop = view.forms.loop(node)
        step = loop.step
        if step is None or loop.first is None or not is_grids(step, "x", launches.block_value(0)):
            continue
        if axis_letter(loop.first, site) == "x" and not loop.first.constant:
            yield node


def _behind(view: View, loops: list[Node]) -> Iterator[Node]:
    """What stands outside the loops and makes a number: a call, or a product or a quotient."""
    for node in walk(view.body):
        if node.type in ("call_expression", "binary_expression") and not any(
            holds(one, node) for one in loops
        ):
            yield node


def _is_bent(view: View, node: Node) -> bool:
    """Whether it is no multiple of what it is made of: parts of a sum have other values then than the sum has."""
    if node.type == "call_expression":
        return _BENDS.fullmatch(view.code(field(node, "function"))) is not None
    left, right = (view.code(field(node, side)) for side in ("left", "right"))
    operator = view.code(field(node, "operator"))
    one_over = operator == "/" and _ONE.fullmatch(left) is not None
    return one_over or (operator == "*" and left == right)


def _is_told(launch: Launch) -> bool:
    """Whether a variable that holds the number of blocks is passed to the kernel, too."""
    blocks = launch.grid.axis(0)
    given = " ".join(launch.site.arguments)
    return blocks.isidentifier() and re.search(rf"\b{blocks}\b", given) is not None


def _head(loop: Node) -> list[Node]:
    found = (loop.child_by_field_name(f) for f in ("initializer", "condition", "update"))
    return [node for node in found if node is not None]


def _check_elsewhere(view: View, launches: Launches, heads: list[Node]) -> None:
    """That the numbers of blocks, and what is made of them, serve those loops alone.

    Raises:
        Refused: they do not.
    """
    site = launches.sites[0]
    allowed, made = list(heads), set[str]()
    for node in walk(view.body):
        if node.type != "declaration" or any(holds(h, node) for h in heads):
            continue
        for one in plainly_declared_in(view, node):
            form = view.forms.form(one.value) if one.value is not None else None
            if form is None:
                continue
            if axis_letter(form, site) == "x" or is_grids(form, "x", launches.block_value(0)):
                made.add(one.name)
                allowed.append(node)
    own = {d.name for h in heads if h.type == "declaration" for d in plainly_declared_in(view, h)}
    for node in walk(view.body):
        is_told = node.type == "identifier" and view.code(node) in {"blockIdx", "gridDim", *(made - own)}
        if is_told and not any(holds(a, node) for a in allowed):
            raise Refused("each block has something of its own to do")


REWRITE = Rewrite(
    slug="blocks-for-the-card",
    title="Launch as many blocks as the card holds",
    apply=refusing(_apply),
    answers=("grid-too-small", "barrier-heavy", "global-atomic-contention", "wave-quantization"),
    chance=0.5,
    gain=2.0,
    ranges={"kBlocks": (132, 264, 528, 1056, 2112, 4224)},
)
