# SPDX-License-Identifier: Apache-2.0
"""index-into-axes

Number outputs along the axes of the launch instead of dividing one number.

A kernel that divides its thread's number into column, row and image pays for the divisions, and hides which threads
are neighbours: blocks are runs of outputs, not patches of them. With columns, rows and the rest along an axis each,
every thread has its indices from the launch, a block is a patch whose threads share what they read, and whatever makes
use of that, tiles, halos, several outputs a thread, can follow. What a run may have any number of goes along `x`, which
alone holds more than 65535 blocks.

```cuda
__global__ void scale(const float* in, const float* gain, float* out, int images, int height, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= images * height * width) return;
  int x = i % width;
  int y = (i / width) % height;
  int image = i / (width * height);
  out[i] = in[i] * gain[y * width + x] + image;
}
void run(const float* in, const float* gain, float* out, int images, int height, int width) {
  scale<<<(images * height * width + 255) / 256, 256>>>(in, gain, out, images, height, width);
}
```

```cuda
__global__ void scale(const float* in, const float* gain, float* out, int images, int height, int width) {
  int x = blockIdx.y * blockDim.x + threadIdx.x;
  int y = blockIdx.z * blockDim.y + threadIdx.y;
  int image = blockIdx.x;
  int i = (image * height + y) * width + x;
  if (x >= width || y >= height) return;
  out[i] = in[i] * gain[y * width + x] + image;
}
void run(const float* in, const float* gain, float* out, int images, int height, int width) {
  scale<<<dim3(images, (width + 31) / 32, (height + 7) / 8), dim3(32, 8)>>>(in, gain, out, images, height, width);
}
```

Where nothing limits the number, a condition on its slowest index does. Left alone: numbers that neither limits, that
are changed, or whose extents the host does not know.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, declared_in, unqualified
from warplens_tools.rewrite.common.digits import (
    Digits,
    Part,
    Radix,
    quotients,
    remainders,
    without_factors,
)
from warplens_tools.rewrite.common.evaluated import Values
from warplens_tools.rewrite.common.flat_number import FlatGuard, as_factor, flat_guard, flat_number
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    field,
    operator_of,
    refusing,
    require_apart,
    statements,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.statements import KernelEdits

_CAVEAT = "y and z of a grid hold at most 65535 blocks: more rows or planes than that are not computed at all"
#: A warp along x, and 256 threads in all.
_BLOCK = (32, 8)
#: Fewer columns than this leave most lanes of a warp without work.
_LEAST_WIDTH = 16


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    return _Writer(view).result()


class _Writer:
    def __init__(self, view: View) -> None:
        self.view, self.launches = view, Launches(view.text, view.model, view.kernel)
        self.edits = KernelEdits(view.text, view.expanded)
        self.top = statements(view.body)
        self.number = flat_number(view, self.launches)
        self.guard = self._guard()
        self.digits = Digits(view, self.number, self.top)
        self.radix: Radix = self.digits.radix()
        constant = view.value(self.radix.at)
        if constant is not None and constant < _LEAST_WIDTH:
            raise Refused("its fastest index has few values")
        #: Statements that are taken out, and the digits' names and types.
        self.removed: list[Node] = []
        self.types: dict[str, str] = {}
        self.values = self._values()
        self.names = {letter: self._name(letter) for letter in self.values}
        self.moduli = list(self._moduli())

    # what is there

    def _guard(self) -> FlatGuard | None:
        """What limits the number; None where only its indices are limited."""
        try:
            return flat_guard(self.view, self.number)
        except Refused:
            return None

    # digits

    def _values(self) -> dict[str, Values]:
        """What the axes number."""
        index, radix = self.digits.index, self.radix
        along = {"x": remainders(index, radix.width_values)}
        rest = quotients(index, radix.width_values)
        if radix.height_values is None:
            return along | {"y": rest}
        return along | {
            "y": remainders(rest, radix.height_values),
            "z": quotients(rest, radix.height_values),
        }

    def _name(self, letter: str) -> str:
        """The kernel's own name for a digit, whose declaration goes, or a new one."""
        for one, values in self.digits.named:
            if values == self.values[letter]:
                if not self._goes(one):
                    continue
                if one.statement.id not in {n.id for n in self.removed}:
                    self.removed.append(one.statement)
                self.types[letter] = one.type
                return one.name
        return self.edits.fresh_here(letter)

    def _goes(self, one: Declared) -> bool:
        """Whether all that a digit's statement declares are digits, and mean nothing else elsewhere."""
        every = declared_in(self.view, one.statement)
        beside = [(d, v) for d, v in self.digits.named if d.statement.id == one.statement.id]
        values = {v for _, v in beside}
        all_digits = values <= set(self.values.values()) and len(values) == len(beside) == len(every)
        return all_digits and not any(self._is_used_before(d) for d, _ in beside)

    def _is_used_before(self, one: Declared) -> bool:
        """Whether a name means something else elsewhere in the kernel."""
        binding = self.view.expanded.constants.binding(one.name, one.statement.end_byte)
        names = [n for n in walk(self.view.body) if n.type == "identifier" and self.view.code(n) == one.name]
        declared = [
            n for n in names if (p := n.parent) is not None and p.type in ("init_declarator", "declaration")
        ]
        return binding is None or len(declared) != 1

    def _moduli(self) -> Iterator[tuple[Values, str]]:
        """What the last digit is divided by where the kernel takes the whole number's remainder: of `i % (C * H * W)`
        the `C`.
        """
        index = self.digits.index
        for part in self.digits.parts:
            text = without_factors(
                self.view.written(unwrapped(field(part.node, "right"))), self.radix.width, self.radix.height
            )
            if part.kind == "%" and part.left == index and text not in ("", "1"):
                heights = self.radix.height_values or (1,) * len(index)
                below = [w * h for w, h in zip(self.radix.width_values, heights, strict=True)]
                yield tuple(r // b for r, b in zip(part.right, below, strict=True)), text

    # the kernel

    def result(self) -> RewriteResult:
        """All edits."""
        limits = self._limits()
        self._relaunch(limits)
        self._head(limits)
        if self.guard is not None:
            self._condition(self.guard, limits)
        for node in self.removed:
            self.edits.remove(node)
        for part in self.digits.parts:
            self._part(part)
        edits = (*self.edits.edits(), *self.launches.edits())
        return RewriteResult(edits, title="Number outputs along the axes of the launch", caveat=_CAVEAT)

    def _limits(self) -> dict[str, str]:
        """The extent of each axis, as the kernel would say it; "" for y or z where the number's own limit stays."""
        radix = self.radix
        last = "z" if radix.height else "y"
        rest = self._slowest(last) if self.guard is None else self._rest(self.guard)
        return {"x": radix.width, **({"y": radix.height} if radix.height else {}), last: rest}

    def _rest(self, guard: FlatGuard) -> str:
        """How many values the slowest index has, by the number's limit."""
        radix = self.radix
        total = self._worked_out(self.view.written(unwrapped(guard.limit)))
        rest = without_factors(total, radix.width, radix.height)
        self.exact = bool(rest)
        if self.exact:
            return rest
        by = " * ".join(as_factor(t) for t in (radix.width, radix.height) if t)
        return f"({total} + {by} - 1) / ({by})"

    def _slowest(self, last: str) -> str:
        """Up to where a condition on all the work lets the slowest index go."""
        self.exact = True
        for node in self.top:
            if stores(self.view, node) and node.type != "if_statement":
                break
            if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
                continue
            inside = statements(field(node, "consequence"))
            returns = len(inside) == 1 and inside[0].type == "return_statement"
            if not returns and node.id != self.top[-1].id:
                break
            wanted = {">=": "", ">": " + 1"} if returns else {"<": "", "<=": " + 1"}
            for part in _parts(field(node, "condition"), "||" if returns else "&&"):
                if part.type != "binary_expression" or operator_of(part) not in wanted:
                    continue
                values = self.digits.evaluator.of(field(part, "left"))
                if values is not None and values == self.values[last]:
                    return self.view.written(field(part, "right")) + wanted[operator_of(part)]
        raise Refused("nothing limits the thread's number")

    def _worked_out(self, limit: str) -> str:
        for one, _ in self.digits.named:
            if one.name == limit and one.value is not None:
                return self.view.written(one.value)
        return limit

    def _head(self, limits: dict[str, str]) -> None:
        """The digits, and the number made of them."""
        lines = [
            f"{self._type(a)} {self.names[a]} = blockIdx.{a} * blockDim.{a} + threadIdx.{a};" for a in "xy"
        ]
        whole = self.names["y"]
        if "z" in self.names:
            lines.append(f"{self._type('z')} {self.names['z']} = blockIdx.z;")
            whole = f"({self._wide('z')} * {as_factor(self.radix.height)} + {whole})"
        else:
            whole = self._wide("y")
        lines.append(
            f"{self.number.type} {self.number.name} = {whole} * {as_factor(self.radix.width)} + {self.names['x']};"
        )
        if self.guard is None:
            tests = [f"{self.names[a]} >= {limits[a]}" for a in ("xy" if "z" in self.names else "x")]
            lines.append(f"if ({' || '.join(tests)}) return;")
        self.edits.before(self._place(), *lines)
        self.edits.remove(self.number.statement)

    def _type(self, letter: str) -> str:
        return self.types.get(letter) or self._plain()

    def _plain(self) -> str:
        return unqualified(self.number.type)

    def _wide(self, letter: str) -> str:
        """A digit as a factor of the number: as wide as that."""
        known, mine = integer_type(self._plain()), integer_type(self._type(letter))
        narrow = known is not None and mine is not None and mine.bytes < known.bytes
        return f"({self._plain()}){self.names[letter]}" if narrow else self.names[letter]

    def _place(self) -> Node:
        """The statement in front of which the digits may stand: behind what their extents are made of."""
        needed = set(WORD.findall(f"{self.radix.width} {self.radix.height}"))
        at = self.top.index(self.number.statement) + 1
        last = at
        for place, node in enumerate(self.top):
            names = {d.name for d in declared_in(self.view, node)} if node.type == "declaration" else set()
            if names & needed:
                last = max(last, place + 1)
        gone = {n.id for n in self.removed}
        used = [n for n in self.top[at:last] if n.id not in gone and self.number.name in self.view.names(n)]
        while last < len(self.top) and self.top[last].id in gone:
            last += 1
        if used or last >= len(self.top):
            raise Refused("the extents of its indices are worked out too late")
        inner = {
            d.name
            for node in self.top
            if node.type != "declaration"
            for n in walk(node)
            if n.type == "declaration"
            for d in declared_in(self.view, n)
        }
        if inner & needed:
            raise Refused("the extents of its indices are worked out too late")
        return self.top[last]

    def _condition(self, guard: FlatGuard, limits: dict[str, str]) -> None:
        x, y = self.names["x"], self.names["y"]
        sign, joined = (">=", "||") if guard.returns else ("<", "&&")
        tests = [f"{x} {sign} {limits['x']}"]
        if "z" in self.names or self.exact:
            tests.append(f"{y} {sign} {limits['y']}")
        if not self.exact:
            tests.append(self.view.written(guard.condition))
        self.edits.replace(guard.condition, f" {joined} ".join(tests))

    def _part(self, part: Part) -> None:
        """A quotient or remainder of the number, by the name of the digit that it is."""
        if any(r.start_byte <= part.node.start_byte < r.end_byte for r in self.removed):
            return
        outer = part.node.parent
        while outer is not None and outer.type in (
            "binary_expression",
            "parenthesized_expression",
            "cast_expression",
        ):
            if any(p.node.id == outer.id and self._text(p) for p in self.digits.parts):
                return
            outer = outer.parent
        text = self._text(part)
        if text:
            self.edits.replace(part.node, text)

    def _text(self, part: Part) -> str:
        for letter, values in self.values.items():
            if part.values == values:
                return self.names[letter]
        last = "z" if "z" in self.names else "y"
        values, name = self.values[last], self.names[last]
        right = self.view.written(unwrapped(field(part.node, "right")))
        if part.kind == "%" and part.values == remainders(values, part.right):
            return f"{name} % {as_factor(right)}"
        for module, text in self.moduli:
            if part.values == remainders(values, module):
                return f"{name} % {as_factor(text)}"
        by = without_factors(right, self.radix.width, self.radix.height)
        if part.kind == "/" and by and by != "1" and part.left == self.digits.index:
            return f"{name} / {as_factor(by)}"
        if part.kind == "/" and part.values == quotients(values, part.right):
            return f"{name} / {as_factor(right)}"
        return ""

    # the launch

    def _relaunch(self, limits: dict[str, str]) -> None:
        for launch in self.launches.read():
            axes = []
            for letter, threads in zip("xyz", (*_BLOCK, 1), strict=True):
                if letter not in limits:
                    continue
                limit = host_text(self.view, self.launches, launch, limits[letter])
                axes.append(f"({limit} + {threads - 1}) / {threads}" if threads > 1 else limit)
            self.launches.set_whole(launch.grid, f"dim3({', '.join(axes)})")
            self.launches.set_whole(launch.block, f"dim3({', '.join(map(str, _BLOCK))})")


def _parts(node: Node, joined: str) -> list[Node]:
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == joined:
        return [*_parts(field(node, "left"), joined), *_parts(field(node, "right"), joined)]
    return [node]


REWRITE = Rewrite(
    slug="index-into-axes",
    title="Number outputs along the axes of the launch",
    apply=refusing(_apply),
    chance=0.6,
    gain=1.3,
    spares=True,
)
