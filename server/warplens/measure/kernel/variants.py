# SPDX-License-Identifier: Apache-2.0
"""The sets of inputs on which results are compared beside the program's own."""

from __future__ import annotations

from warplens.measure.kernel.series import BUFFERS, NUMBERS, beside, drawn, each, together
from warplens_tools.run.probe.job import ASKS_FROM, SENTINELS_FROM, Variant

#: One buffer at a time: what must not change in one, where ranges begin, keeps nothing else from being varied.
_ONE_BUFFER = (
    *each("one buffer of integers drawn anew", "redrawn", BUFFERS),
    *each("one buffer of other integers", "ranged", BUFFERS),
    *each("one buffer of integers zero", "vacant", BUFFERS),
    *each("a few integers of one buffer far larger", "longer", BUFFERS),
    *each("one buffer of integers repeated", "repeated", BUFFERS),
    *each("a few other integers in one buffer", "nicked", BUFFERS),
    *each("integers of one buffer no more than they were", "lowered", BUFFERS),
)
_FULL_RANGE = (
    *each("one buffer of integers of all sizes", "full", BUFFERS),
    *each("mixed signs in one buffer of integers", "turned", BUFFERS),
)
_LESS = (
    Variant("with integers by value one less", kind="less"),
    Variant("with integers by value halved", kind="halved"),
    Variant("with small integers by value below zero", kind="below"),
    *each("one integer by value one less", "less", NUMBERS),
    Variant("with ones for zeros by value", kind="raised"),
    *each("a one for a zero by value", "raised", NUMBERS),
    *each("one small integer by value larger", "more", NUMBERS),
    *each("one length by value less than a warp", "few", 2 * NUMBERS),
    # what code for two, four or eight at once asks of a length
    *(Variant(f"with lengths by value {step} less", float(step), kind="less") for step in (2, 4, 8)),
    *(
        Variant(f"with one length by value two less ({k + 1})", 2.0, kind="less", target=k)
        for k in range(NUMBERS)
    ),
)
#: Rows and columns without anything, of the lengths that numbers by value say, and rows of one thing alone.
_EMPTY = (
    Variant("with runs of zeros", kind="blanks"),
    Variant("with halves of zeros", kind="halves"),
    Variant("with zeros alone", kind="naught"),
    *each("rows of zeros in one buffer", "blanks", 4),
    *each("columns of zeros", "striped", 4),
)
#: Indices that are a length, which is one further than they may go.
_REACHED = each("a number by value among indices", "reached", NUMBERS)
#: Lengths of nothing: rows without an element, no row at all.
_NONE = each("one length by value zero", "none", NUMBERS)
#: Zeros that have a sign, which a comparison with zero does not see.
_MINUS = each("zeros below zero in one buffer", "minus", 4)
#: No limit at all.
_ENDLESS = each("a float by value infinite", "endless", NUMBERS)
#: Squares that overflow or vanish, and no quotient.
_VAST = (
    Variant("with a few very large and very small floats", kind="vast"),
    *each("a few very large and very small floats in one buffer", "vast", 4),
)
#: Modes that the program never has, and numbers that lead nowhere and so may be of any size.
_MODES = (
    *each("a bit by value turned that the kernel asks for", "masked", 12),
    *each("a number of any size by value", "loose", 3),
    Variant("with numbers of any size by value", kind="loose"),
)
#: Orders, limits and factors that are special, one float at a time.
_SETTLED = each("one float by value settled", "settled", 20)
#: Where squares overflow or vanish in a lower precision, and where nothing but denormal numbers is left of floats.
_EXTREMES = (
    Variant("scaled by 2^70", 2.0**70),
    Variant("scaled by 2^-44", 2.0**-44),
    Variant("scaled by 2^-140", 2.0**-140),
)
#: Differences that rounding decides, for kernels that say how each operation is rounded.
_NEAR = drawn("floats that differ in their last bits", "near", 3)
#: Exactly between two whole numbers, for kernels that round to such.
_HALFWAY = each("floats of one buffer between whole numbers", "halfway", 4)
#: Keys of 64 bits that 32 do not tell apart.
_UPPER = drawn("64-bit integers of other upper halves", "upper", 2)
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
#: Words in which letters are of the other case, in other places or other ones: in text alone.
_SPELLED = (
    *(Variant(f"with letters of the other case ({k + 1})", 6.0, kind="fields") for k in range(2)),
    *(Variant(f"with letters in each other's place ({k + 1})", 7.0, kind="fields") for k in range(3)),
    Variant("with letters next to theirs", 8.0, kind="fields"),
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
_CENTRED = drawn("floats around zero", "centred", 2)
#: Flags beside an index in one word.
_TAGGED = drawn("bits that are masked off of integers", "tagged", 2)
#: Trees and lists that lie otherwise, and end: deep ones, parents before all that is theirs, or behind it.
_LINKED = tuple(
    Variant(f"with links {words} in one buffer ({k + 1})", float(way), kind="linked", target=k)
    for way, words in enumerate(("to the place before", "to places before", "to places behind"))
    for k in range(4)
)
#: Sentinels: -1 for a length or a place, what the kernel compares with, NaN in one buffer alone.
_ASKED = (
    *drawn("integers that the kernel asks for", "asked", 4),
    *each("integers that the kernel asks for in one buffer", "asked", 4),
)
_BELOW = each("-1 in one buffer of integers", "below", 4)
_ODD = (
    Variant("with NaN", kind="specials"),
    Variant("with infinities", kind="infinities"),
    *each("NaN in one buffer", "specials", 4),
    Variant("with infinities that meet", 2.0, kind="infinities"),
    Variant("with rows of NaN", kind="voids"),
    *each("rows of NaN in one buffer", "voids", 3),
)
#: What is masked: whole parts of a row, however it is shared, and half of others.
_MASKED = (
    *(
        Variant(f"with runs below all numbers in one buffer ({k + 1})", -1.0, kind="endmost", target=k)
        for k in range(4)
    ),
    *(
        Variant(f"with runs above all numbers in one buffer ({k + 1})", kind="endmost", target=k)
        for k in range(2)
    ),
)
#: Lengths of which there is more than one of the parts that code works by, beside what makes sums the largest.
_PAST = (
    *each("one length by value past what is asked for", "past", 12),
    *(
        beside(
            Variant("one length by value past what is asked for", kind="past", target=k),
            Variant("bytes at their largest", 1.0, kind="brim"),
        )
        for k in range(4)
    ),
)
#: Each buffer by itself: a logarithm of one keeps no other from being negative.
_MINGLED = (
    *drawn("other signs and sizes in each buffer", "mingled", 4),
    *(Variant(f"with one buffer negated ({k + 1})", -1.0, target=k) for k in range(BUFFERS)),
    *each("mixed signs in one buffer", "signs", BUFFERS),
)
#: Counts far larger, and other shapes of what is as large.
_SIZES = (
    Variant("with small integers by value many times as large", kind="many"),
    *each("one small integer by value many times as large", "many", 2),
    *each("one length by value larger and another one less", "reshaped", 6),
    # costs that are no longer less than one another
    *each("two small integers by value in each other's place, or alike", "against", 6),
)
_OPTIONAL = each("one optional pointer null, or not", "toggled", 5)
#: As many blocks as one likes, where the kernel takes any number of them: half, few, and along the other axes.
_FEWER = (
    *each("fewer blocks", "fewer", 4),
    Variant("with shorter blocks", kind="fewer", target=4),
    *each("blocks that are no power of two", "fewer", 2, 5),
)
#: Thresholds that are met exactly.
_MET = (
    *each("what is passed by value among the data", "met", 4),
    *each("a float that is asked for among the data", "met", 8, SENTINELS_FROM),
    *each("rows of a float that is asked for", "ranks", 4, SENTINELS_FROM),
)
#: And beside a mode, or a step, that this launch has not: data that only it minds.
_MINDED = (
    Variant("floats a thousand times as large", 1000.0),
    Variant("integers of all sizes", kind="full"),
    Variant("floats around zero", kind="centred"),
    Variant("other signs and sizes in each buffer", kind="mingled"),
)


#: Two conditions at once within the program's memory: lengths one less or halved, or other flags, each beside all of
#: `BESIDE` in turn.
_TWO = (
    *(
        together(Variant("with one integer by value one less", kind="less", target=k), 2 * k, 2 * k + 5)
        for k in range(8)
    ),
    *(together(Variant("with integers by value one less", kind="less"), k, k + 1) for k in range(0, 8, 2)),
    *(together(Variant("with several numbers less", kind="numbers"), k, k + 3) for k in range(0, 8, 2)),
    *(
        beside(Variant("a bit by value turned", kind="masked", target=k), Variant("NaN", kind="specials"))
        for k in range(12)
    ),
    *(
        beside(
            Variant("infinities in one buffer", kind="infinities", target=k), Variant("zeros", kind="blanks")
        )
        for k in range(4)
    ),
    *(
        beside(Variant("floats by value zero", kind="nulls"), Variant("four values alone", kind="ties")),
        beside(Variant("floats by value zero", kind="nulls"), Variant("runs of zeros", kind="blanks")),
    ),
    *(
        beside(
            Variant("one integer by value one less", kind="less", target=k), Variant("tables", kind="tables")
        )
        for k in range(4)
    ),
    *(
        beside(
            Variant("one number by value that the kernel asks for", kind="numbers", target=ASKS_FROM + k),
            _MINDED[(k + k // 6) % len(_MINDED)],
        )
        for k in range(24)
    ),
)
#: In and out in one place, for kernels that do not forbid it.
ALIASED = each("an input where a result goes to", "aliased", 3)
#: 64 bits where 32 would hold the program's.
_HIGH = (
    Variant("with large integers by value beyond 32 bits", kind="high"),
    *each("one large integer by value beyond 32 bits", "high", 3),
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
    Variant("with integers no more than they were", kind="lowered"),
    Variant("with mixed signs of integers", kind="turned"),
    Variant("with integers zero", kind="vacant"),
    *_LESS,
    Variant("with spikes", kind="spikes"),
    Variant("with zeros filled", kind="zeros"),
    *_EMPTY,
    *_ODD,
    *_ASKED,
    *_FIELDS,
    *_SPELLED,
    *_LIMBS,
    *_CENTRED,
    *_TAGGED,
    *_LINKED,
    *_MASKED,
    *_PAST,
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
        "with integers no more than they were",
        "with mixed signs of integers",
        "with integers zero",
    ),
    tuple(v.name for v in _ONE_BUFFER),
    tuple(v.name for v in _LESS),
    ("with spikes", "with zeros filled"),
    tuple(v.name for v in (*_ODD, *_MASKED)),
    tuple(v.name for v in _ASKED),
    tuple(v.name for v in (*_FIELDS, *_SPELLED, *_LIMBS)),
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
        *_PAST,
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
#: Inputs that a lower precision holds exactly: what is off on them was not the precision.
SHORTENED = Variant("of few bits, which a lower precision holds", 0.0, 1.0)
