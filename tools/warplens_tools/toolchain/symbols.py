# SPDX-License-Identifier: Apache-2.0
"""What a cubin's own symbol table says: its variables, and whether two cubins hold the same code.

The layout is the ELF-64 object file format (System V ABI, chapter 4); section names are ptxas' own.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from warplens_tools.toolchain.cubin import FUNCTION, OBJECTS, Cubin, Symbol, parse_cubin
from warplens_tools.toolchain.demangle import demangle

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


def variables(cubin: bytes) -> tuple[Variable, ...]:
    """The variables a cubin defines.

    Raises:
        InputError: it is no cubin.
    """
    parsed = parse_cubin(cubin)
    placed = [(symbol, _section(parsed, symbol)) for symbol in parsed.symbols if symbol.size]
    return tuple(
        Variable(symbol.name, symbol.size, section.startswith(_CONSTANT))
        for symbol, section in placed
        if symbol.kind in OBJECTS and section.startswith(_DATA)
    )


def writable_bytes(cubin: bytes) -> int:
    """Bytes of device memory that code can write and that outlive a launch, whatever names them.

    Raises:
        InputError: it is no cubin.
    """
    return sum(s.size for s in parse_cubin(cubin).ordered if s.name.startswith(".nv.global"))


def symbols(cubin: bytes) -> Symbols:
    """What a cubin, relocatable or not, defines and what it calls of others.

    Raises:
        InputError: it is no cubin.
    """
    parsed = parse_cubin(cubin)
    found = [(s, _section(parsed, s)) for s in parsed.symbols if s.kind in (*OBJECTS, FUNCTION)]
    return Symbols(
        defined=frozenset(symbol.name for symbol, section in found if section),
        called=frozenset(s.name for s, section in found if not section and s.kind == FUNCTION),
    )


def _section(cubin: Cubin, symbol: Symbol) -> str:
    """Name of the section that a symbol lies in; "" for one that is defined elsewhere."""
    section = cubin.section_of(symbol)
    return section.name if section else ""


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
    parsed = parse_cubin(cubin)
    for section in parsed.ordered:
        if not section.name.startswith(_CODE) or (section.name.startswith(_ATTRIBUTES) and not attributes):
            continue
        name = _UNIT_HASH.sub(r"\g<1>00000000_", section.name)
        digest.update(f"{name} {section.size}\0".encode())
        digest.update(parsed.content(section))
    return digest.hexdigest()
