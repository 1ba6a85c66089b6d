# SPDX-License-Identifier: Apache-2.0
"""axes-in-order

Number each axis of the outputs by blocks and threads of one and the same axis of the launch.

Where a block is a row and its threads are the columns, or an axis of threads goes on along another axis of blocks, a
block has as many outputs along each axis as the data happens to have. Numbered by both, a block may have any patch of
outputs: several rows, part of one. What tells problems of a batch apart goes to the axis that is left.

```cuda
constexpr int HEAD = 64;

__global__ void attend(const float* p, const float* v, float* out, int queries, int keys) {
  int d = threadIdx.x;
  int q = blockIdx.x * blockDim.y + threadIdx.y;
  int head = blockIdx.y;
  if (q >= queries) return;
  float acc = 0.0f;
  for (int k = 0; k < keys; ++k) {
    acc += p[(head * queries + q) * keys + k] * v[(head * keys + k) * HEAD + d];
  }
  out[(head * queries + q) * HEAD + d] = acc;
}
void run(const float* p, const float* v, float* out, int heads, int queries, int keys) {
  dim3 block(HEAD, 4), grid((queries + 3) / 4, heads);
  attend<<<grid, block>>>(p, v, out, queries, keys);
}
```

```cuda
constexpr int HEAD = 64;

__global__ void attend(const float* p, const float* v, float* out, int queries, int keys) {
  int d = blockIdx.x * blockDim.x + threadIdx.x;
  int q = blockIdx.y * blockDim.y + threadIdx.y;
  int head = blockIdx.z;
  if (d >= HEAD) return;
  if (q >= queries) return;
  float acc = 0.0f;
  for (int k = 0; k < keys; ++k) {
    acc += p[(head * queries + q) * keys + k] * v[(head * keys + k) * HEAD + d];
  }
  out[(head * queries + q) * HEAD + d] = acc;
}
void run(const float* p, const float* v, float* out, int heads, int queries, int keys) {
  dim3 block(HEAD, 4), grid(1, (queries + 3) / 4, heads);
  attend<<<grid, block>>>(p, v, out, queries, keys);
}
```

Left alone: threads that work together or stride over their data, kernels that use the numbers of blocks and threads
elsewhere than in declarations of their own, and launches that do not say how far an axis goes in words of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.launches import AXES, Launch, Launches
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    refusing,
    require_apart,
    squeezed,
    statements,
    stores,
)
from warplens_tools.rewrite.common.sizes import kernel_text
from warplens_tools.rewrite.common.statements import KernelEdits
from warplens_tools.rewrite.common.thread_forms import axis_letter

_CAVEAT = (
    "y and z of a grid hold at most 65535 blocks: more rows or problems than that are not computed at all"
)
_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_BUILTIN = re.compile(rf"({'|'.join(_BUILTINS)})\.([xyz])")


class _Number(NamedTuple):
    """A variable that is given the number of a thread or a block, or made of both."""

    declared: Declared
    #: The axis of its threads, and that of its blocks; "" for none.
    threads: str
    blocks: str


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    return _Order(view).result()


class _Order:
    """The kernel's numbers, and the axis of the launch that each gets."""

    def __init__(self, view: View) -> None:
        self.view, self.launches = view, Launches(view.text, view.model, view.kernel)
        self.every = self.launches.read()
        self.edits = KernelEdits(view.text, view.expanded)
        self.top = statements(view.body)
        self.numbers = list(self._numbers())
        self._check()
        self.axis = self._axes()

    # what is there

    def _numbers(self) -> Iterator[_Number]:
        for statement in self.top:
            for one in plainly_declared_in(self.view, statement):
                found = self._number(one)
                if found is not None:
                    yield found

    def _number(self, one: Declared) -> _Number | None:
        code = squeezed(self.view.code(one.value)) if one.value is not None else ""
        if one.value is None or not _BUILTIN.search(code):
            return None
        form, alone = self.view.forms.form(one.value), code.strip("()")
        if (found := _BUILTIN.fullmatch(alone)) is not None and found[1] in ("threadIdx", "blockIdx"):
            return _Number(one, *((found[2], "") if found[1] == "threadIdx" else ("", found[2])))
        if letter := axis_letter(form, self.every[0].site):
            return _Number(one, letter, letter)
        if letters := self._crossed(one.value):
            return _Number(one, *letters)
        raise Refused("its threads are numbered in a way that is not understood")

    def _crossed(self, value: Node) -> tuple[str, str] | None:
        """The axes of threads and blocks of `blockIdx.x * blockDim.y + threadIdx.y`."""
        form = self.view.forms.form(value)
        every = form.terms if form is not None else ()
        terms = {tuple(sorted(s.name for s in symbols)): by for symbols, by in every}
        if form is None or form.constant or len(terms) != 2:
            return None
        for threads in AXES:
            extent = self.launches.block_value(AXES.index(threads))
            for blocks in AXES:
                whole = terms.get((f"blockDim.{threads}", f"blockIdx.{blocks}")) == 1
                fixed = extent is not None and terms.get((f"blockIdx.{blocks}",)) == extent
                if terms.get((f"threadIdx.{threads}",)) == 1 and (whole or fixed):
                    return threads, blocks
        return None

    def _check(self) -> None:
        """Raises `Refused` where a builtin is used otherwise, or two variables are one axis'."""
        spans = [n.declared.value for n in self.numbers if n.declared.value is not None]
        for node in walk(self.view.body):
            is_builtin = node.type == "identifier" and self.view.code(node) in _BUILTINS
            if is_builtin and not any(v.start_byte <= node.start_byte < v.end_byte for v in spans):
                raise Refused("the numbers of threads and blocks are used elsewhere too")
        for letters in ([n.threads for n in self.numbers], [n.blocks for n in self.numbers]):
            given = [letter for letter in letters if letter]
            if len(set(given)) != len(given):
                raise Refused("two variables have the number of one axis")
        used = {n.threads for n in self.numbers}
        for place, letter in enumerate(AXES):
            extents = {launch.block.axis(place) for launch in self.every}
            if letter not in used and self.launches.block_value(place) != 1 and extents != {"1"}:
                raise Refused("threads of a block do the same work")

    # what it becomes

    def _axes(self) -> dict[str, str]:
        """The axis of the launch for each variable: that of its threads, else the next one that is free."""
        axis = {n.declared.name: n.threads for n in self.numbers if n.threads}
        if "x" not in axis.values() or "z" in axis.values():
            raise Refused("its threads are not numbered along x")
        blocks = [n for n in self.numbers if not n.threads]
        free = [letter for letter in AXES if letter not in axis.values()]
        if len(blocks) > len(free):
            raise Refused("it has more axes than a launch")
        blocks.sort(key=self._shared)
        axis |= {n.declared.name: letter for n, letter in zip(blocks, free, strict=False)}
        if all(n.blocks == axis[n.declared.name] for n in self.numbers) and not self._row(axis):
            raise Refused("each axis is numbered by its own blocks and threads already")
        return axis

    def _shared(self, number: _Number) -> tuple[int, int]:
        """How many elements that are read rest on a number of blocks and on that of threads, and how many arrays on
        the former: a row's has no operand in common with the columns, a problem's has all.
        """
        view = self.view
        threads = next(n.declared.name for n in self.numbers if n.threads == "x")
        mine, others = self._resting(number.declared.name), self._resting(threads)
        written = {e.id for e in stores(view, view.body)}
        found = [e for e in view.elements(view.body) if view.names(e) & mine]
        both = [e for e in found if e.id not in written and view.names(e) & others]
        return len(both), len({view.array(e) for e in found})

    def _resting(self, name: str) -> set[str]:
        """The variables that a number goes into at the top of the kernel."""
        view, names = self.view, {name}
        for statement in self.top:
            if statement.type == "declaration":
                found = plainly_declared_in(view, statement)
                names |= {d.name for d in found if d.value is not None and view.names(d.value) & names}
            elif statement.type == "expression_statement" and view.names(statement) & names:
                names |= {name for name, place in assigned(statement, view) if place.type == "identifier"}
        return names

    def _row(self, axis: dict[str, str]) -> _Number | None:
        """The number of blocks alone that becomes one of blocks and threads along y."""
        return next((n for n in self.numbers if not n.threads and axis[n.declared.name] == "y"), None)

    def result(self) -> RewriteResult:
        """All edits."""
        for number in self.numbers:
            self._renumber(number)
        self._limit()
        for launch in self.every:
            self._relaunch(launch)
        edits = (*self.edits.edits(), *self.launches.edits())
        return RewriteResult(edits, title="Number each axis by its own blocks and threads", caveat=_CAVEAT)

    def _renumber(self, number: _Number) -> None:
        value, letter = number.declared.value, self.axis[number.declared.name]
        if value is None:
            return
        if letter != "z" and not (number.threads and number.blocks):
            self.edits.replace(value, f"blockIdx.{letter} * blockDim.{letter} + threadIdx.{letter}")
            return
        for node in walk(value):
            if (
                node.type == "field_expression"
                and squeezed(self.view.code(node)) == f"blockIdx.{number.blocks}"
            ):
                self.edits.replace(node, f"blockIdx.{letter}")

    def _limit(self) -> None:
        """The ends of axes that only the launch knew, as a condition of the kernel's."""
        tests = []
        for number in self.numbers:
            name, letter = number.declared.name, self.axis[number.declared.name]
            if letter == "z" or (number.threads and number.blocks) or self._is_limited(name):
                continue
            tests.append(f"{name} >= {self._extent(number)}")
        if not tests:
            return
        last = max(self.top.index(n.declared.statement) for n in self.numbers)
        if last + 1 == len(self.top):
            raise Refused("the kernel does nothing")
        self.edits.before(self.top[last + 1], f"if ({' || '.join(tests)}) return;")

    def _is_limited(self, name: str) -> bool:
        """Whether a condition before the work compares the variable."""
        ends = [n.child_by_field_name("condition") for n in self.top if n.type == "if_statement"]
        code = " ".join(self.view.code(n) for n in ends if n is not None)
        return re.search(rf"\b{name}\s*[<>]|[<>]=?\s*{name}\b", code) is not None

    def _extent(self, number: _Number) -> str:
        """How many values an axis has, as the kernel would say it."""
        found = set()
        for launch in self.every:
            extents, letter = (
                (launch.block, number.threads) if number.threads else (launch.grid, number.blocks)
            )
            place = AXES.index(letter)
            known = launch.site.block_value[place] if number.threads else None
            found.add(self._said(launch, extents.axis(place)) or self._named(known))
        if len(found) != 1:
            raise Refused("its launches give an axis different ends")
        text = found.pop()
        return text if re.fullmatch(r"[\w.]+", text) else f"({text})"

    def _said(self, launch: Launch, written: str) -> str:
        """An extent in the kernel's words; "" where it is given none of them."""
        for text in (written, self.launches.meaning(written, launch)):
            try:
                return kernel_text(self.view, launch, text)
            except Refused:
                continue
        return ""

    def _named(self, value: int | None) -> str:
        """A number by the constant of the file that the kernel's work mentions."""
        if value is None:
            raise Refused("nothing says up to where its outputs go")
        names = {self.view.code(n) for n in walk(self.view.body) if n.type == "identifier"}
        own = [c.name for c in self.view.model.constants if c.name in names and c.value == value]
        return own[0] if own else str(value)

    def _relaunch(self, launch: Launch) -> None:
        grid = dict.fromkeys(AXES, "1")
        for number in self.numbers:
            if number.blocks:
                grid[self.axis[number.declared.name]] = launch.grid.axis(AXES.index(number.blocks))
        while len(grid) > 1 and grid[AXES[len(grid) - 1]] == "1":
            grid.popitem()
        self.launches.set_whole(launch.grid, f"dim3({', '.join(grid.values())})")


REWRITE = Rewrite(
    slug="axes-in-order",
    title="Number each axis by its own blocks and threads",
    apply=refusing(_apply),
)
