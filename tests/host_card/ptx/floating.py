# SPDX-License-Identifier: Apache-2.0
"""Floating-point instructions: single, double, half and bfloat16, and pairs of the small ones."""

from __future__ import annotations

from collections.abc import Callable

from tests.host_card.ptx.operands import Names
from tests.host_card.ptx.parse import Instruction, PtxError

FLOATS = frozenset(["f16", "bf16", "f16x2", "bf16x2", "f32", "f64"])
_SMALL = {"f16": "Half", "bf16": "Brain", "f16x2": "Half", "bf16x2": "Brain"}
MODES = {"rz": "FE_TOWARDZERO", "rm": "FE_DOWNWARD", "rp": "FE_UPWARD"}
_NAMES = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


def _kind(i: Instruction) -> str:
    return i.modifiers[-1]


def _mode(i: Instruction) -> str:
    return next((MODES[m] for m in i.modifiers if m in MODES), "")


def _given(i: Instruction, names: Names) -> list[str]:
    """The operands, denormals flushed where that is asked for."""
    found = [names.read(o, _kind(i)) for o in i.operands[1:]]
    return [f"flushed({x})" for x in found] if "ftz" in i.modifiers and _kind(i) == "f32" else found


def _write(i: Instruction, names: Names, value: str) -> str:
    kind = _kind(i)
    if "sat" in i.modifiers:
        value = f"small_sat<{_SMALL[kind]}>({value})" if kind in _SMALL else f"saturated({value})"
    if "relu" in i.modifiers:
        value = f"small_relu<{_SMALL[kind]}>({value})"
    if "ftz" in i.modifiers and kind == "f32":
        value = f"flushed({value})"
    return names.write(i.operands[0], kind, value)


def two(i: Instruction, names: Names, operator: str) -> str:
    """a + b, a - b, a * b, a / b."""
    kind, (a, b), name = _kind(i), _given(i, names), _NAMES[operator]
    if kind in _SMALL:
        return _write(i, names, _small(kind, name, a, b))
    if mode := _mode(i):
        return _write(i, names, f"{name}_in({mode}, {a}, {b})")
    if operator == "/" and {"approx", "full"} & set(i.modifiers):
        return _write(i, names, f"div_approx({a}, {b})")
    return _write(i, names, f"({a} {operator} {b})")


def _small(kind: str, name: str, a: str, b: str) -> str:
    one = f"small_{name}<{_SMALL[kind]}>"
    return f"pairwise<{_SMALL[kind]}>({a}, {b}, {one})" if kind.endswith("x2") else f"{one}({a}, {b})"


def fma(i: Instruction, names: Names) -> str:
    """a · b + c, rounded once."""
    kind, (a, b, c) = _kind(i), _given(i, names)
    if kind in _SMALL:
        name = "pair_fma" if kind.endswith("x2") else "small_fma"
        return _write(i, names, f"{name}<{_SMALL[kind]}>({a}, {b}, {c})")
    if mode := _mode(i):
        return _write(i, names, f"fma_in({mode}, {a}, {b}, {c})")
    return _write(i, names, f"{'__builtin_fmaf' if kind == 'f32' else '__builtin_fma'}({a}, {b}, {c})")


def named_two(i: Instruction, names: Names) -> str:
    """min and max."""
    kind, given, nan = _kind(i), _given(i, names), "_nan" if "NaN" in i.modifiers else ""
    if kind in _SMALL:
        return _write(i, names, _small(kind, i.op + nan, *given))
    name = {"min": "lesser", "max": "greater"}[i.op] + nan
    value = given[0]
    for other in given[1:]:
        value = f"{name}({value}, {other})"
    return _write(i, names, value)


def one(i: Instruction, names: Names) -> str:
    """neg and abs."""
    kind, (a,) = _kind(i), _given(i, names)
    if kind in _SMALL:
        sign = "0x80008000u" if kind.endswith("x2") else "0x8000u"
        return _write(i, names, f"({a} ^ {sign})" if i.op == "neg" else f"({a} & ~{sign})")
    return _write(i, names, f"(-{a})" if i.op == "neg" else f"std::fabs({a})")


def comparison(compare: str, kind: str, a: str, b: str) -> str:
    """As `arithmetic.comparison`, of floats."""
    if kind in _SMALL:
        if kind.endswith("x2"):
            raise PtxError(f"comparisons of {kind} are not known")
        a, b = f"{_SMALL[kind]}::up({a})", f"{_SMALL[kind]}::up({b})"
    if compare in ("num", "nan"):
        return f"(({a} == {a} && {b} == {b}) == {'true' if compare == 'num' else 'false'})"
    unordered = len(compare) == 3
    name = compare[:2]
    # the negation of the opposite holds with a NaN, too
    plain = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    opposite = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<"}
    if name == "ne":
        return f"({a} != {b})" if unordered else f"({a} < {b} || {a} > {b})"
    if name == "eq":
        return f"(!({a} < {b} || {a} > {b}))" if unordered else f"({a} == {b})"
    return f"(!({a} {opposite[name]} {b}))" if unordered else f"({a} {plain[name]} {b})"


def _root(i: Instruction, names: Names) -> str:
    (a,) = _given(i, names)
    if mode := _mode(i):
        return _write(i, names, f"sqrt_in({mode}, {a})")
    return _write(i, names, f"sqrt_approx({a})" if "approx" in i.modifiers else f"std::sqrt({a})")


def _reciprocal(i: Instruction, names: Names) -> str:
    (a,) = _given(i, names)
    if mode := _mode(i):
        return _write(i, names, f"div_in({mode}, {'1.0f' if _kind(i) == 'f32' else '1.0'}, {a})")
    return _write(i, names, f"rcp_approx({a})" if "approx" in i.modifiers else f"(1 / {a})")


def _approximate(i: Instruction, names: Names) -> str:
    kind, (a,) = _kind(i), _given(i, names)
    coarse = i.op == "rsqrt" and kind == "f64" and "ftz" in i.modifiers
    name = f"{i.op}_approx_ftz" if coarse else f"{i.op}_approx"
    if kind in _SMALL:
        small, one = (
            _SMALL[kind],
            f"[](u16 a, u16) {{ return {_SMALL[kind]}::down({name}({_SMALL[kind]}::up(a))); }}",
        )
        if kind.endswith("x2"):
            return _write(i, names, f"pairwise<{small}>({a}, {a}, {one})")
        return _write(i, names, f"{small}::down({name}({small}::up({a})))")
    return _write(i, names, f"{name}({a})")


def _copysign(i: Instruction, names: Names) -> str:
    a, b = _given(i, names)
    return _write(i, names, f"std::copysign({b}, {a})")


def _testp(i: Instruction, names: Names) -> str:
    a = names.read(i.operands[1], _kind(i))
    tests = {
        "finite": f"std::isfinite({a})",
        "infinite": f"std::isinf({a})",
        "number": f"!std::isnan({a})",
        "notanumber": f"std::isnan({a})",
        "normal": f"std::isnormal({a})",
        "subnormal": f"(std::fpclassify({a}) == FP_SUBNORMAL)",
    }
    return names.write(i.operands[0], "pred", tests[i.modifiers[0]])


INSTRUCTIONS: dict[str, Callable[[Instruction, Names], str]] = {
    "fma": fma,
    "sqrt": _root,
    "rcp": _reciprocal,
    "copysign": _copysign,
    "testp": _testp,
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh", "rsqrt"), _approximate),
}
