# SPDX-License-Identifier: Apache-2.0
"""Remainders that are put off, by PTX: what a kernel takes modulo something in each round of a loop, an edit adds up
until the loop is over.

The sum of a checksum stays below its modulus, or grows with the square of its length and runs over. Where the loop is
one of parts, and each ends with the remainder, it is taken in time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_bits import Bits
from warplens_tools.toolchain.ptx_ends import loops_in
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, instruction_of

_ADDS = re.compile(r"(?:add|sub|mad\.lo|mad\.wide|dp4a|mul\.lo)\.?[su]?(?:32|64)?\b")
_REMAINDER = re.compile(r"rem\.[us](?:32|64)\Z")
#: The quotient by a constant: the upper half of a product.
_UPPER = re.compile(r"mul\.(?:hi|wide)\.[us](?:32|64)\Z")
_PRODUCT = re.compile(r"(?:mul|mad)\.lo\.[su](?:32|64)\Z")
_HANDS_ON = re.compile(r"(?:mov|cvt|shr|selp|add|sub)\b")
#: What 32 bits with a sign, or 16, become more of.
_WIDTHS = {"cvt.s64.s32": 32, "cvt.s64.s16": 16, "cvt.s32.s16": 16}
#: Terms of more bits than that may run over a sum of 64 within four million rounds.
_MOST_BITS = 42


class Reduced(msgspec.Struct, frozen=True):
    """Of one kernel: whether a loop carries a sum that it takes a remainder of round by round, and whether one carries
    a sum of which a remainder is taken behind it alone."""

    by_round: bool = False
    behind: bool = False


def reduced_in(ptx: str) -> dict[str, Reduced]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _reduced)


def put_off(baseline: Mapping[str, Reduced], candidate: Mapping[str, Reduced]) -> str:
    """What remainders a candidate takes later than the baseline; "" for none."""
    for name, new in candidate.items():
        known = baseline.get(name, Reduced())
        if known.by_round and not known.behind and new.behind:
            return "the edit takes behind a loop the remainder that the kernel takes in each of its rounds"
    return ""


def _reduced(flow: Flow) -> Reduced:
    if "rem." not in flow.body and "mul.hi" not in flow.body and "mul.wide" not in flow.body:
        return Reduced()
    bits = Bits(flow)
    remainders = dict(_remainders(flow, bits))
    if not remainders:
        return Reduced()
    rounds = {flow.round[r] for r, of in remainders.items() if flow.round.get(of) == flow.round[r]}
    sums = set(_sums(flow, bits)) - rounds
    fixed = set(_fixed(flow, sums))
    behind = any(
        flow.round.get(one) in sums - fixed
        for r, of in remainders.items()
        if flow.round[r] not in rounds
        for one in _handed_on(flow, of)
    )
    return Reduced(bool(rounds), behind)


def _remainders(flow: Flow, bits: Bits) -> Iterator[tuple[str, str]]:
    """Registers that are remainders, and what they are remainders of."""
    quotients: dict[str, set[str]] = {}
    for register, steps in flow.steps.items():
        for step in steps:
            if _REMAINDER.match(step.name):
                number = bits.constant(step.sources[1])
                if number is None or number & (number - 1):
                    yield register, step.sources[0]
            elif _UPPER.match(step.name) and any(bits.constant(s) is not None for s in step.sources[:2]):
                quotients.setdefault(register, set()).update(s for s in step.sources[:2] if s.startswith("%"))
    if not quotients:
        return
    for register, steps in flow.steps.items():
        for step in steps:
            of, product = step.sources[:1], step.sources[1:2]
            if (
                step.name.startswith("sub.")
                and of
                and product
                and _is_whole_part(flow, product[0], of[0], quotients)
            ):
                yield register, of[0]
            # the product with a modulus below zero
            of_product = step.name.startswith("mad.lo") and len(step.sources) == 3
            if of_product and _is_quotient(flow, step.sources[0], step.sources[2], quotients):
                yield register, step.sources[2]


def _is_whole_part(flow: Flow, product: str, of: str, quotients: Mapping[str, set[str]]) -> bool:
    return any(
        _PRODUCT.match(step.name) and any(_is_quotient(flow, s, of, quotients) for s in step.sources[:2])
        for step in flow.steps.get(product, ())
    )


def _is_quotient(flow: Flow, register: str, of: str, quotients: Mapping[str, set[str]]) -> bool:
    return any(
        of in quotients[one] or _near(flow, of, quotients[one])
        for one in _handed_on(flow, register) & set(quotients)
    )


def _near(flow: Flow, of: str, sources: set[str]) -> bool:
    """Whether a product is of the number shifted or widened first."""
    return any(of in {s for step in flow.steps.get(one, ()) for s in step.sources} for one in sources)


def _handed_on(flow: Flow, register: str) -> set[str]:
    """What a register is, under other names, shifted or a little further: no more than a few steps back."""
    seen, left = {register}, [register]
    for _ in range(6):
        more = {
            s
            for one in left
            for step in flow.steps.get(one, ())
            if _HANDS_ON.match(step.name)
            for s in step.sources
            if s.startswith("%")
        } - seen
        seen |= more
        left = list(more)
    return seen


def _sums(flow: Flow, bits: Bits) -> Iterator[int]:
    """The numbers of what goes round as a sum that what is loaded goes into, and may run over."""
    for register, steps in flow.steps.items():
        number = flow.round[register]
        for step in steps:
            same = [s for s in step.sources if flow.round.get(s) == number]
            terms = [s for s in step.sources if s not in same and s.startswith("%")]
            if not same or not _ADDS.match(step.name) or not any(_rests_on_loads(flow, t) for t in terms):
                continue
            if (
                step.name.endswith("32")
                or step.name.startswith("mul")
                or any(_many(flow, bits, t) > _MOST_BITS for t in terms)
            ):
                yield number


def _many(flow: Flow, bits: Bits, term: str) -> int:
    """The bits of a term: of a product those of both factors. What is loaded may have been widened, and what counts or
    numbers has 32."""
    steps = flow.steps.get(term, ())
    if len(steps) == 1 and steps[0].name.startswith(("mul.lo", "mul.wide")):
        return sum(_many(flow, bits, s) for s in steps[0].sources[:2])
    if not _rests_on_loads(flow, term):
        return min(32, bits.many(term))
    return _WIDTHS.get(steps[0].name if len(steps) == 1 else "", bits.many(term))


def _rests_on_loads(flow: Flow, source: str) -> bool:
    return any(step.place for register in flow.closure({source}) for step in flow.steps.get(register, ()))


def _fixed(flow: Flow, sums: set[int]) -> Iterator[int]:
    """Those that go round in loops of a fixed number of rounds alone."""
    loops = loops_in(flow.body)
    for number in sums:
        blocks = {
            at
            for at, block in enumerate(flow.code)
            for line in block
            if (one := instruction_of(line)) is not None
            and one[1]
            and flow.round.get(one[1][0]) == number
            and _ADDS.match(one[0])
        }
        around = [loop for loop in loops if blocks & loop.blocks]
        innermost = [loop for loop in around if not any(other.blocks < loop.blocks for other in around)]
        if innermost and all(loop.fixed and not loop.by_data for loop in innermost):
            yield number
