# SPDX-License-Identifier: Apache-2.0
"""The card, a version's launch against its roofs, and what became of the versions that were tried, in words."""

from __future__ import annotations

import msgspec
import pytest
from tests.server.agent.bench import timed
from tests.server.agent.doubles import CODE, ComputedJudge

from warplens.agent.llm.feedback import bound_words
from warplens.agent.llm.measured import Measured, card_words, stand_in_words
from warplens.agent.llm.situation import outcome_of
from warplens.agent.moves import Move
from warplens.agent.versions import ROOT, Ask, Node, speedup_of
from warplens.measure.verdict import Candidate, Launch, Verdict
from warplens_tools.arch.load import load_architecture
from warplens_tools.evidence import Resources
from warplens_tools.finding import Bottleneck
from warplens_tools.text import SourceText

TEXT = SourceText(CODE)
GPU = load_architecture("sm_90")
MEASURED = Measured(ComputedJudge(TEXT).baseline(), GPU)


def version(verdict: Verdict | None, parent: Node | None = None) -> Node:
    """A version below `parent`; the user's own where there is none."""
    name = ROOT if parent is None else "c1"
    ask = Ask(Candidate(name, "/k.cu", "scale", ()), Move((), "model:planner", "a tile"))
    speedup = 1.0 if parent is None else speedup_of(verdict) if verdict is not None else None
    return Node(ask, TEXT, parent=parent, verdict=verdict, speedup=speedup)


ROOT_NODE = version(Verdict(ROOT, "same", ""))


def judged(speedup: float, taken: Resources | None = None, **fields: object) -> Verdict:
    return msgspec.structs.replace(timed("c1", speedup), resources=taken, **fields)


def test_the_card_is_told_in_its_limits() -> None:
    words = card_words(GPU)
    assert "sm_90" in words and "132 SMs" in words and "registers" in words and "Roofs: dram" in words


def test_a_card_that_is_not_known_is_not_told_as_if_it_were() -> None:
    assert stand_in_words(GPU).startswith(
        "The card that judges is not known yet. Typical of its architecture"
    )
    assert "is NVIDIA H200, whose figures are not known here" in stand_in_words(GPU, "NVIDIA H200")
    assert stand_in_words(GPU).endswith(card_words(GPU))


def test_the_original_is_told_by_its_launch_and_its_time() -> None:
    assert MEASURED.original() == (
        "The original is launched 1 times with grid 4096x1x1, block 256x1x1 and 0 bytes of dynamic shared memory; "
        "one launch takes 1 us, 100 % of the program's time on the card."
    )
    # 32 registers: 8 blocks of 8 warps fill an SM, 4096 of them 132 SMs 3.9 times
    words = MEASURED.of(ROOT_NODE)
    assert "takes 1 us, in which the card does at most 3.35e+06 bytes to or from dram and" in words
    assert "An SM holds 8 blocks of 256 threads (100% of its warps), limited by registers and warps" in words
    assert words.endswith("; the launch's 4096 blocks are 3.9 waves.")


def test_what_a_version_takes_is_held_against_the_card() -> None:
    taken = Resources(registers=128, shared_bytes=1024, spill_store_bytes=16)
    made = version(judged(4.0, taken, launch=Launch((1024, 1, 1), (128, 1, 1), 0)), ROOT_NODE)
    (timing,) = judged(4.0).timings
    words = MEASURED.of(made)
    assert f"One launch of this version takes {timing.candidate_ns.median / 1e3:.4g} us" in words
    assert "128 registers per thread, 1024 bytes of static shared memory, and spills 16 bytes" in words
    # 65536 registers hold 4 blocks of 128 threads with 128 each
    assert "An SM holds 4 blocks of 128 threads (25% of its warps), limited by registers" in words
    assert words.endswith("; the launch's 1024 blocks are 1.9 waves.")
    told = MEASURED.timing_of(made)
    assert told is not None and (told.grid, told.block) == ((1024, 1, 1), (128, 1, 1))
    assert told.median_ns == timing.candidate_ns.median


def test_a_grid_that_is_not_known_makes_no_waves() -> None:
    made = version(judged(4.0, Resources(128), launch=Launch(None, (128, 1, 1), 100_000)), ROOT_NODE)
    assert MEASURED.of(made).endswith(
        "An SM holds 2 blocks of 128 threads (12% of its warps), limited by shared memory."
    )
    assert MEASURED.timing_of(made) is None


@pytest.mark.parametrize("launch", [None, Launch((1, 1, 1), (2048, 1, 1), 0)])
def test_no_occupancy_is_made_up(launch: Launch | None) -> None:
    words = MEASURED.of(version(judged(2.0, Resources(32), launch=launch), ROOT_NODE))
    assert "32 registers" in words and "An SM holds" not in words
    assert MEASURED.of(version(None, ROOT_NODE)) == ""


def test_what_was_tried_says_its_time_and_what_it_was_made_from() -> None:
    parent = version(judged(3.0), ROOT_NODE)
    made = outcome_of(version(judged(2.5, Resources(64, spill_store_bytes=8)), parent))
    assert made.microseconds is not None
    assert made.line() == (
        f"- a tile: 2.50x of the original's speed ({made.microseconds:.4g} us), made from 3.00x, 64 registers, "
        "8 bytes spilled"
    )
    # of a step from the original there is nothing else to say
    assert "made from" not in outcome_of(parent).line()


def test_what_was_tried_says_why_a_fast_version_does_not_count() -> None:
    why = "faster on the program's own inputs, but 1.010× on inputs halved"
    assert (
        outcome_of(version(judged(69.6, state="same", reason=why), ROOT_NODE))
        .line()
        .endswith(f"; judged same: {why}")
    )
    slow = outcome_of(version(judged(0.8, state="slower", reason="0.800×"), ROOT_NODE))
    assert "judged" not in slow.line()
    wrong = outcome_of(version(Verdict("c1", "wrong", "element 17 of x\nis 3.5"), ROOT_NODE))
    assert wrong.line() == "- a tile: wrong: element 17 of x is 3.5"


def test_what_bounds_a_version_is_told_where_it_is_known() -> None:
    told = bound_words(Bottleneck("memory", "high", "a warp needs device memory 3.0 times as long as issue"))
    assert told == (
        "What bounds this version, by its code and its launch (memory, high confidence): a warp needs device memory "
        "3.0 times as long as issue."
    )
    assert bound_words(None) == bound_words(Bottleneck("unknown", "low", "not compiled")) == ""
