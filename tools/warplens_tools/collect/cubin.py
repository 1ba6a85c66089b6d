"""Reads what Warplens needs from a cubin (an ELF64 file): functions, their code, their sections.

Every `nvdisasm` call costs a quarter of a second whatever it is asked; a hash of a kernel's own code says
whether it has to be asked at all.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import msgspec

from warplens_tools.errors import InputError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_REL = struct.Struct("<QQ")
_SHT_RELA, _SHT_REL, _SHT_NOBITS = 4, 9, 8
_STT_FUNC = 2


class Section(msgspec.Struct, frozen=True):
    """One section; `offset` and `size` in bytes of the file."""

    index: int
    name: str
    type: int
    offset: int
    size: int
    link: int
    info: int


class Symbol(msgspec.Struct, frozen=True):
    """One symbol; `section` is the index of the section that holds it."""

    index: int
    name: str
    kind: int
    section: int
    value: int
    size: int


class Cubin(msgspec.Struct, frozen=True):
    """A parsed cubin."""

    data: bytes
    #: The ELF header's flags: they name the architecture.
    flags: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((s for s in self.sections if s.name == name), None)

    def content(self, section: Section) -> bytes:
        """A section's bytes; empty for one that takes no space in the file."""
        if section.type == _SHT_NOBITS:
            return b""
        return self.data[section.offset : section.offset + section.size]

    def code_sections(self) -> dict[str, Section]:
        """Code by mangled function name."""
        return {s.name.removeprefix(".text."): s for s in self.sections if s.name.startswith(".text.")}

    def function_symbol(self, name: str) -> Symbol | None:
        """The symbol of a function of its own section."""
        return next((s for s in self.symbols if s.name == name and s.kind == _STT_FUNC), None)

    def relocations(self, section: Section) -> list[tuple[int, int, int]]:
        """(offset, symbol index, addend) of every relocation that applies to `section`."""
        found: list[tuple[int, int, int]] = []
        for table in self.sections:
            if table.info != section.index or table.type not in (_SHT_RELA, _SHT_REL):
                continue
            # Some tables name their section in `info` only loosely; the name settles it.
            if not table.name.endswith(section.name):
                continue
            if table.type == _SHT_RELA:
                found += [(o, i >> 32, a) for o, i, a in _RELA.iter_unpack(self.content(table))]
            else:
                found += [(o, i >> 32, 0) for o, i in _REL.iter_unpack(self.content(table))]
        return found

    def code_digest(self, name: str) -> str:
        """A hash of all that decides a function's disassembly, save line numbers; "" if it is not here.

        The function's own name does not count: in an anonymous namespace it changes with the file's text.
        """
        section = self.code_sections().get(name)
        if section is None:
            return ""
        digest = hashlib.sha256(struct.pack("<I", self.flags))
        digest.update(self.content(section))
        for offset, symbol, addend in self.relocations(section):
            target = self.symbols[symbol].name.replace(name, "")
            digest.update(f"{offset} {target} {addend};".encode())
        return digest.hexdigest()

    def constant_bytes(self, name: str) -> int | None:
        """Bytes of a kernel's own constant banks (parameters included); None if it has no such section."""
        sizes = [
            s.size
            for s in self.sections
            if s.name.startswith(".nv.constant") and s.name.partition(".nv.constant")[2][1:] == f".{name}"
        ]
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
    except (struct.error, IndexError, ValueError) as error:
        raise InputError(f"{name} is not a cubin") from error


def _parse(data: bytes) -> Cubin:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian ELF64 file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    (flags,) = struct.unpack_from("<I", data, 0x30)
    size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    raw = [_SECTION.unpack_from(data, table + i * size) for i in range(count)]
    names = raw[names_index][4]
    sections = tuple(
        Section(i, _text(data, names + r[0]), r[1], r[4], r[5], r[6], r[7]) for i, r in enumerate(raw)
    )
    return Cubin(data=data, flags=flags, sections=sections, symbols=_symbols(data, sections))


def _symbols(data: bytes, sections: tuple[Section, ...]) -> tuple[Symbol, ...]:
    table = next((s for s in sections if s.name == ".symtab"), None)
    if table is None:
        return ()
    names = sections[table.link].offset
    rows = _SYMBOL.iter_unpack(data[table.offset : table.offset + table.size])
    return tuple(
        Symbol(i, _text(data, names + name), info & 0xF, section, value, size)
        for i, (name, info, _other, section, value, size) in enumerate(rows)
    )


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", errors="replace")
