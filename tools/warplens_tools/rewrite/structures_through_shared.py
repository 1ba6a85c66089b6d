# SPDX-License-Identifier: Apache-2.0
"""structures-through-shared

Bring each thread's structure in and out through shared memory, word by word.

In an array of structures, as of particles, neighbouring lanes are a whole structure apart: every member that a warp
loads or stores takes as many lines as the structures of 32 threads do. They stand behind each other, so a block can
bring them in side by side, work on them in shared memory, and bring them out in the same way.

```cuda
struct Particle { float x, y, z, vx, vy, vz, charge; };
__global__ void advance(Particle* particles, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Particle p = particles[i];
  p.x += p.vx * dt;
  p.y += p.vy * dt;
  p.z += p.vz * dt;
  particles[i] = p;
}
void run(Particle* particles, int n) {
  advance<<<(n + 127) / 128, 128>>>(particles, n, 0.1f);
}
```

```cuda
struct Particle { float x, y, z, vx, vy, vz, charge; };

constexpr int kStructures = 128;  // of a block, one for each thread

__global__ void advance(Particle* particles, int n, float dt) {
  __shared__ unsigned heldParticles[kStructures * 7];
  const int i0 = blockIdx.x * kStructures;
  const int held = n - i0 < kStructures ? n - i0 : kStructures;
  unsigned* wordsParticles = reinterpret_cast<unsigned*>(particles + i0);
  for (int t = threadIdx.x; t < held * 7; t += kStructures) heldParticles[t] = wordsParticles[t];
  __syncthreads();
  int i = i0 + threadIdx.x;
  if (i < n) {
    Particle& ownParticle = *reinterpret_cast<Particle*>(heldParticles + threadIdx.x * 7);
    Particle p = ownParticle;
    p.x += p.vx * dt;
    p.y += p.vy * dt;
    p.z += p.vz * dt;
    ownParticle = p;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < held * 7; t += kStructures) wordsParticles[t] = heldParticles[t];
}
void run(Particle* particles, int n) {
  advance<<<(n + kStructures - 1) / kStructures, kStructures>>>(particles, n, 0.1f);
}
```

An array that is only stored, as a whole and by every thread, is not brought in. Left alone: structures of less than 20
bytes or more than 256, with members of more than four bytes, and those of which a thread uses others than its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.cuda.model import Parameter
from warplens_tools.cuda.syntax.tree import is_assigned, walk
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis, Outputs, launched_outputs
from warplens_tools.rewrite.common.own_records import record_axis
from warplens_tools.rewrite.common.reading import View, field, refusing, require_apart
from warplens_tools.rewrite.common.through_shared import ThroughShared

_WORD = 4
_LEAST_BYTES, _MOST_BYTES = 20, 256
_PASSED = frozenset({"field_expression", "subscript_expression", "parenthesized_expression"})
_PLACE = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")


class _Held(msgspec.Struct, frozen=True):
    """One array of structures, of which each thread has its own."""

    parameter: Parameter
    words: int
    uses: tuple[Node, ...]
    written: bool
    #: What was there before is needed.
    needed: bool

    @property
    def pitch(self) -> int:
        """Words from structure to structure: an odd number, so that lanes fall into banks of their own."""
        return self.words | 1


def _apply(view: View, target: Target) -> RewriteResult:
    require_apart(view)
    launches, outputs = launched_outputs(view)
    axis = record_axis(launches, outputs)
    parts = [*outputs.work, *(d.value for d in outputs.declared if d.value is not None)]
    if any(_PLACE.search(view.code(part)) for part in parts):
        raise Refused("the work rests on the thread's place in its block")
    held = [found for p in view.kernel.parameters if (found := _held(view, axis, outputs, p)) is not None]
    held = [one for one in held if not target.names or one.parameter.name in target.names]
    if not held:
        raise Refused("no array has a structure for each thread")
    names = [one.parameter.name for one in held]
    if len(same_buffer(view.file, view.model, view.kernel) & {*names}) > 1:
        raise Refused("a launch passes the same memory twice")
    title = f"Bring structures of {', '.join(names)} through shared memory"
    return _Writer(view, launches, outputs, axis, held).result(title)


def _held(view: View, axis: Axis, outputs: Outputs, parameter: Parameter) -> _Held | None:
    """An array whose structures are used by their threads alone; None for any other."""
    layouts = layouts_of(view.tree)
    record = layouts.record(layouts.plain(parameter.element_type)) if parameter.pointer else None
    if record is None or parameter.element_type in view.kernel.template_parameters:
        return None
    if record.alignment != _WORD or not _LEAST_BYTES <= record.size <= _MOST_BYTES:
        return None
    uses = list[Node]()
    for name in walk(view.body):
        if name.type != "identifier" or view.code(name) != parameter.name:
            continue
        element = name.parent
        if element is None or element.type != "subscript_expression" or element.children[0].id != name.id:
            return None
        indices = field(element, "indices").named_children
        plain = len(indices) == 1 and view.code(indices[0]) == axis.name
        if not plain or not view.is_plain_enough(element) or _is_lent(element):
            return None
        uses.append(element)
    if not uses:
        return None
    whole = [use for use in uses if _is_put(use) and _comes_first(outputs, use)]
    read = [use for use in uses if not _is_put(use)]
    handed = any(_is_handed(view, use) for use in uses) and "const" not in parameter.type.split()
    written = handed or any(is_assigned(_member(use)) or _steps(use) for use in uses)
    return _Held(parameter, record.size // _WORD, tuple(uses), written, bool(read) or not whole)


def _member(use: Node) -> Node:
    """The whole member behind a structure: `p[i].pos[2]`."""
    node = use
    while node.parent is not None and node.parent.type in _PASSED and node.parent.children[0].id == node.id:
        node = node.parent
    return node


def _steps(use: Node) -> bool:
    outer = _member(use).parent
    return outer is not None and outer.type == "update_expression"


def _is_put(use: Node) -> bool:
    """Whether the whole structure is stored here."""
    outer = use.parent
    return (
        outer is not None
        and outer.type == "assignment_expression"
        and outer.children[0].id == use.id
        and outer.children[1].type == "="
    )


def _comes_first(outputs: Outputs, use: Node) -> bool:
    """Whether every output comes to this store."""
    statement = use.parent.parent if use.parent is not None else None
    return statement is not None and any(w.id == statement.id for w in outputs.work) and not outputs.others


def _is_lent(use: Node) -> bool:
    """Whether a member is an array that is passed on."""
    outer = _member(use).parent
    return outer is None or (
        outer.type == "init_declarator" and field(outer, "declarator").type != "identifier"
    )


def _is_handed(view: View, use: Node) -> bool:
    """Whether its place is, or may be, given to what may change it: by address, or as a reference to a function."""
    outer = _member(use).parent
    address = outer is not None and outer.type == "pointer_expression" and view.code(outer).startswith("&")
    return address or (outer is not None and outer.type == "argument_list")


class _Writer(ThroughShared[_Held]):
    """The new text of one kernel."""

    def __init__(
        self, view: View, launches: Launches, outputs: Outputs, axis: Axis, held: Sequence[_Held]
    ) -> None:
        super().__init__(view, launches, outputs, axis, held, name="kStructures", of="structures")
        self.names = {one.parameter.name: self._named(one) for one in held}

    def _named(self, one: _Held) -> tuple[str, str, str]:
        """Of an array the shared memory, its words in memory, and the thread's own structure."""
        name = one.parameter.name[:1].upper() + one.parameter.name[1:]
        kind = one.parameter.element_type.replace("const", "").strip().rsplit("::", 1)[-1]
        own = kind[:1].upper() + kind[1:] if len(self.every) == 1 else name
        return tuple(map(self.style.local, (f"held{name}", f"words{name}", f"own{own}")))  # type: ignore[return-value]

    def bytes_of(self, one: _Held) -> int:
        return one.pitch * _WORD

    def shared(self, one: _Held) -> str:
        return f"__shared__ unsigned {self.names[one.parameter.name][0]}[{self.count} * {one.pitch}];"

    def placed(self) -> Iterator[str]:
        for one in self.every:
            name, constant = one.parameter.name, "" if one.written else "const "
            words = f"reinterpret_cast<{constant}unsigned*>({name} + {self.first})"
            yield f"{constant}unsigned* {self.names[name][1]} = {words};"

    def moved(self, one: _Held, *, inward: bool) -> str:
        t, (shared, words, _) = self.t, self.names[one.parameter.name]
        place = t if one.pitch == one.words else f"{t} / {one.words} * {one.pitch} + {t} % {one.words}"
        head = f"for (int {t} = threadIdx.x; {t} < {self.held} * {one.words}; {t} += {self.count})"
        inside, outside = f"{shared}[{place}]", f"{words}[{t}]"
        return f"{head} {inside} = {outside};" if inward else f"{head} {outside} = {inside};"

    def named(self) -> Iterator[str]:
        for one in self.every:
            shared, _, own = self.names[one.parameter.name]
            kind = one.parameter.element_type.replace("const", "").strip()
            constant = "" if one.written else "const "
            place = f"reinterpret_cast<{constant}{kind}*>({shared} + threadIdx.x * {one.pitch})"
            yield f"{constant}{kind}& {own} = *{place};"
            self.replaced += [(use, own) for use in one.uses]


REWRITE = Rewrite(
    slug="structures-through-shared",
    title="Bring each thread's structure in and out through shared memory",
    apply=refusing(_apply),
    answers=("strided-field-access", "uncoalesced-global-read", "uncoalesced-global-write"),
    chance=0.5,
    gain=1.6,
    ranges={"kStructures": (32, 64, 128, 256)},
)
