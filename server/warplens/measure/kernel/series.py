# SPDX-License-Identifier: Apache-2.0
"""Sets of inputs that differ in their target or draw alone, and what is changed beside others."""

from __future__ import annotations

import msgspec

from warplens_tools.run.probe.job import Variant, VariantKind

#: Buffers of integers that are varied one at a time, and integers that are passed by value: so many of each.
BUFFERS, NUMBERS = 8, 4


def each(name: str, kind: VariantKind, many: int, first: int = 0) -> tuple[Variant, ...]:
    """One for each of so many targets."""
    return tuple(Variant(f"with {name} ({k + 1})", kind=kind, target=first + k) for k in range(many))


def drawn(name: str, kind: VariantKind, many: int) -> tuple[Variant, ...]:
    """So many draws of all targets together."""
    return tuple(Variant(f"with {name} ({k + 1})", kind=kind) for k in range(many))


#: What is changed beside numbers by value: a bound that no length of the program's lets one reach, a mask that only
#: comes with another width.
BESIDE = (
    Variant("mixed signs", kind="signs"),
    Variant("other signs and sizes in each buffer", kind="mingled"),
    Variant("runs of zeros", kind="blanks"),
    Variant("columns of zeros", kind="striped", target=1),
    Variant("floats a thousand times as large", 1000.0),
    Variant("other floats by value", kind="wide"),
    Variant("optional pointers null, or not", kind="toggled"),
    Variant("integers drawn anew", kind="redrawn"),
    Variant("integers zero", kind="vacant"),
)


def together(number: Variant, *others: int) -> Variant:
    """Both at once; `others` are places in `BESIDE`."""
    changed = tuple(BESIDE[k % len(BESIDE)] for k in others)
    place = f" ({number.target + 1})" if number.target >= 0 else ""
    name = f"{number.name}{place}, {' and '.join(b.name for b in changed)}"
    return Variant(name, kind=number.kind, target=number.target, beside=changed)


def beside(one: Variant, other: Variant) -> Variant:
    """Two conditions at once."""
    place = f" ({one.target + 1})" if one.target >= 0 else ""
    return msgspec.structs.replace(one, name=f"with {one.name}{place}, {other.name}", beside=(other,))
