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
    Variant("with small integers by value below zero", kind="below"),
    *_each("one integer by value one less", "less", _NUMBERS),
    Variant("with ones for zeros by value", kind="raised"),
    *_each("a one for a zero by value", "raised", _NUMBERS),
    *_each("one small integer by value larger", "more", _NUMBERS),
)
#: Sentinels: -1 for a length or a place, what the kernel compares with, NaN in one buffer alone.
_ASKED = tuple(Variant(f"with integers that the kernel asks for ({k})", kind="asked") for k in range(1, 5))
_BELOW = _each("-1 in one buffer of integers", "below", 4)
_ODD = (
    Variant("with NaN", kind="specials"),
    Variant("with infinities", kind="infinities"),
    *_each("NaN in one buffer", "specials", 4),
)
#: Counts far larger, and other shapes of what is as large.
_SIZES = (
    Variant("with small integers by value many times as large", kind="many"),
    *_each("one small integer by value many times as large", "many", 2),
    *_each("one length by value larger and another one less", "reshaped", 6),
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
    *_ODD,
    *_ASKED,
    *_BELOW,
    *_SIZES,
    Variant("negated", -1.0),
    Variant("with mixed signs", kind="signs"),
    Variant("far from zero", kind="shifted"),
    Variant("scaled by 3", 3.0),
    Variant("scaled by 0.01", 0.01),
    Variant("scaled by 1000", 1000.0),
    Variant("scaled by 0.001", 0.001),
    Variant("scaled by a million", 1e6),
    Variant("scaled by a millionth", 1e-6),
    Variant("with four values alone", kind="ties"),
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
    ("with spikes", "with zeros filled"),
    tuple(v.name for v in _ODD),
    tuple(v.name for v in _ASKED),
    ("with runs of zeros", "with halves of zeros", "with zeros alone"),
    ("negated", "with mixed signs", "far from zero"),
    tuple(v.name for v in _OPTIONAL),
    ("scaled by 3", "scaled by 0.01", "scaled by 1000", "scaled by 0.001"),
    ("scaled by a million", "scaled by a millionth", "with four values alone"),
)
#: Those that lead a kernel out of bounds more often than not are for confirming alone.
LATE = frozenset(v.name for v in (*_FULL_RANGE, *_BELOW, *_SIZES))
#: Inputs that a lower precision holds exactly: what is off on them was not the precision.
SHORTENED = Variant("of few bits, which a lower precision holds", 0.0, 1.0)
