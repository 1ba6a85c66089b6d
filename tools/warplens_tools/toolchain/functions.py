# SPDX-License-Identifier: Apache-2.0
"""Which functions of a cubin are not as in another: by what they run, whom they call, and what they find in memory."""

from __future__ import annotations

import hashlib
import struct

import msgspec

from warplens_tools.toolchain.cubin import OBJECTS, SIZED, Cubin, Section, attributes, parse_cubin
from warplens_tools.toolchain.symbols import unit_free_name

#: Names of sections are ptxas' own.
_TEXT, _INFO = ".text.", ".nv.info."
#: Addresses of variables and functions that whole-program code reads; and `__constant__` variables.
_ADDRESSES, _CONSTANTS = ".nv.constant4", ".nv.constant3"
#: Where variables lie that code may share.
_DATA = (".nv.global.init", ".nv.global", _CONSTANTS)
#: Attributes whose payload names symbols by their number, which shifts with every symbol added: all of it, or the
#: first word (EIATTR_EXTERNS, EIATTR_PARAM_CBANK).
_EXTERNS, _PARAMETER_BANK = 0x0F, 0x0A


class Changes(msgspec.Struct, frozen=True):
    """What of a unit an edit changes. Names as `unit_free_name` gives them, sorted."""

    #: Kernels that run, call, or find in constant memory something else, their names as the edited unit mangles them.
    entries: dict[str, str]
    #: Kernels that the edited unit has not any more.
    removed: tuple[str, ...]
    #: All kernels of the edited unit, their names there.
    kernels: dict[str, str]
    #: Variables that begin with another value.
    variables: tuple[str, ...]


def changes(before: bytes, after: bytes) -> Changes:
    """What of `after` is not as in `before`, two cubins of one unit. Kernels that `before` has not do not count.

    Raises:
        InputError: one of them is no cubin.
    """
    old, new = _Unit(parse_cubin(before)), _Unit(parse_cubin(after))
    was, now = old.digests(), new.digests()
    moved = not old.lies_in(new) or _pointed(old, was) != _pointed(new, now)
    entries = {
        name: new.names[name]
        for name in sorted(was)
        if name in now and name in old.entries and (moved or was[name] != now[name])
    }
    known = new.variables()
    return Changes(
        entries=entries,
        removed=tuple(sorted(name for name in old.entries if name not in now)),
        kernels={name: new.names[name] for name in sorted(new.entries)},
        variables=tuple(
            sorted(n for n, (_, _, value) in old.variables().items() if n in known and known[n][2] != value)
        ),
    )


