# SPDX-License-Identifier: Apache-2.0
"""private-histogram

Count into a histogram of the block's own, in shared memory.

Atomics on the few bins of a histogram in global memory wait for each other in the L2. Atomics on shared memory are
done by each SM for itself; at the end every block adds its counts to those in memory, one atomic for each bin. Each
thread takes several items, so that there are few blocks to add up.

```cuda
#define NUM_BINS 256
__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[data[i]], 1);
}
void run(const unsigned char* data, unsigned int* bins, int n) {
  histogram<<<(n + 255) / 256, 256>>>(data, bins, n);
}
```

```cuda
#define NUM_BINS 256

#define ITEMS_PER_THREAD 32

__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
  __shared__ unsigned int blockBins[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) blockBins[b] = 0u;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    atomicAdd(&blockBins[data[i]], 1);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x) {
    if (blockBins[b] != 0u) atomicAdd(&bins[b], blockBins[b]);
  }
}
void run(const unsigned char* data, unsigned int* bins, int n) {
  histogram<<<((n + 255) / 256 + ITEMS_PER_THREAD - 1) / ITEMS_PER_THREAD, 256>>>(data, bins, n);
}
```

How many bins there are is taken from the type of the index (256 for a byte), from `% bins`, `& 255` or a minimum,
from a condition `bin < bins` around the atomic, or from a constant or parameter whose name says so. Where a
parameter says it, the counts are in dynamic shared memory, whose size the launch gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type, vector_element
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import declared_in, plainly_declared_in
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import (
    View,
    calls,
    field,
    operator_of,
    refusing,
    require_apart,
    squeezed,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.strided import Strided, block_threads, thread_number
from warplens_tools.rewrite.common.style import zero
from warplens_tools.text import TextEdit

#: Items of a thread: blocks that count fewer items than there are bins would save nothing.
_ITEMS = 32
_TYPES = {
    "int",
    "unsigned int",
    "unsigned",
    "float",
    "unsigned long long",
    "unsigned long long int",
    "double",
}
_SAYS_BINS = re.compile(r"(?:k|n|num|number_?of|n_)?_?(?:bins?|buckets?|hist\w*size|histogram\w*|levels|colou?rs|"
                        r"clusters|classes|alphabet\w*|symbols)_?(?:count|num|size|s)?", re.IGNORECASE)  # fmt: skip
#: Static shared memory of a block.
_STATIC_BYTES = 48 * 1024


class _Counts(msgspec.Struct, frozen=True):
    """The histogram that a kernel counts into."""

    array: str
    type: str
    #: The number of bins in the kernel's terms, and where constant its value.
    bins: str
    value: int | None
    #: The expression of the first bin's address: "bins", "bins + 256 * plane".
    base: Node
    bases: tuple[Node, ...]


def _apply(view: View, target: Target) -> RewriteResult:
    require_apart(view)
    counts = _counts(view, target)
    launches = Launches(view.text, view.model, view.kernel)
    strided = Strided(view, launches)
    if counts.base.type != "identifier":
        strided.check_uniform(counts.base)
    style = strided.style
    name, b = style.local(f"block{counts.array[:1].upper()}{counts.array[1:]}"), style.local("b")
    thread = thread_number(view, launches)
    stride = f"for (int {b} = {thread}; {b} < {counts.bins}; {b} += {block_threads(thread)})"
    dynamic = counts.value is None
    shared = (
        f"extern __shared__ {counts.type} {name}[];"
        if dynamic
        else f"__shared__ {counts.type} {name}[{counts.bins}];"
    )
    before = f"{shared}\n{stride} {name}[{b}] = {zero(counts.type)};\n__syncthreads();"
    whole = view.written(counts.base)
    element = f"&{whole}[{b}]" if counts.base.type == "identifier" else f"{whole} + {b}"
    test = f"{name}[{b}] != {zero(counts.type)}"
    after = f"__syncthreads();\n{stride} {{\n  if ({test}) atomicAdd({element}, {name}[{b}]);\n}}"
    if strided.axis is not None:
        strided.relaunch(style.constant("kItemsPerThread", str(_ITEMS)))
    edit = strided.kernel(before, [(n, name) for n in counts.bases], after)
    result = strided.result(edit, f"Count {counts.array} in shared memory first", _caveat(counts))
    if dynamic:
        sizes = tuple(_shared_sizes(view, launches, counts))
        result = msgspec.structs.replace(result, edits=(*result.edits, *sizes))
    return result


def _caveat(counts: _Counts) -> str:
    is_float = counts.type in ("float", "double")
    return REORDERED if is_float else ""


def _shared_sizes(view: View, launches: Launches, counts: _Counts) -> Iterator[TextEdit]:
    """`<<<grid, block>>>` becomes `<<<grid, block, bins * sizeof(int)>>>`."""
    for launch in launches.read():
        size = f"{host_text(view, launches, launch, counts.bins)} * sizeof({counts.type})"
        if launch.site.shared and launch.site.shared != "0":
            raise Refused("the launch gives dynamic shared memory already")
        if launch.site.shared:
            raise Refused("the launch has a stream behind its shared memory")
        span = launch.site.block_span
        at = view.text.offset(span.end_line, span.end_column)
        yield TextEdit(view.text.span(at, at), f", {size}")


def _counts(view: View, target: Target) -> _Counts:
    found: list[tuple[Node, Node, str, str]] = []
    for name, call in calls(view.body, view):
        if not name.startswith("atomic"):
            continue
        given = field(call, "arguments").named_children
        statement = call.parent
        if (
            name != "atomicAdd"
            or len(given) != 2
            or statement is None
            or statement.type != "expression_statement"
        ):
            raise Refused("it has atomics whose old value is used, or that are no sums")
        found.append(_place(view, given[0]))
    if not found or (target.lines and not any(view.span(n).line in target.lines for n, *_ in found)):
        raise Refused("the kernel has no atomics")
    bases = {squeezed(view.code(base)) for base, *_ in found}
    if len(bases) != 1:
        raise Refused("it counts into several arrays")
    base, _, array, written = found[0]
    if written not in _TYPES:
        raise Refused("the type of the counts is not known")
    bins, value = _bins(view, [index for _, index, _, _ in found], array)
    if value is not None and value * 8 > _STATIC_BYTES:
        raise Refused("the histogram does not fit into shared memory")
    if view.names(base) != {array}:
        raise Refused("which histogram it is rests on more than its name")
    return _Counts(array, written, bins, value, base, tuple(b for b, *_ in found))


def _place(view: View, node: Node) -> tuple[Node, Node, str, str]:
    """The base and the index of `&bins[i]` or `bins + i`, the array, and its type."""
    node = unwrapped(node)
    pointer = view.pointers.pointer(node)
    inner = field(node, "argument") if node.type == "pointer_expression" else node
    inner = unwrapped(inner)
    if inner.type == "subscript_expression":
        base, index = field(inner, "argument"), field(inner, "indices").named_children[0]
    elif inner.type == "binary_expression" and operator_of(inner) == "+":
        base, index = field(inner, "left"), field(inner, "right")
    else:
        raise Refused("all threads count into one place")
    if pointer is None or pointer.space != "global" or not view.is_plain_enough(base):
        raise Refused("it counts into what is not known to be global memory")
    return base, index, pointer.name, pointer.element_type


def _bins(view: View, indices: list[Node], array: str) -> tuple[str, int | None]:
    """The number of bins, as the kernel would write it, and its value where that is constant."""
    bounds = list(dict.fromkeys(_bound(view, index, 0) for index in indices))
    if all(bound.isdigit() for bound in bounds):
        return _with_value(view, str(max(map(int, bounds))))
    if len(bounds) == 1 and bounds[0]:
        return _with_value(view, bounds[0])
    names = [p.name for p in view.kernel.parameters if not p.pointer] + [c.name for c in view.model.constants]
    said = [n for n in names if _SAYS_BINS.fullmatch(n.strip("_"))]
    if len(said) == 1:
        return _with_value(view, said[0])
    raise Refused(f"how many bins {array} has is not known")


def _with_value(view: View, bound: str) -> tuple[str, int | None]:
    value = view.expanded.constants.value(bound, view.body.start_byte)
    if value is None and set(re.findall(r"[A-Za-z_]\w*", bound)) - view.parameters:
        raise Refused("how many bins there are is worked out in the kernel")
    return bound, value


def _bound(view: View, node: Node, depth: int) -> str:
    """An expression that the index stays below; "" where nothing is known."""
    node = unwrapped(node)
    if depth > 6:
        return ""
    if node.type == "identifier":
        return _bound_of_name(view, node, depth)
    if node.type == "binary_expression":
        return _bound_of_sum(view, node, depth)
    if node.type == "field_expression":
        return _of_type(_member_type(view, node))
    if node.type == "cast_expression":
        return _bound(view, field(node, "value"), depth + 1) or _of_type(view.code(field(node, "type")))
    if node.type == "call_expression":
        return _bound_of_call(view, node, depth)
    return _of_type(view.element(node)) if node.type in ("subscript_expression", "pointer_expression") else ""


def _bound_of_sum(view: View, node: Node, depth: int) -> str:
    """`i % bins`, `i & 255`, `i >> 4`, `i / 16`, `256 + i`, `3 * i + 1`."""
    left, right, kind = field(node, "left"), field(node, "right"), operator_of(node)
    if kind == "%":
        return view.written(right)
    value = _number(view, right)
    if kind == "&" and value is not None:
        return str(value + 1)
    if kind in ("+", "*") and value is None:
        left, value = right, _number(view, left)
    inner = _bound(view, left, depth + 1)
    if value is None or value < 0 or not inner.isdigit():
        return ""
    below = int(inner)
    found = {
        ">>": ((below - 1) >> value) + 1,
        "/": (below - 1) // value + 1 if value else 0,
        "+": below + value,
        "-": below - value,
        "*": (below - 1) * value + 1,
    }.get(kind, 0)
    return str(found) if found else ""


def _number(view: View, node: Node) -> int | None:
    """The value of a constant, a letter among them."""
    written = view.written(node)
    return ord(written[1]) if re.fullmatch(r"'[ -~]'", written) else view.value(node)


def _member_type(view: View, node: Node) -> str:
    """The type of `p.x` of a vector; "" where it is none."""
    inner = unwrapped(field(node, "argument"))
    written = view.element(inner)
    if inner.type == "identifier":
        declared = [
            one.type
            for statement in walk(view.body)
            for one in plainly_declared_in(view, statement)
            if one.name == view.code(inner)
        ]
        written = declared[0] if len(declared) == 1 else ""
    words = [word for word in written.split() if word != "const"]
    vector = vector_element(words[0]) if len(words) == 1 else None
    return vector[0] if vector is not None else ""


def _bound_of_call(view: View, node: Node, depth: int) -> str:
    """`min(i, bins - 1)`, `__ldg(&data[i])`."""
    name, given = (
        view.code(field(node, "function")).removeprefix("std::"),
        field(node, "arguments").named_children,
    )
    if name in ("min", "max") and len(given) == 2:
        for argument in map(unwrapped, given):
            minus = argument.type == "binary_expression" and operator_of(argument) == "-"
            if name == "min" and minus and view.value(field(argument, "right")) == 1:
                return view.written(field(argument, "left"))
            value = view.value(argument)
            if name == "min" and value is not None:
                return str(value + 1)
        return next(filter(None, (_bound(view, a, depth + 1) for a in given)), "") if name == "max" else ""
    if name == "__ldg" and given:
        pointer = view.pointers.pointer(given[0])
        return _of_type(pointer.element_type) if pointer is not None else ""
    return ""


def _bound_of_name(view: View, node: Node, depth: int) -> str:
    name = view.code(node)
    for condition in walk(view.body):
        kind = operator_of(condition) if condition.type == "binary_expression" else ""
        if kind not in ("<", ">=", "<=") or view.code(unwrapped(field(condition, "left"))) != name:
            continue
        right = field(condition, "right")
        most = _number(view, right)
        if kind == "<=" and most is not None:
            return str(most + 1)
        if kind == "<" or (kind == ">=" and most != 0 and _leaves(condition)):
            return view.written(right) if most is None else str(most)
    for statement in walk(view.body):
        if statement.type != "declaration" or not re.search(rf"\b{re.escape(name)}\b", view.code(statement)):
            continue
        for one in declared_in(view, statement):
            if one.name == name and one.value is not None:
                return _bound(view, one.value, depth + 1) or _of_type(one.type)
    return ""


def _leaves(condition: Node) -> bool:
    """Whether a condition stands before a way out: `if (bin >= bins) return;`"""
    outer = condition.parent
    while outer is not None and outer.type not in ("if_statement", "compound_statement"):
        outer = outer.parent
    then = outer.child_by_field_name("consequence") if outer is not None else None
    inside = statements(then) if then is not None else []
    return len(inside) == 1 and inside[0].type in ("return_statement", "continue_statement")


def _of_type(written: str) -> str:
    known = integer_type(written)
    is_byte = known is not None and not known.signed and known.bytes == 1
    return "256" if is_byte else ""


REWRITE = Rewrite(
    slug="private-histogram",
    title="Count into a histogram in shared memory first",
    apply=refusing(_apply),
    answers=("global-atomic-contention",),
    chance=0.7,
    gain=8.0,
    ranges={"kItemsPerThread": (4, 8, 16, 32, 64)},
)
