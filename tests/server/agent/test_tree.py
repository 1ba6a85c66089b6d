# SPDX-License-Identifier: Apache-2.0
"""The search tree: ask and tell, determinism, asymmetry, dead ends, and its worth against chance."""

from __future__ import annotations

import math

import msgspec
import pytest
from tests.server.agent.bench import Landscape, compare, search, timed

from warplens.agent.moves import Move, Proposal
from warplens.agent.policies import RandomSearch
from warplens.agent.search_settings import SearchSettings
from warplens.agent.text_source import TextSource
from warplens.agent.tree import SearchTree
from warplens.agent.versions import Ask, best_first, state_of
from warplens.measure.verdict import State, Verdict
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.tunable.parameter import Geometry

SEARCHERS = [SearchTree, RandomSearch]


class Counters:
    """A space of `names` counters that go up by one; every text differs from every other."""

    def __init__(self, names: str = "ab", top: int = 3) -> None:
        self.baseline = SourceText("".join(f"{name}0\n" for name in names))
        self.top = top
        self.sources = (TextSource("counters", self.propose),)

    def propose(self, text: SourceText) -> list[Proposal]:
        found = []
        for line, content in enumerate(text.text.splitlines(), start=1):
            name, value = content[0], int(content[1:])
            if value < self.top:
                offset = text.offset(line, 2)
                edit = TextEdit(text.span(offset, offset + 1), str(value + 1))
                found.append(Proposal(Move((f"{name}={value + 1}",), name, f"{name} up"), (edit,)))
        return found

    def geometry(self, text: SourceText) -> Geometry:
        return Geometry(block=(len(text.text), 1, 1))

    def illegal(self, text: SourceText) -> str:  # noqa: ARG002 - the interface's
        return ""


def tree(space: Counters | None = None, **options: float) -> SearchTree:
    space = space or Counters()
    settings = SearchSettings(**options)  # type: ignore[arg-type]
    return SearchTree(space.baseline, path="/k.cu", kernel="k", space=space, settings=settings)


def hashes(asks: list[Ask]) -> list[str]:
    return [ask.candidate.text_hash for ask in asks]


def test_a_candidate_is_edits_against_the_users_text() -> None:
    search_tree = tree(Counters("ab"))
    (first,) = search_tree.ask()
    search_tree.tell(first.candidate.id, timed(first.candidate.id, 1.5))
    asks = search_tree.ask(5)
    deep = next(a for a in asks if a.candidate.parent == first.candidate.id)
    changed = Counters("ab").baseline.apply(list(deep.candidate.edits))
    assert search_tree.versions.by_id[deep.candidate.id].text.text == changed.text
    assert deep.candidate.block == (len(changed.text), 1, 1)
    assert (deep.candidate.path, deep.candidate.kernel) == ("/k.cu", "k")


@pytest.mark.parametrize("kind", SEARCHERS)
def test_no_text_is_asked_twice(kind: type[SearchTree] | type[RandomSearch]) -> None:
    space = Counters("abc", top=1)
    searcher = kind(space.baseline, path="k.cu", kernel="k", space=space)
    seen: list[str] = []
    while asks := searcher.ask(3):
        seen += hashes(asks)
        for ask in asks:
            searcher.tell(ask.candidate.id, timed(ask.candidate.id, 1.0))
    assert len(seen) == len(set(seen))
    # Three counters at 0 or 1, without the start.
    assert len(seen) == 7
    assert searcher.exhausted


@pytest.mark.parametrize("kind", SEARCHERS)
@pytest.mark.parametrize("batch", [1, 4])
def test_the_same_seed_and_verdicts_give_the_same_candidates(
    kind: type[SearchTree] | type[RandomSearch], batch: int
) -> None:
    runs = []
    for _ in range(2):
        landscape = Landscape(3)
        searcher = kind(landscape.baseline, path="k.cu", kernel="k", space=landscape, seed=5)
        search(landscape, searcher, 30, batch)
        runs.append(hashes([node.ask for node in searcher.versions.told()]))
    assert runs[0] == runs[1]


def test_another_seed_searches_elsewhere() -> None:
    found = []
    for seed in (1, 2):
        landscape = Landscape(3)
        searcher = SearchTree(landscape.baseline, path="k.cu", kernel="k", space=landscape, seed=seed)
        found.append(hashes(searcher.ask(6)))
    assert found[0] != found[1]


