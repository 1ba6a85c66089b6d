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
from a condition `bin < bins` around the atomic, or from a constant or parameter whose name says so, or that is the only
one the kernel does not use; `label * dims + d` has so many times `dims`. Sums and counts may be of several arrays.
Where a parameter says it, the counts are in dynamic shared memory, the widest first, whose size the launch gives.
Where nothing says it, those below a number that is a parameter of the search are counted in the block, the rest in
memory as before: `sums[key]` of a group-by, whose number of groups the kernel does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.syntax.types import integer_type, type_bytes
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common import shared_words
from warplens_tools.rewrite.common.bins import bins_of, each_its_own
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    calls,
    field,
    operator_of,
    refusing,
    require_apart,
    squeezed,
    substituted,
    unwrapped,
)
from warplens_tools.rewrite.common.shared_words import WORD_TYPE
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.strided import Strided, block_threads, thread_number
from warplens_tools.rewrite.common.style import zero
from warplens_tools.text import TextEdit

#: Items of a thread: blocks that count fewer items than there are bins would save nothing.
_ITEMS, _LONG_ITEMS = 32, 8
_TYPES = {
    "int",
    "int32_t",
    "unsigned int",
    "unsigned",
    "uint32_t",
    "uint",
    "float",
    "unsigned long long",
    "unsigned long long int",
    "double",
}
#: Sums and how many they are of: more would share little memory.
_MOST_ARRAYS = 3
#: Variables made of variables are followed this far.
_DEEP = 3
_CHANGING = frozenset({"call_expression", "assignment_expression", "update_expression"})
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
    #: Of which the block has only as many as `bins`: the atomics, each with its index.
    partly: tuple[tuple[Node, Node], ...] = ()
    #: Of sums of 64 bits to which only words are added: each atomic, its index, and the word.
    words: tuple[tuple[Node, Node, str], ...] = ()

    @property
    def held(self) -> str:
        """The type of a sum in shared memory."""
        return WORD_TYPE if self.words else self.type


def _apply(view: View, target: Target) -> RewriteResult:
    require_apart(view)
    every = _counts(view, target)
    launches = Launches(view.text, view.model, view.kernel)
    strided = Strided(view, launches)
    if strided.axis is None and all(each_its_own(view, base) for c in every for base in c.bases):
        raise Refused("no two threads of a block go to one place")
    if any(c.partly for c in every):
        groups = strided.style.constant("kSharedGroups", str(_groups(every)))
        every = tuple(msgspec.structs.replace(c, bins=groups) if c.partly else c for c in every)
    for counts in every:
        if counts.base.type != "identifier":
            strided.check_uniform(counts.base)
    style, thread = strided.style, thread_number(view, launches)
    names = [style.local(f"block{c.array[:1].upper()}{c.array[1:]}") for c in every]
    b = style.local("b")
    pairs = list(zip(every, names, strict=True))
    carries = {n: style.local(f"{n}Carries") for c, n in pairs if c.words}
    held = [(c, part) for c, n in pairs for part in (n, carries.get(n)) if part]
    dynamic = [(c, name) for c, name in held if c.value is None]
    # behind what is wider every count is aligned
    dynamic.sort(key=lambda pair: -(type_bytes(pair[0].held) or 0))
    before, after = list(_shared(dynamic)), ["__syncthreads();"]
    strides = {
        c.array: f"for (int {b} = {thread}; {b} < {c.bins}; {b} += {block_threads(thread)})" for c in every
    }
    for counts, name in held:
        if counts.value is not None:
            before.append(f"__shared__ {counts.held} {name}[{counts.bins}];")
        before.append(f"{strides[counts.array]} {name}[{b}] = {zero(counts.held)};")
    for counts, name in pairs:
        whole = view.written(counts.base)
        element = f"&{whole}[{b}]" if counts.base.type == "identifier" else f"{whole} + {b}"
        test, value = f"{name}[{b}] != {zero(counts.held)}", f"{name}[{b}]"
        if name in carries:
            test += f" || {carries[name]}[{b}] != 0u"
            value = shared_words.whole(f"{name}[{b}]", f"{carries[name]}[{b}]")
        after.append(f"{strides[counts.array]} {{\n  if ({test}) atomicAdd({element}, {value});\n}}")
    before.append("__syncthreads();")
    items = _items(view, strided)
    if strided.axis is not None and items > 1:
        strided.relaunch(style.constant("kItemsPerThread", str(items)))
    replaced = list[tuple[Node, str]]()
    word = style.local("added")
    for counts, name in pairs:
        replaced += _replaced(view, counts, name, carries.get(name, ""), word)
    edit = strided.kernel("\n".join(before), replaced, "\n".join(after))
    arrays = ", ".join(c.array for c in every)
    caveat = next(filter(None, map(_caveat, every)), "")
    result = strided.result(edit, f"Count {arrays} in shared memory first", caveat)
    if dynamic:
        sizes = tuple(_shared_sizes(view, launches, [c for c, _ in dynamic]))
        result = msgspec.structs.replace(result, edits=(*result.edits, *sizes))
    return result


