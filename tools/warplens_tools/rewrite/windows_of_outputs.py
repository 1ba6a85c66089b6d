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

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import LOOPS, holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.arithmetic_types import written_before
from warplens_tools.rewrite import inside_without_tests, several_outputs
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, in_a_plane
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.outputs_writer import OUTPUTS
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, refusing, unwrapped
from warplens_tools.rewrite.common.statements import KernelEdits
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText

_TITLE = "Work out several outputs a thread that share their windows"
_CAVEAT = "an array of 2^31 elements or more would be reached by an index that is too small"
_CHAIN = Chain(several_outputs.REWRITE, inside_without_tests.REWRITE)
#: Elements of a window: so many steps, each for several outputs, are written out.
_MOST = 64
#: Of what a pointer's place is summed, to be written out wherever it is used.
_PLAIN = frozenset(
    {"identifier", "number_literal", "binary_expression", "parenthesized_expression", "unary_expression"}
)
#: Pointers that are made of one another.
_DEEP = 4


def _apply(view: View, target: Target) -> RewriteResult:
    if target.lines:
        raise Refused("it takes the whole kernel")
    if not any(_is_window(view, n) for n in walk(view.body)):
        raise Refused("no loop walks a window of constant size")
    flat = _flat(view)
    changed = flat is not view
    found = _CHAIN.result(_TITLE, flat.text, flat.model, flat.kernel, target)
    if not found.edits:
        raise Refused(found.refused)
    after = flat.text.apply(list(found.edits))
    model = parse(after, view.model.path)
    again = model.same(flat.kernel, flat.model)
    if again is None or again.broken:
        raise Refused("the kernel is not understood with several outputs")
    after = _unrolled(View(after, model, again))
    caveats = [c for c in (_CAVEAT if changed else "", found.caveat) if c]
    return RewriteResult(between(view.text, after), _TITLE, caveat="; ".join(caveats))


def _flat(view: View) -> View:
    """The kernel with the elements behind pointers of its own by an index of what those point into."""
    for _ in range(_DEEP):
        edits = KernelEdits(view.text, view.expanded)
        pointers = {
            d.name: d for n in walk(view.body) for d in plainly_declared_in(view, n) if _is_sum(view, d)
        }
        inner = [d for d in pointers.values() if not _names_in_values(view, d, pointers)]
        done = [d for d in inner if _write(view, edits, d)]
        if not done:
            break
        text = view.text.apply(list(edits.edits()))
        model = parse(text, view.model.path)
        kernel = model.same(view.kernel, view.model)
        if kernel is None or kernel.broken:
            raise Refused("the pointers are not understood")
        view = View(text, model, kernel)
    return view


def _names_in_values(view: View, one: Declared, pointers: dict[str, Declared]) -> bool:
    """Whether another of the pointers is made of this one: that is written out first."""
    return any(d.value is not None and one.name in view.names(d.value) for d in pointers.values())


def _is_sum(view: View, one: Declared) -> bool:
    """Whether a variable is a pointer that begins as another plus integers, and stays."""
    if one.stars.strip() != "*" or one.value is None or not view.is_plain_enough(one.statement):
        return False
    alone = len(one.statement.children_by_field_name("declarator")) == 1
    still = all(name != one.name for name, _ in assigned(view.body, view))
    return alone and still and _parts(view, one.value) is not None


def _parts(view: View, value: Node) -> tuple[str, str] | None:
    """The pointer that a sum begins with, and the rest of it; None for anything else."""
    node = value
    while node.type == "binary_expression" and operator_of(node) in ("+", "-"):
        last, node = node, field(node, "left")
        if node.type == "identifier" and operator_of(last) == "+":
            rest = view.written(value)[len(view.written(node)) :].strip()
            plain = view.written(value).startswith(view.written(node)) and rest.startswith("+")
            is_pointer = view.pointers.pointer(node) is not None and _is_signed(view, value, view.code(node))
            return (view.code(node), rest[1:].strip()) if plain and is_pointer else None
    return None


def _is_signed(view: View, node: Node, base: str = "") -> bool:
    """Whether all variables of an index but `base` are integers that may be below zero, or as wide as an address: of
    others a sum may begin anew at zero."""
    parts = [n for n in walk(node) if n.is_named and n.type != "subscript_argument_list"]
    named = [n for n in parts if n.type == "identifier" and view.code(n) != base]
    if any(
        n.type not in _PLAIN or (n.type == "number_literal" and "u" in view.code(n).lower()) for n in parts
    ):
        return False
    return all(view.value(n) is not None or _is_wide(view, n) for n in named)


def _is_wide(view: View, name: Node) -> bool:
    binding = view.expanded.constants.binding(view.code(name), name.start_byte)
    kind = integer_type(written_before(view.expanded.tree, binding)) if binding is not None else None
    return kind is not None and (kind.bytes == 8 or (kind.signed and kind.bytes == 4))


def _write(view: View, edits: KernelEdits, one: Declared) -> bool:
    """The edits that write one pointer's elements as those of what it is made of; False where it is used otherwise."""
    parts = _parts(view, one.value) if one.value is not None else None
    uses = [n for n in walk(view.body) if n.type == "identifier" and view.code(n) == one.name]
    uses = [n for n in uses if n.start_byte >= one.statement.end_byte]
    elements = [n.parent for n in uses if n.parent is not None and _is_element(view, n.parent, n)]
    if parts is None or not uses or len(elements) != len(uses):
        return False
    if any(_changes(view, one, e) or not _is_signed(view, field(e, "indices")) for e in elements):
        return False
    base, rest = parts
    for element in elements:
        (index,) = field(element, "indices").named_children
        code = view.code(index)
        added = (
            ""
            if code == "0"
            else f" + {view.written(index)}"
            if _is_tight(index)
            else f" + ({view.written(index)})"
        )
        edits.replace(element, f"{base}[{rest}{added}]")
    edits.remove(one.statement)
    return True


def _is_element(view: View, node: Node, name: Node) -> bool:
    is_base = node.type == "subscript_expression" and unwrapped(field(node, "argument")).id == name.id
    return is_base and len(field(node, "indices").named_children) == 1 and view.is_plain_enough(node)


def _is_tight(node: Node) -> bool:
    """Whether an expression may stand behind a plus without parentheses."""
    if node.type == "binary_expression":
        return operator_of(node) in ("+", "-", "*", "/", "%")
    return node.type in (
        "identifier",
        "number_literal",
        "subscript_expression",
        "call_expression",
        "field_expression",
    )


def _changes(view: View, one: Declared, element: Node) -> bool:
    """Whether a name means something else at an element than where the pointer was made."""
    names = view.names(one.value) if one.value is not None else frozenset()
    constants = view.expanded.constants
    if any(
        constants.binding(n, element.start_byte) != constants.binding(n, one.statement.start_byte)
        for n in names
    ):
        return True
    loops = [n for n in walk(view.body) if n.type == "for_statement" and holds(n, one.statement)]
    headers = [u for n in loops if (u := n.child_by_field_name("update")) is not None]
    moved = [place for name, place in assigned(view.body, view) if name in names]
    return not all(any(holds(u, place) for u in headers) for place in moved)


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
