# SPDX-License-Identifier: Apache-2.0
"""What of an edited unit no run of this program can show to be right, by texts and PTX."""

from __future__ import annotations

from warplens.measure.build.assumed import assumes_more
from warplens.measure.build.by_ptx import why_not_by_ptx
from warplens.measure.build.general import why_not_general
from warplens.measure.build.unit import Unit
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import CompiledKernel
from warplens_tools.text import SourceText
from warplens_tools.toolchain.symbols import unit_free_name
from warplens_tools.tunable.follows import why_not_followed
from warplens_tools.tunable.math_calls import calls_more
from warplens_tools.tunable.source import File


class NotShown:
    """Asks of texts and units beside those of one baseline, which is read once."""

    def __init__(self, text: SourceText, path: str, *, wide: bool, lower_precision: bool) -> None:
        """`text`: the edited file's own, at that path. `wide`: its device code means to compute in 64 bits.
        `lower_precision`: whether one is allowed."""
        self._before, self._path = File(text, parse(text, path)), path
        self._wide, self._lower = wide, lower_precision

    def why(self, text: SourceText, unit: Unit, baseline: Unit, target: CompiledKernel) -> str:
        """Why an edited text and its unit are not proven, in words; "" if nothing is known to speak against them."""
        before, after = self._before, File(text, parse(text, self._path))
        if why := why_not_by_ptx(
            baseline,
            unit,
            unit_free_name(target.mangled),
            wide=self._wide,
            lower=self._lower,
            calls_more=calls_more(before, after),
        ):
            return why
        if why := assumes_more(baseline.evidence, unit.evidence, self._path):
            return why
        if why := why_not_followed(before, after):
            return f"{why}: it holds for this run's lengths alone"
        if why := why_not_general(before, after, baseline, unit):
            return f"{why}: it holds for what this run makes of them alone"
        return ""