def _items(view: View, strided: Strided) -> int:
    """Items of a thread: fewer where each is a loop, and one where that is as long as there are items."""
    loops = [n for w in strided.outputs.work for n in walk(w) if n.type in LOOPS]
    limit = strided.axis.limit if strided.axis is not None else ""
    heads = [n.child_by_field_name("condition") for n in loops]
    if any(limit in WORD.findall(view.code(head)) for head in heads if head is not None):
        return 1
    return _LONG_ITEMS if loops else _ITEMS


def _groups(every: Sequence[_Counts]) -> int:
    """How many groups of every array that has no known number of them go into a block."""
    bytes_each = sum(type_bytes(c.type) or 8 for c in every if c.partly)
    taken = sum((type_bytes(c.type) or 8) * (c.value or 0) for c in every if not c.partly)
    found = next((n for n in (2048, 1024, 512, 256) if n * bytes_each + taken <= _STATIC_BYTES), 0)
    if not found:
        raise Refused("the sums do not fit into shared memory")
    return found


def _replaced(view: View, counts: _Counts, name: str, carries: str, word: str) -> Iterator[tuple[Node, str]]:
    """What stands for the atomics of one array, or for their bases."""
    if not counts.partly and not counts.words:
        yield from ((base, name) for base in counts.bases)
        return
    words = {atomic.id: (index, text) for atomic, index, text in counts.words}
    for atomic, index in counts.partly or [(atomic, index) for atomic, index, _ in counts.words]:
        place = view.written(index)
        base = next(b for b in counts.bases if atomic.start_byte <= b.start_byte < atomic.end_byte)
        inside = substituted(view, atomic, [(base, name)])
        if atomic.id in words:
            added = shared_words.added(f"{name}[{place}]", f"{carries}[{place}]", words[atomic.id][1], word)
            inside = added if counts.partly else f"{{ {added} }}"
        if counts.partly:
            bare = place if WORD.fullmatch(place) else f"({place})"
            inside = f"if ((unsigned){bare} < {counts.bins}) {{ {inside} }} else {{ {view.written(atomic)} }}"
        yield atomic, inside


def _shared(dynamic: Sequence[tuple[_Counts, str]]) -> Iterator[str]:
    """The declarations of histograms whose size the launch gives, one behind the other."""
    for at, (counts, name) in enumerate(dynamic):
        if at == 0:
            yield f"extern __shared__ {counts.held} {name}[];"
            continue
        before, last = dynamic[at - 1]
        yield f"{counts.held}* {name} = reinterpret_cast<{counts.held}*>({last} + {before.bins});"


def _caveat(counts: _Counts) -> str:
    is_float = counts.type in ("float", "double")
    return REORDERED if is_float else ""


def _shared_sizes(view: View, launches: Launches, every: Sequence[_Counts]) -> Iterator[TextEdit]:
    """`<<<grid, block>>>` becomes `<<<grid, block, bins * sizeof(int)>>>`."""
    for launch in launches.read():
        sizes = [f"{host_text(view, launches, launch, c.bins)} * sizeof({c.held})" for c in every]
        size = " + ".join(sizes)
        if launch.site.shared and launch.site.shared != "0":
            raise Refused("the launch gives dynamic shared memory already")
        if launch.site.shared:
            raise Refused("the launch has a stream behind its shared memory")
        span = launch.site.block_span
        at = view.text.offset(span.end_line, span.end_column)
        yield TextEdit(view.text.span(at, at), f", {size}")


