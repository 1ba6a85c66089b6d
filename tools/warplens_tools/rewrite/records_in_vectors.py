# SPDX-License-Identifier: Apache-2.0
"""records-in-vectors

Move structures of an array in pieces of 8 or 16 bytes.

Members of a structure that are floats or integers are aligned to four bytes, and so is the structure: each member is
a load of its own, in which neighbouring threads are a whole structure apart. Where a structure is a multiple of 8 or
16 bytes, it can be moved in pieces of that size, and be worked on in registers.

```cuda
struct Particle { float x, y, z, vx, vy, vz, mass, charge; };
__global__ void advance(Particle* particles, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    particles[i].x += particles[i].vx * dt;
    particles[i].y += particles[i].vy * dt;
    particles[i].z += particles[i].vz * dt;
  }
}
```

```cuda
struct Particle { float x, y, z, vx, vy, vz, mass, charge; };

__device__ __forceinline__ Particle load_particle(const Particle* from) {
  alignas(16) Particle to;
  if (reinterpret_cast<size_t>(from) % 16 == 0) {
    #pragma unroll
    for (int q = 0; q < 2; ++q) {
      reinterpret_cast<uint4*>(&to)[q] = reinterpret_cast<const uint4*>(from)[q];
    }
  } else {
    to = *from;
  }
  return to;
}

__device__ __forceinline__ void store_particle(Particle* to, const Particle& value) {
  alignas(16) Particle from = value;
  if (reinterpret_cast<size_t>(to) % 16 == 0) {
    #pragma unroll
    for (int q = 0; q < 2; ++q) {
      reinterpret_cast<uint4*>(to)[q] = reinterpret_cast<const uint4*>(&from)[q];
    }
  } else {
    *to = from;
  }
}

__global__ void advance(Particle* particles, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    Particle own = load_particle(&particles[i]);
    own.x += own.vx * dt;
    own.y += own.vy * dt;
    own.z += own.vz * dt;
    store_particle(&particles[i], own);
  }
}
```

Structures that are copied as a whole (`Atom a = atoms[j];`) and stored as a whole are moved alike. Where an array is
not aligned, they go member by member as before. Left alone: structures that the compiler knows to be aligned, of which
a thread uses one member, or whose members' places are passed on.
"""

from __future__ import annotations

import re

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.groups import style_of
from warplens_tools.rewrite.common.insertion import insert_before
from warplens_tools.rewrite.common.reading import View, field, refusing
from warplens_tools.rewrite.common.records import NO_RECORDS, Group, Uses, read_uses
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

_CAVEAT = "undefined results if two of the buffers overlap"
_LOAD = """\
__device__ __forceinline__ {kind} {name}(const {kind}* from) {{
  alignas({piece}) {kind} to;
  if (reinterpret_cast<size_t>(from) % {piece} == 0) {{
    {move}
  }} else {{
    to = *from;
  }}
  return to;
}}
"""
_STORE = """\
__device__ __forceinline__ void {name}({kind}* to, const {kind}& value) {{
  alignas({piece}) {kind} from = value;
  if (reinterpret_cast<size_t>(to) % {piece} == 0) {{
    {move}
  }} else {{
    *to = from;
  }}
}}
"""
_VECTORS = {16: "uint4", 8: "uint2"}


def _apply(view: View, target: Target) -> RewriteResult:
    movers, edits, moved = _Movers(view), list[TextEdit](), list[str]()
    why = NO_RECORDS
    for parameter in view.kernel.parameters:
        if not parameter.pointer or (target.names and parameter.name not in target.names):
            continue
        try:
            uses = read_uses(view, parameter)
            if not uses.copies and not uses.puts and not uses.groups:
                raise Refused("one member alone is used of its structures")
            edits += _edits(view, movers, uses)
        except Refused as refused:
            why = why if why != NO_RECORDS else str(refused)
            continue
        moved.append(parameter.name)
    if not moved:
        raise Refused(why)
    title = f"Move structures of {', '.join(moved)} in vectors"
    return RewriteResult((movers.edit(), *edits), title=title, caveat=_CAVEAT if movers.stores else "")


class _Movers:
    """The functions that load and store whole structures, in front of the kernel."""

    def __init__(self, view: View) -> None:
        self.view, self.style = view, Style(view)
        self._named = style_of(view.kernel.name, self.style.step)
        self._names: dict[tuple[str, str], str] = {}
        self._code: list[str] = []

    @property
    def stores(self) -> bool:
        """Whether some structure is stored."""
        return any(way == "store" for way, _ in self._names)

    def edit(self) -> TextEdit:
        """The edit that adds the functions."""
        newline = self.view.text.newline
        return self.style.above(f"{newline}".join(self.style.lines(c, 0) + newline for c in self._code))

    def name(self, way: str, uses: Uses) -> str:
        """The function that moves a structure, "load" or "store"."""
        kind = uses.parameter.element_type
        if (way, kind) not in self._names:
            short = re.sub(r"\W", "", kind.rsplit("::", 1)[-1])
            name = self.style.name(self._named.function(way, short.lower() if self._named.snake else short))
            self._names[way, kind] = name
            move = _moved(uses, "&to", "from") if way == "load" else _moved(uses, "to", "&from")
            written = _LOAD if way == "load" else _STORE
            self._code.append(written.format(name=name, kind=kind, piece=uses.piece, move=move))
        return self._names[way, kind]


def _moved(uses: Uses, to: str, source: str) -> str:
    """What moves a structure piece by piece."""
    vector, count = _VECTORS[uses.piece], uses.record.size // uses.piece
    if count == 1:
        return f"*reinterpret_cast<{vector}*>({to}) = *reinterpret_cast<const {vector}*>({source});"
    step = f"reinterpret_cast<{vector}*>({to})[q] = reinterpret_cast<const {vector}*>({source})[q];"
    return f"#pragma unroll\n    for (int q = 0; q < {count}; ++q) {{\n      {step}\n    }}"


def _edits(view: View, movers: _Movers, uses: Uses) -> list[TextEdit]:
    edits = []
    for copy in uses.copies:
        edits.append(TextEdit(view.span(copy), f"{movers.name('load', uses)}(&{view.written(copy)})"))
    for put in uses.puts:
        to, value = view.written(field(put, "left")), view.written(field(put, "right"))
        edits.append(TextEdit(view.span(put), f"{movers.name('store', uses)}(&{to}, {value})"))
    for group in uses.groups:
        edits += _group(view, movers, uses, group)
    return edits


def _group(view: View, movers: _Movers, uses: Uses, group: Group) -> list[TextEdit]:
    """The structure in a variable from its first use to its last."""
    own = movers.style.local("own")
    place = view.written(group.uses[0])
    constant = "" if group.writes else "const "
    begun = insert_before(
        view.tree,
        group.first,
        f"{constant}{uses.parameter.element_type} {own} = {movers.name('load', uses)}(&{place});",
    )
    if begun is None:
        raise Refused("nothing can be added before the use of a structure")
    edits = [begun, *(TextEdit(view.span(use), own) for use in group.uses)]
    if group.writes:
        margin = view.margin(group.last)
        end = view.end(group.last)
        stored = f"{view.text.newline}{margin}{movers.name('store', uses)}(&{place}, {own});"
        edits.append(TextEdit(view.text.span(end, end), stored))
    return edits


REWRITE = Rewrite(
    slug="records-in-vectors",
    title="Move structures of an array in vectors",
    apply=refusing(_apply),
    answers=("strided-field-access", "scalar-access", "uncoalesced-global-read", "uncoalesced-global-write"),
    chance=0.5,
    gain=1.7,
)
