# SPDX-License-Identifier: Apache-2.0
"""Rewrites and idioms as sources of steps. One is applied when it is chosen: dozens cost nothing before that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from warplens.agent.edits import text_hash
from warplens.agent.moves import Idea, Move, Proposal
from warplens.agent.priors import Expectation, Rule
from warplens.agent.text_source import KEPT, made_idea, with_hashes
from warplens.agent.versions import Node
from warplens_tools.cuda.model import Kernel
from warplens_tools.process.task import Task
from warplens_tools.rewrite.base import EVERYWHERE, Rewrite, Target, always
from warplens_tools.text import SourceText
from warplens_tools.tunable.source import File

#: Gives a text's file and its kernel, None where that cannot be rewritten.
Read = Callable[[SourceText], tuple[File, Kernel | None]]
#: Gives what a rule is expected to bring; None where it has no room.
Expect = Callable[[Rule], Expectation | None]

#: A step, and the hash of the text it leads to.
_Step = tuple[Proposal, str]


class _OfText(msgspec.Struct):
    """What is known of rewrites on one text, by their slugs."""

    #: The steps of those that were applied to it, with their texts' hashes.
    applied: dict[str, tuple[_Step, ...]] = {}
    #: The same of those that were only worked out: they count as applied once they are chosen. None where that failed.
    prepared: dict[str, tuple[_Step, ...] | None] = {}
    #: How likely they are to be worth it on the kernel there, 0 to 1.
    likely: dict[str, float] = {}


class RewriteSource:
    """The steps of a list of rewrites: each on the whole kernel, and at each of its places."""

    def __init__(
        self, rewrites: Sequence[Rewrite], read: Read, expect: Expect, *, name: str = "rewrites"
    ) -> None:
        self.name = name
        self._rules = tuple((rewrite, Rule.of_rewrite(rewrite)) for rewrite in rewrites)
        self._read, self._expect = read, expect
        self._kept: dict[str, _OfText] = {}

    def ideas(self, version: Node) -> Sequence[Idea]:
        """The steps of rewrites that were applied, and one idea to apply each that was not."""
        known = self._of(version.text)
        applied, found = known.applied, list[Idea]()
        for rewrite, rule in self._rules:
            expected = self._expected(rewrite, rule, version.text, known)
            if expected is None:
                continue
            if rewrite.slug in applied:
                found += (made_idea(_expecting(p, expected), h) for p, h in applied[rewrite.slug])
            else:
                move = move_of(rewrite.slug, rule, rewrite.title, expected)
                applying = _Applying(self, rewrite, version.text)
                found.append(Idea(move, applying, free=True, ahead=applying.prepare))
        return found

    def told(self, version: Node) -> None:
        """A verdict changes nothing in what a text allows."""

    def asked(self, version: Node) -> None:
        """A rewrite that an earlier process has applied is applied now, so that its places are there again."""
        parent, rule = version.parent, version.ask.move.rule
        rewrite = next((r for r, _ in self._rules if r.slug == rule), None)
        if parent is not None and rewrite is not None and rule not in self._of(parent.text).applied:
            self.apply(rewrite, parent.text)

    def steps(self, text: SourceText, only: str = "") -> Iterator[Proposal]:
        """The steps of all rewrites, or of one, on a text."""
        file, kernel = self._read(text)
        known = self._of(text)
        for rewrite, rule in self._rules:
            asked = kernel is not None and only in ("", rewrite.slug)
            expected = self._expected(rewrite, rule, text, known) if asked else None
            if kernel is None or expected is None:
                continue
            for target in (EVERYWHERE, *rewrite.sites(kernel)):
                result = rewrite.apply(file.text, file.model, kernel, target)
                if result.edits:
                    change = "/".join((rewrite.slug, *_place(file.text, target)))
                    title = result.title or rewrite.title
                    yield Proposal(move_of(change, rule, title, expected, result.caveat), result.edits)

    def _expected(self, rewrite: Rewrite, rule: Rule, text: SourceText, known: _OfText) -> Expectation | None:
        """What a rewrite may bring to the kernel of a text."""
        expected = self._expect(rule)
        if expected is None or rewrite.likely is always:
            return expected
        if rewrite.slug not in known.likely:
            file, kernel = self._read(text)
            likely = rewrite.likely(file.text.slice(kernel.span)) if kernel is not None else 1.0
            known.likely[rewrite.slug] = likely
        return msgspec.structs.replace(
            expected, probability=known.likely[rewrite.slug] * expected.probability
        )

    def apply(self, rewrite: Rewrite, text: SourceText) -> tuple[_Step, ...]:
        """The steps of one rewrite on a text, from now on among its ideas."""
        known = self._of(text)
        made = known.prepared.pop(rewrite.slug, None)
        if made is None:
            made = self._worked_out(rewrite, text)
        else:
            expected = self._expected(rewrite, Rule.of_rewrite(rewrite), text, known)
            made = tuple((_expecting(p, expected), h) for p, h in made) if expected is not None else ()
        known.applied[rewrite.slug] = made
        return made

    def prepare(self, rewrite: Rewrite, text: SourceText) -> bool:
        """Work out the steps of one rewrite on a text, which is all that takes time of applying it; False where they
        are there.
        """
        known = self._of(text)
        if rewrite.slug in known.prepared or rewrite.slug in known.applied:
            return False
        try:
            known.prepared[rewrite.slug] = self._worked_out(rewrite, text)
        except Exception:  # noqa: BLE001 - raised where the step is chosen, which it may never be
            known.prepared[rewrite.slug] = None
        return True

    def _worked_out(self, rewrite: Rewrite, text: SourceText) -> tuple[_Step, ...]:
        return tuple(with_hashes(text, self.steps(text, rewrite.slug)))

    def _of(self, text: SourceText) -> _OfText:
        key = text_hash(text)
        # the texts asked for last stay: the user's own is asked for throughout
        found = self._kept[key] = self._kept.pop(key) if key in self._kept else _OfText()
        while len(self._kept) > KEPT:
            self._kept.pop(next(iter(self._kept)))
        return found


class _Applying:
    """Applies a rewrite that was not yet; its first step."""

    def __init__(self, source: RewriteSource, rewrite: Rewrite, text: SourceText) -> None:
        self._source, self._rewrite, self._text = source, rewrite, text

    def __call__(self, task: Task) -> Proposal | None:
        task.check()
        made = self._source.apply(self._rewrite, self._text)
        return made[0][0] if made else None

    def prepare(self) -> bool:
        return self._source.prepare(self._rewrite, self._text)


def move_of(change: str, rule: Rule, title: str, expected: Expectation, caveat: str = "") -> Move:
    """One step of a rule, with what is expected of it."""
    return Move(
        changes=(change,),
        rule=rule.name,
        title=title,
        gain=expected.gain,
        probability=expected.probability,
        answers=expected.answers,
        caveat=caveat,
        why=expected.why,
    )


def _expecting(proposal: Proposal, expected: Expectation) -> Proposal:
    """A step with what is expected of it by now."""
    move = msgspec.structs.replace(
        proposal.move,
        gain=expected.gain,
        probability=expected.probability,
        answers=expected.answers,
        why=expected.why,
    )
    return Proposal(move, proposal.edits)


def _place(text: SourceText, target: Target) -> Iterator[str]:
    """A place in words that mean the same on another version: names, and lines by what stands on them."""
    yield from target.names
    for line in target.lines:
        yield "".join(text.line_text(line).split())
