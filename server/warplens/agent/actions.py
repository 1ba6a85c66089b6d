# SPDX-License-Identifier: Apache-2.0
"""The steps a version of a kernel may take: rewrites that answer findings, and other parameter values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from warplens.agent.edits import text_hash
from warplens.agent.priors import NEEDS_ROOM, Cause, expect, masked
from warplens.agent.versions import Move, Proposal
from warplens.store.rates import HitRate
from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import EVERYWHERE, Rewrite
from warplens_tools.text import SourceText
from warplens_tools.tunable.extract import extract, illegal, launch_geometry
from warplens_tools.tunable.parameter import Geometry, TunableParameter, edits_for
from warplens_tools.tunable.source import File

#: A value two octaves from the present one is this much less likely to be better than one octave away.
_PER_OCTAVE = 0.8
#: Versions whose model is kept; a search comes back to the same few parents.
_KEPT = 64


class KernelSpace:
    """The steps for one kernel of one file; see `warplens.agent.versions.Space`.

    `busy` is the share of its peak, 0 to 1, at which the baseline ran each resource ("dram", "l2", "sm").
    """

    def __init__(
        self,
        baseline: SourceText,
        *,
        path: str,
        kernel: str,
        limits: Limits,
        rewrites: Sequence[Rewrite] = (),
        causes: Sequence[Cause] = (),
        rates: Sequence[HitRate] = (),
        busy: Mapping[str, float] | None = None,
    ) -> None:
        self.path, self.kernel, self.limits = path, kernel, limits
        self._rewrites = tuple(rewrites)
        self._causes = tuple(cause for cause in causes if cause.kernel == kernel)
        self._rates = tuple(rates)
        self._busy = dict(busy or {})
        self._files: dict[str, File] = {}
        self._baseline = self._file(baseline)

    def learn(self, causes: Sequence[Cause], busy: Mapping[str, float]) -> None:
        """Expect from here on what these findings and resources say; nothing of them leaves it as it is."""
        mine = tuple(cause for cause in causes if cause.kernel == self.kernel)
        self._causes, self._busy = mine or self._causes, dict(busy) or self._busy

    def propose(self, text: SourceText) -> list[Proposal]:
        """All steps that lead to a file which still parses and fits the card."""
        file = self._file(text)
        kernel = file.model.kernel(self.kernel)
        if kernel is None or kernel.broken:
            return []
        candidates = [*self._by_rewrite(file, kernel), *self._by_parameter(file, kernel)]
        return [p for p in candidates if self._possible(file, p)]

    def geometry(self, text: SourceText) -> Geometry:
        """The launch geometry of a version where it differs from the baseline's."""
        return launch_geometry(self._baseline, self._file(text), self.kernel)

    def _by_rewrite(self, file: File, kernel: Kernel) -> Iterator[Proposal]:
        for rewrite in self._rewrites:
            if masked(rewrite.useless_at, self._busy):
                continue
            for target in (EVERYWHERE, *rewrite.sites(kernel)):
                result = rewrite.apply(file.text, file.model, kernel, target)
                if not result.edits:
                    continue
                expected = expect(rewrite.slug, self._causes, self._rates)
                move = Move(
                    changes=("/".join((rewrite.slug, *target.names)),),
                    rule=rewrite.slug,
                    title=result.title or rewrite.title,
                    gain=expected.gain,
                    probability=expected.probability,
                    answers=expected.answers,
                    caveat=result.caveat,
                )
                yield Proposal(move, result.edits)

    def _by_parameter(self, file: File, kernel: Kernel) -> Iterator[Proposal]:
        for parameter in extract(file, kernel, self.limits).parameters:
            rule = f"parameter:{parameter.kind}"
            if masked(NEEDS_ROOM.get(rule, ""), self._busy):
                continue
            expected = expect(rule, self._causes, self._rates)
            for value in parameter.domain:
                shown = (_shown(parameter, parameter.value), _shown(parameter, value))
                move = Move(
                    changes=(f"{parameter.name}={value}",),
                    rule=rule,
                    title=f"{parameter.name}: {shown[0]} to {shown[1]}",
                    gain=expected.gain,
                    probability=expected.probability * _nearness(parameter, value),
                    answers=expected.answers,
                )
                yield Proposal(move, edits_for(parameter, value))

    def _possible(self, file: File, proposal: Proposal) -> bool:
        after = self._file(file.text.apply(list(proposal.edits)))
        return not illegal(self._baseline, after, self.kernel, self.limits)

    def _file(self, text: SourceText) -> File:
        key = text_hash(text)
        file = self._files.get(key)
        if file is None:
            file = File(text, parse(text, self.path))
            while len(self._files) >= _KEPT:
                self._files.pop(next(iter(self._files)))
            self._files[key] = file
        return file


def _nearness(parameter: TunableParameter, value: int) -> float:
    octaves = abs(math.log2(max(value, 1) / max(parameter.value, 1)))
    return math.pow(_PER_OCTAVE, max(octaves - 1.0, 0.0))


def _shown(parameter: TunableParameter, value: int) -> str:
    none = "full" if parameter.kind == "unroll" else "none"
    return str(value) if value else none
