# SPDX-License-Identifier: Apache-2.0
"""permute-tile

Permute the axes of an array through shared memory, so that both its reads and its writes are coalesced.

A permutation that moves the fastest axis, as from channels first to channels last, reads or writes with a stride. The
axis that is fastest in what is read and that which is fastest in what is stored become the two axes of a block, which
turns squares of them in shared memory as [transpose-tile](transpose-tile.md) does; the others are walked by the grid.

```cuda
__global__ void last(const float* in, float* out, int N, int C, int H, int W) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= N * C * H * W) return;
  int w = idx % W;
  int h = (idx / W) % H;
  int c = (idx / (W * H)) % C;
  int n = idx / (W * H * C);
  out[((n * H + h) * W + w) * C + c] = in[idx];
}
void run(const float* in, float* out, int N, int C, int H, int W) {
  last<<<(N * C * H * W + 255) / 256, 256>>>(in, out, N, C, H, W);
}
```

```cuda
constexpr int kTile = 32;  // rows and columns of a tile
constexpr int kTileRows = 8;  // of them at a time

__global__ void last(const float* in, float* out, int N, int C, int H, int W) {
  __shared__ float tile[kTile][kTile + 1];
  int h = blockIdx.x % H;
  int n = blockIdx.x / H;
  const int w0 = blockIdx.y * kTile;
  const int c0 = blockIdx.z * kTile;
  for (int r = threadIdx.y; r < kTile; r += kTileRows) {
    int w = w0 + threadIdx.x;
    int c = c0 + r;
    if (w < W && c < C) {
      int idx = ((n * C + c) * H + h) * W + w;
      tile[r][threadIdx.x] = in[idx];
    }
  }
  __syncthreads();
  for (int r = threadIdx.y; r < kTile; r += kTileRows) {
    int c = c0 + threadIdx.x;
    int w = w0 + r;
    if (w < W && c < C) out[((n * H + h) * W + w) * C + c] = tile[threadIdx.x][r];
  }
}
void run(const float* in, float* out, int N, int C, int H, int W) {
  last<<<dim3(H * N, (W + kTile - 1) / kTile, (C + kTile - 1) / kTile), dim3(kTile, kTileRows)>>>(in, out, N, C, H, W);
}
```

Left alone: indices that are not the digits of one number, and kernels that do more than one store.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite import transpose_tile
from warplens_tools.rewrite.base import EVERYWHERE, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, declared_in, unqualified
from warplens_tools.rewrite.common.digits import Digits, factors, quotients, remainders, without_factors
from warplens_tools.rewrite.common.evaluated import Values
from warplens_tools.rewrite.common.flat_number import as_factor, flat_guard, flat_number
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import WORD, View, field, refusing, require_apart, statements
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText, TextEdit

_CAVEAT = "y and z of a grid hold at most 65535 blocks: more rows or planes than that are not computed at all"
#: Any block will do: `transpose-tile` gives it another.
_BLOCK = (32, 8)
_LEAST_DIGITS = 3
#: Variables made of variables are followed this far.
_DEEP = 3


class _Digit(msgspec.Struct, frozen=True):
    """An index that the number is divided into, and its extent as written."""

    declared: Declared
    extent: str

    @property
    def name(self) -> str:
        """What the kernel calls it."""
        return self.declared.name


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    reader = _Reader(view)
    refused = "nothing is turned"
    for down in reader.digits[1:]:
        plain = reader.with_axes(down)
        model = parse(plain, view.model.path)
        kernel = model.same(view.kernel, view.model)
        if kernel is None or kernel.broken:
            continue
        turned = transpose_tile.REWRITE.apply(plain, model, kernel, EVERYWHERE)
        if turned.edits:
            edits = between(view.text, plain.apply(list(turned.edits)))
            return RewriteResult(edits, "Permute axes through a tile of shared memory", caveat=_CAVEAT)
        refused = turned.refused
    raise Refused(refused)


class _Reader:
    """A kernel whose threads' number is divided into all indices of an array."""

    def __init__(self, view: View) -> None:
        self.view, self.launches = view, Launches(view.text, view.model, view.kernel)
        self.number = flat_number(view, self.launches)
        self.guard = flat_guard(view, self.number)
        top = statements(view.body)
        self.known = Digits(view, self.number, top)
        inside = [] if self.guard.returns else statements(field(self.guard.statement, "consequence"))
        self.code = [n for n in top if n.id != self.guard.statement.id and n.id != self.number.statement.id]
        self.code += inside
        self.digits = list(self._digits())
        if len(self.digits) < _LEAST_DIGITS:
            raise Refused("its threads' number is not divided into three indices")

    def _digits(self) -> Iterator[_Digit]:
        """The indices, the fastest first; the last one's extent is what is left of the number's limit."""
        rest, product = self.known.index, list[str]()
        left = list(self.known.named)
        while left:
            last = next((one for one, values in left if values == rest), None)
            if last is not None:
                yield _Digit(last, self._left_of(product))
                return
            every = (
                (e, t, o) for o, v in left for e, t in self._extents(product) if v == remainders(rest, e)
            )
            found = min(every, key=lambda one: one[0], default=None)
            if found is None:
                break
            extent, text, one = found
            yield _Digit(one, text)
            left = [pair for pair in left if pair[0].name != one.name]
            rest = quotients(rest, extent)
            product.append(text)
        raise Refused("its threads' number is not divided into indices")

    def _extents(self, product: list[str]) -> Iterator[tuple[Values, str]]:
        """What a remainder is taken by, as it is and without the extents below."""
        for part in self.known.parts:
            text = self._spelt_out(self.view.written(field(part.node, "right")))
            if part.kind == "%" and min(part.right) > 1:
                yield part.right, text
                above = without_factors(text, *product) if product else ""
                below = self._values(product)
                if above not in ("", "1") and below is not None:
                    yield quotients(part.right, below), above

    def _values(self, product: list[str]) -> Values | None:
        values: Values | None = (1,) * len(self.known.index)
        for name in (f for text in product for f in factors(text)):
            mine = self.known.evaluator.of_name(name) if name.isidentifier() else None
            values = self.known.evaluator.combined("*", values, mine)
        return values

    def _left_of(self, product: list[str]) -> str:
        text = without_factors(self._spelt_out(self.view.written(self.guard.limit)), *product)
        if not text:
            raise Refused("how far its slowest index goes is not known")
        return text

    def _spelt_out(self, text: str) -> str:
        """A product with variables that are products, `size` of `rows * cols`, written out."""
        values = {d.name: self.view.written(d.value) for d, _ in self.known.named if d.value is not None}
        found = factors(text)
        for _ in range(_DEEP):
            found = [f for one in found for f in factors(values.get(one, one))]
        return " * ".join(map(as_factor, found))

    def with_axes(self, down: _Digit) -> SourceText:
        """The file with the fastest index along x, `down` along y, and the others along z."""
        view, newline, along = self.view, self.view.text.newline, self.digits[0]
        others = [d for d in self.digits if d not in (along, down)]
        before, behind = self._kept(view)
        lines = [*before]
        for digit, axis in ((along, "x"), (down, "y")):
            lines.append(
                f"{_type(digit)} {digit.name} = blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis};"
            )
        left = "blockIdx.z"
        for digit in others:
            is_last = digit is others[-1]
            part = left if is_last else f"{left} % {as_factor(digit.extent)}"
            lines.append(f"{_type(digit)} {digit.name} = {part};")
            left += f" / {as_factor(digit.extent)}"
        whole = self._slowest()
        for digit in reversed(self.digits[:-1]):
            whole = f"{f'({whole})' if '+' in whole else whole} * {as_factor(digit.extent)} + {digit.name}"
        lines.append(f"{self.number.type} {self.number.name} = {whole};")
        lines.append(f"if ({along.name} >= {along.extent} || {down.name} >= {down.extent}) return;")
        code = Style(view).lines("\n".join([*lines, *behind]))
        body = TextEdit(
            view.text.span(view.start(view.body), view.end(view.body)), f"{{{newline}{code}{newline}}}"
        )
        launches = Launches(view.text, view.model, view.kernel)
        self._relaunch(launches, along, down, others)
        return view.text.apply([body, *launches.edits()])

    def _slowest(self) -> str:
        """The slowest index, as wide as the number."""
        last, kind = self.digits[-1], unqualified(self.number.type)
        known, mine = integer_type(kind), integer_type(_type(last))
        narrow = known is not None and mine is not None and mine.bytes < known.bytes
        return f"({kind}){last.name}" if narrow else last.name

    def _relaunch(self, launches: Launches, along: _Digit, down: _Digit, others: list[_Digit]) -> None:
        for launch in launches.read():
            x, y, *rest = (host_text(self.view, launches, launch, d.extent) for d in (along, down, *others))
            planes = " * ".join(map(as_factor, rest)) or "1"
            width, height = _BLOCK
            grid = f"({x} + {width - 1}) / {width}, ({y} + {height - 1}) / {height}, {planes}"
            launches.set_whole(launch.grid, f"dim3({grid})")
            launches.set_whole(launch.block, f"dim3({width}, {height})")

    def _kept(self, view: View) -> tuple[list[str], list[str]]:
        """What the indices' extents rest on, and the statements behind them, without what nothing needs any more."""
        own = {d.name for d in self.digits} | {self.number.name}
        extents = set(WORD.findall(" ".join(d.extent for d in self.digits)))
        needed, before, behind = set(extents), list[str](), list[str]()
        for node in reversed(self.code):
            names = _set_by(view, node)
            if names and (names <= own or not names & needed):
                continue
            if names & own:
                raise Refused("an index is declared with what is none")
            needed |= view.names(node)
            if names & extents:
                extents |= view.names(node)
                before.append(view.written(node))
            else:
                behind.append(view.written(node))
        if extents & own:
            raise Refused("an index's extent rests on another index")
        return before[::-1], behind[::-1]


def _set_by(view: View, node: Node) -> set[str]:
    """The variables that a statement sets, where that is all it does."""
    if node.type == "declaration":
        return {d.name for d in declared_in(view, node)}
    inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else node
    if inner.type != "assignment_expression" or field(inner, "left").type != "identifier":
        return set()
    return {view.code(field(inner, "left"))}


def _type(digit: _Digit) -> str:
    return unqualified(digit.declared.type)


REWRITE = Rewrite(
    slug="permute-tile",
    title="Permute axes through a tile of shared memory",
    apply=refusing(_apply),
    answers=("uncoalesced-global-write", "uncoalesced-global-read"),
    chance=0.5,
    gain=3.0,
    ranges=transpose_tile.REWRITE.ranges,
)
