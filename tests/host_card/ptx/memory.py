# SPDX-License-Identifier: Apache-2.0
"""Loads, stores, atomics, address conversions and asynchronous copies."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.host_card.ptx.operands import C_TYPES, Names, size_of
from tests.host_card.ptx.parse import Instruction, PtxError

_SPACES = ("global", "shared", "local", "const", "param", "shared__cta", "param__entry", "param__func")
_VOLATILE = {"volatile", "relaxed", "acquire", "release", "mmio"}
_SMALL = {"f16": "Half", "bf16": "Brain", "f16x2": "Half", "bf16x2": "Brain"}


def _space(i: Instruction) -> str:
    found = next((m for m in i.modifiers if m in _SPACES), "")
    return found.partition("__")[0]


def _parts(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{}").split(",")]


def _count(i: Instruction) -> int:
    return next((int(m[1:]) for m in i.modifiers if re.fullmatch(r"v[248]", m)), 1)


def place(i: Instruction, names: Names, operand: str, size: int) -> str:
    """The host's address of `[operand]`, checked."""
    word, space = operand.strip("[]").strip(), _space(i)
    address = names.address(word)
    base = word.partition("+")[0].strip()
    if space == "shared":
        return f"shared_at(t, (u32)({address}), {size})"
    if space == "param" or (space in ("local", "const") and base in names.addresses):
        return f"(u8*)({address})"
    return f"at(t, {address}, {size})"


def _ld(i: Instruction, names: Names) -> str:
    kind, count = i.modifiers[-1], _count(i)
    size = size_of(kind)
    where, spins = place(i, names, i.operands[1], size * count), _VOLATILE & set(i.modifiers)
    name = "load_volatile" if spins else "load"
    wait = "card_services->spin(t); " if spins and _space(i) != "param" else ""
    one = f"{name}<{C_TYPES[kind]}>"
    if count == 1:
        return wait + names.write(i.operands[0], kind, f"{one}({where})")
    # a register may be part of its own address
    code = [names.write(p, kind, f"part_{n}") for n, p in enumerate(_parts(i.operands[0]))]
    loads = ", ".join(f"part_{n} = {one}(from + {n * size})" for n in range(count))
    return f"{{ {wait}u8* from = {where}; {C_TYPES[kind]} {loads}; {' '.join(code)} }}"


def _st(i: Instruction, names: Names) -> str:
    kind, count = i.modifiers[-1], _count(i)
    size, name = size_of(kind), "store_volatile" if _VOLATILE & set(i.modifiers) else "store"
    where = place(i, names, i.operands[0], size * count)
    one = f"{name}<{C_TYPES[kind]}>"
    if count == 1:
        return f"{one}({where}, {names.read(i.operands[1], kind)});"
    stores = [f"{one}(to + {n * size}, {names.read(p, kind)});" for n, p in enumerate(_parts(i.operands[1]))]
    return f"{{ u8* to = {where}; {' '.join(stores)} }}"


def _change(i: Instruction, names: Names, given: list[str]) -> str:
    """What an atomic makes of `old`."""
    kind = i.modifiers[-1]
    operation = next(m for m in i.modifiers if m in _CHANGES)
    b = names.read(given[0], kind)
    if kind in _SMALL:
        small = f"small_{operation}<{_SMALL[kind]}>"
        return f"pairwise<{_SMALL[kind]}>(old, {b}, {small})" if kind.endswith("x2") else f"{small}(old, {b})"
    if operation == "cas":
        return f"(old == {b} ? {names.read(given[1], kind)} : old)"
    if kind in ("f32", "f64") and operation in ("min", "max"):
        return f"{'lesser' if operation == 'min' else 'greater'}(old, {b})"
    return _CHANGES[operation].format(b=b)


_CHANGES = {
    "add": "(decltype(old))(old + {b})",
    "and": "(old & {b})",
    "or": "(old | {b})",
    "xor": "(old ^ {b})",
    "exch": "{b}",
    "cas": "",
    "min": "(old < {b} ? old : {b})",
    "max": "(old > {b} ? old : {b})",
    "inc": "(old >= {b} ? 0u : old + 1)",
    "dec": "(old == 0 || old > {b} ? {b} : old - 1)",
}


