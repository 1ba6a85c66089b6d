# SPDX-License-Identifier: Apache-2.0
"""inside-without-tests

Ask once whether all that a thread reads is inside, instead of at every access.

An image is clamped, padded or guarded at its edges, and all but a few threads do not come near them; yet each access
pays for its minimum, its maximum or its condition, and what two outputs read alike is not seen to be one element. Asked
once for the whole window, most threads go a way without any of that, and the others the old one.

```cuda
__global__ void blur(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  for (int j = -1; j <= 1; ++j) {
    int row = min(max(y + j, 0), height - 1);
    for (int i = -1; i <= 1; ++i) {
      if (x + i >= 0 && x + i < width) sum += in[row * width + x + i];
    }
  }
  out[y * width + x] = sum;
}
```

```cuda
__global__ void blur(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  const bool inside = y + 1 <= height - 1 &&
      y - 1 >= 0 &&
      x - 1 >= 0 &&
      x + 1 < width;
  if (inside) {
    for (int j = -1; j <= 1; ++j) {
      int row = y + j;
      for (int i = -1; i <= 1; ++i) {
        sum += in[row * width + x + i];
      }
    }
    out[y * width + x] = sum;
  } else {
    for (int j = -1; j <= 1; ++j) {
      int row = min(max(y + j, 0), height - 1);
      for (int i = -1; i <= 1; ++i) {
        if (x + i >= 0 && x + i < width) sum += in[row * width + x + i];
      }
    }
    out[y * width + x] = sum;
  }
}
```

Left alone: tests of data, of numbers without a sign, which wrap around, and kernels whose threads wait for each other.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.lexical import matching
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.rewrite.common.inside import Test, Tests
from warplens_tools.rewrite.common.reading import (
    View,
    field,
    refusing,
    require_apart,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

_VALUES = ("call_expression", "conditional_expression", "binary_expression")


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    nodes = statements(view.body)
    if not nodes or _is_done(view, nodes):
        raise Refused("it asks already whether all is inside")
    at = next((i for i, n in enumerate(nodes) if not _is_head(n) and any(Tests(view, nodes[i:]).of(n))), -1)
    if at < 0:
        raise Refused("it tests nothing that the thread's number decides")
    reader = Tests(view, nodes[at:])
    tests = [t for n in nodes[at:] for t in reader.of(n)]
    if all(t.node.type == "if_statement" and not reader.is_looped(t.node) for t in tests):
        raise Refused("it tests nothing more than once")
    return _written(view, nodes[at], nodes[-1], tests)


def _is_done(view: View, nodes: list[Node]) -> bool:
    last = nodes[-1]
    condition = unwrapped(field(last, "condition")) if last.type == "if_statement" else last
    declared = {d.name for n in nodes for d in plainly_declared_in(view, n) if d.type == "const bool"}
    return condition.type == "identifier" and view.code(condition) in declared


def _is_head(node: Node) -> bool:
    """Whether a statement ends threads that have nothing to do."""
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return False
    return statements(field(node, "consequence"))[-1].type == "return_statement"


def _written(view: View, first: Node, last: Node, tests: list[Test]) -> RewriteResult:
    style = Style(view)
    name, newline = style.local("inside"), view.text.newline
    begin, end = start_with_pragmas(view.file, view.start(first)), view.end(last)
    margin = re.match(r"[ \t]*", view.text.line_text(view.span(first).line))
    indent = margin[0] if margin is not None else ""
    body = view.text.text[begin:end]
    left = without(view, begin, end, tests)
    condition = f" &&{newline}{indent}{style.step * 2}".join(conditions(tests))
    text = newline.join(
        [
            f"const bool {name} = {condition};",
            f"{indent}if ({name}) {{",
            f"{indent}{style.step}{_deeper(left, style.step, newline)}",
            f"{indent}}} else {{",
            f"{indent}{style.step}{_deeper(body, style.step, newline)}",
            f"{indent}}}",
        ]
    )
    return RewriteResult(
        (TextEdit(view.text.span(begin, end), text),), title="Ask once whether all is inside"
    )


def conditions(tests: list[Test]) -> list[str]:
    """What holds where all tests do, each once."""
    holds = dict[str, str]()
    for one in (_plainly(h) for t in tests for h in t.holds):
        holds.setdefault(_bare(one), one)
    return list(holds.values())


def _plainly(condition: str) -> str:
    """Without zeros that are added, and brackets around a number below zero."""
    text = re.sub(r" [-+] 0(?: \* [\w.]+)*(?= [-+<>=]|\)|$)", "", condition)
    text = re.sub(r"\+ \(-(\w+)\)", r"- \1", text)
    return re.sub(r"(?<![\w>])\((\w+)\)", r"\1", text)


def _bare(condition: str) -> str:
    """Without brackets around its left side."""
    end = matching(condition, 0) if condition.startswith("(") else -1
    return condition[1 : end - 1] + condition[end:] if end > 0 else condition


def _deeper(text: str, step: str, newline: str) -> str:
    lines = text.split(newline)
    return newline.join([lines[0], *(f"{step}{line}" if line.strip() else line for line in lines[1:])])


def without(view: View, begin: int, end: int, tests: list[Test]) -> str:
    """The text without the tests: each node's text is what is left of it, from the inside out."""
    cuts, tested = list[tuple[int, int, str]](), {t.node.id for t in tests}
    for test in tests:
        low, high = view.start(test.node), view.end(test.node)
        if test.left is None:
            cuts.append(_dropped(view, test.node, low, high))
            continue
        inner, outer = view.start(test.left), view.end(test.left)
        loose = _is_loose(test) and unwrapped(test.left).id not in tested
        cuts.append((low, inner, "(" if loose else ""))
        cuts.append((outer, high, ")" if loose else ""))
    text, at = list[str](), begin
    for low, high, new in sorted(cuts):
        if low < at:
            raise Refused("a macro writes what would have to change")
        text += [view.text.text[at:low], new]
        at = high
    return "".join([*text, view.text.text[at:end]])


def _dropped(view: View, node: Node, low: int, high: int) -> tuple[int, int, str]:
    """The cut of a statement, with its line where it has one alone."""
    if node.parent is None or node.parent.type != "compound_statement":
        return low, high, ";"
    text = view.text.text
    line = text.rfind("\n", 0, low) + 1
    alone = not text[line:low].strip() and text[high : high + 1] in ("\n", "\r")
    return (line - len(view.text.newline), high, "") if alone and line else (low, high, "")


def _is_loose(test: Test) -> bool:
    """Whether what is left of an expression needs brackets where it stands."""
    if test.node.type not in _VALUES or test.left is None:
        return False
    plain = test.left.type in ("identifier", "number_literal", "call_expression", "parenthesized_expression")
    around = test.node.parent.type if test.node.parent is not None else ""
    return not plain and around not in ("init_declarator", "argument_list", "subscript_argument_list")


REWRITE = Rewrite(
    slug="inside-without-tests",
    title="Ask once whether all that a thread reads is inside",
    apply=refusing(_apply),
    answers=("low-ilp", "warp-divergence"),
    useless_at="dram",
    chance=0.5,
    gain=1.3,
)