def _counts(view: View, target: Target) -> tuple[_Counts, ...]:
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
    bases = list(dict.fromkeys(squeezed(view.code(base)) for base, *_ in found))
    if len(bases) > _MOST_ARRAYS:
        raise Refused("it counts into several arrays")
    return tuple(_one(view, [f for f in found if squeezed(view.code(f[0])) == base]) for base in bases)


def _one(view: View, found: list[tuple[Node, Node, str, str]]) -> _Counts:
    """The histogram of atomics that have one base."""
    base, _, array, written = found[0]
    if written not in _TYPES:
        raise Refused("the type of the counts is not known")
    try:
        bins, value = bins_of(view, [index for _, index, _, _ in found], array)
    except Refused:
        partly = tuple(_by_key(view, base, index) for base, index, _, _ in found)
        if view.names(base) != {array}:
            raise
        words = tuple(_words(view, found)) if written in shared_words.WIDE else ()
        return _Counts(array, written, "", 0, base, tuple(b for b, *_ in found), partly, words)
    if value is not None and value * 8 > _STATIC_BYTES:
        raise Refused("the histogram does not fit into shared memory")
    if view.names(base) != {array}:
        raise Refused("which histogram it is rests on more than its name")
    words = tuple(_words(view, found)) if written in shared_words.WIDE else ()
    return _Counts(array, written, bins, value, base, tuple(b for b, *_ in found), (), words)


def _words(view: View, found: list[tuple[Node, Node, str, str]]) -> list[tuple[Node, Node, str]]:
    """The atomics, each with its index and the word that it adds; none where one of them may add more."""
    words = list[tuple[Node, Node, str]]()
    for base, index, _, _ in found:
        atomic = _statement_of(base)
        call = atomic.named_children[0] if atomic is not None else None
        word = (
            shared_words.word_of(view, field(call, "arguments").named_children[1]) if call is not None else ""
        )
        if atomic is None or not word or not view.is_plain_enough(atomic):
            return []
        words.append((atomic, index, word))
    return words


def _statement_of(node: Node) -> Node | None:
    outer = node.parent
    while outer is not None and outer.type != "expression_statement":
        outer = outer.parent
    return outer


def _by_key(view: View, base: Node, index: Node) -> tuple[Node, Node]:
    """The atomic around `&sums[key]` and its index, if that is a number that memory says.

    Raises:
        Refused: it is something else, as the thread's own number, of which every one would have a group.
    """
    statement = _statement_of(base)
    kind = TypeReader(view.forms, view.pointers).type(index)
    integer = integer_type(kind) if kind else None
    if (
        statement is None
        or integer is None
        or not view.is_plain_enough(statement)
        or not _is_read(view, index)
    ):
        raise Refused("how many groups there are is not known, and their number is not read from memory")
    return statement, index


def _is_read(view: View, node: Node, depth: int = 0) -> bool:
    """Whether an index is an element, or made of variables that are set to one."""
    if any(n.type in _CHANGING for n in walk(node)):
        return False
    if any(view.space(e) == "global" for e in view.elements(node)):
        return True
    for statement in walk(view.body):
        if statement.type == "declaration" and depth < _DEEP:
            for one in declared_in(view, statement):
                if (
                    one.name in view.names(node)
                    and one.value is not None
                    and _is_read(view, one.value, depth + 1)
                ):
                    return True
    return False


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


REWRITE = Rewrite(
    slug="private-histogram",
    title="Count into a histogram in shared memory first",
    apply=refusing(_apply),
    answers=("global-atomic-contention",),
    chance=0.7,
    gain=8.0,
    ranges={"kItemsPerThread": (4, 8, 16, 32, 64), "kSharedGroups": (256, 512, 1024, 2048, 4096)},
)
