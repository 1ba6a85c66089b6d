# SPDX-License-Identifier: Apache-2.0
"""Whether two host objects hold the same code and data: what the host compiler makes of texts that are alike.

Tokens that are the same can mean something else, by another overload or specialisation that a candidate's device
code declares; the object says what they mean. Both objects have a section for each function and each variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from warplens_tools.errors import InputError
from warplens_tools.toolchain.cubin import Cubin, Section, Symbol, parse_cubin
from warplens_tools.toolchain.demangle import demangle

# ELF's own numbers: System V ABI, chapter 4, and the GNU extensions.
_ALLOCATED, _EXECUTABLE, _MERGED, _STRINGS = 0x2, 0x4, 0x10, 0x20
_NO_BITS, _PROGRAM_BITS = 8, 1
_LOCAL = 0
_FUNCTION, _VARIABLE, _SECTION, _FILE = 2, 1, 3, 4
#: Unwinding is derived from the code; its tables of handlers are compared.
_DERIVED = (".eh_frame", ".note")
#: What cudafe++ has the stubs of device functions call, which nothing on the host calls.
_STUBS_CALL = {"exit", "free"}
#: Bytes of a merged constant that is no string.
_CONSTANT = 16


class _Piece(msgspec.Struct, frozen=True):
    """A section's contents, with what it refers to by name."""

    type: int
    flags: int
    size: int
    content: bytes
    #: Place, name or value of what is referred to, and addend.
    relocations: tuple[tuple[int, str, int], ...]


class _Defined(msgspec.Struct, frozen=True):
    """What a symbol says, its name apart."""

    kind: int
    binding: int
    visibility: int
    section: str
    value: int
    size: int


class HostObject(msgspec.Struct, frozen=True):
    """A host object that was compiled with a section for each function."""

    #: By name; sections of one name in the order of their contents.
    pieces: dict[str, tuple[_Piece, ...]]
    symbols: dict[str, tuple[_Defined, ...]]
    undefined: frozenset[str]


def read_object(data: bytes) -> HostObject:
    """Take a relocatable object apart.

    Raises:
        InputError: it is no 64-bit little-endian ELF file.
    """
    elf = parse_cubin(data, name="the host object")
    pieces: dict[str, list[_Piece]] = {}
    relocations = _relocations(elf)
    for number, section in enumerate(elf.ordered):
        kept = section.flags & _ALLOCATED and section.size and not section.flags & _MERGED
        if kept and not section.name.startswith(_DERIVED):
            pieces.setdefault(section.name, []).append(_piece(elf, section, relocations.get(number, ())))
    symbols: dict[str, list[_Defined]] = {}
    undefined = set()
    for symbol in elf.symbols:
        if symbol.kind in (_SECTION, _FILE) or not symbol.name:
            continue
        if not symbol.section:
            undefined.add(symbol.name)
        elif not _is_constant(elf, symbol) and not _names_group(symbol):
            symbols.setdefault(symbol.name, []).append(_defined(elf, symbol))
    return HostObject(
        {name: tuple(sorted(them, key=msgspec.json.encode)) for name, them in pieces.items()},
        {name: tuple(sorted(them, key=msgspec.json.encode)) for name, them in symbols.items()},
        frozenset(undefined),
    )


def _relocations(elf: Cubin) -> dict[int, tuple[tuple[int, int, int, int], ...]]:
    """For each section's number (place, kind, symbol, addend) of what is filled in."""
    found: dict[int, tuple[tuple[int, int, int, int], ...]] = {}
    for section in elf.ordered:
        if section.name.startswith(".rela"):
            found[section.info] = elf.filled(section)
        elif section.name.startswith(".rel."):
            raise InputError("the host object has relocations without addends")
    return found


def _piece(elf: Cubin, section: Section, filled: Iterable[tuple[int, int, int, int]]) -> _Piece:
    places = tuple(
        (place, f"{kind} {_target(elf, elf.symbols[symbol], addend)}", addend)
        for place, kind, symbol, addend in filled
    )
    return _Piece(section.type, section.flags, section.size, elf.content(section), places)