@pytest.mark.parametrize("kind", SEARCHERS)
@pytest.mark.parametrize("stop", [1, 7, 16])
def test_a_restored_search_goes_on_as_if_never_stopped(
    kind: type[SearchTree] | type[RandomSearch], stop: int
) -> None:
    landscape = Landscape(4)

    def start() -> SearchTree | RandomSearch:
        return kind(landscape.baseline, path="k.cu", kernel="k", space=landscape, seed=9)

    def go_on(searcher: SearchTree | RandomSearch, until: int) -> list[Ask]:
        journal: list[Ask] = []
        while len(searcher.versions.told()) < until:
            (ask,) = searcher.ask()
            journal.append(ask)
            searcher.tell(ask.candidate.id, landscape.verdict(ask.candidate))
        return journal

    whole, first = start(), start()
    expected = go_on(whole, 24)
    second = start()
    for ask in go_on(first, stop):
        second.restore(ask)
        second.tell(ask.candidate.id, landscape.verdict(ask.candidate))
    assert hashes(expected[:stop]) + hashes(go_on(second, 24)) == hashes(expected)


def test_a_restored_ask_without_a_verdict_waits_for_one() -> None:
    first, second = tree(), tree()
    (ask,) = first.ask()
    second.restore(ask)
    assert [node.ask for node in second.versions.waiting()] == [ask]
    assert not second.exhausted


def test_parallel_asks_spread_out_while_verdicts_are_pending() -> None:
    search_tree = tree(Counters("abcd"))
    asks = search_tree.ask(4)
    assert len({ask.move.changes for ask in asks}) == 4
    assert search_tree.versions.root.pending == 4
    for ask in asks:
        search_tree.tell(ask.candidate.id, timed(ask.candidate.id, 1.1))
    assert search_tree.versions.root.pending == 0
    assert search_tree.versions.root.visits == 5


class Promising(Counters):
    """Counters of which "a" promises a doubling for sure, and the others next to nothing."""

    def propose(self, text: SourceText) -> list[Proposal]:
        found = []
        for proposal in super().propose(text):
            gain = 2.0 if proposal.move.rule == "a" else 1.01
            move = msgspec.structs.replace(proposal.move, gain=gain, probability=1.0)
            found.append(Proposal(move, proposal.edits))
        return found


def test_a_batch_ends_with_the_first_step_that_promises_little_against_its_best() -> None:
    search_tree = tree(Promising("abcd"), draw_noise=0.0)
    asks = search_tree.ask(4)
    assert len(asks) == 2 and asks[0].move.rule == "a"
    assert len(tree(Counters("abcd")).ask(4)) == 4, "where all promise the same, it is full"
    for ask in asks:
        search_tree.tell(ask.candidate.id, timed(ask.candidate.id, 2.0 if ask.move.rule == "a" else 1.0))
    best = asks[0].candidate.id
    below = [ask.candidate.parent for ask in search_tree.ask(4)]
    assert below[0] == best and below.count(best) >= len(below) - 1, "the next goes below the best version"


@pytest.mark.parametrize("told", ["wrong", "not_built", "hung", "illegal", "crashed"])
def test_a_working_version_gets_more_children_than_a_failed_one(told: State) -> None:
    search_tree = tree(Counters("abcdef", top=5), max_depth=3)
    good, bad = search_tree.ask(2)
    search_tree.tell(good.candidate.id, timed(good.candidate.id, 1.3))
    search_tree.tell(bad.candidate.id, Verdict(bad.candidate.id, told, ""))
    for _ in range(60):
        for ask in search_tree.ask():
            search_tree.tell(ask.candidate.id, timed(ask.candidate.id, 1.2))
    nodes = search_tree.versions.by_id
    assert len(nodes[bad.candidate.id].children) <= 1 < len(nodes[good.candidate.id].children)


def test_a_dead_end_is_closed_up_to_the_root() -> None:
    search_tree = tree(Counters("a", top=2))
    while asks := search_tree.ask():
        search_tree.tell(asks[0].candidate.id, Verdict(asks[0].candidate.id, "wrong", ""))
    assert search_tree.versions.root.closed and search_tree.exhausted
    assert search_tree.ask(3) == []