def _atomic(i: Instruction, names: Names, target: str, where: str, given: list[str]) -> str:
    kind, count = i.modifiers[-1], _count(i)
    if "noftz" in i.modifiers and kind not in _SMALL:
        raise PtxError(f"the instruction {i} is not known")
    # a signed sum wraps
    kind = f"u{kind[1:]}" if kind.startswith("s") and "add" in i.modifiers else kind
    one, size = C_TYPES[kind], size_of(kind)
    spin = "card_services->spin(t); " if {"cas", "exch"} & set(i.modifiers) else ""
    code = []
    for n in range(count):
        parts = [_parts(g)[n] for g in given] if count > 1 else given
        work = f"[&]({one} old) -> {one} {{ return {_change(i, names, parts)}; }}"
        result = f"atomic<{one}>(to + {n * size}, {work})"
        name = _parts(target)[n] if target and count > 1 else target
        code.append(names.write(name, kind, result) if target else f"{result};")
    return f"{{ {spin}u8* to = {place(i, names, where, size * count)}; {' '.join(code)} }}"


def _atom(i: Instruction, names: Names) -> str:
    return _atomic(i, names, i.operands[0], i.operands[1], i.operands[2:])


def _red(i: Instruction, names: Names) -> str:
    return _atomic(i, names, "", i.operands[0], i.operands[1:])


def _cvta(i: Instruction, names: Names) -> str:
    source = names.read(i.operands[1], "u64")
    if "shared" in i.modifiers:
        base = "(u64)t->block->shared"
        source = f"({source} - {base})" if "to" in i.modifiers else f"({source} + {base})"
    return names.write(i.operands[0], "u64", source)


def _isspacep(i: Instruction, names: Names) -> str:
    a = names.read(i.operands[1], "u64")
    shared = f"({a} - (u64)t->block->shared < t->block->shared_bytes)"
    tests = {"shared": shared, "global": f"!{shared}", "local": "false", "const": "false"}
    return names.write(i.operands[0], "pred", tests[i.modifiers[0].partition("__")[0]])


def _cp(i: Instruction, names: Names) -> str:
    """Asynchronous copies are done at once, which is one of their orders."""
    if "bulk" in i.modifiers or "mbarrier" in i.modifiers or i.modifiers[0] != "async":
        raise PtxError(f"the instruction {i} is not known")
    if {"commit_group", "wait_group", "wait_all"} & set(i.modifiers):
        return ";"
    to, source = (names.address(o.strip("[]").strip()) for o in i.operands[:2])
    size = i.operands[2]
    given = names.read(i.operands[3], "u32") if len(i.operands) > 3 else size
    return f"copy_async(t, (u32)({to}), {source}, {size}, {given});"


def _nothing(*_: object) -> str:
    return ";"


def _ldmatrix(i: Instruction, names: Names) -> str:
    """Each of `num` 8x8 matrices of 16-bit elements: lane l's row is at the address that lane 8 · matrix + l brings."""
    if "b16" not in i.modifiers or "m8n8" not in i.modifiers:
        raise PtxError(f"the instruction {i} is not known")
    targets = _parts(i.operands[0])
    address = names.address(i.operands[1].strip("[]").strip())
    flip = "true" if "trans" in i.modifiers else "false"
    code = [names.write(p, "u32", f"rows.parts[{n}]") for n, p in enumerate(targets)]
    return f"{{ const Rows rows(t, (u32)({address}), {len(targets)}, {flip}); {' '.join(code)} }}"


INSTRUCTIONS: dict[str, Callable[[Instruction, Names], str]] = {
    "ld": _ld,
    "ldu": _ld,
    "st": _st,
    "atom": _atom,
    "red": _red,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "cp": _cp,
    "ldmatrix": _ldmatrix,
    **dict.fromkeys(("prefetch", "prefetchu", "discard", "applypriority", "createpolicy"), _nothing),
}
