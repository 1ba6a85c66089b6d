# SPDX-License-Identifier: Apache-2.0
"""One version put into words for each role."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from warplens.agent.edits import text_hash
from warplens.agent.llm import context
from warplens.agent.llm.anchors import MOST_ANCHORS, Anchor
from warplens.agent.llm.asking import LOOKS, Asker
from warplens.agent.llm.context import Section, bounded
from warplens.agent.llm.feedback import Feedback, bound_words, guidance, raw_metrics
from warplens.agent.llm.prompts import system_prompt
from warplens.agent.llm.provider import Role
from warplens.agent.llm.replies import Plan
from warplens.agent.llm.situation import Outcome, Situation, judged_from, outcome_of
from warplens.agent.versions import Node
from warplens_tools.cuda.model import SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.finding import Bottleneck, Finding
from warplens_tools.lazily import cached_property
from warplens_tools.text import SourceText

#: Failures of other branches that a planner is told, the latest.
MOST_FAILURES = 8
_FEEDBACK_TITLES = {"guidance": "Findings", "metrics": "Metrics of the original", "nothing": ""}


def essence_of(text: SourceText) -> str:
    """A hash of a text of CUDA without comments and blanks: what a compiler would see is the same."""
    return text_hash(SourceText(" ".join(without_comments(to_ascii(text.text), keep_strings=True).split())))


class Briefing(msgspec.Struct, frozen=True):
    """What does not change in a run: the task, and where feedback comes from."""

    path: str
    #: Qualified name.
    kernel: str
    host_edits: bool = False
    lower_precision: bool = False
    #: Architecture that candidates are built for, e.g. "sm_90a".
    arch: str = ""
    #: The card in a few lines: limits that a plan must respect.
    card: str = ""
    #: How the user's version is launched, and what time that takes; "" until it is measured.
    measured: Callable[[], str] = lambda: ""
    #: What was measured of a version, against the card's roofs and limits; "" where nothing was.
    version: Callable[[Node], str] = lambda _: ""
    #: What is told of the card in the first questions where it is elsewhere: they are asked before anything is
    #: measured, and must read the same when it is. "" where it is here.
    beforehand: str = ""
    #: Options that CUTLASS's headers need where the user's own build has none of them; "" where it has.
    library_flags: str = ""
    feedback: Feedback = "guidance"
    #: Findings of a version.
    findings: Callable[[Node], Sequence[Finding]] = lambda _: ()
    #: What bounds a version; None where nobody looked.
    bottleneck: Callable[[Node], Bottleneck | None] = lambda _: None
    #: Raw counters of the user's version, for the comparison with guidance alone.
    metrics: Callable[[], Mapping[str, float]] = dict
    #: The file is a solution of a PyTorch task: why a version of it may not be judged ("" if it may), and what stays
    #: the same where only comments and blanks differ. None for a file of CUDA.
    refused: Callable[[SourceText], str] | None = None
    essence: Callable[[SourceText], str] = essence_of
    #: The text that the search begins from is no version of its own: it is left as soon as one is right.
    opening: bool = False


class Case:
    """A version among all that were judged, for whoever is asked about it."""

    def __init__(
        self, asker: Asker, briefing: Briefing, situation: Situation, failed: Sequence[Node]
    ) -> None:
        self._asker, self._briefing, self._situation = asker, briefing, situation
        self._text, self._failed = situation.node.text, failed

    @cached_property
    def _model(self) -> SourceModel:
        return parse(self._text, self._briefing.path)

    def system(self, role: Role, plans: int = 1) -> str:
        """What the role is told."""
        briefing = self._briefing
        return system_prompt(
            role,
            host_edits=briefing.host_edits,
            lower_precision=briefing.lower_precision,
            most_anchors=MOST_ANCHORS,
            looks=LOOKS if self._asker.library is not None and role != "debugger" else 0,
            arch=briefing.arch,
            plans=plans,
            module=briefing.refused is not None,
        )

    def for_planner(self) -> str:
        """Findings, the numbered source, what was tried."""
        briefing, kernel = self._briefing, self._briefing.kernel
        text, model = self._text, self._model
        return self._bounded(
            "planner",
            Section("The kernel", self._facts(), context.OWN + 1),
            Section(
                f"The source of {kernel}, numbered",
                context.numbered(text, model, kernel),
                context.SOURCE,
                lambda room: context.numbered(text, model, kernel, room),
            ),
            Section(_FEEDBACK_TITLES[briefing.feedback], self._feedback(), context.FINDINGS),
            Section("Tried on this version", _lines(self._situation.children), context.CHILDREN),
            Section("The fastest versions so far", _with_diffs(self._situation.leaders), context.LEADERS),
            Section("Tried on its siblings", _lines(self._situation.siblings), context.SIBLINGS),
            Section("Failed elsewhere", _lines(self._failed_elsewhere()), context.COUSINS),
            self._found(),
        )

    def for_coder(self, plan: Plan, anchors: Sequence[Anchor]) -> str:
        """The plan, the marked source, what went wrong nearby."""
        return self._bounded(
            "coder",
            Section("The plan", _plan_words(plan, anchors), context.PLAN),
            self._marked(anchors),
            Section("Tried on this version", _lines(self._situation.children), context.CHILDREN),
            Section("Tried near it", _lines(self._situation.cousins), context.COUSINS),
            self._found(),
        )

    def for_debugger(self, anchors: Sequence[Anchor]) -> str:
        """The failure, the change, the marked source."""
        own = self._situation.own
        failure = (
            f"The judge says {own.state}: {own.reason}" if own.reason else f"The judge says {own.state}."
        )
        return self._bounded(
            "debugger",
            Section("The failure", failure, context.FAILURE),
            Section(f"The change: {own.title}", own.diff, context.PLAN),
            self._marked(anchors),
            Section("What its siblings did", _lines(self._situation.siblings), context.SIBLINGS),
        )

    def _bounded(self, role: Role, *sections: Section) -> str:
        return bounded(sections, self._asker.room(self.system(role)))

    def _failed_elsewhere(self) -> list[Outcome]:
        """The latest failures that the sections on the version and on its siblings do not tell."""
        node = self._situation.node
        told = {id(n) for n in (*node.children, *(node.parent.children if node.parent is not None else ()))}
        return [outcome_of(n) for n in self._failed if id(n) not in told][-MOST_FAILURES:]

    def _marked(self, anchors: Sequence[Anchor]) -> Section:
        text, model, kernel = self._text, self._model, self._briefing.kernel
        return Section(
            f"The source of {kernel}, with its spans marked",
            context.with_marks(text, model, kernel, anchors),
            context.SOURCE,
            lambda room: context.with_marks(text, model, kernel, anchors, room),
        )

    def _facts(self) -> str:
        situation, briefing = self._situation, self._briefing
        what = "Module" if briefing.refused is not None else "Kernel"
        facts = [f"{what} {briefing.kernel}" + (f", built for {briefing.arch}" if briefing.arch else "")]
        facts += [words for words in self._measured() if words]
        if situation.steps:
            speed = f"{situation.node.speedup:.2f}x of" if situation.node.speedup else "not yet compared with"
            facts.append(
                f"This version is {speed} the original's speed, by these steps: {'; '.join(situation.steps)}"
            )
        return "\n".join(facts)

    def _measured(self) -> tuple[str, ...]:
        briefing, node = self._briefing, self._situation.node
        if briefing.beforehand and node.parent is None and not judged_from(node):
            return (briefing.beforehand,)
        return briefing.card, briefing.measured(), briefing.version(node)

    def _feedback(self) -> str:
        briefing = self._briefing
        if briefing.feedback == "guidance":
            told = (
                bound_words(briefing.bottleneck(self._situation.node)),
                guidance(briefing.findings(self._situation.node), briefing.kernel),
            )
            return "\n\n".join(filter(None, told))
        return raw_metrics(briefing.metrics()) if briefing.feedback == "metrics" else ""

    def _found(self) -> Section:
        library = self._asker.library
        return Section(
            "Found in CUTLASS in this run",
            library.remembered() if library is not None else "",
            context.LIBRARY,
        )


def _plan_words(plan: Plan, anchors: Sequence[Anchor]) -> str:
    spans = "\n".join(f"- span {anchor.id}: {anchor.change or 'as the plan says'}" for anchor in anchors)
    return f"{plan.title}\n\n{plan.idea}\n\n{spans}"


def _lines(outcomes: Iterable[Outcome]) -> str:
    return "\n".join(outcome.line() for outcome in outcomes)


def _with_diffs(outcomes: Iterable[Outcome]) -> str:
    return "\n\n".join(f"{outcome.line()}\n```diff\n{outcome.diff}\n```" for outcome in outcomes)
