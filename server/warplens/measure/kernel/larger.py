# SPDX-License-Identifier: Apache-2.0
"""The sets of inputs that need more memory than the program has: other sizes by value, integers that lead further."""

from __future__ import annotations

import msgspec

from warplens.measure.kernel.series import BUFFERS, NUMBERS, beside, drawn, each, together
from warplens_tools.run.probe.job import ASKS_FROM, WAYS_OF, Variant

#: Of the launch on larger copies of its memory, where a length, a stride or a count may be larger than the program has
#: memory for: every integer by value alone, in both directions, some together, and pairs of lengths; and larger ones
#: beside all of `BESIDE`.
LARGER = each("one number by value of another size", "numbers", WAYS_OF)
SEVERAL = drawn("several numbers by value of other sizes", "numbers", 8)
LONGER = each("a longer length by value and a shorter one", "reshaped", 6)
TWO_LARGER = (
    *(
        together(
            Variant("with one number by value of another size", kind="numbers", target=k), k // 2, k // 2 + 5
        )
        for k in range(WAYS_OF)
    ),
    *(together(v, k, k + 2, k + 5) for k, v in enumerate(SEVERAL)),
    # sums of narrow numbers that only longer rows of the largest make too large
    *(
        beside(
            Variant("one number by value of another size", kind="numbers", target=k),
            Variant("bytes at their largest", 1.0, kind="brim"),
        )
        for k in range(NUMBERS)
    ),
)
REST = (
    *each("one length by value past what is asked for", "past", 8),
    *each("one number by value of yet another size", "numbers", 3 * WAYS_OF, WAYS_OF),
    *each("one number by value that the kernel asks for", "numbers", 32, ASKS_FROM),
)
#: Integers that lead further than the program has memory for: a second kind, a first exception, a wider frame. What
#: lies there is the same again and again, so that floats are moved beside them.
_NOISE = Variant("noise", 1.0, 0.5)
LED = (
    *(
        beside(one, _NOISE)
        for one in (
            Variant("zeros and ones among integers", kind="flags"),
            Variant("small integers one larger", kind="plus"),
            Variant("integers drawn anew", kind="redrawn"),
            Variant("integers that the kernel asks for", kind="asked"),
            *(Variant("zeros and ones in one buffer", kind="flags", target=k) for k in range(BUFFERS)),
            *(
                Variant("small integers of one buffer one larger", kind="plus", target=k)
                for k in range(BUFFERS)
            ),
        )
    ),
    *(
        msgspec.structs.replace(two, name=f"{two.name}, and noise", beside=(*two.beside, _NOISE))
        for k in range(NUMBERS)
        for other in (
            Variant("zeros and ones among integers", kind="flags"),
            Variant("small integers one larger", kind="plus"),
        )
        for two in [beside(Variant("one number by value of another size", kind="numbers", target=k), other)]
    ),
)
ROOMS = (*LARGER, *SEVERAL, *LONGER, *TWO_LARGER, *LED, *REST)
