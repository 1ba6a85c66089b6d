# SPDX-License-Identifier: Apache-2.0
"""Where atomics go."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.rewrite.common.reading import View


def target_type(view: View, node: Node) -> str:
    """The type behind a pointer to global memory: `out`, `&out[1]`, `&total->count`; "" where it is not known."""
    pointer = view.pointers.pointer(node)
    if pointer is not None:
        return pointer.element_type if pointer.space == "global" else ""
    member = re.fullmatch(r"&\s*\(?\s*(\w+)\s*->\s*([\w.]+)\s*\)?", view.code(node))
    owner = view.pointers.parameters.get(member[1]) if member else None
    if member is None or owner is None:
        return ""
    found = layouts_of(view.tree).member(owner.element_type, member[2])
    return found.type if found is not None and not found.pointer else ""
