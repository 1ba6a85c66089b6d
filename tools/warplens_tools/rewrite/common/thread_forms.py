# SPDX-License-Identifier: Apache-2.0
"""Which forms, and which code, number the threads of a launch."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.values.forms import Form
from warplens_tools.rewrite.common.declared import Declared
from warplens_tools.rewrite.common.reading import View


def axis_letter(form: Form | None, site: LaunchSite | None) -> str:
    """ "x" of `blockIdx.x * blockDim.x + threadIdx.x`, or with the block's size for `blockDim.x`; "" of all else.

    A constant may be added.
    """
    terms = {symbols: factor for symbols, factor in form.terms if symbols} if form is not None else {}
    if len(terms) != 2:
        return ""
    for number, letter in enumerate("xyz"):
        names = {tuple(s.name for s in symbols): factor for symbols, factor in terms.items()}
        if names.get((f"threadIdx.{letter}",)) != 1:
            continue
        if names.get((f"blockDim.{letter}", f"blockIdx.{letter}")) == 1:
            return letter
        extent = site.block_value[number] if site is not None else None
        return letter if extent is not None and names.get((f"blockIdx.{letter}",)) == extent else ""
    return ""


def is_grids(form: Form, letter: str, extent: int | None) -> bool:
    """Whether a form is the number of the grid's threads along an axis, with blocks of `extent` where that is known."""
    if len(form.terms) != 1:
        return False
    symbols, factor = form.terms[0]
    names = sorted(s.name for s in symbols)
    if names == [f"blockDim.{letter}", f"gridDim.{letter}"]:
        return factor == 1
    return names == [f"gridDim.{letter}"] and factor == extent


def declared_number(view: View, declared: Iterable[Declared], site: LaunchSite | None) -> Declared | None:
    """The first variable that is given the thread's number in the grid along x, and nothing added."""
    for one in declared:
        form = view.forms.form(one.value) if one.value is not None else None
        if form is not None and not form.constant and axis_letter(form, site) == "x":
            return one
    return None


def places_thread(code: str, letters: str) -> bool:
    """Whether code says which thread or block runs it, on these axes of the launch."""
    return (
        re.search(rf"\b(?:threadIdx|blockDim|gridDim|laneid)\b|\bblockIdx\s*\.\s*[{letters}]", code)
        is not None
    )
