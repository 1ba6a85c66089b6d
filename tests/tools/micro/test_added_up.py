# SPDX-License-Identifier: Apache-2.0
"""Which multiply-adds of a loop add up products that several results of a thread could share operands of."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import code

from warplens_tools.micro.common.added_up import added_up
from warplens_tools.sass.varying import lane_dependent

#: R0 is the thread's, R20 all lanes' alike.
HEAD = "S2R R0, SR_TID.X\nMOV R20, 0x40\n"


def found(body: str) -> int:
    """How many multiply-adds of a loop's body add up products."""
    listing = code(f"{HEAD}{body}\nEXIT")
    inside = range(2, len(listing) - 1)
    return len(added_up(listing, lane_dependent(listing), inside, {"FFMA"}))


@pytest.mark.parametrize(
    ("body", "many"),
    [
        # One sum, over iterations and within one.
        ("LDS R2, [R0]\nLDS R3, [R20]\nFFMA R5, R2, R3, R5", 1),
        ("LDS R2, [R0]\nLDS R3, [R20]\nFFMA R6, R2, R3, R5\nFFMA R5, R2.reuse, R3, R6", 2),
        # An operand in registers that is the thread's own: several of them would share the other.
        ("LDS R3, [R20]\nFFMA R5, R3, R0, R5", 1),
    ],
)
def test_a_sum_of_products_is_carried_on(body: str, many: int) -> None:
    assert found(body) == many


@pytest.mark.parametrize(
    "body",
    [
        # Element by element: what the product is added to was no product.
        "LDS R2, [R0]\nLDS R3, [R0+0x400]\nFADD R4, R3, R9\nFFMA R5, R2, R8, R4\nSTG.E desc[UR4][R6.64], R5",
        # A recursion and an elimination hand the result on.
        "LDS R2, [R0]\nLDS R3, [R20]\nFFMA R5, R2, R3, R5\nSTS [R0], R5",
        # All lanes work out one body.
        "LDS R2, [R20]\nLDS R3, [R20+0x4]\nFFMA R5, R2, R3, R5",
    ],
)
def test_nothing_that_a_tile_of_results_would_serve(body: str) -> None:
    assert found(body) == 0
