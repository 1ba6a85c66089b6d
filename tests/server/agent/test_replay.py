# SPDX-License-Identifier: Apache-2.0
"""Policies over tables: the format, its recorder, and that each policy searches them honestly.

The tables here are modelled, or recorded from a judge that computes; they say nothing of real kernels.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.bench.replay import VARIANTS, compare, replay
from tests.bench.replay_model import modelled
from tests.bench.replay_record import TableBudget, record
from tests.bench.replay_table import Table, TableSpace, read_table, write_table
from tests.bench.replay_transfer import evaluations, learned
from tests.server.agent.doubles import CODE, ComputedJudge
from tests.server.agent.snippets import LIMITS

from warplens.agent.actions import KernelSpace
from warplens.agent.search_settings import SearchSettings
from warplens.measure.verdict import Candidate
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText

#: Recorded on a card by `python -m tests.bench.replay_record`.
TABLES = Path(__file__).parents[2] / "bench" / "tables"


def recorded(tmp_path: Path, budget: TableBudget) -> tuple[Table, ComputedJudge]:
    text, judge = SourceText(CODE), ComputedJudge(SourceText(CODE))
    space = KernelSpace(text, path="/k.cu", kernel="scale", limits=LIMITS, rewrites=REWRITES)
    part = tmp_path / "table.json.part"
    return record(space, text, REWRITES, judge, program="scale.cu", part=part, budget=budget), judge


def test_a_recorded_table_has_the_verdict_of_every_point(tmp_path: Path) -> None:
    table, judge = recorded(tmp_path, TableBudget(steps=4, depth=1, values=4, points=300))
    assert len({(p.structure, p.values) for p in table.points}) == len(table.points) > 27
    assert {axis.name for axis in table.structures[0].axes} >= {"BLOCK", "unroll, line 4"}
    assert any(structure.edges for structure in table.structures)
    best = max(table.points, key=lambda p: p.speedup)
    values = dict(zip((a.name for a in table.structures[best.structure].axes), best.values, strict=True))
    assert values["BLOCK"] == 128 and table.best == best.speedup
    own = next(p for p in table.points if p.structure == 0 and p.state == "same")
    assert own.speedup == pytest.approx(1.0, abs=0.01)
    for name in ("table.json", "table.json.xz"):
        write_table(table, tmp_path / name)
        assert read_table(tmp_path / name) == table
    again, second = recorded(tmp_path, TableBudget(steps=4, depth=1, values=4, points=300))
    assert not second.judged and judge.judged, "an interrupted recording goes on"
    assert again.points == table.points


@pytest.mark.thorough
def test_no_more_is_recorded_than_fits_the_time_and_what_is_kept_is_whole(tmp_path: Path) -> None:
    table, judge = recorded(tmp_path, TableBudget(seconds=0.0))
    assert not judge.judged
    assert [p.speedup for p in table.points] == [1.0], "the user's own is known before"


@pytest.mark.thorough
def test_a_budget_of_points_is_kept_and_what_it_left_out_is_never_asked(tmp_path: Path) -> None:
    table, _ = recorded(tmp_path, TableBudget(depth=1, points=20))
    assert len(table.points) == 20
    assert table.points[0].speedup == 1.0, "the user's own comes first, then what is one step away"
    for variant in VARIANTS[:3]:
        replay(table, variant, seed=1, budget=40, batch=4)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant[0].replace(" ", "-"))
def test_every_policy_and_ablation_replays_alike_and_never_loses_its_best(
    variant: tuple[str, ...],
) -> None:
    table = modelled(1)
    first = replay(table, variant, seed=3, budget=16)  # type: ignore[arg-type]
    assert first == replay(table, variant, seed=3, budget=16)  # type: ignore[arg-type]
    assert first == sorted(first) and 1.0 <= first[-1] <= table.best


def test_verdicts_are_the_tables(tmp_path: Path) -> None:
    table, _ = recorded(tmp_path, TableBudget(steps=2, depth=0, values=2))
    space = TableSpace(table, seed=0, settings=SearchSettings())
    verdict = space.verdict(Candidate("c", "table", "scale", ()))
    assert verdict.state == "same" and verdict.timings[0].speedup.median == 1.0


def test_a_store_of_other_kernels_says_what_their_verdicts_were() -> None:
    tables = [modelled(1), modelled(2)]
    rates = {rate.subject: rate for rate in learned(tables, tables[1], seed=0, budget=12)}
    assert sum(rate.trials for rate in rates.values() if rate.kind == "rule") <= 12
    assert all(0 <= rate.hits <= rate.trials for rate in rates.values())
    assert evaluations([1.0, 3.8, 4.0], best=4.0) == 2
    assert evaluations([1.0, 1.1], best=4.0) == 2


def test_the_tree_is_ahead_of_chance_on_tables_of_a_card() -> None:
    """Four of the recorded tables that replay fastest, four seeds; `python -m tests.bench.replay` takes all of them."""
    gains = {"mcts": list[float](), "random": list[float]()}
    for name in ("histogram", "quantize_rows", "rolling_volatility", "stencil3d"):
        table = read_table(TABLES / f"{name}.json.xz")
        assert table.source == "measured" and table.gpu == "NVIDIA H200"
        for variant in VARIANTS:
            for seed in range(4) if variant[0] in gains else ():
                found = replay(table, variant, seed, budget=8, batch=4)
                assert len(found) == 8 and found[-1] <= table.best
                gains[variant[0]].append(math.log2(found[-1]))
    assert sum(gains["mcts"]) / 16 > sum(gains["random"]) / 16 + 0.1


@pytest.mark.thorough
def test_the_tree_is_ahead_of_chance_on_modelled_tables() -> None:
    """Three tables, three seeds, 40 verdicts each; `python -m tests.bench.replay` compares everything."""
    chosen = [v for v in VARIANTS if v[0] in ("mcts", "random")]
    tree, chance = compare([modelled(seed) for seed in range(3)], chosen, seeds=3, budget=40)
    assert tree["all"][0] > 1.3 * chance["all"][0]  # type: ignore[index]
    assert tree["against random"]["wins"] >= 7  # type: ignore[index]
