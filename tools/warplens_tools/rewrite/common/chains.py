# SPDX-License-Identifier: Apache-2.0
"""Rewrites that follow each other as one step: the first makes room for the others, which pay only behind it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite import restrict_const
from warplens_tools.rewrite.base import EVERYWHERE, Rewrite, RewriteResult, Target, always
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText

#: A constant alone on its line, with the empty line behind it.
_CONSTANT = re.compile(
    r"^[ \t]*(?:constexpr int (\w+) = [^;\n]*;|#define (\w+) [^\n]*?)[ \t]*(?://[^\n]*)?\r?\n(?:[ \t]*\r?\n)?",
    re.MULTILINE,
)
#: A chain that brings no constants of its own.
_NONE: Mapping[str, Sequence[int]] = {}


class Chain:
    """`first`, then each of `then` that applies to what is there by then, of a tuple the first one that does, and in
    the end, unless `restrict` is false, pointers that are told not to overlap. `alone`: `first` is enough.
    """

    def __init__(
        self,
        first: Rewrite,
        *then: Rewrite | tuple[Rewrite, ...],
        restrict: bool = True,
        alone: bool = False,
    ) -> None:
        self.first, self.then, self.alone = first, then, alone
        self.last = restrict_const.REWRITE if restrict else None

    def rewrite(
        self,
        module: str,
        title: str,
        *,
        answers: Sequence[str] = (),
        useless_at: str = "",
        chance: float,
        gain: float,
        likely: Callable[[str], float] = always,
        ranges: Mapping[str, Sequence[int]] = _NONE,
        spares: bool = False,
    ) -> Rewrite:
        """The chain as the rewrite that `module` is the file and the page of; the rest as `Rewrite` has it."""

        def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
            return self.result(title, text, model, kernel, target)

        apply.__module__ = module
        return Rewrite(
            module.rsplit(".", 1)[-1].replace("_", "-"),
            title,
            apply,
            answers=answers,
            useless_at=useless_at,
            chance=chance,
            gain=gain,
            likely=likely,
            ranges=ranges,
            spares=spares,
        )

    def result(
        self, title: str, text: SourceText, model: SourceModel, kernel: Kernel, target: Target
    ) -> RewriteResult:
        """All of it as one step: on the kernel as it stands, or, where nothing follows there, in its normal form.

        Refused where the first is, and, unless that is enough, where none of `then` follows: it is a step of its own.
        """
        result = self._chained(title, text, model, kernel, target)
        if result.edits or result.refused != self._nothing or target.lines:
            return result
        plain = plainly(text, model.path, kernel)
        again = parse(plain, model.path) if plain is not None else None
        mine = again.same(kernel, model) if again is not None else None
        if plain is None or again is None or mine is None or mine.broken:
            return result
        other = self._chained(title, plain, again, mine, target)
        if not other.edits:
            return result
        return msgspec.structs.replace(other, edits=between(text, plain.apply(list(other.edits))))

    @property
    def _nothing(self) -> str:
        return f"nothing follows {self.first.slug} here"

    def _chained(
        self, title: str, text: SourceText, model: SourceModel, kernel: Kernel, target: Target
    ) -> RewriteResult:
        begun = self.first.apply(text, model, kernel, target)
        if not begun.edits:
            return begun
        after, caveats, followed = text.apply(list(begun.edits)), [begun.caveat], 0
        now = parse(after, model.path)
        for step in (*self.then, self.last):
            alternatives = step if isinstance(step, tuple) else (step,)
            found = (
                _applied(one, after, now, now.same(kernel, model)) for one in alternatives if one is not None
            )
            result = next((one for one in found if one is not None), None)
            if result is not None:
                after = after.apply(list(result.edits))
                caveats.append(result.caveat)
                if step is not self.last:
                    now, followed = parse(after, model.path), followed + 1
        if not followed and not self.alone:
            return RewriteResult(refused=self._nothing)
        caveat = "; ".join(dict.fromkeys(part for c in caveats for part in c.split("; ") if part))
        return RewriteResult(between(text, _used(text, after)), title=title, caveat=caveat)


def _used(before: SourceText, after: SourceText) -> SourceText:
    """The text without constants that one step brought and a later one left without a use."""
    text = after.text
    for found in reversed(list(_CONSTANT.finditer(text))):
        name = found[1] or found[2]
        if len(re.findall(rf"\b{name}\b", text)) == 1 and not re.search(rf"\b{name}\b", before.text):
            text = text[: found.start()] + text[found.end() :]
    return SourceText(text)


def _applied(
    one: Rewrite, text: SourceText, model: SourceModel, kernel: Kernel | None
) -> RewriteResult | None:
    """What a rewrite makes of the kernel as it is in `text`, which `model` is of; None where it refuses."""
    if kernel is None or kernel.broken:
        return None
    result = one.apply(text, model, kernel, EVERYWHERE)
    return result if result.edits else None
