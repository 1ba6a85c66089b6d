# SPDX-License-Identifier: Apache-2.0
"""Rules of integer instructions on polynomials of what lanes share."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import code

from warplens_tools.sass import lanes
from warplens_tools.sass.arithmetic import Inputs, halves, rule_of
from warplens_tools.sass.lanes import Atom, LaneValue, Unknown, Value

ROW = lanes.per_lane(range(32))
ATOMS = {"n": Atom(4, natural=True), "new": Atom()}


def ruled(line: str, *values: Value) -> LaneValue:
    (x,) = code(line)
    rule = rule_of(x.opcode)
    assert rule is not None
    return rule(Inputs(x, values, lanes.ZERO, ATOMS, lambda _m, _n: lanes.atom("new"), lambda a, _b: a))


def first(held: LaneValue, count: int = 4) -> tuple[int, ...]:
    assert isinstance(held, Value), held
    return lanes.lanes_of(held, 32)[:count]


def test_sums_and_products_are_exact() -> None:
    assert first(ruled("IADD3 R0, R1, R2, R3", ROW, lanes.number(5), ROW)) == (5, 7, 9, 11)
    assert first(ruled("IMAD R0, R1, R2, R3", ROW, lanes.number(3), lanes.number(1))) == (1, 4, 7, 10)
    assert ruled("IMAD R0, R1, R2, R3", lanes.atom("n"), lanes.number(2), lanes.ZERO) == lanes.multiply(
        lanes.atom("n"), lanes.number(2)
    )


def test_shifts_and_masks_split_numbers() -> None:
    assert first(ruled("SHF.R.U32.HI R0, RZ, 0x1, R1", lanes.ZERO, lanes.number(1), ROW)) == (0, 0, 1, 1)
    assert first(ruled("SHF.L.U32 R0, R1, 0x2, RZ", ROW, lanes.number(2), lanes.ZERO)) == (0, 4, 8, 12)
    mask = (ROW, lanes.number(1), lanes.ZERO, lanes.number(0xC0))
    assert first(ruled("LOP3.LUT R0, R1, 0x1, RZ, 0xc0, !PT", *mask)) == (0, 1, 0, 1)


def test_a_bound_cuts_off_lane_by_lane() -> None:
    assert first(ruled("VIMNMX R0, R1, 0x2, PT", ROW, lanes.number(2))) == (0, 1, 2, 2)
    assert first(ruled("VIMNMX R0, R1, 0x2, !PT", ROW, lanes.number(2))) == (2, 2, 2, 3)


def test_a_variable_shift_is_not_followed() -> None:
    assert isinstance(ruled("SHF.R.U32.HI R0, RZ, R2, R1", lanes.ZERO, ROW, ROW), Unknown)


@pytest.mark.parametrize(
    ("line", "known"),
    [("HFMA2.MMA R0, -RZ, RZ, 0, 1.1920928955078125e-07", 2), ("HFMA2 R0, R1, R2, R3", None)],
)
def test_constants_that_are_loaded_as_half_precision(line: str, known: int | None) -> None:
    (x,) = code(line)
    held = halves(x)
    assert (held.number if isinstance(held, Value) else None) == known


def test_other_opcodes_have_no_rule() -> None:
    assert rule_of("FADD") is None
    assert rule_of("UIADD3") is rule_of("IADD3")
