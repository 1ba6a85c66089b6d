# SPDX-License-Identifier: Apache-2.0
"""places-for-block

Take the places in an output for a whole block at once.

Threads that keep some of their items ask one counter for a place each. Atomics on one address are done one after
another in the L2, a warp's at best as one. The threads of a block can count in shared memory first: one thread then
takes as many places as the block needs, and each has its own among them.

```cuda
__global__ void keep_large(const float* in, float* out, int* count, int n, float threshold) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = in[i];
  if (v > threshold) {
    int at = atomicAdd(count, 1);
    out[at] = v;
  }
}
void run(const float* in, float* out, int* count, int n) {
  keep_large<<<(n + 255) / 256, 256>>>(in, out, count, n, 0.5f);
}
```

```cuda
__global__ void keep_large(const float* in, float* out, int* count, int n, float threshold) {
  // Places among the block's own first, then those of the whole block.
  __shared__ int blockCount, blockFirst;
  if (threadIdx.x == 0) blockCount = 0;
  __syncthreads();
  bool placed = false;
  int place = 0;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v;
  if (i < n) {
    v = in[i];
    if (v > threshold) {
      place = atomicAdd(&blockCount, 1);
      placed = true;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0 && blockCount != 0) blockFirst = atomicAdd(count, blockCount);
  __syncthreads();
  if (placed) {
    int at = blockFirst + place;
    out[at] = v;
  }
}
void run(const float* in, float* out, int* count, int n) {
  keep_large<<<(n + 255) / 256, 256>>>(in, out, count, n, 0.5f);
}
```

In which order items come is chance before and after. Threads may go on to further items by the grid. Left alone: a
counter that is asked in any other loop, or used otherwise in the kernel; what follows an atomic's own branch; a kernel
whose threads work together already.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.comparisons import NEGATED
from warplens_tools.cuda.syntax.tree import LOOPS, holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.atomics import target_type
from warplens_tools.rewrite.common.declared import Declared, declared_in, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    calls,
    field,
    refusing,
    require_apart,
    statements,
    substituted,
    unwrapped,
)
from warplens_tools.rewrite.common.strided import thread_number
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

_AMONG = "// Places among the block's own first, then those of the whole block."
#: Stands where the variables that are named behind the place are declared: before the first condition.
_KEPT = "\0"
_IN_LOOP = "the place is asked for in a loop"
_BEHIND = "more is done behind the place's own branch"
_PLAIN_TYPE = re.compile(r"(?!auto\b)[\w: ]+(?:<[\w: ,]+>)?")


class _Taken(msgspec.Struct, frozen=True):
    """The atomic that takes a place."""

    call: Node
    #: The counter, and the places that a thread takes.
    counter: Node
    amount: Node
    type: str
    statement: Node


def _apply(view: View, target: Target) -> RewriteResult:
    require_apart(view)
    taken = _read(view, target)
    launches = Launches(view.text, view.model, view.kernel)
    launches.read()
    text = _Writer(view, taken, thread_number(view, launches)).kernel()
    edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
    return RewriteResult((edit,), title=f"Take places of {view.written(taken.counter)} for a block at once")


def _read(view: View, target: Target) -> _Taken:
    """The one atomic whose old value is a place.

    Raises:
        Refused: there is none, or several, or its counter is no whole block's.
    """
    found = [c for name, c in calls(view.body, view) if name == "atomicAdd" and _is_used(c)]
    found = [c for c in found if not target.lines or view.span(c).line in target.lines]
    if len(found) != 1:
        raise Refused("not one atomic gives out places" if found else "no atomic gives out places")
    call, given = found[0], field(found[0], "arguments").named_children
    if len(given) != 2 or not view.is_plain_enough(call):
        raise Refused("an atomic is not understood")
    counter, amount = given
    kind = target_type(view, counter)
    if integer_type(kind) is None:
        raise Refused("the counter is of no known integer type")
    names = view.names(counter)
    known = view.parameters | {c.name for c in view.model.constants}
    if names - known or re.search(r"\b(?:threadIdx|blockIdx)\b", view.code(counter)):
        raise Refused("the threads of a block do not all count in one place")
    used = [n for n in walk(view.body) if n.type == "identifier" and view.code(n) in names & view.parameters]
    if any(not holds(call, n) and view.code(n) in _pointers(view) for n in used):
        raise Refused("the counter is used otherwise")
    statement = call
    while statement.parent is not None and statement.parent.type != "compound_statement":
        statement = statement.parent
        if statement.type in LOOPS or statement.type == "if_statement":
            break
    if statement.type == "if_statement" and holds(field(statement, "condition"), call):
        raise Refused("a condition asks for the place")
    return _Taken(call, counter, amount, kind, _own_statement(call))


def _pointers(view: View) -> set[str]:
    return {p.name for p in view.kernel.parameters if p.pointer}


def _is_used(call: Node) -> bool:
    return call.parent is not None and call.parent.type != "expression_statement"


def _own_statement(call: Node) -> Node:
    """The declaration or expression that the call stands in."""
    at = call
    while at.type not in ("declaration", "expression_statement"):
        if at.parent is None or at.type.endswith("_statement") or at.type == "lambda_expression":
            raise Refused("the place is asked for in a statement that is not understood")
        at = at.parent
    return at


class _Writer:
    """The kernel in two halves: up to the places, and behind them."""

    def __init__(self, view: View, taken: _Taken, number: str) -> None:
        self.view, self.taken, self.number = view, taken, number
        self.style = Style(view)
        local = self.style.local
        self.count, self.first = local("blockCount"), local("blockFirst")
        self.place, self.placed = local("place"), local("placed")
        self.tail: list[Node] = []
        self._kept: list[Declared] = []
        self._named = self._tail_names()
        #: The loop in which threads go on to other items.
        self.loop = self._strided()

    def kernel(self) -> str:
        """The new body."""
        view, inside = self.view, statements(self.view.body)
        kind = unqualified(self.taken.type)
        shared = f"__shared__ {kind} {self.count}, {self.first};"
        if self.loop is None:
            lines = [_AMONG, shared, *self._halves(self._block(inside, deep=False))]
        else:
            top, condition = inside[:-1], unwrapped(field(self.loop, "condition"))
            if any(n.type in JUMPS for one in top for n in walk(one)):
                raise Refused("some threads leave early")
            inner = self._block(statements(field(self.loop, "body")), deep=True)
            test = f"if ({view.written(condition)}) {{"
            inner = self._halves([_KEPT, test, indented("\n".join(inner)), "}"])
            lines = [*(self.style.code(view.written(n)) for n in top), _AMONG, shared]
            lines += [self._header(self.loop), indented("\n".join(inner)), "}"]
        newline = view.text.newline
        return f"{{{newline}{self.style.lines(chr(10).join(lines))}{newline}{self.style.margin}}}"

    def _halves(self, front: list[str]) -> list[str]:
        """What threads do up to their places, the block's own atomic, and what they do behind."""
        one = f"({self.number}) == 0" if " " in self.number else f"{self.number} == 0"
        taken = f"{self.first} = atomicAdd({self.view.written(self.taken.counter)}, {self.count});"
        keeps = [f"{unqualified(d.type)} {d.stars}{d.name};" for d in self._kept]
        return [
            f"if ({one}) {self.count} = 0;",
            "__syncthreads();",
            f"bool {self.placed} = false;",
            f"{unqualified(self.taken.type)} {self.place} = 0;",
            *(line for part in front for line in (keeps if part == _KEPT else [part])),
            "__syncthreads();",
            f"if ({one} && {self.count} != 0) {taken}",
            "__syncthreads();",
            f"if ({self.placed}) {{",
            indented("\n".join(self._behind())),
            "}",
        ]

    def _strided(self) -> Node | None:
        """The loop over items by the grid, where that is the last of the kernel's statements."""
        last = statements(self.view.body)[-1]
        if last.type != "for_statement" or not holds(last, self.taken.call):
            return None
        form = self.view.forms.loop(last)
        first = form.first if form.first is not None else None
        right = " " not in self.number and form.step is not None and first is not None
        by_thread = first.coefficient("threadIdx.x") == 1 if right and first is not None else False
        if not by_thread or form.step is None or not any(s.kind == "grid size" for s in form.step.symbols):
            raise Refused(_IN_LOOP)
        if any(n.type in JUMPS for one in self.tail for n in walk(one)) or form.comparison != "<":
            raise Refused("threads leave the loop early")
        return last

    def _header(self, loop: Node) -> str:
        """The loop's head, as long for all threads of the block as for its first."""
        view, condition = self.view, field(loop, "condition")
        left = unwrapped(condition).child_by_field_name("left")
        if left is None or left.type != "identifier":
            raise Refused(_IN_LOOP)
        begin, opening = view.start(loop), view.start(field(loop, "body"))
        at = view.end(left)
        head = f"{view.text.text[begin:at]} - (int)threadIdx.x{view.text.text[at:opening]}"
        return " ".join(head.split()) + " {"

    def _behind(self) -> list[str]:
        new = f"{self.first} + {self.place}"
        outer = self.taken.call.parent
        if outer is not None and outer.type not in (
            "init_declarator",
            "subscript_argument_list",
            "assignment_expression",
        ):
            new = f"({new})"
        own = substituted(self.view, self.taken.statement, [(self.taken.call, new)])
        return [self.style.code(own), *(self.style.code(self.view.written(n)) for n in self.tail)]

    def _tail_names(self) -> frozenset[str]:
        """What is named behind the place, and in its own statement."""
        block = self.taken.statement.parent
        rest = []
        if block is not None and block.type == "compound_statement":
            rest = [n for n in statements(block) if n.start_byte > self.taken.statement.start_byte]
        self.tail = rest
        amount = {n.id for n in walk(self.taken.call)}
        return frozenset(
            self.view.code(n)
            for part in (self.taken.statement, *rest)
            for n in walk(part)
            if n.type == "identifier" and n.id not in amount
        )

    def _block(self, inside: list[Node], *, deep: bool) -> list[str]:
        """Statements up to the place; `deep`: under a condition, so that what is named behind is declared before."""
        lines: list[str] = []
        for at, node in enumerate(inside):
            if node.id == self.taken.statement.id:
                return [*lines, *self._take()]
            if holds(node, self.taken.call):
                kept = [] if deep else [_KEPT]
                return [*lines, *kept, *self._branch(node, inside[at + 1 :])]
            condition = self._leaves(node)
            if condition:
                inner = self._block(inside[at + 1 :], deep=True)
                kept = [] if deep else [_KEPT]
                return [*lines, *kept, f"if ({condition}) {{", indented("\n".join(inner)), "}"]
            lines += self._written(node, deep=deep)
        raise Refused("the place is not found")

    def _take(self) -> list[str]:
        amount = self.view.written(self.taken.amount)
        return [f"{self.place} = atomicAdd(&{self.count}, {amount});", f"{self.placed} = true;"]

    def _branch(self, node: Node, rest: list[Node]) -> list[str]:
        """The branch that the place is asked for in."""
        view = self.view
        if node.type == "compound_statement":
            if rest:
                raise Refused(_BEHIND)
            return ["{", indented("\n".join(self._block(statements(node), deep=True))), "}"]
        if node.type != "if_statement" or rest:
            raise Refused(_IN_LOOP if node.type in LOOPS else _BEHIND)
        consequence, other = field(node, "consequence"), node.child_by_field_name("alternative")
        head = f"if ({view.written(unwrapped(field(node, 'condition')))}) {{"
        if holds(consequence, self.taken.call):
            inner = self._block(statements(consequence), deep=True)
            lines = [head, indented("\n".join(inner)), "}"]
            if other is not None:
                if any(n.type in JUMPS for n in walk(other)):
                    raise Refused("some threads leave early")
                lines[-1] = "} " + self.style.code(view.written(other))
            return lines
        raise Refused("the place is asked for in another branch")

    def _leaves(self, node: Node) -> str:
        """What holds of threads that go on behind `if (…) return;`; "" for any other statement.

        Raises:
            Refused: threads leave from within.
        """
        if not any(n.type in JUMPS for n in walk(node)):
            return ""
        plain = node.type == "if_statement" and node.child_by_field_name("alternative") is None
        inside = statements(field(node, "consequence")) if plain else []
        way = "return_statement" if self.loop is None else "continue_statement"
        if len(inside) != 1 or inside[0].type != way:
            inner = any(n.type in LOOPS for n in walk(node))
            if inner and not any(n.type == "return_statement" for n in walk(node)):
                return ""
            raise Refused("some threads leave early")
        return self._negated(unwrapped(field(node, "condition")))

    def _negated(self, condition: Node) -> str:
        view, kind = self.view, condition.child_by_field_name("operator")
        name = kind.type if kind is not None and condition.type == "binary_expression" else ""
        if name == "||":
            sides = [self._negated(unwrapped(field(condition, s))) for s in ("left", "right")]
            return " && ".join(f"({s})" if "||" in s else s for s in sides)
        flipped = NEGATED.get(name)
        types = TypeReader(view.forms, view.pointers)
        if flipped and all(
            types.type(field(condition, s)) == "int" for s in ("left", "right")
        ):  # of floats, the negation of `a < b` holds for NaN too
            return f"{view.written(field(condition, 'left'))} {flipped} {view.written(field(condition, 'right'))}"
        return f"!({view.written(condition)})"

    def _written(self, node: Node, *, deep: bool) -> list[str]:
        """A statement before the place; what is named behind it is declared further up."""
        listed = plainly_declared_in(self.view, node) if node.type == "declaration" else []
        if not deep or node.type != "declaration":
            return [self.style.code(self.view.written(node))]
        named = [d for d in listed if d.name in self._named]
        if not named:
            if not listed and self._named & self.view.names(node):
                raise Refused("what is used behind the place cannot be declared before it")
            return [self.style.code(self.view.written(node))]
        return [line for d in declared_in(self.view, node) for line in self._kept_apart(d)]

    def _kept_apart(self, one: Declared) -> list[str]:
        view = self.view
        value = view.written(one.value) if one.value is not None else ""
        if one.name not in self._named:
            return [f"{one.type} {one.stars}{one.name}{' = ' * bool(value)}{value};"]
        if "&" in one.stars or not _PLAIN_TYPE.fullmatch(unqualified(one.type)) or "auto" in one.type.split():
            raise Refused("what is used behind the place cannot be declared before it")
        if value.startswith("{") or any(d.name == one.name for d in self._kept):
            raise Refused("what is used behind the place cannot be declared before it")
        self._kept.append(one)
        return [f"{one.name} = {value};"] if value else []


REWRITE = Rewrite(
    slug="places-for-block",
    title="Take the places in an output for a whole block at once",
    apply=refusing(_apply),
    answers=("global-atomic-contention",),
    chance=0.6,
    gain=4.0,
)
