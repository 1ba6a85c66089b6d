# SPDX-License-Identifier: Apache-2.0
"""divide-by-shift

Divide by powers of two with shifts and masks.

A butterfly, a sorting network or a tree goes through strides that double or halve, and divides by them to find its
elements. The compiler divides by a variable in some twenty instructions, for it does not see that the stride is a power
of two: then the quotient is a shift, and the remainder a mask.

```cuda
__global__ void hadamard(float* x, int n) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[blockIdx.x * n + i];
  for (int len = 1; len < n; len *= 2) {
    __syncthreads();
    for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
      int j = i / len * 2 * len + i % len;
      float a = s[j], b = s[j + len];
      s[j] = a + b;
      s[j + len] = a - b;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[blockIdx.x * n + i] = s[i];
}
```

```cuda
__global__ void hadamard(float* x, int n) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[blockIdx.x * n + i];
  for (int len = 1; len < n; len *= 2) {
    __syncthreads();
    for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
      int j = (i >> (__ffs(len) - 1)) * 2 * len + (i & (len - 1));
      float a = s[j], b = s[j + len];
      s[j] = a + b;
      s[j + len] = a - b;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[blockIdx.x * n + i] = s[i];
}
```

Strides are variables of loops that begin at a power of two, and their products with powers of two. Left alone: strides
that the kernel is given, what is divided and may be less than zero, and numbers of eight bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.lexical import matching
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.loop_headers import initialised
from warplens_tools.cuda.values.writes import changes, is_set_once
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.counting import counting
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.integer_kinds import kind_of
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    field,
    operator_of,
    refusing,
    squeezed,
    substituted,
    unwrapped,
)
from warplens_tools.text import TextEdit

_DOUBLED = r"{0}<<=1|{0}\*=2|{0}={0}\*2|{0}=2\*{0}|{0}={0}<<1|{0}\+={0}"
_HALVED = r"{0}>>=1|{0}/=2|{0}={0}/2|{0}={0}>>1"
_ABOVE_ZERO = r"{0}(?:>=?[1-9]\w*|>0|!=0)?|[1-9]\w*<=?{0}|0<{0}"
_THREADS = re.compile(r"(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]")
_MEMBER = re.compile(r"\.\w+")
_WIDTHS = ("int", "unsigned int")
#: Variables made of variables are followed this far.
_DEEP = 3


def _apply(view: View, target: Target) -> RewriteResult:
    reader = _Strides(view)
    found = [n for n in reader.divisions() if not target.lines or view.span(n).line in target.lines]
    inside = {n.id for one in found for n in walk(one) if n.id != one.id}
    if not found:
        raise Refused("nothing here is divided by a stride that is known to be a power of two")
    edits = [TextEdit(view.span(n), _written(view, n, found)) for n in found if n.id not in inside]
    return RewriteResult(tuple(edits), title="Divide by shifts and masks")


class _Strides:
    """What of a kernel is a power of two, and what is never below zero."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.loops = list(self._powers())

    def divisions(self) -> Iterator[Node]:
        """Quotients and remainders by a power of two, outermost first."""
        for node in walk(self.view.body):
            if node.type != "binary_expression" or operator_of(node) not in ("/", "%"):
                continue
            left, right = field(node, "left"), unwrapped(field(node, "right"))
            if self.view.value(right) is not None or not self.view.is_plain(node):
                continue
            if kind_of(self.view, node) in _WIDTHS and self._is_power(right) and self._is_natural(left):
                yield node

    def _powers(self) -> Iterator[tuple[str, Node]]:
        """The variables of loops whose values are powers of two, each with its loop's body."""
        view = self.view
        for loop in walk(view.body):
            if loop.type != "for_statement":
                continue
            name, first = initialised(loop)
            update, body = loop.child_by_field_name("update"), field(loop, "body")
            if name is None or first is None or update is None:
                continue
            variable, begin = view.code(name), view.value(first)
            step, named = squeezed(view.code(update)), re.escape(variable)
            condition = loop.child_by_field_name("condition")
            test = squeezed(view.code(unwrapped(condition))) if condition is not None else ""
            up = re.fullmatch(_DOUBLED.format(named), step)
            down = re.fullmatch(_HALVED.format(named), step) and re.fullmatch(_ABOVE_ZERO.format(named), test)
            still = not changes(view.tree, view.code(body), variable)
            if begin is not None and begin > 0 and begin & (begin - 1) == 0 and still and (up or down):
                yield variable, body

    def _is_power(self, node: Node, deep: int = 0) -> bool:
        node, view = unwrapped(node), self.view
        value = view.value(node)
        if value is not None:
            return value > 0 and value & (value - 1) == 0
        if node.type == "identifier":
            name = view.code(node)
            if any(name == v and b.start_byte <= node.start_byte < b.end_byte for v, b in self.loops):
                return True
            one = self._declared(node)
            return (
                one is not None
                and one.value is not None
                and deep < _DEEP
                and self._is_power(one.value, deep + 1)
            )
        if node.type != "binary_expression" or operator_of(node) not in ("*", "<<"):
            return False
        left, right = field(node, "left"), field(node, "right")
        if operator_of(node) == "<<":
            return self._is_power(left, deep) and view.value(right) is not None
        return self._is_power(left, deep) and self._is_power(right, deep)

    def _is_natural(self, node: Node, deep: int = 0) -> bool:
        """Whether an expression is never below zero, or has no sign."""
        node, view = unwrapped(node), self.view
        value = view.value(node)
        if value is not None:
            return value >= 0
        if kind_of(view, node) == "unsigned int" or _THREADS.fullmatch(squeezed(view.code(node))):
            return True
        if node.type == "binary_expression" and operator_of(node) in ("+", "*", "/", "%", ">>"):
            return all(self._is_natural(field(node, side), deep) for side in ("left", "right"))
        if node.type != "identifier" or deep >= _DEEP:
            return self._is_power(node)
        return self._is_power(node) or self._counts_up(node, deep) or self._is_made_natural(node, deep)

    def _is_made_natural(self, node: Node, deep: int) -> bool:
        one = self._declared(node)
        return one is not None and one.value is not None and self._is_natural(one.value, deep + 1)

    def _counts_up(self, node: Node, deep: int) -> bool:
        """Whether a variable is a loop's that begins at zero or above, and goes up."""
        outer = node.parent
        while outer is not None and outer.id != self.view.body.id:
            loop = counting(self.view.expanded, outer) if outer.type == "for_statement" else None
            if loop is not None and loop.variable == self.view.code(node) and loop.first is not None:
                given = {p.name for p in self.view.kernel.parameters} & set(
                    WORD.findall(_MEMBER.sub("", loop.step))
                )
                return not (loop.downward or given or "-" in loop.step) and self._is_natural(
                    loop.first, deep + 1
                )
            outer = outer.parent
        return False

    def _declared(self, name: Node) -> Declared | None:
        """The declaration of a variable that keeps its first value."""
        view = self.view
        binding = view.expanded.constants.binding(view.code(name), name.start_byte)
        if binding is None or not is_set_once(view.tree, binding):
            return None
        begin, end = binding.declaration
        for node in walk(view.body):
            if node.type == "declaration" and node.start_byte <= begin and end <= node.end_byte + 1:
                found = next((d for d in plainly_declared_in(view, node) if d.name == view.code(name)), None)
                if found is not None and not found.stars:
                    return found
        return None


