# SPDX-License-Identifier: Apache-2.0
"""Reads a cubin's `.debug_line`: which source line, through which inlined calls, every instruction has.

The section is a DWARF line program (versions 2 to 4; DWARF 4 specification, 6.2) with NVIDIA's extended
opcode 0x90, "inlined call": a row's context is the 1-based number, within its sequence, of the row of the
call site that it was inlined at, or 0. `nvdisasm -gi` prints the same; reading it here makes the lines of
an unchanged kernel free.
"""

from __future__ import annotations

import os
import struct

import msgspec

from warplens_tools.errors import InputError
from warplens_tools.evidence import SourceLine
from warplens_tools.toolchain.cubin import Cubin

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN = 1, 2, 3, 4, 5
_NEGATE, _BASIC_BLOCK, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 6, 7, 8, 9
_END_SEQUENCE, _SET_ADDRESS, _DEFINE_FILE, _INLINED_CALL = 1, 2, 3, 0x90
_MAX_DEPTH = 256


class LineRow(msgspec.Struct, frozen=True):
    """From `address` (bytes in the function) on, code has `chain`, innermost line first."""

    address: int
    chain: tuple[SourceLine, ...]


class _Header(msgspec.Struct, frozen=True):
    program: int
    end: int
    minimum: int
    line_base: int
    line_range: int
    opcode_lengths: tuple[int, ...]
    files: tuple[str, ...]


class _Row(msgspec.Struct):
    address: int
    file: int
    line: int
    context: int


def read_line_table(cubin: Cubin) -> dict[str, tuple[LineRow, ...]]:
    """Rows by mangled function name, ascending by address; empty without line information.

    Raises:
        InputError: the line program is of a version that is not known here, or damaged.
    """
    section = cubin.sections.get(".debug_line")
    if section is None:
        return {}
    targets = {offset: cubin.symbols[symbol].name for offset, symbol, _ in cubin.relocations(section)}
    data = cubin.content(section)
    tables: dict[str, tuple[LineRow, ...]] = {}
    at = 0
    try:
        while at + 4 <= len(data):
            header = _read_header(data, at)
            for offset, rows in _sequences(data, header):
                if rows and offset in targets:
                    tables[targets[offset]] = _chained(rows, header.files)
            at = header.end
    except (struct.error, IndexError) as error:
        raise InputError("the cubin's line table is damaged") from error
    return tables


def _read_header(data: bytes, at: int) -> _Header:
    length, version, prologue = struct.unpack_from("<IHI", data, at)
    if not 2 <= version <= 4:
        raise InputError(f"the cubin's line table has DWARF version {version}, which is not known here")
    program = at + 10 + prologue
    place = at + 10
    minimum = data[place]
    place += 2 if version >= 4 else 1
    _default_is_stmt, line_base, line_range, opcode_base = struct.unpack_from("<BbBB", data, place)
    place += 4
    lengths = tuple(data[place : place + opcode_base - 1])
    files = _read_files(data, place + opcode_base - 1)
    return _Header(program, at + 4 + length, minimum, line_base, line_range, lengths, files)


def _read_files(data: bytes, at: int) -> tuple[str, ...]:
    """The file table, indexed from 1 (entry 0 is empty), absolute where the directory is."""
    folders = [""]
    while data[at]:
        end = data.index(0, at)
        folders.append(os.fsdecode(data[at:end]))
        at = end + 1
    at += 1
    files = [""]
    while data[at]:
        end = data.index(0, at)
        name = os.fsdecode(data[at:end])
        folder, at = _uleb(data, end + 1)
        _time, at = _uleb(data, at)
        _size, at = _uleb(data, at)
        files.append(os.path.normpath(os.path.join(folders[folder], name)))  # noqa: PTH118
    return tuple(files)


def _sequences(data: bytes, header: _Header) -> list[tuple[int, list[_Row]]]:
    """(offset of the address operand, rows) of every sequence; rows are numbered from 1 by their place."""
    machine = _Machine(data, header)
    while machine.at < header.end:
        machine.step()
    return machine.sequences


class _Machine:
    """The line-number state machine of the DWARF specification, 6.2.2."""

    def __init__(self, data: bytes, header: _Header) -> None:
        self.data = data
        self.header = header
        self.at = header.program
        self.sequences: list[tuple[int, list[_Row]]] = []
        self._reset()

    def _reset(self) -> None:
        self.rows: list[_Row] = []
        self.operand = -1
        self.address, self.file, self.line, self.context = 0, 1, 1, 0

    def step(self) -> None:
        opcode = self.data[self.at]
        self.at += 1
        if opcode == 0:
            self._extended()
        elif opcode > len(self.header.opcode_lengths):
            advance, line = divmod(opcode - len(self.header.opcode_lengths) - 1, self.header.line_range)
            self.address += advance * self.header.minimum
            self.line += self.header.line_base + line
            self._copy()
        else:
            self._standard(opcode)

    def _copy(self) -> None:
        self.rows.append(_Row(self.address, self.file, self.line, self.context))

    def _extended(self) -> None:
        length, self.at = _uleb(self.data, self.at)
        end = self.at + length
        opcode = self.data[self.at]
        if opcode == _END_SEQUENCE:
            self.sequences.append((self.operand, self.rows))
            self._reset()
        elif opcode == _SET_ADDRESS:
            self.operand = self.at + 1
            self.address = int.from_bytes(self.data[self.at + 1 : end], "little")
        elif opcode == _INLINED_CALL:
            self.context, _ = _uleb(self.data, self.at + 1)
        self.at = end

    def _standard(self, opcode: int) -> None:
        if opcode == _COPY:
            self._copy()
        elif opcode == _ADVANCE_PC:
            self.address += self._operand() * self.header.minimum
        elif opcode == _ADVANCE_LINE:
            value, self.at = _sleb(self.data, self.at)
            self.line += value
        elif opcode == _SET_FILE:
            self.file = self._operand()
        elif opcode == _CONST_ADD_PC:
            last = 255 - len(self.header.opcode_lengths) - 1
            self.address += last // self.header.line_range * self.header.minimum
        elif opcode == _FIXED_ADVANCE_PC:
            self.address += int.from_bytes(self.data[self.at : self.at + 2], "little")
            self.at += 2
        else:
            for _ in range(self.header.opcode_lengths[opcode - 1]):
                self._operand()

    def _operand(self) -> int:
        value, self.at = _uleb(self.data, self.at)
        return value


def _chained(rows: list[_Row], files: tuple[str, ...]) -> tuple[LineRow, ...]:
    """One entry per address, the last row of an address winning, contexts followed to the outermost call."""
    chains: dict[int, tuple[SourceLine, ...]] = {}

    def chain(number: int, depth: int) -> tuple[SourceLine, ...]:
        if number not in chains:
            row = rows[number - 1]
            here = SourceLine(files[row.file], row.line)
            outer = row.context if row.context < number and depth < _MAX_DEPTH else 0
            chains[number] = (here, *chain(outer, depth + 1)) if outer else (here,)
        return chains[number]

    by_address = {row.address: chain(number, 0) for number, row in enumerate(rows, start=1)}
    return tuple(LineRow(address, by_address[address]) for address in sorted(by_address))


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _sleb(data: bytes, at: int) -> tuple[int, int]:
    value, end = _uleb(data, at)
    bits = 7 * (end - at)
    return (value - (1 << bits) if value >> (bits - 1) & 1 else value), end
