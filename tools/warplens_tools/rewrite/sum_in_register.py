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

What `y[row] *= beta;` in front of the loop makes of the element is what the variable begins at. Left alone: an
element that the loop reads or writes in another way too, one whose type is not written, an array in shared memory, a
loop that may leave the kernel, and threads that wait for each other inside it.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.values.writes import changes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import LOOPS
from warplens_tools.rewrite.common.opened import Opened, opening

CAVEAT = "undefined results if two of the buffers overlap"
_ENDS = frozenset({"return_statement", "goto_statement"})
_ELEMENTS = frozenset({"subscript_expression", "pointer_expression"})


@opening
def apply(found: Opened) -> RewriteResult:
    """Give every element that a loop updates a variable of its own."""
    sums = _Sums(found)
    done: set[str] = set()
    for store in list(found.reader.stores(found.reader.body)):
        if store.space == "global" and (store.updates or sums.reads_itself(store.target)):
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
        place = self.reader.place(target)
        if loop is None or place is None or place.inner or target.type not in _ELEMENTS:
            return
        key = f"{loop.start_byte} {written}"
        others = [n for n in self._elements(loop, array) if self._code(n) != written]
        if key in done or others or self._is_passed(loop, array):
            return
        done.add(key)
        kind = place.element_type.replace("const", "").strip()
        name = self.found.edits.fresh_here("sum")
        for node in self._elements(loop, array):
            self.found.edits.replace(node, name)
        element = self.tree.text_of(target)
        before = self._set_before(loop, written)
        if before is not None:
            self.found.edits.replace(before, f"{kind} {name} = {self._begun(before)}")
        else:
            self.found.edits.before(loop, f"{kind} {name} = {element};")
        self.found.edits.after(loop, f"{element} = {name};")

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
            inside = [n for n in self.reader.names.get(name, ()) if holds(loop, n)]
            own = any(self.reader.is_inside(self.reader.binding(n), loop) for n in inside)
            if own or changes(self.tree, code, name):
                return False
        return True

    def _elements(self, loop: Node, array: str) -> list[Node]:
        """Every access to the array in a loop."""
        found: list[Node] = []
        for node in walk(loop):
            if node.type not in _ELEMENTS:
                continue
            inside = any(holds(other, node) for other in found)
            if not inside and self.reader.array_of(node)[0] == array:
                found.append(node)
        return found

    def _is_passed(self, loop: Node, array: str) -> bool:
        """Whether the pointer is used otherwise than to access an element."""
        elements = self._elements(loop, array)
        return any(
            not any(holds(element, name) for element in elements)
            for name in self.reader.names.get(array, ())
            if holds(loop, name)
        )

    def reads_itself(self, target: Node) -> bool:
        """Whether what is stored is made of what was there: `y[row] = y[row] + …`."""
        right = target.parent.child_by_field_name("right") if target.parent is not None else None
        written = self._code(target)
        return right is not None and any(
            n.type in _ELEMENTS and self._code(n) == written for n in walk(right)
        )

    def _set_before(self, loop: Node, written: str) -> Node | None:
        """`y[row] = 0` or `y[row] *= beta` in front of the loop."""
        statement = loop.prev_named_sibling
        while statement is not None and _declares_only(statement):
            statement = statement.prev_named_sibling
        node = statement.named_children[0] if statement is not None and statement.named_child_count else None
        if statement is None or statement.type != "expression_statement" or node is None:
            return None
        left = node.child_by_field_name("left") if node.type == "assignment_expression" else None
        return node if left is not None and self._code(left) == written else None

    def _begun(self, node: Node) -> str:
        """What the variable begins at, of an assignment to the element."""
        left, operator, right = (node.child_by_field_name(n) for n in ("left", "operator", "right"))
        if left is None or operator is None or right is None:
            raise Refused("a statement is not understood")
        value = self.tree.text_of(right)
        if operator.type == "=":
            return value
        is_one = right.type in ("identifier", "number_literal", "call_expression", "subscript_expression")
        return f"{self.tree.text_of(left)} {operator.type[:-1]} {value if is_one else f'({value})'}"


def _declares_only(statement: Node) -> bool:
    """Whether a statement declares variables and sets none."""
    declared = statement.children_by_field_name("declarator") if statement.type == "declaration" else []
    return statement.type == "comment" or (
        bool(declared) and all(d.type != "init_declarator" for d in declared)
    )


REWRITE = Rewrite(
    slug="sum-in-register",
    title="Add up in a register",
    apply=apply,
    answers=("aliasing-reload", "missing-cache-reuse"),
    chance=0.6,
    gain=1.5,
)
