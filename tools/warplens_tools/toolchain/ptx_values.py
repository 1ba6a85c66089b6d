# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a kernel are worked out from, floats among them, by its PTX: which parameters by value, and which
pointers they are loaded behind. Where something lies is no part of what it is, nor is what it is chosen by."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.toolchain.ptx_flow import Flow, split_operands

_INSTRUCTION = re.compile(r"([a-z][\w.]*(?:::[\w.]+)*)[ \t]+([^;{}]*(?:\{[^{}]*\}[^;{}]*)*);")
_REGISTER = re.compile(r"%[a-z]+\d+")
_PLACE = re.compile(r"\[([^\]]*)\]")
_ODD = re.compile(r"-?\d*[13579]")
_PREDICATE = re.compile(r"%p\d+\Z")
#: What blocks and threads keep for themselves: whatever is stored there may be loaded there.
_KEPT = re.compile(r"(?:ld|st)\.(?:volatile\.)?(?:shared|local)")
_FETCHED = re.compile(r"cp\.async\.(?:ca|cg)\.shared")
_NO_RESULT = ("st.", "red.", "bra", "ret", "bar.", "prefetch", "call", "cp.", "fence", "membar")


class Values:
    """What each register of one kernel is made of."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        #: Instructions that make a register: the name, and what it is made of.
        self.made: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        #: All instructions: the name, and each operand.
        self.instructions: list[tuple[str, tuple[str, ...]]] = []
        self._kept: set[str] = set()
        loads: list[tuple[str, str]] = []
        for name, text in _INSTRUCTION.findall(flow.body):
            operands = tuple(split_operands(text))
            self.instructions.append((name, operands))
            if name.startswith(_NO_RESULT):
                self._keeps(name, operands)
                continue
            for register in _REGISTER.findall(operands[0]) if operands else ():
                if _KEPT.match(name):
                    loads.append((register, name))
                else:
                    made = "scaled" if _is_scaled(name, operands) else name
                    self.made.setdefault(register, []).append((made, tuple(self._sources(name, operands))))
        kept = tuple(sorted(self._kept))
        for register, name in loads:
            self.made.setdefault(register, []).append((name, kept))
        self._known: dict[tuple[str, re.Pattern[str] | None], frozenset[str]] = {}

    def origins(self, register: str, through: re.Pattern[str] | None = None) -> frozenset[str]:
        """The parameters that a register is worked out from by such instructions alone: `2` by value, `@0` a pointer
        behind which something is loaded."""
        return frozenset(one for one in self.behind(register, through) if not one.startswith("%"))

    def behind(self, register: str, through: re.Pattern[str] | None = None) -> frozenset[str]:
        """All registers, and parameters, that a register is made of by such instructions, and itself."""
        key = register, through
        if key not in self._known:
            seen, left = {register}, [register]
            while left:
                for name, sources in self.made.get(left.pop(), ()):
                    if through is None or through.match(name):
                        left += [s for s in sources if s not in seen]
                        seen |= set(sources)
            self._known[key] = frozenset(seen)
        return self._known[key]

    def _sources(self, name: str, operands: tuple[str, ...]) -> Iterator[str]:
        if name.startswith("ld.param"):
            found = re.search(r"_param_(\d+)\b", operands[-1])
            yield from [found[1]] if found else []
            return
        if name.startswith(("ld.", "ldu.", "atom.")):
            yield from self._behind(operands)
            return
        for operand in operands[1:]:
            yield from (r for r in _REGISTER.findall(operand) if not _PREDICATE.match(r))

    def _behind(self, operands: tuple[str, ...]) -> Iterator[str]:
        for place in _PLACE.findall(" ".join(operands)):
            for register in _REGISTER.findall(place):
                yield from (f"@{base}" for base in self._flow.bases(register))

    def _keeps(self, name: str, operands: tuple[str, ...]) -> None:
        if _KEPT.match(name) and len(operands) > 1:
            self._kept |= set(_REGISTER.findall(operands[1]))
        elif _FETCHED.match(name):
            self._kept |= set(self._behind(operands[1:2]))


def _is_scaled(name: str, operands: tuple[str, ...]) -> bool:
    """Whether one integer is multiplied by an odd number of the text: each has another product."""
    return name.startswith("mul.lo.") and len(operands) == 3 and _ODD.fullmatch(operands[2]) is not None
