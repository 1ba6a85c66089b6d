# SPDX-License-Identifier: Apache-2.0
"""What a kernel asks of its inputs, by its PTX: integers that it compares with, and pointers that may be null.

A value that only one comparison tells from its neighbours, a wildcard or a length that means "all", is met by no input
that is drawn at random.
"""

from __future__ import annotations

import functools
import math
import re
import struct

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, Step, flow_of

#: Of more constants than that the smallest are taken.
_MOST = 24
_LARGEST = 1 << 31
#: Beyond these so many that a kernel asks for itself, as for the least number that a type holds.
_MOST_FAR = 4
#: What takes the lower part of a number, where the upper one is flags: of 12 bits and more.
_MASK, _LEAST_MASK = re.compile(r"\band\.b32\s+%\w+,\s*(%\w+),\s*(\d+);"), 1 << 12
_COMPARISON = re.compile(r"\bsetp\.(\w+)(?:\.\w+)*?\.[sub](8|16|32|64)\s+([^;]+);")
#: Numbers that something is the smaller or larger of.
_LIMIT = re.compile(r"\b(?:min|max)\.[su](?:16|32|64)\s+%\w+,[^;]*?\b(\d+)\s*;")
#: Floats that are compared with, as they stand or out of a register that holds nothing else.
_FLOATS = re.compile(r"\bsetp\.\w+(?:\.\w+)*?\.f(?:32|64)\s+([^;]+);")
_HELD = re.compile(r"\bmov\.f(?:32|64)\s+(%\w+),\s*(0[fd][0-9A-Fa-f]+);")
_MOST_FLOATS = 8
#: What is NaN, as `isnan` asks, or `x != x`; library code that asks for infinities too asks so of what it was given.
_NAN = re.compile(
    r"\bsetp\.(?:nan|num)\.f(?:32|64)\s|\bsetp\.(?:gtu|leu?)\.f(?:32|64)\s+[^;]*,\s*(?:0f7F800000|0d7FF0000000000000);",
    re.IGNORECASE,
)
#: Numbers that are asked whether they are below zero, or are some number there.
_SIGN = re.compile(
    r"\bsetp\.(?:(?:lt|ge)\.s\d+\s+%\w+,\s*(%\w+),\s*0|(?:gt|le)\.s\d+\s+%\w+,\s*(%\w+),\s*-1"
    r"|(?:eq|ne)\.[sub]\d+\s+%\w+,\s*(%\w+),\s*-\d+)\s*;|\bmax\.s\d+\s+%\w+,\s*(%\w+),\s*0\s*;"
)
#: A number's sign in all bits, and what it still follows from.
_SIGN_BIT = re.compile(r"\bshr\.s(?:32|64)\s+%\w+,\s*(%\w+),\s*(?:31|63)\s*;")
_LINEAR = ("mov", "cvt", "add", "sub", "mul", "mad", "neg")
#: Differences whose rounding is asked for, in code where others are not: `-fmad=false` writes all of them so, and the
#: math library sums and products.
_ROUNDED = re.compile(r"\bsub\.r[nzmp](?:\.ftz)?\.f32\b")
_FREE = re.compile(r"\b(?:(?:add|sub|mul)(?:\.ftz)?|fma\.rn(?:\.ftz)?)\.f32\b")
#: Floats that are made whole numbers, of whatever type.
_WHOLE = re.compile(r"\bcvt\.r[nzmp]i(?:\.ftz)?(?:\.sat)?\.\w+\.f(?:32|64)\b")
_INFINITE = re.compile(r"\b(?:0f[7F]F800000|0d[7F]FF0{13})\b", re.IGNORECASE)
_ADDED = re.compile(r"\badd\.s(?:16|32|64)\s+%\w+,\s*%\w+,\s*(-\d+);")
#: Floats that are rounded where they are made; those in shared memory are where others are.
_COMPUTED = re.compile(
    r"\b(?:add|sub|mul|fma|div|rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)(?:\.\w+)*?\.f32\s+(%\w+),"
)
_SHARED = re.compile(r"\bld\.shared(?:\.\w+)*?\.f32\s+(%\w+),")
_MOVED = re.compile(r"\b(?:mov|selp|max|min|neg|abs)(?:\.\w+)*?\.[fb]32\s+(%\w+),\s*([^;]+);")
_REGISTER = re.compile(r"%\w+")
_WIDENED = re.compile(r"\bcvt\.f64\.f32\s+%\w+,\s*(%\w+);")
_LOADED = r"\bld\.param\.\w?64\s+(%\w+),\s*\[{kernel}_param_(\d+)\];"


