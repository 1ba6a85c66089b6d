# SPDX-License-Identifier: Apache-2.0
"""Functions of several cubins in one, with no more than nvdisasm asks for.

What nvdisasm says of a function hangs on its code and relocations alone (`Cubin.code_digest`), unless the compiler left
remarks on it (`Cubin.annotated`): such functions are not for this.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from warplens_tools.toolchain.cubin import Cubin

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ROW = struct.Struct("<QQq")
_PROGRAM, _SYMBOLS, _STRINGS, _RELOCATIONS = 1, 2, 3, 4
#: Numbers of the tables that come first, behind an empty section: the sections' names, the symbols', the symbols.
_SECTION_NAMES, _SYMBOL_NAMES, _SYMBOL_TABLE = 1, 2, 3
#: Bytes of the file's header, and where in it stand the tables' places and the sizes of their rows.
_HEADER, _PLACES, _SIZES = 64, 0x20, 0x36


class _Part(msgspec.Struct):
    """One section: ELF's type, flags and `info`, bytes of an entry, alignment, content."""

    name: str
    kind: int
    content: bytes
    flags: int = 0
    info: int = 0
    entry: int = 0
    alignment: int = 1


def own_name(number: int) -> str:
    """What the function of this number is called in the file; no other symbol holds it."""
    return f"merged{number}_"


def merged(functions: Sequence[tuple[Cubin, str]]) -> bytes:
    """A cubin of these functions, under names of our own.

    Raises:
        ValueError: they are for several architectures.
    """
    if len({cubin.flags for cubin, _ in functions}) != 1:
        raise ValueError("the cubins are for several architectures")
    symbols = _SymbolTable()
    parts: list[_Part] = []
    for number, (cubin, name) in enumerate(functions):
        at = _SYMBOL_TABLE + 1 + len(parts)
        parts += _of_function(cubin, name, own_name(number), at, symbols)
    tables = [_Part(".shstrtab", _STRINGS, b""), *symbols.parts()]
    return _file(functions[0][0].data[:_HEADER], [*tables, *parts])


class _SymbolTable:
    def __init__(self) -> None:
        self._names, self._rows = bytearray(b"\0"), [bytes(_SYMBOL.size)]

    def add(self, name: str, *, kind: int, binding: int, section: int, size: int) -> int:
        """Its number."""
        self._rows.append(_SYMBOL.pack(len(self._names), binding << 4 | kind, 0, section, 0, size))
        self._names += name.encode() + b"\0"
        return len(self._rows) - 1

    def parts(self) -> tuple[_Part, _Part]:
        rows = b"".join(self._rows)
        table = _Part(".symtab", _SYMBOLS, rows, info=1, entry=_SYMBOL.size, alignment=8)
        return _Part(".strtab", _STRINGS, bytes(self._names)), table


def _of_function(cubin: Cubin, name: str, own: str, at: int, symbols: _SymbolTable) -> list[_Part]:
    """A function's code, to be the section of number `at`, and its relocations."""
    function, text = cubin.functions()[name], cubin.sections[f".text.{name}"]
    known = {
        name: symbols.add(own, kind=function.kind, binding=function.binding, section=at, size=function.size)
    }
    # the high byte of `info` counts registers, the rest is the function's symbol
    info = text.info & 0xFF000000 | known[name]
    code = _Part(f".text.{own}", _PROGRAM, cubin.content(text), flags=text.flags, info=info, alignment=128)
    rows = []
    for offset, kind, number, addend in _relocations(cubin, name):
        target = cubin.symbols[number]
        if target.name not in known:
            known[target.name] = symbols.add(
                target.name, kind=target.kind, binding=target.binding, section=0, size=target.size
            )
        rows.append(_ROW.pack(offset, known[target.name] << 32 | kind, addend))
    if not rows:
        return [code]
    table = b"".join(rows)
    return [code, _Part(f".rela.text.{own}", _RELOCATIONS, table, info=at, entry=_ROW.size, alignment=8)]


def _relocations(cubin: Cubin, name: str) -> list[tuple[int, int, int, int]]:
    """(offset, kind, symbol, addend) of a function's code, from tables with addends and without."""
    rows: list[tuple[int, int, int, int]] = []
    if table := cubin.sections.get(f".rela.text.{name}"):
        rows += cubin.filled(table)
    if table := cubin.sections.get(f".rel.text.{name}"):
        rows += [(o, i & 0xFFFFFFFF, i >> 32, 0) for o, i in struct.iter_unpack("<QQ", cubin.content(table))]
    return rows


def _file(head: bytes, parts: Sequence[_Part]) -> bytes:
    """An ELF file with a header as this and these sections, whose first takes their names."""
    names = bytearray(b"\0")
    places = []
    for part in parts:
        places.append(len(names))
        names += part.name.encode() + b"\0"
    parts[0].content = bytes(names)
    body, rows = bytearray(head), [bytes(_SECTION.size)]
    for place, part in zip(places, parts, strict=True):
        body += bytes(-len(body) % part.alignment)
        link = {_STRINGS: 0, _SYMBOLS: _SYMBOL_NAMES}.get(part.kind, _SYMBOL_TABLE)
        extent = (len(body), len(part.content), link, part.info, part.alignment, part.entry)
        rows.append(_SECTION.pack(place, part.kind, part.flags, 0, *extent))
        body += part.content
    body += bytes(-len(body) % 8)
    # no program headers
    struct.pack_into("<QQ", body, _PLACES, 0, len(body))
    struct.pack_into("<HHHHH", body, _SIZES, 0, 0, _SECTION.size, len(rows), _SECTION_NAMES)
    return bytes(body) + b"".join(rows)
