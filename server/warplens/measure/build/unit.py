# SPDX-License-Identifier: Apache-2.0
"""The workload's unit, compiled, and what the device code of a candidate's may not do beyond it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.measure.build.device_text import asks_more, device_text
from warplens.measure.build.includes import foreign
from warplens.measure.build.linking import Linked, calls_runtime, live_variables
from warplens_tools.evidence import BinaryEvidence, CompiledKernel
from warplens_tools.lazily import cached_property
from warplens_tools.toolchain.locate import Toolchain
from warplens_tools.toolchain.ptx_apart import Apart, apart_in
from warplens_tools.toolchain.ptx_asm import escapes
from warplens_tools.toolchain.ptx_barriers import Barriers, barriers_in
from warplens_tools.toolchain.ptx_between import Between, between_in
from warplens_tools.toolchain.ptx_beyond import Beyond, beyond_in
from warplens_tools.toolchain.ptx_bounds import Bounds, bounds_in
from warplens_tools.toolchain.ptx_compared import Compared, compared_in
from warplens_tools.toolchain.ptx_directed import Directed, directed_in
from warplens_tools.toolchain.ptx_drawn import drawn_in
from warplens_tools.toolchain.ptx_ends import Ends, ends_in
from warplens_tools.toolchain.ptx_exact import Exact, exact_in
from warplens_tools.toolchain.ptx_filters import Filters, filters_in
from warplens_tools.toolchain.ptx_floats import through_floats_in
from warplens_tools.toolchain.ptx_gaps import Gaps, gaps_in
from warplens_tools.toolchain.ptx_in_step import InStep, in_step_in
from warplens_tools.toolchain.ptx_lanes import Lanes, lanes_in
from warplens_tools.toolchain.ptx_least import Least, least_in
from warplens_tools.toolchain.ptx_links import Links, links_in
from warplens_tools.toolchain.ptx_lists import lists_in
from warplens_tools.toolchain.ptx_mates import mates_in
from warplens_tools.toolchain.ptx_order import Order, order_in
from warplens_tools.toolchain.ptx_packed import Packed, packed_in
from warplens_tools.toolchain.ptx_parts import Parts, parts_in
from warplens_tools.toolchain.ptx_quotients import quotients_in, reciprocals_in
from warplens_tools.toolchain.ptx_reduced import Reduced, reduced_in
from warplens_tools.toolchain.ptx_room import Room, room_in
from warplens_tools.toolchain.ptx_roots import roots_in
from warplens_tools.toolchain.ptx_rounds import Rounds, rounds_in
from warplens_tools.toolchain.ptx_scopes import Scopes, scopes_in
from warplens_tools.toolchain.ptx_series import Series, series_in
from warplens_tools.toolchain.ptx_short import Short, short_in
from warplens_tools.toolchain.ptx_signs import Signs, signs_in
from warplens_tools.toolchain.ptx_state import reads_new_state
from warplens_tools.toolchain.ptx_sums import sums_in
from warplens_tools.toolchain.ptx_tables import tables_in
from warplens_tools.toolchain.ptx_tickets import Tickets, tickets_in
from warplens_tools.toolchain.ptx_totals import Totals, totals_in
from warplens_tools.toolchain.ptx_whole import Whole, whole_in
from warplens_tools.toolchain.ptx_widths import Widths, widths_in
from warplens_tools.toolchain.ptx_words import Words, words_in
from warplens_tools.toolchain.symbols import live_names, symbols, unit_free_name, variables, writable_bytes


class Unit(msgspec.Struct, frozen=True, dict=True):
    """The workload's unit, compiled by itself as candidates are."""

    evidence: BinaryEvidence
    #: What can be loaded.
    cubin: bytes
    digest: str
    #: The unit by itself: the same, or what was linked with other units' code.
    own: bytes
    linked: Linked | None = None

    def live(self, program: bytes) -> dict[str, str]:
        """Its variables' names, and for each its name in the running program; "" for none."""
        if self.linked is not None:
            return live_variables(self.linked, self.own)
        return live_names(tuple(v.name for v in variables(self.cubin)), program)

    @cached_property
    def ptx(self) -> str:
        """Its own PTX, read once for all who ask; "" where it was compiled without any."""
        path = self.evidence.ptx_path
        return Path(path).read_text(errors="replace") if path else ""

    @cached_property
    def widths(self) -> dict[str, Widths]:
        """What its kernels' addresses are multiplied from, kept: every candidate is compared with the baseline's."""
        return widths_in(self.ptx)

    @cached_property
    def sums(self) -> dict[str, frozenset[str]]:
        """In what precision its kernels add up, kept as the widths are."""
        return sums_in(self.ptx)

    @cached_property
    def rounds(self) -> dict[str, Rounds]:
        """What its kernels round to short formats, kept as the widths are."""
        return rounds_in(self.ptx)

    @cached_property
    def exact(self) -> dict[str, Exact]:
        """What its kernels do for the last bits of their results, kept as the widths are."""
        return exact_in(self.ptx)

    @cached_property
    def lanes(self) -> dict[str, Lanes]:
        """In how many bits its kernels add up over lanes, kept as the widths are."""
        return lanes_in(self.ptx)

    @cached_property
    def between(self) -> dict[str, Between]:
        """What blocks of its kernels do in one place, kept as the widths are."""
        return between_in(self.ptx)

    @cached_property
    def short(self) -> dict[str, Short]:
        """In how many bits its kernels carry whole numbers, kept as the widths are."""
        return short_in(self.ptx)

    @cached_property
    def ends(self) -> dict[str, Ends]:
        """What its kernels' loops end by, kept as the widths are."""
        return ends_in(self.ptx)

    @cached_property
    def drawn(self) -> frozenset[str]:
        """The kernels whose blocks draw their places, kept as the widths are."""
        return drawn_in(self.ptx)

    @cached_property
    def apart(self) -> dict[str, Apart]:
        """What leads its kernels within memory that they write, kept as the widths are."""
        return apart_in(self.ptx)

    @cached_property
    def links(self) -> dict[str, Links]:
        """What links its kernels follow, kept as the widths are."""
        return links_in(self.ptx)

    @cached_property
    def gaps(self) -> dict[str, Gaps]:
        """Which bytes of structures its kernels go by, kept as the widths are."""
        return gaps_in(self.ptx)

    @cached_property
    def scopes(self) -> dict[str, Scopes]:
        """For whom its kernels' operations hold, kept as the widths are."""
        return scopes_in(self.ptx)

    @cached_property
    def tickets(self) -> dict[str, Tickets]:
        """What its kernels' blocks leave for the last one, kept as the widths are."""
        return tickets_in(self.ptx)

    @cached_property
    def in_step(self) -> dict[str, InStep]:
        """What lanes of its kernels read that others wrote, kept as the widths are."""
        return in_step_in(self.ptx)

    @cached_property
    def order(self) -> dict[str, Order]:
        """In what order its kernels look at flags and at what they stand for, kept as the widths are."""
        return order_in(self.ptx)

    @cached_property
    def whole(self) -> dict[str, Whole]:
        """How its kernels work out whole parts and quotients, kept as the widths are."""
        return whole_in(self.ptx)

    @cached_property
    def directed(self) -> dict[str, Directed]:
        """What its kernels round up and down, kept as the widths are."""
        return directed_in(self.ptx)

    @cached_property
    def packed(self) -> dict[str, Packed]:
        """Where its kernels join numbers to words, kept as the widths are."""
        return packed_in(self.ptx)

    @cached_property
    def reciprocals(self) -> frozenset[str]:
        """The kernels that divide by reciprocals of few bits, kept as the widths are."""
        return reciprocals_in(self.ptx)

    @cached_property
    def signs(self) -> dict[str, Signs]:
        """Which loaded numbers its kernels take for ones with a sign, kept as the widths are."""
        return signs_in(self.ptx)

    @cached_property
    def parts(self) -> dict[str, Parts]:
        """In how many bits its kernels' threads add up, kept as the widths are."""
        return parts_in(self.ptx)

    @cached_property
    def floats(self) -> frozenset[str]:
        """The kernels that keep whole numbers as floats, kept as the widths are."""
        return through_floats_in(self.ptx)

    @cached_property
    def series(self) -> dict[str, Series]:
        """What polynomials its kernels work out, kept as the widths are."""
        return series_in(self.ptx)

    @cached_property
    def barriers(self) -> dict[str, Barriers]:
        """What its kernels' threads read of one another, kept as the widths are."""
        return barriers_in(self.ptx)

    @cached_property
    def compared(self) -> dict[str, Compared]:
        """What its kernels compare, kept as the widths are."""
        return compared_in(self.ptx)

    @cached_property
    def bounds(self) -> dict[str, Bounds]:
        """What bounds its kernels' loops over data, kept as the widths are."""
        return bounds_in(self.ptx)

    @cached_property
    def words(self) -> dict[str, Words]:
        """Where its kernels go by one word of a number, and where by both, kept as the widths are."""
        return words_in(self.ptx)

    @cached_property
    def roots(self) -> frozenset[str]:
        """The kernels that number something by a float's root, kept as the widths are."""
        return roots_in(self.ptx)

    @cached_property
    def filters(self) -> dict[str, Filters]:
        """What its kernels decide by doubles and by floats, kept as the widths are."""
        return filters_in(self.ptx)

    @cached_property
    def least(self) -> dict[str, Least]:
        """What its kernels take the least of, kept as the widths are."""
        return least_in(self.ptx)

    @cached_property
    def totals(self) -> dict[str, Totals]:
        """What its kernels add up as integers and what as floats, kept as the widths are."""
        return totals_in(self.ptx)

    @cached_property
    def mates(self) -> frozenset[str]:
        """The kernels whose lanes do the work of others by a digest, kept as the widths are."""
        return mates_in(self.ptx)

    @cached_property
    def reduced(self) -> dict[str, Reduced]:
        """Where its kernels take remainders of what they add up, kept as the widths are."""
        return reduced_in(self.ptx)

    @cached_property
    def quotients(self) -> dict[str, tuple[int, frozenset[str]]]:
        """How many quotients by constants its kernels work out, kept as the widths are."""
        return quotients_in(self.ptx)

    @cached_property
    def room(self) -> dict[str, Room]:
        """Where its kernels ask whether there is room for a place that they draw, kept as the widths are."""
        return room_in(self.ptx)

    @cached_property
    def beyond(self) -> dict[str, Beyond]:
        """By which conditions its kernels read the next element, kept as the widths are."""
        return beyond_in(self.ptx)

    @cached_property
    def lists(self) -> frozenset[str]:
        """The kernels that keep lists of data's own length in shared memory, kept as the widths are."""
        return lists_in(self.ptx)