def _written(view: View, node: Node, found: list[Node]) -> str:
    left, right = (_side(view, field(node, side), found) for side in ("left", "right"))
    if operator_of(node) == "%":
        return _bracketed(node, f"{_tight(left)} & ({_tight(right)} - 1)")
    return _bracketed(node, f"{_tight(left)} >> (__ffs({right}) - 1)")


def _side(view: View, node: Node, found: list[Node]) -> str:
    """An operand, with the divisions inside it written anew."""
    node = unwrapped(node)
    mine = [n for n in found if node.start_byte <= n.start_byte and n.end_byte <= node.end_byte]
    inside = {n.id for one in mine for n in walk(one) if n.id != one.id}
    outer = [(n, _written(view, n, found)) for n in mine if n.id not in inside]
    return outer[0][1] if outer and outer[0][0].id == node.id else substituted(view, node, outer)


def _bracketed(node: Node, code: str) -> str:
    """Code in brackets, unless it has some around it or stands alone."""
    outer = node.parent
    alone = outer is None or outer.type in ("parenthesized_expression", "init_declarator", "argument_list")
    return code if alone else f"({code})"


def _tight(code: str) -> str:
    """Code that may stand beside any operator."""
    enclosed = code.startswith("(") and matching(code, 0) == len(code)
    return code if enclosed or re.fullmatch(r"[\w.]+", code) else f"({code})"


REWRITE = Rewrite(
    slug="divide-by-shift",
    title="Divide by powers of two with shifts and masks",
    apply=refusing(_apply),
    answers=("integer-division",),
    useless_at="dram",
    chance=0.7,
    gain=1.5,
)