class Asked(msgspec.Struct, frozen=True):
    """Integers that are compared with, and their neighbours; parameters that are compared with null, or not read."""

    constants: tuple[int, ...] = ()
    optional: frozenset[int] = frozenset()
    #: Floats that are compared with, but for 0, infinities and NaN.
    floats: tuple[float, ...] = ()
    #: Parameters that the code never reads: what they hold says nothing of the kernel.
    unread: tuple[int, ...] = ()
    #: Whether floats that it has computed are made doubles: a double that comes of them has their precision.
    widened: bool = False
    #: Whether the code asks what is NaN.
    nan: bool = False
    #: Pointers behind which nothing is loaded that an address or a condition is made of: any number may lie there.
    free: tuple[int, ...] = ()
    #: Pointers behind which what is loaded lies where loaded numbers lead.
    gathered: tuple[int, ...] = ()
    #: Parameters by value that are asked whether they are below zero.
    below: tuple[int, ...] = ()
    #: Whether floats are rounded as the source says, one operation at a time: its last bits are meant.
    rounded: bool = False
    #: Whether floats are made whole numbers.
    whole: bool = False
    #: Whether there are infinities in the code: as where nothing was found yet, or is left out.
    infinite: bool = False
    #: By pointer the bits that are masked off of 32-bit numbers that lie there.
    tags: tuple[tuple[int, int], ...] = ()


@functools.lru_cache(maxsize=256)
def asked(ptx: str, kernel: str) -> Asked:
    """Of a kernel by its mangled name; nothing where the PTX does not have it."""
    head = re.search(rf"\.entry\s+{re.escape(kernel)}\b", ptx)
    flow = flow_of(ptx, kernel)
    if head is None or flow is None:
        return Asked()
    end = ptx.find(".entry", head.end())
    body = ptx[head.end() : end if end > 0 else None]
    loaded = dict(re.findall(_LOADED.format(kernel=re.escape(kernel)), body))
    added = set(_ADDED.findall(body))
    constants: set[int] = set()
    far: set[int] = set()
    optional: set[int] = set()
    for kind, width, operands in _COMPARISON.findall(body):
        words = [word.strip() for word in operands.split(",")][1:]
        numbers = [int(word) for word in words if re.fullmatch(r"-?\d+", word)]
        for number in numbers:
            constants |= {number} if kind in ("eq", "ne") else {number - 1, number, number + 1}
            far |= {number} if kind in ("eq", "ne") and abs(number) >= _LARGEST else set()
        if width == "64" and 0 in numbers:
            optional |= {int(loaded[word]) for word in words if word in loaded}
    for limit in map(int, _LIMIT.findall(body)):
        constants |= {limit - 1, limit, limit + 1} if limit > 1 else set()
    lengths = [number for number in constants if 8 < number < 32]
    for low in (-int(number) for number in added):
        # a range is asked for by taking its beginning off: letters, digits
        if 1 < low < 256:
            constants |= {low, *(low + number for number in lengths)}
    near = sorted((c for c in constants if abs(c) < _LARGEST), key=lambda c: (abs(c), c))
    return Asked(
        (*near[:_MOST], *sorted(far)[:_MOST_FAR]),
        frozenset(optional),
        _floats(body),
        _unread(body, kernel),
        _widens(body),
        _NAN.search(body) is not None,
        _free(flow),
        _gathered(flow),
        _below(body, flow),
        _ROUNDED.search(body) is not None and _FREE.search(body) is not None,
        _WHOLE.search(body) is not None,
        _INFINITE.search(body) is not None,
        _tags(body, flow),
    )


