# SPDX-License-Identifier: Apache-2.0
"""several-before-tree

Let each thread join many elements before its block's tree.

A block that brings one element a thread into its tree waits for all of its barriers for every few hundred elements,
and adds to the result as often. Threads that stride over the data by the whole grid join most of it in a register;
the tree and the atomic are done once for all of a thread's elements.

```cuda
__global__ void largest(const unsigned* in, unsigned* out, int n) {
  __shared__ unsigned best[256];
  int tid = threadIdx.x;
  int i = blockIdx.x * blockDim.x + tid;
  best[tid] = i < n ? in[i] : 0;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) best[tid] = max(best[tid], best[tid + s]);
    __syncthreads();
  }
  if (tid == 0) atomicMax(out, best[0]);
}

void run(const unsigned* in, unsigned* out, int n) {
  largest<<<(n + 255) / 256, 256>>>(in, out, n);
}
```

```cuda
constexpr int kItemsPerThread = 16;

__global__ void largest(const unsigned* in, unsigned* out, int n) {
  __shared__ unsigned best[256];
  int tid = threadIdx.x;
  unsigned joined = 0;
  for (int i = blockIdx.x * blockDim.x + tid; i < n; i += blockDim.x * gridDim.x) {
    joined = max(joined, in[i]);
  }
  best[tid] = joined;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) best[tid] = max(best[tid], best[tid + s]);
    __syncthreads();
  }
  if (tid == 0) atomicMax(out, best[0]);
}

void run(const unsigned* in, unsigned* out, int n) {
  largest<<<((n + 255) / 256 + kItemsPerThread - 1) / kItemsPerThread, 256>>>(in, out, n);
}
```

The tree may be one of shared memory or of shuffles; sums, minima and maxima are taken. Left alone: a kernel that
writes anything but atomics of that kind, for every block then has a result of its own; one that does more with an
element than join it, as its square in a second tree; and signed extremes for which threads without an element bring 0.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.only_joined import OnlyJoined
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    calls,
    field,
    operator_of,
    refusing,
    squeezed,
    statements,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.texts import cut
from warplens_tools.rewrite.common.thread_forms import declared_number
from warplens_tools.text import TextEdit

#: As in [reduce-before-atomic](reduce-before-atomic.md).
_ITEMS = 16
#: How code without white space joins into one of `{0}`.
_JOINS = {
    "atomicAdd": r"\b{0}(?:\[[^\]]*\])?(?:\+=|=(?:{0}|__shfl)[^;=]*\+(?:{0}|__shfl))",
    "atomicMax": r"\bf?maxf?\([^;]*\b{0}\b",
    "atomicMin": r"\bf?minf?\([^;]*\b{0}\b",
}
_FLOATING = frozenset({"float", "double"})
#: What an element may not do while it is worked out.
_LEAVES = re.compile(r"\b(?:return|goto|__sync\w*|__shfl\w*|__ballot\w*|asm|atomic\w+|printf)\b")
_ZERO = re.compile(r"(?:\(\w+\))?0*\.?0*[fFuUlL]*")
#: Of a declaration, what is no part of its type.
_QUALIFIERS = frozenset({"const", "constexpr", "volatile", "static", "register", "extern", "__shared__"})


class _Brought(msgspec.Struct, frozen=True):
    """What brings a thread's element: `place = i < n ? value : empty;`, in one or two statements."""

    #: The variable or element of shared memory, as written, and its type where it is declared here.
    place: str
    type: str
    condition: Node
    value: Node
    empty: Node
    statements: tuple[Node, ...]
    #: What works the element out, where that is more than one value: `value` is all of it then.
    work: tuple[Node, ...] = ()


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if "__syncthreads" not in view.code(view.body) and "__shfl" not in view.code(view.body):
        raise Refused("no tree joins the elements of a block")
    return _Writer(view).result()


