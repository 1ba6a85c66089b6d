# SPDX-License-Identifier: Apache-2.0
"""mov and cvt: between registers, and between types."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.host_card.ptx.floating import MODES
from tests.host_card.ptx.operands import C_TYPES, Names
from tests.host_card.ptx.parse import SIZES, Instruction, PtxError

_SMALL = {"f16": "Half", "bf16": "Brain"}
_WHOLE = {"rni": "std::nearbyint", "rzi": "std::trunc", "rmi": "std::floor", "rpi": "std::ceil"}


def _vector(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{}").split(",")]


def _mov(i: Instruction, names: Names) -> str:
    kind, (target, source) = i.modifiers[-1], i.operands
    bits = SIZES[kind] * 8
    if target.startswith("{"):
        parts = _vector(target)
        each = bits // len(parts)
        value = names.read(source, f"u{bits}")
        code = [names.write(p, f"u{each}", f"(u{each})(whole >> {n * each})") for n, p in enumerate(parts)]
        return f"{{ const u{bits} whole = {value}; {' '.join(code)} }}"
    if source.startswith("{"):
        parts = _vector(source)
        each = bits // len(parts)
        words = [f"(u{bits}){names.read(p, f'u{each}')} << {n * each}" for n, p in enumerate(parts)]
        return names.write(target, f"u{bits}", " | ".join(f"({w})" for w in words))
    return names.write(target, kind, names.read(source, kind))


def _cvt(i: Instruction, names: Names) -> str:
    to, of = i.modifiers[-2:]
    if "pack" in i.modifiers:
        raise PtxError(f"the instruction {i} is not known")
    if to in ("f16x2", "bf16x2") and of == "f32":
        small = _SMALL[to.removesuffix("x2")]
        high, low = (_to_small(small, i, names.read(o, "f32")) for o in i.operands[1:3])
        return names.write(i.operands[0], to, f"packed({high}, {low})")
    if to == "tf32":
        return names.write(i.operands[0], "u32", f"tf32({names.read(i.operands[1], 'f32')})")
    value = names.read(i.operands[1], of)
    return names.write(i.operands[0], to, _converted(i, value, to, of))


def _converted(i: Instruction, value: str, to: str, of: str) -> str:
    from_float, to_float = re.search("f", of) is not None, re.search("f", to) is not None
    words = i.modifiers
    if of in _SMALL:
        value, of = f"{_SMALL[of]}::up({value})", "f32"
    if "ftz" in words and of == "f32":
        value = f"flushed({value})"
    if not from_float and not to_float:
        return f"clamped<{C_TYPES[to]}>({value})" if "sat" in words else f"({C_TYPES[to]})({value})"
    whole = next((_WHOLE[w] for w in words if w in _WHOLE), "")
    if whole:
        value = f"{whole}({value})"
    if not to_float:
        return f"to_integer<{C_TYPES[to]}>({value})"
    return _to_float(i, value, to, of, from_float)


def _to_float(i: Instruction, value: str, to: str, of: str, from_float: bool) -> str:
    words = i.modifiers
    if to in _SMALL:
        # from integers and doubles once
        wide = value if from_float else f"(double)({value})"
        value = _to_small(_SMALL[to], i, wide)
        return f"small_sat<{_SMALL[to]}>({value})" if "sat" in words else value
    mode = next((MODES[w] for w in words if w in MODES), "")
    kind = C_TYPES[to]
    if mode:
        value = f"convert_in<{kind}>({mode}, {value})"
    elif of != to:
        value = f"({kind})({value})"
    if "sat" in words:
        value = f"saturated({value})"
    return f"flushed({value})" if "ftz" in words and to == "f32" else value


def _to_small(small: str, i: Instruction, value: str) -> str:
    if {"rz", "rm", "rp", "rna"} & set(i.modifiers):
        raise PtxError(f"the instruction {i} is not known")
    made = f"{small}::down({value})"
    return f"small_relu<{small}>({made})" if "relu" in i.modifiers else made


INSTRUCTIONS: dict[str, Callable[[Instruction, Names], str]] = {
    "mov": _mov,
    "cvt": _cvt,
}
