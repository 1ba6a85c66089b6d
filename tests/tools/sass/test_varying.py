# SPDX-License-Identifier: Apache-2.0
"""Which operands differ between lanes, and which addresses rest on loaded data."""

from __future__ import annotations

from tests.tools.sass.written import code

from warplens_tools.sass.varying import chosen_apart, gathering, lane_dependent


def test_the_thread_index_spreads_through_arithmetic_and_loads() -> None:
    listing = code(
        "S2R R0, SR_TID.X\nIADD3 R1, R0, R9, RZ\nFADD R5, R6, R7\nLDG.E R2, desc[UR4][R0.64]\nFADD R3, R2, R6\nEXIT"
    )
    assert lane_dependent(listing) == {0, 1, 3, 4}


def test_what_is_written_anew_no_longer_differs() -> None:
    assert lane_dependent(code("S2R R0, SR_TID.X\nMOV R0, 0x1\nFADD R3, R0, R6\nEXIT")) == {0}


def test_a_guarded_write_leaves_it_differing() -> None:
    assert 2 in lane_dependent(code("S2R R0, SR_TID.X\n@P0 MOV R0, 0x1\nFADD R3, R0, R6\nEXIT"))


def test_an_address_out_of_loaded_data_gathers_and_parameters_do_not() -> None:
    listing = code(
        "LDC R1, c[0x0][0x210]\nLDG.E R2, desc[UR4][R4.64]\nIMAD R6, R2, R1, R8\nLDG.E R9, desc[UR4][R6.64]\nEXIT"
    )
    assert gathering(listing) == {3}


def test_a_place_that_each_lane_loaded_is_chosen_apart_and_one_that_all_load_is_not() -> None:
    apart = (
        "S2R R0, SR_TID.X\nIADD3 R4, R0, R8, RZ\nLDG.E R2, desc[UR4][R4.64]\nLDG.E R9, desc[UR4][R2.64]\nEXIT"
    )
    assert chosen_apart(code(apart), lane_dependent(code(apart)), looped=False) == {3}
    same = "S2R R0, SR_TID.X\nLDG.E R2, desc[UR4][R8.64]\nLDG.E R9, desc[UR4][R2.64]\nEXIT"
    assert chosen_apart(code(same), lane_dependent(code(same)), looped=False) == frozenset()


def test_a_place_that_the_last_iteration_loaded_is_chosen_where_there_is_a_loop() -> None:
    listing = code(
        "S2R R0, SR_TID.X\nLDG.E R9, desc[UR4][R2.64]\nIADD3 R4, R0, R8, RZ\nLDG.E R2, desc[UR4][R4.64]\nEXIT"
    )
    assert chosen_apart(listing, lane_dependent(listing), looped=False) == frozenset()
    assert chosen_apart(listing, lane_dependent(listing), looped=True) == {1}
