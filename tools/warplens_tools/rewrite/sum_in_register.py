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

Members of a structure (`force[i].x += fx;`) have a variable each. What `y[row] *= beta;` in front of the loop makes of
the element is what the variable begins at. Left alone: an element that the loop reads or writes in another way too, one
whose type is not written, an array in shared memory, a loop that may leave the kernel, and threads that wait for each
other inside it.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.values.arithmetic_types import written_type
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.writes import changes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import LOOPS
from warplens_tools.rewrite.common.opened import Opened, opening

CAVEAT = "undefined results if two of the buffers overlap"
_ENDS = frozenset({"return_statement", "goto_statement"})
_ELEMENTS = frozenset({"subscript_expression", "pointer_expression"})
_MEMBER = re.compile(r"(.*\])\.(\w+)")


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
        loop, kind = self._loop(target), self._kind(target)
        if loop is None or not kind:
            return
        key = f"{loop.start_byte} {written}"
        uses = self._elements(loop, array)
        others = [n for n in uses if self._code(n) != written and not _is_beside(self._code(n), written)]
        if key in done or others or self._is_passed(loop, array):
            return
        done.add(key)
        name = self.found.edits.fresh_here(_named(array, target))
        for node in uses:
            if self._code(node) == written:
                self.found.edits.replace(node, name)
        element = self.tree.text_of(target)
        before = self._set_before(loop, written)
        if before is not None:
            self.found.edits.replace(before, f"{kind} {name} = {self._begun(before)}")
        else:
            self.found.edits.before(loop, f"{kind} {name} = {element};")
        self.found.edits.after(loop, f"{element} = {name};")

    def _kind(self, target: Node) -> str:
        """The type of an element, or of a member of one that is a number; "" for anything else."""
        element = _element_of(target)
        place = self.reader.place(target) if element is not None else None
        if place is None or place.inner:
            return ""
        kind = place.element_type.replace("const", "").strip()
        if target.type in _ELEMENTS:
            return kind
        layouts, member = layouts_of(self.tree), target.child_by_field_name("field")
        found = layouts.member(layouts.plain(kind), self.tree.code_of(member)) if member is not None else None
        is_number = found is not None and not found.pointer and layouts.bytes(found.type) == found.size
        return found.type if found is not None and is_number and written_type(found.type) else ""

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
        """Every access to the array in a loop, or to a member of an element."""
        found: list[Node] = []
        for node in walk(loop):
            if node.type not in _ELEMENTS:
                continue
            inside = any(holds(other, node) for other in found)
            if not inside and self.reader.array_of(node)[0] == array:
                outer = node.parent
                found.append(outer if outer is not None and _element_of(outer) == node else node)
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
        while statement is not None and (_declares_only(statement) or self._sets_beside(statement, written)):
            statement = statement.prev_named_sibling
        node = statement.named_children[0] if statement is not None and statement.named_child_count else None
        if statement is None or statement.type != "expression_statement" or node is None:
            return None
        left = node.child_by_field_name("left") if node.type == "assignment_expression" else None
        return node if left is not None and self._code(left) == written else None

    def _sets_beside(self, statement: Node, written: str) -> bool:
        """Whether a statement sets another member of the element to a number."""
        node = statement.named_children[0] if statement.named_child_count else None
        if statement.type != "expression_statement" or node is None or node.type != "assignment_expression":
            return False
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        is_number = right is not None and right.type == "number_literal"
        return left is not None and is_number and _is_beside(self._code(left), written)

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


def _element_of(node: Node) -> Node | None:
    """The element that a node is, or is a member of; None for anything else."""
    if node.type == "field_expression":
        operator, inner = node.child_by_field_name("operator"), node.child_by_field_name("argument")
        is_member = operator is not None and operator.type == "."
        return inner if is_member and inner is not None and inner.type == "subscript_expression" else None
    return node if node.type in _ELEMENTS else None


def _is_beside(one: str, other: str) -> bool:
    """Whether these are different members of one element, as written without spaces."""
    members = [_MEMBER.fullmatch(code) for code in (one, other)]
    return all(members) and members[0][1] == members[1][1] and members[0][2] != members[1][2]  # type: ignore[index]


def _named(array: str, target: Node) -> str:
    """What the variable of an element is called: "sum", or "forceX" for the member x of a force."""
    member = target.child_by_field_name("field") if target.type == "field_expression" else None
    if member is None or member.text is None:
        return "sum"
    name = member.text.decode("utf-8")
    return f"{array}_{name}" if "_" in array or "_" in name else f"{array}{name[:1].upper()}{name[1:]}"


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
    spares=True,
)
