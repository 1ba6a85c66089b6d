# SPDX-License-Identifier: Apache-2.0
"""What a kernel is asked on a visit, and what is left out once it did not stand it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TypeVar

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.drawing import LENGTHS, drawn, in_order
from warplens.measure.kernel.larger import ROOMS
from warplens.measure.kernel.variants import LATE, VARIANTS
from warplens_tools.run.probe.job import Variant
from warplens_tools.run.probe.records import BaselineRecord, Failed, Stage
from warplens_tools.run.probe.visit import ProbeRun

#: Of a kernel's crashes on inputs of one kind, as of a type's full range: more are not risked. Of its hangs one.
_CRASHES = 2
#: Seconds of visits that the kernel itself ended, beside so many times what the program takes to reach it: after them
#: it is asked nothing more that it has not stood. Three times as many where a winner is confirmed.
_LOST_SECONDS, _LOST_STARTS = 8.0, 2
#: Numbers that candidates compare with and the kernel does not: so many of all that one visit is for.
_MOST_ASKED = 16
#: Integers that lead further, on larger copies of memory.
_LEADS = frozenset({"flags", "plus", "redrawn", "asked"})
#: What leads nowhere that the program's own numbers do not: floats, and integers that are no larger.
_TAME = frozenset(
    {
        *(
            "moved",
            "signs",
            "zeros",
            "spikes",
            "blanks",
            "specials",
            "infinities",
            "voids",
            "halves",
            "naught",
        ),
        *("shifted", "ties", "mingled", "striped", "vast", "near", "halfway", "centred", "minus", "endmost"),
        *("lowered", "vacant", "standing"),
    }
)
_PAST_LIMIT = "the kernel itself ran past its time limit"


class Questions:
    """Of one launch; fewer with each visit that the kernel itself ended."""

    def __init__(
        self, settings: MeasureSettings, *, launch: int, apart: bool, thorough: bool, lengths: bool = False
    ) -> None:
        """`apart`: the source says that buffers do not overlap. `thorough`: every set of inputs, and larger copies.
        `lengths`: those alone in which numbers by value are others."""
        asks = settings.perturb_inputs
        self._thorough, self._shortened = thorough, settings.lower_precision
        self.variants = [v for v in VARIANTS if asks and not (apart and v.kind == "aliased")]
        self._rooms = list(ROOMS) if asks and thorough else []
        if lengths:
            self.variants = [v for v in self.variants if v.kind in LENGTHS]
            self._rooms = [v for v in self._rooms if v.kind in LENGTHS]
        self.poison, self.fill, self.moves, self.twin = True, True, asks, True
        #: Which launch of the shape, from 0.
        self.launch = launch
        #: What it did not stand, by stage, and what it was not asked since it had not stood others, like it or many.
        self.given_up: list[str] = []
        self.unasked: list[str] = []
        #: Seconds of visits that it ended.
        self.lost_seconds = 0.0
        self._crashed: Counter[str] = Counter()
        self._tamed = False

    def drawn(
        self, *, rounded: bool = True, whole: bool = True, infinite: bool = True
    ) -> tuple[Variant, ...]:
        """Sets of inputs for one visit; `rounded`: the kernel says how its differences are rounded, `whole`: it rounds
        to whole numbers, `infinite`: infinities stand in its code."""
        out = {"near": not rounded, "halfway": not whole, "endmost": not infinite}
        meant = [v for v in self.variants if not out.get(v.kind)]
        return drawn(meant, thorough=self._thorough, shortened=self._shortened)

    def rooms(self) -> tuple[Variant, ...]:
        """The same on larger copies of its memory."""
        return in_order(self._rooms, random.SystemRandom())

    def give_up(self, run: ProbeRun, seconds: float, start: float) -> bool:
        """Leave out the question that the baseline died of; False if there was none.

        `seconds` is what the visit took, `start` what of it the program took to reach the launch.
        """
        stages = [r.name for r in run.records if isinstance(r, Stage)]
        if not stages or any(isinstance(r, BaselineRecord) for r in run.records):
            return False
        self.lost_seconds += seconds
        if "rooms" in stages and stages[-1] != "twin":
            self._leave_out_of_rooms(stages[-1])
        elif not self._left_out(stages[-1], run):
            return False
        self.given_up.append(stages[-1])
        if self.lost_seconds > _LOST_SECONDS * (3 if self._thorough else 1) + _LOST_STARTS * start:
            self._ask_no_more(set(stages))
        return True

    def _left_out(self, stage: str, run: ProbeRun) -> bool:
        if stage == "poison" and self.poison:
            self.poison = False
        elif stage == "fill" and self.fill:
            self.fill = False
        elif stage == "later launch" and self.launch:
            # its results lie there from the launch before, and nothing tells them from inputs
            self.launch = 0
        elif stage == "twin" and self.twin:
            self.twin = False
        elif stage == "moved inputs" and self.moves:
            self.moves = False
        elif stage.startswith("variant ") and self.variants:
            said = any(isinstance(r, Failed) and r.reason.startswith(_PAST_LIMIT) for r in run.records)
            hung = said or run.completed is None
            self.leave_out(stage.removeprefix("variant "), 1 if hung else _CRASHES)
        else:
            return False
        return True

    def leave_out(self, name: str, most: int = _CRASHES) -> None:
        """Inputs of another size lead this kernel out of bounds, so would their neighbours; others by themselves, until
        there were `most` of their kind."""
        odd = next((v for v in self.variants if v.name == name), None)
        if odd is not None:
            self.variants.remove(odd)
            self._crashed[odd.kind] += 1
        if odd is None or odd.kind == "moved":
            self._keep([v for v in self.variants if v.kind != "moved"])
        # another buffer is no neighbour
        elif self._crashed[odd.kind] >= (1 if odd.name in LATE and odd.target < 0 else most):
            self._keep([v for v in self.variants if v.kind != odd.kind])

    def _leave_out_of_rooms(self, stage: str) -> None:
        """Numbers that lead a kernel out of all room that it has; after a few of them there are no rooms."""
        odd = next((v for v in self._rooms if stage == f"variant {v.name}"), None)
        if odd is not None and odd.kind in _LEADS:
            # what integers lead out of says nothing of lengths
            left = [
                v for v in self._rooms if v.kind not in _LEADS and not any(b.kind in _LEADS for b in v.beside)
            ]
            self.unasked += [
                f"{v.name}, on larger copies" for v in self._rooms if v not in left and v is not odd
            ]
            self._rooms = left
            return
        self._crashed["rooms"] += 1
        if odd is not None:
            self._rooms.remove(odd)
        if odd is None or self._crashed["rooms"] >= _CRASHES:
            self._no_rooms()

    def _ask_no_more(self, stood: set[str]) -> None:
        """Leave all but the questions that it has stood, and at first what leads no further than its own inputs."""
        tame = frozenset[str]() if self._tamed else _TAME
        self._tamed = True
        self._keep(
            [v for v in self.variants if f"variant {v.name}" in stood or (v.kind in tame and not v.beside)]
        )
        self._no_rooms()
        if self.fill and "fill" not in stood:
            self.fill = False
            self.unasked.append("fill")
        if self.poison and "poison" not in stood:
            self.poison = False
            self.unasked.append("poison")

    def _no_rooms(self) -> None:
        self.unasked += [f"{v.name}, on larger copies" for v in self._rooms]
        self._rooms = []

    def _keep(self, variants: list[Variant]) -> None:
        self.unasked += [v.name for v in self.variants if v not in variants]
        self.variants = variants


_Number = TypeVar("_Number", int, float)


def joined(kernels: Sequence[_Number], candidates: Iterable[_Number]) -> tuple[_Number, ...]:
    """What the kernel compares with, between what candidates do: of either the first come soon."""
    theirs = list(dict.fromkeys(candidates))[:_MOST_ASKED]
    return tuple(dict.fromkeys(n for pair in zip_longest(theirs, kernels) for n in pair if n is not None))
