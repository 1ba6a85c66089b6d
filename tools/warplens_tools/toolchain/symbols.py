# SPDX-License-Identifier: Apache-2.0
"""What a cubin's own symbol table says: its variables, and whether two cubins hold the same code.

The layout is the ELF-64 object file format (System V ABI, chapter 4); section names are ptxas' own.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator

import msgspec

from warplens_tools.errors import InputError
from warplens_tools.toolchain.demangle import demangle

_OBJECT, _FUNCTION = 1, 2
#: NVIDIA's own symbol type for the variables of a relocatable cubin.
_RELOCATABLE_OBJECT = 13
_SYMBOLS, _NO_BITS = 2, 8
#: nvcc marks names local to a unit with a hash of the unit: 8 hexadecimal digits.
_UNIT_HASH = re.compile(r"((?:_GLOBAL__N__|_INTERNAL_|__nv_static_\d+__))[0-9a-f]{8}_")
_UNIT_SCOPE = re.compile(r"_INTERNAL_[0-9a-f]{8}\w*::")
_CONSTANT = ".nv.constant3"
_DATA = (".nv.global", _CONSTANT)
#: Debug and note sections name files and tool versions; the code is the same without them.
_ATTRIBUTES = ".nv.info."
_CODE = (".text.", ".nv.constant", ".nv.global", _ATTRIBUTES, ".nv.shared.")


class Variable(msgspec.Struct, frozen=True):
    """A `__device__` or `__constant__` variable."""

    name: str
    bytes: int
    #: In constant memory, which kernels cannot write.
    constant: bool = False


class Symbols(msgspec.Struct, frozen=True):
    """The functions and variables of a cubin, by mangled name."""

    defined: frozenset[str]
    #: Functions that another unit must define.
    called: frozenset[str]


class _Section(msgspec.Struct, frozen=True):
    name: str
    kind: int
    offset: int
    size: int
    link: int


class _Symbol(msgspec.Struct, frozen=True):
    name: str
    kind: int
    #: None for one that is defined elsewhere.
    section: str | None
    size: int


def variables(cubin: bytes) -> tuple[Variable, ...]:
    """The variables a cubin defines.

    Raises:
        InputError: it is no 64-bit ELF file.
    """
    found = []
    for symbol in _symbols(cubin):
        if symbol.kind not in (_OBJECT, _RELOCATABLE_OBJECT) or not symbol.size:
            continue
        if symbol.section is not None and symbol.section.startswith(_DATA):
            constant = symbol.section.startswith(_CONSTANT)
            found.append(Variable(symbol.name, symbol.size, constant))
    return tuple(found)


def writable_bytes(cubin: bytes) -> int:
    """Bytes of device memory that code can write and that outlive a launch, whatever names them.

    Raises:
        InputError: it is no 64-bit ELF file.
    """
    return sum(section.size for section in _sections(cubin) if section.name.startswith(".nv.global"))


def symbols(cubin: bytes) -> Symbols:
    """What a cubin, relocatable or not, defines and what it calls of others.

    Raises:
        InputError: it is no 64-bit ELF file.
    """
    kinds = (_OBJECT, _RELOCATABLE_OBJECT, _FUNCTION)
    found = [symbol for symbol in _symbols(cubin) if symbol.kind in kinds]
    return Symbols(
        defined=frozenset(s.name for s in found if s.section is not None),
        called=frozenset(s.name for s in found if s.section is None and s.kind == _FUNCTION),
    )


def _symbols(cubin: bytes) -> Iterator[_Symbol]:
    sections = _sections(cubin)
    for table in (s for s in sections if s.kind == _SYMBOLS):
        names = sections[table.link]
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, section, _, size = struct.unpack_from("<IBBHQQ", cubin, at)
            where = sections[section].name if 0 < section < len(sections) else None
            yield _Symbol(_string(cubin, names.offset + name), info & 15, where, size)


def unit_free_name(mangled: str) -> str:
    """A name that two compilations of one unit share: demangled, without the unit's hash."""
    return _UNIT_SCOPE.sub("", demangle(_UNIT_HASH.sub(r"\g<1>00000000_", mangled)))


def live_names(names: tuple[str, ...], program: bytes) -> dict[str, str]:
    """For each variable's name, the name it has in a built program, "" where the program has none.

    Only names local to a unit differ. The program holds them as text, for the runtime to register.
    """
    live: dict[str, str] = {}
    for name in names:
        if _UNIT_HASH.search(name) is None:
            live[name] = name
            continue
        pattern = _UNIT_HASH.sub(r"\g<1>[0-9a-f]{8}_", re.escape(name).replace("\\_", "_"))
        match = re.search(rb"(?<![\w.$])" + pattern.encode() + rb"(?![\w.$])", program)
        live[name] = match[0].decode() if match else ""
    return live


def code_digest(cubin: bytes, *, attributes: bool = True) -> str:
    """A digest of everything in a cubin that runs; equal digests are equal machine code and data.

    Without `attributes` what ptxas notes of each kernel does not count, which in a relocatable cubin differs with
    line tables.
    """
    digest = hashlib.sha256()
    for section in _sections(cubin):
        if not section.name.startswith(_CODE) or (section.name.startswith(_ATTRIBUTES) and not attributes):
            continue
        name = _UNIT_HASH.sub(r"\g<1>00000000_", section.name)
        digest.update(f"{name} {section.size}\0".encode())
        if section.kind != _NO_BITS:
            digest.update(cubin[section.offset : section.offset + section.size])
    return digest.hexdigest()


def _sections(cubin: bytes) -> list[_Section]:
    if cubin[:5] != b"\x7fELF\x02":
        raise InputError("the compiler's output is no cubin")
    try:
        start, size, count, strings = _header(cubin)
        raw = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + i * size) for i in range(count)]
        names = raw[strings][4]
        return [_Section(_string(cubin, names + r[0]), r[1], r[4], r[5], r[6]) for r in raw]
    except (struct.error, IndexError, ValueError) as error:
        raise InputError("the compiler's output is a damaged cubin") from error


def _header(cubin: bytes) -> tuple[int, int, int, int]:
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, strings = struct.unpack_from("<HHH", cubin, 0x3A)
    return start, size, count, strings


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", errors="replace")
