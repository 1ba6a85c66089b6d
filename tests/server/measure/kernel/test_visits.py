# SPDX-License-Identifier: Apache-2.0
"""Which sets of inputs a visit draws, and which are left out once the kernel does not stand them."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.drawing import LENGTHS, drawn, in_order
from warplens.measure.kernel.larger import ROOMS
from warplens.measure.kernel.questions import joined
from warplens.measure.kernel.variants import VARIANTS
from warplens.measure.kernel.visits import FIRST_CASES, Look, Visits
from warplens_tools.process.run import Completed
from warplens_tools.run.probe.records import Failed, Record, Stage
from warplens_tools.run.probe.visit import ProbeRun
from warplens_tools.toolchain.ptx_asks import Asked


def visits(folder: Path, *, thorough: bool = False, restrict: bool = False, lengths: bool = False) -> Any:
    place = cast(Any, SimpleNamespace(launch=0, parameters=(SimpleNamespace(restrict=restrict),)))
    return Visits(place, MeasureSettings(), folder, thorough=thorough, lengths=lengths)


def _died(*stages: str) -> ProbeRun:
    return ProbeRun(tuple(Stage(name) for name in stages), None)


def kinds(drawn: Any) -> list[str]:
    return [variant.kind for variant in drawn]


def test_a_winner_is_compared_on_every_set_of_inputs(tmp_path: Path) -> None:
    drawn = visits(tmp_path, thorough=True).asks.drawn()
    assert sorted(v.name for v in drawn) == sorted(v.name for v in VARIANTS)
    assert len({v.name for v in VARIANTS}) == len(VARIANTS)


def test_what_comes_first_is_of_all_kinds_that_catch_most(tmp_path: Path) -> None:
    """Where results are large, a dozen sets are all that there is time for."""
    for _ in range(20):
        first = kinds(visits(tmp_path, thorough=True).asks.drawn()[:22])
        assert {"asked", "less", "nulls", "specials", "infinities", "voids", "full", "brim"} <= set(first)


def test_lengths_alone(tmp_path: Path) -> None:
    asks = visits(tmp_path, thorough=True, lengths=True).asks
    both = kinds(asks.drawn()), kinds(asks.rooms())
    assert all(both) and {"less", "few", "numbers"} <= set(both[0]) <= LENGTHS
    assert set(both[1]) <= LENGTHS


def test_a_first_visit_draws_one_kind_of_zeros_and_in_the_end_all(tmp_path: Path) -> None:
    seen = set()
    for _ in range(200):
        drawn = kinds(visits(tmp_path).asks.drawn())
        (one,) = [kind for kind in drawn if kind in ("blanks", "halves", "naught", "striped")]
        seen.add(one)
        assert "full" not in drawn
    assert seen == {"blanks", "halves", "naught", "striped"}


def test_a_brief_look_is_on_the_programs_inputs_and_a_few_others(tmp_path: Path) -> None:
    one = visits(tmp_path)
    assert len(one._variants(Asked(rounded=True, whole=True, infinite=True))) > FIRST_CASES
    one._look = Look(1.5, sifts=True)
    drawn = {
        tuple(v.name for v in one._variants(Asked(rounded=True, whole=True, infinite=True)))
        for _ in range(20)
    }
    assert {len(names) for names in drawn} == {FIRST_CASES - 1} and len(drawn) > 10
    one._look = Look(1.5)
    assert len(one._variants(Asked(rounded=True, whole=True, infinite=True))) > FIRST_CASES


def test_inputs_of_a_kind_that_two_runs_died_of_are_not_tried_again(tmp_path: Path) -> None:
    tried = visits(tmp_path, thorough=True).asks
    vacant = [v.name for v in VARIANTS if v.kind == "vacant"]
    tried.leave_out(vacant[0])
    left = [v.name for v in tried.variants]
    assert vacant[0] not in left and vacant[1] in left
    tried.leave_out(vacant[1])
    assert not set(vacant) & {v.name for v in tried.variants}
    # those of another size lead out of bounds together
    tried.leave_out("scaled by 3")
    assert "moved" not in kinds(tried.variants)
    assert "blanks" in kinds(tried.variants)


def test_another_buffer_of_all_sizes_is_no_neighbour(tmp_path: Path) -> None:
    tried = visits(tmp_path, thorough=True).asks
    first, second, *others = [v.name for v in VARIANTS if v.kind == "full"]
    tried.leave_out(first)
    assert {second, *others} <= {v.name for v in tried.variants}
    tried.leave_out(second)
    assert "full" not in kinds(tried.variants)


def test_what_rounding_decides_is_for_kernels_that_round(tmp_path: Path) -> None:
    asks = visits(tmp_path, thorough=True).asks
    assert "near" in kinds(asks.drawn(rounded=True))
    assert "near" not in kinds(asks.drawn(rounded=False))
    assert "halfway" in kinds(asks.drawn(whole=True))
    assert "halfway" not in kinds(asks.drawn(whole=False))
    assert "endmost" in kinds(asks.drawn(infinite=True))
    assert "endmost" not in kinds(asks.drawn(infinite=False))


def test_what_candidates_compare_with_comes_between_what_the_kernel_does() -> None:
    assert joined((1, 2, 3), iter([7, 7, 8])) == (7, 1, 8, 2, 3)
    # of many candidates no more than fit beside the kernel's own
    assert len(joined((1,), range(100, 200))) == 17


def test_what_a_kernel_does_not_stand_costs_a_bounded_time(tmp_path: Path) -> None:
    tried = visits(tmp_path).asks

    def ended(*stages: str, seconds: float, said: str) -> list[str]:
        records: tuple[Record, ...] = (*(Stage(f"variant {name}") for name in stages), Failed(said))
        assert tried.give_up(ProbeRun(records, Completed(("program",), 3, "", "", seconds)), seconds, 0.25)
        return [v.name for v in tried.variants]

    hung = "the kernel itself ran past its time limit when it was launched again"
    zero = [v.name for v in VARIANTS if v.kind == "vacant"]
    left = ended("with noise", zero[0], seconds=3.0, said=hung)
    assert not set(zero) & set(left) and len(left) > 50
    permuted = next(v.name for v in VARIANTS if v.kind == "permuted")
    left = ended("with noise", "with spikes", permuted, seconds=6.0, said="an illegal memory access")
    # what leads no further than its own inputs is asked still, and no integers that lead elsewhere
    tame = {v.name for v in VARIANTS if v.kind in ("moved", "signs", "lowered", "blanks", "specials")}
    assert {"with noise", "with spikes", "with integers no more than they were"} <= set(left)
    assert not {v.name for v in VARIANTS if v.kind in ("redrawn", "asked", "numbers", "full")} & set(left)
    shifted = next(v.name for v in VARIANTS if v.kind == "shifted")
    left = ended("with noise", "with spikes", shifted, seconds=0.1, said="an illegal memory access")
    assert left == ["with noise", "with spikes"] and tame & set(tried.unasked)
    assert tried.given_up == [f"variant {name}" for name in (zero[0], permuted, shifted)]
    # what was not asked is said, and what was is not
    assert {*zero[1:], "poison", "fill"} <= set(tried.unasked)
    assert not {"with noise", zero[0], permuted} & set(tried.unasked)


def test_what_had_to_be_killed_while_it_was_learned_has_hung(tmp_path: Path) -> None:
    tried = visits(tmp_path).asks
    zero = [v.name for v in VARIANTS if v.kind == "vacant"]
    assert tried.give_up(ProbeRun((Stage(f"variant {zero[0]}"),), None), 3.0, 0.5)
    assert not set(zero) & {v.name for v in tried.variants}


def test_larger_copies_begin_with_one_number_two_conditions_and_several_in_turn() -> None:
    found = in_order(ROOMS, random.Random(3))
    assert sorted(v.name for v in found) == sorted(v.name for v in ROOMS)
    assert len({v.name for v in ROOMS}) == len(ROOMS)
    for start in range(0, 16, 4):
        one, both, several, led = found[start : start + 4]
        assert one.kind == "numbers" and one.target >= 0 and not one.beside
        assert both.beside and not several.beside
        assert {v.kind for v in (led, *led.beside)} & {"flags", "plus", "redrawn", "asked"}


def test_what_has_caught_most_comes_early_and_nothing_is_always_first() -> None:
    orders = [drawn(VARIANTS, thorough=True, shortened=False) for _ in range(20)]
    assert all(any(v.kind == "asked" for v in order[:3]) for order in orders)
    assert len({order[0].name for order in orders}) > 2 and len({order[1].name for order in orders}) > 5


def test_integers_that_lead_out_of_larger_copies_leave_lengths_to_be_asked(tmp_path: Path) -> None:
    tried = visits(tmp_path, thorough=True).asks
    led = next(v for v in tried.rooms() if v.kind == "plus")
    assert tried.give_up(_died("rooms", f"variant {led.name}"), 0.1, 0.1)
    left = tried.rooms()
    assert left and all(v.kind in ("numbers", "reshaped", "past") for v in left)
    assert f"{led.name}, on larger copies" not in tried.unasked


def test_a_twin_that_the_kernel_does_not_stand_is_not_asked_again(tmp_path: Path) -> None:
    tried = visits(tmp_path, thorough=True).asks
    before = len(tried.rooms())
    assert tried.twin
    assert tried.give_up(_died("rooms", "twin"), 0.1, 0.1)
    assert not tried.twin and len(tried.rooms()) == before


def test_nothing_lies_in_one_place_where_the_kernel_forbids_it(tmp_path: Path) -> None:
    assert "aliased" in kinds(visits(tmp_path, thorough=True).asks.drawn())
    assert "aliased" not in kinds(visits(tmp_path, thorough=True, restrict=True).asks.drawn())
