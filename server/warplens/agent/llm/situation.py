# SPDX-License-Identifier: Apache-2.0
"""What of the tree each role is shown: the version, its children and siblings, the leaders, the user's own text.

After STARK (arXiv 2510.16996): a planner sees the version, its children and the leaders; a coder the version, its
children and those of its siblings; a debugger the version and its siblings. The root is always there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from warplens.agent.llm.measured import nanoseconds_of
from warplens.agent.versions import Node, best_first, moves_of
from warplens.measure.verdict import Verdict
from warplens_tools.text import SourceText, unified_diff

#: Leaders that are shown, best first.
MOST_LEADERS = 3
#: Characters of a verdict's reason and of one diff that a prompt repeats.
MOST_REASON, MOST_DIFF = 600, 2400
#: Characters of a reason that one line of what was tried repeats.
MOST_WHY = 240


class Outcome(msgspec.Struct, frozen=True):
    """One version as a prompt speaks of it."""

    title: str
    #: Over the user's version; None where it failed or is not judged yet.
    speedup: float | None
    #: The verdict's state in words; "not judged yet".
    state: str
    reason: str
    diff: str
    #: Microseconds of a launch; None where it was not timed.
    microseconds: float | None = None
    #: The speedup of the version that it was made from, where that is not the original.
    before: float | None = None
    #: What it takes of an SM.
    taken: str = ""

    def line(self) -> str:
        """What was tried and what it did, on one line."""
        why = " ".join(self.reason.split())[:MOST_WHY]
        if self.speedup is None:
            return f"- {self.title}: {self.state}{f': {why}' if why else ''}"
        said = f"{self.speedup:.2f}x of the original's speed"
        said += f" ({self.microseconds:.4g} us)" if self.microseconds is not None else ""
        said += f", made from {self.before:.2f}x" if self.before is not None else ""
        said += f", {self.taken}" if self.taken else ""
        # a version that is slower at another launch, or on other inputs, is not what its speed says
        odd = self.state in ("same", "slower") and self.speedup > 1
        return f"- {self.title}: {said}{f'; judged {self.state}: {why}' if odd and why else ''}"


class Situation(msgspec.Struct, frozen=True):
    """A version and what surrounds it."""

    node: Node
    root: Node
    children: tuple[Outcome, ...]
    siblings: tuple[Outcome, ...]
    #: Children of its siblings.
    cousins: tuple[Outcome, ...]
    leaders: tuple[Outcome, ...]

    @property
    def own(self) -> Outcome:
        """The version itself."""
        return outcome_of(self.node)

    @property
    def steps(self) -> tuple[str, ...]:
        """The titles of the steps that lead from the user's text to it."""
        return tuple(move.title for move in moves_of(self.node))


def situation_of(node: Node, known: Sequence[Node]) -> Situation:
    """A version among all that have a verdict."""
    root = node
    while root.parent is not None:
        root = root.parent
    siblings = [n for n in (node.parent.children if node.parent is not None else ()) if n is not node]
    return Situation(
        node=node,
        root=root,
        children=_outcomes(node.children),
        siblings=_outcomes(siblings),
        cousins=_outcomes(child for sibling in siblings for child in sibling.children),
        leaders=_outcomes(n for n in best_first(known)[:MOST_LEADERS] if n is not node),
    )


def judged_from(node: Node) -> bool:
    """Whether a step from a version has a verdict."""
    return any(child.told for child in node.children)


def outcome_of(node: Node) -> Outcome:
    """A version and its verdict; its diff is against the version that it was made from."""
    verdict = node.verdict
    diff = diff_of(node.parent.text, node.text) if node.parent is not None else ""
    return Outcome(
        title=node.ask.move.title or "the original",
        speedup=node.speedup,
        state=verdict.state.replace("_", " ") if verdict is not None else "not judged yet",
        reason=verdict.reason[:MOST_REASON] if verdict is not None else "",
        diff=diff,
        microseconds=_microseconds(node),
        before=node.parent.speedup if node.parent is not None and node.parent.parent is not None else None,
        taken=_taken(verdict),
    )


def _microseconds(node: Node) -> float | None:
    nanoseconds = nanoseconds_of(node)
    return None if nanoseconds is None else nanoseconds / 1e3


def _taken(verdict: Verdict | None) -> str:
    if verdict is None or verdict.resources is None:
        return ""
    spilled = verdict.resources.spill_store_bytes
    return f"{verdict.resources.registers} registers" + (f", {spilled} bytes spilled" if spilled else "")


def diff_of(before: SourceText, after: SourceText) -> str:
    """What changed, without the header, cut where it is long."""
    lines = unified_diff(before, after, path="k").splitlines()[2:]
    diff = "\n".join(lines)
    return diff if len(diff) <= MOST_DIFF else diff[:MOST_DIFF].rsplit("\n", 1)[0] + "\n(cut)"


def _outcomes(nodes: Iterable[Node]) -> tuple[Outcome, ...]:
    """The last of them first: what was tried latest is nearest to what comes next."""
    return tuple(outcome_of(node) for node in reversed(list(nodes)))
