# SPDX-License-Identifier: Apache-2.0
"""stages-in-registers

Do several stages of a butterfly at a time, with their elements in registers.

A Fourier or Hadamard transform in shared memory goes through stages whose strides double. Each loads two elements,
stores two, and waits at a barrier. The elements of two stages are groups of four, of three stages groups of eight, that
have nothing to do with each other: a thread that has a group does its stages without a barrier, and loads and stores
each element once for all of them. Where the elements are no whole number of groups, as at a length that is no power of
two, the stages are done one by one as before.

```cuda
__global__ void hadamard(float* x, int n) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[blockIdx.x * n + i];
  __syncthreads();
  for (int h = 1; h < n; h *= 2) {
    for (int k = threadIdx.x; k < n / 2; k += blockDim.x) {
      int i = k / h * 2 * h + k % h;
      float a = s[i], b = s[i + h];
      s[i] = a + b;
      s[i + h] = a - b;
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[blockIdx.x * n + i] = s[i];
}
```

```cuda
constexpr int kStages = 2;  // at a time

__global__ void hadamard(float* x, int n) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[blockIdx.x * n + i];
  __syncthreads();
  int h = 1;
  for (; (h << (kStages - 1)) < n && (n / 2) % (h << (kStages - 1)) == 0; h <<= kStages) {
    for (int group = threadIdx.x; group < (n / 2) >> (kStages - 1); group += blockDim.x) {
      const int base = ((group & ~(h - 1)) << kStages) + (group & (h - 1));
      float part[1 << kStages];
      #pragma unroll
      for (int e = 0; e < 1 << kStages; ++e) part[e] = s[base + e * h];
      #pragma unroll
      for (int stage = 0; stage < kStages; ++stage) {
        #pragma unroll
        for (int pair = 0; pair < 1 << (kStages - 1); ++pair) {
          const int e = (pair >> stage << (stage + 1)) + (pair & ((1 << stage) - 1));
          float a = part[e], b = part[e + (1 << stage)];
          part[e] = a + b;
          part[e + (1 << stage)] = a - b;
        }
      }
      #pragma unroll
      for (int e = 0; e < 1 << kStages; ++e) s[base + e * h] = part[e];
    }
    __syncthreads();
  }
  for (; h < n; h *= 2) {
    for (int k = threadIdx.x; k < n / 2; k += blockDim.x) {
      int i = k / h * 2 * h + k % h;
      float a = s[i], b = s[i + h];
      s[i] = a + b;
      s[i + h] = a - b;
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[blockIdx.x * n + i] = s[i];
}
```

Left alone: stages whose elements are others than a stride apart, that touch shared memory elsewhere, or end early, and
pairs that the threads of the block do not take in turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.expression import evaluate
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.loop_headers import initialised
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.block_strides import takes_all
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.kernel_reader import KernelReader
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    WORD,
    View,
    assigned,
    field,
    operator_of,
    refusing,
    renamed,
    squeezed,
    statements,
    stores,
    substituted,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.uniform import VaryingNames
from warplens_tools.text import TextEdit

_NONE = "no stages of a butterfly go through shared memory"
_DOUBLED = r"{0}<<=1|{0}\*=2|{0}={0}\*2|{0}=2\*{0}|{0}={0}<<1|{0}\+={0}"
_STAGES = 2
#: Strides and pairs that an index is tried for.
_STRIDES, _PAIRS = (2, 4, 8), range(32)


def _apply(view: View, target: Target) -> RewriteResult:
    why = _NONE
    for loop in walk(view.body):
        if loop.type != "for_statement" or (target.lines and view.span(loop).line not in target.lines):
            continue
        try:
            return _Stages(view, loop).result()
        except Refused as refused:
            why = str(refused)
    raise Refused(why)


class _Stages:
    """A loop over stages, and the pairs of elements that each of them joins."""

    def __init__(self, view: View, loop: Node) -> None:
        self.view, self.loop = view, loop
        name, _ = initialised(loop)
        initial, update = loop.child_by_field_name("initializer"), loop.child_by_field_name("update")
        self.variable = view.code(name) if name is not None else ""
        step = squeezed(view.code(update)) if update is not None else ""
        doubled = re.fullmatch(_DOUBLED.format(re.escape(self.variable or "-")), step)
        if initial is None or initial.type != "declaration" or doubled is None:
            raise Refused(_NONE)
        self._check_stages()
        inside = statements(field(loop, "body"))
        self.above = [n for n in inside[:-2] if n.type == "declaration"]
        barrier = squeezed(view.code(inside[-1])) if inside else ""
        if (
            len(inside) != len(self.above) + 2
            or inside[-2].type != "for_statement"
            or barrier != "__syncthreads();"
        ):
            raise Refused(_NONE)
        self.pairs = inside[-2]
        self.outer = [d for n in self.above for d in plainly_declared_in(view, n)]
        self._read_pairs()
        self._check_takers()
        self.elements = list(self._elements())

    def _check_stages(self) -> None:
        """That the loop begins at a power of two, and goes on while its variable is below a limit."""
        view, condition = self.view, unwrapped(field(self.loop, "condition"))
        name, first = initialised(self.loop)
        begin = view.value(first) or 0
        sides = [view.code(field(condition, s)) for s in ("left", "right")] if operator_of(condition) else []
        own = [s for s in sides if self.variable in WORD.findall(s)]
        ordered = operator_of(condition) in (("<", "<=") if own == sides[:1] else (">", ">="))
        if name is None or begin <= 0 or begin & (begin - 1) or own != [self.variable] or not ordered:
            raise Refused("its strides are no powers of two up to a limit")

    def _check_takers(self) -> None:
        """That all stages have as many pairs, and that it is no matter which thread a pair falls to."""
        view, loop = self.view, self.pairs
        if view.names(self.count_node) & {self.variable, *(d.name for d in self.outer)}:
            raise Refused("its stages have other numbers of pairs each")
        mine = {self.pair, *self.own}
        reader = KernelReader(view.expanded, view.file, view.kernel)
        varying = VaryingNames(reader, view.body.end_byte, loop)
        for name in (n for w in self.work for n in walk(w) if n.type == "identifier"):
            if view.code(name) not in mine and varying.among(name):
                raise Refused("what is done for a pair rests on its thread")

    def _read_pairs(self) -> None:
        view, loop = self.view, self.pairs
        name, first = initialised(loop)
        condition, update = unwrapped(field(loop, "condition")), loop.child_by_field_name("update")
        step = update.child_by_field_name("right") if update is not None else None
        plain = update is not None and operator_of(update) == "+=" and operator_of(condition) == "<"
        if name is None or first is None or step is None or not plain:
            raise Refused(_NONE)
        self.pair, self.first, self.step = view.code(name), view.written(first), view.written(step)
        self.count_node = field(condition, "right")
        self.count = view.written(self.count_node)
        if not takes_all(view, first, step):
            raise Refused("its pairs are not taken in turn by the threads of the block")
        self.work = statements(field(loop, "body"))
        nodes = [n for w in self.work for n in walk(w)]
        if any(n.type in JUMPS for n in nodes) or re.search(r"__sync|__shfl|atomic", view.code(loop)):
            raise Refused("its stages end early, or wait within")
        self.inner = [d for w in self.work for d in plainly_declared_in(view, w)]
        self.own = {d.name for n in nodes if n.type == "declaration" for d in plainly_declared_in(view, n)}
        changed = {name for w in self.work for name, place in assigned(w, view) if place.type == "identifier"}
        if changed - self.own or any(
            view.space(e) not in ("shared", "local") for w in self.work for e in stores(view, w)
        ):
            raise Refused("its stages change more than their pairs")

    def _elements(self) -> Iterator[tuple[Node, str, bool]]:
        """Elements in shared memory, with their array, and whether each is the second one of its pair.

        Raises:
            Refused: one is no element of its pair.
        """
        view, self.stride = self.view, ""
        found = [e for w in self.work for e in view.elements(w) if view.space(e) == "shared"]
        for stride in (self.variable, *(d.name for d in self.outer)):
            halves = self._values(stride)
            sides = [self._side(e, halves) for e in found]
            if found and None not in sides and {True, False} <= set(sides):
                self.stride = stride
                for element, second in zip(found, sides, strict=True):
                    base = element.child_by_field_name("argument")
                    if base is None or base.type != "identifier" or not view.is_plain_enough(element):
                        raise Refused("a macro writes what would have to change")
                    yield element, view.code(base), bool(second)
                return
        raise Refused("its elements are no pairs that a stride lies between")

    def _values(self, name: str) -> dict[int, int]:
        """By the loop's variable what a name is."""
        found = dict[int, int]()
        for value in _STRIDES:
            known = self._evaluated(name, value, 0)
            if known is not None:
                found[value] = known
        return found

    def _side(self, element: Node, strides: dict[int, int]) -> bool | None:
        """Whether an element is the second one of its pair; None where it is neither."""
        listed = field(element, "indices").named_children
        code, sides = self.view.code(listed[0]) if len(listed) == 1 else "", set[bool | None]()
        for value, h in strides.items():
            for k in _PAIRS:
                place, low = self._evaluated(code, value, k), k // h * 2 * h + k % h if h > 0 else -1
                sides.add(
                    None if place is None else True if place == low + h else False if place == low else None
                )
        return sides.pop() if len(sides) == 1 else None

    def _evaluated(self, code: str, value: int, pair: int) -> int | None:
        """An expression for one value of the stride and one pair."""
        known = {self.variable: value, self.pair: pair}
        for one in (*self.outer, *self.inner):
            if one.value is not None and one.name not in known:
                found = evaluate(self.view.code(one.value), known.get)
                if found is not None:
                    known[one.name] = found
        return evaluate(code, known.get)

    # the new text

    def result(self) -> RewriteResult:
        """All edits."""
        view, style = self.view, Style(self.view)
        self.stages = style.constant("kStages", str(_STAGES), "at a time")
        self.names = {n: style.local(n) for n in ("group", "base", "e", "stage", "pair")}
        arrays = dict.fromkeys(a for _, a, _ in self.elements)
        self.parts = {a: style.local("part" if len(arrays) == 1 else f"{a}Part") for a in arrays}
        margin, newline = view.margin(self.loop), view.text.newline
        level = max(round((len(margin) - len(style.margin)) / max(len(style.step), 1)), 1)
        code = style.lines("\n".join(self._lines(style)), level).lstrip()
        head = view.text.slice(view.span(self.loop))
        initial = field(self.loop, "initializer")
        rest = head[view.end(initial) - view.start(self.loop) :]
        text = f"{code}{newline}{margin}for (;{rest}"
        edits = (style.constants(), TextEdit(view.span(self.loop), text))
        return RewriteResult(edits, title="Do several stages at a time in registers")

    def _stride(self) -> str:
        """The stride, by what the loop's head sees."""
        text = self.stride
        for one in reversed(self.outer):
            if one.value is not None:
                text = renamed(text, {one.name: f"({self.view.written(one.value)})"})
        return text

    def _are_whole(self) -> bool:
        """Whether numbers alone tell that every stage's pairs are whole groups."""
        view, condition = self.view, unwrapped(field(self.loop, "condition"))
        count = view.value(self.count_node)
        limit = view.value(field(condition, "right")) if operator_of(condition) in ("<", "<=") else None
        if count is None or limit is None or count <= 0 or count & (count - 1) or limit > 2 * count:
            return False
        halves = all(h == v // 2 for v, h in self._values(self.stride).items())
        return halves or (self.stride == self.variable and operator_of(condition) == "<")

    def _lines(self, style: Style) -> Iterator[str]:
        view, n, v, s = self.view, self.names, self.variable, self.stages
        condition = view.written(unwrapped(field(self.loop, "condition")))
        count = self.count if re.fullmatch(r"[\w.]+", self.count) else f"({self.count})"
        goes_on = renamed(condition, {v: f"({v} << ({s} - 1))"})
        if not self._are_whole():
            goes_on += f" && {count} % ({self._stride()} << ({s} - 1)) == 0"
        yield view.written(field(self.loop, "initializer")).rstrip(";").strip() + ";"
        yield f"for (; {goes_on}; {v} <<= {s}) {{"
        for node in self.above:
            yield indented(style.code(view.written(node)))
        group, kind = n["group"], "int"
        head = (
            f"for ({kind} {group} = {self.first}; {group} < {count} >> ({s} - 1); {group} += {self.step}) {{"
        )
        yield indented(head)
        yield from (indented(line, 2) for line in self._group(style))
        yield "  }"
        yield "  __syncthreads();"
        yield "}"

    def _group(self, style: Style) -> Iterator[str]:
        n, s, h = self.names, self.stages, self.stride
        group, base, e, stage, pair = (n[k] for k in ("group", "base", "e", "stage", "pair"))
        yield f"const int {base} = (({group} & ~({h} - 1)) << {s}) + ({group} & ({h} - 1));"
        types = {a.name: self.view.concrete(a.element_type) for a in self.view.kernel.arrays}
        for array, part in self.parts.items():
            if not types.get(array):
                raise Refused("the type of its elements is not known")
            yield f"{types[array]} {part}[1 << {s}];"
        each = f"for (int {e} = 0; {e} < 1 << {s}; ++{e}) "
        moved = [(f"{p}[{e}]", f"{a}[{base} + {e} * {h}]") for a, p in self.parts.items()]
        yield "#pragma unroll"
        yield each + _block([f"{own} = {there};" for own, there in moved])
        yield "#pragma unroll"
        yield f"for (int {stage} = 0; {stage} < {s}; ++{stage}) {{"
        yield "  #pragma unroll"
        yield f"  for (int {pair} = 0; {pair} < 1 << ({s} - 1); ++{pair}) {{"
        low = f"({pair} >> {stage} << ({stage} + 1)) + ({pair} & ((1 << {stage}) - 1))"
        yield f"    const int {e} = {low};"
        yield from (indented(line, 2) for line in self._pair(style))
        yield "  }"
        yield "}"
        yield "#pragma unroll"
        yield each + _block([f"{there} = {own};" for own, there in moved])

    def _pair(self, style: Style) -> list[str]:
        """What is done for one pair, with its elements in registers."""
        view, n = self.view, self.names
        e, stage = n["e"], n["stage"]
        new = {
            el.id: f"{self.parts[array]}[{e}{f' + (1 << {stage})' if second else ''}]"
            for el, array, second in self.elements
        }
        lines, declared = list[str](), list[tuple[Declared, ...]]()
        for node in (*self.above, *self.work):
            inside = [
                (el, new[el.id])
                for el, _, _ in self.elements
                if node.start_byte <= el.start_byte < node.end_byte
            ]
            text = style.code(substituted(view, node, inside), view.margin(node))
            lines.append(renamed(text, {self.variable: f"({self.variable} << {stage})"}))
            declared.append(tuple(plainly_declared_in(view, node)))
        for at in reversed(range(len(lines))):
            rest = set(WORD.findall(" ".join(lines[at + 1 :])))
            own = declared[at]
            if own and all(d.name not in rest and integer_type(unqualified(d.type)) is not None for d in own):
                lines[at] = ""
        words = set(WORD.findall(" ".join(lines)))
        if self.pair in words:
            h = f"({self.stride} << {stage})"
            place = f"({n['base']} + {e} * {self.stride})"
            lines.insert(0, f"const int {self.pair} = {place} / (2 * {h}) * {h} + {place} % {h};")
        return [line for text in lines if text for line in text.split("\n")]


def _block(lines: list[str]) -> str:
    if len(lines) == 1:
        return lines[0]
    return "\n".join(["{", *map(indented, lines), "}"])


REWRITE = Rewrite(
    slug="stages-in-registers",
    title="Do several stages of a butterfly at a time in registers",
    apply=refusing(_apply),
    answers=("barrier-heavy", "barriers-per-step", "shared-bank-conflicts", "integer-division"),
    chance=0.6,
    gain=2.0,
    ranges={"kStages": (1, 2, 3, 4)},
)
