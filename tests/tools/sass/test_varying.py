# SPDX-License-Identifier: Apache-2.0
"""Which operands differ between lanes, and which addresses rest on loaded data."""

from __future__ import annotations

from tests.tools.sass.written import code

from warplens_tools.sass.varying import chosen_apart, gathering, lane_dependent, numbered


def test_the_thread_index_spreads_through_arithmetic_and_loads() -> None:
    listing = code(
        "S2R R0, SR_TID.X\nIADD3 R1, R0, R9, RZ\nFADD R5, R6, R7\nLDG.E R2, desc[UR4][R0.64]\nFADD R3, R2, R6\nEXIT"
    )
    assert lane_dependent(listing) == {0, 1, 3, 4}


def test_what_is_written_anew_no_longer_differs() -> None:
    assert lane_dependent(code("S2R R0, SR_TID.X\nMOV R0, 0x1\nFADD R3, R0, R6\nEXIT")) == {0}


def test_a_check_before_a_division_leaves_its_operand_as_it_was() -> None:
    assert lane_dependent(code("S2R R0, SR_TID.X\nFCHK P0, R0, R3\nFMUL R2, R0, R5\nEXIT")) == {0, 1, 2}


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
    assert chosen_apart(code(apart), lane_dependent(code(apart))) == {3}
    same = "S2R R0, SR_TID.X\nLDG.E R2, desc[UR4][R8.64]\nLDG.E R9, desc[UR4][R2.64]\nEXIT"
    assert chosen_apart(code(same), lane_dependent(code(same))) == frozenset()


def test_an_address_with_the_threads_number_in_it_is_beside_its_neighbours() -> None:
    beside = (
        "S2R R0, SR_TID.X\nLDG.E R2, desc[UR4][R8.64]\nIADD3 R2, R2, R0, RZ\nLDG.E R3, desc[UR4][R2.64]\nEXIT"
    )
    assert numbered(code(beside)) == {3}
    hashed = beside.replace("IADD3 R2, R2, R0, RZ", "LOP3.LUT R2, R2, R0, RZ, 0x3c, !PT")
    assert numbered(code(hashed)) == frozenset()


def test_a_table_of_the_module_is_no_place_that_data_choose() -> None:
    lookup = (
        "S2R R0, SR_TID.X\nLDG.E R2, desc[UR4][R0.64]\nLDC.64 R4, c[0x4][RZ]\nIADD3 R4, R2, R4, RZ\n"
        "LDG.E R6, desc[UR4][R4.64]\nLDG.E R9, desc[UR4][R6.64]\nEXIT"
    )
    assert chosen_apart(code(lookup), lane_dependent(code(lookup))) == {5}
    linked = lookup.replace("LDC.64 R4, c[0x4][RZ]", "MOV R4, 32@lo(__cudart_sin_cos_coeffs)")
    assert chosen_apart(code(linked), lane_dependent(code(linked))) == {5}


def test_a_place_that_the_last_iteration_loaded_is_chosen_where_there_is_a_loop() -> None:
    body = "LDG.E R9, desc[UR4][R2.64]\nIADD3 R4, R0, R8, RZ\nLDG.E R2, desc[UR4][R4.64]\n"
    once = code(f"S2R R0, SR_TID.X\n{body}EXIT")
    assert chosen_apart(once, lane_dependent(once)) == frozenset()
    again = code(f"S2R R0, SR_TID.X\n.L_1:\n{body}@P0 BRA `(.L_1)\nEXIT")
    assert chosen_apart(again, lane_dependent(again)) == {1}


#: Two ways that exclude each other, one after the other in the text, which meet before `end`.
WAYS = "S2R R0, SR_TID.X\n@P0 BRA `(.L_2)\n{0}\nBRA `(.L_3)\n.L_2:\n{1}\n.L_3:\n{2}\nEXIT"


def test_what_one_way_makes_of_a_register_is_not_what_the_other_finds_in_it() -> None:
    loads = "LDG.E R2, desc[UR4][R0.64]"
    apart = code(WAYS.format(loads, "LDG.E R9, desc[UR4][R2.64]", "STG.E desc[UR4][R6.64], R9"))
    assert chosen_apart(apart, lane_dependent(apart)) == frozenset()
    met = code(WAYS.format(loads, "MOV R9, R8", "LDG.E R9, desc[UR4][R2.64]"))
    assert chosen_apart(met, lane_dependent(met)) == {5}


def test_a_register_differs_where_one_of_the_ways_to_it_makes_it_differ() -> None:
    met = code(WAYS.format("IADD3 R2, R0, R8, RZ", "MOV R2, R8", "FADD R3, R2, R6"))
    assert 5 in lane_dependent(met)
    same = code(WAYS.format("MOV R2, R7", "MOV R2, R8", "FADD R3, R2, R6"))
    assert 5 not in lane_dependent(same)


def test_each_lane_has_its_own_local_memory() -> None:
    listing = code("LDL R2, [R1]\nIADD3 R4, R2, R8, RZ\nLDG.E R9, desc[UR4][R4.64]\nEXIT")
    assert lane_dependent(listing) == {1, 2}


def test_a_routine_is_entered_with_what_its_caller_holds_and_returns_what_it_makes_of_it() -> None:
    listing = code(
        "S2R R0, SR_TID.X\nCALL.REL.NOINC `(.L_1)\nFADD R3, R2, R6\nEXIT\n"
        ".L_1:\nIADD3 R2, R0, R8, RZ\nRET.REL.NODEC R4 `(k)"
    )
    assert {2, 4} <= lane_dependent(listing)


def test_a_routine_called_twice_hands_no_register_of_one_caller_to_the_other() -> None:
    listing = code(
        "CALL.REL.NOINC `(.L_1)\nFADD R3, R9, R6\nS2R R9, SR_TID.X\nCALL.REL.NOINC `(.L_1)\nFADD R3, R9, R6\nEXIT\n"
        ".L_1:\nIADD3 R2, R0, R8, RZ\nRET.REL.NODEC R4 `(k)"
    )
    assert lane_dependent(listing) == {2, 4}


def test_a_routine_that_loads_nothing_but_parameters_only_computes() -> None:
    """Its own registers, marked from the iteration before, are not what it is handed."""
    listing = code(
        "S2R R9, SR_TID.X\nCALL.REL.NOINC `(.L_1)\nFADD R3, R9, R6\nEXIT\n"
        ".L_1:\nLDC.64 R8, c[0x0][0x240]\nIMAD R9, R0, R8, RZ\nRET.REL.NODEC R4 `(k)"
    )
    assert 2 not in lane_dependent(listing)


def test_what_a_guard_gave_a_register_is_what_the_same_guard_reads() -> None:
    listing = code(
        "S2R R0, SR_TID.X\nMOV R2, R0\n@P0 MOV R2, 0x1\n@P0 FADD R3, R2, R6\n@!P0 FADD R4, R2, R6\n"
        "ISETP.GE.AND P0, PT, R8, R9, PT\n@P0 FADD R5, R2, R6\nEXIT"
    )
    assert lane_dependent(listing) == {0, 1, 4, 6}
