# SPDX-License-Identifier: Apache-2.0
"""Products of 16-bit values that a loop loads."""

from __future__ import annotations

from tests.tools.sass.written import code

from warplens_tools.sass.flow import analyse
from warplens_tools.sass.fp16_products import Products, fp16_products, stages_widened


def products(body: str) -> list[Products]:
    listing = code(f".L:\n{body}\n@P0 BRA `(.L)\nEXIT")
    return fp16_products(listing, analyse(listing))


WIDENED = "HADD2.F32 R6, -RZ, R4.H0_H0\nHADD2.F32 R7, -RZ, R5.H0_H0\nFFMA R8, R6, R7, R8"


def test_widened_values_of_two_loads_make_a_product() -> None:
    (found,) = products(f"LDS.U16 R4, [R2]\nLDS.U16 R5, [R3]\n{WIDENED}")
    assert (found.products, found.loads, found.widening, found.values) == ((4,), (0, 1), (2, 3), 2)
    assert not found.is_outer


def test_packed_values_stay_packed() -> None:
    (found,) = products("LDG.E R4, desc[UR4][R2.64]\nLDG.E R5, desc[UR4][R9.64]\nHFMA2 R8, R4, R5, R8")
    assert (found.products, found.widening) == ((2,), ())


def test_floats_and_squares_are_no_such_products() -> None:
    assert products("LDS R4, [R2]\nLDS R5, [R3]\nFFMA R8, R4, R5, R8") == []
    assert products("LDS.U16 R4, [R2]\nHADD2.F32 R6, -RZ, R4.H0_H0\nFFMA R8, R6, R6, R8") == []


def test_shared_memory_that_gets_widened_values_alone_holds_such() -> None:
    load = "LDG.E.U16 R4, desc[UR4][R2.64]\nHADD2.F32 R6, -RZ, R4.H0_H0"
    assert stages_widened(code(f"{load}\nSTS [R9], R6\nSTS [R9], RZ\nEXIT"))
    assert not stages_widened(code(f"{load}\nSTS [R9], R6\nSTS [R9], R10\nEXIT"))
