# SPDX-License-Identifier: Apache-2.0
"""What its launches pass to a kernel, where it is an integer that the text fixes."""

from __future__ import annotations

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import constants_of


def _values(
    tree: SourceTree, names: tuple[str, ...], sites: tuple[LaunchSite, ...], *, untold: bool
) -> dict[str, tuple[int, ...]]:
    passed = [_passed(tree, site, untold=untold) for site in sites]
    found: dict[str, tuple[int, ...]] = {}
    for index, name in enumerate(names):
        values = [each[index] if index < len(each) else None for each in passed]
        known = tuple(value for value in values if value is not None)
        if len(known) == len(values):
            found[name] = known
    return found


def _passed(tree: SourceTree, site: LaunchSite, *, untold: bool) -> tuple[int | None, ...]:
    if site.path or site.argument_values:
        return site.argument_values
    at = tree.text.offset(site.span.line, site.span.column)
    constants = constants_of(tree).untold() if untold else constants_of(tree)
    return tuple(constants.value(argument, at) for argument in site.arguments)


def argument_values(
    tree: SourceTree, model: SourceModel, kernel: Kernel, *, untold: bool = False
) -> dict[str, int]:
    """Integer parameters whose value every launch that is known of agrees on, by name; `untold`: in a run of the
    program without arguments."""
    found = _of(tree, model, kernel, untold=untold)
    return {name: values[0] for name, values in found.items() if len(set(values)) == 1}


def largest_arguments(tree: SourceTree, model: SourceModel, kernel: Kernel) -> dict[str, int]:
    """Integer parameters whose value every launch that is known of fixes, and the largest of these, by name."""
    return {name: max(found) for name, found in _of(tree, model, kernel, untold=False).items()}


def _of(tree: SourceTree, model: SourceModel, kernel: Kernel, *, untold: bool) -> dict[str, tuple[int, ...]]:
    sites = model.all_launches_of(kernel)
    names = tuple(p.name for p in kernel.parameters)
    if not sites:
        return {}
    key = ("arguments", names, sites, untold)
    return tree.remembered(key, lambda: _values(tree, names, sites, untold=untold))
