# SPDX-License-Identifier: Apache-2.0
"""restrict-const

Tell the compiler that a kernel's buffers do not overlap, and which of them are only read.

Without `__restrict__` every store may change what a later load through another pointer reads, so the
load is repeated. With `const … __restrict__` a load can also take the read-only path.

```cuda
__global__ void scale(float* out, const float* in, float* gain, int n);

__global__ void scale(float* out, const float* in, float* gain, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < n; ++i) {
    out[row * n + i] = in[row * n + i] * gain[row];
  }
}
```

```cuda
__global__ void scale(float* __restrict__ out, const float* __restrict__ in, const float* __restrict__ gain, int n);

__global__ void scale(float* __restrict__ out, const float* __restrict__ in, const float* __restrict__ gain, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < n; ++i) {
    out[row * n + i] = in[row * n + i] * gain[row];
  }
}
```

`const` is added only where nothing in the kernel can write through the pointer: no store, no atomic, no
alias that is not const, no function that takes it as non-const. `__restrict__` is added only where no
launch in this file passes one buffer twice and the kernel does not mix the pointers. A parameter of
which neither holds stays as it is; forward declarations in the file are changed alike.
"""

from __future__ import annotations

import re

import msgspec

from warplens_tools.cuda.facts.aliasing import mixed, same_buffer
from warplens_tools.cuda.facts.read_only import only_read
from warplens_tools.cuda.facts.signatures import other_signatures
from warplens_tools.cuda.model import Kernel, Parameter, SourceModel
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.text import SourceText, Span, TextEdit

CAVEAT = (
    "undefined results if two of the buffers overlap; other files that declare the kernel must change too"
)


class _Change(msgspec.Struct, frozen=True):
    index: int
    const: bool
    restrict: bool


def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Qualify the pointer parameters in `target.names`, or all that allow it."""
    if kernel.macro or kernel.broken:
        return RewriteResult(refused="the kernel is written by a macro, or has a syntax error")
    tree = parse_tree(text)
    overlapping = same_buffer(tree, model, kernel)
    tangled = mixed(tree, kernel)
    signatures = other_signatures(tree, kernel)
    constant = frozenset() if signatures.fixed else only_read(tree, kernel)
    wanted = [p for p in kernel.parameters if _is_wanted(text, p, target)]
    blocked = overlapping | tangled
    changes = [
        _Change(
            kernel.parameters.index(p),
            const=p.name in constant and not p.const,
            restrict=p.name not in blocked and not p.restrict,
        )
        for p in wanted
    ]
    changes = [c for c in changes if c.const or c.restrict]
    if not changes or (target.names and any(name in blocked for name in target.names)):
        return RewriteResult(refused=_reason(wanted, overlapping, tangled))
    every = (kernel.parameters, *signatures.declarations)
    edits = [e for parameters in every for c in changes for e in _qualify(text, parameters[c.index], c)]
    names = ", ".join(kernel.parameters[c.index].name for c in changes)
    restricted = any(c.restrict for c in changes)
    return RewriteResult(tuple(edits), title=f"Qualify {names}", caveat=CAVEAT if restricted else "")


def _is_wanted(text: SourceText, parameter: Parameter, target: Target) -> bool:
    if not parameter.pointer or not parameter.name or "[" in parameter.type or "volatile" in parameter.type:
        return False
    if not text.slice(parameter.span).replace(" ", "").startswith(parameter.type.replace(" ", "")[:1]):
        return False
    listed = not target.names or parameter.name in target.names
    return listed and (not target.lines or parameter.span.line in target.lines)


def _reason(wanted: list[Parameter], overlapping: frozenset[str], tangled: frozenset[str]) -> str:
    names = {p.name for p in wanted}
    if same := sorted(names & overlapping):
        return (
            f"a launch in this file passes one buffer as {' and '.join(sorted(overlapping))}" if same else ""
        )
    if names & tangled:
        return f"the kernel mixes the pointers {' and '.join(sorted(tangled))}"
    return (
        "every pointer parameter is qualified already" if wanted else "it has no pointer parameter to qualify"
    )


def _qualify(text: SourceText, parameter: Parameter, change: _Change) -> list[TextEdit]:
    start = text.offset(parameter.span.line, parameter.span.column)
    written = text.slice(parameter.span)
    edits = []
    if change.const:
        edits.append(TextEdit(text.span(start, start), "const "))
    if change.restrict:
        at = start + _name_at(written, parameter.name)
        edits.append(TextEdit(_point(text, at), _restrict(written, at - start)))
    return edits


def _name_at(written: str, name: str) -> int:
    """Where the name stands in a declaration; behind the last `*` where it has none."""
    after = written.rindex("*") + 1
    found = re.compile(rf"\b{re.escape(name)}\b").search(written, after) if name else None
    return found.start() if found else after


def _restrict(written: str, at: int) -> str:
    before = "" if written[at - 1] in " *\t\n" and at < len(written) else " "
    return f"{before}__restrict__" + (" " if at < len(written) and not written[at].isspace() else "")


def _point(text: SourceText, at: int) -> Span:
    return text.span(at, at)


REWRITE = Rewrite(
    slug="restrict-const",
    title="Add const and __restrict__ to pointer parameters",
    apply=apply,
    answers=("aliasing-reload",),
    chance=0.2,
    gain=1.1,
)
