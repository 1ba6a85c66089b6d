# SPDX-License-Identifier: Apache-2.0
"""What its launches pass to a kernel, where it is an integer that the text fixes."""

from __future__ import annotations

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import constants_of


def _values(tree: SourceTree, names: tuple[str, ...], sites: tuple[LaunchSite, ...]) -> dict[str, int]:
    passed = [_passed(tree, site) for site in sites]
    found: dict[str, int] = {}
    for index, name in enumerate(names):
        values = {each[index] if index < len(each) else None for each in passed}
        value = values.pop() if len(values) == 1 else None
        if value is not None:
            found[name] = value
    return found


def _passed(tree: SourceTree, site: LaunchSite) -> tuple[int | None, ...]:
    if site.path or site.argument_values:
        return site.argument_values
    at = tree.text.offset(site.span.line, site.span.column)
    constants = constants_of(tree)
    return tuple(constants.value(argument, at) for argument in site.arguments)


def argument_values(tree: SourceTree, model: SourceModel, kernel: Kernel) -> dict[str, int]:
    """Integer parameters whose value every launch that is known of agrees on, by name."""
    sites = model.all_launches_of(kernel)
    names = tuple(p.name for p in kernel.parameters)
    return tree.remembered(("arguments", names, sites), lambda: _values(tree, names, sites)) if sites else {}
