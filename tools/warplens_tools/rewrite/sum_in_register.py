# SPDX-License-Identifier: Apache-2.0
"""sum-in-register

Keep in a register what a loop adds up in memory.

Where every iteration updates one element of an array, the compiler must store it each time as long as another pointer
may overlap with it. The loop works on a variable, which is written once behind it.

```cuda
__global__ void matvec(const float* a, const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    y[row] = 0.0f;
    for (int j = 0; j < cols; ++j) {
      y[row] += a[row * cols + j] * x[j];
    }
  }
}
```

```cuda
__global__ void matvec(const float* a, const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    float sum = 0.0f;
    for (int j = 0; j < cols; ++j) {
      sum += a[row * cols + j] * x[j];
    }
    y[row] = sum;
  }
}
```

Left alone: an element that the loop reads or writes in another way too, one whose type is not written, an array in
shared memory, a loop that may leave the kernel, and threads that wait for each other inside it.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.bindings import changes
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.counting import LOOPS
from warplens_tools.rewrite.common.opened import Opened
from warplens_tools.rewrite.common.refusal import Refused, refusing
from warplens_tools.text import SourceText

CAVEAT = "undefined results if two of the buffers overlap"
_ENDS = frozenset({"return_statement", "goto_statement"})


@refusing
def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Give every element that a loop updates a variable of its own."""
    del target
    found = Opened(text, model, kernel)
    sums = _Sums(found)
    done: set[str] = set()
    for store in list(found.reader.stores(found.reader.body)):
        if store.updates and store.space == "global":
            sums.keep(store.target, store.array, done)
    if not done:
        raise Refused("no loop updates one element of an array throughout")
    return RewriteResult(found.edits.edits(), title="Add up in a register", caveat=CAVEAT)


class _Sums:
    """The elements of one kernel that loops add up in memory."""

    def __init__(self, found: Opened) -> None:
        self.found, self.reader, self.tree = found, found.reader, found.reader.tree

    def keep(self, target: Node, array: str, done: set[str]) -> None:
        """Put the element into a variable around the largest loop throughout which it is one."""
        written = self._code(target)
        loop = self._loop(target)
        parameter = next((p for p in self.found.kernel.parameters if p.name == array and p.pointer), None)
        if (
            loop is None
            or parameter is None
            or target.type not in ("subscript_expression", "pointer_expression")
        ):
            return
        key = f"{loop.start_byte} {written}"
        others = [n for n in self._elements(loop, array) if self._code(n) != written]
        if key in done or others or self._is_passed(loop, array):
            return
        done.add(key)
        kind = parameter.element_type.replace("const", "").strip()
        name = self.found.edits.fresh_here("sum")
        for node in self._elements(loop, array):
            self.found.edits.replace(node, name)
        place = self.tree.text_of(target)
        before = self._set_before(loop, written)
        if before is not None:
            self.found.edits.replace(before, f"{kind} {name}")
        else:
            self.found.edits.before(loop, f"{kind} {name} = {place};")
        self.found.edits.after(loop, f"{place} = {name};")

    def _code(self, node: Node) -> str:
        return "".join(self.tree.code_of(node).split())

    def _loop(self, target: Node) -> Node | None:
        """The largest loop around in which nothing that chooses the element changes."""
        names = {self.tree.code_of(n) for n in walk(target) if n.type == "identifier"}
        found, node = None, target.parent
        while node is not None and node.id != self.reader.body.id:
            if node.type in LOOPS:
                if not self._is_fixed(node, names):
                    break
                found = node
            node = node.parent
        return found

    def _is_fixed(self, loop: Node, names: set[str]) -> bool:
        code = self.tree.code_of(loop)
        if any(n.type in _ENDS for n in walk(loop)) or "__sync" in code or "atomic" in code:
            return False
        for name in names:
            inside = [n for n in self.reader.names.get(name, ()) if _holds(loop, n)]
            own = any(self.reader.is_inside(self.reader.binding(n), loop) for n in inside)
            if own or changes(self.tree, code, name):
                return False
        return True

    def _elements(self, loop: Node, array: str) -> list[Node]:
        """Every access to the array in a loop."""
        found: list[Node] = []
        for node in walk(loop):
            if node.type not in ("subscript_expression", "pointer_expression"):
                continue
            inside = any(_holds(other, node) for other in found)
            if not inside and self.reader.array_of(node)[0] == array:
                found.append(node)
        return found

    def _is_passed(self, loop: Node, array: str) -> bool:
        """Whether the pointer is used otherwise than to access an element."""
        elements = self._elements(loop, array)
        return any(
            not any(_holds(element, name) for element in elements)
            for name in self.reader.names.get(array, ())
            if _holds(loop, name)
        )

    def _set_before(self, loop: Node, written: str) -> Node | None:
        """The left side of `y[row] = 0;` right in front of the loop."""
        statement = loop.prev_named_sibling
        node = statement.named_children[0] if statement is not None and statement.named_child_count else None
        if statement is None or statement.type != "expression_statement" or node is None:
            return None
        left, operator = node.child_by_field_name("left"), node.child_by_field_name("operator")
        plain = node.type == "assignment_expression" and operator is not None and operator.type == "="
        return left if plain and left is not None and self._code(left) == written else None


def _holds(outer: Node, node: Node) -> bool:
    return outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte


REWRITE = Rewrite(
    slug="sum-in-register",
    title="Add up in a register",
    apply=apply,
    answers=("aliasing-reload", "missing-cache-reuse"),
    chance=0.6,
    gain=1.5,
)
