# SPDX-License-Identifier: Apache-2.0
"""The steps a version of a kernel may take: rewrites that answer findings, idioms, and other parameter values."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from warplens.agent.edits import text_hash
from warplens.agent.features import features_of
from warplens.agent.moves import Proposal
from warplens.agent.priors import Cause, Expectation, Known, Rule, of_kernel
from warplens.agent.rewriting import Expect, RewriteSource, move_of
from warplens.agent.search_settings import SearchSettings
from warplens.agent.templates import TemplateSource
from warplens.agent.text_source import TextSource
from warplens.agent.versions import ProposalSource
from warplens.measure.verdict import State
from warplens.store.rates import HitRate
from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import parse
from warplens_tools.finding import Gain
from warplens_tools.rewrite.base import Rewrite
from warplens_tools.text import SourceText
from warplens_tools.tunable.extract import KINDS, extract, illegal, launch_geometry
from warplens_tools.tunable.parameter import Geometry, Template, TunableParameter, edits_for, fills_sectors
from warplens_tools.tunable.source import File
from warplens_tools.tunable.tiles import canonical

#: A value two octaves from the present one is this much less likely to be better than one octave away; blocks of a few
#: threads are slow to judge as well.
_PER_OCTAVE = 0.6
#: Rows of few threads take sectors of memory apart: seldom better, and slow to judge.
_NARROW = 0.25
#: Versions whose model is kept; a search comes back to the same few parents.
_KEPT = 64
#: Other numbers mend what did not fit the card, and nothing else that fails.
_FITS: tuple[State, ...] = ("illegal",)


class KernelSpace:
    """The steps for one kernel of one file; see `warplens.agent.versions.Space`.

    `busy` is the share of its peak, 0 to 1, at which the baseline ran each resource ("dram", "l2", "sm"). `further`
    are sources beside rewrites, idioms, parameters and templates. `rates` are what rules were worth, or give them for a
    kernel of some features; `without` names sources to do without.
    """

    def __init__(
        self,
        baseline: SourceText,
        *,
        path: str,
        kernel: str,
        limits: Limits,
        rewrites: Sequence[Rewrite] = (),
        idioms: Sequence[Rewrite] = (),
        causes: Sequence[Cause] = (),
        rates: Sequence[HitRate] | Callable[[Mapping[str, float]], Sequence[HitRate]] = (),
        busy: Mapping[str, float] | None = None,
        further: Sequence[ProposalSource] = (),
        without: Collection[str] = (),
        settings: SearchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.path, self.kernel, self.limits = path, kernel, limits
        self.known = Known(of_kernel(causes, kernel), (), dict(busy or {}))
        #: What rules are expected to bring by what is known: asked for of every version, each time one is chosen.
        self._expected: dict[Rule, Expectation | None] = {}
        self._files: dict[str, File] = {}
        self._baseline = self._file(baseline)
        self._rewrites = RewriteSource(rewrites, self._kernel, self._expect)
        self._idioms = RewriteSource(idioms, self._kernel, self._expect, name="idioms")
        #: Of the user's version.
        self.features = self._features(self._baseline)
        given = rates(self.features) if callable(rates) else rates
        self.known = msgspec.structs.replace(self.known, rates=tuple(given))
        self._expected.clear()
        self._ranges = _ranges_of((*idioms, *rewrites), self._baseline)
        self._parameters = TextSource("parameters", self.by_parameter)
        self.templates = TemplateSource(self.template, self._expect, settings, seed)
        sources: tuple[ProposalSource, ...] = (
            self._idioms,
            self._rewrites,
            self._parameters,
            self.templates,
            *further,
        )
        self.sources = tuple(source for source in sources if source.name not in without)

    def learn(self, causes: Sequence[Cause], busy: Mapping[str, float]) -> None:
        """Expect from here on what these findings and resources say; nothing of them leaves it as it is."""
        mine = of_kernel(causes, self.kernel) or self.known.causes
        self.known = msgspec.structs.replace(self.known, causes=mine, busy=dict(busy) or self.known.busy)
        self._expected.clear()
        self._parameters.forget()

    def promised(self, answers: Sequence[str]) -> Gain | None:
        """The largest gain that the findings of these codes promise."""
        gains = [
            cause.gain for cause in self.known.causes if cause.code in answers and cause.gain is not None
        ]
        return max(gains, key=lambda gain: gain.estimate, default=None)

    def propose(self, text: SourceText) -> list[Proposal]:
        """All steps that the text alone decides, and that lead to a file which still parses and fits the card."""
        found = (*self.by_rewrite(text), *self.by_parameter(text))
        return [p for p in found if not self.illegal(text.apply(list(p.edits)))]

    def geometry(self, text: SourceText) -> Geometry:
        """The launch geometry of a version where it differs from the baseline's."""
        return launch_geometry(self._baseline, self._file(text), self.kernel)

    def illegal(self, text: SourceText) -> str:
        """Why a version could not run on the card; "" if nothing speaks for that."""
        return illegal(self._baseline, self._file(text), self.kernel, self.limits)

    def by_rewrite(self, text: SourceText) -> Iterator[Proposal]:
        """The steps of all idioms and rewrites, each for the whole kernel and at each of its places."""
        yield from self._idioms.steps(text)
        yield from self._rewrites.steps(text)

    def by_parameter(self, text: SourceText) -> Iterator[Proposal]:
        """Other values of one parameter each."""
        return parameter_steps(self.template(text), self._expect)

    def template(self, text: SourceText) -> Template:
        """The parameters of a version's kernel."""
        file, kernel = self._kernel(text)
        return extract(file, kernel, self.limits, self._ranges) if kernel is not None else Template()

    def _features(self, file: File) -> dict[str, float]:
        kernel = file.model.kernel(self.kernel)
        if kernel is None:
            return {}
        start, end = file.range(kernel.body)
        return features_of(kernel, file.code[start:end], self.known.causes, self.known.busy)

    def _expect(self, rule: Rule) -> Expectation | None:
        if rule not in self._expected:
            self._expected[rule] = self.known.expect(rule)
        return self._expected[rule]

    def _kernel(self, text: SourceText) -> tuple[File, Kernel | None]:
        file = self._file(text)
        kernel = file.model.kernel(self.kernel)
        return file, None if kernel is None or kernel.broken else kernel

    def _file(self, text: SourceText) -> File:
        key = text_hash(text)
        # those that were asked for last stay: the user's own is asked for throughout, with all that was read of it
        file = self._files.pop(key, None) or File(text, parse(text, self.path))
        while len(self._files) >= _KEPT:
            self._files.pop(next(iter(self._files)))
        self._files[key] = file
        return file