def _target(elf: Cubin, symbol: Symbol, addend: int) -> str:
    if _is_constant(elf, symbol):
        section = elf.ordered[symbol.section]
        content = elf.content(section)
        # by value: which constants stand beside it is of no consequence
        if symbol.kind != _SECTION and section.flags & _STRINGS:
            return content[symbol.value : content.index(b"\0" * section.entry, symbol.value)].hex()
        if symbol.kind != _SECTION:
            return content[symbol.value : symbol.value + (section.entry or _CONSTANT)].hex()
        return f"{section.name} {content.hex()} {addend}"
    if symbol.kind == _SECTION:
        return elf.ordered[symbol.section].name
    return symbol.name


def _is_constant(elf: Cubin, symbol: Symbol) -> bool:
    return 0 < symbol.section < len(elf.ordered) and bool(elf.ordered[symbol.section].flags & _MERGED)


def _names_group(symbol: Symbol) -> bool:
    """Whether this is the name of a group of sections, as constructors have."""
    return symbol.binding == _LOCAL and not symbol.kind and not symbol.size


def _defined(elf: Cubin, symbol: Symbol) -> _Defined:
    inside = 0 < symbol.section < len(elf.ordered)
    section = elf.ordered[symbol.section].name if inside else f"#{symbol.section}"
    return _Defined(symbol.kind, symbol.binding, symbol.visibility, section, symbol.value, symbol.size)


def objects_differ(before: HostObject, after: HostObject) -> str:
    """What of the baseline's host object is another in a candidate's; "" if nothing is.

    All that the baseline's has is there, byte for byte, and refers to what it referred to by name. A candidate may
    have more functions and variables, which nothing refers to, if they have names of their own; nothing that runs by
    itself.
    """
    return next(differences(before, after), "")


def differences(before: HostObject, after: HostObject) -> Iterator[str]:
    """All that `objects_differ` says one of, a sentence each."""
    for name in sorted(before.pieces.keys() | after.pieces.keys()):
        old, new = before.pieces.get(name, ()), after.pieces.get(name, ())
        if old and new and old != new:
            yield f"the edit changes what the host compiler makes of {_said(name)}, though its text is the same"
        elif old and not new and not _is_code(old):
            yield f"the edit takes {_said(name)} from the host object"
        elif new and not old and not all(_is_idle(after, name, piece) for piece in new):
            yield f"the edit adds {_said(name)} to the host object"
    for name, defined in sorted(after.symbols.items()):
        if name not in before.symbols:
            yield from _added(name, defined, before)
        elif before.symbols[name] != defined:
            yield f"the edit makes {demangle(name)} another symbol in the host object"
    if called := sorted(after.undefined - before.undefined - before.symbols.keys() - _STUBS_CALL):
        yield f"the edit makes host code refer to {demangle(called[0])}"


def _added(name: str, defined: tuple[_Defined, ...], before: HostObject) -> Iterator[str]:
    """Why a name that the baseline does not define may not be there."""
    if name in before.undefined:
        yield f"the edit defines {demangle(name)}, which the program takes from elsewhere"
    if any(one.kind not in (_FUNCTION, _VARIABLE) for one in defined):
        yield f"the edit adds the symbol {demangle(name)} to the host object"
    if any(one.value for one in defined):
        yield f"the edit gives {demangle(name)} a place within another's code"
    shared = any(one.binding != _LOCAL for one in defined)
    if shared and (not name.startswith("_Z") or name.startswith(_LIBRARY)):
        yield f"the edit defines {demangle(name)}, which libraries may call"


#: The standard library's names, and the operators new and delete.
_LIBRARY = ("_Zn", "_Zd", "_ZSt", "_ZNSt", "_ZNKSt", "_ZNVSt", "_ZTVSt", "_ZN9__gnu_cxx")


def _is_code(pieces: Iterable[_Piece]) -> bool:
    return all(piece.flags & _EXECUTABLE for piece in pieces)


def _is_idle(after: HostObject, name: str, piece: _Piece) -> bool:
    """Whether a section that is added is that of one function or variable, which by itself does nothing."""
    own = [one for many in after.symbols.values() for one in many if one.section == name]
    plain = piece.type in (_PROGRAM_BITS, _NO_BITS)
    if name.startswith(".gcc_except_table."):
        return plain
    return plain and bool(own) and name.startswith((".text.", ".data.", ".rodata.", ".bss."))


def _said(section: str) -> str:
    for head in (
        ".text.",
        ".data.rel.ro.",
        ".data.rel.",
        ".data.",
        ".rodata.",
        ".bss.",
        ".gcc_except_table.",
    ):
        if section.startswith(head):
            return demangle(section.removeprefix(head))
    return section
