# SPDX-License-Identifier: Apache-2.0
"""What its launches pass to a kernel, where it is an integer that the text fixes."""

from __future__ import annotations

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import constants_of


def _values(
    tree: SourceTree, names: tuple[str, ...], sites: tuple[LaunchSite, ...]
) -> dict[str, tuple[int, ...]]:
    passed = [_passed(tree, site) for site in sites]
    found: dict[str, tuple[int, ...]] = {}
    for index, name in enumerate(names):
        values = [each[index] if index < len(each) else None for each in passed]
        known = tuple(value for value in values if value is not None)
        if len(known) == len(values):
            found[name] = known
    return found


def _passed(tree: SourceTree, site: LaunchSite) -> tuple[int | None, ...]:
    if site.path or site.argument_values:
        return site.argument_values
    at = tree.text.offset(site.span.line, site.span.column)
    constants = constants_of(tree)
    return tuple(constants.value(argument, at) for argument in site.arguments)


def argument_values(tree: SourceTree, model: SourceModel, kernel: Kernel) -> dict[str, int]:
    """Integer parameters whose value every launch that is known of agrees on, by name."""
    return {name: found[0] for name, found in _of(tree, model, kernel).items() if len(set(found)) == 1}


def largest_arguments(tree: SourceTree, model: SourceModel, kernel: Kernel) -> dict[str, int]:
    """Integer parameters whose value every launch that is known of fixes, and the largest of these, by name."""
    return {name: max(found) for name, found in _of(tree, model, kernel).items()}


def _of(tree: SourceTree, model: SourceModel, kernel: Kernel) -> dict[str, tuple[int, ...]]:
    sites = model.all_launches_of(kernel)
    names = tuple(p.name for p in kernel.parameters)
    return tree.remembered(("arguments", names, sites), lambda: _values(tree, names, sites)) if sites else {}
