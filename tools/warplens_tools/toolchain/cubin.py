# SPDX-License-Identifier: Apache-2.0
"""Reads what Warplens needs from a cubin (an ELF64 file): functions, their code, their sections.

Every `nvdisasm` call costs a quarter of a second whatever it is asked; a hash of a kernel's own code says
whether it has to be asked at all.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from warplens_tools.errors import InputError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_REL = struct.Struct("<QQ")
_SHT_NOBITS = 8
_CONSTANT_BANKS = 18
#: ELF's symbol types for functions and for variables, and NVIDIA's own for variables of a relocatable cubin.
FUNCTION = 2
OBJECTS = (1, 13)
#: The format of attributes that have a size and a payload; others have two bytes of value. Formats and numbers of
#: attributes are as `cuobjdump --dump-elf` prints them (CUDA 13).
SIZED = 4
_ANNOTATIONS = 0x55


class Section(msgspec.Struct, frozen=True):
    """One section; `offset` and `size` in bytes of the file."""

    name: str
    type: int
    offset: int
    size: int
    link: int
    #: ELF's section flags; the section that a table of relocations is for; bytes of an entry.
    flags: int = 0
    info: int = 0
    entry: int = 0


class Symbol(msgspec.Struct, frozen=True):
    """One symbol; `kind` is ELF's symbol type, `binding` and `visibility` its like."""

    index: int
    name: str
    kind: int
    binding: int = 0
    visibility: int = 0
    #: Number of the section that defines it; 0 for none.
    section: int = 0
    value: int = 0
    size: int = 0


class Cubin(msgspec.Struct, frozen=True):
    """A parsed cubin."""

    data: bytes
    #: The ELF header's flags: they name the architecture.
    flags: int
    #: By name; of two with one name the first.
    sections: dict[str, Section]
    symbols: tuple[Symbol, ...]
    #: All sections, by number.
    ordered: tuple[Section, ...] = ()

    def content(self, section: Section) -> bytes:
        """A section's bytes; empty for one that takes no space in the file."""
        if section.type == _SHT_NOBITS:
            return b""
        return self.data[section.offset : section.offset + section.size]

    def section_of(self, symbol: Symbol) -> Section | None:
        """The section that a symbol lies in; None for one that is defined elsewhere."""
        return self.ordered[symbol.section] if 0 < symbol.section < len(self.ordered) else None

    def functions(self) -> dict[str, Symbol]:
        """Functions that have a section of their own, by mangled name."""
        return {s.name: s for s in self.symbols if s.kind == FUNCTION and f".text.{s.name}" in self.sections}

    def relocations(self, section: Section) -> list[tuple[int, int, int]]:
        """(offset, symbol index, addend) of every relocation that applies to `section`.

        A damaged table gives what is whole of it and names a symbol that exists.
        """
        found: list[tuple[int, int, int]] = []
        if table := self.sections.get(f".rela{section.name}"):
            found += [(o, i >> 32, a) for o, i, a in _whole(_RELA, self.content(table))]
        if table := self.sections.get(f".rel{section.name}"):
            found += [(o, i >> 32, 0) for o, i in _whole(_REL, self.content(table))]
        return [row for row in found if row[1] < len(self.symbols)]

    def filled(self, table: Section) -> tuple[tuple[int, int, int, int], ...]:
        """(offset, kind, symbol index, addend) of every entry of a table of relocations with addends.

        Raises:
            InputError: an entry names a symbol that is not there.
        """
        rows = tuple((o, i & 0xFFFFFFFF, i >> 32, a) for o, i, a in _whole(_RELA, self.content(table)))
        if any(row[2] >= len(self.symbols) for row in rows):
            raise InputError("a table of relocations is damaged")
        return rows

    def code_digest(self, name: str) -> str:
        """A hash of all that decides a function's disassembly, save line numbers; "" if it is not here.

        The function's own name does not count: in an anonymous namespace it changes with the file's text.
        """
        section = self.sections.get(f".text.{name}")
        if section is None:
            return ""
        digest = hashlib.sha256(struct.pack("<I", self.flags))
        digest.update(self.content(section))
        for offset, symbol, addend in self.relocations(section):
            target = self.symbols[symbol].name.replace(name, "")
            digest.update(f"{offset} {target} {addend};".encode())
        return digest.hexdigest()

    def annotated(self, name: str) -> bool:
        """Whether the compiler left remarks on a function's instructions, as on those that spill."""
        section = self.sections.get(f".nv.info.{name}")
        return section is not None and any(a == _ANNOTATIONS for _, a, _ in attributes(self.content(section)))

    def constant_bytes(self, name: str) -> int | None:
        """Bytes of a kernel's own constant banks (parameters included); None if it has no such section."""
        banks = (self.sections.get(f".nv.constant{bank}.{name}") for bank in range(_CONSTANT_BANKS))
        sizes = [bank.size for bank in banks if bank is not None]
        return sum(sizes) if sizes else None


def read_cubin(path: Path) -> Cubin:
    """Parse the cubin at `path`.

    Raises:
        InputError: it cannot be read, or is not a 64-bit little-endian ELF file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_cubin(data, name=str(path))


def parse_cubin(data: bytes, *, name: str = "<cubin>") -> Cubin:
    """Parse a cubin's bytes; see `read_cubin`."""
    try:
        return _parse(data)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise InputError(f"{name} is not a cubin") from error


def attributes(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Format, number and payload of every attribute of an `.nv.info` section; what is damaged comes as one."""
    at = 0
    while at + 4 <= len(content):
        form, attribute, size = struct.unpack_from("<BBH", content, at)
        end = at + 4 + (size if form == SIZED else 0)
        yield form, attribute, content[at + 4 : end] if form == SIZED else content[at + 2 : end]
        at = end
    if at < len(content):
        yield 0, 0, content[at:]


def _parse(data: bytes) -> Cubin:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian ELF64 file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    (flags,) = struct.unpack_from("<I", data, 0x30)
    size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    raw = [_SECTION.unpack_from(data, table + i * size) for i in range(count)]
    names = raw[names_index][4]
    ordered = [Section(_text(data, names + r[0]), r[1], r[4], r[5], r[6], r[2], r[7], r[9]) for r in raw]
    sections = {section.name: section for section in reversed(ordered)}
    return Cubin(
        data=data, flags=flags, sections=sections, symbols=_symbols(data, ordered), ordered=tuple(ordered)
    )


def _symbols(data: bytes, sections: list[Section]) -> tuple[Symbol, ...]:
    table = next((s for s in sections if s.name == ".symtab"), None)
    if table is None:
        return ()
    names = sections[table.link].offset
    rows = _SYMBOL.iter_unpack(data[table.offset : table.offset + table.size])
    return tuple(
        Symbol(i, _text(data, names + name), info & 0xF, info >> 4, other & 3, section, value, size)
        for i, (name, info, other, section, value, size) in enumerate(rows)
    )


def _whole(row: struct.Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    return row.iter_unpack(data[: len(data) // row.size * row.size])


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", errors="replace")
