# SPDX-License-Identifier: Apache-2.0
"""Fatbinaries in a program, and what nvlink reports."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.toolchain.link import carries_relocatable, fatbinaries, kinds, parse_link

#: From nvlink 13.0 with -v.
REPORT = """nvlink info    : 16 bytes gmem, 68 bytes cmem[3]
nvlink info    : Function properties for '_Z4stepPfi':
nvlink info    : used 24 registers, used 0 barriers, 8 stack, 40 bytes smem, 540 bytes cmem[0], 0 bytes lmem
"""


def entry(kind: int, content: bytes) -> bytes:
    return struct.pack("<HHIQ", kind, 0x101, 64, len(content)) + bytes(48) + content


def fatbinary(entries: list[tuple[int, bytes]]) -> bytes:
    body = b"".join(entry(kind, content + bytes(-len(content) % 8)) for kind, content in entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from([1, 2, 8, 64]), st.binary(max_size=40)), max_size=4),
            st.integers(0, 3),
        ),
        max_size=5,
    )
)
def test_what_linking_joined_is_taken_apart(parts: list[tuple[list[tuple[int, bytes]], int]]) -> None:
    each = [fatbinary(entries) for entries, _ in parts]
    section = b"".join(one + bytes(8 * padding) for one, (_, padding) in zip(each, parts, strict=True))
    assert list(fatbinaries(section)) == each
    names = {1: "PTX", 2: "machine code", 8: "code for link-time optimisation"}
    for one, (entries, _) in zip(each, parts, strict=True):
        assert kinds(one) == tuple(dict.fromkeys(names[kind] for kind, _ in entries if kind in names))


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    for one in fatbinaries(data):
        kinds(one)
    kinds(data)
    assert not carries_relocatable(data)
    assert not carries_relocatable(b"\x7fELF\x02\x01" + data)


def test_the_linkers_report_is_read() -> None:
    (kernel,) = parse_link(REPORT)
    assert (kernel.name, kernel.registers, kernel.stack_bytes, kernel.shared_bytes) == (
        "_Z4stepPfi",
        24,
        8,
        40,
    )
    assert parse_link("nvlink error   : Undefined reference to 'f'") == ()
