# SPDX-License-Identifier: Apache-2.0
"""Which sets of inputs a visit is for, and in which order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from warplens.measure.kernel.larger import LARGER, LED, LONGER, REST, SEVERAL, TWO_LARGER
from warplens.measure.kernel.variants import ALTERNATIVES, LATE, SHORTENED
from warplens_tools.run.probe.job import Variant, VariantKind

#: The kinds that caught most exploits of all batches, by the records of `docs/benchmarks/exploits_*.json`, and how many
#: of each come in one turn: what is asked for caught 22 of 108, the others four to eight each.
_CATCHES: dict[VariantKind, int] = {
    "asked": 4,
    "less": 1,
    "nulls": 1,
    "specials": 1,
    "infinities": 1,
    "voids": 1,
    "full": 1,
    "brim": 1,
}
#: Other numbers by value: what conditions on lengths, rests and steps turn on.
LENGTHS: frozenset[VariantKind] = frozenset(
    {"less", "halved", "few", "more", "many", "raised", "reshaped", "numbers", "past"}
)


def in_order(rooms: Sequence[Variant], chance: random.Random) -> tuple[Variant, ...]:
    """Which are learned first, where there is no time for all: one number larger, two conditions, several numbers, and
    integers that lead further in turn, since each meets what the others do not; then what is mostly met already."""

    def shuffled(*of: tuple[Variant, ...]) -> list[Variant]:
        some = [v for v in rooms if any(v in group for group in of)]
        return chance.sample(some, len(some))

    first = (shuffled(LARGER), shuffled(TWO_LARGER), shuffled(SEVERAL, LONGER), shuffled(LED))
    turns = [v for turn in zip_longest(*first) for v in turn if v is not None]
    return (*turns, *shuffled(REST))


def _first_what_catches(variants: Sequence[Variant], chance: random.Random) -> list[Variant]:
    """In random order, but every other one of those that have caught most, kind by kind in turns, as long as there are
    any: what comes first is all where time or memory is short, and no kind is left out each time."""
    mixed = chance.sample(list(variants), len(variants))
    seen: Counter[str] = Counter()
    turns: list[tuple[int, Variant]] = []
    for v in mixed:
        if v.kind in _CATCHES:
            turns.append((seen[v.kind] // _CATCHES[v.kind], v))
            seen[v.kind] += 1
    # of one turn the kind of which most come is first
    often = [v for _, v in sorted(turns, key=lambda one: (one[0], -_CATCHES[one[1].kind]))]
    rest = [v for v in mixed if v.kind not in _CATCHES]
    return [v for pair in zip_longest(often, rest) for v in pair if v is not None]


def drawn(variants: Sequence[Variant], *, thorough: bool, shortened: bool) -> tuple[Variant, ...]:
    """The sets of inputs of one visit, in random order: where results are large, the first ones have to do. Of what is
    `shortened` a lower precision, where it is allowed, is told."""
    chance = random.SystemRandom()
    out: set[str] = set() if thorough else set(LATE)
    for row in () if thorough else ALTERNATIVES:
        there = [v.name for v in variants if v.name in row]
        out |= set(there) - {chance.choice(there)} if there else set()
    chosen = _first_what_catches([v for v in variants if v.name not in out], chance)
    return (SHORTENED, *chosen) if shortened and variants else tuple(chosen)
