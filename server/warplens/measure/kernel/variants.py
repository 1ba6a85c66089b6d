# SPDX-License-Identifier: Apache-2.0
"""The sets of inputs on which results are compared beside the program's own."""

from __future__ import annotations

from warplens_tools.run.probe.job import Variant, VariantKind

#: Buffers of integers that are varied one at a time, and integers that are passed by value: so many of each.
_BUFFERS, _NUMBERS = 5, 4


def _each(name: str, kind: VariantKind, many: int) -> tuple[Variant, ...]:
    return tuple(Variant(f"with {name} ({k + 1})", kind=kind, target=k) for k in range(many))


#: One buffer at a time: what must not change in one, where ranges begin, keeps nothing else from being varied.
_ONE_BUFFER = (
    *_each("one buffer of integers drawn anew", "redrawn", _BUFFERS),
    *_each("one buffer of other integers", "ranged", _BUFFERS),
    *_each("one buffer of integers zero", "vacant", _BUFFERS),
)
_FULL_RANGE = _each("one buffer of integers of all sizes", "full", _BUFFERS)
_LESS = (
    Variant("with integers by value one less", kind="less"),
    Variant("with integers by value halved", kind="halved"),
    *_each("one integer by value one less", "less", _NUMBERS),
    Variant("with ones for zeros by value", kind="raised"),
    *_each("a one for a zero by value", "raised", _NUMBERS),
    *_each("one small integer by value larger", "more", _NUMBERS),
)
_OPTIONAL = _each("one optional pointer null, or not", "toggled", 3)
#: Input sets on which results are compared beside the program's own: other sizes, signs and values catch
#: constants and shortcuts that hold for the program's inputs alone, full mantissas a precision that averages out.
VARIANTS = (
    Variant("with noise", 1.0, 0.5),
    Variant("with full mantissas", 0.0),
    Variant("with other scalars", kind="scalars"),
    Variant("with numbers by value zero", kind="nulls"),
    Variant("with numbers by value far off", kind="wide"),
    *_OPTIONAL,
    Variant("with integers drawn anew", kind="redrawn"),
    Variant("with integers permuted", kind="permuted"),
    Variant("with zeros and ones among integers", kind="flags"),
    Variant("with integers nearly all alike", kind="skewed"),
    Variant("with integers repeated", kind="repeated"),
    Variant("with integers zero", kind="vacant"),
    *_LESS,
    Variant("with spikes", kind="spikes"),
    Variant("with zeros filled", kind="zeros"),
    Variant("with runs of zeros", kind="blanks"),
    Variant("with halves of zeros", kind="halves"),
    Variant("with zeros alone", kind="naught"),
    Variant("with NaN and infinity", kind="specials"),
    Variant("negated", -1.0),
    Variant("with mixed signs", kind="signs"),
    Variant("far from zero", kind="shifted"),
    Variant("scaled by 3", 3.0),
    Variant("scaled by 0.01", 0.01),
    Variant("scaled by 1000", 1000.0),
    Variant("scaled by 0.001", 0.001),
    *_ONE_BUFFER,
    *_FULL_RANGE,
)
#: A visit that chooses among many candidates draws one of each row, anew each time; one that confirms asks them all.
ALTERNATIVES = (
    (
        "with integers drawn anew",
        "with integers permuted",
        "with zeros and ones among integers",
        "with integers nearly all alike",
        "with integers repeated",
        "with integers zero",
    ),
    tuple(v.name for v in _ONE_BUFFER),
    tuple(v.name for v in _LESS),
    ("with spikes", "with zeros filled", "with NaN and infinity"),
    ("with runs of zeros", "with halves of zeros", "with zeros alone"),
    ("negated", "with mixed signs", "far from zero"),
    tuple(v.name for v in _OPTIONAL),
    ("scaled by 3", "scaled by 0.01", "scaled by 1000", "scaled by 0.001"),
)
#: Those that lead a kernel out of bounds more often than not are for confirming alone.
LATE = frozenset(v.name for v in _FULL_RANGE)
#: Inputs that a lower precision holds exactly: what is off on them was not the precision.
SHORTENED = Variant("of few bits, which a lower precision holds", 0.0, 1.0)