def test_a_second_verdict_for_the_same_candidate_is_ignored() -> None:
    search_tree = tree()
    (ask,) = search_tree.ask()
    search_tree.tell(ask.candidate.id, timed(ask.candidate.id, 1.4))
    search_tree.tell(ask.candidate.id, Verdict(ask.candidate.id, "wrong", ""))
    assert search_tree.versions.by_id[ask.candidate.id].speedup == 1.4
    assert search_tree.versions.root.visits == 2


def test_rewards_rise_from_not_built_over_wrong_to_the_cap() -> None:
    reward = tree().reward
    failures = [reward(Verdict("c", state, "")) for state in ("not_built", "crashed", "wrong")]
    times = [reward(timed("c", speedup)) for speedup in (0.25, 0.5, 1.0, 2.0, 4.0, 400.0)]
    assert failures == sorted(failures)
    assert failures[-1] <= times[0]
    assert times == sorted(times)
    assert times[2] == SearchSettings().reward_same
    assert times[3] - times[2] == pytest.approx(times[4] - times[3])
    assert times[-2] == times[-1] == 1.0


def test_little_headroom_makes_small_gains_count() -> None:
    space = Counters()
    near_roof = SearchTree(space.baseline, path="k.cu", kernel="k", space=space, headroom=1.2)
    assert near_roof.reward(timed("c", 1.15)) > tree().reward(timed("c", 1.15)) + 0.2


def test_steps_found_to_help_are_taken_together() -> None:
    search_tree = tree(Counters("abc", top=1))
    for ask in search_tree.ask(3):
        search_tree.tell(ask.candidate.id, timed(ask.candidate.id, 1.3))
    (leap,) = search_tree.ask()
    node = search_tree.versions.by_id[leap.candidate.id]
    assert node.text.text == "a1\nb1\nc1\n"
    assert len(leap.move.changes) > 1
    assert leap.move.rule == ""


def test_a_later_change_of_the_same_thing_replaces_the_earlier() -> None:
    search_tree = tree(Counters("a", top=3))
    for _ in range(3):
        (ask,) = search_tree.ask()
        search_tree.tell(ask.candidate.id, timed(ask.candidate.id, 1.2))
    assert state_of(search_tree.versions.by_id[ask.candidate.id]) == {"a": "a=3"}


def test_among_versions_the_noise_cannot_tell_apart_the_shortest_diff_comes_first() -> None:
    search_tree = tree(Counters("ab", top=1))

    def speedup(ask: Ask) -> float:
        return 1.505 if len(ask.candidate.edits) > 1 else 1.5

    while asks := search_tree.ask():
        search_tree.tell(asks[0].candidate.id, timed(asks[0].candidate.id, speedup(asks[0])))
    best = best_first(search_tree.versions.told())
    assert [len(node.ask.candidate.edits) for node in best] == [1, 1, 2]


@pytest.mark.thorough
def test_the_tree_beats_chance_at_equal_budget() -> None:
    """40 landscapes, 40 verdicts each: see `bench.py` for what this says and does not."""
    results = [compare(seed, budget=40) for seed in range(40)]
    wins = sum(tree_best > chance_best for tree_best, chance_best in results)
    advantage = sum(math.log(tree_best / chance_best) for tree_best, chance_best in results) / len(results)
    assert wins >= 30
    assert math.exp(advantage) > 1.25


def test_a_batch_holds_few_values_of_one_number_beside_what_promises_less() -> None:
    class Values(Counters):
        def propose(self, text: SourceText) -> list[Proposal]:
            if "a0" not in text.text or "b0" not in text.text:
                return []
            edit = {name: TextEdit(text.span(at, at + 2), f"{name}#") for name, at in (("a", 0), ("b", 3))}
            moves = [Move((f"a={v}",), "a", "another a", gain=1.3, probability=0.9) for v in range(1, 8)]
            chosen = [
                Proposal(m, (msgspec.structs.replace(edit["a"], new_text=m.changes[0]),)) for m in moves
            ]
            return [*chosen, Proposal(Move(("b",), "b", "b", gain=1.2, probability=0.5), (edit["b"],))]

    def place(share: float) -> int:
        asks = tree(Values("ab"), beside_waiting=share, draw_noise=0.0).ask(8)
        return [ask.move.title for ask in asks].index("b")

    assert place(1.0) == 7
    assert place(0.5) == 2
