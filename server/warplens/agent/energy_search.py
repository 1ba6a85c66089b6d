# SPDX-License-Identifier: Apache-2.0
"""The search for less energy at equal time: what one further step makes of the fastest version found.

The search itself is for time and comes to its end where nothing is faster. Many steps on its result cost no time and
change what the card does meanwhile: blocks of another size, other hints, loads of another width, fewer instructions.
They are judged as all others are; those as fast as the fastest may take its place for their energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from warplens.agent.moves import Idea
from warplens.agent.search_settings import EQUAL_TIME, Budget
from warplens.agent.searcher import Searcher
from warplens.agent.versions import Ask, Node
from warplens_tools.process.task import Task
from warplens_tools.rewrite.registry import REWRITES

#: Versions tried around the fastest, and the largest share of a budget, of candidates or of seconds, that they take.
AROUND, SHARE = 16, 0.4
#: Versions whose energy is measured, each in a confirmation of its own.
RIVALS = 5
#: Rules after which a kernel executes less: they are tried, and measured, before steps of which that is not known.
LIGHTER = frozenset(rewrite.slug for rewrite in REWRITES if rewrite.spares)


def for_time(budget: Budget) -> int:
    """Candidates of a budget that the search for time may spend."""
    return budget.candidates - min(AROUND, int(SHARE * budget.candidates))


def around(searcher: Searcher, fastest: Node, count: int, task: Task) -> list[Ask]:
    """Up to `count` new versions one step from the fastest one, whose making costs nothing: what executes less first,
    and of each rule in turn."""
    versions = searcher.versions
    by_rule: dict[str, list[Idea]] = {}
    for idea in versions.untried(fastest):
        if idea.made or idea.free:
            by_rule.setdefault(idea.move.rule, []).append(idea)
    rules = sorted(by_rule, key=lambda rule: rule not in LIGHTER)
    in_turn = [
        idea for row in zip_longest(*map(by_rule.__getitem__, rules)) for idea in row if idea is not None
    ]
    found: list[Node] = []
    for idea in in_turn:
        proposal = idea.make(task) if len(found) < count else None
        child = versions.grow(fastest, proposal) if proposal is not None else None
        found += [child] if child is not None else []
    for node in found:
        for source in versions.space.sources:
            source.asked(node)
    return [node.ask for node in found]


def as_fast_as(node: Node, fastest: Node) -> bool:
    """Whether a version is as fast as the fastest, within `EQUAL_TIME`."""
    return (node.speedup or 0.0) >= (1.0 - EQUAL_TIME) * (fastest.speedup or 0.0)


def by_energy(best: Sequence[Node]) -> list[Node]:
    """Versions, fastest first, in the order in which their energy is worth measuring: the fastest, then those as fast,
    of which a last step that executes less comes first, then the rest."""
    first, rest = best[:1], best[1:]
    return [
        *first,
        *sorted(rest, key=lambda n: (not as_fast_as(n, first[0]), n.ask.move.rule not in LIGHTER)),
    ]
