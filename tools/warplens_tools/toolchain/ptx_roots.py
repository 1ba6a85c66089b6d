# SPDX-License-Identifier: Apache-2.0
"""Places by a root or a logarithm of another place, by PTX: `(sqrtf(8 * n + 1) - 1) / 2` is a row of a triangle.

A float has 24 bits, a double 53: of larger numbers the root lies next to a whole one and comes out on either side. It
is right where it is put right, by one more or less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_values import Values

_ROOT = re.compile(r"(?:sqrt|rsqrt|lg2)\.\w+(?:\.\w+)*\.f(32|64)\Z")
_FROM_WHOLE = re.compile(r"cvt\.\w+\.f(32|64)\.[su](16|32|64)\Z")
_TO_WHOLE = re.compile(r"cvt\.\w+(?:\.\w+)*\.[su](?:16|32|64)\.f(?:32|64)\Z")
#: What a float is worked out by.
_WORKS_OUT = re.compile(r"(?:mov|cvt|selp|add|sub|mul|fma|div|rcp|neg|abs|min|max|sqrt|rsqrt|lg2)\b")
_HANDS_ON = re.compile(r"(?:mov|cvt)\b")
_BY_ONE = re.compile(r"(?:add|sub)\.[su](?:32|64)\Z")


def roots_in(ptx: str) -> frozenset[str]:
    """The kernels that make whole numbers of whole numbers' roots and never put them right, by the names that they have
    whatever the unit."""
    return frozenset(name for name, by in by_kernel(ptx, _by_roots).items() if by)


def by_roots(baseline: frozenset[str], candidate: frozenset[str]) -> str:
    """Why places of a candidate may be wrong, by what its kernels do and the baseline's; "" if nothing says so."""
    if candidate - baseline:
        return "the edit numbers something by a float's root or logarithm and never puts it right, the kernel does not"
    return ""


def _by_roots(flow: Flow) -> bool:
    values = Values(flow)
    wholes = {
        register
        for register, steps in values.made.items()
        for name, sources in steps
        if _TO_WHOLE.match(name) and any(_is_root(values, source) for source in sources)
    }
    return any(not _is_put_right(values, whole) for whole in wholes)


def _is_root(values: Values, register: str) -> bool:
    """Whether a float is worked out from the root of a whole number that may have too many bits for it."""
    for one in values.behind(register, _WORKS_OUT):
        for name, sources in values.made.get(one, ()):
            found = _ROOT.match(name)
            if found and any(_is_whole(values, source, found[1]) for source in sources):
                return True
    return False


def _is_whole(values: Values, register: str, bits: str) -> bool:
    return any(
        found is not None and int(found[2]) >= int(found[1]) and found[1] == bits
        for one in values.behind(register, _WORKS_OUT)
        for found in (_FROM_WHOLE.match(name) for name, _ in values.made.get(one, ()))
    )


def _is_put_right(values: Values, whole: str) -> bool:
    """Whether something is either the number or one more or less, as it turns out."""
    same = {r for r in values.made if whole in values.behind(r, _HANDS_ON)} | {whole}
    near = {
        register
        for register, steps in values.made.items()
        for name, sources in steps
        if _BY_ONE.match(name) and not same.isdisjoint(sources)
    }
    chosen = {r for r in values.made if any(name.startswith(("selp", "set.")) for name, _ in values.made[r])}
    return any(
        (near & made and same & made) or (register in near and chosen & made)
        for register, made in _choices(values)
    )


def _choices(values: Values) -> Iterator[tuple[str, set[str]]]:
    """Registers that may be one of several, or a sum, and what they are made of."""
    for register, steps in values.made.items():
        made = {source for _, sources in steps for source in sources}
        made |= {register} if len(steps) > 1 else set()
        if len(steps) > 1 or any(
            name.startswith(("selp", "min", "max")) or _BY_ONE.match(name) for name, _ in steps
        ):
            yield register, made
