# SPDX-License-Identifier: Apache-2.0
"""A search's answer becomes an edit with its proof in Markdown."""

from __future__ import annotations

import msgspec
import pytest

from warplens.agent.result import Change, OptimizeResult, Proof, Spent, Tried
from warplens.agent.result import Offer as Unproven
from warplens.lsp.proof import offer_of, offer_of_fix
from warplens.measure.judge import ProgramGain
from warplens.measure.verdict import Conditions, Interval, Outside, State, Timing, Verdict
from warplens_tools.finding import Fix, Gain
from warplens_tools.text import Span, TextEdit

EDIT = TextEdit(Span(3, 1, 3, 2), "x")
FIX = Fix("Pad the tile", "pad-shared-tile", (EDIT,), "", "unproven")
TIMING = Timing(
    baseline_ns=Interval(42_000, 41_900, 42_100),
    candidate_ns=Interval(30_000, 29_900, 30_100),
    speedup=Interval(1.4, 1.39, 1.41),
    noise=0.004,
    rounds=40,
)
NOTHING = OptimizeResult(
    version=1,
    tool="warplens 0",
    path="/w/k.cu",
    kernel="transpose",
    outcome="nothing",
    reason="everything tried was slower or the same",
    baseline_hash="",
    conditions=Conditions("NVIDIA H200", "GPU-1", "580.1", "13.0", sm_clock_mhz=1980.0),
    spent=Spent(1, 2.0, 0, "exhausted"),
)


def test_a_win_shows_times_resources_conditions_and_what_was_tried() -> None:
    proof = Proof(
        verdict=Verdict("c1", "faster", "", timings=(TIMING,)),
        program=ProgramGain(Interval(1.0, 1, 1), Interval(0.9, 0.9, 0.9), Interval(1.11, 1.1, 1.12)),
        answers=("WL104",),
        rules=("pad-shared-tile",),
        changes=(Change("static shared memory", "byte/block", 4096, 4224),),
    )
    tried = Tried("c1", "baseline", "Pad the tile", "rewrite:pad-shared-tile", "faster", "", TIMING.speedup)
    result = msgspec.structs.replace(
        NOTHING, outcome="faster", reason="it is faster", proof=proof, edits=(EDIT,), tried=(tried,)
    )
    offer = offer_of(result)
    assert (offer.state, offer.title, offer.edits) == ("faster", "transpose: 1.40× faster", (EDIT,))
    for words in (
        "42.00 µs before, 30.00 µs after: 1.400× (95 %: 1.390 to 1.410); noise 0.40%, 40 rounds",
        "Whole program: 1.000 s before, 0.900 s after",
        "It answers WL104.",
        "| static shared memory | 4096 byte/block | 4224 byte/block |",
        "Measured on NVIDIA H200, driver 580.1, CUDA 13.0, SM 1980 MHz.",
        "| Pad the tile | faster | 1.400× |",
        "/docs/judge.md",
    ):
        assert words in offer.proof


def test_nothing_found_has_no_edit() -> None:
    offer = offer_of(NOTHING)
    assert not offer.edits
    assert offer.title == "Nothing faster was found for transpose: everything tried was slower or the same"


def test_without_a_measurement_the_first_offer_is_unproven() -> None:
    offers = tuple(
        Unproven("transpose", title, "r", "", (EDIT,), answers, gain, 0.5, Gain.of(gain, 2.0))
        for title, answers, gain in (
            ("Pad the tile", ("WL104",), 1.8),
            ("Smaller blocks", ("WL104",), 1.1),
            ("Qualify in", ("WL111",), 1.0),
            ("Larger tile", (), 1.4),
        )
    )
    result = msgspec.structs.replace(
        NOTHING,
        outcome="unproven",
        reason="there is no GPU",
        remedy="run it on a machine with one",
        offers=offers,
    )
    offer = offer_of(result)
    assert (offer.state, offer.title) == ("unproven", "Pad the tile (unproven)")
    assert "**Unproven:** there is no GPU." in offer.proof and "run it on a machine with one" in offer.proof
    assert "It answers WL104: 1.8× expected (at most 2.0×) if it works." in offer.proof
    assert "- Smaller blocks (transpose): 1.1× expected (at most 2.0×) if it works" in offer.proof
    assert offer.proof.endswith("- Qualify in (transpose)")
    hidden = offer_of(msgspec.structs.replace(result, offers=offers[2:]))
    assert "It answers WL111. The model sees no gain in it; a measurement may." in hidden.proof
    unasked = offer_of(msgspec.structs.replace(result, offers=offers[3:]))
    assert (unasked.state, unasked.edits) == ("unproven", ())
    assert unasked.title == (
        "transpose: no finding asks for an edit, so none is offered unmeasured. There is no GPU. "
        "A measurement would try 1 edit: Larger tile."
    )


@pytest.mark.parametrize(
    ("verdict", "state"), [("slower", "slower"), ("wrong", "wrong"), ("faster", "unproven")]
)
def test_a_fix_keeps_its_verdict_and_is_never_faster_unconfirmed(verdict: State, state: str) -> None:
    tried = Tried("c1", "baseline", FIX.title, "rewrite:pad-shared-tile", verdict, "as measured")
    offer = offer_of_fix(msgspec.structs.replace(NOTHING, tried=(tried,)), FIX)
    assert (offer.state, offer.title, offer.edits) == (state, f"Pad the tile: {state}", FIX.edits)


def test_a_win_judged_from_outside_says_so_and_what_that_leaves_open() -> None:
    timing = msgspec.structs.replace(
        TIMING, baseline_ns=Interval(4e8, 4e8, 4e8), candidate_ns=Interval(3e8, 3e8, 3e8), span="process"
    )
    outside = Outside(("exit status 0", "3 lines"), ("standard error",), ("results remembered",))
    verdict = Verdict("c1", "faster", "", timings=(timing,), outside=outside)
    proof = Proof(verdict=verdict, program=None, answers=(), rules=(), changes=())
    offer = offer_of(msgspec.structs.replace(NOTHING, outcome="faster", proof=proof, edits=(EDIT,)))
    assert offer.title == "transpose's program, judged from outside: 1.40× faster"
    for words in (
        "**Judged from outside the program, because host code was edited.**",
        "- compared: exit status 0; 3 lines",
        "- not compared: standard error",
        "- could not be ruled out: results remembered",
        "400.000 ms before, 300.000 ms after: 1.400× (95 %: 1.390 to 1.410); noise 0.40%, 40 rounds, whole process",
    ):
        assert words in offer.proof
