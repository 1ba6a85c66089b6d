# SPDX-License-Identifier: Apache-2.0
"""Values of lanes: whatever is told holds for any numbers that the atoms may stand for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.sass import lanes
from warplens_tools.sass.lanes import Atom, Atoms, LaneValue, Unknown, Value

LANES = 4
MASK = lanes.MODULUS - 1
NAMES = ("p", "q")
FRESH = "fresh"

words = st.integers(-(2**20), 2**20)
coefficients = st.one_of(words, st.lists(words, min_size=LANES, max_size=LANES).map(tuple))
powers = st.integers(0, 10).map(lambda n: 1 << n)
#: What is known of the atoms, and numbers they stand for.
worlds = st.tuples(
    st.fixed_dictionaries(dict.fromkeys(NAMES, powers)),
    st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(0, 2**9))),
)


@st.composite
def values(draw: st.DrawFn) -> Value:
    """A constant part per lane and a few shared terms."""
    constant = draw(coefficients)
    found: LaneValue = lanes.per_lane([constant] * LANES if isinstance(constant, int) else constant)
    for name in draw(st.sets(st.sampled_from(NAMES))):
        assert isinstance(found, Value)
        found = lanes.add(found, Value((((name,), draw(st.integers(1, 2**10)) % lanes.MODULUS),)))
    assert isinstance(found, Value)
    return found


def known(world: tuple[dict[str, int], dict[str, int]]) -> tuple[Atoms, dict[str, int]]:
    """The atoms of a world, and the numbers that they stand for."""
    multiples, factors = world
    atoms = {name: Atom(multiple, natural=True) for name, multiple in multiples.items()}
    return atoms, {name: multiples[name] * factors[name] for name in NAMES}


def evaluated(value: Value, numbers: dict[str, int]) -> list[int]:
    """The number that each lane holds, modulo 2^32."""
    total = [0] * LANES
    for monomial, c in value.terms:
        product = 1
        for name in monomial:
            product *= numbers[name]
        for lane, factor in enumerate((c,) * LANES if isinstance(c, int) else c):
            total[lane] += factor * product
    return [n & MASK for n in total]


def holds(result: LaneValue, truth: Sequence[int], numbers: dict[str, int], made: dict[str, int]) -> bool:
    """Whether the result is the truth for one value of the atom that was made for it, of its multiple."""
    if isinstance(result, Unknown):
        return True
    own = evaluated(result, {**numbers, FRESH: 0})
    apart = {(t - n) & MASK for t, n in zip(truth, own, strict=True)}
    if FRESH not in result.atoms:
        return apart == {0}
    return len(apart) == 1 and apart.pop() % made[FRESH] == 0


def maker(made: dict[str, int]) -> Callable[[int, bool], Value]:
    """Makes the atom of a result, and notes its multiple."""

    def fresh(multiple: int, natural: bool) -> Value:
        del natural
        made[FRESH] = multiple
        return lanes.atom(FRESH)

    return fresh


@given(values(), values(), worlds)
def test_sums_and_products_are_exact(
    a: Value, b: Value, world: tuple[dict[str, int], dict[str, int]]
) -> None:
    _, numbers = known(world)
    left, right = evaluated(a, numbers), evaluated(b, numbers)
    operations: list[tuple[LaneValue, Callable[[int, int], int]]] = [
        (lanes.add(a, b), operator.add),
        (lanes.multiply(a, b), operator.mul),
        (lanes.subtract(a, b), operator.sub),
    ]
    for result, operation in operations:
        assert isinstance(result, Value)
        truth = [operation(x, y) & MASK for x, y in zip(left, right, strict=True)]
        assert evaluated(result, numbers) == truth


@given(values(), worlds)
def test_a_multiple_divides(a: Value, world: tuple[dict[str, int], dict[str, int]]) -> None:
    atoms, numbers = known(world)
    assert all(n % lanes.multiple_of(a, atoms) == 0 for n in evaluated(a, numbers))


@given(values(), st.integers(1, 31), worlds)
def test_right_shifts_hold(a: Value, bits: int, world: tuple[dict[str, int], dict[str, int]]) -> None:
    atoms, numbers = known(world)
    truth = [(lanes.signed(n) >> bits) & MASK for n in evaluated(a, numbers)]
    made: dict[str, int] = {}
    result = lanes.shift_right(a, bits, atoms, maker(made), arithmetic=True)
    assert holds(result, truth, numbers, made)


@given(values(), values(), st.integers(0, 255), worlds)
def test_bitwise_operations_hold(
    a: Value, b: Value, table: int, world: tuple[dict[str, int], dict[str, int]]
) -> None:
    def operation(x: int, y: int) -> int:
        result = 0
        for row in range(4):
            if table >> row & 1:
                result |= (x if row & 2 else ~x) & (y if row & 1 else ~y)
        return result & MASK

    atoms, numbers = known(world)
    left, right = evaluated(a, numbers), evaluated(b, numbers)
    truth = [operation(x, y) for x, y in zip(left, right, strict=True)]
    made: dict[str, int] = {}
    assert holds(lanes.bitwise([a, b], operation, atoms, maker(made)), truth, numbers, made)


def test_a_mask_of_what_warps_share_leaves_the_lane() -> None:
    atoms = {"warp.x": Atom(1, natural=True), FRESH: Atom()}
    thread = lanes.add(lanes.per_lane(range(32)), Value(((("warp.x",), 32),)))
    assert isinstance(thread, Value)
    lane = lanes.bitwise([thread, lanes.number(31)], lambda a, b: a & b, atoms, maker({}))
    assert lane == lanes.per_lane(range(32))
    warp = lanes.shift_right(thread, 5, atoms, maker({}), arithmetic=False)
    assert warp == lanes.atom(FRESH)
    assert lanes.describe(thread) == "32*warp.x + lane"
