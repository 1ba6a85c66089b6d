# SPDX-License-Identifier: Apache-2.0
"""Which of the versions judged faster is the winner: the best that holds when it is measured again."""

from __future__ import annotations

from collections.abc import Sequence

from warplens.agent.dispatch import dispatched
from warplens.agent.energy_search import RIVALS, as_fast_as, by_energy
from warplens.agent.journal import Journal
from warplens.agent.judging import JudgeSession
from warplens.agent.limits import confirmed
from warplens.agent.search_settings import Objective
from warplens.agent.searcher import Searcher
from warplens.agent.versions import Node, best_first, state_of
from warplens.measure.judge import Confirmation
from warplens.measure.verdict import Verdict
from warplens_tools.process.task import Task

#: Winners that are confirmed before the search is called fruitless. Most of those that fail do so in the first fresh
#: process, within a few runs of the program; a program's best steps are seldom of more families than these.
CONFIRMATIONS = 5
#: So many that hold are compared by energy, each of which takes as long as the sensor needs.
HELD = 3


class Winners:
    """Measures the best versions again; `fell` gets what was said of those that did not hold, by candidate."""

    def __init__(
        self,
        judge: JudgeSession,
        objective: Objective,
        fell: dict[str, Verdict],
        searcher: Searcher,
        journal: Journal,
        heaviest: tuple[int, int, int],
    ) -> None:
        """`heaviest`: the grid of the launch that versions were timed at."""
        self._judge, self._objective, self._fell = judge, objective, fell
        self._searcher, self._journal, self._heaviest = searcher, journal, heaviest
        #: What dispatches were made of, and the launches at which that was slower, by their candidate.
        self._origins: dict[str, tuple[Node, tuple[tuple[int, int, int], ...]]] = {}

    def confirmed(self, best: Sequence[Node], task: Task) -> tuple[Node, Confirmation] | None:
        """The best version that holds; of several, the one that takes least energy.

        Of one that does not because it is slower at some launches, a version that leaves those as they were is tried.
        """
        best = [*self._with_mixed(best, task), *runners_up(self._searcher.versions.told())]
        held: list[tuple[Node, Confirmation]] = []
        lexicographic = self._objective == "lexicographic"
        waiting = by_energy(best) if lexicographic else list(best)
        fallen: list[Node] = []
        again_of: list[Node] = []
        for _ in range(RIVALS if lexicographic else CONFIRMATIONS):
            if not waiting and not again_of:
                break
            node = again_of.pop() if again_of else waiting.pop(waiting.index(unlike(fallen, waiting)))
            if held and not self._rivals(node, held[0][0]):
                continue
            again = confirmed(self._judge, node.ask.candidate, task)
            self._journal.confirmed(again)
            if again.verdict.state != "faster":
                self._fell[node.ask.candidate.id] = again.verdict
                fallen.append(node)
                waiting = [other for other in waiting if not akin(node, other)]
                again_of = self._dispatched(node, again.verdict, task)
                continue
            held.append((node, again))
            if self._objective == "time" or (self._objective == "energy" and len(held) == HELD):
                break
        return max(held, key=lambda pair: saved(pair[1]), default=None)

    def _with_mixed(self, best: Sequence[Node], task: Task) -> list[Node]:
        """`best` with what a dispatch makes of the version that is fastest at the heaviest launch, if it is better."""
        told = self._searcher.versions.told()
        mixed = [n for n in told if n.verdict is not None and n.verdict.slower_at and n.speedup is not None]
        first = max(mixed, key=lambda n: n.speedup or 0.0, default=None)
        if (
            first is None
            or first.verdict is None
            or (best and (best[0].speedup or 0.0) > (first.speedup or 0.0))
        ):
            return list(best)
        return best_first([*best, *self._dispatched(first, first.verdict, task)])

    def _dispatched(self, node: Node, verdict: Verdict, task: Task) -> list[Node]:
        """What leaves the launches as they were at which a version is slower, judged; none where it is not faster."""
        origin, known = self._origins.get(node.ask.candidate.id, (node, ()))
        slower = (*known, *verdict.slower_at)
        child = (
            dispatched(self._searcher.versions, origin, self._heaviest, slower) if verdict.slower_at else None
        )
        if child is None:
            return []
        self._origins[child.ask.candidate.id] = (origin, slower)
        self._journal.asked([child.ask])
        (found,) = self._judge.judge([child.ask.candidate], task=task)
        self._searcher.tell(found.candidate, found)
        self._journal.told(child, found)
        return [child] if found.state == "faster" else []

    def _rivals(self, node: Node, fastest: Node) -> bool:
        """Whether a version may take the place of the fastest that holds."""
        return self._objective == "energy" or as_fast_as(node, fastest)


def unlike(fallen: Sequence[Node], best: Sequence[Node]) -> Node:
    """The first version without all changes of one that did not hold, as that would hardly hold either, and without
    what several of those had in common; else the first.
    """
    changes = [set(state_of(node).items()) for node in fallen]
    common = set.intersection(*changes) if len(changes) > 1 else set[tuple[str, str]]()

    def doubtful(node: Node) -> bool:
        mine = set(state_of(node).items())
        return bool(common & mine) or any(c <= mine for c in changes)

    return next((node for node in best if not doubtful(node)), best[0])


def akin(node: Node, other: Node) -> bool:
    """Whether two versions are the same edits apart from their numbers: what one's confirmation finds, the other's
    would find again."""
    return state_of(node).keys() == state_of(other).keys()


def runners_up(told: Sequence[Node]) -> list[Node]:
    """Versions that were not looked at in full since there was a better one, and that are faster than the original by
    their brief timing; best first. Confirming one looks at all of it."""
    ahead = [
        n for n in told if n.verdict is not None and n.verdict.state == "provisional" and _ahead(n.verdict)
    ]
    return sorted(ahead, key=lambda n: -(n.speedup or 0.0))


def _ahead(verdict: Verdict) -> bool:
    return all(timing.speedup.low > 1.0 + timing.noise for timing in verdict.timings)


def saved(confirmation: Confirmation) -> float:
    """How much less energy a version's program takes than the original; 1 where that is not known."""
    energy = confirmation.program.energy if confirmation.program is not None else None
    return energy.ratio.median if energy is not None else 1.0
