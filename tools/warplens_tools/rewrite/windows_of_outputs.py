# SPDX-License-Identifier: Apache-2.0
"""windows-of-outputs

Work out several outputs a thread, and let them share the elements on which their windows overlap.

The windows of outputs below each other have all but a row in common. Where a thread works out several of them, with no
test in between, the loops of the window unrolled, and one index for each element, the compiler sees that an element is
the one that the output before has loaded, and keeps it, and what is made of it, in registers.

```cuda
#define RADIUS 2
__global__ void alike(const float* padded, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int pitch = width + 2 * RADIUS + 8;
  const float* here = padded + (y + RADIUS) * pitch + x + RADIUS;
  float best = 1e30f;
  for (int s = 1; s <= 8; s++) {
    const float* other = here + s;
    float apart = 0.0f;
    for (int j = -RADIUS; j <= RADIUS; j++) {
      for (int i = -RADIUS; i <= RADIUS; i++) {
        float d = here[j * pitch + i] - other[j * pitch + i];
        apart += d * d;
      }
    }
    best = fminf(best, apart);
  }
  out[y * width + x] = best;
}
void run(const float* padded, float* out, int width, int height) {
  dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
  alike<<<grid, block>>>(padded, out, width, height);
}
```

```cuda
#define RADIUS 2

#define OUTPUTS 4  // of a thread

__global__ void alike(const float* __restrict__ padded, float* __restrict__ out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int pitch = width + 2 * RADIUS + 8;
  if (x >= width) return;
  const int y0 = (blockIdx.y * blockDim.y + threadIdx.y) * OUTPUTS;
  float best[OUTPUTS];
  #pragma unroll
  for (int o = 0; o < OUTPUTS; ++o) {
    best[o] = 1e30f;
  }
  const bool inside = y0 + (OUTPUTS - 1) < height;
  if (inside) {
    for (int s = 1; s <= 8; s++) {
      float apart[OUTPUTS] = {};
      #pragma unroll
      for (int j = -RADIUS; j <= RADIUS; j++) {
        #pragma unroll
        for (int i = -RADIUS; i <= RADIUS; i++) {
          #pragma unroll
          for (int o = 0; o < OUTPUTS; ++o) {
            int y = y0 + o;
            float d = padded[(y + RADIUS) * pitch + x + RADIUS + j * pitch + i] - padded[(y + RADIUS) * pitch + x + RADIUS + s + j * pitch + i];
            apart[o] += d * d;
          }
        }
      }
      #pragma unroll
      for (int o = 0; o < OUTPUTS; ++o) {
        best[o] = fminf(best[o], apart[o]);
      }
    }
    #pragma unroll
    for (int o = 0; o < OUTPUTS; ++o) {
      int y = y0 + o;
      out[y * width + x] = best[o];
    }
  } else {
    for (int s = 1; s <= 8; s++) {
      float apart[OUTPUTS] = {};
      for (int j = -RADIUS; j <= RADIUS; j++) {
        for (int i = -RADIUS; i <= RADIUS; i++) {
          #pragma unroll
          for (int o = 0; o < OUTPUTS; ++o) {
            int y = y0 + o < height ? y0 + o : height - 1;
            float d = padded[(y + RADIUS) * pitch + x + RADIUS + j * pitch + i] - padded[(y + RADIUS) * pitch + x + RADIUS + s + j * pitch + i];
            apart[o] += d * d;
          }
        }
      }
      #pragma unroll
      for (int o = 0; o < OUTPUTS; ++o) {
        best[o] = fminf(best[o], apart[o]);
      }
    }
    #pragma unroll
    for (int o = 0; o < OUTPUTS; ++o) {
      int y = y0 + o;
      if (y < height) out[y * width + x] = best[o];
    }
  }
}
void run(const float* padded, float* out, int width, int height) {
  dim3 block(32, 8), grid((width + 31) / 32, ((height + 7) / 8 + OUTPUTS - 1) / OUTPUTS);
  alike<<<grid, block>>>(padded, out, width, height);
}
```

It is [several-outputs](several-outputs.md) and [inside-without-tests](inside-without-tests.md) on a kernel whose
pointers into an array are written as indices of that array. Left alone: windows that are not of a constant size, or of
more than 64 elements.
"""  # noqa: E501

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite import inside_without_tests, several_outputs
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, in_a_plane
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.flat_pointers import with_outputs
from warplens_tools.rewrite.common.outputs_writer import OUTPUTS
from warplens_tools.rewrite.common.reading import View, field, refusing
from warplens_tools.rewrite.common.statements import KernelEdits
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText

_TITLE = "Work out several outputs a thread that share their windows"
_CHAIN = Chain(several_outputs.REWRITE, inside_without_tests.REWRITE)
#: Elements of a window: so many steps, each for several outputs, are written out.
_MOST = 64


def _apply(view: View, target: Target) -> RewriteResult:
    if target.lines:
        raise Refused("it takes the whole kernel")
    if not any(_is_window(view, n) for n in walk(view.body)):
        raise Refused("no loop walks a window of constant size")
    after, *said = with_outputs(view, _TITLE, _CHAIN, target)
    caveat = "; ".join(filter(None, said))
    return RewriteResult(between(view.text, _unrolled(after)), _TITLE, caveat=caveat)


def _is_window(view: View, node: Node) -> bool:
    """Whether a node is the outermost of loops that walk a window of constant size, one inside the other."""
    size = _size(view, node)
    outer = [n for n in loops_around(view.tree, node) if n.type == "for_statement"][-1:]
    return 1 < size <= _MOST and not any(0 < _size(view, n) <= _MOST for n in outer)


def _size(view: View, node: Node) -> int:
    """How often the innermost body of loops of constant length runs in one of the outermost; 0 for other loops."""
    if node.type != "for_statement":
        return 0
    trips = view.forms.loop(node).trips
    nested = (n for n in walk(field(node, "body")) if n.type in LOOPS)
    inner = [n for n in nested if loops_around(view.tree, n)[-1].id == node.id]
    if trips is None or not trips:
        return 0
    sizes = [_size(view, n) for n in inner]
    return 0 if not all(sizes) else trips * max([1, *sizes])


def _unrolled(view: View) -> SourceText:
    """The text with the loops of windows written out, as far as they go through several outputs in each step."""
    edits = KernelEdits(view.text, view.expanded)
    for node in walk(view.body):
        size = _size(view, node)
        if size % OUTPUTS or not 1 < size // OUTPUTS <= _MOST or _is_other(node):
            continue
        inner = [n for n in walk(field(node, "body")) if n.type == "for_statement"]
        above = view.text.text[: edits.offsets(node)[0]].rstrip().rsplit("\n", 1)[-1]
        if inner and "#pragma" not in above:
            edits.before(node, "#pragma unroll")
    return view.text.apply(list(edits.edits()))


def _is_other(node: Node) -> bool:
    """Whether a node stands where outputs are tested one by one."""
    while node.parent is not None and node.type != "else_clause":
        node = node.parent
    return node.type == "else_clause"


REWRITE = Rewrite(
    slug="windows-of-outputs",
    title=_TITLE,
    apply=refusing(_apply),
    answers=("low-ilp", "missing-cache-reuse", "elements-read-again"),
    useless_at="dram",
    likely=in_a_plane,
    chance=0.35,
    gain=2.0,
    ranges={"kOutputs": (2, 4, 8)},
)