class _Writer:
    def __init__(self, view: View) -> None:
        self.view, self.launches = view, Launches(view.text, view.model, view.kernel)
        self.top = statements(view.body)
        self.number = self._number()
        self.brought = self._brought()
        self.atomic = self._atomic()
        self.kind = self._kind()
        self._check()

    def _number(self) -> Declared:
        """The variable that is the thread's number in the grid; nothing else rests on the block's."""
        view, site = self.view, self.launches.read()[0].site
        code = view.code(view.body)
        if re.search(r"\b(?:blockIdx|threadIdx)\s*\.\s*[yz]\b|\bgridDim\b", code):
            raise Refused("its threads are numbered along several axes already")
        if len(re.findall(r"\bblockIdx\b", code)) != 1:
            raise Refused("each block has a result of its own")
        found = declared_number(view, (d for n in self.top for d in plainly_declared_in(view, n)), site)
        if found is None:
            raise Refused("the kernel does not number its threads")
        if len(plainly_declared_in(view, found.statement)) > 1:
            raise Refused("the thread's number is declared among others")
        return found

    def _brought(self) -> _Brought:
        """The statement by which a thread gets its element.

        Raises:
            Refused: the thread's number is used elsewhere too.
        """
        name = self.number.name
        using = [n for n in self.top if name in self.view.names(n) and n.id != self.number.statement.id]
        found = self._read(using[0]) if len(using) == 1 else None
        if found is None or squeezed(self.view.code(unwrapped(field(found.condition, "left")))) != name:
            raise Refused("no statement brings one element for each thread")
        if operator_of(found.condition) != "<" or name in self.view.names(found.empty):
            raise Refused("no statement brings one element for each thread")
        if name in self.view.names(field(found.condition, "right")) or any(calls(found.condition, self.view)):
            raise Refused("no statement brings one element for each thread")
        return found

    def _read(self, node: Node) -> _Brought | None:
        view = self.view
        if node.type == "declaration":
            every = plainly_declared_in(self.view, node)
            chosen = unwrapped(every[0].value) if len(every) == 1 and every[0].value is not None else None
            if chosen is None or chosen.type != "conditional_expression":
                return None
            return self._chosen(every[0].name, every[0].type, chosen, (node,))
        if node.type == "expression_statement":
            left, right = self._assigned(node)
            if left is None or right is None or unwrapped(right).type != "conditional_expression":
                return None
            return self._chosen(view.written(left), "", unwrapped(right), (node,))
        return self._branch(node) if node.type == "if_statement" else None

    def _chosen(self, place: str, kind: str, chosen: Node, found: tuple[Node, ...]) -> _Brought | None:
        condition = unwrapped(field(chosen, "condition"))
        value, empty = field(chosen, "consequence"), field(chosen, "alternative")
        if condition.type != "binary_expression":
            return None
        return _Brought(place, kind, condition, unwrapped(value), unwrapped(empty), found)

    def _branch(self, node: Node) -> _Brought | None:
        """`if (i < n) s[t] = in[i]; else s[t] = 0;`, or the other value set right before."""
        inside, other = statements(field(node, "consequence")), node.child_by_field_name("alternative")
        condition = unwrapped(field(node, "condition"))
        if condition.type != "binary_expression" or not inside:
            return None
        place, value = self._assigned(inside[0]) if len(inside) == 1 else (None, None)
        if place is None or value is None:
            return self._worked_out(node, condition, tuple(inside)) if other is None else None
        written = self.view.written(place)
        if other is not None:
            below = [s for n in other.named_children if n.type != "comment" for s in statements(n)]
            again, empty = self._assigned(below[0]) if len(below) == 1 else (None, None)
            if again is None or empty is None or self.view.written(again) != written:
                return None
            return _Brought(written, "", condition, value, empty, (node,))
        before = node.prev_named_sibling
        while before is not None and before.type == "comment":
            before = before.prev_named_sibling
        if before is None:
            return None
        if before.type == "declaration":
            every = plainly_declared_in(self.view, before)
            if len(every) == 1 and every[0].name == written and every[0].value is not None:
                first = unwrapped(every[0].value)
                return _Brought(written, every[0].type, condition, value, first, (before, node))
            return None
        again, empty = self._assigned(before)
        if again is None or empty is None or self.view.written(again) != written:
            return None
        return _Brought(written, "", condition, value, empty, (before, node))

    def _worked_out(self, node: Node, condition: Node, work: tuple[Node, ...]) -> _Brought | None:
        """`float v = 0; if (i < n) { …; v = …; }`: statements that set `v`, and else what is declared among them."""
        view, before = self.view, node.prev_named_sibling
        while before is not None and before.type == "comment":
            before = before.prev_named_sibling
        every = plainly_declared_in(view, before) if before is not None else []
        if before is None or len(every) != 1 or every[0].value is None or every[0].stars:
            return None
        inside = field(node, "consequence")
        own = {d.name for n in walk(inside) for d in plainly_declared_in(view, n)}
        set_here = {name for name, _ in assigned(inside, view)}
        if every[0].name not in set_here or set_here - own != {every[0].name} or every[0].name in own:
            return None
        if _LEAVES.search(view.code(inside)) or any(view.space(n) != "local" for n in stores(view, inside)):
            return None
        if self.number.name in set_here:
            return None
        first = unwrapped(every[0].value)
        return _Brought(every[0].name, every[0].type, condition, inside, first, (before, node), work)

    def _assigned(self, node: Node) -> tuple[Node | None, Node | None]:
        """Both sides of `a = b;`."""
        inner = (
            node.named_children[0] if node.type == "expression_statement" and node.named_children else None
        )
        if inner is None or inner.type != "assignment_expression" or operator_of(inner) != "=":
            return None, None
        return inner.child_by_field_name("left"), inner.child_by_field_name("right")

    def _atomic(self) -> str:
        """The one kind of atomic that the kernel ends with."""
        names = {name for name, _ in calls(self.view.body, self.view) if name.startswith("atomic")}
        if len(names) != 1 or not names <= set(_JOINS):
            raise Refused("its blocks do not join their results by atomics of one kind")
        return names.pop()

    def _kind(self) -> str:
        """The type of the element."""
        name = self.brought.place.partition("[")[0].strip()
        shared = next((a.element_type for a in self.view.kernel.arrays if a.name == name), "")
        local = next(
            (d.type for n in self.top for d in plainly_declared_in(self.view, n) if d.name == name), ""
        )
        found = self.brought.type or shared or local
        found = _plain(found)
        if not found or found == "auto":
            raise Refused("the type of the elements is not known")
        return found

    def _check(self) -> None:
        """That the block joins what was brought as its atomics do, and writes nothing else."""
        view, brought = self.view, self.brought
        for node in stores(view, view.body):
            if view.space(node) not in ("shared", "local"):
                raise Refused("it writes more than what its atomics join")
        place = brought.place.partition("[")[0].strip()
        name = re.escape(place)
        low = brought.statements[-1].end_byte
        rest = squeezed(view.tree.masked.code[low : view.body.end_byte].decode("ascii"))
        if self.atomic == "atomicAdd" and not _ZERO.fullmatch(squeezed(view.code(brought.empty))):
            raise Refused("threads without an element add something else than zero")
        if not self._is_neutral():
            raise Refused("zero, which threads without an element bring, may be beyond all elements")
        names = "|".join([name, *re.findall(rf"(\w+)\[[^\]]*\]={name};", rest)])
        joins = {kind for kind, code in _JOINS.items() if re.search(code.format(f"(?:{names})"), rest)}
        if joins != {self.atomic}:
            raise Refused("the block joins its elements otherwise than its atomics do")
        sums = self.atomic == "atomicAdd"
        plain = OnlyJoined(view, low, place, sums=sums, divides=self.kind in _FLOATING)
        if not plain.holds():
            raise Refused("the kernel does more with its elements than join them")
        if re.search(r"\breturn\b", view.code(view.body)):
            raise Refused("threads return early")
        if any(n.type == "call_expression" and self._is_odd(n) for n in walk(brought.value)):
            raise Refused("what is brought comes from a call")

    def _is_neutral(self) -> bool:
        """Whether the value for threads without an element changes nothing, for all that is known."""
        if self.atomic == "atomicAdd" or not _ZERO.fullmatch(squeezed(self.view.code(self.brought.empty))):
            return True
        # atomics order floating-point numbers by their bits, which is right from zero on
        positive = self.kind in _FLOATING or "unsigned" in self.kind or self.kind.startswith("uint")
        positive = (
            positive or re.match(r"f?absf?\(", squeezed(self.view.code(self.brought.value))) is not None
        )
        return self.atomic == "atomicMax" and positive

    def _is_odd(self, node: Node) -> bool:
        name = self.view.code(field(node, "function"))
        return name.startswith("atomic") or "sync" in name

    def result(self) -> RewriteResult:
        """All edits."""
        view, brought, style = self.view, self.brought, Style(self.view)
        items = style.constant("kItemsPerThread", str(_ITEMS))
        own = brought.type and brought.statements[0].type == "declaration"
        joined = brought.place if own else style.local("joined")
        number, kind = self.number, _plain(self.number.type)
        first = view.written(number.value) if number.value is not None else ""
        limit = view.written(field(brought.condition, "right"))
        head = f"for ({kind} {number.name} = {first}; {number.name} < {limit}; "
        head += f"{number.name} += blockDim.x * gridDim.x) {{"
        if brought.work:
            joined = style.local("joined")
        lines = [f"{self.kind} {joined} = {view.written(brought.empty)};", head]
        lines += [indented(line) for line in (*self._worked(), self._join(joined))] + ["}"]
        if brought.work:
            lines.append(f"{brought.type} {brought.place} = {joined};")
        elif not own:
            lines.append(f"{brought.place} = {joined};")
        start, end = view.start(brought.statements[0]), view.end(brought.statements[-1])
        code = style.lines("\n".join(lines)).lstrip()
        edits = [TextEdit(view.text.span(start, end), code), self._without(number.statement)]
        for launch in self.launches.read():
            self.launches.set(launch.grid, {0: rounded_up(launch.grid.axis(0), items)})
        return RewriteResult(
            (style.constants(), *edits, *self.launches.edits()),
            title="Join many elements a thread before the tree",
            caveat=REORDERED if self.atomic == "atomicAdd" and self.kind in _FLOATING else "",
        )

    def _worked(self) -> list[str]:
        """The statements that work one element out."""
        brought, style = self.brought, Style(self.view)
        first = [f"{self.kind} {brought.place} = {self.view.written(brought.empty)};"] if brought.work else []
        return first + [style.code(self.view.written(n)) for n in brought.work]

    def _join(self, joined: str) -> str:
        value = self.brought.place if self.brought.work else self.view.written(self.brought.value)
        if self.atomic == "atomicAdd":
            return f"{joined} += {value};"
        name = self.atomic[6:].lower()
        name = f"f{name}f" if self.kind == "float" else f"f{name}" if self.kind == "double" else name
        return f"{joined} = {name}({joined}, {value});"

    def _without(self, statement: Node) -> TextEdit:
        """The statement taken out with its line."""
        view = self.view
        return cut(view.text, view.start(statement), view.end(statement))


def _plain(written: str) -> str:
    """A type without what a variable that is declared anew has no use for."""
    return " ".join(word for word in written.split() if word not in _QUALIFIERS)


REWRITE = Rewrite(
    slug="several-before-tree",
    title="Join many elements a thread before the block's tree",
    apply=refusing(_apply),
    answers=("barrier-heavy", "excess-barriers", "global-atomic-contention"),
    chance=0.6,
    gain=3.0,
    ranges={"kItemsPerThread": (4, 8, 16, 32, 64)},
)
