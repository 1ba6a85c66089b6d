# SPDX-License-Identifier: Apache-2.0
"""What the launches of a file pass to a kernel, where it is an integer that the file fixes."""

from __future__ import annotations

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import constants_of


def _values(
    tree: SourceTree, names: tuple[str, ...], sites: tuple[tuple[int, tuple[str, ...]], ...]
) -> dict[str, int]:
    constants = constants_of(tree)
    found: dict[str, int] = {}
    for index, name in enumerate(names):
        values = {constants.value(texts[index], at) if index < len(texts) else None for at, texts in sites}
        value = values.pop() if len(values) == 1 else None
        if value is not None:
            found[name] = value
    return found


def argument_values(tree: SourceTree, model: SourceModel, kernel: Kernel) -> dict[str, int]:
    """Integer parameters whose value every launch of the file agrees on, by name."""
    sites = tuple(
        (tree.text.offset(site.span.line, site.span.column), site.arguments)
        for site in model.launches_of(kernel)
    )
    names = tuple(p.name for p in kernel.parameters)
    return tree.remembered(("arguments", names, sites), lambda: _values(tree, names, sites)) if sites else {}
