# SPDX-License-Identifier: Apache-2.0
"""32 bits in place of 64: what multiplies addresses in a kernel's PTX, and how wide.

A kernel that works out `size_t(row) * width` in 64 bits holds for arrays of more than 2^31 elements, which no run on a
smaller program shows. From every address its computation is followed back; a product of two values of which neither is
a constant, and a sum that a loop adds to, is wide or narrow, and rests on parameters and on the number of the block.
Products by a constant are looked at where what is multiplied was loaded, as the numbers of a table's rows, and where
they number threads over blocks. Where there is no address, products of loaded numbers count, and 64-bit parameters of
which a half is used. The compiler may widen what overflows nowhere: whether 64 bits are meant, the source says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, Step, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

_WIDE = ("mul.wide", "mad.wide", "mul.lo.s64", "mul.lo.u64", "mad.lo.s64", "mad.lo.u64", "mul.lo.b64")
_NARROW = ("mul.lo.s32", "mul.lo.u32", "mad.lo.s32", "mad.lo.u32", "mul.lo.b32", "mul24.", "mad24.")
#: Numbers of a thread within its block, at most 1024; these and a block's length say nothing of an array's.
_SMALL = frozenset({"%tid", "%laneid"})
_OF_THE_BLOCK = _SMALL | {"%ntid"}
#: The longest vector that is loaded at once, in bytes: by less a place within one is found; and the shortest block.
_VECTOR, _SHORTEST = 16, 32


class Widths(msgspec.Struct, frozen=True):
    """What a kernel's addresses are multiplied from, by how wide the product is; 64-bit lengths cut to 32 bits; and how
    wide the integers are that are loaded behind each pointer."""

    wide: frozenset[str] = frozenset()
    narrow: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()
    #: By parameter: "64" and "32" for loads of one such integer, "" for all others.
    loads: dict[str, frozenset[str]] = {}
    #: What is multiplied by a constant for an address, or with a number that is loaded too, by the pointer that it is
    #: loaded behind.
    loaded_wide: frozenset[str] = frozenset()
    loaded_narrow: frozenset[str] = frozenset()
    #: 64-bit parameters of which all is used, and those of which nothing but a half is.
    whole: frozenset[str] = frozenset()
    halved: frozenset[str] = frozenset()
    #: Threads are numbered over blocks for an address: in 64 bits; by a constant, in 32.
    numbers_wide: bool = False
    numbers_narrow: bool = False
    #: A loop's counter is multiplied by itself: in 64 bits or as a float, and in 32.
    squares_wide: bool = False
    squares_narrow: bool = False


def widths_in(ptx: str) -> dict[str, Widths]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return {unit_free_name(name): _Products(flow).widths() for name, flow in kernels_of(ptx)}


def narrowed(baseline: Mapping[str, Widths], candidate: Mapping[str, Widths]) -> str:
    """What a candidate's unit does in 32 bits and the baseline's in 64 alone; "" if nothing."""
    for name, new in candidate.items():
        known = baseline.get(name)
        if known is not None and (why := next(_narrower(known, new), "")):
            return why
    return ""


def _narrower(known: Widths, new: Widths) -> Iterator[str]:
    for what in sorted((new.narrow - known.narrow) & known.wide):
        yield f"the edit multiplies {_said(what)} in 32 bits for an address, which the kernel does in 64"
    for what in sorted(new.cut - known.cut):
        yield f"the edit counts up to {_said(what)} in 32 bits, which the kernel does in 64"
    for what, loads in sorted(new.loads.items()):
        if "32" in loads and known.loads.get(what) == frozenset({"64"}):
            yield f"the edit reads halves of the 64-bit numbers behind {_said(what)}, the kernel all of them"
    for what in sorted((new.loaded_narrow - known.loaded_narrow) & known.loaded_wide):
        yield f"the edit multiplies the numbers behind {_said(what)} in 32 bits, which the kernel does in 64"
    for what in sorted(new.halved & known.whole):
        yield f"the edit uses half of {_said(what)}, which has 64 bits, the kernel all of it"
    if new.numbers_narrow and known.numbers_wide and not known.numbers_narrow and "%ctaid" not in new.wide:
        yield "the edit numbers threads in 32 bits for an address, which the kernel does in 64"
    if new.squares_narrow and known.squares_wide and not known.squares_narrow:
        yield "the edit squares what a loop counts in 32 bits, which the kernel does in more"


def _said(what: str) -> str:
    return "numbers of blocks" if what.startswith("%") else f"parameter {int(what) + 1}"


class _Products:
    """What one kernel multiplies, and how wide."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._near = flow.closure(flow.addresses)

    def widths(self) -> Widths:
        """All of it for the whole kernel."""
        wide: set[str] = set()
        narrow: set[str] = set()
        for register in self._near:
            for step in self._flow.steps.get(register, ()):
                factors = self._factors(register, step)
                if factors is None:
                    continue
                leaves = [self._flow.leaves[factor] for factor in factors]
                if step.name.startswith((*_WIDE, "add.s64", "add.u64")):
                    wide |= frozenset().union(*leaves)
                elif not any(found and found <= _SMALL for found in leaves):
                    narrow |= frozenset().union(*leaves)
        whole, used = self._parameters()
        return Widths(
            wide=self._told(wide),
            narrow=self._told(narrow),
            cut=frozenset(self._cuts()),
            loads={leaf: frozenset(kinds) for leaf, kinds in self._loads().items()},
            loaded_wide=frozenset(self._loaded(_WIDE)),
            loaded_narrow=frozenset(self._loaded(_NARROW)),
            whole=whole,
            halved=used - whole,
            numbers_wide=self._numbers_threads(),
            numbers_narrow=self._numbers_by_constant(),
            squares_wide=self._squares(_WIDE) or self._squares_floats(),
            squares_narrow=self._squares(_NARROW),
        )

    def _loaded(self, names: tuple[str, ...]) -> Iterator[str]:
        """The pointers behind which lies what is multiplied in such instructions: by a constant for an address, or by
        what is loaded as well."""
        flow = self._flow
        for register, steps in flow.steps.items():
            for step in steps:
                if not step.name.startswith((*names, "shl.b64" if names == _WIDE else "shl.b32")):
                    continue
                held = [flow.origins.get(source, frozenset()) for source in step.sources[:2]]
                if (step.number > _VECTOR and any(held) and register in self._near) or all(held):
                    yield from frozenset().union(*held)

    def _squares(self, names: tuple[str, ...]) -> bool:
        """Whether what a loop counts is multiplied by itself in such instructions."""
        flow = self._flow
        products = (
            step.sources[:2] for steps in flow.steps.values() for step in steps if step.name.startswith(names)
        )
        return any(one == other and one in flow.counters for one, other in products)

    def _squares_floats(self) -> bool:
        flow = self._flow
        return any(
            one == other and flow.turned.get(one, "") in flow.counters for one, other in flow.float_products
        )

    def _numbers_threads(self) -> bool:
        """Whether the block's number is multiplied by its length in 64 bits for an address."""
        leaves = self._flow.leaves
        return any(
            {leaves.get(source) for source in step.sources[:2]}
            == {frozenset({"%ctaid"}), frozenset({"%ntid"})}
            for register in self._near
            for step in self._flow.steps.get(register, ())
            if step.name.startswith(_WIDE)
        )

    def _numbers_by_constant(self) -> bool:
        """Whether the block's number is multiplied by a constant that may be a block's length, in 32 bits, for an
        address."""
        return any(
            step.number >= _SHORTEST and self._flow.leaves.get(step.sources[0]) == frozenset({"%ctaid"})
            for register in self._near
            for step in self._flow.steps.get(register, ())
            if step.name.startswith((*_NARROW, "shl.b32"))
        )

    def _parameters(self) -> tuple[frozenset[str], frozenset[str]]:
        """The 64-bit parameters of which all is used, and those of which anything is."""
        flow = self._flow
        held = [
            (register, step)
            for register, steps in flow.steps.items()
            for step in steps
            if step.name.startswith("ld.param") and step.sources[0] in flow.wide_parameters
        ]
        # a half may be loaded into a register of 64 bits
        whole = {step.sources[0] for one, step in held if one in flow.whole and step.name.endswith("64")}
        return frozenset(whole), frozenset(step.sources[0] for _, step in held)

    def _loads(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, place in self._flow.loaded:
            kind = name.rsplit(".", 1)[-1]
            bits = kind[1:] if kind[0] in "usb" and ".v" not in name else ""
            for leaf in self._flow.bases(place):
                found.setdefault(leaf, set()).add(bits)
        return found

    @staticmethod
    def _told(leaves: set[str]) -> frozenset[str]:
        return frozenset(leaf for leaf in leaves if leaf not in _OF_THE_BLOCK)

    def _factors(self, register: str, step: Step) -> tuple[str, ...] | None:
        """The two operands of a product of variables, or what a loop adds; None for any other step."""
        if step.name.startswith((*_WIDE, *_NARROW)):
            factors = step.sources[:2]
            return factors if not _fixed(*factors) and not self._divided(*factors) else None
        if step.name.startswith(("add.s64", "add.u64", "add.s32", "add.u32")) and not _fixed(*step.sources):
            around = [
                source for source in step.sources if self._flow.round[source] == self._flow.round[register]
            ]
            if len(around) == 1:
                return tuple(source for source in step.sources if source not in around)
        return None

    def _divided(self, one: str, other: str) -> bool:
        """Whether one is a quotient by the other, as a remainder is worked out: their product exceeds nothing that was
        there before."""
        return any(
            [(step.name.startswith("div."), step.sources[1:]) for step in self._flow.steps.get(quotient, ())]
            == [(True, (divisor,))]
            and len(self._flow.steps.get(divisor, ())) == 1
            for quotient, divisor in ((one, other), (other, one))
        )

    def _cuts(self) -> Iterator[str]:
        """64-bit parameters whose lower halves are compared with."""
        for register in self._flow.compared:
            for step in self._flow.steps.get(register, ()):
                source = step.sources[0] if step.sources else "#"
                if step.name.startswith("ld.param") and source in self._flow.wide_parameters:
                    yield source
                if step.name.startswith(("cvt.u32.u64", "cvt.s32.s64", "cvt.s32.u64", "cvt.u32.s64")):
                    yield from (
                        s.sources[0]
                        for s in self._flow.steps.get(source, ())
                        if s.name.startswith("ld.param")
                    )


def _fixed(*sources: str) -> bool:
    return any(source.startswith("#") for source in sources)
