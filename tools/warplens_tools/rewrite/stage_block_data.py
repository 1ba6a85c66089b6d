# SPDX-License-Identifier: Apache-2.0
"""stage-block-data

Bring what a block reads again and again into shared memory, once.

Where a block has a problem of its own (one small matrix of many, one row of images), its threads read the same few
elements from global memory over and over, often a row apart, so that one request takes many sectors. The elements
that a block reads in its loop are worked out from the index and the block's size, loaded by all threads side by
side, and read from shared memory, with rows padded so that neighbours fall into other banks.

```cuda
constexpr int kDim = 16;
__global__ void products(const float* a, const float* b, float* c) {
  int i = threadIdx.y, j = threadIdx.x;
  a += blockIdx.x * kDim * kDim;
  b += blockIdx.x * kDim * kDim;
  float sum = 0.0f;
  for (int k = 0; k < kDim; ++k) {
    sum += a[i * kDim + k] * b[j * kDim + k];
  }
  c[(blockIdx.x * kDim + i) * kDim + j] = sum;
}
void run(const float* a, const float* b, float* c, int count) {
  products<<<count, dim3(kDim, kDim)>>>(a, b, c);
}
```

```cuda
constexpr int kDim = 16;
__global__ void products(const float* a, const float* b, float* c) {
  int i = threadIdx.y, j = threadIdx.x;
  a += blockIdx.x * kDim * kDim;
  b += blockIdx.x * kDim * kDim;
  float sum = 0.0f;
  __shared__ float tileA[kDim][kDim + 1];
  for (int t = threadIdx.y * kDim + threadIdx.x; t < kDim * kDim; t += kDim * kDim) {
    tileA[t / kDim][t % kDim] = a[t];
  }
  __shared__ float tileB[kDim][kDim + 1];
  for (int t = threadIdx.y * kDim + threadIdx.x; t < kDim * kDim; t += kDim * kDim) {
    tileB[t / kDim][t % kDim] = b[t];
  }
  __syncthreads();
  for (int k = 0; k < kDim; ++k) {
    sum += tileA[i][k] * tileB[j][k];
  }
  c[(blockIdx.x * kDim + i) * kDim + j] = sum;
}
void run(const float* a, const float* b, float* c, int count) {
  products<<<count, dim3(kDim, kDim)>>>(a, b, c);
}
```

Left alone: loops under a condition that is not the same for all threads of the block, indices that rest on data, and
what does not fit into a block's shared memory.
"""

from __future__ import annotations

import math
import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.values.forms import Form
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.block_data import AXES, Role, Staged, with_values, without_zeros
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    WORD,
    View,
    assigned,
    field,
    refusing,
    renamed,
    root_name,
    shares_memory,
    squeezed,
    statements,
    stores,
)
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

#: Reads of an element by its block that make a load, a barrier and a read of shared memory worth while.
_LEAST_REUSE = 4
_STATIC_BYTES = 48 * 1024


def _apply(view: View, target: Target) -> RewriteResult:
    if shares_memory(view):
        raise Refused("the kernel shares memory already")
    launches = Launches(view.text, view.model, view.kernel)
    return _Stager(view, launches).result(target)


