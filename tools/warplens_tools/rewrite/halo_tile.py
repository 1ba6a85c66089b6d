# SPDX-License-Identifier: Apache-2.0
"""halo-tile

Bring what a block's windows cover into shared memory, with the halo around it.

The windows of neighbouring outputs overlap: each element is loaded by as many threads as a window has places, each
time with its own clamping and address arithmetic. A block can load what its windows cover together once.

```cuda
#define RADIUS 2
__global__ void blur(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    float sum = 0.0f;
    for (int j = -RADIUS; j <= RADIUS; ++j) {
      for (int i = -RADIUS; i <= RADIUS; ++i) {
        int xx = min(max(x + i, 0), width - 1);
        int yy = min(max(y + j, 0), height - 1);
        sum += in[yy * width + xx];
      }
    }
    out[y * width + x] = sum / 25.0f;
  }
}
void run(const float* in, float* out, int width, int height) {
  dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
  blur<<<grid, block>>>(in, out, width, height);
}
```

```cuda
#define RADIUS 2

#define BLOCK_X 32  // threads of a block along x
#define BLOCK_Y 8  // threads of a block along y
#define TILE_X (BLOCK_X + 4)
#define TILE_Y (BLOCK_Y + 4)

__global__ void blur(const float* in, float* out, int width, int height) {
  __shared__ float tileIn[TILE_Y][TILE_X];
  float sum = 0.0f;
  const int x0 = blockIdx.x * BLOCK_X;
  const int y0 = blockIdx.y * BLOCK_Y;
  for (int t = threadIdx.y * BLOCK_X + threadIdx.x; t < TILE_X * TILE_Y; t += BLOCK_X * BLOCK_Y) {
    int x = x0 + t % TILE_X;
    int y = y0 + t / TILE_X;
    int j = -2;
    int i = -2;
    int xx = min(max(x + i, 0), width - 1);
    int yy = min(max(y + j, 0), height - 1);
    if (x < width + 4 && y < height + 4) tileIn[t / TILE_X][t % TILE_X] = in[yy * width + xx];
  }
  __syncthreads();
  int x = x0 + threadIdx.x;
  int y = y0 + threadIdx.y;
  if (x < width && y < height) {
    for (int j = -RADIUS; j <= RADIUS; ++j) {
      for (int i = -RADIUS; i <= RADIUS; ++i) {
        int xx = min(max(x + i, 0), width - 1);
        int yy = min(max(y + j, 0), height - 1);
        sum += tileIn[threadIdx.y + j + 2][threadIdx.x + i + 2];
      }
    }
    out[y * width + x] = sum / 25.0f;
  }
}
void run(const float* in, float* out, int width, int height) {
  dim3 block(BLOCK_X, BLOCK_Y), grid((width + BLOCK_X - 1) / BLOCK_X, (height + BLOCK_Y - 1) / BLOCK_Y);
  blur<<<grid, block>>>(in, out, width, height);
}
```

Windows have a constant size, as loops with constant bounds or as single accesses (`u[i - 1]`). What lies outside may
be clamped, skipped by `if` or `continue`, or kept out by the outputs' own limits. Where `if (inside) sum += …` adds
nothing for a zero, the tile has zeros outside and the condition goes: an infinite weight makes a difference then.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type, type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis, Outputs, head_of, launched_outputs
from warplens_tools.rewrite.common.reading import (
    View,
    calls,
    field,
    refusing,
    require_apart,
    statements,
    stores,
    substituted,
)
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import Style, indented, zero
from warplens_tools.rewrite.common.window_places import conditions_of, locals_of
from warplens_tools.rewrite.common.windows import Access, padded, read_window, without
from warplens_tools.text import TextEdit

_STATIC_BYTES = 48 * 1024
#: Fewer places than this are served by the L1 cache as well.
_LEAST_PLACES = 3
_PADDED = "what lies outside is added as zero times its weight: an infinite weight makes that no number"
_LOWER = re.compile(r"(\w+)\s*(>=|>)\s*(\d+)")


def _apply(view: View, target: Target) -> RewriteResult:
    require_apart(view)
    launches, outputs = launched_outputs(view)
    if (
        not 1 <= len(outputs.axes) <= 2
        or outputs.early
        or any(not a.letter or not a.limit for a in outputs.axes)
    ):
        raise Refused("its outputs are not numbered along limited axes of the launch")
    if any(n.type == "return_statement" for w in outputs.work for n in walk(w)):
        raise Refused("threads return early")
    refused = Refused("it reads nothing but what it writes")
    for nodes in _read(view, outputs, target):
        try:
            return _Writer(view, outputs, launches, read_window(view, nodes, len(outputs.axes))).result()
        except Refused as why:
            refused = why
    raise refused


def _read(view: View, outputs: Outputs, target: Target) -> list[list[Node]]:
    """The accesses of each array around the output, those of the one that is read most often first."""
    inside = [*outputs.work, *(d.value for d in outputs.declared if d.value is not None)]
    stored = {view.array(s) for n in outputs.work for s in stores(view, n)}
    if any(name.startswith("atomic") for n in outputs.work for name, _ in calls(n, view)):
        raise Refused("the work shares memory with other threads")
    found: dict[str, list[Node]] = {}
    for node in (e for n in inside for e in view.elements(n)):
        name = view.array(node)
        if view.space(node) == "global" and name not in stored and (not target.names or name in target.names):
            found.setdefault(name, []).append(node)
    if not found:
        raise Refused("it reads nothing but what it writes")
    plain = [
        nodes
        for nodes in found.values()
        if all(view.is_plain_enough(n) and n.type == "subscript_expression" for n in nodes)
    ]
    if not plain:
        raise Refused("a macro writes what would have to change")
    return sorted(plain, key=lambda nodes: -sum(1 + 8 * _depth(view, n) for n in nodes))


def _depth(view: View, node: Node) -> int:
    depth, outer = 0, node.parent
    while outer is not None and outer.start_byte >= view.body.start_byte:
        depth += outer.type == "for_statement"
        outer = outer.parent
    return depth


class _Writer:
    def __init__(self, view: View, outputs: Outputs, launches: Launches, window: tuple[Access, ...]) -> None:
        self.view, self.outputs, self.launches, self.window = view, outputs, launches, window
        self.type, self.array = view.element(window[0].node), view.array(window[0].node)
        self.ranges = [self._range(i) for i in range(len(outputs.axes))]
        self.threads = [launches.block_value(i) for i in range(len(outputs.axes))]
        self._check()
        #: A condition that keeps accesses inside, where zeros outside do as well.
        self.padded = padded(view, window)
        style = self.style = Style(view)
        self.constants = [
            style.constant(f"kBlock{'XY'[i]}", str(n), f"threads of a block along {a.name}")
            for i, (n, a) in enumerate(zip(self.threads, outputs.axes, strict=True))
        ]
        self.extents = [
            style.constant(f"kTile{'XY'[i]}", f"{c} + {high - low}")
            for i, (c, (low, high)) in enumerate(zip(self.constants, self.ranges, strict=True))
        ]
        self.tile = style.local(f"tile{self.array[:1].upper()}{self.array[1:]}")
        self.first = [style.local(f"{a.name}0") for a in outputs.axes]
        self.counter = style.local("t")

    def _range(self, axis: int) -> tuple[int, int]:
        ranges = [a.range(axis) for a in self.window]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def _check(self) -> None:
        if None in self.threads:
            raise Refused("how large a block is is not known")
        places, size = 1, type_bytes(self.view.concrete(self.type)) or 0
        for low, high in self.ranges:
            places *= high - low + 1
        total = size
        for threads, (low, high) in zip(self.threads, self.ranges, strict=True):
            total *= (threads or 0) + high - low
        work = self.outputs.work
        if len({tuple(conditions_of(self.view, work, a.node)[1]) for a in self.window}) > 1:
            raise Refused("elements of a window are read under different conditions")
        if places < _LEAST_PLACES:
            raise Refused("the window is too small to be worth a tile")
        if not 0 < total <= _STATIC_BYTES:
            raise Refused("the block or the type is not known, or the tile does not fit into shared memory")

    def _signed_type(self, axis: Axis, low: int) -> str:
        """The type of an axis whose halo begins below zero."""
        known = integer_type(axis.type)
        if low >= 0 or known is None or known.signed:
            return axis.type
        return "long long" if (type_bytes(unqualified(axis.type)) or 8) > 4 else "int"

    def _check_signs(self, needed: frozenset[str], kept: list[Declared]) -> None:
        """That what an unsigned number comes to in the halo is negative there, as it is for an output inside."""
        for axis, (low, _) in zip(self.outputs.axes, self.ranges, strict=True):
            if self._signed_type(axis, low) == axis.type:
                continue
            made = [d for d in kept if d.value is not None and axis.name in self.view.names(d.value)]
            signed = all((known := integer_type(d.type)) is not None and known.signed for d in made)
            if axis.name in needed or not signed:
                raise Refused("an unsigned number would have to be negative in the halo")

    def result(self) -> RewriteResult:
        """All edits."""
        view, outputs, newline = self.view, self.outputs, self.view.text.newline
        extents = "".join(f"[{e}]" for e in reversed(self.extents))
        uniform = [d for d in outputs.declared if not outputs.rests[d.name] and self._is_plain(d)]
        own = [d for d in outputs.declared if d not in uniform]
        lines = [f"__shared__ {self.type} {self.tile}{extents};", *head_of(view, (), uniform)]
        for axis, first, constant in zip(outputs.axes, self.first, self.constants, strict=True):
            offset = f" + {axis.offset}" if axis.offset else ""
            lines.append(f"const int {first} = blockIdx.{axis.letter} * {constant}{offset};")
        lines += [self._load(uniform), "__syncthreads();"]
        lines += [
            f"{a.type} {a.name} = {f} + threadIdx.{a.letter};"
            for a, f in zip(outputs.axes, self.first, strict=True)
        ]
        inner = [self._replaced(d) for d in own] + [self.style.code(self._text(n)) for n in outputs.work]
        tests = [f"{a.name} < {a.limit}" for a in outputs.axes] + [*outputs.uniform, *outputs.others]
        lines += [f"if ({' && '.join(tests)}) {{", *map(indented, inner), "}"]
        code = self.style.lines("\n".join(lines))
        text = f"{{{newline}{code}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        self._relaunch()
        edits = (self.style.constants(), edit, *self.launches.edits())
        caveat = _PADDED if self.padded is not None else ""
        return RewriteResult(edits, title=f"Tile {self.array} with its halo in shared memory", caveat=caveat)

    def _is_plain(self, one: Declared) -> bool:
        return one.is_index or one.value is None or not any(self.view.elements(one.value))

    def _relaunch(self) -> None:
        for launch in self.launches.read():
            grid, block = {}, {}
            for i, (axis, constant) in enumerate(zip(self.outputs.axes, self.constants, strict=True)):
                limit = host_text(self.view, self.launches, launch, self._on_host(axis.limit))
                before = f" - {axis.offset}" if axis.offset else ""
                grid[i], block[i] = f"({limit}{before} + {constant} - 1) / {constant}", constant
            self.launches.set(launch.grid, grid)
            self.launches.set(launch.block, block)

    def _on_host(self, limit: str) -> str:
        """A limit in terms of parameters: variables of the kernel that are sizes are followed."""
        text = limit
        for one in reversed(self.outputs.declared):
            if (
                re.search(rf"\b{one.name}\b", text)
                and one.value is not None
                and not self.outputs.rests[one.name]
            ):
                text = re.sub(rf"\b{one.name}\b", f"({self.view.written(one.value)})", text)
        return text

    # the tile

    def _load(self, uniform: list[Declared]) -> str:
        """The elements that the block's windows cover, each by one thread."""
        view, outputs, t = self.view, self.outputs, self.counter
        reference = self.window[0]
        two = len(outputs.axes) > 1
        places = [f"{t} % {self.extents[0]}", f"{t} / {self.extents[0]}"] if two else [t]
        lines, tests = [], []
        for axis, first, place, (low, high) in zip(
            outputs.axes, self.first, places, self.ranges, strict=True
        ):
            lines.append(f"{self._signed_type(axis, low)} {axis.name} = {first} + {place}{_signed(low)};")
            tests += self._bounds(axis, low, high)
        names, conditions = conditions_of(view, outputs.work, reference.node)
        for loop, _ in reference.loops:
            value = loop.first.value if loop.first is not None else 0
            lines.append(f"int {loop.variable} = {value};")
        needed = view.names(reference.node) | names
        own = [d for d in outputs.declared if d not in uniform]
        kept = locals_of(view, outputs.work, own, reference.node, needed)
        self._check_signs(needed, kept)
        lines += [
            f"{d.type} {d.stars}{d.name} = {view.written(d.value)};" for d in kept if d.value is not None
        ]
        tests += conditions
        place = "".join(f"[{p}]" for p in reversed(places))
        loaded, element, test = f"{self.tile}{place}", view.written(reference.node), " && ".join(tests)
        filled = f"{loaded} = {test} ? {element} : {zero(self.type)};"
        lines.append(filled if self.padded is not None else f"if ({test}) {loaded} = {element};")
        count = " * ".join(self.extents)
        thread = f"threadIdx.y * {self.constants[0]} + threadIdx.x" if two else "threadIdx.x"
        step = " * ".join(self.constants)
        return "\n".join(
            [f"for (int {t} = {thread}; {t} < {count}; {t} += {step}) {{", indented("\n".join(lines)), "}"]
        )

    def _bounds(self, axis: Axis, low: int, high: int) -> list[str]:
        """Where the windows of outputs that there are reach to."""
        kind, limit = self._signed_type(axis, low), f"{axis.limit}{_signed(high)}"
        found = [f"{axis.name} < {limit if kind == axis.type else f'({kind})({limit})'}"]
        for other in self.outputs.others:
            lower = _LOWER.fullmatch(other.strip())
            if lower is None:
                raise Refused("a condition on the outputs is not understood")
            if lower[1] == axis.name:
                least = int(lower[3]) + (lower[2] == ">") + low
                found.append(f"{axis.name} >= {least}")
        return found

    # the work

    def _text(self, node: Node) -> str:
        inside = [
            a
            for a in self.window
            if node.start_byte <= a.node.start_byte and a.node.end_byte <= node.end_byte
        ]
        found = [(a.node, self._place(a)) for a in inside]
        if self.padded is None or not inside:
            return substituted(self.view, node, found)
        added = statements(field(self.padded, "consequence"))[0]
        text = substituted(self.view, added, found)
        return without(self.view, node, self.padded, text)

    def _replaced(self, one: Declared) -> str:
        value = f" = {self._text(one.value)}" if one.value is not None else ""
        return f"{one.type} {one.stars}{one.name}{value};"

    def _place(self, access: Access) -> str:
        """Where an access finds its element in the tile."""
        parts = []
        for i, axis in enumerate(self.outputs.axes):
            constant = access.shift[i] - self.ranges[i][0]
            text = f"threadIdx.{axis.letter}"
            for loop, step in access.loops:
                first = loop.first.value if loop.first is not None and loop.first.value is not None else 0
                if step[i]:
                    factor = "" if abs(step[i]) == 1 else f"{abs(step[i])} * "
                    text += f" {'+' if step[i] > 0 else '-'} {factor}{loop.variable}"
                    constant -= step[i] * first
            parts.append(f"[{text}{_signed(constant)}]")
        return self.tile + "".join(reversed(parts))


def _signed(value: int) -> str:
    return f" + {value}" if value > 0 else f" - {-value}" if value < 0 else ""


REWRITE = Rewrite(
    slug="halo-tile",
    title="Tile what overlapping windows read, with its halo, in shared memory",
    apply=refusing(_apply),
    answers=("missing-cache-reuse",),
    chance=0.35,
    gain=1.4,
)
