# SPDX-License-Identifier: Apache-2.0
"""How many bits the integers in a kernel's registers have, and how many of the lowest are zero, by its PTX."""

from __future__ import annotations

import re

from warplens_tools.toolchain.ptx_flow import Flow, Step

_LOAD = re.compile(r"ld(?:\.\w+(?:::\w+)*)*\.[ub](8|16|32|64)\Z")
_WIDER = re.compile(r"cvt\.[us](8|16|32|64)\.u(8|16|32|64)\Z")
#: Threads of a block and lanes of a warp (CUDA programming guide, technical specifications).
_SPECIAL = {"%tid": 10, "%laneid": 5, "%ntid": 11}
_ALL = 64
#: Followed so far: words that rounds of mixing make are not.
_DEEPEST = 40


class Bits:
    """Bounds for the registers of one kernel."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._many: dict[str, int] = {}
        self._depth = 0
        self._zeros: dict[str, int] = {}

    def constant(self, source: str) -> int | None:
        """The value of a number that is written, or of a register that holds nothing else."""
        if re.fullmatch(r"#-?(?:0[xX][\da-fA-F]+|\d+)U?", source):
            return int(source[1:].rstrip("U"), 0)
        steps = self._flow.steps.get(source, ())
        if len(steps) == 1 and steps[0].name.startswith("mov.") and steps[0].sources[:1] != (source,):
            return self.constant(steps[0].sources[0]) if steps[0].sources[0].startswith("#") else None
        return None

    def many(self, source: str) -> int:
        """The bits that a number may have: 8 of a byte that was loaded; all of its register where that is not known."""
        number = self.constant(source)
        if number is not None:
            return number.bit_length() if number >= 0 else _width(source)
        if source in _SPECIAL:
            return _SPECIAL[source]
        if source not in self._many:
            if self._depth > _DEEPEST:
                return _width(source)
            # what goes round may be anything
            self._many[source] = _width(source)
            self._depth += 1
            steps = self._flow.steps.get(source, ())
            found = max((self._made(source, step) for step in steps), default=_width(source))
            self._depth -= 1
            self._many[source] = min(found, _width(source))
        return self._many[source]

    def _made(self, register: str, step: Step) -> int:
        name, sources = step.name, step.sources
        if (load := _LOAD.match(name)) is not None:
            return int(load[1])
        if not sources:
            return _width(register)
        if (wider := _WIDER.match(name)) is not None:
            return min(int(wider[1]), int(wider[2]), self.many(sources[0]))
        number = self.constant(sources[1]) if len(sources) > 1 else None
        if number is not None and (by := self._by_constant(name, sources[0], number)) is not None:
            return by
        if name.startswith(("and.b", "min.u")):
            return min(map(self.many, sources))
        if name.startswith(("or.b", "xor.b", "max.u", "selp.", "mov.")):
            return max(map(self.many, sources[:2]))
        if name.startswith(("mul.lo.", "mul.wide.u")):
            return sum(map(self.many, sources[:2]))
        if name.startswith(("add.s", "add.u")):
            return max(map(self.many, sources)) + 1
        return 7 if name.startswith(("popc.", "clz.")) else _width(register)

    def _by_constant(self, name: str, source: str, number: int) -> int | None:
        if name.startswith("shr.u"):
            return max(0, self.many(source) - number)
        if name.startswith("shl.b"):
            return self.many(source) + number
        return (number - 1).bit_length() if name.startswith("rem.u") and number > 0 else None

    def zeros(self, source: str) -> int:
        """How many of a number's lowest bits are zero, at least."""
        number = self.constant(source)
        if number is not None:
            return (number & -number).bit_length() - 1 if number else _ALL
        if not self._zeros:
            self._settle()
        return self._zeros.get(source, 0)

    def _settle(self) -> None:
        self._zeros = dict.fromkeys(self._flow.steps, _ALL)
        changed = True
        while changed:
            changed = False
            for register, steps in self._flow.steps.items():
                least = min(map(self._lowest, steps))
                if least < self._zeros[register]:
                    self._zeros[register], changed = least, True

    def _lowest(self, step: Step) -> int:
        name, sources = step.name, step.sources
        if not sources:
            return 0
        number = self.constant(sources[1]) if len(sources) > 1 else None
        if name.startswith("shl.b") and number is not None:
            return min(_ALL, self.zeros(sources[0]) + number)
        if name.startswith(("mul.lo", "mul.wide")):
            return min(_ALL, sum(map(self.zeros, sources[:2])))
        if name.startswith("and.b"):
            return max(map(self.zeros, sources))
        if name.startswith(("or.b", "xor.b", "add.", "sub.", "min.", "max.")):
            return min(map(self.zeros, sources))
        if name.startswith("selp."):
            return min(map(self.zeros, sources[:2]))
        if name.startswith(("mov.", "cvt.u", "cvt.s")) and "f" not in name:
            return self.zeros(sources[0])
        return 0


def _width(register: str) -> int:
    return 64 if register.startswith("%rd") else 16 if register.startswith("%rs") else 32
