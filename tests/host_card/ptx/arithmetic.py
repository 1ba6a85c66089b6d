# SPDX-License-Identifier: Apache-2.0
"""Integer and logical instructions, comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable

from tests.host_card.ptx import floating
from tests.host_card.ptx.operands import C_TYPES, Names
from tests.host_card.ptx.parse import SIZES, Instruction, PtxError

_FLOATS = floating.FLOATS
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64", "u64": "b128", "s64": "s128"}
_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}


def _kind(i: Instruction) -> str:
    return i.modifiers[-1]


def _read(i: Instruction, names: Names, kind: str = "") -> list[str]:
    return [names.read(o, kind or _kind(i)) for o in i.operands[1:]]


def _unsigned(kind: str) -> str:
    return f"u{SIZES[kind] * 8}"


def _infix(operator: str) -> Callable[[Instruction, Names], str]:
    def write(i: Instruction, names: Names) -> str:
        kind = _kind(i)
        if kind in _FLOATS:
            return floating.two(i, names, operator)
        if "sat" in i.modifiers:
            a, b = _read(i, names)
            return names.write(i.operands[0], kind, f"clamped<{C_TYPES[kind]}>((s64){a} {operator} (s64){b})")
        # signed overflow wraps
        unsigned = _unsigned(kind)
        a, b = _read(i, names, unsigned)
        return names.write(i.operands[0], unsigned, f"({C_TYPES[unsigned]})({a} {operator} {b})")

    return write


def _logic(operator: str) -> Callable[[Instruction, Names], str]:
    def write(i: Instruction, names: Names) -> str:
        kind = _kind(i)
        a, b = _read(i, names)
        return names.write(i.operands[0], kind, f"({C_TYPES[kind]})({a} {operator} {b})")

    return write


def _not(i: Instruction, names: Names) -> str:
    kind = _kind(i)
    (a,) = _read(i, names)
    return names.write(i.operands[0], kind, f"!{a}" if kind == "pred" else f"({C_TYPES[kind]})~{a}")


def _mul(i: Instruction, names: Names) -> str:
    kind = _kind(i)
    if kind in _FLOATS:
        return floating.two(i, names, "*")
    value, result = _product(i, names)
    return names.write(i.operands[0], result, value)


def _product(i: Instruction, names: Names) -> tuple[str, str]:
    kind = _kind(i)
    if "wide" in i.modifiers:
        wide = _WIDE[kind]
        a, b = (names.read(o, kind) for o in i.operands[1:3])
        return f"({C_TYPES[wide]}){a} * ({C_TYPES[wide]}){b}", wide
    if "hi" in i.modifiers:
        a, b = (names.read(o, kind) for o in i.operands[1:3])
        return (f"high_u32({a}, {b})" if kind == "u32" else f"high<{C_TYPES[kind]}>({a}, {b})"), kind
    unsigned = _unsigned(kind)
    a, b = (names.read(o, unsigned) for o in i.operands[1:3])
    # narrower than int they would be multiplied as signed
    return f"({C_TYPES[unsigned]})(1u * {a} * {b})", unsigned


def _mad(i: Instruction, names: Names) -> str:
    if _kind(i) in _FLOATS:
        return floating.fma(i, names)
    value, kind = _product(i, names)
    unsigned = _unsigned(kind)
    c = names.read(i.operands[3], unsigned)
    return names.write(
        i.operands[0], unsigned, f"({C_TYPES[unsigned]})(({C_TYPES[unsigned]})({value}) + {c})"
    )


def _mul24(i: Instruction, names: Names) -> str:
    a, b = _read(i, names)
    kind = C_TYPES[_kind(i)]
    cut = [f"(({kind})((u32){x} << 8) >> 8)" for x in (a, b)]
    return names.write(i.operands[0], "u32", f"(u32){cut[0]} * (u32){cut[1]}")


def _sad(i: Instruction, names: Names) -> str:
    a, b, c = _read(i, names)
    kind = C_TYPES[_kind(i)]
    return names.write(i.operands[0], _kind(i), f"({kind})({c} + ({a} < {b} ? {b} - {a} : {a} - {b}))")


def _function(name: str) -> Callable[[Instruction, Names], str]:
    def write(i: Instruction, names: Names) -> str:
        kind = _kind(i)
        if kind in _FLOATS:
            return floating.named_two(i, names)
        given = ", ".join(_read(i, names))
        return names.write(i.operands[0], kind, f"{name}<{C_TYPES[kind]}>({given})")

    return write


def _neg(i: Instruction, names: Names) -> str:
    kind = _kind(i)
    if kind in _FLOATS:
        return floating.one(i, names)
    unsigned = _unsigned(kind)
    (a,) = _read(i, names, unsigned)
    return names.write(i.operands[0], unsigned, f"({C_TYPES[unsigned]})(0 - {a})")


def _abs(i: Instruction, names: Names) -> str:
    kind = _kind(i)
    if kind in _FLOATS:
        return floating.one(i, names)
    (a,) = _read(i, names)
    return names.write(
        i.operands[0], kind, f"{a} < 0 ? ({C_TYPES[kind]})(0 - ({C_TYPES[_unsigned(kind)]}){a}) : {a}"
    )


def _shift(name: str) -> Callable[[Instruction, Names], str]:
    def write(i: Instruction, names: Names) -> str:
        kind = _kind(i)
        a, by = names.read(i.operands[1], kind), names.read(i.operands[2], "u32")
        return names.write(i.operands[0], kind, f"{name}<{C_TYPES[kind]}>({a}, {by})")

    return write


def _funnel(i: Instruction, names: Names) -> str:
    side = "left" if i.modifiers[0] == "l" else "right"
    a, b, c = _read(i, names, "u32")
    name, by = (f"funnel_{side}", f"{c} & 31") if "wrap" in i.modifiers else (f"funnel_{side}_clamp", c)
    return names.write(i.operands[0], "u32", f"{name}({a}, {b}, {by})")


def _prmt(i: Instruction, names: Names) -> str:
    if i.modifiers != ["b32"]:
        raise PtxError(f"the instruction {i} is not known")
    return names.write(i.operands[0], "u32", f"prmt({', '.join(_read(i, names, 'u32'))})")


def _lop3(i: Instruction, names: Names) -> str:
    if i.modifiers != ["b32"]:
        raise PtxError(f"the instruction {i} is not known")
    return names.write(i.operands[0], "u32", f"lop3({', '.join(_read(i, names, 'u32'))})")


def _bits(name: str) -> Callable[[Instruction, Names], str]:
    """bfi, bfe: the last two operands are places."""

    def write(i: Instruction, names: Names) -> str:
        kind = _kind(i)
        given = [names.read(o, kind) for o in i.operands[1:-2]] + [
            names.read(o, "u32") for o in i.operands[-2:]
        ]
        return names.write(i.operands[0], kind, f"{name}<{C_TYPES[kind]}>({', '.join(given)})")

    return write


def _counted(i: Instruction, names: Names) -> str:
    bits = SIZES[_kind(i)] * 8
    (a,) = _read(i, names)
    name = {"popc": "popc", "clz": f"clz{bits}"}[i.op]
    return names.write(i.operands[0], "u32", f"{name}({a})")


def _brev(i: Instruction, names: Names) -> str:
    (a,) = _read(i, names)
    return names.write(i.operands[0], _kind(i), f"brev{SIZES[_kind(i)] * 8}({a})")


def _bfind(i: Instruction, names: Names) -> str:
    (a,) = _read(i, names)
    shifted = "true" if "shiftamt" in i.modifiers else "false"
    return names.write(i.operands[0], "u32", f"bfind<{C_TYPES[_kind(i)]}>({a}, {shifted})")


def comparison(compare: str, kind: str, a: str, b: str) -> str:
    """Two values of a type compared; of floats with a NaN only what ends in u, and ne, holds.

    Raises:
        KeyError: no such comparison.
    """
    if kind in _FLOATS:
        return floating.comparison(compare, kind, a, b)
    return f"({a} {_COMPARE[compare]} {b})"


def _setp(i: Instruction, names: Names) -> str:
    kind, compare = _kind(i), i.modifiers[0]
    a, b = (names.read(o, kind) for o in i.operands[1:3])
    value = comparison(compare, kind, a, b)
    join = {"and": "&&", "or": "||", "xor": "!="}.get(i.modifiers[1])
    targets = i.operands[0].split("|")
    found = [value, f"!{value}"]
    if join:
        c = names.read(i.operands[3], "pred")
        found = [f"(bool)({v}) {join} ({c})" for v in found]
    code = "".join(names.write(t.strip(), "pred", f"held_{n}") for n, t in enumerate(targets))
    if len(targets) == 1:
        return names.write(targets[0], "pred", found[0])
    return f"{{ const bool held_0 = {found[0]}, held_1 = {found[1]}; {code} }}"


def _set(i: Instruction, names: Names) -> str:
    result, kind = i.modifiers[-2:]
    a, b = (names.read(o, kind) for o in i.operands[1:3])
    value = comparison(i.modifiers[0], kind, a, b)
    join = {"and": "&&", "or": "||", "xor": "!="}.get(i.modifiers[1])
    if join:
        value = f"(bool)({value}) {join} ({names.read(i.operands[3], 'pred')})"
    yes, no = ("1.0f", "0.0f") if result == "f32" else ("~0u", "0u")
    return names.write(i.operands[0], result, f"({C_TYPES[result]})(({value}) ? {yes} : {no})")


def _selp(i: Instruction, names: Names) -> str:
    a, b = (names.read(o, _kind(i)) for o in i.operands[1:3])
    return names.write(i.operands[0], _kind(i), f"({names.read(i.operands[3], 'pred')} ? {a} : {b})")


def _slct(i: Instruction, names: Names) -> str:
    kind, other = i.modifiers[-2:]
    a, b = (names.read(o, kind) for o in i.operands[1:3])
    return names.write(i.operands[0], kind, f"({names.read(i.operands[3], other)} >= 0 ? {a} : {b})")


INSTRUCTIONS: dict[str, Callable[[Instruction, Names], str]] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _mul,
    "mad": _mad,
    "mul24": _mul24,
    "sad": _sad,
    "and": _logic("&"),
    "or": _logic("|"),
    "xor": _logic("^"),
    "not": _not,
    "rem": _function("remainder"),
    "min": _function("least"),
    "max": _function("most"),
    "div": lambda i, n: floating.two(i, n, "/") if _kind(i) in _FLOATS else _function("divide")(i, n),
    "neg": _neg,
    "abs": _abs,
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "shf": _funnel,
    "prmt": _prmt,
    "lop3": _lop3,
    "bfi": _bits("bfi"),
    "bfe": _bits("bfe"),
    "popc": _counted,
    "clz": _counted,
    "brev": _brev,
    "bfind": _bfind,
    "setp": _setp,
    "set": _set,
    "selp": _selp,
    "slct": _slct,
}
