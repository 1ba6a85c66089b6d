# SPDX-License-Identifier: Apache-2.0
"""What a kernel declares before its work, with what is loaded for an output behind the test that there is one."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.common.declared import Declared
from warplens_tools.rewrite.common.outputs import Axis, head_of
from warplens_tools.rewrite.common.reading import WORD, View

_LOADS = frozenset({"subscript_expression", "pointer_expression", "call_expression"})


def guarded_head(
    view: View, axes: Sequence[Axis], declared: Sequence[Declared], absent: Sequence[str]
) -> list[str]:
    """The declarations, and a return where one of the conditions `absent`, as written, says that there is no output.

    Raises:
        Refused: as `head_of`.
    """
    if not absent:
        return head_of(view, axes, declared)
    late = loaded(view, declared, absent)
    lines = head_of(view, axes, [d for d in declared if d not in late])
    return [*lines, f"if ({' || '.join(absent)}) return;", *head_of(view, (), late)]


def loaded(view: View, declared: Sequence[Declared], absent: Sequence[str]) -> list[Declared]:
    """What is loaded or computed by a call, and what is made of it, but for what the conditions rest on."""
    asked = set(WORD.findall(" ".join(absent)))
    for one in reversed(declared):
        if one.name in asked and one.value is not None:
            asked |= view.names(one.value)
    late = list[Declared]()
    for one in declared:
        if one.value is None or one.name in asked:
            continue
        is_made = view.names(one.value) & {d.name for d in late}
        if is_made or any(n.type in _LOADS for n in walk(one.value)):
            late.append(one)
    return late
