# SPDX-License-Identifier: Apache-2.0
"""The sets of inputs on which results are compared beside the program's own."""

from __future__ import annotations

import msgspec

from warplens_tools.run.probe.job import ASKS_FROM, SENTINELS_FROM, WAYS_OF, Variant, VariantKind

#: Buffers of integers that are varied one at a time, and integers that are passed by value: so many of each.
_BUFFERS, _NUMBERS = 8, 4


def _each(name: str, kind: VariantKind, many: int, first: int = 0) -> tuple[Variant, ...]:
    """One for each of so many targets."""
    return tuple(Variant(f"with {name} ({k + 1})", kind=kind, target=first + k) for k in range(many))


def _drawn(name: str, kind: VariantKind, many: int) -> tuple[Variant, ...]:
    """So many draws of all targets together."""
    return tuple(Variant(f"with {name} ({k + 1})", kind=kind) for k in range(many))


#: One buffer at a time: what must not change in one, where ranges begin, keeps nothing else from being varied.
_ONE_BUFFER = (
    *_each("one buffer of integers drawn anew", "redrawn", _BUFFERS),
    *_each("one buffer of other integers", "ranged", _BUFFERS),
    *_each("one buffer of integers zero", "vacant", _BUFFERS),
    *_each("a few integers of one buffer far larger", "longer", _BUFFERS),
    *_each("one buffer of integers repeated", "repeated", _BUFFERS),
    *_each("a few other integers in one buffer", "nicked", _BUFFERS),
)
_FULL_RANGE = (
    *_each("one buffer of integers of all sizes", "full", _BUFFERS),
    *_each("mixed signs in one buffer of integers", "turned", _BUFFERS),
)
_LESS = (
    Variant("with integers by value one less", kind="less"),
    Variant("with integers by value halved", kind="halved"),
    Variant("with small integers by value below zero", kind="below"),
    *_each("one integer by value one less", "less", _NUMBERS),
    Variant("with ones for zeros by value", kind="raised"),
    *_each("a one for a zero by value", "raised", _NUMBERS),
    *_each("one small integer by value larger", "more", _NUMBERS),
    *_each("one length by value less than a warp", "few", 2 * _NUMBERS),
    # what code for two, four or eight at once asks of a length
    *(Variant(f"with lengths by value {step} less", float(step), kind="less") for step in (2, 4, 8)),
    *(
        Variant(f"with one length by value two less ({k + 1})", 2.0, kind="less", target=k)
        for k in range(_NUMBERS)
    ),
)
#: Rows and columns without anything, of the lengths that numbers by value say, and rows of one thing alone.
_EMPTY = (
    Variant("with runs of zeros", kind="blanks"),
    Variant("with halves of zeros", kind="halves"),
    Variant("with zeros alone", kind="naught"),
    *_each("rows of zeros in one buffer", "blanks", 4),
    *_each("columns of zeros", "striped", 4),
)
#: Indices that are a length, which is one further than they may go.
_REACHED = _each("a number by value among indices", "reached", _NUMBERS)
#: Lengths of nothing: rows without an element, no row at all.
_NONE = _each("one length by value zero", "none", _NUMBERS)
#: Zeros that have a sign, which a comparison with zero does not see.
_MINUS = _each("zeros below zero in one buffer", "minus", 4)
#: No limit at all.
_ENDLESS = _each("a float by value infinite", "endless", _NUMBERS)
#: Squares that overflow or vanish, and no quotient.
_VAST = (
    Variant("with a few very large and very small floats", kind="vast"),
    *_each("a few very large and very small floats in one buffer", "vast", 4),
)
#: Modes that the program never has, and numbers that lead nowhere and so may be of any size.
_MODES = (
    *_each("a bit by value turned that the kernel asks for", "masked", 12),
    *_each("a number of any size by value", "loose", 3),
    Variant("with numbers of any size by value", kind="loose"),
)
#: Orders, limits and factors that are special, one float at a time.
_SETTLED = _each("one float by value settled", "settled", 20)
#: Where squares overflow or vanish in a lower precision, and where nothing but denormal numbers is left of floats.
_EXTREMES = (
    Variant("scaled by 2^70", 2.0**70),
    Variant("scaled by 2^-44", 2.0**-44),
    Variant("scaled by 2^-140", 2.0**-140),
)
#: Differences that rounding decides, for kernels that say how each operation is rounded.
_NEAR = _drawn("floats that differ in their last bits", "near", 3)
#: Exactly between two whole numbers, for kernels that round to such.
_HALFWAY = _each("floats of one buffer between whole numbers", "halfway", 4)
#: Keys of 64 bits that 32 do not tell apart.
_UPPER = _drawn("64-bit integers of other upper halves", "upper", 2)
#: Keys in which a digit is the same in all, or nearly all, and keys that are in order.
_FIELDS = tuple(
    Variant(f"with integers {name}", float(way), kind="fields")
    for way, name in enumerate(
        (
            "of few bits",
            "whose lower bits alone differ",
            "whose upper bits alone differ",
            "of which four bits are the same",
            "that rise",
            "that fall",
        )
    )
)
#: Limbs through which carries go far, and what makes sums of narrow types the largest. Bytes lead nowhere far.
_LIMBS = (
    Variant("with integers of zeros, ones and all ones (1)", 0.0, kind="brim"),
    Variant("with integers of zeros, ones and all ones (2)", 5.0, kind="brim"),
    Variant("with bytes at their largest", 1.0, kind="brim"),
)
_FULLEST = (
    Variant("with integers at their largest", 2.0, kind="brim"),
    Variant("with integers at their lowest", 3.0, kind="brim"),
    Variant("with integers at their largest with a sign", 4.0, kind="brim"),
)
#: Coordinates left of all and above it, and between there and the first.
_CENTRED = _drawn("floats around zero", "centred", 2)
#: Flags beside an index in one word.
_TAGGED = _drawn("bits that are masked off of integers", "tagged", 2)
#: Sentinels: -1 for a length or a place, what the kernel compares with, NaN in one buffer alone.
_ASKED = (
    *_drawn("integers that the kernel asks for", "asked", 4),
    *_each("integers that the kernel asks for in one buffer", "asked", 4),
)
_BELOW = _each("-1 in one buffer of integers", "below", 4)
_ODD = (
    Variant("with NaN", kind="specials"),
    Variant("with infinities", kind="infinities"),
    *_each("NaN in one buffer", "specials", 4),
    Variant("with infinities that meet", 2.0, kind="infinities"),
    Variant("with rows of NaN", kind="voids"),
    *_each("rows of NaN in one buffer", "voids", 3),
)
#: Each buffer by itself: a logarithm of one keeps no other from being negative.
_MINGLED = (
    *_drawn("other signs and sizes in each buffer", "mingled", 4),
    *(Variant(f"with one buffer negated ({k + 1})", -1.0, target=k) for k in range(_BUFFERS)),
    *_each("mixed signs in one buffer", "signs", _BUFFERS),
)
#: Counts far larger, and other shapes of what is as large.
_SIZES = (
    Variant("with small integers by value many times as large", kind="many"),
    *_each("one small integer by value many times as large", "many", 2),
    *_each("one length by value larger and another one less", "reshaped", 6),
    # costs that are no longer less than one another
    *_each("two small integers by value in each other's place, or alike", "against", 6),
)
_OPTIONAL = _each("one optional pointer null, or not", "toggled", 5)
#: As many blocks as one likes, where the kernel takes any number of them: half, few, and along the other axes.
_FEWER = (*_each("fewer blocks", "fewer", 4), Variant("with shorter blocks", kind="fewer", target=4))
#: Thresholds that are met exactly.
_MET = (
    *_each("what is passed by value among the data", "met", 4),
    *_each("a float that is asked for among the data", "met", 8, SENTINELS_FROM),
    *_each("rows of a float that is asked for", "ranks", 4, SENTINELS_FROM),
)
#: What is changed beside numbers by value: a bound that no length of the program's lets one reach, a mask that only
#: comes with another width.
_BESIDE = (
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
#: And beside a mode, or a step, that this launch has not: data that only it minds.
_MINDED = (
    Variant("floats a thousand times as large", 1000.0),
    Variant("integers of all sizes", kind="full"),
    Variant("floats around zero", kind="centred"),
    Variant("other signs and sizes in each buffer", kind="mingled"),
)


def _together(number: Variant, *others: int) -> Variant:
    """Both at once; `others` are places in `_BESIDE`."""
    beside = tuple(_BESIDE[k % len(_BESIDE)] for k in others)
    place = f" ({number.target + 1})" if number.target >= 0 else ""
    name = f"{number.name}{place}, {' and '.join(b.name for b in beside)}"
    return Variant(name, kind=number.kind, target=number.target, beside=beside)


def _beside(one: Variant, other: Variant) -> Variant:
    place = f" ({one.target + 1})" if one.target >= 0 else ""
    return msgspec.structs.replace(one, name=f"with {one.name}{place}, {other.name}", beside=(other,))


#: Two conditions at once within the program's memory: lengths one less or halved, or other flags, each beside all of
#: `_BESIDE` in turn.
_TWO = (
    *(
        _together(Variant("with one integer by value one less", kind="less", target=k), 2 * k, 2 * k + 5)
        for k in range(8)
    ),
    *(_together(Variant("with integers by value one less", kind="less"), k, k + 1) for k in range(0, 8, 2)),
    *(_together(Variant("with several numbers less", kind="numbers"), k, k + 3) for k in range(0, 8, 2)),
    *(
        _beside(Variant("a bit by value turned", kind="masked", target=k), Variant("NaN", kind="specials"))
        for k in range(12)
    ),
    *(
        _beside(
            Variant("infinities in one buffer", kind="infinities", target=k), Variant("zeros", kind="blanks")
        )
        for k in range(4)
    ),
    *(
        _beside(Variant("floats by value zero", kind="nulls"), Variant("four values alone", kind="ties")),
        _beside(Variant("floats by value zero", kind="nulls"), Variant("runs of zeros", kind="blanks")),
    ),
    *(
        _beside(
            Variant("one integer by value one less", kind="less", target=k), Variant("tables", kind="tables")
        )
        for k in range(4)
    ),
    *(
        _beside(
            Variant("one number by value that the kernel asks for", kind="numbers", target=ASKS_FROM + k),
            _MINDED[(k + k // 6) % len(_MINDED)],
        )
        for k in range(24)
    ),
)
#: In and out in one place, for kernels that do not forbid it.
ALIASED = _each("an input where a result goes to", "aliased", 3)
#: 64 bits where 32 would hold the program's.
_HIGH = (
    Variant("with large integers by value beyond 32 bits", kind="high"),
    *_each("one large integer by value beyond 32 bits", "high", 3),
)
#: Input sets on which results are compared beside the program's own: other sizes, signs and values catch
#: constants and shortcuts that hold for the program's inputs alone, full mantissas a precision that averages out.
VARIANTS = (
    Variant("with noise", 1.0, 0.5),
    Variant("with full mantissas", 0.0),
    Variant("with other scalars", kind="scalars"),
    Variant("with numbers by value zero", kind="nulls"),
    Variant("with numbers by value far off", kind="wide"),
    *_OPTIONAL,
    *_FEWER,
    *_MODES,
    *_SETTLED,
    *_UPPER,
    *_NEAR,
    *_HALFWAY,
    Variant("with integers drawn anew", kind="redrawn"),
    Variant("with integers permuted", kind="permuted"),
    Variant("with zeros and ones among integers", kind="flags"),
    Variant("with integers nearly all alike", kind="skewed"),
    Variant("with integers repeated", kind="repeated"),
    Variant("with short and empty rows", kind="stepped"),
    Variant("with mixed signs of integers", kind="turned"),
    Variant("with integers zero", kind="vacant"),
    *_LESS,
    Variant("with spikes", kind="spikes"),
    Variant("with zeros filled", kind="zeros"),
    *_EMPTY,
    *_ODD,
    *_ASKED,
    *_FIELDS,
    *_LIMBS,
    *_CENTRED,
    *_TAGGED,
    *_BELOW,
    *_SIZES,
    *_MINGLED,
    *_MET,
    Variant("with half of the results there already", kind="standing"),
    Variant("negated", -1.0),
    Variant("with mixed signs", kind="signs"),
    Variant("far from zero", kind="shifted"),
    Variant("scaled by 3", 3.0),
    Variant("scaled by 0.01", 0.01),
    Variant("scaled by 1000", 1000.0),
    Variant("scaled by 0.001", 0.001),
    Variant("scaled by a million", 1e6),
    Variant("scaled by a millionth", 1e-6),
    *_EXTREMES,
    Variant("with four values alone", kind="ties"),
    *_VAST,
    *_REACHED,
    *_ENDLESS,
    *_NONE,
    *_MINUS,
    *_TWO,
    *ALIASED,
    *_HIGH,
    *_ONE_BUFFER,
    *_FULL_RANGE,
    *_FULLEST,
)
#: A visit that chooses among many candidates draws one of each row, anew each time; one that confirms asks them all.
ALTERNATIVES = (
    (
        "with integers drawn anew",
        "with integers permuted",
        "with zeros and ones among integers",
        "with integers nearly all alike",
        "with integers repeated",
        "with short and empty rows",
        "with mixed signs of integers",
        "with integers zero",
    ),
    tuple(v.name for v in _ONE_BUFFER),
    tuple(v.name for v in _LESS),
    ("with spikes", "with zeros filled"),
    tuple(v.name for v in _ODD),
    tuple(v.name for v in _ASKED),
    tuple(v.name for v in (*_FIELDS, *_LIMBS)),
    tuple(v.name for v in _CENTRED),
    tuple(v.name for v in _TAGGED),
    tuple(v.name for v in _EMPTY),
    ("negated", "with mixed signs", "far from zero"),
    tuple(v.name for v in _MINGLED),
    tuple(v.name for v in _MET),
    tuple(v.name for v in _TWO),
    tuple(v.name for v in ALIASED),
    tuple(v.name for v in _OPTIONAL),
    tuple(v.name for v in _FEWER),
    tuple(v.name for v in _MODES),
    tuple(v.name for v in (*_SETTLED, *_UPPER)),
    ("scaled by 3", "scaled by 0.01", "scaled by 1000", "scaled by 0.001"),
    ("scaled by a million", "scaled by a millionth", "with four values alone", *(v.name for v in _EXTREMES)),
)
#: Those that lead a kernel out of bounds more often than not are for confirming alone.
LATE = frozenset(
    v.name
    for v in (
        *_FULL_RANGE,
        *_FULLEST,
        *_BELOW,
        *_SIZES,
        *_HIGH,
        *_VAST,
        *_REACHED,
        *_ENDLESS,
        *_NONE,
        *_MINUS,
    )
)
#: Of the launch on larger copies of its memory, where a length, a stride or a count may be larger than the program has
#: memory for: every integer by value alone, in both directions, some together, and pairs of lengths; and larger ones
#: beside all of `_BESIDE`.
LARGER = _each("one number by value of another size", "numbers", WAYS_OF)
SEVERAL = _drawn("several numbers by value of other sizes", "numbers", 8)
LONGER = _each("a longer length by value and a shorter one", "reshaped", 6)
TWO_LARGER = (
    *(
        _together(
            Variant("with one number by value of another size", kind="numbers", target=k), k // 2, k // 2 + 5
        )
        for k in range(WAYS_OF)
    ),
    *(_together(v, k, k + 2, k + 5) for k, v in enumerate(SEVERAL)),
    # sums of narrow numbers that only longer rows of the largest make too large
    *(
        _beside(
            Variant("one number by value of another size", kind="numbers", target=k),
            Variant("bytes at their largest", 1.0, kind="brim"),
        )
        for k in range(_NUMBERS)
    ),
)
REST = (
    *_each("one number by value of yet another size", "numbers", 3 * WAYS_OF, WAYS_OF),
    *_each("one number by value that the kernel asks for", "numbers", 32, ASKS_FROM),
)
#: Integers that lead further than the program has memory for: a second kind, a first exception, a wider frame. What
#: lies there is the same again and again, so that floats are moved beside them.
_NOISE = Variant("noise", 1.0, 0.5)
LED = (
    *(
        _beside(one, _NOISE)
        for one in (
            Variant("zeros and ones among integers", kind="flags"),
            Variant("small integers one larger", kind="plus"),
            Variant("integers drawn anew", kind="redrawn"),
            Variant("integers that the kernel asks for", kind="asked"),
            *(Variant("zeros and ones in one buffer", kind="flags", target=k) for k in range(_BUFFERS)),
            *(
                Variant("small integers of one buffer one larger", kind="plus", target=k)
                for k in range(_BUFFERS)
            ),
        )
    ),
    *(
        msgspec.structs.replace(two, name=f"{two.name}, and noise", beside=(*two.beside, _NOISE))
        for k in range(_NUMBERS)
        for other in (
            Variant("zeros and ones among integers", kind="flags"),
            Variant("small integers one larger", kind="plus"),
        )
        for two in [_beside(Variant("one number by value of another size", kind="numbers", target=k), other)]
    ),
)
ROOMS = (*LARGER, *SEVERAL, *LONGER, *TWO_LARGER, *LED, *REST)


#: Inputs that a lower precision holds exactly: what is off on them was not the precision.
SHORTENED = Variant("of few bits, which a lower precision holds", 0.0, 1.0)