def parameter_steps(template: Template, expect: Expect) -> Iterator[Proposal]:
    """Other values of one parameter each, where they have room."""
    for parameter in template.parameters:
        for value in parameter.domain:
            rule = Rule.of_parameter(KINDS[parameter.kind], 1 if value > parameter.value else -1)
            expected = expect(rule)
            if expected is None:
                continue
            shown = (_shown(parameter, parameter.value), _shown(parameter, value))
            chance = expected.probability * _nearness(parameter, value)
            expected = msgspec.structs.replace(expected, probability=chance)
            title = f"{parameter.name}: {shown[0]} to {shown[1]}"
            move = move_of(f"{parameter.name}={value}", rule, title, expected)
            yield Proposal(msgspec.structs.replace(move, repairs=_FITS), edits_for(parameter, value))


def _ranges_of(rewrites: Sequence[Rewrite], baseline: File) -> dict[str, tuple[int, ...]]:
    """The ranges of constants that rewrites bring, but for names that the user's text has already."""
    own = {canonical(constant.name) for constant in baseline.model.constants}
    found: dict[str, tuple[int, ...]] = {}
    for rewrite in rewrites:
        for name, values in rewrite.ranges.items():
            if canonical(name) not in own:
                found[canonical(name)] = tuple(sorted({*found.get(canonical(name), ()), *values}))
    return found


def _nearness(parameter: TunableParameter, value: int) -> float:
    octaves = abs(math.log2(max(value, 1) / max(parameter.value, 1)))
    near = math.pow(_PER_OCTAVE, max(octaves - 1.0, 0.0))
    return near if fills_sectors(parameter, value) else _NARROW * near


def _shown(parameter: TunableParameter, value: int) -> str:
    if parameter.words or value:
        return parameter.written(value)
    return "full" if parameter.kind == "unroll" else "none"