def why_more(unit: Unit, baseline: Unit, source: str, toolchain: Toolchain) -> str:
    """What an edited unit does beyond computing as the baseline does, in words; "" for nothing. `source` is edited."""
    if strange := foreign(unit.evidence, baseline.evidence, toolchain):
        return f"the edit makes the compiler read {strange}"
    if unit.linked is not None and not unit.linked.launches and calls_runtime(symbols(unit.own)):
        return "the edit launches kernels, or copies, from the device, which the program does not"
    if state := reads_new_state(baseline.ptx, unit.ptx):
        return f"the edit uses {state}, which tells launches apart or outlives them; the kernel does not"
    if why := escapes(baseline.ptx, unit.ptx):
        return f"the edit's inline assembler {why}"
    headers = toolchain.find("cuda_headers")
    system = (headers.path,) if headers is not None else ()
    if why := asks_more(*(device_text(side.evidence, source, system) for side in (baseline, unit))):
        return why
    if kept := _kept_state(unit.own, baseline.own, unit.ptx):
        why = f"the edit adds {kept}, which carries results from launch to launch"
        return f"{why}; constants belong in __constant__ memory"
    return ""


def _kept_state(after: bytes, before: bytes, ptx: str) -> str:
    """Writable memory that an edited unit has more of than the baseline, by name where it has one; "" for none.

    Variables are counted under the names that compilations share: of a name that is forged there are two. Memory that
    no variable names, or that a known one has grown by, shows in the size of all. A single byte that no code names is
    none: CuTe's headers and libcu++'s leave one for each of their objects without members. Nor are the tables of CUDA's
    mathematical functions, as long as they are that.
    """
    old = {v.name for v in variables(before)}
    tables = {name: many for name, many in tables_in(ptx).items() if name not in old}
    empty = {v.name for v in variables(after) if v.bytes == 1 and not v.constant and _unused(v.name, ptx)}
    empty |= {v.name for v in variables(after) if tables.get(v.name) == v.bytes}
    given = Counter(
        unit_free_name(v.name) for v in variables(after) if not v.constant and v.name not in empty
    )
    known = Counter(unit_free_name(v.name) for v in variables(before) if not v.constant)
    if added := next(iter(given - known), ""):
        return f"the device variable {added}"
    none = sum(v.bytes for v in variables(after) if v.name in empty)
    more = writable_bytes(after) - none - writable_bytes(before)
    return f"{more} bytes of device memory" if more > 0 else ""


def _unused(name: str, ptx: str) -> bool:
    """Whether a unit's PTX declares a variable and never names it again."""
    return len(re.findall(rf"(?<![\w$]){re.escape(name)}(?![\w$])", ptx)) == 1


def counterpart(target: CompiledKernel, kernels: Sequence[CompiledKernel]) -> CompiledKernel | None:
    """The judged kernel in an edited unit; where its template arguments changed, its only instantiation."""
    twin = unit_free_name(target.mangled)
    same = [k for k in kernels if unit_free_name(k.mangled) == twin]
    family = same or [k for k in kernels if k.qualified_name == target.qualified_name]
    return family[0] if len(family) == 1 or same else None
