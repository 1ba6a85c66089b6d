# SPDX-License-Identifier: Apache-2.0
"""Offsets in elements of one size, said in elements of another: `(float*)((char*)p + y * pitch)`."""

from __future__ import annotations

import math

from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form, Monomial, Symbol


def rescaled(offset: Form | None, old: int | None, new: int | None) -> Form | None:
    """An offset in elements of `old` bytes, in elements of `new` bytes; None where it does not divide.

    A number of the launch that bytes are multiplied by, a pitch, is taken for a multiple of the larger element: rows
    begin at elements.
    """
    if offset is None or offset == forms.ZERO:
        return offset
    if old is None or new is None:
        return None
    found = [_divided(symbols, factor * old, new, pitched=old == 1) for symbols, factor in offset.terms]
    kept = tuple(one for one in found if one is not None)
    return Form(kept) if len(kept) == len(found) else None


def _divided(symbols: Monomial, factor: int, by: int, *, pitched: bool) -> tuple[Monomial, int] | None:
    """One term by the size of an element."""
    common = math.gcd(factor, by)
    rest = by // common
    if rest == 1:
        return symbols, factor // by
    pitch = next((s for s in symbols if s.kind == "parameter"), None)
    if pitch is None or not pitched:
        return None
    part = Symbol(f"{pitch.name} / {rest}", "parameter")
    return tuple(sorted((*(s for s in symbols if s is not pitch), part), key=_order)), factor // common


def _order(symbol: Symbol) -> str:
    return symbol.name
