# SPDX-License-Identifier: Apache-2.0
"""In how many bits a kernel adds up whole numbers over the lanes of a warp, by its PTX: what shuffles bring, and sums
that one instruction makes over all lanes."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import COMMENT, of_kernels

_SHUFFLED = re.compile(r"\bshfl(?:\.\w+)*\.b32\s+(%\w+)(?:\|%\w+)?\s*,")
_JOINED = re.compile(r"\bmov\.b64\s+(%\w+)\s*,\s*\{\s*(%\w+)\s*,\s*(%\w+)\s*\}\s*;")
_HANDED = re.compile(r"\b(?:selp|mov)\.[bsu](?:32|64)\s+(%\w+)\s*,\s*([^;{]+);")
_ADDED = re.compile(r"\badd\.[su](32|64)\s+%\w+\s*,\s*([^;]+);")
_SUMMED = re.compile(r"\bredux\.sync\.add\.[su]32\b")


class Lanes(msgspec.Struct, frozen=True):
    """Whether what other lanes have is added up in 32 bits, and in 64."""

    narrow: bool = False
    wide: bool = False


def lanes_in(ptx: str) -> dict[str, Lanes]:
    """Of every kernel, by the name that it has whatever the unit; functions count for all of them."""
    found = of_kernels(COMMENT.sub(" ", ptx), _of)
    return {name: Lanes("32" in widths, "64" in widths) for name, widths in found.items()}


def narrower_lanes(baseline: Mapping[str, Lanes], candidate: Mapping[str, Lanes]) -> str:
    """Why an edit adds up in too few bits what the kernel adds up over lanes in 64 alone; "" if none is known to."""
    for name, new in candidate.items():
        known = baseline.get(name, Lanes())
        if known.wide and not known.narrow and new.narrow and not new.wide:
            return "the edit adds up whole numbers over lanes in 32 bits, which the kernel does in 64"
    return ""


def _of(body: str) -> frozenset[str]:
    halves = _reached(body, set(_SHUFFLED.findall(body)))
    wholes = _reached(body, {whole for whole, *parts in _JOINED.findall(body) if halves.issuperset(parts)})
    added = {
        bits
        for bits, operands in _ADDED.findall(body)
        if (halves if bits == "32" else wholes) & {word.strip() for word in operands.split(",")}
    }
    return frozenset(added | ({"32"} if _SUMMED.search(body) else set()))


def _reached(body: str, registers: set[str]) -> set[str]:
    """The registers, and those that one of them is handed to as it is."""
    while more := {
        to
        for to, operands in _HANDED.findall(body)
        if to not in registers and registers & {word.strip() for word in operands.split(",")}
    }:
        registers |= more
    return registers
