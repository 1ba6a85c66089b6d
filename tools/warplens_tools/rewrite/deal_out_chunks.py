# SPDX-License-Identifier: Apache-2.0
"""deal-out-chunks

Deal the elements out to the threads one by one instead of in chunks.

Where each thread works on a chunk of consecutive elements, the threads of a warp are a chunk apart at every step, and
each access takes a sector for one element. Dealt out by the number of all threads, neighbours are neighbours.

```cuda
__global__ void scale(float* data, int n, int chunk, float factor) {
  int tid = blockIdx.x * blockDim.x + threadIdx.x;
  int start = tid * chunk;
  int end = min(start + chunk, n);
  for (int i = start; i < end; ++i) {
    data[i] *= factor;
  }
}
```

```cuda
__global__ void scale(float* data, int n, int chunk, float factor) {
  int tid = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = tid; i < n; i += blockDim.x * gridDim.x) {
    data[i] *= factor;
  }
}
```

The loop's iterations must be independent but for what they fold into, and what a thread folds may only end in an
atomic: which elements it has is another matter afterwards. Chunks are taken to cover all elements, as they must have
done before. Where blocks have a row each, its chunks are dealt out to the threads of the block, if what a thread folds
is joined with the others'. Left alone: chunks that begin elsewhere than at `thread * chunk`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.cuda.values.forms import Form, Symbol
from warplens_tools.cuda.values.loop_headers import condition_of, initialised
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.kernel_reader import Store
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening

CAVEAT = "each thread has other elements: sums may differ in the last digits"


@opening
def apply(found: Opened) -> RewriteResult:
    """Deal out every loop over a chunk."""
    dealer = _Dealer(found)
    loops = [counting(found.reader.expanded, n) for n in walk(found.reader.body) if n.type == "for_statement"]
    done = [loop for loop in loops if loop is not None and dealer.deal(loop)]
    if not done or (dealer.in_block and dealer.reason):
        raise Refused(dealer.reason or "no loop goes through a chunk of consecutive elements")
    dealer.clean()
    return RewriteResult(found.edits.edits(), title="Deal the elements out one by one", caveat=dealer.caveat)


class _Dealer:
    """Deals out the chunks of one kernel."""

    def __init__(self, found: Opened) -> None:
        self.found, self.reader, self.tree = found, found.reader, found.reader.tree
        self.forms = self.reader.forms
        self.numbering = Numbering(self.reader, "x", found.launches.block_value(0))
        #: Whether chunks are dealt out to the threads of one block, for no number tells those of the grid apart.
        self.in_block = not self.numbering.numbered()
        self.reason = ""
        self.caveat = ""
        #: Expressions that are gone, with the names in them.
        self._gone: list[Node] = []
        self._named = ""
        if found.launches.sites and any(v != 1 for v in (found.launches.block_value(1) or 1,)):
            raise Refused("its threads are numbered by two axes")

    def deal(self, loop: Counting) -> bool:
        """Change one loop, if it goes through a chunk."""
        how = self._whole(loop) or self._counted(loop)
        if how is None or loop.downward:
            return False
        work = self.reader.work(loop)
        why = work.why_not
        why = why or self._knows_its_thread(loop, how) or self._guard(loop)
        if not why and work.folds and self._keeps_apart(loop):
            why = "what a thread folds is kept for that thread"
        if why:
            self.reason = self.reason or why
            return False
        if work.folds:
            self.caveat = CAVEAT
        for node, new in how:
            self.found.edits.replace(node, new)
            self._gone.append(node)
        return True

    def _knows_its_thread(self, loop: Counting, how: list[tuple[Node, str]]) -> str:
        """Why iterations could not be another thread's: they use what this one has computed."""
        folds = self.reader.work(loop).folds
        own = {name.split(".")[0] for f in folds for name in (f.place, f.companion)} | {loop.variable}
        for node in walk(loop.body):
            if node.type != "identifier" or any(holds(gone, node) for gone, _ in how):
                continue
            name, binding = self.tree.code_of(node), self.reader.binding(node)
            outside = binding is None or self.reader.is_inside(binding, loop.node) or name in own
            if outside and name not in ("threadIdx", "blockIdx"):
                continue
            form = self.forms.form(node)
            is_parameter = any(p.name == name for p in self.found.kernel.parameters)
            told_apart = name == "threadIdx" or (name == "blockIdx" and not self.in_block)
            if told_apart or (name != "blockIdx" and not is_parameter and not self._is_uniform(form)):
                return f"an iteration uses {name}, which is this thread's"
        return ""

    def _guard(self, loop: Counting) -> str:
        """Why not every thread comes to the loop."""
        current = loop.node.parent
        while current is not None and current.id != self.reader.body.id:
            if current.type != "compound_statement":
                return "the loop stands in a branch or a loop"
            current = current.parent
        for node in walk(self.reader.body):
            if node.type == "return_statement" and node.start_byte < loop.node.start_byte:
                return "some threads leave before the loop"
        return ""

    def _is_uniform(self, form: Form | None) -> bool:
        apart = ("thread",) if self.in_block else ("thread", "block")
        return form is not None and not any(s.kind in apart for s in form.symbols)

    def _keeps_apart(self, loop: Counting) -> bool:
        """Whether memory is written outside of the loop other than by atomics; in a block, by no single thread."""
        if self.in_block:
            return any(self._is_each_threads(s.target) for s in self._behind(loop))
        return any(True for _ in self._behind(loop))

    def _is_each_threads(self, target: Node) -> bool:
        place = self.reader.place(target)
        form = place.traced if place is not None else None
        return form is None or form.mentions("threadIdx.x")

    def _behind(self, loop: Counting) -> Iterator[Store]:
        """Stores to global memory outside of the loop."""
        for store in self.reader.stores(self.reader.body):
            if store.space == "global" and not holds(loop.node, store.target):
                yield store

    def _whole(self, loop: Counting) -> list[tuple[Node, str]] | None:
        """`for (i = tid * chunk; i < min(tid * chunk + chunk, n); ++i)`"""
        _, first = initialised(loop.node)
        start = self.forms.form(first)
        chunk = self._chunk(start)
        if chunk is None or loop.step != "1" or first is None or start is None:
            return None
        stop = forms.add(start, chunk)
        number = self._number()
        limit = self._limit(loop, stop)
        if limit is None or number is None:
            return None
        step = f"{loop.variable} += {self._all()}"
        return [(first, number), limit, (loop.update, step)]

    def _limit(self, loop: Counting, stop: Form | None) -> tuple[Node, str] | None:
        """What of the loop's condition is replaced by what, so that it ends where all chunks together do."""
        if len(loop.bounds) == 1:
            bound = self._end(loop.bounds[0], stop)
            return (loop.bounds[0], bound) if bound is not None else None
        kept = [b for b in loop.bounds if self.forms.form(b) != stop]
        condition = condition_of(loop.node)
        if len(loop.bounds) != 2 or len(kept) != 1 or condition is None or kept[0].parent is None:
            return None
        return condition, self.tree.text_of(kept[0].parent)

    def _chunk(self, start: Form | None) -> Form | None:
        """How many elements a thread has, where its first one is `thread * chunk`; None otherwise."""
        growth = start.growth("threadIdx.x") if start is not None else None
        if start is None or growth is None or growth.value in (0, 1) or not growth.terms:
            return None
        number = self._number_form()
        whole = forms.multiply(growth, number) if number is not None else None
        return growth if whole is not None and whole == start else None

    def _number_form(self) -> Form | None:
        if self.in_block:
            return forms.variable(Symbol("threadIdx.x", "thread"))
        numbers = self.numbering.numbered()
        return self.forms.form(numbers[0]) if numbers else None

    def _number(self) -> str | None:
        """The name of the thread's number in the grid, or its expression."""
        if self.in_block:
            return "threadIdx.x"
        numbers = self.numbering.numbered()
        for node in numbers:
            holder = node.parent
            name = holder.child_by_field_name("declarator") if holder is not None else None
            if name is not None and name.type == "identifier":
                self._named = self.tree.text_of(name)
                return self._named
        return self.tree.text_of(numbers[0]) if numbers else None

    def _all(self) -> str:
        return "blockDim.x" if self.in_block else "blockDim.x * gridDim.x"

    def _end(self, bound: Node, stop: Form | None) -> str | None:
        """Where all chunks together end, as an expression."""
        form = self.forms.form(bound)
        if form is not None and form == stop:
            return None
        for node in self._meanings(bound):
            parts = _least(node)
            kept = [p for p in parts if self.forms.form(p) != stop]
            if len(parts) == 2 and len(kept) == 1:
                return self.tree.text_of(kept[0])
        return self._cut(bound, stop)

    def _meanings(self, bound: Node) -> list[Node]:
        """An expression, and what a variable was given."""
        binding = self.reader.binding(bound) if bound.type == "identifier" else None
        value = value_node(self.tree, binding) if binding is not None and binding.value is not None else None
        return [bound] if value is None else [bound, value]

    def _cut(self, bound: Node, stop: Form | None) -> str | None:
        """`int end = start + chunk; if (end > n) end = n;`"""
        if bound.type != "identifier" or (value := self._meanings(bound)[-1]).id == bound.id:
            return None
        if self.forms.form(value) != stop:
            return None
        for use in self.reader.occurrences(bound):
            parent = use.parent
            left = parent.child_by_field_name("left") if parent is not None else None
            right = parent.child_by_field_name("right") if parent is not None else None
            if parent is None or parent.type != "assignment_expression" or left is None or left.id != use.id:
                continue
            if right is not None and right.type in ("identifier", "number_literal"):
                return self.tree.text_of(right)
            parts = _least(right) if right is not None else []
            name = self.tree.code_of(bound)
            kept = [p for p in parts if self.tree.code_of(p) != name]
            if len(kept) == 1 and len(parts) == 2:
                return self.tree.text_of(kept[0])
        return None

    def _counted(self, loop: Counting) -> list[tuple[Node, str]] | None:
        """`for (k = 0; k < CHUNK; ++k) { int i = tid * CHUNK + k; … }`"""
        read = self.forms.loop(loop.node)
        number, name = self._number_form(), self._number()
        if (
            read.first is None
            or read.first.value != 0
            or loop.step != "1"
            or read.bound is None
            or not read.counter
        ):
            return None
        if number is None or name is None or read.bound.value == 1:
            return None
        counter = forms.variable(Symbol(read.counter, "loop"))
        chunk = forms.multiply(read.bound, number)
        wanted = forms.add(chunk, counter) if chunk is not None else None
        found: list[Node] = []
        for node in walk(loop.body):
            inside = any(f.start_byte <= node.start_byte and node.end_byte <= f.end_byte for f in found)
            if not inside and node.type == "binary_expression" and self.forms.form(node) == wanted:
                found.append(node)
        if not found or wanted is None:
            return None
        return [(node, f"{loop.variable} * ({self._all()}) + {name}") for node in found]

    def clean(self) -> None:
        """Take away variables that only what is gone used."""
        removed: list[Node] = list(self._gone)
        changed = True
        while changed:
            changed = False
            for statement in self._statements():
                names = self._unused(statement, removed)
                if names and not any(s.id == statement.id for s in removed):
                    gone = [statement, *(cut for name in names for cut in self._cuts(name))]
                    removed += gone
                    for one in gone:
                        self.found.edits.remove(one)
                    changed = True

    def _statements(self) -> list[Node]:
        return [n for n in walk(self.reader.body) if n.type == "declaration" and _is_statement(n)]

    def _cuts(self, name: Node) -> list[Node]:
        """`if (end > n) end = n;`"""
        found = []
        for use in self.reader.occurrences(name):
            parent = use.parent
            while parent is not None and parent.type not in ("if_statement", "compound_statement"):
                parent = parent.parent
            if parent is not None and parent.type == "if_statement" and self._only_cuts(parent, name):
                found.append(parent)
        return list({n.id: n for n in found}.values())

    def _only_cuts(self, node: Node, name: Node) -> bool:
        code, end = "".join(self.tree.code_of(node).split()), self.tree.code_of(name)
        return re.fullmatch(rf"if\({end}>=?(\w+)\){{?{end}=\1;}}?", code) is not None

    def _unused(self, statement: Node, removed: list[Node]) -> list[Node]:
        """The variables that a statement declares, where nothing that stays uses one of them."""
        names = []
        for declarator in statement.children_by_field_name("declarator"):
            name = declarator.child_by_field_name("declarator")
            if name is None or name.type != "identifier" or self.tree.code_of(name) == self._named:
                return []
            gone = [*removed, *self._cuts(name), statement]
            uses = [n for n in self.reader.occurrences(name) if n.id != name.id]
            was_used = any(holds(g, n) for n in uses for g in removed)
            if not was_used or not all(any(holds(g, n) for g in gone) for n in uses):
                return []
            names.append(name)
        return names


def _is_statement(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "compound_statement"


def _least(node: Node) -> list[Node]:
    """The two parts of `min(a, b)` or `a < b ? a : b`."""
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    listed = node.child_by_field_name("arguments") if node.type == "call_expression" else None
    function = node.child_by_field_name("function")
    if listed is not None and function is not None:
        named = (function.text or b"").decode().split("<")[0].strip().removeprefix("std::")
        return listed.named_children if named in ("min", "umin", "MIN") else []
    if node.type == "conditional_expression":
        yes, no = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        return [yes, no] if yes is not None and no is not None else []
    return []


REWRITE = Rewrite(
    slug="deal-out-chunks",
    title="Deal the elements out one by one",
    apply=apply,
    answers=("per-thread-chunks", "uncoalesced-global-read", "uncoalesced-global-write"),
    chance=0.7,
    gain=3.0,
)
