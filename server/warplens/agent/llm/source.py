# SPDX-License-Identifier: Apache-2.0
"""The model as a source of steps: plan, then code; where the judge says no, debug.

The search picks the version and asks; the tools say what they saw; the judge decides. What is left to a model is
what to change and how.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from warplens.agent.edits import text_hash
from warplens.agent.llm.anchors import Anchor, hunks, located, replaced, resolved
from warplens.agent.llm.asking import Asker
from warplens.agent.llm.cases import Briefing, Case
from warplens.agent.llm.provider import UnansweredError
from warplens.agent.llm.replies import (
    PLAN_SCHEMA,
    PLANS_SCHEMA,
    Blocks,
    Plan,
    ReplyError,
    blocks_of,
    plans_of,
)
from warplens.agent.llm.situation import situation_of
from warplens.agent.moves import Idea, Move, Proposal
from warplens.agent.versions import Node
from warplens.measure.build.allowed import why_not_allowed, why_open, why_outside
from warplens.measure.build.includes import uses_cutlass
from warplens.measure.verdict import State
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText, TextEdit

#: Chance and gain of a step by the model before any was judged: below a rewrite that answers a finding, above a
#: parameter that nothing asks for. The tree moves it by what the steps did.
PRIOR = (0.3, 1.4)
#: The same for a repair of a step that failed. Both are ours to choose; no paper gives them.
REPAIR_PRIOR = (0.4, 1.3)
#: Failures that a debugger is asked about. Others say nothing that an edit of the text could answer.
REPAIRABLE: tuple[State, ...] = ("refused", "not_built", "illegal", "crashed", "hung", "wrong")
#: Plans for one version; and how often one is asked for before the version is given up.
PLANS, ATTEMPTS = 8, 2
#: Repairs of one failed version.
REPAIRS = 1
#: Plans that one question asks for where a round of candidates is judged at once: all of the round for the user's own
#: version while it has no step, so many for others. The search spreads a round over two versions or so, and what is
#: written for one and not taken in its round is asked for anew in the next, as the prompt then tells more.
PLANS_LATER = 4
Planned = tuple[Plan, tuple[Anchor, ...]]
Draft = tuple[Plan, tuple[TextEdit, ...]]


class ModelSource:
    """See `warplens.agent.versions.ProposalSource`."""

    name = "model"

    def __init__(self, asker: Asker, briefing: Briefing, *, round_of: int = 1) -> None:
        """`round_of`: candidates that are judged at once; what they take is then asked for at once, too."""
        self.asker, self.briefing, self._round = asker, briefing, round_of
        self._judged: list[Node] = []
        #: Texts that are known, without comments and blanks, by their hash.
        self._texts: set[str] = set()
        self._plans: dict[str, int] = {}
        #: Versions for which nothing came of asking.
        self._barren: set[str] = set()
        self._repairs: dict[str, int] = {}
        #: What is written and not handed out yet, by version; and how much was planned for it.
        self._drafts: dict[str, list[Draft]] = {}
        self._drafted: dict[str, int] = {}
        #: Repairs by failed version; None where nothing came of it.
        self._mended: dict[str, tuple[TextEdit, ...] | None] = {}
        #: Plans by version, as the planner gave them: the same again is not written again.
        self._planned: set[tuple[str, str]] = set()
        #: Proposals that were handed out.
        self.made = 0

    def ideas(self, version: Node) -> Sequence[Idea]:
        """One plan for a version that works, one repair for a step of the model's that failed; or none."""
        if self.asker.closed or not version.told:
            return ()
        if not version.works:
            return self._repair_ideas(version)
        key = version.ask.candidate.text_hash
        if self.briefing.opening and version.parent is None and any(n.works for n in self._judged):
            return ()
        if self._plans.get(key, 0) >= PLANS or key in self._barren:
            return ()
        move = Move(("model",), "model:planner", "a change that the model plans", PRIOR[1], PRIOR[0])
        return (Idea(move, functools.partial(self._plan_and_code, version)),)

    def asked(self, version: Node) -> None:
        """What was asked is said with its verdict."""

    def told(self, version: Node) -> None:
        """Remember it, whoever made it."""
        self._judged.append(version)
        self._texts.add(self.briefing.essence(version.text))

    def _repair_ideas(self, version: Node) -> tuple[Idea, ...]:
        mine = version.ask.move.rule.startswith("model:")
        state = version.verdict.state if version.verdict is not None else "unproven"
        done = self._repairs.get(version.ask.candidate.text_hash, 0)
        if not mine or state not in REPAIRABLE or done >= REPAIRS:
            return ()
        title = f"a repair of: {version.ask.move.title}"
        move = Move(("model",), "model:debugger", title, REPAIR_PRIOR[1], REPAIR_PRIOR[0], repairs=REPAIRABLE)
        return (Idea(move, functools.partial(self._debug, version)),)

    def _plan_and_code(self, version: Node, task: Task) -> Proposal | None:
        key = version.ask.candidate.text_hash
        self._plans[key] = self._plans.get(key, 0) + 1
        drafts = self._drafts.setdefault(key, [])
        for _ in range(ATTEMPTS):
            if not drafts:
                drafts += self._written(version, self._planned_steps(version, task), task)
            if drafts:
                self.made += 1
                return self._proposal(version, *drafts.pop(0))
        self._barren.add(key)
        return None

    def _proposal(self, version: Node, plan: Plan, edits: tuple[TextEdit, ...]) -> Proposal:
        move = Move(
            changes=(f"model:{_digest(version, edits)}",),
            rule="model:planner",
            title=plan.title,
            gain=plan.gain,
            probability=PRIOR[0],
            answers=plan.answers,
            caveat=self._caveat(version, edits),
        )
        return Proposal(move, edits)

    def _planned_steps(self, version: Node, task: Task) -> tuple[Planned, ...]:
        """What a planner wants for a version: one plan, or all that a round of candidates takes."""
        key, case = version.ask.candidate.text_hash, self._case(version)
        opening = version.parent is None and not version.children
        most = self._round if opening else min(PLANS_LATER, self._round)
        wanted = max(1, most - self._drafted.get(key, 0))
        planned = self.asker.converse(
            "planner",
            case.system("planner", wanted),
            case.for_planner(),
            functools.partial(self._planned_of, version, wanted),
            task,
            PLANS_SCHEMA if wanted > 1 else PLAN_SCHEMA,
        )
        self._drafted[key] = self._drafted.get(key, 0) + len(planned or ())
        return planned or ()

    def _written(self, version: Node, planned: Sequence[Planned], task: Task) -> list[Draft]:
        """The code of plans, without those for which nothing comes; all are asked for before any is waited for."""
        case = self._case(version)
        drafts: list[Draft] = []
        waiting: list[str] = []
        for plan, anchors in planned:
            try:
                edits = self.asker.converse(
                    "coder",
                    case.system("coder"),
                    case.for_coder(plan, anchors),
                    functools.partial(self._code, version, anchors),
                    task,
                )
            except UnansweredError as error:
                waiting += error.waiting
                continue
            if edits is not None:
                drafts.append((plan, edits))
        if waiting:
            raise UnansweredError(waiting)
        return drafts

    def _debug(self, version: Node, task: Task) -> Proposal | None:
        key = version.ask.candidate.text_hash
        if key not in self._mended:
            self._mend(version, task)
        self._repairs[key] = self._repairs.get(key, 0) + 1
        edits = self._mended[key]
        if edits is None:
            return None
        move = version.ask.move
        self.made += 1
        return Proposal(
            Move(
                changes=(f"model:{_digest(version, edits)}",),
                rule="model:debugger",
                title=f"{move.title}, repaired"[:120],
                gain=move.gain,
                probability=REPAIR_PRIOR[0],
                answers=move.answers,
                caveat=self._caveat(version, edits),
                repairs=REPAIRABLE,
            ),
            edits,
        )

    def _mend(self, version: Node, task: Task) -> None:
        """Ask for the repair of a failed version, and of others as far as a round of candidates takes them."""
        others = (n for n in self._judged if n is not version and not n.works and not n.children)
        failed = [version, *(n for n in others if self._repair_ideas(n))][: self._round]
        waiting: list[str] = []
        for each in failed:
            try:
                self._mended[each.ask.candidate.text_hash] = self._mending(each, task)
            except UnansweredError as error:
                waiting += error.waiting
        if waiting:
            raise UnansweredError(waiting)

    def _mending(self, version: Node, task: Task) -> tuple[TextEdit, ...] | None:
        if version.parent is None:
            return None
        anchors = hunks(version.parent.text, version.text)
        case = self._case(version)
        return self.asker.converse(
            "debugger",
            case.system("debugger"),
            case.for_debugger(anchors),
            functools.partial(self._repair, version, anchors),
            task,
        )

    def _planned_of(self, version: Node, most: int, text: str) -> tuple[Planned, ...]:
        """What a planner's reply means for a version.

        Raises:
            ReplyError, AnchorError: it cannot be used, or holds nothing but what was planned before.
        """
        planned: list[Planned] = []
        keys: set[tuple[str, str]] = set()
        for plan in plans_of(text, most):
            anchors = located(version.text, plan.claims)
            key = (version.ask.candidate.text_hash, repr((anchors, plan.title.lower())))
            if key not in keys | self._planned:
                planned.append((plan, anchors))
                keys.add(key)
        if not planned:
            raise ReplyError("duplicate", "you planned that before on this version; plan something else")
        self._planned |= keys
        return tuple(planned)

    def _code(self, version: Node, anchors: Sequence[Anchor], text: str) -> tuple[TextEdit, ...]:
        blocks = blocks_of(text)
        return self._allowed(version, resolved(version.text, anchors, blocks.texts))

    def _repair(self, version: Node, anchors: Sequence[Anchor], text: str) -> tuple[TextEdit, ...]:
        blocks = blocks_of(text, quotations=True)
        kept = [anchor for anchor in anchors if anchor.id in blocks.texts]
        edits = resolved(version.text, kept, blocks.texts)
        return self._allowed(version, (*edits, *_quoted(version.text, blocks)))

    def _allowed(self, version: Node, edits: tuple[TextEdit, ...]) -> tuple[TextEdit, ...]:
        """The edits, where they lead to a text that is new and may be judged.

        Raises:
            ReplyError: they do not; says why.
        """
        try:
            after = version.text.apply(list(edits))
        except InputError as error:
            raise ReplyError("ambiguous_anchor", str(error)) from error
        essence_of = self.briefing.essence
        essence = essence_of(after)
        if essence == essence_of(version.text):
            raise ReplyError("no_change", "that changes nothing but comments or blanks")
        root = situation_of(version, ()).root
        if essence in self._texts or essence == essence_of(root.text):
            raise ReplyError("duplicate", "that version was judged before; change something else")
        if why := self._why_not(root.text, after):
            raise ReplyError("not_allowed", f"{why}; what may be edited was said above")
        self._texts.add(essence)
        return edits

    def _why_not(self, before: SourceText, after: SourceText) -> str:
        briefing = self.briefing
        if briefing.refused is not None:
            return briefing.refused(after)
        if why := why_open(before, after):
            return why
        if briefing.host_edits:
            return why_outside(before, after, briefing.kernel, briefing.path)[0]
        return why_not_allowed(before, after, briefing.kernel, briefing.path)

    def _caveat(self, version: Node, edits: Sequence[TextEdit]) -> str:
        """What the user's own build needs for these edits."""
        flags = self.briefing.library_flags
        added = flags and _uses_library(version.text.apply(list(edits))) and not _uses_library(version.text)
        return f"to build it takes CUTLASS's headers: {flags}" if added else ""

    def _case(self, version: Node) -> Case:
        failed = [n for n in self._judged if not n.works and n.ask.move.rule.startswith("model:")]
        return Case(self.asker, self.briefing, situation_of(version, self._judged), failed)


def _uses_library(text: SourceText) -> bool:
    return uses_cutlass(text.text)


def _quoted(text: SourceText, blocks: Blocks) -> list[TextEdit]:
    return [replaced(text, old, new) for old, new in blocks.quotations]


def _digest(version: Node, edits: Sequence[TextEdit]) -> str:
    return text_hash(version.text.apply(list(edits)))[:12]
