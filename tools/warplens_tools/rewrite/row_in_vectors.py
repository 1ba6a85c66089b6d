# SPDX-License-Identifier: Apache-2.0
"""row-in-vectors

Let a thread load its own row in vectors of 16 bytes.

Where each step needs what the one before left, as in a hash, a checksum or a parser, a row stays with its thread.
Lanes are then a row apart, and every load of a single byte takes the whole warp a line for each lane. A thread that
loads 16 bytes at once does so a sixteenth as often, and takes its bytes from registers.

```cuda
__global__ void hashes(const unsigned char* keys, unsigned int* out, int n, int len) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned int hash = 2166136261u;
  for (int k = 0; k < len; ++k) {
    hash ^= keys[i * len + k];
    hash *= 16777619u;
  }
  out[i] = hash;
}
```

```cuda
constexpr int kVector = 16;  // elements at a time, up to 16 bytes

__global__ void hashes(const unsigned char* keys, unsigned int* out, int n, int len) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned int hash = 2166136261u;
  for (int first = 0; first < len; first += kVector) {
    if (first + kVector <= len &&
        reinterpret_cast<size_t>(&keys[i * len + first]) % 16 == 0) {
      alignas(16) unsigned char keysPart[kVector];
      *reinterpret_cast<uint4*>(keysPart) = *reinterpret_cast<const uint4*>(&keys[i * len + first]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        hash ^= keysPart[v];
        hash *= 16777619u;
      }
    } else {
      for (int k = first; k < len && k < first + kVector; ++k) {
        hash ^= keys[i * len + k];
        hash *= 16777619u;
      }
    }
  }
  out[i] = hash;
}
```

A stretch whose begin data tell, as that of a string among others, is walked from the vector that it begins in.
Left alone: a loop that is left early or steps otherwise than by one, one that reads other elements of a row that it
writes, and elements of 8 bytes and more.
"""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values import forms
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, along_one_axis
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    refusing,
    statements,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.vectors import CAVEAT, Array, Work, read_arrays
from warplens_tools.rewrite.common.widened import widened

_WHY = "no thread walks a row of narrow elements by itself"
#: Rows of wider elements are loaded in few loads each already.
_WIDEST_ELEMENT = 4
_FEW = 16
#: Elements that a walk may leave out at the begin: less than any vector has.
_LATEST = 4
_EFFECTS = frozenset({"call_expression", "assignment_expression", "update_expression"})


def _apply(view: View, target: Target) -> RewriteResult:
    found = widened(view, target, _read, _WHY)
    stored = any(a.stored for _, arrays in found.loops for a in arrays)
    return RewriteResult(
        found.edits, title="Load each thread's row in vectors", caveat=CAVEAT if stored else ""
    )


def _read(view: View, loop: Node) -> tuple[Work, tuple[Array, ...]]:
    work = _work(view, loop)
    arrays = read_arrays(view, work)
    _check_behind(view, loop, arrays)
    return work, arrays


def _work(view: View, loop: Node) -> Work:
    """The loop's work.

    Raises:
        Refused: it is no walk along a row of the thread's own.
    """
    known, initial = view.forms.loop(loop), loop.child_by_field_name("initializer")
    if initial is None or initial.type != "declaration" or known.comparison != "<" or known.origin is None:
        raise Refused(_WHY)
    declared = declared_in(view, initial)
    short = known.trips is not None and known.trips < _FEW
    if len(declared) != 1 or known.step is None or known.step.value != 1 or short:
        raise Refused(_WHY)
    begun, limit = known.origin.value, field(unwrapped(field(loop, "condition")), "right")
    begin = ""
    if begun is None:
        begin, begun = _stretch(view, loop, declared[0].value, limit), known.origin.constant
    elif not 0 <= begun < _LATEST:
        raise Refused(_WHY)
    if not any(_is_own(view, node, known.counter) for node in view.elements(field(loop, "body"))):
        raise Refused(_WHY)
    return Work(
        name=declared[0].name,
        type=declared[0].type,
        limit=view.written(limit),
        statements=tuple(statements(field(loop, "body"))),
        counter=known.counter,
        stride=forms.number(1),
        base=str(begun) if begun and not begin else "",
        begun=begun,
        begin=begin,
    )


def _stretch(view: View, loop: Node, first: Node | None, limit: Node) -> str:
    """Where a stretch begins that data tell the ends of, as written: `offsets[i]` of a string among others.

    Raises:
        Refused: its ends may be others in the loop, or cannot be named before it.
    """
    outer, body = loop.parent, field(loop, "body")
    parts = [n for n in (first, limit) if n is not None]
    effects = any(n.type in _EFFECTS for part in parts for n in walk(part))
    if len(parts) < 2 or effects or outer is None or outer.type != "compound_statement":
        raise Refused(_WHY)
    changed = {name for name, _ in assigned(body, view)} | {view.array(e) for e in stores(view, body)}
    asked = {name for part in parts for name in view.names(part)}
    asked |= {view.array(e) for part in parts for e in view.elements(part)}
    if changed & asked or "atomic" in view.code(body):
        raise Refused(_WHY)
    return view.written(parts[0])


def _check_behind(view: View, loop: Node, arrays: Sequence[Array]) -> None:
    """That no step reads what an earlier one stored: a vector is stored when its last element is known.

    Raises:
        Refused: one does, as far as its text tells.
    """
    own = {place.id for a in arrays for place, _ in a.places}
    stored = {a.name for a in arrays if a.stored}
    if any(view.array(e) in stored and e.id not in own for e in view.elements(field(loop, "body"))):
        raise Refused("a step reads other elements of the row that it writes")


def _is_own(view: View, node: Node, counter: str) -> bool:
    """Whether an element is narrow and stands in a row that is another for each thread."""
    pointer = view.place(node)
    offset = pointer.traced if pointer is not None else None
    if pointer is None or offset is None or pointer.space != "global":
        return False
    size = type_bytes(view.concrete(pointer.element_type)) or 0
    by_thread = any(s.mentions("threadIdx.x") for s in offset.symbols)
    beside = offset.coefficient("threadIdx.x") in (1, -1)
    return 0 < size <= _WIDEST_ELEMENT and by_thread and not beside and offset.coefficient(counter) == 1


REWRITE = Rewrite(
    slug="row-in-vectors",
    title="Load each thread's row in vectors of 16 bytes",
    apply=refusing(_apply),
    answers=("scalar-access", "uncoalesced-global-read"),
    likely=along_one_axis,
    chance=0.5,
    gain=2.5,
)