def _tags(body: str, flow: Flow) -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = {}
    for register, mask in ((r, int(m)) for r, m in _MASK.findall(body)):
        if mask + 1 & mask or not _LEAST_MASK <= mask < 0xFFFFFFFF:
            continue
        for step in flow.steps.get(register, ()):
            for base in flow.bases(step.place) if step.place else ():
                found[int(base)] = found.get(int(base), 0xFFFFFFFF) & ~mask
    return tuple(sorted((base, bits) for base, bits in found.items() if bits))


def _below(body: str, flow: Flow) -> tuple[int, ...]:
    held = {next(filter(None, found.groups())) for found in _SIGN.finditer(body)}
    found = _wrapped(flow, held | set(_SIGN_BIT.findall(body)))
    while held:
        steps = [step for register in held for step in flow.steps.get(register, ())]
        found |= {s for step in steps if step.name.startswith("ld.param") for s in step.sources if s != "#"}
        held = {s for step in steps if step.name.startswith(("mov", "cvt")) for s in step.sources}
    return tuple(sorted(map(int, found)))


def _wrapped(flow: Flow, asked_of: set[str]) -> set[str]:
    """What remainders are of that are asked whether they are below zero, as only those of such numbers are."""
    remainders = [
        step
        for step in _steps(flow, _behind(flow, asked_of, ("mov", "cvt")))
        if step.name.startswith("rem.s")
    ]
    divided = _behind(flow, {source for step in remainders for source in step.sources[:1]}, _LINEAR)
    return {
        s
        for step in _steps(flow, divided)
        if step.name.startswith("ld.param")
        for s in step.sources
        if s != "#"
    }


def _behind(flow: Flow, registers: set[str], through: tuple[str, ...]) -> set[str]:
    """All registers that these are made of by such instructions, and themselves."""
    found = set(registers)
    while (
        more := {s for step in _steps(flow, found) if step.name.startswith(through) for s in step.sources}
        - found
    ):
        found |= more
    return found


def _steps(flow: Flow, registers: set[str]) -> list[Step]:
    return [step for register in registers for step in flow.steps.get(register, ())]


def _free(flow: Flow) -> tuple[int, ...]:
    read = {base for _, place in flow.loaded for base in flow.bases(place)}
    return tuple(sorted(int(base) for base in read - flow.leads()))


def _gathered(flow: Flow) -> tuple[int, ...]:
    led = [p for _, p in flow.loaded if any(step.place for step in _steps(flow, flow.closure({p})))]
    return tuple(sorted({int(base) for place in led for base in flow.bases(place)}))


def _widens(body: str) -> bool:
    computed = set(_COMPUTED.findall(body))
    computed |= set(_SHARED.findall(body)) if computed else set()
    moves = [(to, set(_REGISTER.findall(of))) for to, of in _MOVED.findall(body)]
    while more := {to for to, of in moves if of & computed} - computed:
        computed |= more
    return any(register in computed for register in _WIDENED.findall(body))


def _floats(body: str) -> tuple[float, ...]:
    held = dict(_HELD.findall(body))
    found: dict[float, None] = {}
    for operands in _FLOATS.findall(body):
        for word in (held.get(word.strip(), word.strip()) for word in operands.split(",")[1:]):
            if word[:2] in ("0f", "0d") and len(word) in (10, 18):
                value = struct.unpack(">f" if word[1] == "f" else ">d", bytes.fromhex(word[2:]))[0]
                found |= {value: None} if value and math.isfinite(value) else {}
    return tuple(list(found)[:_MOST_FLOATS])


def _unread(body: str, kernel: str) -> tuple[int, ...]:
    declared, _, code = body.partition("{")
    named = re.compile(rf"\b{re.escape(kernel)}_param_(\d+)\b")
    read = set(named.findall(code))
    return tuple(sorted({int(index) for index in named.findall(declared) if index not in read}))
