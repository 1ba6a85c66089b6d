# SPDX-License-Identifier: Apache-2.0
"""repeated-work

**What.** Costly functions (powers, sines, exponentials) are computed again by every block along an axis of the grid
that their arguments do not depend on.

**Why it costs.** All those blocks work out the same values: 32 attention heads compute the same angle 32 times.

**Wrong**

```cuda
int position = blockIdx.x, head = blockIdx.y;
float angle = position * powf(10000.0f, -2.0f * i / d);
float c = cosf(angle), s = sinf(angle);    // nothing here depends on the head
```

**Right**

```cuda
float2 cs = table[position * (d / 2) + i]; // computed once, by a kernel of its own
```

**Evidence.** The names that each axis of the grid flows into, and the calls whose arguments hold none of them; in
SASS, the arithmetic on their lines, weighed by its loops, against the cycles of every pipe and of memory.

**Threshold.** Twenty instructions, a fifth of the kernel's time in the bounded model, and an axis that is launched
with more than one block.

**References.** CUDA C++ Best Practices Guide, "Instruction Optimization"; vLLM's cached cosines and sines of rotary
embeddings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from warplens_tools.cuda.facts.lane_names import names_from
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.gain import removal_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.arithmetic import arithmetic_on
from warplens_tools.micro.common.judges import judge_by_arithmetic

#: Instructions on the lines of the calls from which they are worth a table.
COSTLY = 20
_CALL = re.compile(
    r"(?<![\w.>])(?:std::)?(?:__)?(pow|sin|cos|tan|sincos|exp|exp2|exp10|log|log2|log10|erf|tanh|cbrt|atan2?|acos|asin)f?\s*"
    r"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
)
_CHANGED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)")
#: A name, and no suffix of a number.
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WORD = re.compile(r"[A-Za-z_]\w*")


class RepeatedWork(MicroTool):
    """Costly functions of values that an axis of the grid does not change."""

    code = "WL309"
    slug = "repeated-work"
    title = "The same values computed by many blocks"
    avoid = (
        "Do not compute it once in one block and read it in others of the same launch: blocks run in no "
        "order."
    )
    rule_words = "XU|transcendental|pipeline is the highest"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")
    #: Speedup in the bounded model from which it is reported.
    worth = 1.2
    judges = (judge_by_arithmetic,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the costliest line, for the axis with the most blocks."""
        found = [self._along(axis) for axis in "zyx"] if self.sass else []
        told = [finding for finding in found if finding is not None]
        best = max(told, key=lambda f: f.gain.estimate if f.gain is not None else 1.0, default=None)
        if best is not None:
            yield best

    def _along(self, axis: str) -> Finding | None:
        index, blocks = f"blockIdx.{axis}", self.view.launches.grid.get(f"gridDim.{axis}")
        if index not in self.view.body or blocks == 1:
            return None
        body = re.sub(rf"\bblockIdx\s*\.\s*{axis}\b", f"blockIdx_{axis}", self.view.body)
        # Each name of `int p = a, h = b;` has its own value.
        body = re.sub(r",(?=\s*\w+\s*=[^=])", ";", body)
        # `tile[y][x] = v` is set as `tile[y, x] = v` is.
        body = re.sub(r"\]\s*\[", ",", body)
        changing = names_from(body, frozenset({f"blockIdx_{axis}"}))
        lines = self._lines(changing | {f"blockIdx_{axis}"}, axis)
        here = [i for n in lines for i in arithmetic_on(self.sass, n)]
        gain = removal_gain(self.sass, here, self.view.traffic.cycles() | self.view.waiting.start)
        if len(here) < COSTLY or gain is None or gain.estimate < self.worth:
            return None
        line = max(lines, key=lambda n: self.sass.weigh(frozenset(arithmetic_on(self.sass, n))))
        names = " and ".join(dict.fromkeys(name for n in lines for name in lines[n]))
        times = f"each of {blocks} blocks" if blocks is not None else "every block"
        message = (
            f"{names} of values that do not depend on {index}: {times} along that axis computes them again, in "
            f"{len(here)} instructions."
        )
        guidance = (
            f"Compute them once into a table that all blocks along {axis} read, or let each thread handle several "
            f"values of {index} with what it computed."
        )
        if self._is_same_for_all(lines):
            message = (
                f"{names} of values that are the same for the whole grid: every thread computes them again, in "
                f"{len(here)} instructions."
            )
            guidance = "Compute them once on the host, and hand them to the kernel as arguments."
        return self.finding(
            line,
            confidence="medium",
            missing=() if blocks is not None else ("the grid size",),
            message=message,
            guidance=guidance,
            evidence=(
                self.view.observe(
                    "calls with arguments that the axis does not change", float(len(lines)), tier="source"
                ),
                self.view.observe(
                    "arithmetic instructions of these lines", float(len(here)), "", float(COSTLY)
                ),
            ),
            gain=Gain.of(gain.estimate, gain.estimate),
        )

    def _is_same_for_all(self, lines: Iterable[int]) -> bool:
        """Whether every argument of the lines' calls comes from the kernel's plain parameters and constants alone."""
        parameters = {p.name for p in self.view.kernel.parameters if not p.pointer}
        kept = parameters - set(_CHANGED.findall(self.view.body))
        calls = [c for n in lines for c in _CALL.finditer(self.view.text.line_text(n))]
        words = {w for c in calls for w in _NAME.findall(c[2])}
        return bool(words & kept) and words <= kept

    def _lines(self, changing: frozenset[str], axis: str) -> dict[int, tuple[str, ...]]:
        """Lines of the kernel with calls of which no argument changes along the axis, and the functions' names."""
        found: dict[int, tuple[str, ...]] = {}
        body = self.view.kernel.body
        for line in range(body.line, body.end_line + 1):
            text = re.sub(rf"\bblockIdx\s*\.\s*{axis}\b", f"blockIdx_{axis}", self.view.text.line_text(line))
            calls = list(_CALL.finditer(text))
            if calls and not any(set(_WORD.findall(call[2])) & changing for call in calls):
                found[line] = tuple(call[1] for call in calls)
        return found
