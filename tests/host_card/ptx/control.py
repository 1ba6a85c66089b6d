# SPDX-License-Identifier: Apache-2.0
"""Jumps, calls and ends."""

from __future__ import annotations

from collections.abc import Callable

from tests.host_card.ptx.operands import Names, named
from tests.host_card.ptx.parse import Instruction, PtxError, Targets


def note(names: Names, targets: Targets) -> None:
    """Remember a table of jumps, or a prototype."""
    names.targets[targets.name] = targets


def _bra(i: Instruction, _: Names) -> str:
    return f"goto {named(i.operands[0])};"


def _brx(i: Instruction, names: Names) -> str:
    labels = names.targets[i.operands[1]].labels
    cases = " ".join(f"case {n}: goto {named(label)};" for n, label in enumerate(labels))
    return f"switch ({names.read(i.operands[0], 'u32')}) {{ {cases} }}"


def _call(i: Instruction, names: Names) -> str:
    groups = [
        [w.strip() for w in o.strip("()").split(",") if w.strip()] if o.startswith("(") else o
        for o in i.operands
    ]
    results: list[str] = []
    if isinstance(groups[0], list):
        results, groups = groups[0], groups[1:]
    callee = groups[0]
    if not isinstance(callee, str):
        raise PtxError(f"the call {i.operands} is not known")
    given = groups[1] if len(groups) > 1 and isinstance(groups[1], list) else []
    pointers = ", ".join(f"(u8*){names.addresses[g]}" for g in given)
    result = f"(u8*){names.addresses[results[0]]}" if results else "nullptr"
    if callee in names.addresses:
        called = f"f_{named(callee)}"
    else:
        called = f"((void (*)(Thread*, u8*, u8**))called(t, {names.read(callee, 'u64')}))"
    return f"{{ u8* given[] = {{{pointers or 'nullptr'}}}; {called}(t, {result}, given); }}"


def _end(*_: object) -> str:
    return "return;"


def _exit(*_: object) -> str:
    raise PtxError("the instruction exit is not known")


def _fault(kind: str) -> Callable[[Instruction, Names], str]:
    return lambda *_: f"card_services->fault(t, (int)Fault::{kind}, 0);"


def _nothing(*_: object) -> str:
    return ";"


def _sleep(*_: object) -> str:
    return "card_services->spin(t);"


INSTRUCTIONS: dict[str, Callable[[Instruction, Names], str]] = {
    "bra": _bra,
    "brx": _brx,
    "call": _call,
    "ret": _end,
    "exit": _exit,
    "trap": _fault("trap"),
    **dict.fromkeys(("membar", "fence", "griddepcontrol", "setmaxnreg", "pmevent", "brkpt"), _nothing),
    "nanosleep": _sleep,
}
