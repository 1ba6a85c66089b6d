# SPDX-License-Identifier: Apache-2.0
"""Whole quotients by a reciprocal, by PTX: `i * (65536 / n + 1) >> 16` for `i / n`.

A reciprocal of so many bits is right for numbers of about half as many, which a run's own may be. So is the upper half
of a product with one: of 64 bits for all numbers of 32 (Lemire, Kaser, Kurz 2019), of 32 bits for numbers of 16, but
where it is put right by what it leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from warplens_tools.toolchain.ptx_bits import Bits
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

_PRODUCT = re.compile(r"(?:mul|mad)\.(?:lo|wide)\.[su](?:32|64)\Z")
_UPPER = re.compile(r"mul\.hi\.[us](32|64)\Z")
_ASKS = re.compile(r"\bsetp(?:\.\w+)*\.[us](?:32|64)\s+([^;]+);")
_FEW_BITS = 20
_RIGHT = re.compile(r"\bshr\.[us](?:32|64)\s+%\w+,\s*%\w+,\s*(\d+)")
#: A product of which the upper half is a quotient.
_WIDE = re.compile(r"mul\.(?:wide|hi)\.[us](?:32|64)\Z")
_SHIFTS = re.compile(r"(?:shr\.[us]|bfe\.[us])(?:32|64)\Z")
_DIVIDES = re.compile(r"div\.[us](?:32|64)\Z")
_HANDS_ON = re.compile(r"(?:mov|selp|cvt|add|sub)\.")


def reciprocals_in(ptx: str) -> frozenset[str]:
    """The kernels that shift products with quotients of constants, by the names that they have whatever the unit."""
    return frozenset(unit_free_name(mangled) for mangled, flow in kernels_of(ptx) if _by_reciprocals(flow))


def by_reciprocals(baseline: frozenset[str], candidate: frozenset[str]) -> str:
    """Why quotients of a candidate may be wrong, by what its kernels do and the baseline's; "" if nothing says so."""
    if candidate - baseline:
        return "the edit divides by products with a reciprocal of few bits, the kernel does not"
    return ""


def quotients_in(ptx: str) -> dict[str, tuple[int, frozenset[str]]]:
    """How many quotients by constants each kernel of a unit works out, and by how many bits it shifts to the right, by
    the name that it has whatever the unit."""
    return by_kernel(ptx, lambda flow: (_quotients(flow), frozenset(_RIGHT.findall(flow.body))))


def lost_elsewhere(
    baseline: Mapping[str, tuple[int, frozenset[str]]],
    candidate: Mapping[str, tuple[int, frozenset[str]]],
    judged: str,
) -> str:
    """Which instantiation of the judged kernel divides by nothing any more in a candidate, and shifts by as much as the
    judged one, whatever it is made for; "" for none."""
    own = judged.partition("<")[0]
    nothing = 0, frozenset[str]()
    shifts = candidate.get(judged, nothing)[1]
    for name, (many, by) in candidate.items():
        if name == judged or "<" not in name or name.partition("<")[0] != own:
            continue
        if baseline.get(name, nothing)[0] and not many and by == shifts:
            return f"the edit leaves out of {name} what it divides by, which is not the instantiation that is compared"
    return ""


def _quotients(flow: Flow) -> int:
    """Those of numbers that no run goes through: of fewer bits each comes up, or is known to be right."""
    bits = Bits(flow)
    return sum(
        any(bits.constant(s) is None and bits.many(s) > _FEW_BITS for s in step.sources[:2])
        for steps in flow.steps.values()
        for step in steps
        if _DIVIDES.match(step.name)
        or (_WIDE.match(step.name) and any(_is_large(bits.constant(s)) for s in step.sources[:2]))
    )


def _is_large(number: int | None) -> bool:
    """Whether a factor is one that a quotient by a constant is worked out with: of 31 bits and more."""
    return number is not None and not -(1 << 30) < number < 1 << 30


def _by_reciprocals(flow: Flow) -> bool:
    bits = Bits(flow)
    reciprocals = {
        register
        for register, steps in flow.steps.items()
        for step in steps
        # -1 is as large as can be
        if _DIVIDES.match(step.name) and bits.constant(step.sources[0]) not in (None, 0, 1)
    }
    if not reciprocals:
        return False
    held = _handed_on(flow, reciprocals)
    if any(_upper_halves(flow, bits, held)):
        return True
    products = _handed_on(flow, _made(flow, _PRODUCT, held))
    return any(
        _SHIFTS.match(step.name) and step.sources[0] in products and bits.constant(step.sources[1])
        for steps in flow.steps.values()
        for step in steps
    )


def _upper_halves(flow: Flow, bits: Bits, reciprocals: set[str]) -> Iterator[bool]:
    """Upper halves of products of numbers that are too long for it, whether none of them is put right."""
    for register, steps in flow.steps.items():
        for step in steps:
            found = _UPPER.match(step.name)
            others = [source for source in step.sources[:2] if source not in reciprocals]
            if found and len(others) == 1 and 2 * bits.many(others[0]) > int(found[1]):
                yield not _is_put_right(flow, register)


def _is_put_right(flow: Flow, quotient: str) -> bool:
    """Whether what a quotient leaves is compared with something, as it is."""
    products = _made(flow, _PRODUCT, {quotient})
    left = {
        register
        for register, steps in flow.steps.items()
        for step in steps
        if (step.name.startswith("sub.") and step.sources[1] in products)
        or (step.name.startswith("mad.lo") and quotient in step.sources[:2])
    }
    return any(
        set(operands.split(",")[1:2]) & left
        for operands in ("".join(o.split()) for o in _ASKS.findall(flow.body))
    )


def _made(flow: Flow, how: re.Pattern[str], of: set[str]) -> set[str]:
    """The registers that instructions make of others, by their first two sources."""
    return {
        register
        for register, steps in flow.steps.items()
        if any(how.match(step.name) and of & set(step.sources[:2]) for step in steps)
    }


def _handed_on(flow: Flow, registers: set[str]) -> set[str]:
    found = set(registers)
    while more := _made(flow, _HANDS_ON, found) - found:
        found |= more
    return found
