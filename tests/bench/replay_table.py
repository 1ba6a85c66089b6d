# SPDX-License-Identifier: Apache-2.0
"""A table of every reachable point of a stated budget, judged once, and a space of steps over it.

A *structure* is a version up to the values of its parameters: the user's text, or what a chain of rewrites made of it.
A *point* is a structure with values. A search over a table runs through the same sources, policies and memory as one on
a card; only the verdicts are read. What the budget left out counts as illegal, so no policy can ask for it.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from warplens.agent.actions import parameter_steps
from warplens.agent.moves import Proposal
from warplens.agent.priors import Cause, Expectation, Known, Rule
from warplens.agent.rewriting import move_of
from warplens.agent.search_settings import SearchSettings
from warplens.agent.templates import TemplateSource
from warplens.agent.text_source import TextSource
from warplens.agent.versions import ProposalSource
from warplens.measure.verdict import Candidate, Interval, State, Timing, Verdict
from warplens.store.rates import HitRate
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.tunable.parameter import (
    Geometry,
    ParameterKind,
    Template,
    TunableParameter,
    others,
    place,
)

_HEAD = re.compile(r"structure (\d+)")
_VALUE = re.compile(r"^(.+) = (\d+)$", re.MULTILINE)


class Axis(msgspec.Struct, frozen=True):
    """A parameter of a structure: its values in the table, and the one that the structure comes with."""

    name: str
    kind: ParameterKind
    value: int
    values: tuple[int, ...]


class Edge(msgspec.Struct, frozen=True):
    """A rewrite that makes one structure of another."""

    change: str
    rule: str
    title: str
    to: int
    #: The rewrite's chance on this text, as a share of its usual one.
    likely: float = 1.0


class Structure(msgspec.Struct, frozen=True):
    """What rewrites lead to, with its parameters."""

    axes: tuple[Axis, ...]
    edges: tuple[Edge, ...] = ()


class Point(msgspec.Struct, frozen=True):
    """The verdict on one structure with one value for each of its axes."""

    structure: int
    values: tuple[int, ...]
    state: State
    #: Median over the baseline, and the A/A noise of its visit; 0 where it was not timed.
    speedup: float = 0.0
    noise: float = 0.0
    reason: str = ""
    #: What judging it took of the card.
    seconds: float = 0.0


class Table(msgspec.Struct, frozen=True):
    """Everything a replay needs. Structure 0 with its own values is the baseline."""

    #: "measured" on a card by the judge, or "modelled" by a formula, which says nothing of real kernels.
    source: Literal["measured", "modelled"]
    program: str
    kernel: str
    #: What is in the table, in words: depth, values, points.
    budget: str
    command: str
    structures: tuple[Structure, ...]
    points: tuple[Point, ...]
    rules: dict[str, Rule] = {}
    causes: tuple[Cause, ...] = ()
    busy: dict[str, float] = {}
    #: Of the user's version; see `warplens.agent.features`.
    features: dict[str, float] = {}
    headroom: float | None = None
    gpu: str = ""
    date: str = ""
    version: int = 1

    @property
    def best(self) -> float:
        """The largest speedup that was judged faster; 1 where nothing was."""
        return max((p.speedup for p in self.points if p.state == "faster"), default=1.0)


def read_table(path: Path) -> Table:
    """A table of a file; one that ends in .xz is compressed."""
    written = path.read_bytes()
    return msgspec.json.decode(lzma.decompress(written) if path.suffix == ".xz" else written, type=Table)


def write_table(table: Table, path: Path) -> None:
    """Into a file, whole or not at all."""
    written = msgspec.json.encode(table)
    whole = path.with_suffix(".new")
    whole.write_bytes(lzma.compress(written) if path.suffix == ".xz" else written)
    whole.replace(path)


class TableSpace:
    """The steps over a table; see `warplens.agent.versions.Space`. `without` names parts to do without, `rates` are
    what rules were worth on other kernels."""

    def __init__(
        self,
        table: Table,
        *,
        seed: int,
        settings: SearchSettings,
        without: Collection[str] = (),
        rates: Sequence[HitRate] = (),
    ) -> None:
        self.table = table
        causes = () if "tools" in without else table.causes
        self._known = Known(causes, tuple(rates), table.busy)
        self._points = {(p.structure, p.values): p for p in table.points}
        sources: tuple[ProposalSource, ...] = (
            TextSource("rewrites", self._rewrites),
            TextSource("parameters", self._parameters),
            TemplateSource(self.template, self._expect, settings, seed),
        )
        self.sources = tuple(source for source in sources if source.name not in without)
        self.baseline = SourceText(self._text(0, {}))

    def verdict(self, candidate: Candidate) -> Verdict:
        """What the table has of a candidate."""
        point = self._points[self._key(self.baseline.apply(list(candidate.edits)))]
        if not point.speedup:
            return Verdict(candidate.id, point.state, point.reason)
        spread = (point.speedup * (1 - point.noise), point.speedup * (1 + point.noise))
        own = Interval(1e3, 1e3, 1e3)
        changed = Interval(1e3 / point.speedup, 1e3 / spread[1], 1e3 / spread[0])
        timing = Timing(own, changed, Interval(point.speedup, *spread), point.noise, 20)
        return Verdict(candidate.id, point.state, point.reason, timings=(timing,))

    def illegal(self, text: SourceText) -> str:
        """Whether the budget of the table left it out."""
        return "" if self._key(text) in self._points else "not in the table"

    def geometry(self, text: SourceText) -> Geometry:
        """A table has the verdicts of whole versions."""
        del text
        return Geometry()

    def template(self, text: SourceText) -> Template:
        """The parameters of a structure, where their values stand."""
        structure, _ = self._read(text)
        axes = {axis.name: axis for axis in self.table.structures[structure].axes}
        found = []
        for match in _VALUE.finditer(text.text):
            axis, value = axes[match[1]], int(match[2])
            spot = place(text, match.start(2), match.end(2))
            found.append(TunableParameter(axis.name, axis.kind, value, others(axis.values, value), (spot,)))
        return Template(tuple(found))

    def _parameters(self, text: SourceText) -> Iterator[Proposal]:
        return parameter_steps(self.template(text), self._expect)

    def _rewrites(self, text: SourceText) -> Iterator[Proposal]:
        structure, values = self._read(text)
        for edge in self.table.structures[structure].edges:
            rule = self.table.rules[edge.rule]
            expected = self._expect(rule)
            if expected is None:
                continue
            chance = expected.probability * edge.likely
            expected = msgspec.structs.replace(expected, probability=chance)
            edit = TextEdit(text.span(0, len(text.text)), self._text(edge.to, values))
            yield Proposal(move_of(edge.change, rule, edge.title, expected), (edit,))

    def _expect(self, rule: Rule) -> Expectation | None:
        return self._known.expect(rule)

    def _text(self, structure: int, values: dict[str, int]) -> str:
        axes = self.table.structures[structure].axes
        lines = [f"{a.name} = {values.get(a.name, a.value)}" for a in axes]
        return "\n".join([f"structure {structure}", *lines]) + "\n"

    def _read(self, text: SourceText) -> tuple[int, dict[str, int]]:
        head = _HEAD.match(text.text)
        assert head is not None
        return int(head[1]), {m[1]: int(m[2]) for m in _VALUE.finditer(text.text)}

    def _key(self, text: SourceText) -> tuple[int, tuple[int, ...]]:
        structure, values = self._read(text)
        return structure, tuple(values[axis.name] for axis in self.table.structures[structure].axes)
