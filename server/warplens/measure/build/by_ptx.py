# SPDX-License-Identifier: Apache-2.0
"""What no run of a program can show of an edit, by its PTX and the baseline's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from warplens.measure.build.unit import Unit
from warplens_tools.toolchain.ptx_apart import overlaps
from warplens_tools.toolchain.ptx_barriers import without_barriers
from warplens_tools.toolchain.ptx_between import unseen
from warplens_tools.toolchain.ptx_beyond import reads_beyond
from warplens_tools.toolchain.ptx_bounds import cut_short
from warplens_tools.toolchain.ptx_compared import by_digests, turned
from warplens_tools.toolchain.ptx_directed import undirected
from warplens_tools.toolchain.ptx_drawn import undrawn
from warplens_tools.toolchain.ptx_ends import gives_up, holds_less
from warplens_tools.toolchain.ptx_exact import less_exact
from warplens_tools.toolchain.ptx_filters import filtered
from warplens_tools.toolchain.ptx_floats import through_floats
from warplens_tools.toolchain.ptx_gaps import in_gaps
from warplens_tools.toolchain.ptx_in_step import in_step
from warplens_tools.toolchain.ptx_lanes import narrower_lanes
from warplens_tools.toolchain.ptx_least import moved_least
from warplens_tools.toolchain.ptx_links import unfollowed
from warplens_tools.toolchain.ptx_lists import runs_over
from warplens_tools.toolchain.ptx_mates import by_mates
from warplens_tools.toolchain.ptx_order import unordered
from warplens_tools.toolchain.ptx_packed import packs_more
from warplens_tools.toolchain.ptx_parts import narrower_parts
from warplens_tools.toolchain.ptx_quotients import by_reciprocals, lost_elsewhere
from warplens_tools.toolchain.ptx_reduced import put_off
from warplens_tools.toolchain.ptx_room import without_room
from warplens_tools.toolchain.ptx_roots import by_roots
from warplens_tools.toolchain.ptx_rounds import rounds_unseen
from warplens_tools.toolchain.ptx_scopes import asks_no_more, narrower
from warplens_tools.toolchain.ptx_series import own_series
from warplens_tools.toolchain.ptx_short import shortened
from warplens_tools.toolchain.ptx_signs import without_signs
from warplens_tools.toolchain.ptx_sums import coarser
from warplens_tools.toolchain.ptx_tickets import out_of_turn
from warplens_tools.toolchain.ptx_totals import in_floats
from warplens_tools.toolchain.ptx_whole import coarser_fractions, less_whole
from warplens_tools.toolchain.ptx_widths import narrowed
from warplens_tools.toolchain.ptx_words import half_used


def why_not_by_ptx(
    baseline: Unit, unit: Unit, judged: str, *, wide: bool, lower: bool, calls_more: bool = False
) -> str:
    """Why an edited unit is not proven, in words; "" if nothing is known to speak against it.

    Args:
        baseline, unit: the unit as it is, and as it was edited.
        judged: the judged kernel's name, whatever the unit.
        wide: whether device code means to compute in 64 bits.
        lower: whether a lower precision is allowed.
        calls_more: whether the edited text calls functions of the math library that the other does not.
    """
    found = _whatever_is_allowed(baseline, unit, judged, wide)
    return next(found if lower else chain(found, _as_precise(baseline, unit, judged, calls_more)), "")


def _whatever_is_allowed(baseline: Unit, unit: Unit, judged: str, wide: bool) -> Iterator[str]:
    """What no allowance of a lower precision makes right."""
    yield from _by_numbers(baseline, unit, wide)
    yield from _by_single_numbers(baseline, unit)
    if why := lost_elsewhere(baseline.quotients, unit.quotients, judged):
        yield why
    yield from _by_order(baseline, unit)
    yield from _by_data(baseline, unit)
    if why := undirected(baseline.directed, unit.directed):
        yield f"{why}: what they bound may lie outside by less than a comparison can tell"


def _by_numbers(baseline: Unit, unit: Unit, wide: bool) -> Iterator[str]:
    """What larger whole numbers show."""
    if why := narrowed(baseline.widths, unit.widths) if wide else "":
        yield f"{why}: larger arrays or numbers than this program's may overflow it"
    if why := narrower_lanes(baseline.lanes, unit.lanes):
        yield f"{why}: larger numbers than this program's may overflow it"
    if why := shortened(baseline.short, unit.short):
        yield f"{why}: larger numbers than this program's may not fit"
    if why := packs_more(baseline.packed, unit.packed):
        yield f"{why}: larger numbers than this program's may not fit"
    if why := by_reciprocals(baseline.reciprocals, unit.reciprocals):
        yield f"{why}: larger numbers than this program's would show it"
    if why := through_floats(baseline.floats, unit.floats):
        yield f"{why}: larger numbers than this program's would show it"
    if why := narrower_parts(baseline.parts, unit.parts):
        yield f"{why}: larger numbers than this program's may overflow it"
    if why := put_off(baseline.reduced, unit.reduced):
        yield f"{why}: longer loops than this program's may run over"
    if why := without_signs(baseline.signs, unit.signs):
        yield f"{why}: other data, or other types than this run's, may have such"
    if why := less_whole(baseline.whole, unit.whole):
        yield f"{why}: larger numbers than this program's would show it"
    if why := by_roots(baseline.roots, unit.roots):
        yield f"{why}: larger numbers than this program's would show it"


def _by_single_numbers(baseline: Unit, unit: Unit) -> Iterator[str]:
    """What one number of many shows."""
    if why := half_used(baseline.words, unit.words):
        yield f"{why}: one number in four billion would show it"
    if why := by_mates(baseline.mates, unit.mates):
        yield f"{why}: two numbers that share it would show it"
    if why := moved_least(baseline.least, unit.least):
        yield f"{why}: numbers that wrap around would show it"


def _by_order(baseline: Unit, unit: Unit) -> Iterator[str]:
    """What a run shows by chance."""
    if why := unseen(baseline.between, unit.between):
        yield why
    if why := undrawn(baseline.drawn, baseline.ends, unit.drawn, unit.ends):
        yield why
    if why := unordered(baseline.order, unit.order):
        yield f"{why}: a run shows it by chance alone"
    if why := narrower(baseline.scopes, unit.scopes):
        yield f"{why}: a run shows it by chance alone"
    if why := asks_no_more(baseline.scopes, unit.scopes):
        yield why
    if why := out_of_turn(baseline.tickets, unit.tickets):
        yield f"{why}: a run shows it by chance alone"
    if why := in_step(baseline.in_step, unit.in_step):
        yield f"{why}: a run shows it by chance alone"
    if why := without_barriers(baseline.barriers, unit.barriers):
        yield f"{why}: a run shows it by chance alone"


def _by_data(baseline: Unit, unit: Unit) -> Iterator[str]:
    """What other data show, by taking longer or by lying otherwise, or an earlier launch's."""
    if why := in_gaps(baseline.gaps, unit.gaps):
        yield f"{why}: what lies there is compared nowhere"
    if why := overlaps(baseline.apart, unit.apart):
        yield f"{why}: other data may lie nearer"
    if why := gives_up(baseline.ends, unit.ends):
        yield f"{why}: other data may need more of them"
    if why := by_digests(baseline.compared, unit.compared):
        yield f"{why}: on other data it may come out otherwise"
    if why := turned(baseline.compared, unit.compared):
        yield f"{why}: data with NaN would show it"
    if why := cut_short(baseline.bounds, unit.bounds):
        yield f"{why}: on other data it may miss something"
    if why := holds_less(baseline.ends, unit.ends):
        yield f"{why}: other data may need more"
    if why := runs_over(baseline.lists, unit.lists):
        yield f"{why}: other data may need more"
    if why := without_room(baseline.room, unit.room):
        yield f"{why}: data that fill it would show it"
    if why := reads_beyond(baseline.beyond, unit.beyond):
        yield f"{why}: behind the last one there may be none"
    if why := unfollowed(baseline.links, unit.links):
        yield f"{why}: other links may lie otherwise"


def _as_precise(baseline: Unit, unit: Unit, judged: str, calls_more: bool) -> Iterator[str]:
    """What is less precise."""
    if why := in_floats(baseline.totals, unit.totals):
        yield f"{why}: larger sums than this program's would show it"
    if why := coarser(baseline.sums, unit.sums):
        yield f"{why}: terms that cancel would show it"
    if why := less_exact(baseline.exact, unit.exact, unit.sums):
        yield f"{why}: terms that cancel, or values where it is least exact, would show it"
    if why := filtered(baseline.filters, unit.filters):
        yield f"{why}: what lies next to a border would show it"
    if why := own_series(baseline.series, unit.series, calls_more=calls_more):
        yield f"{why}: values elsewhere than this run's would show it"
    if why := coarser_fractions(baseline.whole, unit.whole):
        yield f"{why}: of larger numbers fewer digits are left behind the point"
    if why := rounds_unseen(baseline.rounds, unit.rounds, judged):
        yield f"{why}, which is not the instantiation that is compared"