class _Stager:
    def __init__(self, view: View, launches: Launches) -> None:
        self.view, self.launches = view, launches
        self.block = [launches.block_value(axis) for axis in range(3)]
        if not launches.sites or None in self.block[:2] or self.block[2] not in (1, None):
            raise Refused("its block is not constant")
        self.style = Style(view)
        self.counter = self.style.local("t")
        self.loop, self.before = self._loop()
        if view.kernel.template_parameters:
            raise Refused("the kernel is a template")

    def _loop(self) -> tuple[Node, list[Node]]:
        """The one loop at the top of the kernel, and what stands before it; every thread comes to it."""
        top = statements(self.view.body)
        at = next((i for i, n in enumerate(top) if n.type in LOOPS), None)
        if at is None:
            raise Refused("the kernel has no loop that all threads of a block come to")
        for node in top[:at]:
            if node.type == "declaration":
                continue
            if node.type == "if_statement" and not self._is_uniform(field(node, "condition")):
                raise Refused("not every thread of a block comes to the loop")
            if any(n.type in LOOPS for n in walk(node)):
                raise Refused("the kernel has no loop that all threads of a block come to")
        return top[at], top[:at]

    def _is_uniform(self, node: Node) -> bool:
        pointers = {p.name for p in self.view.kernel.parameters if p.pointer}
        for part in walk(node):
            if part.type not in ("identifier", "field_expression") or _is_part(part):
                continue
            form = self.view.forms.form(part)
            if self.view.code(part) not in pointers and (form is None or not form.uniform):
                return False
        return True

    def result(self, target: Target) -> RewriteResult:
        """All edits."""
        found = [s for s in self._staged() if not target.names or s.array in target.names]
        reads = self._reads()
        found = [s for s in found if reads >= _LEAST_REUSE * s.elements]
        if not found:
            raise Refused("a block reads no elements of a known place again and again")
        if sum(s.bytes() for s in found) > _STATIC_BYTES:
            raise Refused("what a block reads does not fit into its shared memory")
        names = {id(s): self.style.local(f"tile{s.array[:1].upper()}{s.array[1:]}") for s in found}
        edits = [
            TextEdit(self.view.span(place), f"{names[id(s)]}{s.place()}") for s in found for place in s.places
        ]
        at = self.view.start(self.loop)
        line = self.view.text.line_text(self.view.span(self.loop).line)
        margin = re.match(r"[ \t]*", line)
        indent = margin[0] if margin is not None else ""
        code = "\n".join([*(self._load(s, names[id(s)]) for s in found), "__syncthreads();"])
        text = "".join(
            f"{part}{self.view.text.newline}{indent}"
            for part in code.replace("  ", self.style.step).split("\n")
        )
        edits.append(TextEdit(self.view.text.span(at, at), text))
        return RewriteResult(
            tuple(edits), title=f"Stage {', '.join(s.array for s in found)} in shared memory"
        )

    def _reads(self) -> int:
        """How many times a block reads one element of its loop's body."""
        threads = math.prod(e or 1 for e in self.block)
        return threads * self._trips(self.loop)

    def _trips(self, node: Node) -> int:
        """How often the innermost body below a loop is executed; 1 for what is not known."""
        own = self._count(node) or 1
        return own * max((self._trips(n) for n in _loops_below(node)), default=1)

    def _count(self, node: Node) -> int | None:
        if node.type != "for_statement":
            return None
        loop = self.view.forms.loop(node)
        is_plain = (
            loop.first is not None
            and loop.first.value == 0
            and loop.step is not None
            and loop.step.value == 1
        )
        return loop.trips if is_plain else None

    def _staged(self) -> list[Staged]:
        written = {self.view.array(n) for n in stores(self.view, self.view.body)}
        found: dict[tuple[str, str], Staged] = {}
        for node in self.view.elements(self.loop):
            pointer = self.view.place(node)
            if node.type != "subscript_expression" or pointer is None or pointer.space != "global":
                continue
            if pointer.name in written or not self.view.is_plain(node) or self._is_conditional(node):
                continue
            staged = self._read(node)
            if staged is None:
                continue
            key = (staged.array, squeezed(staged.base))
            known = found.get(key)
            if known is None:
                found[key] = staged
            elif known.roles == staged.roles:
                found[key] = msgspec.structs.replace(known, places=(*known.places, *staged.places))
            else:
                raise Refused(f"{staged.array} is read by several indices")
        return list(found.values())

    def _is_conditional(self, node: Node) -> bool:
        """Whether only some threads or iterations read an element."""
        at = node.parent
        while at is not None and at.id != self.loop.id:
            if at.type in ("if_statement", "conditional_expression", "switch_statement", "while_statement"):
                return True
            if at.type == "binary_expression" and field(at, "operator").type in ("&&", "||"):
                return True
            at = at.parent
        return any(n.type in JUMPS for n in walk(self.loop))

    def _read(self, node: Node) -> Staged | None:
        """What a block reads by an index; None where that is not known."""
        base = node.child_by_field_name("argument")
        indices = field(node, "indices").named_children
        if base is None or base.type != "identifier" or len(indices) != 1 or not self._is_one(base):
            return None
        form = self.view.forms.form(indices[0])
        if form is None or form.told is None:
            return None
        text = self._inlined(self.view.written(indices[0]))
        roles = self._roles(node, form, text) if text is not None else None
        if roles is None or text is None:
            return None
        pitch = max(r.step for r in roles)
        down = [r for r in roles if r.step >= pitch > 1]
        along = [r for r in roles if r not in down]
        width = 1 + sum(r.step * (r.extent - 1) for r in along)
        rows = 1 + sum(r.step // pitch * (r.extent - 1) for r in down) if down else 1
        if any(r.step % pitch for r in down) or (down and width > pitch):
            return None
        zeroed = {r.text: "0" for r in roles}
        return Staged(
            array=self.view.code(base),
            element_type=self.view.element(node),
            places=(node,),
            base=without_zeros(with_values(text, zeroed)),
            roles=tuple(roles),
            rows=rows,
            width=width,
            pitch=pitch if down else 0,
        )

    def _is_one(self, base: Node) -> bool:
        """Whether a pointer is the same for all threads of the block, all through the loop."""
        name = self.view.code(base)
        for node in self.before:
            for one in node.children_by_field_name("declarator") if node.type == "declaration" else []:
                value = one.child_by_field_name("value")
                is_own = value is not None and root_name(one, self.view) == name
                if is_own and value is not None and not self._is_uniform(value):
                    return False
        changed = [place for root, place in assigned(self.view.body, self.view) if root == name]
        for place in changed:
            before = any(n.start_byte <= place.start_byte < n.end_byte for n in self.before)
            right = place.parent.child_by_field_name("right") if place.parent is not None else None
            if place.type != "identifier" or not before or right is None or not self._is_uniform(right):
                return False
        return True

    def _inlined(self, text: str) -> str | None:
        """An index with variables that rest on a thread's place written out, down to such places themselves."""
        declared = {
            field(d, "declarator"): d.child_by_field_name("value")
            for n in self.before
            if n.type == "declaration"
            for d in n.children_by_field_name("declarator")
            if d.type == "init_declarator"
        }
        values = {self.view.code(name): value for name, value in declared.items() if value is not None}
        for _ in range(4):
            known = {}
            for word in set(WORD.findall(text)) & set(values):
                form = self.view.forms.form(values[word])
                if form is None or (not form.uniform and self._axis_of(form) is None):
                    known[word] = f"({self.view.written(values[word])})"
            if not known:
                return text
            text = renamed(text, known)
        return None

    def _axis_of(self, form: Form) -> str | None:
        """ "threadIdx.x" where a form is that alone."""
        terms = form.terms
        if len(terms) != 1 or terms[0][1] != 1 or len(terms[0][0]) != 1:
            return None
        return terms[0][0][0].name if terms[0][0][0].name in AXES else None

    def _roles(self, node: Node, form: Form, text: str) -> list[Role] | None:
        """What an index goes by, each with the text that says it; None where it goes by anything else."""
        roles = []
        words = set(WORD.findall(text))
        for number, axis in enumerate(AXES):
            step, extent = form.coefficient(axis), self.block[number] or 1
            if step is None or step < 0:
                return None
            if step and extent > 1:
                names = [w for w in words if self._named(w, axis)]
                names += [axis] if re.search(rf"threadIdx\s*\.\s*{axis[-1]}\b", text) else []
                if len(names) != 1:
                    return None
                roles.append(Role(names[0], extent, step))
        for loop in self._around(node):
            counter = self.view.forms.loop(loop).counter
            name = self.view.forms.loop(loop).variable
            trips = self._count(loop)
            step = form.coefficient(counter) if counter else None
            if step is None or step < 0:
                return None
            if step:
                if trips is None or name not in words:
                    return None
                roles.append(Role(name, trips, step))
        thread = any(s.kind == "thread" and s.name not in AXES for s in form.symbols)
        return None if thread or not roles else roles

    def _named(self, word: str, axis: str) -> bool:
        for node in self.before:
            for one in node.children_by_field_name("declarator") if node.type == "declaration" else []:
                value = one.child_by_field_name("value")
                if value is not None and self.view.code(field(one, "declarator")) == word:
                    form = self.view.forms.form(value)
                    return form is not None and self._axis_of(form) == axis
        return False

    def _around(self, node: Node) -> list[Node]:
        found, at = [], node.parent
        while at is not None and at.start_byte >= self.loop.start_byte:
            if at.type in LOOPS:
                found.append(at)
            at = at.parent
        return found

    def _load(self, staged: Staged, tile: str) -> str:
        width = self._number(staged.width)
        extents = f"[{self._number(staged.rows)}][{width} + 1]" if staged.rows > 1 else f"[{width}]"
        t = self.counter
        x, y = (self._number(e or 1) for e in self.block[:2])
        start, step = (
            ("threadIdx.x", x) if self.block[1] == 1 else (f"threadIdx.y * {x} + threadIdx.x", f"{x} * {y}")
        )
        count = f"{self._number(staged.rows)} * {width}" if staged.rows > 1 else width
        place = f"[{t} / {width}][{t} % {width}]" if staged.rows > 1 else f"[{t}]"
        index = t
        if staged.rows > 1 and staged.pitch != staged.width:
            index = f"{t} / {width} * {self._number(staged.pitch)} + {t} % {width}"
        base = f"{staged.base} + " if staged.base else ""
        return "\n".join(
            [
                f"__shared__ {staged.element_type} {tile}{extents};",
                f"for (int {t} = {start}; {t} < {count}; {t} += {step}) {{",
                indented(f"{tile}{place} = {staged.array}[{base}{index}];"),
                "}",
            ]
        )

    def _number(self, value: int) -> str:
        """A number by the name that the kernel's text has for it, if any."""
        own: dict[str, None] = dict.fromkeys(WORD.findall(self.view.text.slice(self.view.kernel.span)))
        constants = {c.name for c in self.view.model.constants}
        for name in (w for w in own if w in constants or w.isupper()):
            if self.view.expanded.constants.value(name, self.view.body.start_byte) == value:
                return name
        return str(value)


def _loops_below(node: Node) -> list[Node]:
    return [n for n in walk(node) if n.type in LOOPS and n.id != node.id]


def _is_part(node: Node) -> bool:
    """Whether a name stands within `threadIdx.x`, which is read as a whole."""
    return node.parent is not None and node.parent.type == "field_expression"


REWRITE = Rewrite(
    slug="stage-block-data",
    title="Stage what a block reads again in shared memory",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "uncoalesced-global-read"),
    useless_at="dram",
    chance=0.5,
    gain=3.0,
)
