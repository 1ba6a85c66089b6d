# SPDX-License-Identifier: Apache-2.0
"""Numbers taken for ones without a sign, by PTX: loaded integers that a kernel orders, or adds up, with their sign.

As long as none is below zero both do the same. Instantiations for other types, which a run may never launch, have such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.lazily import cached_property
from warplens_tools.toolchain.ptx_flow import Flow, Step, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

_LOAD = re.compile(r"ld\.global(?:\.\w+(?:::\w+)*)*\.[usb](?:32|64)\Z")
_HANDS_ON = re.compile(r"(?:mov|selp|min|max|shfl|redux\.sync\.(?:min|max))\b")
_ORDERS = re.compile(
    r"\b(setp\.(?:lt|le|gt|ge|lo|ls|hi|hs)(?:\.\w+)*?|min|max|redux\.sync\.(?:min|max))\.([su])(?:32|64)\s+([^;]+);"
)
_LOADS_WIDER = re.compile(r"ld\.global(?:\.\w+(?:::\w+)*)*\.([su])32\Z")
_WIDENS = re.compile(r"cvt\.([su])64\.[su]32\Z")
_REGISTER = re.compile(r"%(?:rd|r)\d+")


class Signs(msgspec.Struct, frozen=True):
    """Of one kernel: how it orders and widens loaded numbers, `s` with their sign, `u` without."""

    orders: frozenset[str] = frozenset()
    adds: frozenset[str] = frozenset()


def signs_in(ptx: str) -> dict[str, Signs]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return {unit_free_name(mangled): _Numbers(flow).signs() for mangled, flow in kernels_of(ptx)}


def without_signs(baseline: Mapping[str, Signs], candidate: Mapping[str, Signs]) -> str:
    """What a candidate takes for numbers without a sign and the baseline for ones with a sign; "" for nothing."""
    for name, new in candidate.items():
        known = baseline.get(name, Signs())
        if known.orders == {"s"} and "u" in new.orders:
            return (
                f"the edit orders integers as if none were below zero in {name}, the kernel minds their sign"
            )
        if known.adds == {"s"} and "u" in new.adds:
            return (
                f"the edit adds integers up as if none were below zero in {name}, the kernel minds their sign"
            )
    return ""


class _Numbers:
    """What one kernel does with what it loads."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def signs(self) -> Signs:
        """All of it."""
        orders = (
            sign
            for name, sign, operands in _ORDERS.findall(self._flow.body)
            if self._are_loaded(name, operands)
        )
        return Signs(frozenset(orders), frozenset(self._adds()))

    def _are_loaded(self, name: str, operands: str) -> bool:
        """Whether all that is ordered was loaded: places are held against lengths so as well."""
        held = _REGISTER.findall(operands.partition(",")[2])[: 1 if name.startswith("redux") else 2]
        return bool(held) and self._loaded.issuperset(held)

    def _adds(self) -> Iterator[str]:
        """How what goes into a loop's sums is widened."""
        flow = self._flow
        widened = {
            register: sign
            for register, steps in flow.steps.items()
            for step in steps
            if (sign := self._widens(register, step))
        }
        for register, steps in flow.steps.items() if widened else ():
            for step in steps:
                if step.name in ("add.s64", "add.u64") and self._turns(register, step.sources):
                    yield from (widened[source] for source in step.sources if source in widened)

    def _widens(self, register: str, step: Step) -> str:
        """How an instruction widens what is loaded to 64 bits, or loads it so; "" where it does neither."""
        if step.place:
            found = _LOADS_WIDER.match(step.name) if register.startswith("%rd") else None
        else:
            found = _WIDENS.match(step.name) if not self._loaded.isdisjoint(step.sources) else None
        return found[1] if found else ""

    def _turns(self, register: str, sources: tuple[str, ...]) -> bool:
        rounds = self._flow.round
        return any(rounds.get(source) == rounds[register] for source in sources)

    @cached_property
    def _loaded(self) -> frozenset[str]:
        """What was loaded in 32 bits or more, as it was."""
        flow = self._flow
        found = {r for r, steps in flow.steps.items() if any(s.place and _LOAD.match(s.name) for s in steps)}
        changed = True
        while changed:
            more = {
                register
                for register, steps in flow.steps.items()
                if register not in found
                and any(_HANDS_ON.match(step.name) and not found.isdisjoint(step.sources) for step in steps)
            }
            changed = bool(more)
            found |= more
        return frozenset(found)