class _Unit:
    """A cubin's functions under the names that two compilations share."""

    def __init__(self, cubin: Cubin) -> None:
        self.cubin = cubin
        functions = [name.removeprefix(_TEXT) for name in cubin.sections if name.startswith(_TEXT)]
        self.names = {unit_free_name(name): name for name in functions}
        self._free = {name: free for free, name in self.names.items()}
        # only what a host can launch has parameters in a constant bank of its own
        self.entries = {f for f, n in self.names.items() if f".nv.constant0.{n}" in cubin.sections}

    def digests(self) -> dict[str, str]:
        """Of every function with all that it calls, by name."""
        own = {free: self._own(name) for free, name in self.names.items()}
        calls = {free: self._calls(name) for free, name in self.names.items()}
        return {free: _hash(*(f"{n} {own[n]}" for n in sorted(_reached(free, calls)))) for free in own}

    def pointed(self) -> set[str]:
        """Functions whose address lies in memory, where any other may find it."""
        sections = [s for n, s in self.cubin.sections.items() if n.startswith((*_DATA, _ADDRESSES))]
        found = {self._target(index) for s in sections for _, index, _ in self.cubin.relocations(s)}
        return found & set(self.names)

    def lies_in(self, other: _Unit) -> bool:
        """Whether whatever code finds in constant memory lies there in `other` too."""
        theirs, slots = other.variables(), other._slots()
        places = {n: v[:2] for n, v in self.variables().items() if v[0].startswith(_CONSTANTS)}
        return all(n in theirs and theirs[n][:2] == place for n, place in places.items()) and all(
            slots.get(slot) == target for slot, target in self._slots().items()
        )

    def variables(self) -> dict[str, tuple[str, int, str]]:
        """Section, place and a hash of the first value of every variable that has a name of its own."""
        found = {}
        for symbol in self.cubin.symbols:
            section = self.cubin.section_of(symbol)
            # a name with a dollar is the compiler's own, such as the text of a printf
            if (
                symbol.kind not in OBJECTS
                or section is None
                or not symbol.size
                or symbol.name.startswith("$")
            ):
                continue
            if section.name.startswith(_DATA):
                value = self._value(section, symbol.value, symbol.size)
                found[unit_free_name(symbol.name)] = (section.name, symbol.value, value)
        return found

    def _value(self, section: Section, place: int, size: int) -> str:
        inside = self.cubin.content(section)[place : place + size]
        pointers = [
            f"{offset - place} {self._target(index)} {addend}"
            for offset, index, addend in self.cubin.relocations(section)
            if place <= offset < place + size
        ]
        # memory without a first value of its own is zero
        return _hash(inside or bytes(size), *sorted(pointers))

    def _own(self, name: str) -> str:
        cubin, parts = self.cubin, list[bytes | str]()
        for section in self._sections(name):
            kind = section.name.removesuffix(name)
            content = cubin.content(section)
            parts += [kind, str(section.size)]
            parts.append(self._attributes(content, name) if kind == _INFO else content)
            rows = cubin.relocations(section)
            parts += sorted(f"{offset} {self._target(i, name)} {addend}" for offset, i, addend in rows)
        return _hash(*parts)

    def _sections(self, name: str) -> list[Section]:
        found = [s for n, s in self.cubin.sections.items() if n.endswith(f".{name}")]
        own = (_TEXT, _INFO, ".nv.constant", ".nv.shared.", ".nv.local.")
        return sorted((s for s in found if s.name.startswith(own)), key=lambda s: s.name)

    def _attributes(self, content: bytes, name: str) -> str:
        words = []
        for form, attribute, payload in attributes(content):
            if attribute == _EXTERNS and form == SIZED:
                numbers = struct.unpack(f"<{len(payload) // 4}I", payload[: len(payload) // 4 * 4])
                said = " ".join(self._target(n, name) for n in numbers)
            else:
                said = (payload[4:] if attribute == _PARAMETER_BANK and form == SIZED else payload).hex()
            words.append(f"{form} {attribute} {said}")
        return "\n".join(words)

    def _calls(self, name: str) -> set[str]:
        section = self.cubin.sections[f"{_TEXT}{name}"]
        targets = {self._target(index) for _, index, _ in self.cubin.relocations(section)}
        return targets & set(self.names)

    def _target(self, index: int, own: str = "") -> str:
        symbols = self.cubin.symbols
        name = symbols[index].name if index < len(symbols) else ""
        return unit_free_name(name.removeprefix(_TEXT)) if name != own else "itself"

    def _slots(self) -> dict[int, str]:
        section = self.cubin.sections.get(_ADDRESSES)
        if section is None:
            return {}
        content = self.cubin.content(section)
        slots = {at: content[at : at + 8].hex() for at in range(0, len(content), 8)}
        for offset, index, addend in self.cubin.relocations(section):
            slots[offset] = f"{self._target(index)} {addend}"
        return slots


def _pointed(unit: _Unit, digests: dict[str, str]) -> dict[str, str]:
    return {name: digests[name] for name in unit.pointed()}


def _reached(start: str, calls: dict[str, set[str]]) -> set[str]:
    """A function with all that it calls, or launches, directly or not."""
    found, left = {start}, [start]
    while left:
        new = calls[left.pop()] - found
        found |= new
        left += new
    return found


def _hash(*parts: bytes | str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(data)))
        digest.update(data)
    return digest.hexdigest()
